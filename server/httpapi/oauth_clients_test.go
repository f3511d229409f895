package httpapi_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"
	"golang.org/x/oauth2"

	"github.com/boughdb/bough/server/servertest"
)

// golang.org/x/oauth2 is what programs in Go have.
func TestOAuthWithGo(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	signUp(t, s, ada)
	about := metadata(t, s.URL+"/.well-known/oauth-authorization-server")
	a := registerApp(t, s, "a program in Go")
	cfg := &oauth2.Config{
		ClientID: a.id, RedirectURL: a.callback, Scopes: []string{"read:tables", "read:schema"},
		Endpoint: oauth2.Endpoint{AuthURL: about["authorization_endpoint"].(string), TokenURL: about["token_endpoint"].(string), AuthStyle: oauth2.AuthStyleInParams},
	}
	verifier := oauth2.GenerateVerifier()
	resource := oauth2.SetAuthURLParam("resource", s.URL+"/mcp")
	v := newVisitor(t, s)
	p := v.press(v.signIn(v.open(cfg.AuthCodeURL(aState, oauth2.S256ChallengeOption(verifier), resource)), ada, pass), "allow", nil)
	code := answerOf(t, s, p.location, callback+"&", aState).Get("code")
	token, err := cfg.Exchange(t.Context(), code, oauth2.VerifierOption(verifier), resource)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "type", "Bearer", token.Type())
	diff(t, "scope", any("read:tables read:schema"), token.Extra("scope"))
	if left := time.Until(token.Expiry); !token.Valid() || left < 50*time.Minute || left > time.Hour {
		t.Errorf("it expires in %v", left)
	}
	// An expired one is renewed by the library, once.
	token.Expiry = time.Now().Add(-time.Minute)
	source := cfg.TokenSource(t.Context(), token)
	for range 2 {
		renewed, err := source.Token()
		if err != nil {
			t.Fatal(err)
		}
		if renewed.AccessToken == token.AccessToken || renewed.RefreshToken == token.RefreshToken {
			t.Error("it was not renewed")
		}
		principalOf(t, s, renewed.AccessToken)
	}
	renewed, err := source.Token()
	if err != nil {
		t.Fatal(err)
	}
	revoke(t, s.URL, "token", renewed.RefreshToken, "client_id", a.id)
	wantDead(t, s, renewed.AccessToken)
	renewed.Expiry = time.Now().Add(-time.Minute)
	var refusal *oauth2.RetrieveError
	if _, err := cfg.TokenSource(t.Context(), renewed).Token(); !errors.As(err, &refusal) || refusal.ErrorCode != "invalid_grant" {
		t.Errorf("a refresh token that was revoked: %v", err)
	}
	// Errors come as the library's own. It tries the header first where it is not told how, and finds out by itself.
	if _, err := cfg.Exchange(t.Context(), code, oauth2.VerifierOption(verifier)); !errors.As(err, &refusal) || refusal.ErrorCode != "invalid_grant" || refusal.ErrorDescription == "" {
		t.Errorf("a code that was used: %v", err)
	}
	cfg.Endpoint.AuthStyle = oauth2.AuthStyleAutoDetect
	code = v.code(a, ada)
	if _, err := cfg.Exchange(t.Context(), code, oauth2.VerifierOption(a.verifier)); err != nil {
		t.Errorf("a program that is not told how clients authenticate: %v", err)
	}
}

// The clients that npm has, with a person who allows what they ask.
func TestOAuthWithPublishedClients(t *testing.T) {
	t.Parallel()
	npm := findNPM(t)
	dir := t.TempDir()
	files, err := os.ReadDir("testdata/oauth")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join("testdata", "oauth", f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f.Name()), data, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	install := exec.CommandContext(t.Context(), npm, "ci", "--no-audit", "--no-fund", "--prefer-offline")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	for _, name := range []string{"oauth4webapi.test.mjs", "sdk.test.mjs", "mcp-remote.test.mjs"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t, unlimited)
			signUp(t, s, ada)
			// Applications have pages opened by a request to the test, which knows a person. How many were opened it tells
			// who asks.
			pages := make(chan string, 10)
			var opened atomic.Int32
			desk := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					fmt.Fprint(w, opened.Load())
					return
				}
				page, _ := io.ReadAll(r.Body)
				opened.Add(1)
				pages <- string(page)
			}))
			t.Cleanup(desk.Close)
			person := newPerson(t, s)
			cmd := exec.CommandContext(t.Context(), "node", "--test", "--test-concurrency=1", name)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "BOUGH_URL="+s.URL, "BOUGH_OPEN="+desk.URL, "BOUGH_SERVICE_KEY="+servertest.ServiceKey, "BOUGH_TOKEN="+s.Token(t, uuid.New(), nil))
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- cmd.Wait() }()
			for {
				select {
				case page := <-pages:
					person(page)
				case err := <-done:
					if err != nil {
						t.Fatalf("%v\n%s", err, out.String())
					}
					return
				case <-time.After(time.Minute):
					_ = cmd.Process.Kill()
					<-done
					t.Fatalf("nothing happens any more:\n%s", out.String())
				}
			}
		})
	}
}

// newPerson returns somebody who opens pages and allows what they ask for: in a browser, or where none is installed by
// forms alone.
func newPerson(t *testing.T, s *servertest.Server) func(page string) {
	t.Helper()
	if browserPath() == "" {
		v := newVisitor(t, s)
		return func(to string) {
			t.Helper()
			p := v.open(to)
			if p.location == "" && strings.Contains(p.text, `value="sign-in"`) {
				p = v.signIn(p, ada, pass)
			}
			if p.location == "" {
				p = v.press(p, "allow", nil)
			}
			v.http.Transport = http.DefaultTransport // the application's page is not in the contract
			v.open(p.location)
			v.http.Transport = servertest.Contract(t)
		}
	}
	b := openTab(t, newBrowser(t))
	return func(to string) {
		t.Helper()
		b.open(to)
		switch evaluate[string](b, `location.origin === `+fmt.Sprintf("%q", s.URL)+` ? (document.querySelector('#email') ? 'sign in' : 'allow') : 'there'`) {
		case "sign in":
			b.signIn(ada)
			fallthrough
		case "allow":
			b.choose("allow")
		}
		// It may look while one page goes and the next comes.
		eventually(t, "the way back to the application", func() bool {
			where, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`location.origin`))
			return err == nil && where != s.URL
		})
	}
}
