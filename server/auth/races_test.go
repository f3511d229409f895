package auth_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
)

// tracer calls its functions before and after the queries of a name.
type tracer struct {
	query         string
	before, after func()
}

type tracedKey struct{}

func (tr *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(data.SQL, "name: "+tr.query+" ") {
		return ctx
	}
	if tr.before != nil {
		tr.before()
	}
	return context.WithValue(ctx, tracedKey{}, true)
}

func (tr *tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if ctx.Value(tracedKey{}) != nil && tr.after != nil {
		tr.after()
	}
}

// traced is the pool again, with the tracer.
func traced(t *testing.T, pool *pgxpool.Pool, tr *tracer) *pgxpool.Pool {
	t.Helper()
	cfg := pool.Config()
	cfg.ConnConfig.Tracer = tr
	again, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Close)
	return again
}

// A key that is revoked after it was read and before it is remembered is refused at once.
func TestRevocationDuringLookup(t *testing.T) {
	t.Parallel()
	_, _, pool := setup(t, nil)
	service := &auth.Principal{Service: true, Admin: true}
	_, key, err := auth.NewKeys(pool, 50).Create(t.Context(), service, auth.CreateParams{Type: db.KeyTypeService, Name: "racing"})
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256([]byte(key))
	var keys *auth.Keys
	tr := &tracer{query: "GetAPIKeyByHash"}
	tr.after = func() {
		tr.after = nil
		if _, err := pool.Exec(context.Background(), "update api_keys set revoked_at = now() where hash = $1", hash[:]); err != nil {
			t.Error(err)
		}
		keys.Forget(hex.EncodeToString(hash[:])) // as the notification does
	}
	keys = auth.NewKeys(traced(t, pool, tr), 50)
	if _, err := keys.Verify(t.Context(), db.KeyTypeService, key); err != nil {
		t.Fatalf("the key was good when it was read: %v", err)
	}
	if _, err := keys.Verify(t.Context(), db.KeyTypeService, key); !errors.Is(err, auth.ErrInvalidCredentials) {
		t.Errorf("a revoked key is accepted: %v", err)
	}
}

// While the keys are read for one token, tokens of known keys are verified, and the keys are read once for all who wait.
func TestSlowKeysDelayNobodyElse(t *testing.T) {
	t.Parallel()
	signer, _, pool := setup(t, nil)
	reading, release := make(chan struct{}, 100), make(chan struct{})
	block := false
	tokens := auth.NewTokens(traced(t, pool, &tracer{query: "ListSigningKeys", before: func() {
		if block {
			reading <- struct{}{}
			<-release
		}
	}}), issuer, nil)
	known := sign(t, signer, auth.Claims{})
	if _, err := tokens.Verify(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	block = true
	tokens.ForgetVerified()
	tokens.AgeKeys(10 * time.Second) // so that an unknown key is looked for
	head := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","typ":"at+jwt","kid":"unknown"}`))
	_, rest, _ := strings.Cut(known, ".")
	done := make(chan error, 8)
	for range cap(done) {
		go func() {
			_, err := tokens.Verify(context.Background(), head+"."+rest)
			done <- err
		}()
	}
	<-reading
	verified := make(chan error, 1)
	go func() {
		_, err := tokens.Verify(context.Background(), known)
		verified <- err
	}()
	select {
	case err := <-verified:
		if err != nil {
			t.Errorf("a good token: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("a token of a known key waits for the keys of another")
	}
	close(release)
	for range cap(done) {
		if err := <-done; !errors.Is(err, auth.ErrInvalidCredentials) {
			t.Errorf("unknown key: %v", err)
		}
	}
}

// The same of another issuer, whose server does not answer.
func TestSlowIssuerDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}, 100), make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	}))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(release) })
	signer, tokens, _ := setup(t, &auth.Outside{Issuer: "https://id.example", Audience: "shop", JWKSURL: silent.URL})
	encode := base64.RawURLEncoding.EncodeToString
	theirs := encode([]byte(`{"alg":"ES256","kid":"a"}`)) + "." + encode([]byte(`{"iss":"https://id.example","aud":"shop","sub":"`+uuid.NewString()+`"}`)) + ".AAAA"
	gone, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := tokens.Verify(gone, theirs)
		done <- err
	}()
	<-asked
	if _, err := tokens.Verify(t.Context(), sign(t, signer, auth.Claims{})); err != nil {
		t.Errorf("a token of this server: %v", err)
	}
	leave()
	if err := <-done; err == nil || errors.Is(err, auth.ErrInvalidCredentials) {
		t.Errorf("%v: that the issuer is silent says nothing about the token", err)
	}
	// It is not asked again at once.
	if _, err := tokens.Verify(t.Context(), theirs); err == nil || len(asked) > 0 {
		t.Errorf("asked %d times more (%v)", len(asked), err)
	}
}
