package main

import (
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/gen/client"
)

// fakeSessions is the part of a server that users sign in to. Its refresh tokens work once.
type fakeSessions struct {
	current   string // the refresh token that works
	renewed   int
	signedOut bool
	challenge string
}

func (f *fakeSessions) session() client.Session {
	f.renewed++
	f.current = "bough_rt_" + strconv.Itoa(f.renewed)
	return client.Session{
		AccessToken: "access-" + strconv.Itoa(f.renewed), TokenType: client.SessionTokenTypeBearer, ExpiresIn: 900,
		ExpiresAt: testNow.Add(time.Duration(f.renewed) * 15 * time.Minute).Unix(), RefreshToken: f.current,
		User: client.User{ID: testID(900), Email: "ada@example.com", Role: client.UserRoleAuthenticated, CreatedAt: testNow, UpdatedAt: testNow},
	}
}

func (f *fakeSessions) serve(w http.ResponseWriter, r *http.Request) bool {
	var body map[string]any
	if r.Method == http.MethodPost {
		_ = json.NewDecoder(r.Body).Decode(&body)
	}
	switch r.URL.Path {
	case "/api/v1/auth/signin":
		if body["email"] != "ada@example.com" || body["password"] != "correct horse" {
			fail(w, http.StatusUnauthorized, "invalid_credentials", "the e-mail address or the password is wrong")
			return true
		}
		reply(w, http.StatusOK, f.session())
	case "/api/v1/auth/magiclink":
		f.challenge, _ = body["code_challenge"].(string)
		reply(w, http.StatusAccepted, client.MailSent{Message: "sent"})
	case "/api/v1/auth/magiclink/verify":
		verifier, _ := body["code_verifier"].(string)
		if body["token"] != "bough_ml_x" || len(verifier) != 43 || f.challenge == "" || verifier == f.challenge {
			fail(w, http.StatusUnauthorized, "otp_expired", "the link is not valid any more")
			return true
		}
		reply(w, http.StatusOK, f.session())
	case "/api/v1/auth/refresh":
		if body["refresh_token"] != f.current {
			fail(w, http.StatusUnauthorized, "refresh_token_already_used", "the refresh token was used before")
			return true
		}
		reply(w, http.StatusOK, f.session())
	case "/api/v1/auth/signout":
		f.signedOut = r.Header.Get("Authorization") == "Bearer access-"+strconv.Itoa(f.renewed)
		w.WriteHeader(http.StatusNoContent)
	default:
		if r.Header.Get("Authorization") != "Bearer access-"+strconv.Itoa(f.renewed) {
			fail(w, http.StatusUnauthorized, "unauthorized", "the access token has expired")
			return true
		}
		r.Header.Set("X-Service-Key", testServiceKey) // go on to the usual handlers
		return false
	}
	return true
}

func setupSessions(t *testing.T) (*world, *fakeSessions) {
	t.Helper()
	w, f := setup(t), &fakeSessions{}
	w.env = map[string]string{"BOUGH_CONFIG": w.config}
	w.server.replace = f.serve
	return w, f
}

func TestLoginByPassword(t *testing.T) {
	t.Parallel()
	w, f := setupSessions(t)
	w.stdin = "wrong\n"
	got := w.run(t, "login", "--base-url", w.server.URL, "--email", "ada@example.com")
	if got.code != exitFailed || !strings.Contains(got.stderr, "the password is wrong") || strings.Contains(got.stderr, "bough login") {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
	w.stdin = ""
	w.stdinIsTerminal = true
	w.readSecret = func() ([]byte, error) { return []byte("correct horse"), nil }
	got = w.run(t, "login", "--base-url", w.server.URL, "--profile", "mine", "--email", "ada@example.com")
	if got.code != exitOK || strings.Contains(got.stdout+got.stderr, "correct horse") || strings.Contains(got.stdout+got.stderr, "access-1") {
		t.Fatalf("exit code %d: %s%s", got.code, got.stdout, got.stderr)
	}
	info, err := os.Stat(w.config)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the profile has mode %v, %v", info.Mode(), err)
	}
	if content, err := os.ReadFile(w.config); err != nil || strings.Contains(string(content), "correct horse") {
		t.Errorf("the password is kept (%v)", err)
	}
	w.ok(t, "branch", "list")
	if f.renewed != 1 {
		t.Errorf("%d tokens were given", f.renewed)
	}
	if out := w.ok(t, "profile", "list"); !strings.Contains(out, "ada@example.com") || strings.Contains(out, "access-1") {
		t.Errorf("profile list:\n%s", out)
	}
	w.ok(t, "logout")
	if !f.signedOut {
		t.Error("the session did not end at the server")
	}
	if got := w.run(t, "branch", "list"); got.code != exitFailed {
		t.Errorf("after logout: exit code %d", got.code)
	}
}

func TestLoginByMagicLink(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"https://bough.example/api/v1/auth/magiclink/verify?token=bough_ml_x", " bough_ml_x "} {
		w, _ := setupSessions(t)
		w.stdin = line + "\n"
		w.ok(t, "login", "--base-url", w.server.URL, "--email", "ada@example.com", "--magic-link")
		w.ok(t, "branch", "list")
	}
	w, _ := setupSessions(t)
	w.stdin = "bough_ml_other\n"
	if got := w.run(t, "login", "--base-url", w.server.URL, "--email", "ada@example.com", "--magic-link"); got.code != exitFailed || !strings.Contains(got.stderr, "not valid") {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
}

// The refresh token works once: commands that run at the same time take turns, and use what the first one got.
func TestSessionIsRenewedOnce(t *testing.T) {
	t.Parallel()
	w, f := setupSessions(t)
	w.stdin = "correct horse\n"
	w.ok(t, "login", "--base-url", w.server.URL, "--email", "ada@example.com")
	later := testNow.Add(14*time.Minute + 45*time.Second)
	w.now = func() time.Time { return later }
	complaints := make([]string, 6)
	var wg sync.WaitGroup
	for i := range complaints {
		wg.Go(func() {
			if got := w.run(t, "branch", "list"); got.code != 0 {
				complaints[i] = got.stderr
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(make([]string, 6), complaints); diff != "" {
		t.Errorf("complaints (-want +got):\n%s", diff)
	}
	p, err := readProfiles(w.config)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Profiles[p.Current].Session.RefreshToken; got != f.current {
		t.Errorf("the refresh token %s is kept, %s works", got, f.current)
	}
	if f.renewed != 2 { // the sign-in was the first
		t.Errorf("%d sessions were given, want 2", f.renewed)
	}
	f.current = "another"
	later = later.Add(15 * time.Minute)
	got := w.run(t, "branch", "list")
	if got.code != exitFailed || !strings.Contains(got.stderr, "has ended") || !strings.Contains(got.stderr, "bough login --email ada@example.com") {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
}

func TestSessionGoesToNoOtherServer(t *testing.T) {
	t.Parallel()
	w, _ := setupSessions(t)
	w.stdin = "correct horse\n"
	w.ok(t, "login", "--base-url", w.server.URL, "--email", "ada@example.com")
	other := setup(t)
	if got := w.run(t, "branch", "list", "--base-url", other.server.URL); got.code != exitFailed {
		t.Errorf("exit code %d", got.code)
	}
	for _, header := range other.server.headers {
		if header.Get("Authorization") != "" {
			t.Errorf("the token went to another server: %v", header)
		}
	}
}
