package httpapi_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/oauth"
	"github.com/boughdb/bough/server/servertest"
)

// callback is where the tests' applications have users sent back to. Nobody listens there.
const callback = "http://127.0.0.1:4711/callback?from=bough"

// offered are the scopes that a request gets that names none: those of the nine for which there is something.
var offered = []string{"read:tables", "write:tables", "execute:rpc", "read:schema"}

// theNine are the scopes of the specification, in its order.
var theNine = []string{
	"read:tables", "write:tables", "execute:functions", "execute:rpc", "read:storage", "write:storage", "execute:jobs", "read:vectors", "read:schema",
}

// app is an application that asks users for access, with the proof key of its one request.
type app struct {
	id, callback, verifier string
}

// tokens are what an application gets for a code or a refresh token.
type tokens struct {
	Access    string `json:"access_token"`
	Type      string `json:"token_type"`
	ExpiresIn int64  `json:"expires_in"`
	Refresh   string `json:"refresh_token"`
	Scope     string `json:"scope"`
}

func newVerifier() string {
	random := make([]byte, 32)
	_, _ = rand.Read(random)
	return base64.RawURLEncoding.EncodeToString(random)
}

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// registerApp registers an application with one redirect URI.
func registerApp(t *testing.T, s *servertest.Server, name string, redirectURIs ...string) app {
	t.Helper()
	if len(redirectURIs) == 0 {
		redirectURIs = []string{callback}
	}
	resp, body := register(t, s, map[string]any{"client_name": name, "redirect_uris": redirectURIs})
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("registering answered %d %s", resp.StatusCode, body)
	}
	var made struct {
		ClientID string `json:"client_id"`
	}
	if err := json.Unmarshal([]byte(body), &made); err != nil || made.ClientID == "" {
		t.Fatalf("no client_id in %s", body)
	}
	return app{id: made.ClientID, callback: redirectURIs[0], verifier: newVerifier()}
}

func register(t *testing.T, s *servertest.Server, metadata any) (*http.Response, string) {
	t.Helper()
	data, err := json.Marshal(metadata)
	if err != nil {
		t.Fatal(err)
	}
	return send(t, http.MethodPost, s.URL+"/mcp/oauth/register", string(data), "Content-Type", "application/json")
}

// query are the parameters of the application's authorization request. changes come in pairs; an empty value takes a
// parameter away.
func (a app) query(changes ...string) url.Values {
	q := url.Values{
		"response_type": {"code"}, "client_id": {a.id}, "redirect_uri": {a.callback}, "state": {"a state & more"},
		"code_challenge": {challenge(a.verifier)}, "code_challenge_method": {"S256"},
	}
	return changed(q, changes...)
}

// redemption is the application's token request for a code.
func (a app) redemption(code string, changes ...string) url.Values {
	return changed(url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {a.callback}, "client_id": {a.id}, "code_verifier": {a.verifier},
	}, changes...)
}

// renewal is the application's token request for a refresh token.
func (a app) renewal(token string, changes ...string) url.Values {
	return changed(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {a.id}}, changes...)
}

func changed(q url.Values, changes ...string) url.Values {
	for i := 0; i+1 < len(changes); i += 2 {
		if changes[i+1] == "" {
			q.Del(changes[i])
			continue
		}
		q.Set(changes[i], changes[i+1])
	}
	return q
}

func authorizeURL(s *servertest.Server, q url.Values) string {
	return s.URL + "/mcp/oauth/authorize?" + q.Encode()
}

// stay is the client of a test that wants to see where it is sent, and does not go there.
func stay(t *testing.T) *http.Client {
	return &http.Client{
		Transport:     servertest.Contract(t),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// send sends a request; headers come in pairs.
func send(t *testing.T, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	return sendBy(t, stay(t), method, url, body, headers...)
}

func sendBy(t *testing.T, c *http.Client, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(data)
}

const formType = "application/x-www-form-urlencoded"

// ask posts a form to an endpoint below /mcp/oauth/ of the server process at base.
func ask(t *testing.T, base, endpoint string, form url.Values, headers ...string) (*http.Response, string) {
	t.Helper()
	return send(t, http.MethodPost, base+"/mcp/oauth/"+endpoint, form.Encode(), append([]string{"Content-Type", formType}, headers...)...)
}

// issued posts a token request that is to be served.
func issued(t *testing.T, base string, form url.Values) tokens {
	t.Helper()
	resp, body := ask(t, base, "token", form)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the token endpoint answered %d %s", resp.StatusCode, body)
	}
	diff(t, "cache of tokens", "no-store", resp.Header.Get("Cache-Control"))
	return tokensIn(t, body)
}

func tokensIn(t *testing.T, body string) tokens {
	t.Helper()
	var got tokens
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if !strings.HasPrefix(got.Access, "mcp_at_") || !strings.HasPrefix(got.Refresh, "mcp_rt_") || got.Type != "Bearer" || got.ExpiresIn <= 0 {
		t.Fatalf("tokens %s", body)
	}
	return got
}

// refused posts a token request that is to be refused.
func refused(t *testing.T, base string, form url.Values, status int, code string) {
	t.Helper()
	resp, body := ask(t, base, "token", form)
	wantOAuthError(t, resp, body, status, code)
}

// wantOAuthError checks that an answer is an error in the form of RFC 6749, section 5.2.
func wantOAuthError(t *testing.T, resp *http.Response, body string, status int, code string) {
	t.Helper()
	var e struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("answer %d is no error body: %s", resp.StatusCode, body)
	}
	if resp.StatusCode != status || e.Error != code {
		t.Errorf("got %d %s (%s), want %d %s", resp.StatusCode, e.Error, e.Description, status, code)
	}
	plain := !strings.ContainsFunc(e.Description, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' })
	if e.Description == "" || !plain {
		t.Errorf("error_description %q is not what RFC 6749 lets it be", e.Description)
	}
	if resp.Header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		t.Errorf("headers of an error: %v", resp.Header)
	}
	if resp.StatusCode == http.StatusUnauthorized && resp.Header.Get("WWW-Authenticate") == "" {
		t.Error("a 401 without WWW-Authenticate (RFC 9110, section 15.5.2)")
	}
}

// answerOf are the parameters of an answer by redirect, of which it checks what all have in common.
func answerOf(t *testing.T, s *servertest.Server, location, callback, state string) url.Values {
	t.Helper()
	if !strings.HasPrefix(location, callback) {
		t.Fatalf("the browser is sent to %q, not to %s", location, callback)
	}
	to, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	q, err := url.ParseQuery(to.RawQuery)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "iss", []string{s.URL}, q["iss"])
	diff(t, "state", state, q.Get("state"))
	if to.Fragment != "" {
		t.Errorf("the answer has a fragment: %s", location)
	}
	return q
}

// connected lets a user sign in and allow an application the scopes, and redeems the code.
func connected(t *testing.T, s *servertest.Server, a app, email string, scopes ...string) tokens {
	t.Helper()
	return issued(t, s.URL, a.redemption(newVisitor(t, s).code(a, email, scopes...)))
}

// makeAdmin makes an administrator of a user.
func makeAdmin(t *testing.T, s *servertest.Server, email string) {
	t.Helper()
	s.Exec(t, s.Control, "update users set role = 'admin' where email = $1", email)
}

func userID(t *testing.T, s *servertest.Server, email string) uuid.UUID {
	t.Helper()
	return servertest.Value[uuid.UUID](t, s.Control, "select id from users where email = $1", email)
}

// actions are the audit log's entries of OAuth as an administrator reads them, oldest first.
func actions(t *testing.T, s *servertest.Server) []client.AuditEntry {
	t.Helper()
	area := client.AuditAreaOauth
	limit := int32(100)
	got := must[*client.ListAuditResponse](t, 200)(s.Service(t).ListAuditWithResponse(t.Context(), &client.ListAuditParams{Area: &area, Limit: &limit})).JSON200
	slices.Reverse(got.Entries)
	return got.Entries
}

// principalOf is whom a token stands for, as a process that knows nothing but the database finds.
func principalOf(t *testing.T, s *servertest.Server, token string) *auth.Principal {
	t.Helper()
	p, err := checked(t, s, token)
	if err != nil {
		t.Fatalf("a token does not work: %v", err)
	}
	return p
}

func checked(t *testing.T, s *servertest.Server, token string) (*auth.Principal, error) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), s.Control)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	service, err := oauth.New(pool, nil, oauth.Config{Issuer: s.URL, BasePath: "/mcp", TokenLifetime: time.Hour, RefreshLifetime: time.Hour}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return service.Verify(t.Context(), token)
}

// wantDead checks that a token does not work, with any process.
func wantDead(t *testing.T, s *servertest.Server, token string) {
	t.Helper()
	if _, err := checked(t, s, token); !errors.Is(err, auth.ErrInvalidCredentials) {
		t.Errorf("a token that has ended: %v", err)
	}
}

// mcpCall asks the MCP server of the process at base for its tools.
func mcpCall(t *testing.T, base, token string) (*http.Response, string) {
	t.Helper()
	return sendBy(t, http.DefaultClient, http.MethodPost, base+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Authorization", "Bearer "+token)
}
