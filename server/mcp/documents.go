package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/yosida95/uritemplate/v3"

	"github.com/boughdb/bough/server/fault"
)

// reading is the call of what is no tool: it works on the branch of the address.
func (s *Server) reading(ctx context.Context, c *caller, name string, client *sdk.Implementation) (*Call, error) {
	call := &Call{Principal: c.principal, Tool: name, RequestID: c.requestID}
	if client != nil {
		call.Client = client.Name
	}
	var err error
	call.Branch, call.Database, err = s.cfg.Route(ctx, c.principal, c.narrow.branch, false)
	return call, err
}

// read reads a document.
func (s *Server) read(ctx context.Context, req *sdk.ReadResourceRequest, name, mimeType string, text func(context.Context, *Call) (string, error)) (*sdk.ReadResourceResult, error) {
	c := callerOf(req)
	ctx, cancel := context.WithTimeout(ctx, s.work)
	defer cancel()
	call, err := s.reading(ctx, c, name, req.ClientInfo())
	if err == nil {
		var content string
		if content, err = text(ctx, call); err == nil {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: req.Params.URI, MIMEType: mimeType, Text: content}}}, nil
		}
	}
	var f *fault.Error
	if errors.As(err, &f) && f.Kind == fault.NotFound {
		return nil, sdk.ResourceNotFoundError(req.Params.URI)
	}
	return nil, s.rpcFault(ctx, c, "resources/read "+name, err)
}

func (s *Server) resource(r Resource) sdk.ResourceHandler {
	return func(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return s.read(ctx, req, r.URI, r.MIMEType, r.Read)
	}
}

func (s *Server) template(t Template, pattern *uritemplate.Template) sdk.ResourceHandler {
	return func(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return s.read(ctx, req, t.URITemplate, t.MIMEType, func(ctx context.Context, call *Call) (string, error) {
			variables := map[string]string{}
			for name, value := range pattern.Match(req.Params.URI) {
				variables[name] = value.String()
			}
			return t.Read(ctx, call, req.Params.URI, variables)
		})
	}
}

// offer is the prompt as lists show it.
func (p Prompt) offer() *sdk.Prompt {
	out := &sdk.Prompt{Name: p.Name, Title: p.Title, Description: p.Description}
	for _, a := range p.Arguments {
		out.Arguments = append(out.Arguments, &sdk.PromptArgument{Name: a.Name, Title: a.Title, Description: a.Description, Required: a.Required})
	}
	return out
}

func (s *Server) prompt(p Prompt) sdk.PromptHandler {
	return func(ctx context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		c := callerOf(req)
		ctx, cancel := context.WithTimeout(ctx, s.work)
		defer cancel()
		if err := p.check(req.Params.Arguments); err != nil {
			return nil, err
		}
		call, err := s.reading(ctx, c, p.Name, req.ClientInfo())
		if err == nil {
			var text string
			if text, err = p.Render(ctx, call, req.Params.Arguments); err == nil {
				return &sdk.GetPromptResult{
					Description: p.Description, Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: text}}},
				}, nil
			}
		}
		return nil, s.rpcFault(ctx, c, "prompts/get "+p.Name, err)
	}
}

// check holds arguments against the declared ones.
func (p Prompt) check(arguments map[string]string) error {
	wrong := func(format string, args ...any) error {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
	}
	declared := map[string]bool{}
	for _, a := range p.Arguments {
		declared[a.Name] = true
		if a.Required && arguments[a.Name] == "" {
			return wrong("the prompt %s needs the argument %q", p.Name, a.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		if !declared[name] {
			return wrong("the prompt %s has no argument %q", p.Name, shorten(name))
		}
	}
	return nil
}

// Most values of a completion: the protocol's.
const maxCompletions = 100

// complete suggests values to callers who may use what they are for.
func (s *Server) complete(ctx context.Context, req *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
	c := callerOf(req)
	name := req.Params.Ref.Name
	o := s.prompts[name]
	if req.Params.Ref.Type == "ref/resource" {
		name, o = req.Params.Ref.URI, nil
		if i := slices.IndexFunc(s.templates, func(o *operation) bool { return o.name == name }); i >= 0 {
			o = s.templates[i]
		}
	}
	if o == nil && s.resources[name] == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("there is nothing to complete: %q", shorten(name))}
	}
	result := &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{}}}
	suggest := s.completers[[2]string{name, req.Params.Argument.Name}]
	if suggest == nil || !c.visible(o) {
		return result, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.work)
	defer cancel()
	var known map[string]string
	if req.Params.Context != nil {
		known = req.Params.Context.Arguments
	}
	call, err := s.reading(ctx, c, name, req.ClientInfo())
	if err != nil {
		return nil, s.rpcFault(ctx, c, "completion/complete", err)
	}
	values, err := suggest(ctx, call, req.Params.Argument.Name, req.Params.Argument.Value, known)
	if err != nil {
		return nil, s.rpcFault(ctx, c, "completion/complete", err)
	}
	result.Completion.Total = len(values)
	result.Completion.HasMore = len(values) > maxCompletions
	result.Completion.Values = append(result.Completion.Values, values[:min(len(values), maxCompletions)]...)
	return result, nil
}
