package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/servertest"
)

// publicURL is how the world knows the processes of these tests, wherever they listen.
const publicURL = "http://127.0.0.1:9"

// application is an OAuth client whose user is signed in in a browser and allows whatever it asks.
type application struct {
	t        *testing.T
	http     *http.Client
	base     atomic.Pointer[string] // where the server is at present
	path     string                 // of the MCP server
	id       string
	callback string
	cookie   string
}

const (
	proofKey     = "a-verifier-of-at-least-forty-three-characters"
	tokensOfMine = "read:tables read:schema"
)

// newApplication registers at the process and signs a new user in.
func newApplication(t *testing.T, p *process, path, callback string) *application {
	t.Helper()
	a := &application{t: t, path: path, callback: callback, http: &http.Client{
		Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 32},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	t.Cleanup(a.http.CloseIdleConnections)
	a.base.Store(&p.url)
	c := p.client(t)
	ok[*client.SignUpResponse](t, 201)(c.SignUpWithResponse(t.Context(), client.SignUpRequest{Email: "ada@example.com", Password: "correct horse battery"}))
	body := fmt.Sprintf(`{"client_name": "crowd", "redirect_uris": [%q]}`, callback)
	status, _, text := a.must(t.Context(), http.MethodPost, path+"/oauth/register", body, "application/json")
	var made struct {
		ClientID string `json:"client_id"`
	}
	if err := json.Unmarshal([]byte(text), &made); status != http.StatusCreated || err != nil {
		t.Fatalf("registering: %d %s", status, text)
	}
	a.id = made.ClientID
	page, form := a.question(t.Context())
	form.Set("action", "sign-in")
	form.Set("email", "ada@example.com")
	form.Set("password", "correct horse battery")
	if status, _, text := a.must(t.Context(), http.MethodPost, page, form.Encode(), formType); status != http.StatusSeeOther {
		t.Fatalf("signing in: %d %s", status, text)
	}
	return a
}

const formType = "application/x-www-form-urlencoded"

// send asks the present process; the error is that of a process that has gone.
func (a *application) send(ctx context.Context, method, path, body, media string, headers ...string) (int, http.Header, string, error) {
	return a.sendTo(ctx, *a.base.Load(), method, path, body, media, headers...)
}

func (a *application) sendTo(ctx context.Context, base, method, path, body, media string, headers ...string) (int, http.Header, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	req.Header.Set("Content-Type", media)
	if a.cookie != "" {
		req.Header.Set("Cookie", a.cookie)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(text), err
}

// must is send to a process that lives. It keeps the cookie.
func (a *application) must(ctx context.Context, method, path, body, media string) (int, http.Header, string) {
	a.t.Helper()
	status, header, text, err := a.send(ctx, method, path, body, media)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, c := range header.Values("Set-Cookie") {
		a.cookie, _, _ = strings.Cut(c, ";")
	}
	return status, header, text
}

func (a *application) query() string {
	sum := sha256.Sum256([]byte(proofKey))
	return url.Values{
		"response_type": {"code"}, "client_id": {a.id}, "redirect_uri": {a.callback}, "scope": {tokensOfMine},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}.Encode()
}

var hiddenToken = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// question opens the page of a new request and returns where its form posts, and what.
func (a *application) question(ctx context.Context) (page string, form url.Values) {
	a.t.Helper()
	_, header, text := a.must(ctx, http.MethodGet, a.path+"/oauth/authorize?"+a.query(), "", "")
	page = header.Get("Location")
	if page == "" {
		a.t.Fatalf("no page: %s", text)
	}
	status, _, text := a.must(ctx, http.MethodGet, page, "", "")
	found := hiddenToken.FindStringSubmatch(text)
	if status != http.StatusOK || found == nil {
		a.t.Fatalf("no form on the page of status %d:\n%s", status, text)
	}
	return page, url.Values{"csrf": {html.UnescapeString(found[1])}}
}

// code asks the user once more; "" when the process went meanwhile.
func (a *application) code(ctx context.Context) string {
	_, header, _, err := a.send(ctx, http.MethodGet, a.path+"/oauth/authorize?"+a.query(), "", "")
	if err != nil {
		return ""
	}
	page := header.Get("Location")
	_, _, text, err := a.send(ctx, http.MethodGet, page, "", "")
	if err != nil {
		return ""
	}
	found := hiddenToken.FindStringSubmatch(text)
	if found == nil {
		a.t.Errorf("no form on the page:\n%s", text)
		return ""
	}
	form := url.Values{"csrf": {html.UnescapeString(found[1])}, "action": {"allow"}, "scope": strings.Fields(tokensOfMine)}
	status, header, text, err := a.send(ctx, http.MethodPost, page, form.Encode(), formType)
	if err != nil {
		return ""
	}
	to, err := url.Parse(header.Get("Location"))
	if err != nil || to.Query().Get("code") == "" {
		a.t.Errorf("allowing was answered %d %s %s", status, header.Get("Location"), text)
		return ""
	}
	return to.Query().Get("code")
}

// pair is what the token endpoint gives.
type pair struct {
	Access    string `json:"access_token"`
	Refresh   string `json:"refresh_token"`
	ExpiresIn int    `json:"expires_in"`
	Error     string `json:"error"`
}

// token asks the token endpoint. gone says that no answer came, so that nobody knows what was done.
func (a *application) token(ctx context.Context, form url.Values) (got pair, gone bool) {
	form.Set("client_id", a.id)
	status, _, text, err := a.send(ctx, http.MethodPost, a.path+"/oauth/token", form.Encode(), formType)
	if err != nil {
		return got, true
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || (status == http.StatusOK) == (got.Access == "") || status != http.StatusOK && got.Error != "invalid_grant" {
		a.t.Errorf("the token endpoint answered %d %s", status, text)
	}
	return got, false
}

func (a *application) redeem(ctx context.Context, code string) (pair, bool) {
	return a.token(ctx, url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {a.callback}, "code_verifier": {proofKey}})
}

func (a *application) refresh(ctx context.Context, token string) (pair, bool) {
	return a.token(ctx, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
}

// works asks the MCP server of a process with an access token.
func (a *application) works(p *process, token string) bool {
	status, _, _, err := a.sendTo(a.t.Context(), p.url, http.MethodPost, a.path, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "application/json", "Authorization", "Bearer "+token)
	return err == nil && status == http.StatusOK
}

// record is what applications hold in their hands: all of it must be good.
type record struct {
	mu     sync.Mutex
	access []string
	spent  []string // codes
	doubts int      // answers that never came
}

func (r *record) add(access, code string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.access = append(r.access, access)
	if code != "" {
		r.spent = append(r.spent, code)
	}
}

func (r *record) doubt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doubts++
}

// live gets codes, redeems and refreshes until it is told to stop. What it was answered before counts, whatever happens to
// the server; where no answer came it asks again, and takes a refusal for the answer that was lost.
func (a *application) live(ctx context.Context, r *record) {
	// again repeats a request to which no answer came.
	again := func(ask func() (pair, bool)) (got pair, doubt bool) {
		for ctx.Err() == nil {
			var gone bool
			if got, gone = ask(); !gone {
				return got, doubt
			}
			if !doubt {
				r.doubt()
			}
			doubt = true
			time.Sleep(5 * time.Millisecond)
		}
		return got, true
	}
	for ctx.Err() == nil {
		code := a.code(ctx)
		if code == "" {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		got, doubt := again(func() (pair, bool) { return a.redeem(ctx, code) })
		if got.Access == "" {
			if !doubt {
				a.t.Error("a code that was just given does not work")
			}
			continue
		}
		r.add(got.Access, code)
		for range 6 {
			next, doubt := again(func() (pair, bool) { return a.refresh(ctx, got.Refresh) })
			if next.Access == "" {
				if !doubt {
					a.t.Error("a refresh token that was just given does not work")
				}
				break
			}
			r.add(next.Access, "")
			got = next
		}
	}
}

// Processes that are killed while they issue tokens lose none that a client received, and give nothing twice.
func TestOAuthSurvivesKill(t *testing.T) {
	t.Parallel()
	s := servertest.Databases(t)
	args := []string{
		"--database-url", s.Main, "--control-database-url", s.Control, "--pool.total", "12", "--public-base-url", publicURL,
		"--auth.rate-limit=false", "--mcp.rate-limit", "0",
	}
	p := start(t, args, nil)
	a := newApplication(t, p, "/mcp", "http://localhost/cb")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var held record
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { a.live(ctx, &held) })
	}
	const kills = 6
	checked := 0
	for range kills {
		held.mu.Lock()
		before := len(held.access)
		held.mu.Unlock()
		eventually(t, "the next 60 tokens", func() bool {
			held.mu.Lock()
			defer held.mu.Unlock()
			return len(held.access) >= before+60
		})
		p.kill()
		// What they hold now they hold from processes that are gone.
		held.mu.Lock()
		have := slices.Clone(held.access)
		held.mu.Unlock()
		p = start(t, args, nil)
		for _, token := range have[checked:] {
			if !a.works(p, token) {
				t.Fatalf("a token that a client received does not work after the crash (%d of %d did)", checked, len(have))
			}
			checked++
		}
		a.base.Store(&p.url) // until now the applications knocked where nobody is
	}
	stop()
	wg.Wait()
	if held.doubts == 0 {
		t.Error("no request was under way when a process was killed, so nothing was shown")
	}
	for _, token := range held.access[checked:] {
		if !a.works(p, token) {
			t.Error("a token does not work in the end")
		}
	}
	for _, code := range held.spent {
		if got, gone := a.redeem(t.Context(), code); gone || got.Error != "invalid_grant" {
			t.Errorf("a code worked twice: %+v", got)
		}
	}
	for what, query := range map[string]string{
		"grants with two first pairs":             "select count(*) from (select 1 from oauth_tokens where generation = 0 and kind = 'access' group by grant_id having count(*) > 1) x",
		"refresh tokens with two successors":      "select count(*) from (select 1 from oauth_tokens where parent is not null group by parent having count(*) > 1) x",
		"refresh tokens used without a successor": "select count(*) from oauth_tokens o where rotated_at is not null and not exists (select from oauth_tokens n where n.parent = o.hash)",
		"codes used without tokens":               "select count(*) from oauth_codes c where used_at is not null and not exists (select from oauth_tokens k where k.grant_id = c.grant_id)",
		"tokens without a used code":              "select count(*) from oauth_tokens k join oauth_codes c using (grant_id) where c.used_at is null",
	} {
		if n := servertest.Value[int64](t, s.Control, query); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
	t.Logf("%d tokens and %d codes over %d kills, %d requests without an answer", len(held.access), len(held.spent), kills, held.doubts)
}

// Operators set OAuth up by the environment as by flags.
func TestOAuthSettingsFromTheEnvironment(t *testing.T) {
	t.Parallel()
	s := servertest.Databases(t)
	args := []string{"--database-url", s.Main, "--control-database-url", s.Control, "--pool.total", "10", "--public-base-url", publicURL}
	about := func(p *process) string {
		t.Helper()
		resp, err := http.Get(p.url + "/.well-known/oauth-authorization-server")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d %s", resp.StatusCode, text)
	}
	p := start(t, args, []string{
		"BOUGH_MCP_BASE_PATH=/assist", "BOUGH_MCP_OAUTH_TOKEN_EXPIRY=20m", "BOUGH_MCP_OAUTH_REFRESH_TOKEN_EXPIRY=24h",
		"BOUGH_MCP_OAUTH_ALLOWED_REDIRECT_URIS=https://*.corp.example/cb,https://other.example/cb", "BOUGH_MCP_OAUTH_CLIENT_ID_DOCUMENTS=false",
	})
	if got := about(p); !strings.Contains(got, `"token_endpoint":"`+publicURL+`/assist/oauth/token"`) || !strings.Contains(got, `"client_id_metadata_document_supported":false`) {
		t.Errorf("metadata: %s", got)
	}
	a := newApplication(t, p, "/assist", "https://tools.corp.example/cb")
	got, _ := a.redeem(t.Context(), a.code(t.Context()))
	if got.ExpiresIn != 1200 || !a.works(p, got.Access) {
		t.Errorf("tokens %+v", got)
	}
	left := servertest.Value[float64](t, s.Control, "select extract(epoch from expires_at - now()) / 3600 from oauth_tokens where kind = 'refresh'")
	if left < 23.9 || left > 24 {
		t.Errorf("a refresh token is good for %.2f hours", left)
	}
	status, _, text := a.must(t.Context(), http.MethodPost, "/assist/oauth/register", `{"redirect_uris": ["http://localhost/cb"]}`, "application/json")
	if status != http.StatusBadRequest || !strings.Contains(text, "invalid_redirect_uri") {
		t.Errorf("an address that is not on the list: %d %s", status, text)
	}
	p.stop(t)

	p = start(t, args, []string{"BOUGH_MCP_OAUTH_DCR_ENABLED=false"})
	a.base.Store(&p.url)
	status, _, text = a.must(t.Context(), http.MethodPost, "/mcp/oauth/register", `{"redirect_uris": ["http://localhost/cb"]}`, "application/json")
	if status != http.StatusForbidden || !strings.Contains(text, "registration_not_supported") || strings.Contains(about(p), "registration_endpoint") {
		t.Errorf("registering: %d %s; metadata %s", status, text, about(p))
	}
	p.stop(t)

	p = start(t, args, []string{"BOUGH_MCP_OAUTH_ENABLED=false"})
	if got := about(p); !strings.HasPrefix(got, "404 {") {
		t.Errorf("metadata of what is switched off: %s", got)
	}
	p.stop(t)

	// What cannot be right is said at the start, by the name that the operator knows.
	for env, says := range map[string]string{
		"BOUGH_MCP_OAUTH_TOKEN_EXPIRY=1s":                         "mcp.oauth.token-expiry",
		"BOUGH_MCP_OAUTH_REFRESH_TOKEN_EXPIRY=1m":                 "mcp.oauth.refresh-token-expiry",
		"BOUGH_MCP_OAUTH_ALLOWED_REDIRECT_URIS=https://*.com":     "mcp.oauth.allowed-redirect-uris",
		"BOUGH_MCP_OAUTH_ALLOWED_REDIRECT_URIS=javascript:*":      "mcp.oauth.allowed-redirect-uris",
		"BOUGH_MCP_BASE_PATH=/api/v1":                             "mcp.base-path",
		"BOUGH_PUBLIC_BASE_URL=https://bough.example/a/path":      "public-base-url",
		"BOUGH_MCP_OAUTH_REFRESH_REUSE_WINDOW=1h":                 "mcp.oauth.refresh-reuse-window",
		"BOUGH_MCP_OAUTH_DCR_ENABLED=perhaps":                     "dcr",
		"BOUGH_MCP_OAUTH_ALLOWED_REDIRECT_URIS=http://evil.com:*": "mcp.oauth.allowed-redirect-uris",
	} {
		own := args[: len(args)-2 : len(args)-2]
		if !strings.HasPrefix(env, "BOUGH_PUBLIC") {
			own = args
		}
		p := startProcess(t, own, []string{env})
		select {
		case <-p.done:
		case <-time.After(2 * time.Minute):
			t.Fatalf("it runs with %s", env)
		}
		if log := strings.ToLower(p.log.String()); p.cmd.ProcessState.ExitCode() == 0 || !strings.Contains(log, says) && !strings.Contains(log, strings.ReplaceAll(says, "-", "_")) {
			t.Errorf("%s: exit code %d, and it says\n%s", env, p.cmd.ProcessState.ExitCode(), p.log)
		}
	}
}
