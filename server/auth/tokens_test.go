package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/lestrrat-go/jwx/v2/jwa"
	"github.com/lestrrat-go/jwx/v2/jwk"
	"github.com/lestrrat-go/jwx/v2/jwt"

	"github.com/boughdb/bough/server/auth"
)

func TestVerifySigned(t *testing.T) {
	t.Parallel()
	signer, tokens, pool := setup(t, nil)
	claims := auth.Claims{UserID: uuid.New(), SessionID: uuid.New(), Email: "ada@example.com", EmailVerified: true, Admin: true, Method: "pwd"}
	token := sign(t, signer, claims)
	p, err := tokens.Verify(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	if p.ID != claims.UserID || p.SessionID != claims.SessionID || !p.Admin || p.Role != "authenticated" || p.Service || !p.Unbound() {
		t.Errorf("principal %+v", p)
	}
	// Numbers as JSON has them: policies read exp as one.
	if _, ok := p.Claims["exp"].(float64); !ok || p.Claims["email"] != "ada@example.com" {
		t.Errorf("claims %v", p.Claims)
	}
	// A verified token needs no database.
	pool.Close()
	again, err := tokens.Verify(t.Context(), token)
	if diff := cmp.Diff(p, again); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestRevocation(t *testing.T) {
	t.Parallel()
	signer, tokens, pool := setup(t, nil)
	user, session := uuid.New(), uuid.New()
	token := sign(t, signer, auth.Claims{UserID: user, SessionID: session})
	refused := func() bool {
		t.Helper()
		_, err := tokens.Verify(t.Context(), token)
		if err != nil && !errors.Is(err, auth.ErrInvalidCredentials) {
			t.Fatal(err)
		}
		return err != nil
	}
	if refused() {
		t.Fatal("a good token is refused")
	}
	tokens.Notified(session.String() + " 99999999999")
	if !refused() {
		t.Error("the token of an ended session is accepted")
	}
	// Read again at once, it is not forgotten, though it is not in the database yet.
	if err := tokens.LoadRevocations(t.Context()); err != nil || !refused() {
		t.Errorf("forgotten (%v)", err)
	}
	tokens.Notified(session.String() + " 0")
	if refused() {
		t.Error("taken back, and still refused")
	}
	for _, payload := range []string{"", "x", session.String(), session.String() + " x", user.String() + " 1"} {
		tokens.Notified(payload)
	}
	if refused() {
		t.Error("a notification that says nothing revoked a session")
	}
	if _, err := pool.Exec(t.Context(), "insert into revocations values ($1, now() + interval '1 minute'), ($2, now() - interval '1 minute')", user, session); err != nil {
		t.Fatal(err)
	}
	if err := tokens.LoadRevocations(t.Context()); err != nil || !refused() {
		t.Errorf("the token of a user who was shut out is accepted (%v)", err)
	}
	if _, err := pool.Exec(t.Context(), "delete from revocations where id = $1", user); err != nil {
		t.Fatal(err)
	}
	if err := tokens.LoadRevocations(t.Context()); err != nil || refused() {
		t.Errorf("the token of a user who was let in again is refused (%v)", err)
	}
}

func TestEnsureMakesOneKey(t *testing.T) {
	t.Parallel()
	signer, _, pool := setup(t, nil)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if err := signer.Ensure(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var n int
	if err := pool.QueryRow(t.Context(), "select count(*) from signing_keys").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d keys, %v", n, err)
	}
	if rotated, err := signer.RotateOld(t.Context(), time.Hour); rotated || err != nil {
		t.Errorf("a new key was rotated (%v)", err)
	}
	if _, err := pool.Exec(t.Context(), "update signing_keys set created_at = now() - interval '2 hours'"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if rotated, err := signer.RotateOld(t.Context(), time.Hour); rotated != want || err != nil {
			t.Errorf("rotated %v, want %v (%v)", rotated, want, err)
		}
	}
	if _, err := pool.Exec(t.Context(), "update signing_keys set retired_at = now() - interval '31 days' where retired_at is not null"); err != nil {
		t.Fatal(err)
	}
	if err := signer.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := pool.QueryRow(t.Context(), "select count(*) from signing_key_secrets").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d keys after the sweep, %v", n, err)
	}
}

func TestOutsideIssuer(t *testing.T) {
	t.Parallel()
	set := jwk.NewSet()
	add := func(kid string, raw any) jwk.Key {
		key, err := jwk.FromRaw(raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := key.Set(jwk.KeyIDKey, kid); err != nil {
			t.Fatal(err)
		}
		public, err := key.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		if err := set.AddKey(public); err != nil {
			t.Fatal(err)
		}
		return key
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rs, ed, ec := add("rs", rsaKey), add("ed", edKey), add("ec", ecKey)
	symmetric, err := jwk.FromRaw([]byte("the set of keys should not have this"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(symmetric.Set(jwk.KeyIDKey, "hs"), set.AddKey(symmetric)); err != nil {
		t.Fatal(err)
	}
	var fetched atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		_ = json.NewEncoder(w).Encode(set)
	}))
	t.Cleanup(server.Close)
	signer, tokens, _ := setup(t, &auth.Outside{Issuer: "https://id.example", Audience: "shop", JWKSURL: server.URL})

	subject := uuid.NewString()
	build := func(change func(*jwt.Builder)) jwt.Token {
		b := jwt.NewBuilder().Issuer("https://id.example").Audience([]string{"shop"}).Subject(subject).Expiration(time.Now().Add(time.Hour)).
			Claim("is_admin", true).Claim("role", "service_role")
		if change != nil {
			change(b)
		}
		token, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	signed := func(token jwt.Token, alg jwa.SignatureAlgorithm, key jwk.Key) string {
		out, err := jwt.Sign(token, jwt.WithKey(alg, key))
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	none, err := jwt.Sign(build(nil), jwt.WithInsecureNoSignature())
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := jwk.FromRaw(ecKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.Set(jwk.KeyIDKey, "unknown"); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		token string
		want  bool
	}{
		"RS256":            {signed(build(nil), jwa.RS256, rs), true},
		"PS512":            {signed(build(nil), jwa.PS512, rs), true},
		"EdDSA":            {signed(build(nil), jwa.EdDSA, ed), true},
		"ES256":            {signed(build(nil), jwa.ES256, ec), true},
		"HS256":            {signed(build(nil), jwa.HS256, symmetric), false},
		"none":             {string(none), false},
		"unknown key":      {signed(build(nil), jwa.ES256, stranger), false},
		"other audience":   {signed(build(func(b *jwt.Builder) { b.Audience([]string{"bough"}) }), jwa.RS256, rs), false},
		"expired":          {signed(build(func(b *jwt.Builder) { b.Expiration(time.Now().Add(-time.Hour)) }), jwa.RS256, rs), false},
		"another issuer":   {signed(build(func(b *jwt.Builder) { b.Issuer("https://evil.example") }), jwa.RS256, rs), false},
		"in our own name":  {signed(build(func(b *jwt.Builder) { b.Issuer(issuer).Audience([]string{auth.Audience}) }), jwa.ES256, ec), false},
		"ours still works": {sign(t, signer, auth.Claims{}), true},
	} {
		p, err := tokens.Verify(t.Context(), tc.token)
		if (err == nil) != tc.want {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !errors.Is(err, auth.ErrInvalidCredentials) {
			t.Errorf("%s: %v is no refusal", name, err)
		}
		if err == nil && (p.Admin || p.Role != "authenticated" || p.Claims["role"] != "authenticated" || p.Claims["is_admin"] != nil) {
			t.Errorf("%s: principal %+v", name, p)
		}
		if err == nil && strings.HasPrefix(name, "RS") && p.ID.String() != subject {
			t.Errorf("%s: user %s, want %s", name, p.ID, subject)
		}
	}
	if n := fetched.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
	// A subject that is no uuid gets one, always the same.
	named := signed(build(func(b *jwt.Builder) { b.Subject("auth0|ada") }), jwa.RS256, rs)
	p, err := tokens.Verify(t.Context(), named)
	if err != nil || p.Claims["sub"] != p.ID.String() || p.Claims["outside_sub"] != "auth0|ada" || p.ID.Version() != 5 {
		t.Errorf("principal %+v, %v", p, err)
	}
}

func FuzzVerify(f *testing.F) {
	signer, tokens, _ := setup(f, &auth.Outside{Issuer: "https://id.example", Audience: "shop", JWKSURL: "http://127.0.0.1:1/"})
	valid := sign(f, signer, auth.Claims{})
	head, rest, _ := strings.Cut(valid, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	for _, seed := range []string{
		valid, "", ".", "..", "a.b.c", head + "." + payload + ".", head + ".." + signature, "." + rest, valid + ".x", valid + "=",
		"eyJhbGciOiJub25lIn0." + payload + ".", `{"payload":"` + payload + `","signatures":[{"protected":"` + head + `","signature":"` + signature + `"}]}`,
		"bough_rt_AAAA", strings.Repeat("a", 17<<10), "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUifQ.AAAA",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		p, err := tokens.Verify(context.Background(), token)
		switch {
		case (p == nil) == (err == nil):
			t.Fatalf("principal %v and error %v", p, err)
		// Whoever finds another spelling of the signed token has not forged one: its content is the same.
		case err == nil && !strings.Contains(token, payload):
			t.Fatalf("accepted: %q", token)
		}
	})
}

// One request's share: the token was seen before.
func BenchmarkVerifyAgain(b *testing.B) {
	signer, tokens, pool := setup(b, nil)
	token := sign(b, signer, auth.Claims{Email: "ada@example.com"})
	if _, err := tokens.Verify(b.Context(), token); err != nil {
		b.Fatal(err)
	}
	pool.Close() // it would be noticed
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tokens.Verify(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
}

// The first request with a token: the signature is checked.
func BenchmarkVerifyFirst(b *testing.B) {
	signer, tokens, pool := setup(b, nil)
	all := make([]string, 2000)
	for i := range all {
		all[i] = sign(b, signer, auth.Claims{Email: "ada@example.com"})
	}
	if _, err := tokens.Keys(b.Context()); err != nil {
		b.Fatal(err)
	}
	pool.Close()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i%len(all) == 0 && i > 0 {
			b.StopTimer()
			tokens.ForgetVerified()
			b.StartTimer()
		}
		if _, err := tokens.Verify(b.Context(), all[i%len(all)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkSign(b *testing.B) {
	signer, _, _ := setup(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		sign(b, signer, auth.Claims{Email: "ada@example.com"})
	}
}
