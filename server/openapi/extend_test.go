package openapi_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/openapi"
)

func TestDocumentIsValidForEveryRoleAndSchema(t *testing.T) {
	t.Parallel()
	schema := nasty(t)
	for _, opts := range []openapi.Options{
		{Role: introspect.Owner},
		{Role: introspect.Owner, Namespace: "personal", BaseURL: "https://api.example.org", Anonymous: true},
		{Role: schema.Role("nasty_anon")},
		{Role: schema.Role("nasty_user")},
		{Role: schema.Role("nobody")},
	} {
		_, doc := extend(t, schema, opts)
		// Operation ids are unique, references lead somewhere, examples and defaults fit, formats are known.
		if err := doc.Validate(t.Context(), openapi3.EnableExamplesValidation(), openapi3.EnableSchemaFormatValidation()); err != nil {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}

func TestDocumentIsTheSameForTheSameSchema(t *testing.T) {
	t.Parallel()
	opts := openapi.Options{Role: introspect.Owner}
	one, _ := extend(t, nasty(t), opts)
	two, _ := extend(t, nasty(t), opts)
	if !bytes.Equal(one, two) || openapi.ETag(one) != openapi.ETag(two) {
		t.Error("two documents of equal databases differ")
	}
	opts.Role = 0
	other, _ := extend(t, nasty(t), opts)
	if openapi.ETag(one) == openapi.ETag(other) {
		t.Error("two roles' documents have one ETag")
	}
	if tag := openapi.ETag(one); !strings.HasPrefix(tag, `"`) || !strings.HasSuffix(tag, `"`) || len(tag) < 20 {
		t.Errorf("ETag %s", tag)
	}
}

func TestTemplatesBecomeConcretePaths(t *testing.T) {
	t.Parallel()
	text, doc := extend(t, nasty(t), openapi.Options{Role: introspect.Owner, BaseURL: "https://api.example.org"})
	fixed := contract(t)
	for path, item := range fixed.Paths.Map() {
		got := doc.Paths.Value(path)
		if strings.HasPrefix(path, "/api/v1/tables/{") || strings.HasPrefix(path, "/api/v1/rpc/{") {
			if got != nil {
				t.Errorf("the template %s is still there", path)
			}
			continue
		}
		if diff := cmp.Diff(decode(t, item), decode(t, got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	for path, item := range doc.Paths.Map() {
		if fixed.Paths.Value(path) != nil {
			continue
		}
		if written, _ := json.Marshal(item); bytes.Contains(written, []byte(`/Record"`)) || bytes.Contains(written, []byte(`/RecordOrRecords"`)) ||
			bytes.Contains(written, []byte(`/Arguments"`)) || bytes.Contains(written, []byte(`"filters"`)) {
			t.Errorf("%s has something of its template: %s", path, written)
		}
		for method, op := range item.Operations() {
			if op.Security == nil || len(*op.Security) == 0 {
				t.Errorf("%s %s needs no credentials", method, path)
			}
			if op.Responses.Default() == nil {
				t.Errorf("%s %s has no default response", method, path)
			}
		}
	}
	if got := doc.Servers[0].URL; got != "https://api.example.org" {
		t.Errorf("server %s", got)
	}
	// Nothing is left over that only the templates used.
	for name := range doc.Components.Parameters {
		if !bytes.Contains(text, []byte(`"#/components/parameters/`+name+`"`)) {
			t.Errorf("nothing refers to the parameter %s", name)
		}
	}
}

func TestContractWithoutTemplatesIsAnError(t *testing.T) {
	t.Parallel()
	fixed, err := openapi3.NewLoader().LoadFromFile("../../gen/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	fixed.Paths.Delete("/api/v1/tables/{table}")
	if _, err := openapi.Extend(fixed, &introspect.Schema{}, openapi.Options{}); err == nil || !strings.Contains(err.Error(), "/api/v1/tables/{table}") {
		t.Errorf("error %v", err)
	}
}

// methodsOf are the methods of a path, in alphabetical order.
func methodsOf(doc *openapi3.T, path string) string {
	item := doc.Paths.Value(path)
	if item == nil {
		return ""
	}
	var out []string
	for method := range item.Operations() {
		out = append(out, method)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestPathsFollowKindKeyAndPrivileges(t *testing.T) {
	t.Parallel()
	schema := nasty(t)
	documents := map[string]*openapi3.T{}
	const all, allOfOne = "DELETE GET PATCH POST", "DELETE GET PATCH PUT"
	for _, tt := range []struct {
		role, path, want string
	}{
		{"", "/api/v1/tables/authors", all},
		{"", "/api/v1/tables/authors/{id}", allOfOne},
		{"", "/api/v1/tables/author", ""},
		{"", "/api/v1/tables/no_keys", all},
		{"", "/api/v1/tables/no_keys/{id}", ""},
		{"", "/api/v1/tables/memberships/{id}", allOfOne},
		{"", "/api/v1/tables/happy_authors", all},   // a view that can be written
		{"", "/api/v1/tables/author_counts", "GET"}, // one that cannot
		{"", "/api/v1/tables/post_titles", "GET"},   // a materialised view
		{"", "/api/v1/tables/measures", all},        // a partitioned table
		{"", "/api/v1/tables/measure_2026s", ""},    // a partition
		{"", "/api/v1/tables/person", all},          // its plural is the name of another table
		{"", "/api/v1/tables/people", ""},           // which has a plural of its own
		{"", "/api/v1/tables/peoples", all},         //
		{"", "/api/v1/tables/a%2Fb%3Fc%23d%2520%7Be%7D", all},
		{"", "/api/v1/tables/%E8%A1%A8%E6%A0%BC", all},
		{"", "/api/v1/tables/diaries", all}, // of the second schema
		{"", "/api/v1/tables/secrets", ""},  // of one that is not exposed
		{"", "/api/v1/rpc/add", "GET POST"},
		{"", "/api/v1/rpc/bump", "POST"},     // volatile
		{"", "/api/v1/rpc/clean_up", "POST"}, // a procedure
		{"", "/api/v1/rpc/echo", "POST"},     // takes the whole body
		{"", "/api/v1/rpc/unnamed", ""},      // cannot be called
		{"", "/api/v1/rpc/touch", ""},        // a trigger
		{"", "/api/v1/rpc/whisper", "GET POST"},
		{"", "/api/v1/rpc/no", ""},
		{"nasty_anon", "/api/v1/tables/authors", "GET"}, // some columns
		{"nasty_anon", "/api/v1/tables/authors/{id}", "GET"},
		{"nasty_anon", "/api/v1/tables/posts", "GET"},
		{"nasty_anon", "/api/v1/tables/no_keys", ""},
		{"nasty_anon", "/api/v1/rpc/add", "GET POST"},
		{"nasty_anon", "/api/v1/rpc/bump", ""},
		{"nasty_user", "/api/v1/tables/posts", "GET PATCH POST"},
		{"nasty_user", "/api/v1/tables/posts/{id}", "GET PATCH PUT"},
		{"nasty_user", "/api/v1/tables/no_keys", "DELETE GET"},
		{"nasty_user", "/api/v1/tables/memberships", "POST"}, // cannot read the key
		{"nasty_user", "/api/v1/tables/memberships/{id}", ""},
		{"nobody", "/api/v1/tables/posts", ""},
	} {
		if documents[tt.role] == nil {
			_, documents[tt.role] = extend(t, schema, openapi.Options{Role: schema.Role(tt.role)})
		}
		if got := methodsOf(documents[tt.role], tt.path); got != tt.want {
			t.Errorf("as %q, %s has %q, not %q", tt.role, tt.path, got, tt.want)
		}
	}
}

func TestColumnsFollowPrivileges(t *testing.T) {
	t.Parallel()
	schema := nasty(t)
	_, doc := extend(t, schema, openapi.Options{Role: schema.Role("nasty_anon")})
	if got := properties(doc, "Authors"); !cmp.Equal(got, []string{"full_name", "id", "name"}) && !cmp.Equal(got, []string{"id", "name"}) {
		t.Errorf("anon reads %v", got)
	}
	_, doc = extend(t, schema, openapi.Options{Role: schema.Role("nasty_user")})
	base := strings.TrimPrefix(doc.Paths.Value("/api/v1/tables/posts").Get.OperationID, "list")
	if diff := cmp.Diff([]string{"author_id", "title"}, properties(doc, base+"Insert")); diff != "" {
		t.Errorf("user inserts (-want +got):\n%s", diff)
	}
	// The key is there to tell the records of an array apart.
	if diff := cmp.Diff([]string{"id", "title"}, properties(doc, base+"Update")); diff != "" {
		t.Errorf("user updates (-want +got):\n%s", diff)
	}
}

func properties(doc *openapi3.T, schema string) []string {
	out := []string{}
	for name := range doc.Components.Schemas[schema].Value.Properties {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func TestSchemasHaveADocumentEach(t *testing.T) {
	t.Parallel()
	schema := nasty(t)
	_, doc := extend(t, schema, openapi.Options{Role: introspect.Owner})
	profile := doc.Paths.Value("/api/v1/tables/diaries").Get.Parameters.GetByInAndName("header", "Accept-Profile")
	if profile == nil || !profile.Required || !cmp.Equal(profile.Schema.Value.Enum, []any{"personal"}) {
		t.Errorf("the second schema must be named, by %+v", profile)
	}
	if got := doc.Paths.Value("/api/v1/tables/authors").Get.Parameters.GetByInAndName("header", "Accept-Profile"); got == nil || got.Required {
		t.Errorf("the first schema need not be named, but has %+v", got)
	}
	_, doc = extend(t, schema, openapi.Options{Role: introspect.Owner, Namespace: "personal"})
	if diff := cmp.Diff([]string{"id", "note"}, properties(doc, "PersonalAuthors")); diff != "" {
		t.Errorf("personal.author (-want +got):\n%s", diff)
	}
	if doc.Paths.Value("/api/v1/tables/posts") != nil {
		t.Error("the document of one schema has tables of another")
	}
}

func TestNamesDoNotCollide(t *testing.T) {
	t.Parallel()
	_, doc := extend(t, nasty(t), openapi.Options{Role: introspect.Owner})
	seen := map[string]string{}
	for _, list := range [][]string{keys(doc.Components.Schemas), keys(doc.Components.Parameters), keys(doc.Components.Responses)} {
		for _, name := range list {
			folded := strings.ToLower(strings.NewReplacer("_", "", ".", "").Replace(name))
			if other, ok := seen[folded]; ok && contract(t).Components.Schemas[name] == nil {
				t.Errorf("the components %s and %s would have one name in code", name, other)
			}
			seen[folded] = name
		}
	}
	tags := map[string]bool{}
	for _, tag := range doc.Tags {
		if tags[tag.Name] {
			t.Errorf("two tags are called %s", tag.Name)
		}
		tags[tag.Name] = true
	}
	if got := doc.Paths.Value("/api/v1/tables/branches").Get.OperationID; got != "listBranchesTable" {
		t.Errorf("a table like a resource of the contract has the operation %s", got)
	}
}

func keys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func decode(t testing.TB, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
