package oauth_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/oauth"
)

func TestRegister(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	uris := []string{"http://localhost:1234/cb", "cursor://anysphere.cursor-mcp/oauth/user-x/callback", "https://app.example.com/callback"}
	client, err := w.a.Register(t.Context(), oauth.Registration{
		ClientName: " Ada's\u202e client\x00\n", RedirectURIs: uris, Scope: "write:tables offline_access nonsense read:tables read:tables",
		ClientURI: "javascript:alert(1)", LogoURI: "https://app.example.com/logo.png", SoftwareID: "id\x00", SoftwareVersion: "1",
		GrantTypes: []string{"authorization_code", "refresh_token", "implicit"}, ResponseTypes: []string{"code"},
	}, here)
	check(t, err)
	want := oauth.Client{
		Kind: db.OAuthClientKindRegistered, Name: "Ada's client", RedirectURIs: uris, Scope: "read:tables write:tables",
		LogoURI: "https://app.example.com/logo.png", SoftwareID: "id", SoftwareVersion: "1",
	}
	if diff := cmp.Diff(want, client, cmpopts.IgnoreFields(oauth.Client{}, "ID", "CreatedAt")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(client.ID, "mcp_") || len(client.ID) < len("mcp_")+22 || client.CreatedAt.IsZero() {
		t.Errorf("id %q, made %v", client.ID, client.CreatedAt)
	}
	if diff := cmp.Diff([]string{"client_registered"}, w.actions()); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
	nameless, err := w.a.Register(t.Context(), oauth.Registration{RedirectURIs: uris}, here)
	check(t, err)
	if nameless.Name == "" || nameless.Scope != "" {
		t.Errorf("%+v", nameless)
	}
}

func TestRegisterRefuses(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	good := []string{callback}
	for name, c := range map[string]struct {
		r    oauth.Registration
		code string
	}{
		"no redirect URI":            {oauth.Registration{ClientName: "x"}, "invalid_redirect_uri"},
		"another's site":             {oauth.Registration{RedirectURIs: []string{"https://evil.example.com/callback"}}, "invalid_redirect_uri"},
		"one of two":                 {oauth.Registration{RedirectURIs: []string{callback, "https://evil.example.com/callback"}}, "invalid_redirect_uri"},
		"a script":                   {oauth.Registration{RedirectURIs: []string{"javascript:alert(1)"}}, "invalid_redirect_uri"},
		"a fragment":                 {oauth.Registration{RedirectURIs: []string{callback + "#x"}}, "invalid_redirect_uri"},
		"a user":                     {oauth.Registration{RedirectURIs: []string{"http://127.0.0.1:1@evil.example.com/"}}, "invalid_redirect_uri"},
		"a line break":               {oauth.Registration{RedirectURIs: []string{callback + "\r\nSet-Cookie: a=b"}}, "invalid_redirect_uri"},
		"plain HTTP to elsewhere":    {oauth.Registration{RedirectURIs: []string{"http://app.example.com/callback"}}, "invalid_redirect_uri"},
		"empty":                      {oauth.Registration{RedirectURIs: []string{""}}, "invalid_redirect_uri"},
		"many":                       {oauth.Registration{RedirectURIs: slicesRepeat(callback, 21)}, "invalid_redirect_uri"},
		"a long name":                {oauth.Registration{RedirectURIs: good, ClientName: strings.Repeat("x", 201)}, "invalid_client_metadata"},
		"another grant":              {oauth.Registration{RedirectURIs: good, GrantTypes: []string{"client_credentials"}}, "invalid_client_metadata"},
		"another response":           {oauth.Registration{RedirectURIs: good, ResponseTypes: []string{"token"}}, "invalid_client_metadata"},
		"more scope than one can be": {oauth.Registration{RedirectURIs: good, Scope: strings.Repeat("x", 3000)}, "invalid_client_metadata"},
	} {
		_, err := w.a.Register(t.Context(), c.r, here)
		t.Run(name, func(t *testing.T) { wantCode(t, err, c.code, 400) })
	}
	if n := w.count("select count(*) from oauth_clients"); n != 0 {
		t.Errorf("%d clients are registered", n)
	}
}

func slicesRepeat(s string, n int) []string { return strings.Split(strings.Repeat(s+" ", n-1)+s, " ") }

func TestRegistrationCanBeOff(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *oauth.Config) { c.Registration = false })
	_, err := w.a.Register(t.Context(), oauth.Registration{RedirectURIs: []string{callback}}, here)
	wantCode(t, err, "registration_not_supported", 403)
}

// Attempts count whether they succeed or not, for all processes together, and for each network alone.
func TestRegistrationIsLimited(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *oauth.Config) { c.RateLimit = true })
	for i := range 20 {
		r := oauth.Registration{RedirectURIs: []string{callback}}
		if i%2 == 0 {
			r.RedirectURIs = nil
		}
		_, err := []*oauth.Service{w.a, w.b}[i%2].Register(t.Context(), r, here)
		if (err == nil) != (i%2 == 1) {
			t.Fatal(err)
		}
	}
	_, err := w.b.Register(t.Context(), oauth.Registration{RedirectURIs: []string{callback}}, here)
	wantCode(t, err, "too_many_requests", 429)
	if e := err.(*oauth.Error); e.RetryAfter <= 0 || e.RetryAfter.Minutes() > 3 {
		t.Errorf("retry after %v", e.RetryAfter)
	}
	_, err = w.b.Register(t.Context(), oauth.Registration{RedirectURIs: []string{callback}}, oauth.Where{IP: "192.0.2.8"})
	check(t, err)
}
