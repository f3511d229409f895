// Package httpapi is the HTTP side of Bough: routes, credentials, validation and errors, and for each operation of
// the contract a handler that turns a request into one call of a service. It is the only package that knows HTTP, gin
// and the generated server types; rules about branches, keys and the like are in the services.
package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/boughdb/bough/gen/api"
	"github.com/boughdb/bough/server/audit"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/branching"
	"github.com/boughdb/bough/server/events"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/limits"
	"github.com/boughdb/bough/server/oauth"
	"github.com/boughdb/bough/server/repohost"
	"github.com/boughdb/bough/server/tables"
	"github.com/boughdb/bough/server/users"
)

// API serves the operations of the contract.
type API struct {
	Branches *branching.Service
	Repohost *repohost.Service
	Keys     *auth.Keys
	Tokens   *auth.Tokens
	Users    *users.Service
	Events   *events.Service
	// Room returns an error when the disk has no room for what makes the control database grow; nil allows everything.
	Room func() error
	// Checks are what /readyz looks at, by name.
	Checks map[string]func(context.Context) error
	Log    *slog.Logger
	// Metrics gets the request metrics; nil for none.
	Metrics prometheus.Registerer
	// Tables serves the records, Schemas knows the catalogs behind them.
	Tables  *tables.Service
	Schemas *introspect.Cache
	// AnonymousAccess lets data requests come without credentials.
	AnonymousAccess bool
	// PrivateDocument asks for credentials for /openapi.json, and shows what their role may do.
	PrivateDocument bool
	// AllowedOrigins are the origins whose pages may read answers; "*" is any.
	AllowedOrigins []string
	// PublicURL is where clients reach the server; "" leaves it to them.
	PublicURL string
	// AllowedHosts are the names, besides loopback's, that requests may be for; nil lets all pass.
	AllowedHosts []string
	// TrustedProxies may say for whom they ask (X-Forwarded-For): CIDRs; empty trusts none.
	TrustedProxies []string
	// OAuth lets users allow MCP clients; nil when that is switched off. MCPPath is where the MCP server is, and MCP what
	// answers there; nil when it is switched off.
	OAuth       *oauth.Service
	OAuthConfig oauth.Config
	MCPPath     string
	MCP         http.Handler
	Audit       *audit.Log
	// Pace is how fast clients must send bodies and take the answers of data requests; zero for no limit.
	Pace limits.Pace
	// Memory bounds the memory of large bodies; nil for no bound.
	Memory *limits.Budget

	documents documents
}

var _ api.StrictServerInterface = (*API)(nil)

// Limits of a request.
const (
	maxBody = 1 << 20
	// How long a request may take that does not wait for an operation's end. A database that does not answer any more
	// must not leave its clients without an answer too.
	requestTimeout = 30 * time.Second
)

// Handler returns the handler of all operations.
func (a *API) Handler() (http.Handler, error) {
	engine, err := a.engine()
	if err != nil {
		return nil, err
	}
	return a.paceBodies(a.crossOrigin(engine)), nil
}

// engine routes the operations.
func (a *API) engine() (*gin.Engine, error) {
	gin.SetMode(gin.ReleaseMode)
	spec, err := api.GetSpec()
	if err != nil {
		return nil, fmt.Errorf("reading the contract: %w", err)
	}
	engine := gin.New()
	// A handler's context is then the request's, so that it sees the client go. Nothing that outlives the request may
	// keep it: gin uses the object again.
	engine.ContextWithFallback = true
	// Parameters are decoded by decodePath: gin's own way would turn a plus into a space.
	engine.UseEscapedPath = true
	engine.UnescapePathValues = false
	engine.RedirectTrailingSlash = false
	engine.HandleMethodNotAllowed = true
	if err := engine.SetTrustedProxies(a.TrustedProxies); err != nil {
		return nil, fmt.Errorf("trusted proxies: %w", err)
	}
	operations := operationsOf(spec)
	engine.Use(a.requestID, a.observe(), a.recover, a.checkHost, a.decodePath, a.describeCaching(operations))
	engine.NoRoute(func(c *gin.Context) { a.writeError(c, errNoRoute) })
	engine.NoMethod(func(c *gin.Context) {
		a.writeError(c, errNoMethod.Msgf("%s is not served here; %s is", c.Request.Method, c.Writer.Header().Get("Allow")))
	})

	strict := api.NewStrictHandlerWithOptions(a, []api.StrictMiddlewareFunc{refuseNil}, api.StrictGinServerOptions{
		RequestErrorHandlerFunc:  func(c *gin.Context, err error) { a.writeError(c, badRequest(err)) },
		HandlerErrorFunc:         a.writeError,
		ResponseErrorHandlerFunc: a.writeError,
	})
	group := engine.Group("", limitTime, limitBody, a.authenticate(operations), a.validate(operations), a.checkRoom(operations))
	api.RegisterHandlersWithOptions(group, strict, api.GinServerOptions{
		ErrorHandler: func(c *gin.Context, err error, _ int) { a.writeError(c, badRequest(err)) },
	})
	a.registerTables(engine)
	a.registerDocuments(engine)
	a.registerWebhooks(engine)
	a.registerOAuth(engine)
	if a.MCP != nil {
		engine.Any(a.MCPPath, gin.WrapH(a.MCP))
	}
	return engine, nil
}

// crossOrigin lets pages of other origins read answers: of OAuth's public endpoints any page, of the MCP server those that
// its own rules let, of the rest those of the setting.
func (a *API) crossOrigin(engine http.Handler) http.Handler {
	rest := allowOrigins(a.AllowedOrigins, engine)
	public := allowAny(engine)
	open := a.crossOriginPaths()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case a.MCP != nil && r.URL.Path == a.MCPPath:
			engine.ServeHTTP(w, r)
		case slices.Contains(open, r.URL.Path):
			public.ServeHTTP(w, r)
		default:
			rest.ServeHTTP(w, r)
		}
	})
}

// operation is an operation of the contract with what the validator needs to know of it.
type operation struct {
	*openapi3.Operation
	spec *openapi3.T
	item *openapi3.PathItem
	path string
}

// operationsOf lists the contract's operations by method and gin path.
func operationsOf(spec *openapi3.T) map[string]operation {
	out := map[string]operation{}
	for path, item := range spec.Paths.Map() {
		for method, op := range item.Operations() {
			out[method+" "+ginPath(path)] = operation{op, spec, item, path}
		}
	}
	return out
}

// ginPath turns {id} into :id.
func ginPath(path string) string {
	out := make([]byte, 0, len(path))
	for i := range len(path) {
		switch path[i] {
		case '{':
			out = append(out, ':')
		case '}':
		default:
			out = append(out, path[i])
		}
	}
	return string(out)
}

// refuseNil turns a handler's forgotten answer into an error; it would be an empty 200.
func refuseNil(next api.StrictHandlerFunc, operationID string) api.StrictHandlerFunc {
	return func(c *gin.Context, request any) (any, error) {
		response, err := next(c, request)
		if err == nil && response == nil {
			err = fmt.Errorf("%s returned no answer", operationID)
		}
		return response, err
	}
}
