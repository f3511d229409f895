package mcp

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/boughdb/bough/server/fault"
)

const (
	workLimit = 60 * time.Second
	// Longest that a request takes in which a person is asked something.
	requestLimit = 10 * time.Minute
	// An error of our own: the caller may not. The protocol's are below zero.
	codeForbidden = 403
)

// callerOf is who a request is from: of each request, also within a session.
func callerOf(req sdk.Request) *caller {
	extra := req.GetExtra()
	if extra == nil || extra.TokenInfo == nil {
		return nil
	}
	c, _ := extra.TokenInfo.Extra["caller"].(*caller)
	return c
}

// receive stands before all methods of the SDK's server. It checks again what the guard did, for what the SDK has read:
// should the two ever read a message differently, this is what counts. It also keeps a panic from ending the program,
// since methods run on goroutines of the SDK.
func (s *Server) receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (result sdk.Result, err error) {
		c := callerOf(req)
		if c == nil {
			return nil, &jsonrpc.Error{Code: codeForbidden, Message: "nobody called"}
		}
		defer func() {
			if v := recover(); v != nil {
				result, err = nil, s.internal(c, method, fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
			}
		}()
		if method != "subscriptions/listen" {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, requestLimit)
			defer cancel()
		}
		switch req := req.(type) {
		case *sdk.CallToolRequest:
			return s.recorded(ctx, c, req, func(ctx context.Context) (sdk.Result, error) { return next(ctx, method, req) })
		case *sdk.ReadResourceRequest:
			err = c.may(s.document(req.Params.URI))
		case *sdk.SubscribeRequest:
			err = c.may(s.document(req.Params.URI))
		case *sdk.GetPromptRequest:
			err = c.may(s.prompts[req.Params.Name])
		}
		if err != nil {
			return nil, err
		}
		if result, err = next(ctx, method, req); err != nil {
			return nil, err
		}
		if session, ok := req.GetSession().(*sdk.ServerSession); ok && method == "initialize" && session.ID() != "" {
			s.sessions.add(identity(c.principal), session, s.sdk.Sessions())
		}
		s.filter(c, result)
		return result, nil
	}
}

// may returns an error unless the caller may do what is asked at this address. What there is not, the SDK answers.
func (c *caller) may(o *operation) error {
	switch {
	case o == nil:
		return nil
	case !o.permits(c.principal):
		return &jsonrpc.Error{Code: codeForbidden, Message: fmt.Sprintf("the %s %s needs scopes that the caller has not: %v", o.kind, o.name, o.scopes)}
	case !c.narrow.offers(o.feature, o.readOnly):
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("the %s %s is not offered at this address, which has read_only or features", o.kind, o.name)}
	}
	return nil
}

// filter takes out of lists what the caller may not have.
func (s *Server) filter(c *caller, result sdk.Result) {
	switch r := result.(type) {
	case *sdk.ListToolsResult:
		r.Tools = slices.DeleteFunc(r.Tools, func(t *sdk.Tool) bool { return !c.visible(s.tools[t.Name]) })
	case *sdk.ListResourcesResult:
		r.Resources = slices.DeleteFunc(r.Resources, func(d *sdk.Resource) bool { return !c.visible(s.resources[d.URI]) })
	case *sdk.ListResourceTemplatesResult:
		r.ResourceTemplates = slices.DeleteFunc(r.ResourceTemplates, func(t *sdk.ResourceTemplate) bool {
			return !slices.ContainsFunc(s.templates, func(o *operation) bool { return o.name == t.URITemplate && c.visible(o) })
		})
	case *sdk.ListPromptsResult:
		r.Prompts = slices.DeleteFunc(r.Prompts, func(p *sdk.Prompt) bool { return !c.visible(s.prompts[p.Name]) })
	}
}

// faultOf finds what the caller may know of an error; nil for nothing. Errors that are not told are logged here, once.
func (s *Server) faultOf(ctx context.Context, c *caller, doing string, err error) *fault.Error {
	var f *fault.Error
	switch {
	case errors.As(err, &f):
		if f.Kind == fault.Internal {
			s.log(c, doing, err)
		}
		return f
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fault.New(fault.Timeout, "timeout", fmt.Sprintf("this took longer than %s and was given up", s.work))
	case ctx.Err() != nil:
		return fault.New(fault.Timeout, "canceled", "this was canceled")
	}
	s.log(c, doing, err)
	if s.cfg.Fault != nil {
		return s.cfg.Fault(err)
	}
	return nil
}

func (s *Server) log(c *caller, doing string, err error) {
	s.cfg.Log.Error("a request failed", "error", err, "request_id", c.requestID, "method", doing, "principal", c.principal.Actor())
}

// internal logs an error and returns the one that is shown instead.
func (s *Server) internal(c *caller, doing string, err error) error {
	s.log(c, doing, err)
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: hidden(c)}
}

func hidden(c *caller) string { return "internal error (request id " + c.requestID + ")" }

// rpcFault is an error of a method that has no results to tell it with.
func (s *Server) rpcFault(ctx context.Context, c *caller, doing string, err error) error {
	f := s.faultOf(ctx, c, doing, err)
	if f == nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: hidden(c)}
	}
	code := int64(jsonrpc.CodeInternalError)
	switch f.Kind {
	case fault.Invalid, fault.NotFound:
		code = jsonrpc.CodeInvalidParams
	case fault.Forbidden:
		code = codeForbidden
	}
	return &jsonrpc.Error{Code: code, Message: explain(f)}
}
