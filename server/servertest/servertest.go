// Package servertest starts whole servers for black-box tests, and makes the clients that speak to them. Every answer
// that such a client gets is held against the contract: one that is not in it fails the test.
package servertest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lestrrat-go/jwx/v2/jwa"
	"github.com/lestrrat-go/jwx/v2/jwk"
	"github.com/lestrrat-go/jwx/v2/jws"
	"github.com/lestrrat-go/jwx/v2/jwt"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
)

// ServiceKey is the service key of every test server.
const ServiceKey = "bough_sk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// Server is a running server with databases of its own.
type Server struct {
	URL        string    // where it serves
	Main       string    // connection URL of main
	Control    string    // connection URL of the control database
	Outbox     string    // directory where mails go
	DataDir    string    // directory of keys and files
	Log        io.Writer // gets the log of servers that are started from then on; nil for none
	signingKey jwk.Key
}

// Start starts a server with an empty main database. change may alter its configuration. The server is stopped, and
// every database it made is dropped, after the test.
func Start(t testing.TB, change ...func(*server.Config)) *Server {
	t.Helper()
	s := Databases(t)
	s.Run(t, change...)
	return s
}

// Databases makes the databases of a server without starting one.
func Databases(t testing.TB) *Server {
	t.Helper()
	installation, super := uuid.New(), pgtest.ServerURL(t)
	t.Cleanup(func() { DropRoles(t, super, installation) }) // when the databases are gone
	s := &Server{Main: pgtest.Database(t), Control: pgtest.Template(t, "control", migrate), Outbox: t.TempDir(), DataDir: t.TempDir()}
	// Copies of one template are different installations all the same.
	s.Exec(t, s.Control, "update installation set id = $1", installation)
	t.Cleanup(func() { dropBranches(t, s.Control) })
	return s
}

// Run starts one more server process on the same databases and points URL to it.
func (s *Server) Run(t testing.TB, change ...func(*server.Config)) (stop func()) {
	t.Helper()
	change = append([]func(*server.Config){func(cfg *server.Config) { cfg.Mail.OutboxDir, cfg.DataDir = s.Outbox, s.DataDir }}, change...)
	cfg := Config(t, s.Main, s.Control, change...)
	out := io.Writer(io.Discard)
	if s.Log != nil {
		out = s.Log
	}
	if os.Getenv("BOUGH_TEST_LOG") != "" {
		out = io.MultiWriter(out, os.Stderr)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		done <- server.Run(ctx, cfg, slog.New(slog.NewTextHandler(out, nil)), server.Hooks{Ready: func(a net.Addr) { ready <- a }})
	}()
	select {
	case addr := <-ready:
		s.URL = "http://" + addr.String()
	case err := <-done:
		cancel()
		t.Fatalf("the server did not start: %v", err)
	case <-time.After(time.Minute):
		cancel()
		t.Fatal("the server did not start within a minute")
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// Config returns the defaults for a test server.
func Config(t testing.TB, mainURL, controlURL string, change ...func(*server.Config)) server.Config {
	t.Helper()
	var cfg server.Config
	settings := cfg.Settings()
	cfg.Listen, cfg.MetricsListen = "127.0.0.1:0", ""
	cfg.DatabaseURL, cfg.ControlDatabaseURL, cfg.ServiceKey = mainURL, controlURL, ServiceKey
	cfg.Pool.Total = 20
	// Hashing with care is tested where it is done; here it would only take time.
	cfg.Auth.HashMemory, cfg.Auth.HashIterations = 7168, 1
	for _, f := range change {
		f(&cfg)
	}
	if _, err := cfg.Load(settings, "", func(string) (string, bool) { return "", false }); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func migrate(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	return postgres.Migrate(ctx, pool)
}

// dropBranches drops the databases of the installation, its branches gone or not.
func dropBranches(t testing.TB, control string) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, control)
	if err != nil {
		t.Errorf("cleaning up: %v", err)
		return
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `
		select datname from pg_database, installation
		where shobj_description(pg_database.oid, 'pg_database') like '%' || id || '%'`)
	if err != nil {
		t.Errorf("cleaning up: %v", err)
		return
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Errorf("cleaning up: %v", err)
	}
	for _, name := range names {
		if _, err := conn.Exec(ctx, "drop database if exists "+pgx.Identifier{name}.Sanitize()+" with (force)"); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
	}
}

// DropRoles drops the roles of an installation whose databases are gone, and roles that granted something to them. super is
// a superuser's URL.
func DropRoles(t testing.TB, super string, installation uuid.UUID, more ...string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, super)
	if err != nil {
		t.Errorf("cleaning up: %v", err)
		return
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, "select rolname::text from pg_roles where starts_with(rolname, $1) or rolname = any ($2)",
		"bough_"+installation.String()[:8]+"_", more)
	if err != nil {
		t.Errorf("cleaning up: %v", err)
		return
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Errorf("cleaning up: %v", err)
	}
	for _, statement := range []string{"drop owned by ", "drop role "} {
		for _, name := range names {
			if _, err := conn.Exec(ctx, statement+pgx.Identifier{name}.Sanitize()); err != nil {
				t.Errorf("cleaning up: %s: %v", statement+name, err)
			}
		}
	}
}

// Client returns a client with the given credentials, for example client.WithServiceKey; none asks as a stranger.
func (s *Server) Client(t testing.TB, credentials ...client.ClientOption) *client.ClientWithResponses {
	t.Helper()
	options := append([]client.ClientOption{client.WithHTTPClient(&http.Client{Transport: Contract(t)})}, credentials...)
	c, err := client.NewClientWithResponses(s.URL, options...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Service returns a client with the service key.
func (s *Server) Service(t testing.TB) *client.ClientWithResponses {
	t.Helper()
	return s.Client(t, client.WithServiceKey(ServiceKey))
}

// User returns a client that is signed in as the user.
func (s *Server) User(t testing.TB, id uuid.UUID) *client.ClientWithResponses {
	t.Helper()
	return s.Client(t, client.WithBearerAuth(s.Token(t, id, nil)))
}

// Admin returns a client that is signed in as an administrator.
func (s *Server) Admin(t testing.TB, id uuid.UUID) *client.ClientWithResponses {
	t.Helper()
	return s.Client(t, client.WithBearerAuth(s.Token(t, id, func(b *jwt.Builder) { b.Claim("is_admin", true) })))
}

// Token returns an access token of the user. change may make it another.
func (s *Server) Token(t testing.TB, user uuid.UUID, change func(*jwt.Builder)) string {
	t.Helper()
	if s.signingKey == nil {
		s.signingKey = s.newSigningKey(t)
	}
	now := time.Now()
	b := jwt.NewBuilder().Issuer(s.URL).Audience([]string{auth.Audience}).Subject(user.String()).IssuedAt(now).
		Expiration(now.Add(15*time.Minute)).Claim("role", "authenticated")
	if change != nil {
		change(b)
	}
	token, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return Sign(t, token, jwa.ES256, s.signingKey, auth.TokenType)
}

// Sign signs a token as an issuer of another mind might.
func Sign(t testing.TB, token jwt.Token, alg jwa.SignatureAlgorithm, key jwk.Key, typ string) string {
	t.Helper()
	headers := jws.NewHeaders()
	if err := headers.Set(jws.TypeKey, typ); err != nil {
		t.Fatal(err)
	}
	signed, err := jwt.Sign(token, jwt.WithKey(alg, key, jws.WithProtectedHeaders(headers)))
	if err != nil {
		t.Fatal(err)
	}
	return string(signed)
}

// SigningKey is the private key that Token signs with.
func (s *Server) SigningKey(t testing.TB) jwk.Key {
	t.Helper()
	if s.signingKey == nil {
		s.signingKey = s.newSigningKey(t)
	}
	return s.signingKey
}

// newSigningKey makes a key and publishes it in the control database.
func (s *Server) newSigningKey(t testing.TB) jwk.Key {
	t.Helper()
	key := NewKey(t)
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(public)
	if err != nil {
		t.Fatal(err)
	}
	kid := key.KeyID()
	s.Exec(t, s.Control, "insert into signing_keys (kid, public_jwk) values ($1, $2)", kid, data)
	return key
}

// NewKey returns a new ES256 key with an id.
func NewKey(t testing.TB) jwk.Key {
	t.Helper()
	raw, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := jwk.FromRaw(raw)
	if err != nil {
		t.Fatal(err)
	}
	if err := jwk.AssignKeyID(key); err != nil {
		t.Fatal(err)
	}
	return key
}

// Exec runs a statement on the database of url.
func (s *Server) Exec(t testing.TB, url, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Value returns the one value of a query on the database of url.
func Value[T any](t testing.TB, url, sql string, args ...any) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var v T
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}
