// Package mcp serves the Model Context Protocol: the tools, documents and prompts that assistants use, over streamable
// HTTP, in the revision of 2026-07-28 and in the older ones with sessions at the same address. It owns what stands before
// the tools: who may call, which scopes a tool needs, what the address narrows, limits, questions to the person behind the
// assistant, records. The tools themselves are in datatools and schematools; the protocol is the SDK's.
package mcp

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/yosida95/uritemplate/v3"
)

// Server is an MCP server. It is an http.Handler for one address, which is to have no redirects.
type Server struct {
	cfg     Config
	origins []string
	limiter *limiter
	// work is the longest that a tool works, or a document is read.
	work time.Duration

	tools, resources, prompts map[string]*operation
	templates                 []*operation
	completers                map[[2]string]Completer // by reference and argument

	sdk      *sdk.Server
	fast     *fast
	handlers map[era]http.Handler
	sessions sessions
	closed   atomic.Bool
}

var _ http.Handler = (*Server)(nil)

// New returns a server. The error says what the program got wrong.
func New(cfg Config) (*Server, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("the MCP server: %w", err)
	}
	s := newServer(cfg)
	s.serve(s.options())
	return s, nil
}

func newServer(cfg Config) *Server {
	s := &Server{
		cfg: cfg, limiter: newLimiter(cfg.RateLimit), work: workLimit,
		tools: map[string]*operation{}, resources: map[string]*operation{}, prompts: map[string]*operation{},
		completers: map[[2]string]Completer{}, sessions: sessions{owned: map[string][]*sdk.ServerSession{}},
	}
	if own := originOf(cfg.ResourceURL); own != "" {
		s.origins = append(s.origins, own)
	}
	for _, origin := range cfg.AllowedOrigins {
		s.origins = append(s.origins, strings.ToLower(strings.TrimSuffix(origin, "/")))
	}
	return s
}

// options are the SDK's. Lists do not change while the program runs, so that nobody is told of changes.
func (s *Server) options() *sdk.ServerOptions {
	o := &sdk.ServerOptions{
		Instructions: s.cfg.Instructions,
		PageSize:     10_000, // more than there is: filtering must not thin out pages
		Capabilities: &sdk.ServerCapabilities{},
		SetCacheable: cacheable,
	}
	if len(s.cfg.Tools) > 0 {
		o.Capabilities.Tools = &sdk.ToolCapabilities{}
	}
	if len(s.cfg.Resources)+len(s.cfg.Templates) > 0 {
		o.Capabilities.Resources = &sdk.ResourceCapabilities{}
	}
	if len(s.cfg.Prompts) > 0 {
		o.Capabilities.Prompts = &sdk.PromptCapabilities{}
	}
	if len(s.cfg.Completions) > 0 {
		o.CompletionHandler = s.complete
	}
	return o
}

// serve makes the SDK's server and registers everything with it.
func (s *Server) serve(o *sdk.ServerOptions) {
	self := &sdk.Implementation{Name: "bough", Title: "Bough", Version: s.cfg.Version}
	s.sdk = sdk.NewServer(self, o)
	s.sdk.AddReceivingMiddleware(s.receive)
	s.fast = s.newFast(self)
	for _, t := range s.cfg.Tools {
		s.tools[t.Name] = &operation{kind: "tool", name: t.Name, feature: t.Feature, scopes: t.Scopes, readOnly: t.ReadOnly, admin: t.Administrators}
		offer, handler := t.offer(), s.tool(t)
		s.sdk.AddTool(offer, handler)
		s.fast.list(offer)
		s.fast.tools[t.Name] = handler
	}
	for _, r := range s.cfg.Resources {
		s.resources[r.URI] = &operation{kind: "resource", name: r.URI, feature: r.Feature, scopes: r.Scopes, readOnly: true}
		s.sdk.AddResource(&sdk.Resource{
			URI: r.URI, Name: r.Name, Title: r.Title, Description: r.Description, MIMEType: r.MIMEType,
		}, s.resource(r))
	}
	for _, t := range s.cfg.Templates {
		template := uritemplate.MustNew(t.URITemplate)
		s.templates = append(s.templates, &operation{
			kind: "resource", name: t.URITemplate, feature: t.Feature, scopes: t.Scopes, readOnly: true, template: template,
		})
		s.sdk.AddResourceTemplate(&sdk.ResourceTemplate{
			URITemplate: t.URITemplate, Name: t.Name, Title: t.Title, Description: t.Description, MIMEType: t.MIMEType,
		}, s.template(t, template))
	}
	slices.SortFunc(s.templates, func(a, b *operation) int { return strings.Compare(a.name, b.name) })
	for _, p := range s.cfg.Prompts {
		s.prompts[p.Name] = &operation{kind: "prompt", name: p.Name, feature: p.Feature, scopes: p.Scopes, readOnly: true}
		s.sdk.AddPrompt(p.offer(), s.prompt(p))
	}
	for _, c := range s.cfg.Completions {
		s.completers[[2]string{c.Ref, c.Argument}] = c.Complete
	}
	get := func(*http.Request) *sdk.Server { return s.sdk }
	// Behind a proxy, the address that the server listens on is a loopback one and the Host is not: the guard's check of
	// the Origin is what keeps pages out.
	handler := func(o sdk.StreamableHTTPOptions) http.Handler {
		o.PropagateRequestCancellation, o.DisableLocalhostProtection = true, true
		return handOver(sdk.NewStreamableHTTPHandler(get, &o))
	}
	s.handlers = map[era]http.Handler{
		stateless: handler(sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true}),
		streaming: handler(sdk.StreamableHTTPOptions{Stateless: true}),
		stateful:  handler(sdk.StreamableHTTPOptions{SessionTimeout: sessionIdle}),
	}
	s.handlers[bare] = s.handlers[stateless]
}

// cacheable says how long clients may take an answer for the present one. Lists depend on the token, so none is to be
// shared, and a token with more scopes should soon show more.
func cacheable(_ context.Context, req sdk.Request, c *sdk.Cacheable) {
	c.CacheScope = "private"
	switch req.(type) {
	case *sdk.ReadResourceRequest:
		c.TTLMs = 0
	case *sdk.ServerRequest[*sdk.DiscoverParams]:
		c.TTLMs = 300_000
	default:
		c.TTLMs = 60_000
	}
}

// Handler returns the server as the handler of its address.
func (s *Server) Handler() http.Handler { return s }

// Close ends the sessions and their streams, and returns when what they were doing is done. New requests are refused. It
// is to be called when the HTTP server begins to shut down, which waits for streams.
func (s *Server) Close() {
	s.closed.Store(true)
	var ending sync.WaitGroup
	for session := range s.sdk.Sessions() {
		if session.ID() != "" { // the others end with their requests
			ending.Go(func() { _ = session.Close() })
		}
	}
	ending.Wait()
	s.sessions.ending.Wait()
}
