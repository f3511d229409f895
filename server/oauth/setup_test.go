package oauth_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/mail"
	"github.com/boughdb/bough/server/oauth"
	"github.com/boughdb/bough/server/password"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
	"github.com/boughdb/bough/server/users"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	issuer     = "https://bough.example.com"
	callback   = "http://127.0.0.1:7777/callback"
	secret     = "a long enough password"
	verifier   = "the-verifier.of~the_tests-has-43-characters-"
	stateValue = "a state & <more> + ünïcode\x00\r\nX: y"
)

var here = oauth.Where{IP: "192.0.2.7", UserAgent: "test"}

// admin may do everything.
var admin = &auth.Principal{Service: true, Admin: true, ID: uuid.New(), KeyID: uuid.New()}

// world is an installation with two server processes.
type world struct {
	t     testing.TB
	pool  *pgxpool.Pool
	users *users.Service
	a, b  *oauth.Service
	mails *mailbox
	docs  *documents
}

// setup makes an installation; change, unless it is nil, changes the settings.
func setup(t testing.TB, change func(*oauth.Config)) *world {
	t.Helper()
	database := pgtest.Template(t, "control", func(ctx context.Context, url string) error {
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return err
		}
		defer pool.Close()
		return postgres.Migrate(ctx, pool)
	})
	pool, err := pgxpool.New(t.Context(), database)
	check(t, err)
	t.Cleanup(pool.Close)
	log := slog.New(slog.DiscardHandler)
	signer, err := auth.NewSigner(pool, issuer, 15*time.Minute, "")
	check(t, err)
	check(t, signer.Ensure(t.Context()))
	w := &world{t: t, pool: pool, mails: &mailbox{}, docs: &documents{}}
	w.users = users.New(pool, signer, auth.NewTokens(pool, issuer, nil), password.NewHasher(password.Params{MemoryKiB: 64, Iterations: 1, Parallelism: 1}, 4, 1000),
		w.mails, users.Config{SignUp: true, RefreshLifetime: 720 * time.Hour, PasswordMinLength: 8, BaseURL: issuer}, log)
	w.work(log)
	cfg := oauth.Config{
		Issuer: issuer, BasePath: "/mcp", Registration: true, ClientDocuments: true, TokenLifetime: time.Hour, RefreshLifetime: 168 * time.Hour,
		RedirectURIs: []string{
			"http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*", "https://app.example.com/callback", "https://app.example.com/query?keep=%20this",
			"cursor://anysphere.cursor-mcp/oauth/*/callback",
		},
		Documents: &http.Client{Transport: w.docs},
	}
	if change != nil {
		change(&cfg)
	}
	w.a, w.b = w.process(cfg, log), w.process(cfg, log)
	return w
}

// process returns the service of a process that listens for notifications.
func (w *world) process(cfg oauth.Config, log *slog.Logger) *oauth.Service {
	w.t.Helper()
	s, err := oauth.New(w.pool, w.users, cfg, log)
	check(w.t, err)
	listening := make(chan struct{})
	var once sync.Once
	listener := &postgres.Listener{
		Log: log,
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.ConnectConfig(ctx, w.pool.Config().ConnConfig)
		},
		Handlers: map[string]func(string){oauth.Channel: s.Notified},
		Reset:    func() { s.Notified(""); once.Do(func() { close(listening) }) },
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); listener.Run(ctx) }()
	w.t.Cleanup(func() { stop(); <-done })
	<-listening
	return s
}

// work sends mails.
func (w *world) work(log *slog.Logger) {
	w.t.Helper()
	workers := river.NewWorkers()
	w.users.AddWorker(workers)
	jobs, err := river.NewClient(riverpgxv5.New(w.pool), &river.Config{Queues: w.users.Queues(), Workers: workers, Logger: log})
	check(w.t, err)
	w.users.SetJobs(jobs)
}

// deliver runs the queue until the test ends.
func (w *world) deliver() {
	w.t.Helper()
	workers := river.NewWorkers()
	w.users.AddWorker(workers)
	jobs, err := river.NewClient(riverpgxv5.New(w.pool), &river.Config{Queues: w.users.Queues(), Workers: workers, Logger: slog.New(slog.DiscardHandler)})
	check(w.t, err)
	check(w.t, jobs.Start(context.Background()))
	w.t.Cleanup(func() { _ = jobs.Stop(context.Background()) })
}

// user makes an account.
func (w *world) user(email string, role db.UserRole) users.User {
	w.t.Helper()
	user, err := w.users.Create(w.t.Context(), admin, changeOf(email, secret, role))
	check(w.t, err)
	return user
}

func changeOf(email, pass string, role db.UserRole) users.Change {
	return users.Change{Email: &email, Password: &pass, Role: &role}
}

// register makes a client.
func (w *world) register(uris ...string) oauth.Client {
	w.t.Helper()
	if len(uris) == 0 {
		uris = []string{callback}
	}
	client, err := w.a.Register(w.t.Context(), oauth.Registration{ClientName: "Test client", RedirectURIs: uris}, here)
	check(w.t, err)
	return client
}

// query returns the parameters of a request that is right.
func query(client oauth.Client) url.Values {
	return url.Values{
		"response_type": {"code"}, "client_id": {client.ID}, "redirect_uri": {client.RedirectURIs[0]}, "state": {stateValue},
		"code_challenge": {challenge(verifier)}, "code_challenge_method": {"S256"}, "resource": {issuer + "/mcp"}, "scope": {"read:tables write:tables"},
	}
}

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// approve takes a request through the browser and returns the code.
func (w *world) approve(email string, q url.Values) string {
	w.t.Helper()
	browser := oauth.NewBrowser()
	request, err := w.a.Begin(w.t.Context(), q, browser, here)
	check(w.t, err)
	browser, err = w.a.SignIn(w.t.Context(), request.ID, browser, email, secret, here)
	check(w.t, err)
	request, err = w.b.Request(w.t.Context(), request.ID, browser)
	check(w.t, err)
	var granted []string
	for _, scope := range request.Scopes {
		granted = append(granted, scope.Name)
	}
	location, err := w.b.Approve(w.t.Context(), request.ID, browser, granted, here)
	check(w.t, err)
	code := answer(w.t, location).Get("code")
	if code == "" {
		w.t.Fatalf("no code in %s", location)
	}
	return code
}

// redemption is the token request for a code.
func redemption(client oauth.Client, code string) oauth.TokenRequest {
	return oauth.TokenRequest{GrantType: "authorization_code", Code: code, RedirectURI: client.RedirectURIs[0], ClientID: client.ID, CodeVerifier: verifier}
}

func refreshing(client oauth.Client, token string) oauth.TokenRequest {
	return oauth.TokenRequest{GrantType: "refresh_token", RefreshToken: token, ClientID: client.ID}
}

// connect returns the first tokens of a new grant.
func (w *world) connect(email string, client oauth.Client) *oauth.TokenResponse {
	w.t.Helper()
	tokens, err := w.a.Token(w.t.Context(), redemption(client, w.approve(email, query(client))), here)
	check(w.t, err)
	return tokens
}

// renew returns the next tokens.
func (w *world) renew(client oauth.Client, token string) *oauth.TokenResponse {
	w.t.Helper()
	tokens, err := w.b.Token(w.t.Context(), refreshing(client, token), here)
	check(w.t, err)
	return tokens
}

// alive reports whether both processes accept the access token, which they must agree upon.
func (w *world) alive(tokens *oauth.TokenResponse) bool {
	w.t.Helper()
	_, errA := w.a.Verify(w.t.Context(), tokens.AccessToken)
	_, errB := w.b.Verify(w.t.Context(), tokens.AccessToken)
	if (errA == nil) != (errB == nil) {
		w.t.Errorf("one process says %v, the other %v", errA, errB)
	}
	return errA == nil && errB == nil
}

// eventually waits for what a notification brings about: much less than the cache's time.
func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("not so within 20 s: %s", what)
		}
	}
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.pool.Exec(w.t.Context(), sql, args...)
	check(w.t, err)
}

func (w *world) count(sql string, args ...any) (n int) {
	w.t.Helper()
	check(w.t, w.pool.QueryRow(w.t.Context(), sql, args...).Scan(&n))
	return n
}

// actions are the audit log's, oldest first.
func (w *world) actions() []string {
	w.t.Helper()
	rows, err := w.pool.Query(w.t.Context(), "select action || coalesce(' ' || (details ->> 'rule'), '') from audit_log where area = 'oauth' order by id")
	check(w.t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	check(w.t, err)
	return found
}

// answer returns the parameters that a redirect carries, which all have the issuer.
func answer(t testing.TB, location string) url.Values {
	t.Helper()
	u, err := url.Parse(location)
	check(t, err)
	values := u.Query()
	if values.Get("iss") != issuer {
		t.Errorf("iss is %q in %s", values.Get("iss"), location)
	}
	return values
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantCode fails unless err is an *oauth.Error of the code, with a description in plain ASCII.
func wantCode(t testing.TB, err error, code string, status int) {
	t.Helper()
	var e *oauth.Error
	if !errors.As(err, &e) || e.Code != code || e.Status != status {
		t.Errorf("got %v, want %s with %d", err, code, status)
		return
	}
	if e.Description == "" || strings.IndexFunc(e.Description, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) >= 0 {
		t.Errorf("description %q", e.Description)
	}
}

type mailbox struct {
	mu   sync.Mutex
	sent []mail.Message
}

func (m *mailbox) Send(_ context.Context, message mail.Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent = append(m.sent, message)
	return nil
}

func (m *mailbox) last() (mail.Message, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.sent) == 0 {
		return mail.Message{}, false
	}
	return m.sent[len(m.sent)-1], true
}

// documents is the web that client metadata documents are on.
type documents struct {
	mu     sync.Mutex
	pages  map[string]map[string]any
	age    string
	asked  int
	status int
}

func (d *documents) RoundTrip(r *http.Request) (*http.Response, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	rec := &http.Response{StatusCode: d.status, ProtoMajor: 1, ProtoMinor: 1, Request: r, Header: http.Header{"Content-Type": {"application/json"}, "Cache-Control": {d.age}}}
	if rec.StatusCode == 0 {
		rec.StatusCode = http.StatusOK
	}
	page, ok := d.pages[r.URL.String()]
	if !ok {
		rec.StatusCode = http.StatusNotFound
	}
	data, err := json.Marshal(page)
	rec.Body = http.NoBody
	if ok {
		rec.Body = readCloser{strings.NewReader(string(data))}
	}
	return rec, err
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }
