package httpapi_test

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

// document reads /openapi.json and holds it against the rules of OpenAPI.
func document(t *testing.T, s *servertest.Server, headers ...string) (*openapi3.T, *http.Response) {
	t.Helper()
	resp, body := call(t, s, "GET", "/openapi.json", "", headers...)
	if resp.StatusCode != 200 {
		t.Fatalf("status %d: %s", resp.StatusCode, body)
	}
	doc, err := openapi3.NewLoader().LoadFromData([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil {
		t.Fatal(err)
	}
	return doc, resp
}

func TestTheDocumentDescribesWhatIsServed(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	doc, resp := document(t, s)
	if doc.OpenAPI != "3.0.3" {
		t.Errorf("version %s", doc.OpenAPI)
	}
	for path, methods := range map[string]string{
		"/api/v1/tables/customers":      "DELETE GET PATCH POST",
		"/api/v1/tables/customers/{id}": "DELETE GET PATCH PUT",
		"/api/v1/tables/lines/{id}":     "DELETE GET PATCH PUT",
		"/api/v1/tables/nokeys":         "DELETE GET PATCH POST",
		"/api/v1/admin/branches":        "GET POST",
		"/openapi.json":                 "GET",
	} {
		item := doc.Paths.Value(path)
		if item == nil {
			t.Errorf("%s is not described", path)
			continue
		}
		for _, m := range strings.Fields(methods) {
			if item.GetOperation(m) == nil {
				t.Errorf("%s %s is not described", m, path)
			}
		}
	}
	for _, path := range []string{"/api/v1/tables/nokeys/{id}", "/api/v1/tables/{table}"} {
		if doc.Paths.Value(path) != nil {
			t.Errorf("%s is described, but not served", path)
		}
	}

	tag := resp.Header.Get("ETag")
	if again, body := call(t, s, "GET", "/openapi.json", "", "If-None-Match", tag); again.StatusCode != 304 || body != "" {
		t.Errorf("status %d for the document that the client has", again.StatusCode)
	}
	s.Exec(t, s.Main, "create table extra (id int primary key)")
	eventually(t, "the new table in the document", func() bool {
		doc, resp := document(t, s)
		return doc.Paths.Value("/api/v1/tables/extras") != nil && resp.Header.Get("ETag") != tag
	})

	c := s.Service(t)
	branch := create(t, c, full("docs"))
	s.Exec(t, database(t, c, branch.Slug), "drop table extra; create table only_here (id int primary key)")
	eventually(t, "the branch's own tables", func() bool {
		doc, _ := document(t, s, append(serviceKey(), "X-Branch", branch.Slug)...)
		return doc.Paths.Value("/api/v1/tables/only_heres") != nil && doc.Paths.Value("/api/v1/tables/extras") == nil
	})
	if doc, _ := document(t, s); doc.Paths.Value("/api/v1/tables/only_heres") != nil {
		t.Error("main's document has the branch's table")
	}
	if resp, _ := call(t, s, "GET", "/openapi.json", "", "X-Branch", branch.Slug); resp.StatusCode != 401 {
		t.Errorf("status %d for a branch's document without credentials", resp.StatusCode)
	}
}

// Where the document is private, it shows what the caller's role may do.
func TestPrivateDocument(t *testing.T) {
	t.Parallel()
	s := startShop(t, func(c *server.Config) { c.API.PrivateDocument = true })
	s.Exec(t, s.Main, "grant select on customer to authenticated")
	if resp, _ := call(t, s, "GET", "/openapi.json", ""); resp.StatusCode != 401 {
		t.Errorf("status %d without credentials", resp.StatusCode)
	}
	eventually(t, "the grant in the document", func() bool {
		doc, _ := document(t, s, "Authorization", "Bearer "+s.Token(t, uuid.New(), nil))
		customers := doc.Paths.Value("/api/v1/tables/customers")
		return customers != nil && customers.Get != nil && customers.Post == nil && doc.Paths.Value("/api/v1/tables/lines") == nil
	})
	if doc, _ := document(t, s, serviceKey()...); doc.Paths.Value("/api/v1/tables/lines") == nil {
		t.Error("the service role does not see a table")
	}
}

// The page and everything that it refers to are served, by this server alone.
func TestDocsPage(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	get := func(path string) (*http.Response, string) {
		resp, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(body)
	}
	resp, page := get("/docs")
	if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") || resp.Header.Get("Content-Security-Policy") == "" {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	refs := regexp.MustCompile(`(?:src|href)="([^"#:]+)"`).FindAllStringSubmatch(page, -1)
	if len(refs) < 2 {
		t.Fatalf("the page refers to %d files:\n%s", len(refs), page)
	}
	for _, ref := range refs {
		if strings.Contains(ref[1], "//") {
			t.Errorf("the page refers to another server: %s", ref[1])
			continue
		}
		relative, err := url.Parse(ref[1])
		if err != nil {
			t.Fatal(err)
		}
		path := (&url.URL{Path: "/docs"}).ResolveReference(relative).Path
		if resp, body := get(path); resp.StatusCode != 200 || body == "" {
			t.Errorf("%s: status %d", path, resp.StatusCode)
		}
	}
}

func TestListOfTables(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	s.Exec(t, s.Main, "grant select on customer to authenticated; grant insert (product) on line to authenticated")
	list := must[*client.ListTablesResponse](t, 200)(s.User(t, uuid.New()).ListTablesWithResponse(t.Context(), nil)).JSON200.Tables
	got := map[string]string{}
	for _, table := range list {
		ops := make([]string, len(table.Operations))
		for i, op := range table.Operations {
			ops[i] = string(op)
		}
		got[table.Path] = strings.Join(ops, " ")
	}
	diff(t, "what a user may do", map[string]string{"/api/v1/tables/customers": "select", "/api/v1/tables/lines": "insert"}, got)
	if all := must[*client.ListTablesResponse](t, 200)(s.Service(t).ListTablesWithResponse(t.Context(), nil)).JSON200.Tables; len(all) != 5 || all[0].Name != "big_purchase" {
		t.Errorf("%d tables with a service key: %+v", len(all), all)
	}
}
