// Package auth knows who a request comes from: service keys, client keys and users' access tokens. It makes, lists
// and revokes keys and verifies tokens. What a caller may do with a thing is decided where the thing is.
package auth

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/boughdb/bough/server/fault"
)

// Scopes that narrow client keys and OAuth tokens.
const (
	ReadTables       = "read:tables"
	WriteTables      = "write:tables"
	ExecuteFunctions = "execute:functions"
	ExecuteRPC       = "execute:rpc"
	ReadStorage      = "read:storage"
	WriteStorage     = "write:storage"
	ExecuteJobs      = "execute:jobs"
	ReadVectors      = "read:vectors"
	ReadSchema       = "read:schema"
	ReadBranches     = "read:branches"
	WriteBranches    = "write:branches"
	WriteSchema      = "write:schema"
)

// Roles of callers, whatever the database roles are called that their requests run as.
const (
	RoleAnon          = "anon"
	RoleAuthenticated = "authenticated"
	RoleService       = "service_role"
)

// Errors of credentials and permissions.
var (
	ErrMissingCredentials = fault.New(fault.Unauthorized, "unauthorized", "credentials are missing").
				WithHint("send a service key in X-Service-Key, a client key in X-Client-Key or an access token in Authorization: Bearer")
	ErrInvalidCredentials = fault.New(fault.Unauthorized, "unauthorized", "the credentials are not valid")
	ErrDenied             = fault.New(fault.Forbidden, "access_denied", "the caller may not do this")
)

// Principal is the caller of a request.
type Principal struct {
	// Service is true for a service key, which may do everything.
	Service bool
	// Admin is true for a service key and for an administrator.
	Admin bool
	// ID is the service key's or the user's id.
	ID uuid.UUID
	// KeyID is the API key that was used; zero for access tokens.
	KeyID uuid.UUID
	// SessionID is the session of an access token; zero for keys, and for tokens that belong to no session.
	SessionID uuid.UUID
	// ClientID is the OAuth client that the user lets act for her; "" where there is none.
	ClientID string
	// GrantID is what she allowed that client; zero where there is none.
	GrantID uuid.UUID
	// Role is the database role that data requests run as.
	Role string
	// Scopes narrow what the user may do; nil for service keys and for the access tokens of her own sessions, which are
	// not narrowed.
	Scopes []string
	// Claims are the access token's, for row-level security; nil for keys.
	Claims map[string]any
	// ClaimsJSON are the claims as an object, for the database; "" for keys.
	ClaimsJSON string
}

// Actor names the caller in records: the id of the service key or the user.
func (p *Principal) Actor() string { return p.ID.String() }

// Unbound reports whether the caller is an administrator without scopes that narrow what she may do: a service key, or
// an administrator who signed in. Keys and users are managed by nobody else.
func (p *Principal) Unbound() bool { return p.Admin && p.Scopes == nil }

// Require returns ErrDenied unless the principal's scopes, where it has any, contain the scope.
func (p *Principal) Require(scope string) error {
	if p.Scopes == nil || slices.Contains(p.Scopes, scope) {
		return nil
	}
	if p.KeyID == uuid.Nil {
		return ErrDenied.Msgf("the access token lacks the scope %s", scope)
	}
	return ErrDenied.Msgf("the client key lacks the scope %s", scope)
}

type principalKey struct{}

// NewContext returns a context that carries the caller.
func NewContext(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// FromContext returns the caller that the request spine put into the context; it is never nil behind an operation
// that needs credentials.
func FromContext(ctx context.Context) *Principal {
	p, _ := ctx.Value(principalKey{}).(*Principal)
	return p
}
