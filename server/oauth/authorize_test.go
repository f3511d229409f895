package oauth_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/oauth"
)

// with returns the parameters with some changed; a nil value removes one.
func with(q url.Values, name string, values ...string) url.Values {
	changed := url.Values{}
	for n, v := range q {
		changed[n] = v
	}
	changed[name] = values
	if values == nil {
		delete(changed, name)
	}
	return changed
}

func TestBegin(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	client := w.register()
	browser := oauth.NewBrowser()
	request, err := w.a.Begin(t.Context(), with(query(client), "scope", "write:tables openid read:tables"), browser, here)
	check(t, err)
	if request.Client.ID != client.ID || request.RedirectURI != callback || request.RedirectHost != "127.0.0.1:7777" && request.RedirectHost != "127.0.0.1" || !request.Loopback ||
		request.State != stateValue || request.Resource != issuer+"/mcp" || request.User != nil {
		t.Errorf("%+v", request)
	}
	if diff := cmp.Diff([]string{"read:tables", "write:tables"}, names(request.Scopes)); diff != "" {
		t.Errorf("scopes (-want +got):\n%s", diff)
	}
	again, err := w.b.Request(t.Context(), request.ID, browser)
	check(t, err)
	if diff := cmp.Diff(request, again); diff != "" {
		t.Errorf("the other process sees something else (-want +got):\n%s", diff)
	}
	for name, other := range map[string]string{"another browser": oauth.NewBrowser(), "none": "", "nonsense": "x", "a longer one": browser + "A"} {
		_, err := w.a.Request(t.Context(), request.ID, other)
		if page := new(oauth.PageError); !errors.As(err, &page) || page.Status != 400 {
			t.Errorf("%s sees %v", name, err)
		}
	}
	if _, err := w.a.Begin(t.Context(), query(client), "x", here); !isPage(err) {
		t.Errorf("a browser without a secret gets %v", err)
	}
	w.exec("update oauth_requests set expires_at = now()")
	if _, err := w.a.Request(t.Context(), request.ID, browser); !isPage(err) {
		t.Errorf("after its time: %v", err)
	}
}

func names(scopes []oauth.Scope) []string {
	names := []string{}
	for _, scope := range scopes {
		names = append(names, scope.Name)
	}
	return names
}

func isPage(err error) bool {
	var page *oauth.PageError
	return errors.As(err, &page) && page.Title != "" && page.Message != "" && page.Status >= 400
}

// What must not be sent back to anybody is a page.
func TestBeginShowsAPage(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	client := w.register("http://127.0.0.1:7777/callback", "https://app.example.com/callback")
	good := query(client)
	for name, q := range map[string]url.Values{
		"no client":               with(good, "client_id"),
		"an empty client":         with(good, "client_id", ""),
		"two clients":             with(good, "client_id", client.ID, client.ID),
		"an unknown client":       with(good, "client_id", "mcp_unknownunknownunknown"),
		"a nonsensical client":    with(good, "client_id", "mcp_\x00'; drop table"),
		"a long client":           with(good, "client_id", "mcp_"+strings.Repeat("x", 10_000)),
		"a document without path": with(good, "client_id", "https://app.example.com"),
		"an unfetchable document": with(good, "client_id", "https://app.example.com/nothing"),
		"no redirect URI of two":  with(good, "redirect_uri"),
		"empty, so none":          with(good, "redirect_uri", ""),
		"two redirect URIs":       with(good, "redirect_uri", callback, callback),
		"another's":               with(good, "redirect_uri", "https://evil.example.com/callback"),
		"another path":            with(good, "redirect_uri", "http://127.0.0.1:7777/other"),
		"another host name":       with(good, "redirect_uri", "http://localhost:7777/callback"),
		"another port elsewhere":  with(good, "redirect_uri", "https://app.example.com:444/callback"),
		"a query":                 with(good, "redirect_uri", callback+"?a=b"),
		"a fragment":              with(good, "redirect_uri", callback+"#"),
		"a user":                  with(good, "redirect_uri", "http://127.0.0.1:7777@evil.example.com/callback"),
		"a script":                with(good, "redirect_uri", "javascript:alert(1)"),
		"a line break":            with(good, "redirect_uri", callback+"\r\nLocation: https://evil.example.com"),
		"dot segments":            with(good, "redirect_uri", "https://app.example.com/callback/../callback"),
	} {
		if _, err := w.a.Begin(t.Context(), q, oauth.NewBrowser(), here); !isPage(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Everything else is told to the application, with its state and the issuer.
func TestBeginRedirectsErrors(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	client := w.register()
	good := query(client)
	for name, c := range map[string]struct {
		q     url.Values
		code  string
		state string
	}{
		"no response type":           {with(good, "response_type"), "invalid_request", stateValue},
		"an implicit one":            {with(good, "response_type", "token"), "unsupported_response_type", stateValue},
		"a hybrid one":               {with(good, "response_type", "code id_token"), "unsupported_response_type", stateValue},
		"response type twice":        {with(good, "response_type", "code", "code"), "invalid_request", stateValue},
		"no challenge":               {with(good, "code_challenge"), "invalid_request", stateValue},
		"no method, which is plain":  {with(good, "code_challenge_method"), "invalid_request", stateValue},
		"plain":                      {with(good, "code_challenge_method", "plain"), "invalid_request", stateValue},
		"another method":             {with(good, "code_challenge_method", "s256"), "invalid_request", stateValue},
		"a short challenge":          {with(good, "code_challenge", challenge("x")[:42]), "invalid_request", stateValue},
		"a long challenge":           {with(good, "code_challenge", challenge("x")+"A"), "invalid_request", stateValue},
		"a padded challenge":         {with(good, "code_challenge", challenge("x")+"="), "invalid_request", stateValue},
		"base64 of the other kind":   {with(good, "code_challenge", "+"+challenge("x")[1:]), "invalid_request", stateValue},
		"no SHA-256 has this ending": {with(good, "code_challenge", challenge("x")[:42]+"B"), "invalid_request", stateValue},
		"scope twice":                {with(good, "scope", "read:tables", "write:tables"), "invalid_request", stateValue},
		"challenge twice":            {with(good, "code_challenge", challenge("x"), challenge("y")), "invalid_request", stateValue},
		"anything twice":             {with(good, "nonce", "1", "2"), "invalid_request", stateValue},
		"an unknown scope":           {with(good, "scope", "read:tables read:minds"), "invalid_scope", stateValue},
		"two spaces":                 {with(good, "scope", "read:tables  write:tables"), "invalid_scope", stateValue},
		"a line break in scope":      {with(good, "scope", "read:tables\r\nwrite:tables"), "invalid_scope", stateValue},
		"a quote in scope":           {with(good, "scope", `read:"tables`), "invalid_scope", stateValue},
		"a long scope":               {with(good, "scope", strings.Repeat("read:tables ", 1000)+"x"), "invalid_scope", stateValue},
		"another resource":           {with(good, "resource", "https://evil.example.com/mcp"), "invalid_target", stateValue},
		"one of two resources":       {with(good, "resource", issuer+"/mcp", issuer+"/api"), "invalid_target", stateValue},
		"a request object":           {with(good, "request", "x.y.z"), "request_not_supported", stateValue},
		"one elsewhere":              {with(good, "request_uri", "https://evil.example.com"), "request_uri_not_supported", stateValue},
		"a fragment wanted":          {with(good, "response_mode", "fragment"), "invalid_request", stateValue},
		"nobody may be asked":        {with(good, "prompt", "none"), "login_required", stateValue},
		"none and login":             {with(good, "prompt", "none login"), "invalid_request", stateValue},
		"state twice":                {with(good, "state", "a", "b"), "invalid_request", ""},
		"a state too long":           {with(good, "state", strings.Repeat("x", 2049)), "invalid_request", ""},
		"no state":                   {with(with(good, "state"), "scope", "x"), "invalid_scope", ""},
	} {
		_, err := w.a.Begin(t.Context(), c.q, oauth.NewBrowser(), here)
		var refused *oauth.RedirectError
		if !errors.As(err, &refused) || refused.Code != c.code || !strings.HasPrefix(refused.Location, callback+"?") || strings.ContainsAny(refused.Location, "\r\n \x00") {
			t.Errorf("%s: %#v", name, err)
			continue
		}
		got := answer(t, refused.Location)
		if got.Get("error") != c.code || got.Get("error_description") != refused.Description || got.Get("state") != c.state || got.Has("state") != (c.state != "") {
			t.Errorf("%s: %s", name, refused.Location)
		}
	}
	if n := w.count("select count(*) from oauth_requests"); n != 0 {
		t.Errorf("%d requests wait", n)
	}
}

func TestBeginIsLenientWhereClientsDiffer(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	client := w.register("http://localhost/callback")
	for name, q := range map[string]url.Values{
		"another port":           with(query(client), "redirect_uri", "http://localhost:51234/callback"),
		"the only redirect URI":  with(query(client), "redirect_uri"),
		"no resource":            with(query(client), "resource"),
		"an empty resource":      with(query(client), "resource", ""),
		"the origin":             with(query(client), "resource", issuer),
		"with slashes":           with(query(client), "resource", issuer+"/", issuer+"/mcp/"),
		"upper case, port":       with(query(client), "resource", "HTTPS://BOUGH.example.com:443/mcp"),
		"a query":                with(query(client), "resource", issuer+"/mcp?read_only=true"),
		"unknown parameters":     with(query(client), "audience", "x"),
		"empty means absent":     with(with(query(client), "state", ""), "scope", ""),
		"long but allowed state": with(query(client), "state", strings.Repeat("x", 2048)),
	} {
		request, err := w.a.Begin(t.Context(), q, oauth.NewBrowser(), here)
		if err != nil || request.Resource != issuer+"/mcp" || request.State != q.Get("state") {
			t.Errorf("%s: %+v, %v", name, request, err)
		}
	}
}

func TestScopesThatARequestAsksFor(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	plain := w.register()
	scoped, err := w.a.Register(t.Context(), oauth.Registration{RedirectURIs: []string{callback}, Scope: "read:schema read:tables"}, here)
	check(t, err)
	for name, c := range map[string]struct {
		client oauth.Client
		scope  string
		want   []string
	}{
		"named":                                {plain, "read:schema read:tables read:schema", []string{"read:tables", "read:schema"}},
		"none":                                 {plain, "", w.a.DefaultScopes()},
		"none that means something":            {plain, "openid offline_access", w.a.DefaultScopes()},
		"the client's":                         {scoped, "", []string{"read:tables", "read:schema"}},
		"more than the client's, as a step up": {scoped, "read:tables write:schema", []string{"read:tables", "write:schema"}},
	} {
		request, err := w.a.Begin(t.Context(), with(query(c.client), "scope", c.scope), oauth.NewBrowser(), here)
		check(t, err)
		if diff := cmp.Diff(c.want, names(request.Scopes)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDefaultScopes(t *testing.T) {
	t.Parallel()
	want := []string{
		"read:tables", "write:tables", "execute:functions", "execute:rpc", "read:storage", "write:storage", "execute:jobs", "read:vectors", "read:schema",
	}
	if diff := cmp.Diff(want, setup(t, nil).a.DefaultScopes()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var admins []string
	for i, scope := range oauth.Scopes() {
		if scope.Admin {
			admins = append(admins, scope.Name)
		}
		if scope.Title == "" || scope.Description == "" || i < 9 && scope.Name != want[i] {
			t.Errorf("%+v", scope)
		}
	}
	if diff := cmp.Diff([]string{"write:branches", "write:schema"}, admins); diff != "" {
		t.Errorf("for administrators (-want +got):\n%s", diff)
	}
}

// A redirect URI keeps its own query, to the byte.
func TestAnswersKeepTheQuery(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	client := w.register("https://app.example.com/query?keep=%20this")
	browser := oauth.NewBrowser()
	request, err := w.a.Begin(t.Context(), query(client), browser, here)
	check(t, err)
	location, err := w.a.Deny(t.Context(), request.ID, browser)
	check(t, err)
	want := "https://app.example.com/query?keep=%20this&error=access_denied&error_description=the%20user%20did%20not%20allow%20it" +
		"&state=a%20state%20%26%20%3Cmore%3E%20%2B%20%C3%BCn%C3%AFcode%00%0D%0AX%3A%20y&iss=https%3A%2F%2Fbough.example.com"
	if diff := cmp.Diff(want, location); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := answer(t, location).Get("state"); got != stateValue {
		t.Errorf("state %q", got)
	}
}

func TestBeginIsLimited(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *oauth.Config) { c.RateLimit = true })
	client := w.register()
	browser := oauth.NewBrowser()
	for i := range 200 {
		_, err := w.a.Begin(t.Context(), query(client), browser, here)
		var page *oauth.PageError
		if errors.As(err, &page) && page.Status == 429 {
			if i < 120 || page.RetryAfter <= 0 {
				t.Errorf("after %d requests: %+v", i, page)
			}
			return
		}
		check(t, err)
	}
	t.Error("200 requests passed")
}

func TestDocumentClient(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	const id = "https://app.example.com/client.json"
	page := map[string]any{
		"client_id": id, "client_name": "App", "scope": "read:tables nonsense",
		"redirect_uris": []string{"http://localhost/callback", "https://app.example.com/callback", "https://elsewhere.example.com/callback"},
	}
	w.docs.pages = map[string]map[string]any{id: page}
	w.docs.age = "max-age=600"
	q := with(query(oauth.Client{ID: id, RedirectURIs: []string{"http://localhost:4321/callback"}}), "scope")
	for range 3 {
		request, err := w.a.Begin(t.Context(), q, oauth.NewBrowser(), here)
		check(t, err)
		if request.Client.Kind != db.OAuthClientKindDocument || request.Client.Name != "App" || request.RedirectURI != "http://localhost:4321/callback" {
			t.Errorf("%+v", request)
		}
		if diff := cmp.Diff([]string{"read:tables"}, names(request.Scopes)); diff != "" {
			t.Errorf("scopes (-want +got):\n%s", diff)
		}
	}
	if w.docs.asked != 1 {
		t.Errorf("the document was read %d times", w.docs.asked)
	}
	// What the operator does not allow, a document cannot.
	if _, err := w.a.Begin(t.Context(), with(q, "redirect_uri", "https://elsewhere.example.com/callback"), oauth.NewBrowser(), here); !isPage(err) {
		t.Errorf("a redirect URI that is not allowed: %v", err)
	}
	// A site that is away is tolerated for a day, one that says something else is not.
	w.exec("update oauth_clients set expires_at = now() - interval '1 hour'")
	w.docs.status = 503
	_, err := w.a.Begin(t.Context(), q, oauth.NewBrowser(), here)
	check(t, err)
	w.exec("update oauth_clients set expires_at = now() - interval '25 hours'")
	if _, err := w.a.Begin(t.Context(), q, oauth.NewBrowser(), here); !isPage(err) {
		t.Errorf("a day later: %v", err)
	}
	w.docs.status = 200
	page["redirect_uris"] = []string{"https://app.example.com/callback"}
	if _, err := w.a.Begin(t.Context(), q, oauth.NewBrowser(), here); !isPage(err) {
		t.Errorf("a redirect URI that is gone: %v", err)
	}
	page["client_id"] = "https://app.example.com/other.json"
	w.exec("update oauth_clients set expires_at = now() - interval '1 hour'")
	if _, err := w.a.Begin(t.Context(), with(q, "redirect_uri", "https://app.example.com/callback"), oauth.NewBrowser(), here); !isPage(err) {
		t.Errorf("a document of another client: %v", err)
	}
}

func TestDocumentClientsCanBeOff(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *oauth.Config) { c.ClientDocuments = false })
	const id = "https://app.example.com/client.json"
	w.docs.pages = map[string]map[string]any{id: {"client_id": id, "client_name": "App", "redirect_uris": []string{callback}}}
	_, err := w.a.Begin(t.Context(), query(oauth.Client{ID: id, RedirectURIs: []string{callback}}), oauth.NewBrowser(), here)
	if !isPage(err) || w.docs.asked != 0 {
		t.Errorf("%v, and the document was asked for %d times", err, w.docs.asked)
	}
}
