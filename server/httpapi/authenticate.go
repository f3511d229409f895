package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/oauth"
)

// mcpKinds are the credentials that the MCP server takes: a user's access token of a sign-in is none, since it was given
// for other things (RFC 8707).
var mcpKinds = openapi3.SecurityRequirements{{"MCPToken": {}}, {"ServiceKey": {}}, {"ClientKey": {}}}

// MCPPrincipal returns the caller of the MCP server.
func (a *API) MCPPrincipal(r *http.Request) (*auth.Principal, error) {
	return a.principalFor(r, mcpKinds)
}

// everyKind are the credentials that most operations take.
var everyKind = openapi3.SecurityRequirements{{"ServiceKey": {}}, {"ClientKey": {}}, {"BearerAuth": {}}}

// principal returns the caller that the request's credential stands for, of whatever kind.
func (a *API) principal(r *http.Request) (*auth.Principal, error) {
	return a.principalFor(r, everyKind)
}

// credential is what a request shows of who it is from.
type credential struct {
	scheme string // as the contract names it
	header string // where it stands
	secret string
}

// credentials are all that a request has. A key may come as a bearer token, since clients of other platforms send theirs
// so; what kind of secret it is shows by its prefix, which no access token has.
func (a *API) credentials(r *http.Request) []credential {
	var found []credential
	for _, key := range []struct{ scheme, header string }{{"ServiceKey", "X-Service-Key"}, {"ClientKey", "X-Client-Key"}} {
		for _, value := range r.Header.Values(key.header) {
			found = append(found, credential{key.scheme, key.header, value})
		}
	}
	for _, value := range r.Header.Values("Authorization") {
		kind, token, _ := strings.Cut(value, " ")
		if !strings.EqualFold(kind, "Bearer") {
			token = ""
		}
		c := credential{"BearerAuth", "Authorization", strings.TrimSpace(token)}
		switch key := a.keyScheme(c.secret); {
		case key == "ServiceKey":
			c.scheme, c.header = key, "a service key in Authorization"
		case key == "ClientKey":
			c.scheme, c.header = key, "a client key in Authorization"
		case strings.HasPrefix(c.secret, oauth.AccessTokenPrefix):
			c.scheme, c.header = "MCPToken", "an access token for the MCP server"
		}
		found = append(found, c)
	}
	if len(found) > 0 {
		return found
	}
	// Clients of other platforms send a key in apikey with every request, and who they are in Authorization, if they say.
	for _, value := range r.Header.Values("apikey") {
		if key := a.keyScheme(value); key != "" {
			found = append(found, credential{key, "apikey", value})
		}
	}
	return found
}

// keyScheme is the scheme of a key, "" for a secret that is none.
func (a *API) keyScheme(secret string) string {
	switch {
	case strings.HasPrefix(secret, auth.ServiceKeyPrefix), a.Keys.Configured(secret):
		return "ServiceKey"
	case strings.HasPrefix(secret, auth.ClientKeyPrefix):
		return "ClientKey"
	}
	return ""
}

// principalFor returns the caller that the request's credential stands for. A request has one credential, of a kind that
// the operation takes: of two it would not be clear which one counts.
func (a *API) principalFor(r *http.Request, takes openapi3.SecurityRequirements) (*auth.Principal, error) {
	found := a.credentials(r)
	switch len(found) {
	case 0:
		return nil, auth.ErrMissingCredentials.WithHint(credentialHint(takes))
	case 1:
	default:
		return nil, fault.Validation("send one credential, not %d", len(found))
	}
	c := found[0]
	if !takesScheme(takes, c.scheme) {
		return nil, auth.ErrInvalidCredentials.Msgf("%s is no credential for this operation", c.header).WithHint(credentialHint(takes))
	}
	switch c.scheme {
	case "ServiceKey":
		return a.Keys.Verify(r.Context(), db.KeyTypeService, c.secret)
	case "ClientKey":
		return a.Keys.Verify(r.Context(), db.KeyTypeClient, c.secret)
	}
	if c.scheme == "MCPToken" {
		if a.OAuth == nil {
			return nil, auth.ErrInvalidCredentials.Msgf("OAuth is switched off (mcp.oauth.enabled)")
		}
		return a.OAuth.Verify(r.Context(), c.secret)
	}
	if c.secret == "" {
		return nil, auth.ErrInvalidCredentials.Msgf("the Authorization header must have the form Bearer <token>")
	}
	return a.Tokens.Verify(r.Context(), c.secret)
}

func takesScheme(takes openapi3.SecurityRequirements, name string) bool {
	return slices.ContainsFunc(takes, func(r openapi3.SecurityRequirement) bool { _, ok := r[name]; return ok })
}

// credentialHint says which credentials an operation takes.
func credentialHint(takes openapi3.SecurityRequirements) string {
	var ways []string
	for _, way := range []struct{ name, text string }{
		{"ServiceKey", "a service key in X-Service-Key"}, {"ClientKey", "a client key in X-Client-Key"},
		{"BearerAuth", "an access token in Authorization: Bearer"}, {"MCPToken", "an access token of OAuth in Authorization: Bearer"},
	} {
		if takesScheme(takes, way.name) {
			ways = append(ways, way.text)
		}
	}
	if n := len(ways); n > 1 {
		ways = []string{strings.Join(ways[:n-1], ", ") + " or " + ways[n-1]}
	}
	return "send " + strings.Join(ways, "")
}
