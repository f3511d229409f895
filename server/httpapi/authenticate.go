package httpapi

import (
	"net/http"
	"strings"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
)

// principal returns the caller that the request's credential stands for. A request has one credential: of two it
// would not be clear which one counts.
func (a *API) principal(r *http.Request) (*auth.Principal, error) {
	var found []func() (*auth.Principal, error)
	for _, scheme := range []struct {
		header string
		verify func(credential string) (*auth.Principal, error)
	}{
		{"X-Service-Key", func(s string) (*auth.Principal, error) { return a.Keys.Verify(r.Context(), db.KeyTypeService, s) }},
		{"X-Client-Key", func(s string) (*auth.Principal, error) { return a.Keys.Verify(r.Context(), db.KeyTypeClient, s) }},
		{"Authorization", func(s string) (*auth.Principal, error) {
			kind, token, _ := strings.Cut(s, " ")
			if !strings.EqualFold(kind, "Bearer") || token == "" {
				return nil, auth.ErrInvalidCredentials.Msgf("the Authorization header must have the form Bearer <token>")
			}
			return a.Tokens.Verify(r.Context(), strings.TrimSpace(token))
		}},
	} {
		for _, value := range r.Header.Values(scheme.header) {
			found = append(found, func() (*auth.Principal, error) { return scheme.verify(value) })
		}
	}
	switch len(found) {
	case 0:
		return nil, auth.ErrMissingCredentials
	case 1:
		return found[0]()
	}
	return nil, fault.Validation("send one credential, not %d", len(found))
}
