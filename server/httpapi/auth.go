package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/boughdb/bough/gen/api"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/users"
)

const noStore = "no-store"

// mailSent is the answer to whoever asks for a mail. It is the same whether there will be one or not.
var mailSent = api.MailSent{Message: "If the address can sign in, a link has been sent"}

// clientOf says where a request comes from.
func clientOf(ctx context.Context) users.Client {
	c, ok := ctx.(*gin.Context)
	if !ok {
		return users.Client{}
	}
	return users.Client{IP: c.ClientIP(), UserAgent: c.GetHeader("User-Agent")}
}

// SignUp makes a user and signs her in, or sends a mail to confirm the address.
func (a *API) SignUp(ctx context.Context, r api.SignUpRequestObject) (api.SignUpResponseObject, error) {
	metadata := value(r.Body.UserMetadata)
	if r.Body.Options != nil && r.Body.Options.Data != nil {
		if metadata != nil {
			return nil, fault.Field("options.data", "is another name of user_metadata: send one of the two")
		}
		metadata = *r.Body.Options.Data
	}
	session, err := a.Users.SignUp(ctx, users.SignUpParams{
		Email: r.Body.Email, Password: r.Body.Password, UserMetadata: metadata, RedirectTo: r.Body.RedirectTo,
	}, clientOf(ctx))
	if err != nil {
		return nil, err
	}
	body, err := signUpAnswer(session)
	return api.SignUp201JSONResponse{Body: body, Headers: api.SignUp201ResponseHeaders{CacheControl: noStore}}, err
}

func signUpAnswer(session *users.Session) (answer api.SignUpAnswer, err error) {
	if session.AccessToken == "" {
		user, err := userOf(session.User)
		if err != nil {
			return answer, err
		}
		return answer, answer.FromUnconfirmedSignUp(api.UnconfirmedSignUp{User: user, ConfirmationRequired: true})
	}
	body, err := sessionOf(session)
	if err != nil {
		return answer, err
	}
	return answer, answer.FromSession(body)
}

// SignIn begins a session.
func (a *API) SignIn(ctx context.Context, r api.SignInRequestObject) (api.SignInResponseObject, error) {
	session, err := a.Users.SignIn(ctx, r.Body.Email, r.Body.Password, clientOf(ctx))
	if err != nil {
		return nil, err
	}
	answer, err := newSession(session)
	return api.SignIn200JSONResponse{NewSessionJSONResponse: answer}, err
}

// SignOut ends sessions of the caller.
func (a *API) SignOut(ctx context.Context, r api.SignOutRequestObject) (api.SignOutResponseObject, error) {
	scope := value(r.Params.Scope)
	if r.Body != nil && r.Body.Scope != nil {
		if scope != "" && scope != *r.Body.Scope {
			return nil, fault.Field("scope", "is another one in the query")
		}
		scope = *r.Body.Scope
	}
	if scope == "" {
		scope = api.SignOutScopeLocal
	}
	if err := a.Users.SignOut(ctx, auth.FromContext(ctx), users.Scope(scope)); err != nil {
		return nil, err
	}
	return api.SignOut204Response{}, nil
}

// RefreshSession gives new tokens for a refresh token.
func (a *API) RefreshSession(ctx context.Context, r api.RefreshSessionRequestObject) (api.RefreshSessionResponseObject, error) {
	session, err := a.Users.Refresh(ctx, r.Body.RefreshToken, clientOf(ctx))
	if err != nil {
		return nil, err
	}
	answer, err := newSession(session)
	return api.RefreshSession200JSONResponse{NewSessionJSONResponse: answer}, err
}

// GetCurrentUser returns the caller's account.
func (a *API) GetCurrentUser(ctx context.Context, _ api.GetCurrentUserRequestObject) (api.GetCurrentUserResponseObject, error) {
	user, err := a.Users.Current(ctx, auth.FromContext(ctx))
	if err != nil {
		return nil, err
	}
	out, err := userOf(user)
	return api.GetCurrentUser200JSONResponse(out), err
}

// UpdateCurrentUser changes the caller's account.
func (a *API) UpdateCurrentUser(ctx context.Context, r api.UpdateCurrentUserRequestObject) (api.UpdateCurrentUserResponseObject, error) {
	for _, field := range []struct {
		name  string
		value *api.NotWritable
	}{{"role", r.Body.Role}, {"is_admin", r.Body.IsAdmin}, {"app_metadata", r.Body.AppMetadata}, {"email_verified", r.Body.EmailVerified}} {
		if field.value != nil {
			return nil, users.NotWritable(field.name)
		}
	}
	user, err := a.Users.UpdateCurrent(ctx, auth.FromContext(ctx), users.AccountChange{
		Email: r.Body.Email, Password: r.Body.Password, CurrentPassword: r.Body.CurrentPassword,
		UserMetadata: value(r.Body.UserMetadata), RedirectTo: r.Body.RedirectTo,
	}, clientOf(ctx))
	if err != nil {
		return nil, err
	}
	out, err := userOf(user)
	return api.UpdateCurrentUser200JSONResponse(out), err
}

// ListSessions lists the caller's sessions.
func (a *API) ListSessions(ctx context.Context, _ api.ListSessionsRequestObject) (api.ListSessionsResponseObject, error) {
	p := auth.FromContext(ctx)
	sessions, err := a.Users.Sessions(ctx, p)
	if err != nil {
		return nil, err
	}
	out := api.SessionList{Sessions: []api.SessionEntry{}}
	for _, s := range sessions {
		out.Sessions = append(out.Sessions, api.SessionEntry{
			ID: s.ID, Current: s.ID == p.SessionID, Method: api.SessionEntryMethod(s.Method), IP: s.IP, UserAgent: s.UserAgent,
			CreatedAt: s.CreatedAt.UTC(), RefreshedAt: s.RefreshedAt.UTC(), ExpiresAt: s.ExpiresAt.UTC(),
		})
	}
	return api.ListSessions200JSONResponse(out), nil
}

// RevokeSession ends one of the caller's sessions.
func (a *API) RevokeSession(ctx context.Context, r api.RevokeSessionRequestObject) (api.RevokeSessionResponseObject, error) {
	if err := a.Users.EndSession(ctx, auth.FromContext(ctx), r.SessionID); err != nil {
		return nil, err
	}
	return api.RevokeSession204Response{}, nil
}

// GetJWKS publishes the keys that access tokens are verified with.
func (a *API) GetJWKS(ctx context.Context, _ api.GetJWKSRequestObject) (api.GetJWKSResponseObject, error) {
	set, err := a.Tokens.Keys(ctx)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(set)
	if err != nil {
		return nil, err
	}
	out := api.JWKS{Keys: []api.JWK{}}
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, err
	}
	return api.GetJWKS200JSONResponse{
		Body:    out,
		Headers: api.GetJWKS200ResponseHeaders{CacheControl: fmt.Sprintf("public, max-age=%d", int(auth.JWKSMaxAge.Seconds()))},
	}, nil
}

func newSession(s *users.Session) (api.NewSessionJSONResponse, error) {
	body, err := sessionOf(s)
	return api.NewSessionJSONResponse{Body: body, Headers: api.NewSessionResponseHeaders{CacheControl: noStore}}, err
}

func sessionOf(s *users.Session) (api.Session, error) {
	user, err := userOf(s.User)
	return api.Session{
		AccessToken: s.AccessToken, TokenType: api.SessionTokenTypeBearer, RefreshToken: s.RefreshToken,
		ExpiresIn: int(math.Ceil(time.Until(s.ExpiresAt).Seconds())), ExpiresAt: s.ExpiresAt.Unix(), User: user,
	}, err
}

func userOf(u users.User) (api.User, error) {
	out := api.User{
		ID: u.ID, Email: u.Email, EmailVerified: u.EmailVerifiedAt != nil, NewEmail: u.NewEmail, Role: api.UserRole(u.Role),
		CreatedAt: u.CreatedAt.UTC(), UpdatedAt: u.UpdatedAt.UTC(), LastSignInAt: utc(u.LastSignInAt),
	}
	if err := json.Unmarshal(u.UserMetadata, &out.UserMetadata); err != nil {
		return out, err
	}
	return out, json.Unmarshal(u.AppMetadata, &out.AppMetadata)
}
