package oauth

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/oauth/redirect"
)

// maxState is the longest state that is sent back.
const maxState = 2 << 10

// Begin takes an authorization request (RFC 6749, section 4.1.1) and keeps it for the browser. What must not be sent back
// to an application is a *PageError: that the client is not known, or that the redirect URI is not the client's. Other
// faults of the request are a *RedirectError.
func (s *Service) Begin(ctx context.Context, query url.Values, browser string, w Where) (*Request, error) {
	hash, err := browserHash(browser)
	if err != nil {
		return nil, err
	}
	if err := s.limits.Take(ctx, authorizeNetwork, w.Network()); err != nil {
		return nil, limitedPage(err)
	}
	for _, name := range []string{"client_id", "redirect_uri"} {
		if len(query[name]) > 1 {
			return nil, pageError(http.StatusBadRequest, "The request is not valid", "The application that sent you here sent %s more than once.", name)
		}
	}
	if query.Get("client_id") == "" {
		return nil, pageError(http.StatusBadRequest, "The request is not valid", "The application that sent you here did not say which it is: client_id is missing.")
	}
	client, err := s.clientForUser(ctx, query.Get("client_id"), w)
	if err != nil {
		return nil, err
	}
	uri, named, err := s.redirectOf(client, query.Get("redirect_uri"))
	if err != nil {
		return nil, err
	}
	params, refused := s.readRequest(query, client)
	if refused != nil {
		return nil, s.refuse(uri.String(), params.State, refused)
	}
	user, _, err := s.signedIn(ctx, hash)
	if err != nil {
		return nil, err
	}
	// Nobody is asked nothing: consent is given for each connection, since a public client could be anybody who says so.
	if slices.Contains(strings.Fields(query.Get("prompt")), "none") {
		if user == nil || params.SignInAgain {
			return nil, s.refuse(uri.String(), params.State, &Error{Code: "login_required", Description: "nobody is signed in"})
		}
		return nil, s.refuse(uri.String(), params.State, &Error{Code: "consent_required", Description: "the user must be asked"})
	}
	params.ID, params.Browser, params.ClientID = newID(), hash, client.ID
	params.RedirectURI, params.RedirectNamed = uri.String(), named
	params.Resource, params.LifetimeSeconds = s.cfg.Resource(), requestLifetime.Seconds()
	row, err := db.New(s.pool).InsertOAuthRequest(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("keeping an authorization request: %w", err)
	}
	if params.SignInAgain {
		user = nil
	}
	return s.request(row, client, user)
}

// readRequest reads the parameters that an application hears of when they are wrong. state is right in any case: "" where
// it cannot be sent back.
func (s *Service) readRequest(query url.Values, client Client) (params db.InsertOAuthRequestParams, refused *Error) {
	if state := query["state"]; len(state) == 1 && state[0] != "" && len(state[0]) <= maxState {
		params.State = []byte(state[0])
	}
	if len(query.Get("state")) > maxState {
		return params, ErrInvalidRequest.say("state must have at most %d bytes", maxState)
	}
	for name, values := range query {
		if len(values) > 1 && name != "resource" {
			return params, ErrInvalidRequest.say("%s must be sent once only", name)
		}
	}
	if refused = checkKind(query); refused != nil {
		return params, refused
	}
	params.CodeChallenge = query.Get("code_challenge")
	switch method := query.Get("code_challenge_method"); {
	case params.CodeChallenge == "":
		return params, ErrInvalidRequest.say("code_challenge is missing; PKCE is required")
	case method != "S256":
		return params, ErrInvalidRequest.say("code_challenge_method must be S256")
	case !is256Bits(params.CodeChallenge):
		return params, ErrInvalidRequest.say("code_challenge must be the SHA-256 of the verifier in base64url, which has 43 characters")
	}
	if refused = s.checkResources(query["resource"]); refused != nil {
		return params, refused
	}
	if params.Scopes, refused = parseScopes(query.Get("scope")); refused != nil {
		return params, refused
	}
	if named := params.Scopes; len(named) > 0 {
		if params.Scopes = s.offers(named); len(params.Scopes) == 0 {
			return params, ErrInvalidScope.say("there is nothing yet for the scope %s", strings.Join(named, " "))
		}
	} else {
		params.Scopes = s.offers(knownScopes(client.Scope))
	}
	if len(params.Scopes) == 0 {
		params.Scopes = s.DefaultScopes()
	}
	prompts := strings.Fields(query.Get("prompt"))
	if slices.Contains(prompts, "none") && len(prompts) > 1 {
		return params, ErrInvalidRequest.say("prompt=none must stand alone")
	}
	params.SignInAgain = slices.Contains(prompts, "login")
	return params, nil
}

// checkKind returns an error unless the request is for a code, in the query of the redirect URI, by plain parameters.
func checkKind(query url.Values) *Error {
	switch kind := query.Get("response_type"); kind {
	case "code":
	case "":
		return ErrInvalidRequest.say("response_type is missing; it must be code")
	default:
		return &Error{Code: "unsupported_response_type", Description: "response_type must be code"}
	}
	switch {
	case query.Get("request") != "":
		return &Error{Code: "request_not_supported", Description: "request objects are not supported"}
	case query.Get("request_uri") != "":
		return &Error{Code: "request_uri_not_supported", Description: "request objects are not supported"}
	case query.Get("response_mode") != "" && query.Get("response_mode") != "query":
		return ErrInvalidRequest.say("response_mode must be query")
	}
	return nil
}

// refuse returns the error that takes the browser back to the application.
func (s *Service) refuse(redirectURI string, state []byte, e *Error) error {
	return &RedirectError{
		Location: s.location(redirectURI, state, "error", e.Code, "error_description", e.Description),
		Code:     e.Code, Description: e.Description,
	}
}

// location returns the redirect URI with the answer behind whatever query it has: names and values by turns, then state
// and iss (RFC 9207). All of it is escaped, so that nothing leaves the query, let alone the header. A space is %20, which
// every parser understands.
func (s *Service) location(redirectURI string, state []byte, answer ...string) string {
	if state != nil {
		answer = append(answer, "state", string(state))
	}
	answer = append(answer, "iss", s.cfg.Issuer)
	var b strings.Builder
	b.WriteString(redirectURI)
	switch {
	case !strings.Contains(redirectURI, "?"):
		b.WriteByte('?')
	case !strings.HasSuffix(redirectURI, "?") && !strings.HasSuffix(redirectURI, "&"):
		b.WriteByte('&')
	}
	for i := 0; i < len(answer); i += 2 {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(answer[i] + "=" + strings.ReplaceAll(url.QueryEscape(answer[i+1]), "+", "%20"))
	}
	return b.String()
}

// loopback reports whether the URI leads to a program on the user's own machine, and host names where it leads.
func describeRedirect(raw string) (host string, loopback bool, err error) {
	uri, err := redirect.Parse(raw)
	if err != nil {
		return "", false, fmt.Errorf("reading a redirect URI that was accepted before: %w", err)
	}
	return uri.Host(), uri.Loopback(), nil
}
