package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

func TestBranchHasTheParentsDataAndKeepsItsOwn(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	c := s.Service(t)
	s.Exec(t, s.Main, "create table notes (id int primary key, text text); insert into notes select g, 'n' || g from generate_series(1, 100) g")

	b := create(t, c, full("Demo"))
	diff(t, "slug", "demo", b.Slug)
	url := database(t, c, "demo")
	diff(t, "rows in the branch", int64(100), servertest.Value[int64](t, url, "select count(*) from notes"))

	s.Exec(t, url, "insert into notes values (1000, 'branch'); delete from notes where id <= 50")
	s.Exec(t, s.Main, "insert into notes values (2000, 'main')")
	diff(t, "rows in main", int64(101), servertest.Value[int64](t, s.Main, "select count(*) from notes"))
	diff(t, "rows in the branch", int64(51), servertest.Value[int64](t, url, "select count(*) from notes"))

	before := must[*client.GetBranchResponse](t, 200)(c.GetBranchWithResponse(t.Context(), "demo")).JSON200
	reset := must[*client.ResetBranchResponse](t, 200)(c.ResetBranchWithResponse(t.Context(), "demo")).JSON200
	diff(t, "status after reset", client.BranchStatusReady, reset.Status)
	if !reset.UpdatedAt.After(before.UpdatedAt) {
		t.Errorf("updated_at %v is not after %v", reset.UpdatedAt, before.UpdatedAt)
	}
	diff(t, "connection string after reset", url, database(t, c, "demo"))
	diff(t, "rows after reset", int64(101), servertest.Value[int64](t, url, "select count(*) from notes"))

	must[*client.DeleteBranchResponse](t, 204)(c.DeleteBranchWithResponse(t.Context(), "demo", nil))
	resp, body := call(t, s, "GET", "/api/v1/admin/branches/demo", "", "X-Service-Key", servertest.ServiceKey)
	wantError(t, resp, body, 404, "branch_not_found")
	diff(t, "databases left", int64(0), servertest.Value[int64](t, s.Main, "select count(*) from pg_database where datname like $1", b.DatabaseName+"%"))
	create(t, c, full("Demo")) // the name is free again

	entries := must[*client.ListBranchActivityResponse](t, 200)(c.ListBranchActivityWithResponse(t.Context(), b.ID.String(), nil)).JSON200.Activity
	var actions []string
	for _, e := range entries {
		actions = append(actions, string(e.Action))
	}
	diff(t, "activity of the removed branch", []string{"deleted", "reset", "ready", "cloned", "created"}, actions)
	created := entries[len(entries)-1]
	diff(t, "details of created", any("full_clone"), created.Details["data_clone_mode"])
	diff(t, "creator", before.CreatedBy, created.UserID)
}

func TestResponsesHaveExactlyTheSpecifiedFields(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	key := []string{"X-Service-Key", servertest.ServiceKey}
	fields := func(body string) []string {
		var m map[string]any
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		names := []string{}
		for name := range m {
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	resp, body := call(t, s, "POST", "/api/v1/admin/branches", `{"name":"f","expires_in":"24h"}`, key...)
	if resp.StatusCode != 201 || resp.Header.Get("Location") == "" {
		t.Fatalf("%d %q %s", resp.StatusCode, resp.Header.Get("Location"), body)
	}
	diff(t, "created", []string{"created_at", "data_clone_mode", "database_name", "expires_at", "id", "name", "slug", "status", "type"}, fields(body))
	var created client.CreatedBranch
	if err := json.Unmarshal([]byte(body), &created); err != nil {
		t.Fatal(err)
	}
	diff(t, "status at creation", client.BranchStatusCreating, created.Status)
	diff(t, "defaults", []string{"schema_only", "preview"}, []string{string(created.DataCloneMode), string(created.Type)})
	if left := time.Until(*created.ExpiresAt); left > 24*time.Hour || left < 24*time.Hour-time.Minute {
		t.Errorf("expires in %v, want 24h", left)
	}
	_, body = call(t, s, "GET", resp.Header.Get("Location"), "", key...)
	for _, name := range []string{
		"id", "name", "slug", "database_name", "status", "type", "data_clone_mode", "parent_branch_id", "created_by", "created_at", "updated_at", "expires_at",
	} {
		if !slices.Contains(fields(body), name) {
			t.Errorf("a single branch lacks %s: %s", name, body)
		}
	}
	_, body = call(t, s, "GET", "/api/v1/admin/branches", "", key...)
	var list struct {
		Branches []json.RawMessage
		Total    int
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err)
	}
	diff(t, "total", 2, list.Total)
	diff(t, "list entry", []string{"created_at", "id", "name", "slug", "status", "type"}, fields(string(list.Branches[0])))
}

// Bad input is refused by name and changes nothing.
func TestCreateRefusesBadInput(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	user := uuid.New()
	bearer := "Bearer " + s.Token(t, user, nil)
	big := `{"name":"` + strings.Repeat("x", 2<<20) + `"}`
	for _, tc := range []struct {
		name, body string
		headers    []string
		status     int
		code       string
		mentions   string
	}{
		{name: "empty name", body: `{"name":""}`, status: 400, code: "validation_error", mentions: "name"},
		{name: "blank name", body: `{"name":"   "}`, status: 400, code: "validation_error", mentions: "name"},
		{name: "101 characters", body: `{"name":"` + strings.Repeat("é", 101) + `"}`, status: 400, code: "validation_error", mentions: "100"},
		{name: "control characters", body: `{"name":"a\u0007b"}`, status: 400, code: "validation_error", mentions: "control"},
		{name: "a zero byte", body: `{"name":"a\u0000b"}`, status: 400, code: "validation_error", mentions: "u0000"},
		{name: "reserved", body: `{"name":"Main"}`, status: 400, code: "validation_error", mentions: "reserved"},
		{name: "uuid", body: `{"name":"0191d9a0-5f0e-7c5e-9a52-6f6f3a2b1c4d"}`, status: 400, code: "validation_error", mentions: "uuid"},
		{name: "no name", body: `{}`, status: 400, code: "validation_error", mentions: "name"},
		{name: "null name", body: `{"name":null}`, status: 400, code: "validation_error", mentions: "name"},
		{name: "name a number", body: `{"name":7}`, status: 400, code: "validation_error", mentions: "name must be string"},
		{name: "unknown field", body: `{"name":"a","colour":"red"}`, status: 400, code: "validation_error", mentions: "colour"},
		{name: "field twice", body: `{"name":"a","name":"b"}`, status: 400, code: "validation_error", mentions: "twice"},
		{name: "trailing JSON", body: `{"name":"a"}{"name":"b"}`, status: 400, code: "validation_error", mentions: "one JSON value"},
		{name: "not JSON", body: `name=a`, status: 400, code: "validation_error", mentions: "JSON"},
		{name: "cut off", body: `{"name":"a"`, status: 400, code: "validation_error", mentions: "JSON"},
		{name: "array", body: `[{"name":"a"}]`, status: 400, code: "validation_error", mentions: "object"},
		{name: "empty body", body: ``, headers: []string{"Content-Type", "application/json"}, status: 400, code: "validation_error", mentions: "empty"},
		{name: "no content type", body: `{"name":"a"}`, headers: []string{"Content-Type", ""}, status: 415, code: "unsupported_media_type", mentions: "application/json"},
		{name: "form", body: `name=a`, headers: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 415, code: "unsupported_media_type"},
		{name: "2 MB", body: big, status: 413, code: "too_large"},
		{name: "negative expiry", body: `{"name":"a","expires_in":"-1h"}`, status: 400, code: "validation_error", mentions: "expires_in"},
		{name: "expiry 0", body: `{"name":"a","expires_in":"0"}`, status: 400, code: "validation_error", mentions: "expires_in"},
		{name: "expiry in words", body: `{"name":"a","expires_in":"7 days"}`, status: 400, code: "validation_error", mentions: "7d"},
		{name: "expiry with exponent", body: `{"name":"a","expires_in":"1e9d"}`, status: 400, code: "validation_error", mentions: "expires_in"},
		{name: "expiry too long", body: `{"name":"a","expires_in":"91d"}`, status: 400, code: "validation_error", mentions: "at most"},
		{name: "expiry empty", body: `{"name":"a","expires_in":12}`, status: 400, code: "validation_error", mentions: "expires_in"},
		{name: "unknown mode", body: `{"name":"a","data_clone_mode":"partial"}`, status: 400, code: "validation_error", mentions: "full_clone"},
		{name: "unknown type", body: `{"name":"a","type":"forever"}`, status: 400, code: "validation_error", mentions: "persistent"},
		{name: "parent no uuid", body: `{"name":"a","parent_branch_id":"demo"}`, status: 400, code: "validation_error", mentions: "parent_branch_id"},
		{name: "unknown parent", body: `{"name":"a","parent_branch_id":"0191d9a0-5f0e-7c5e-9a52-6f6f3a2b1c4d"}`, status: 404, code: "branch_not_found"},
		{name: "pull request without repository", body: `{"name":"a","repohost_pr_number":3}`, status: 400, code: "validation_error", mentions: "repohost_repo"},
		{name: "repository of one part", body: `{"name":"a","repohost_repo":"shop"}`, status: 400, code: "validation_error", mentions: "repohost_repo"},
		{name: "pull request number 0", body: `{"name":"a","repohost_repo":"a/b","repohost_pr_number":0}`, status: 400, code: "validation_error", mentions: "repohost_pr_number"},
		{name: "pull request URL", body: `{"name":"a","repohost_repo":"a/b","repohost_pr_url":"javascript:x"}`, status: 400, code: "validation_error", mentions: "repohost_pr_url"},
		{name: "seed without files", body: `{"name":"a","data_clone_mode":"seed_data"}`, status: 400, code: "validation_error", mentions: "seed_path"},
		{name: "no credentials", body: `{"name":"a"}`, headers: []string{"X-Service-Key", ""}, status: 401, code: "unauthorized"},
		{name: "wrong key", body: `{"name":"a"}`, headers: []string{"X-Service-Key", "bough_sk_nonsense"}, status: 401, code: "unauthorized"},
		{name: "two credentials", body: `{"name":"a"}`, headers: []string{"Authorization", bearer}, status: 400, code: "validation_error"},
		{name: "user copies main", body: `{"name":"a","data_clone_mode":"full_clone"}`, headers: []string{"X-Service-Key", "", "Authorization", bearer}, status: 403, code: "access_denied"},
		{name: "user copies main's schema", body: `{"name":"a"}`, headers: []string{"X-Service-Key", "", "Authorization", bearer}, status: 403, code: "access_denied"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			resp, body := call(t, s, "POST", "/api/v1/admin/branches", tc.body, append([]string{"X-Service-Key", servertest.ServiceKey}, tc.headers...)...)
			e := wantError(t, resp, body, tc.status, tc.code)
			if !strings.Contains(e.Error, tc.mentions) {
				t.Errorf("the error %q does not mention %q", e.Error, tc.mentions)
			}
		})
	}
	t.Cleanup(func() {
		if n := servertest.Value[int64](noContext{t}, s.Control, "select count(*) from branches"); n != 1 {
			t.Errorf("there are %d branches after refused requests, want main alone", n)
		}
	})
}

func TestCreateAcceptsOddNames(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	c := s.Service(t)
	for _, name := range []string{"🌳🌲", "!!!", "'; drop table branches; --", strings.Repeat("é", 100), "عربي", `quote"d`, "a/b/c.d_e"} {
		b := create(t, c, client.CreateBranchRequest{Name: name})
		got := must[*client.GetBranchResponse](t, 200)(c.GetBranchWithResponse(t.Context(), b.Slug)).JSON200
		diff(t, "name", name, got.Name)
		if len(got.DatabaseName) > 63 {
			t.Errorf("database name %q is longer than PostgreSQL keeps", got.DatabaseName)
		}
	}
}

func TestQueryParametersAreChecked(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for query, mentions := range map[string]string{
		"limit=0": "limit", "limit=101": "100", "limit=x": "limit", "offset=-1": "offset", "status=done": "creating", "type=x": "preview",
		"created_by=me": "created_by", "sort=name": "sort", "limit=1&limit=2": "limit", "limit=": "limit", "limit=1;offset=2": "&",
	} {
		resp, body := call(t, s, "GET", "/api/v1/admin/branches?"+query, "", "X-Service-Key", servertest.ServiceKey)
		if e := wantError(t, resp, body, 400, "validation_error"); !strings.Contains(e.Error, mentions) {
			t.Errorf("?%s: the error %q does not mention %q", query, e.Error, mentions)
		}
	}
	for path, status := range map[string]int{
		"/api/v1/admin/branches/main/activity?limit=101": 400, "/api/v1/admin/branches/main/activity?limit=100": 200,
		"/api/v1/admin/branches/main?verbose=1": 400, "/api/v1/admin/branches/no-such": 404, "/api/v1/admin/branches/" + uuid.NewString(): 404,
		"/api/v1/admin/branches/a%2Fb": 404, "/api/v1/admin/branches/" + strings.Repeat("a", 101): 400,
		"/nowhere": 404, "/api/v1/admin/branches/": 404,
	} {
		if resp, body := call(t, s, "GET", path, "", "X-Service-Key", servertest.ServiceKey); resp.StatusCode != status {
			t.Errorf("GET %s: %d, want %d: %s", path, resp.StatusCode, status, body)
		}
	}
	resp, body := call(t, s, "PUT", "/api/v1/admin/branches", "{}", "X-Service-Key", servertest.ServiceKey)
	wantError(t, resp, body, 405, "method_not_allowed")
	if allow := resp.Header.Get("Allow"); !strings.Contains(allow, "GET") || !strings.Contains(allow, "POST") {
		t.Errorf("Allow: %q", allow)
	}
}

func TestMainIsThereAndStays(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	c := s.Service(t)
	main := must[*client.GetBranchResponse](t, 200)(c.GetBranchWithResponse(t.Context(), "main")).JSON200
	diff(t, "main", []any{"main", client.BranchStatusReady, client.BranchTypePersistent, (*uuid.UUID)(nil), (*time.Time)(nil)},
		[]any{main.Slug, main.Status, main.Type, main.ParentBranchID, main.ExpiresAt})
	user := "Bearer " + s.Token(t, uuid.New(), nil)
	for _, who := range [][]string{{"X-Service-Key", servertest.ServiceKey}, {"Authorization", user}} {
		for _, ref := range []string{"main", main.ID.String()} {
			resp, body := call(t, s, "DELETE", "/api/v1/admin/branches/"+ref, "", who...)
			wantError(t, resp, body, 403, "cannot_delete_main")
			resp, body = call(t, s, "POST", "/api/v1/admin/branches/"+ref+"/reset", "", who...)
			wantError(t, resp, body, 403, "cannot_reset_main")
		}
	}
	resp, body := call(t, s, "PATCH", "/api/v1/admin/branches/main", `{"name":"x"}`, "X-Service-Key", servertest.ServiceKey)
	wantError(t, resp, body, 403, "cannot_update_main")
	stats := must[*client.GetPoolStatsResponse](t, 200)(c.GetPoolStatsWithResponse(t.Context())).JSON200
	if _, ok := stats.Pools["main"]; !ok {
		t.Errorf("pool statistics lack main: %v", stats.Pools)
	}
}

// A schema-only branch needs read access to its parent, a branch with data admin access; nobody sees others' branches.
func TestAccess(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	service := s.Service(t)
	s.Exec(t, s.Main, "create table secrets (id int); insert into secrets values (1)")
	owner, other := uuid.New(), uuid.New()
	schemaOnly := func(name string, parent *uuid.UUID) client.CreateBranchRequest {
		return client.CreateBranchRequest{Name: name, ParentBranchID: parent}
	}
	status := func(c *client.ClientWithResponses, body client.CreateBranchRequest) int {
		r, err := c.CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{}, body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode()
	}
	grant := func(branch string, user uuid.UUID, level client.AccessLevel) {
		t.Helper()
		must[*client.GrantBranchAccessResponse](t, 200)(service.GrantBranchAccessWithResponse(t.Context(), branch, user, client.GrantAccessRequest{Level: level}))
	}
	ownerClient, otherClient := s.User(t, owner), s.User(t, other)

	diff(t, "without a grant", 403, status(ownerClient, schemaOnly("a", nil)))
	grant("main", owner, client.AccessLevelRead)
	diff(t, "data with read", 403, status(ownerClient, full("a")))
	mine := create(t, ownerClient, schemaOnly("mine", nil))
	diff(t, "rows in a schema-only branch", int64(0), servertest.Value[int64](t, database(t, service, "mine"), "select count(*) from secrets"))

	for name, answer := range map[string]func() (int, error){
		"get": func() (int, error) {
			r, err := otherClient.GetBranchWithResponse(t.Context(), "mine")
			return r.StatusCode(), err
		},
		"activity": func() (int, error) {
			r, err := otherClient.ListBranchActivityWithResponse(t.Context(), mine.ID.String(), nil)
			return r.StatusCode(), err
		},
		"delete": func() (int, error) {
			r, err := otherClient.DeleteBranchWithResponse(t.Context(), "mine", nil)
			return r.StatusCode(), err
		},
		"reset": func() (int, error) {
			r, err := otherClient.ResetBranchWithResponse(t.Context(), "mine")
			return r.StatusCode(), err
		},
		"access": func() (int, error) {
			r, err := otherClient.ListBranchAccessWithResponse(t.Context(), "mine")
			return r.StatusCode(), err
		},
		"connect": func() (int, error) {
			r, err := otherClient.GetBranchConnectionWithResponse(t.Context(), "mine")
			return r.StatusCode(), err
		},
		"copy": func() (int, error) { return status(otherClient, schemaOnly("copy", &mine.ID)), nil },
	} {
		if got, err := answer(); err != nil || got != 404 {
			t.Errorf("%s of another's branch: %d, %v; want 404", name, got, err)
		}
	}
	list := must[*client.ListBranchesResponse](t, 200)(otherClient.ListBranchesWithResponse(t.Context(), nil)).JSON200
	diff(t, "another's list", 0, list.Total)

	grant("mine", other, client.AccessLevelRead)
	must[*client.GetBranchResponse](t, 200)(otherClient.GetBranchWithResponse(t.Context(), "mine"))
	must[*client.DeleteBranchResponse](t, 403)(otherClient.DeleteBranchWithResponse(t.Context(), "mine", nil))
	must[*client.ResetBranchResponse](t, 403)(otherClient.ResetBranchWithResponse(t.Context(), "mine"))
	must[*client.GetBranchConnectionResponse](t, 403)(otherClient.GetBranchConnectionWithResponse(t.Context(), "mine"))
	must[*client.GetBranchConnectionResponse](t, 200)(ownerClient.GetBranchConnectionWithResponse(t.Context(), "mine"))
	must[*client.GetBranchConnectionResponse](t, 403)(ownerClient.GetBranchConnectionWithResponse(t.Context(), "main"))
	diff(t, "schema with read", 201, status(otherClient, schemaOnly("copy", &mine.ID)))
	diff(t, "data with read", 403, status(otherClient, client.CreateBranchRequest{Name: "copy2", ParentBranchID: &mine.ID, DataCloneMode: full("x").DataCloneMode}))

	grant("mine", other, client.AccessLevelAdmin)
	diff(t, "grants", 1, len(must[*client.ListBranchAccessResponse](t, 200)(otherClient.ListBranchAccessWithResponse(t.Context(), "mine")).JSON200.Access))
	must[*client.ResetBranchResponse](t, 403)(otherClient.ResetBranchWithResponse(t.Context(), "mine")) // may not read main
	must[*client.RevokeBranchAccessResponse](t, 204)(service.RevokeBranchAccessWithResponse(t.Context(), "mine", other))
	must[*client.RevokeBranchAccessResponse](t, 404)(service.RevokeBranchAccessWithResponse(t.Context(), "mine", other))
	must[*client.GetBranchResponse](t, 404)(otherClient.GetBranchWithResponse(t.Context(), "mine"))

	admin := s.Admin(t, uuid.New())
	must[*client.GetBranchConnectionResponse](t, 200)(admin.GetBranchConnectionWithResponse(t.Context(), "mine"))
	create(t, admin, full("of admin"))
}

// A connection string is given to a person or a service key, never to a key with scopes, whoever made it.
func TestConnectionStringsAreNotForKeysWithScopes(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	service, id := s.Service(t), uuid.New()
	admin := s.Admin(t, id)
	create(t, admin, full("demo"))
	must[*client.GrantBranchAccessResponse](t, 200)(service.GrantBranchAccessWithResponse(t.Context(), "main", id, client.GrantAccessRequest{Level: client.AccessLevelAdmin}))
	for _, more := range [][]client.Scope{{}, {client.ScopeWriteBranches}, {client.ScopeWriteBranches, client.ScopeWriteSchema}} {
		key := must[*client.CreateKeyResponse](t, 201)(admin.CreateKeyWithResponse(t.Context(),
			client.CreateKeyRequest{Type: client.KeyTypeClient, Name: "narrow", Scopes: scopes(append(more, client.ScopeReadBranches)...)})).JSON201
		narrow := s.Client(t, client.WithClientKey(key.Key))
		for _, ref := range []string{"main", "demo"} {
			must[*client.GetBranchConnectionResponse](t, 403)(narrow.GetBranchConnectionWithResponse(t.Context(), ref))
			must[*client.RotateBranchCredentialsResponse](t, 403)(narrow.RotateBranchCredentialsWithResponse(t.Context(), ref))
		}
	}
	user := s.User(t, uuid.New())
	must[*client.RotateBranchCredentialsResponse](t, 404)(user.RotateBranchCredentialsWithResponse(t.Context(), "demo"))
	must[*client.RotateBranchCredentialsResponse](t, 401)(s.Client(t).RotateBranchCredentialsWithResponse(t.Context(), "demo"))

	before := database(t, admin, "demo")
	diff(t, "the URL after a reset", before, func() string {
		must[*client.ResetBranchResponse](t, 200)(service.ResetBranchWithResponse(t.Context(), "demo"))
		return database(t, service, "demo")
	}())
	rotated := must[*client.RotateBranchCredentialsResponse](t, 200)(admin.RotateBranchCredentialsWithResponse(t.Context(), "demo"))
	diff(t, "the URL after a rotation", rotated.JSON200.URL, database(t, service, "demo"))
	if rotated.JSON200.URL == before || rotated.HTTPResponse.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("rotated to %s, cached %q", rotated.JSON200.URL, rotated.HTTPResponse.Header.Get("Cache-Control"))
	}
	diff(t, "rows by the new URL", 1, servertest.Value[int](t, rotated.JSON200.URL, "select 1"))
	if got := servertest.Value[string](t, rotated.JSON200.URL, "select session_user::text || ' ' || current_user"); !regexp.MustCompile(`^bough_[0-9a-f]{8}_[0-9a-f]{12} bough_[0-9a-f]{8}_owner$`).MatchString(got) {
		t.Errorf("it acts as %s", got)
	}
}

func TestUsersMayBranchMainWhereItIsOpen(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(c *server.Config) { c.Branching.OpenToUsers = true; c.Branching.MaxPerUser = 2 })
	user := s.User(t, uuid.New())
	create(t, user, client.CreateBranchRequest{Name: "one"})
	create(t, user, client.CreateBranchRequest{Name: "two"})
	three := must[*client.CreateBranchResponse](t, 403)(user.CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{}, client.CreateBranchRequest{Name: "three"}))
	diff(t, "code", "max_branches_reached", three.JSON403.Code)
	must[*client.CreateBranchResponse](t, 403)(user.CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{}, full("data")))
	must[*client.DeleteBranchResponse](t, 204)(user.DeleteBranchWithResponse(t.Context(), "one", nil))
	create(t, user, client.CreateBranchRequest{Name: "three"})
}

func TestOneOfManyCreationsOfANameWins(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	c := s.Service(t)
	counts := parallel(50, func(int) int {
		r, err := c.CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{}, client.CreateBranchRequest{Name: "same"})
		if err != nil {
			t.Error(err)
			return 0
		}
		return r.StatusCode()
	})
	diff(t, "statuses", map[int]int{201: 1, 409: 49}, counts)
	diff(t, "rows", int64(1), servertest.Value[int64](t, s.Control, "select count(*) from branches where name = 'same'"))
}

func TestTheLimitHoldsUnderConcurrency(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(c *server.Config) { c.Branching.MaxBranches = 5 })
	c := s.Service(t)
	counts := parallel(30, func(i int) int {
		r, err := c.CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{}, client.CreateBranchRequest{Name: fmt.Sprintf("b%d", i)})
		if err != nil {
			t.Error(err)
			return 0
		}
		return r.StatusCode()
	})
	diff(t, "statuses", map[int]int{201: 5, 403: 25}, counts)
	eventually(t, "all branches ready", func() bool {
		ready := client.BranchStatusReady
		r := must[*client.ListBranchesResponse](t, 200)(c.ListBranchesWithResponse(t.Context(), &client.ListBranchesParams{Status: &ready}))
		return r.JSON200.Total == 6 // with main
	})
}

// parallel runs f n times at once and counts what it returns.
func parallel(n int, f func(i int) int) map[int]int {
	var mu sync.Mutex
	var wg sync.WaitGroup
	counts := map[int]int{}
	for i := range n {
		wg.Go(func() {
			got := f(i)
			mu.Lock()
			defer mu.Unlock()
			counts[got]++
		})
	}
	wg.Wait()
	return counts
}

func TestOperationsOnOneBranchTakeTurns(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	c := s.Service(t)
	create(t, c, full("busy"))
	counts := parallel(10, func(int) int {
		r, err := c.ResetBranchWithResponse(t.Context(), "busy")
		if err != nil {
			t.Error(err)
			return 0
		}
		if r.JSON409 != nil && r.JSON409.Code != "branch_busy" {
			t.Errorf("code %s", r.JSON409.Code)
		}
		return r.StatusCode()
	})
	if counts[200] < 1 || counts[200]+counts[409] != 10 {
		t.Errorf("statuses of ten resets at once: %v", counts)
	}
	counts = parallel(10, func(i int) int {
		if i%2 == 0 {
			r, err := c.ResetBranchWithResponse(t.Context(), "busy")
			if err != nil {
				t.Error(err)
			}
			return r.StatusCode() * 10
		}
		r, err := c.DeleteBranchWithResponse(t.Context(), "busy", nil)
		if err != nil {
			t.Error(err)
		}
		return r.StatusCode()
	})
	diff(t, "removals that went through", 1, counts[204])
	diff(t, "servers' faults", 0, counts[500]+counts[5000])
	resp, body := call(t, s, "GET", "/api/v1/admin/branches/busy", "", "X-Service-Key", servertest.ServiceKey)
	wantError(t, resp, body, http.StatusNotFound, "branch_not_found")
	diff(t, "databases left", int64(0), servertest.Value[int64](t, s.Main, "select count(*) from pg_database where datname like 'branch\\_busy\\_%'"))
}

func TestChildren(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	c := s.Service(t)
	s.Exec(t, s.Main, "create table t (id int); insert into t values (1)")
	parent := create(t, c, full("parent"))
	s.Exec(t, database(t, c, "parent"), "insert into t values (2)")
	childOf := func(name string, id uuid.UUID) client.CreateBranchRequest {
		body := full(name)
		body.ParentBranchID = &id
		return body
	}
	child := create(t, c, childOf("child", parent.ID))
	diff(t, "rows of the parent in the child", int64(2), servertest.Value[int64](t, database(t, c, "child"), "select count(*) from t"))

	refused := must[*client.DeleteBranchResponse](t, 409)(c.DeleteBranchWithResponse(t.Context(), "parent", nil))
	diff(t, "code", "has_children", refused.JSON409.Code)
	orphan := client.DeleteBranchParamsChildrenOrphan
	must[*client.DeleteBranchResponse](t, 204)(c.DeleteBranchWithResponse(t.Context(), "parent", &client.DeleteBranchParams{Children: &orphan}))
	got := must[*client.GetBranchResponse](t, 200)(c.GetBranchWithResponse(t.Context(), "child")).JSON200
	diff(t, "parent of an orphan of a child of main", (*uuid.UUID)(nil), got.ParentBranchID)
	diff(t, "rows of the orphan", int64(2), servertest.Value[int64](t, database(t, c, "child"), "select count(*) from t"))

	create(t, c, childOf("grandchild", child.ID))
	cascade := client.DeleteBranchParamsChildrenCascade
	must[*client.DeleteBranchResponse](t, 204)(c.DeleteBranchWithResponse(t.Context(), "child", &client.DeleteBranchParams{Children: &cascade}))
	eventually(t, "the removal of the grandchild", func() bool {
		return servertest.Value[int64](t, s.Main, "select count(*) from pg_database where datname like 'branch\\_grandchild\\_%'") == 0
	})
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	c := s.Service(t)
	soon, later := "2s", "1h"
	parent := create(t, c, client.CreateBranchRequest{Name: "short", ExpiresIn: &later})
	child := create(t, c, client.CreateBranchRequest{Name: "kid", ParentBranchID: &parent.ID})
	must[*client.UpdateBranchResponse](t, 200)(c.UpdateBranchWithResponse(t.Context(), "short", client.UpdateBranchRequest{ExpiresIn: &soon}))
	eventually(t, "the end of the branch", func() bool {
		r, err := c.GetBranchWithResponse(t.Context(), "short")
		return err == nil && r.StatusCode() == 404
	})
	eventually(t, "the entry of the removal", func() bool {
		entries := must[*client.ListBranchActivityResponse](t, 200)(c.ListBranchActivityWithResponse(t.Context(), parent.ID.String(), nil)).JSON200.Activity
		return entries[0].Action == client.BranchActionDeleted && entries[1].Action == client.BranchActionExpired
	})
	got := must[*client.GetBranchResponse](t, 200)(c.GetBranchWithResponse(t.Context(), child.Slug)).JSON200
	diff(t, "parent of the orphan", (*uuid.UUID)(nil), got.ParentBranchID)
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	c := s.Service(t)
	create(t, c, client.CreateBranchRequest{Name: "taken"})
	expiry := "1h"
	b := create(t, c, client.CreateBranchRequest{Name: "old", ExpiresIn: &expiry})
	name, kind, never := "New name", client.BranchTypePersistent, "never"
	got := must[*client.UpdateBranchResponse](t, 200)(c.UpdateBranchWithResponse(t.Context(), "old",
		client.UpdateBranchRequest{Name: &name, Type: &kind, ExpiresIn: &never})).JSON200
	diff(t, "changed", []any{"New name", "old", b.DatabaseName, client.BranchTypePersistent, (*time.Time)(nil)},
		[]any{got.Name, got.Slug, got.DatabaseName, got.Type, got.ExpiresAt})
	for body, status := range map[string]int{
		`{}`: 400, `{"name":"taken"}`: 409, `{"name":""}`: 400, `{"expires_in":"-1h"}`: 400, `{"slug":"x"}`: 400, `{"type":"x"}`: 400, `{"name":null}`: 400,
	} {
		if resp, text := call(t, s, "PATCH", "/api/v1/admin/branches/old", body, "X-Service-Key", servertest.ServiceKey); resp.StatusCode != status {
			t.Errorf("PATCH %s: %d, want %d: %s", body, resp.StatusCode, status, text)
		}
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	c := s.Service(t)
	key := "once"
	params := &client.CreateBranchParams{IdempotencyKey: &key}
	var mu sync.Mutex
	ids := map[uuid.UUID]int{}
	counts := parallel(10, func(int) int {
		r, err := c.CreateBranchWithResponse(t.Context(), params, client.CreateBranchRequest{Name: "once"})
		if err != nil {
			t.Error(err)
			return 0
		}
		mu.Lock()
		defer mu.Unlock()
		if r.JSON201 != nil {
			ids[r.JSON201.ID]++
		}
		return r.StatusCode()
	})
	diff(t, "statuses", map[int]int{201: 10}, counts)
	diff(t, "branches made", 1, len(ids))
	other := must[*client.CreateBranchResponse](t, 409)(c.CreateBranchWithResponse(t.Context(), params, client.CreateBranchRequest{Name: "twice"}))
	diff(t, "code", "idempotency_key_reused", other.JSON409.Code)
}

func TestListPagesAndFilters(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	c := s.Service(t)
	persistent := client.BranchTypePersistent
	for i := range 4 {
		body := client.CreateBranchRequest{Name: fmt.Sprintf("b%d", i)}
		if i == 0 {
			body.Type = &persistent
		}
		create(t, c, body)
	}
	slugs := func(p client.ListBranchesParams) (out []string) {
		r := must[*client.ListBranchesResponse](t, 200)(c.ListBranchesWithResponse(t.Context(), &p)).JSON200
		for _, b := range r.Branches {
			out = append(out, b.Slug)
		}
		return append(out, fmt.Sprint(r.Total))
	}
	two, one, ten := int32(2), int32(1), int32(10)
	creating := client.BranchStatusCreating
	nobody := uuid.New()
	diff(t, "all", []string{"b3", "b2", "b1", "b0", "main", "5"}, slugs(client.ListBranchesParams{}))
	diff(t, "page", []string{"b2", "b1", "5"}, slugs(client.ListBranchesParams{Limit: &two, Offset: &one}))
	diff(t, "past the end", []string{"5"}, slugs(client.ListBranchesParams{Offset: &ten}))
	diff(t, "persistent", []string{"b0", "main", "2"}, slugs(client.ListBranchesParams{Type: &persistent}))
	diff(t, "creating", []string{"0"}, slugs(client.ListBranchesParams{Status: &creating}))
	diff(t, "nobody's", []string{"0"}, slugs(client.ListBranchesParams{CreatedBy: &nobody}))
	_, body := call(t, s, "GET", "/api/v1/admin/branches?status=error", "", "X-Service-Key", servertest.ServiceKey)
	diff(t, "an empty list", `{"branches":[],"total":0}`, strings.TrimSpace(body))
}

func TestBranchingCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(c *server.Config) { c.Branching.Enabled = false })
	for _, r := range [][2]string{
		{"GET", ""}, {"POST", ""}, {"GET", "/main"}, {"DELETE", "/main"}, {"POST", "/main/reset"}, {"GET", "/main/activity"}, {"GET", "/stats/pools"},
	} {
		body := ""
		if r[0] == "POST" && r[1] == "" {
			body = `{"name":"a"}`
		}
		resp, text := call(t, s, r[0], "/api/v1/admin/branches"+r[1], body, "X-Service-Key", servertest.ServiceKey)
		wantError(t, resp, text, 503, "branching_disabled")
		if resp.Header.Get("Retry-After") == "" {
			t.Errorf("%v: no Retry-After", r)
		}
	}
}
