package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
)

// everyKind are the credentials that most operations take.
var everyKind = openapi3.SecurityRequirements{{"ServiceKey": {}}, {"ClientKey": {}}, {"BearerAuth": {}}}

// principal returns the caller that the request's credential stands for, of whatever kind.
func (a *API) principal(r *http.Request) (*auth.Principal, error) {
	return a.principalFor(r, everyKind)
}

// principalFor returns the caller that the request's credential stands for. A request has one credential, of a kind that
// the operation takes: of two it would not be clear which one counts.
func (a *API) principalFor(r *http.Request, takes openapi3.SecurityRequirements) (*auth.Principal, error) {
	var found []func() (*auth.Principal, error)
	for _, scheme := range []struct {
		name, header string
		verify       func(credential string) (*auth.Principal, error)
	}{
		{"ServiceKey", "X-Service-Key", func(s string) (*auth.Principal, error) { return a.Keys.Verify(r.Context(), db.KeyTypeService, s) }},
		{"ClientKey", "X-Client-Key", func(s string) (*auth.Principal, error) { return a.Keys.Verify(r.Context(), db.KeyTypeClient, s) }},
		{"BearerAuth", "Authorization", func(s string) (*auth.Principal, error) {
			kind, token, _ := strings.Cut(s, " ")
			if !strings.EqualFold(kind, "Bearer") || token == "" {
				return nil, auth.ErrInvalidCredentials.Msgf("the Authorization header must have the form Bearer <token>")
			}
			return a.Tokens.Verify(r.Context(), strings.TrimSpace(token))
		}},
	} {
		for _, value := range r.Header.Values(scheme.header) {
			found = append(found, func() (*auth.Principal, error) {
				if !takesScheme(takes, scheme.name) {
					return nil, auth.ErrInvalidCredentials.Msgf("%s is no credential for this operation", scheme.header).WithHint(credentialHint(takes))
				}
				return scheme.verify(value)
			})
		}
	}
	switch len(found) {
	case 0:
		return nil, auth.ErrMissingCredentials.WithHint(credentialHint(takes))
	case 1:
		return found[0]()
	}
	return nil, fault.Validation("send one credential, not %d", len(found))
}

func takesScheme(takes openapi3.SecurityRequirements, name string) bool {
	return slices.ContainsFunc(takes, func(r openapi3.SecurityRequirement) bool { _, ok := r[name]; return ok })
}

// credentialHint says which credentials an operation takes.
func credentialHint(takes openapi3.SecurityRequirements) string {
	var ways []string
	for _, way := range []struct{ name, text string }{
		{"ServiceKey", "a service key in X-Service-Key"}, {"ClientKey", "a client key in X-Client-Key"},
		{"BearerAuth", "an access token in Authorization: Bearer"},
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
