package mcp

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/boughdb/bough/server/fault"
)

// recorded calls a tool that the caller may call and tells Audit of it, also where she may not. A question and its answer
// within one request are one call.
func (s *Server) recorded(ctx context.Context, c *caller, req *sdk.CallToolRequest, call func(context.Context) (sdk.Result, error)) (sdk.Result, error) {
	began := time.Now()
	e := &Event{Principal: c.principal, Tool: req.Params.Name, Outcome: Refused, RequestID: c.requestID}
	if info := req.ClientInfo(); info != nil {
		e.Client = info.Name
	}
	if s.cfg.Audit != nil {
		defer func() {
			e.Duration = time.Since(began)
			s.cfg.Audit(context.WithoutCancel(ctx), *e)
		}()
	}
	if err := c.may(s.tools[req.Params.Name]); err != nil {
		e.Code = "access_denied"
		return nil, err
	}
	if s.tools[req.Params.Name] == nil {
		e.Code = "not_found"
	}
	return call(context.WithValue(ctx, eventKey{}, e))
}

type eventKey struct{}

// auditRefused tells Audit of the calls of a request that the guard refused.
func (s *Server) auditRefused(ctx context.Context, c *caller, messages []message, f *refusal) {
	if s.cfg.Audit == nil {
		return
	}
	for i := range messages {
		if messages[i].method == "tools/call" {
			s.cfg.Audit(context.WithoutCancel(ctx), Event{
				Principal: c.principal, Client: messages[i].client, Tool: messages[i].name, Outcome: Refused, Code: f.code, RequestID: c.requestID,
			})
		}
	}
}

// tool is a tool's handler. What is wrong with a call is told in its result, where the model sees it and can do better.
func (s *Server) tool(t Tool) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		c := callerOf(req)
		e, _ := ctx.Value(eventKey{}).(*Event)
		if c == nil || e == nil {
			return nil, errors.New("a tool was called past the guard")
		}
		ctx, cancel := context.WithTimeout(ctx, s.work)
		defer cancel()
		result, err := s.call(ctx, c, e, t, req)
		var question *question
		var rpc *jsonrpc.Error
		switch {
		case errors.As(err, &question):
			e.Outcome, e.Code = Asked, ""
			return question.result, nil
		case errors.As(err, &rpc):
			e.Outcome, e.Code = Refused, "invalid_state"
			return nil, rpc
		case err != nil:
			return s.failed(ctx, c, e, t, err), nil
		}
		written, err := t.render(result)
		if err != nil {
			return s.failed(ctx, c, e, t, err), nil
		}
		e.Outcome, e.Code = Succeeded, ""
		return written, nil
	}
}

// failed is the result of a call that did not work.
func (s *Server) failed(ctx context.Context, c *caller, e *Event, t Tool, err error) *sdk.CallToolResult {
	f := s.faultOf(ctx, c, "tools/call "+t.Name, err)
	text := hidden(c)
	e.Outcome, e.Code = Failed, "internal_error"
	if f != nil {
		text, e.Code = explain(f), f.Code
	}
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// call does the work of a call.
func (s *Server) call(ctx context.Context, c *caller, e *Event, t Tool, req *sdk.CallToolRequest) (result *Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			result, err = nil, fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	given, err := t.read(req.Params.Arguments)
	if err != nil {
		return nil, err
	}
	call := &Call{Principal: c.principal, Tool: t.Name, Client: e.Client, RequestID: c.requestID}
	if err := s.route(ctx, c, call, t, given.branch); err != nil {
		return nil, err
	}
	e.Branch = call.Branch
	call.confirm = s.confirmer(c, t, given, req)
	result, err = t.run(ctx, call, given.own)
	if err == nil && result == nil {
		err = fmt.Errorf("the tool %s returned nothing", t.Name)
	}
	return result, err
}

// route finds the branch of a call. An address with ?branch= is of that branch alone: a call cannot name another one,
// neither one to work on nor, where the tool is about branches, one to look at or to change.
func (s *Server) route(ctx context.Context, c *caller, call *Call, t Tool, named string) error {
	if fixed := c.narrow.branch; fixed != "" {
		slug, database, err := s.cfg.Route(ctx, c.principal, fixed, t.Branched && !t.ReadOnly)
		if err != nil {
			return err
		}
		if named != "" && named != fixed && named != slug {
			other, _, err := s.cfg.Route(ctx, c.principal, named, false)
			if err != nil || other != slug {
				return fault.New(fault.Forbidden, "access_denied", fmt.Sprintf("the address of this server fixes the branch %q; leave the argument branch out", slug))
			}
		}
		if t.Branched {
			call.Branch, call.Database = slug, database
		}
		return nil
	}
	if !t.Branched {
		return nil
	}
	var err error
	call.Branch, call.Database, err = s.cfg.Route(ctx, c.principal, named, !t.ReadOnly)
	return err
}

// explain writes a fault for the model: what was wrong, and what to do about it.
func explain(f *fault.Error) string {
	lines := []string{f.Message}
	if f.Details != "" {
		lines = append(lines, f.Details)
	}
	if f.Hint != "" {
		lines = append(lines, "Hint: "+f.Hint)
	}
	if f.RetryAfter > 0 {
		lines = append(lines, fmt.Sprintf("Try again in %s.", f.RetryAfter.Round(time.Second)))
	}
	if f.Code != "" {
		lines = append(lines, "Code: "+f.Code)
	}
	return strings.Join(lines, "\n")
}
