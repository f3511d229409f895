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

// parse reads JSON for a comparison.
func parse(t *testing.T, text string) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.UseNumber()
	var out any
	if err := dec.Decode(&out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

func TestColumnsAsTheyAreReadAndWritten(t *testing.T) {
	t.Parallel()
	text, doc := extend(t, nasty(t), openapi.Options{Role: introspect.Owner})
	var all struct {
		Components struct {
			Schemas map[string]struct {
				Required   []string
				Properties map[string]json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	posts := strings.TrimPrefix(doc.Paths.Value("/api/v1/tables/posts").Get.OperationID, "list")
	for _, tt := range []struct{ schema, column, want string }{
		{posts, "id", `{"type":"string","format":"uuid"}`},
		{posts, "author_id", `{"type":"integer","format":"int64","description":"Refers to author.id."}`},
		{posts, "title", `{"type":"string","maxLength":80}`},
		{posts, "slug", `{"type":"string","nullable":true,"maxLength":8}`},
		{posts, "words", `{"type":"integer","format":"int32","nullable":true,"readOnly":true}`},
		{posts, "small", `{"type":"integer","format":"int32","minimum":-32768,"maximum":32767,"nullable":true}`},
		{posts, "ratio", `{"type":"number","format":"float","nullable":true}`},
		{posts, "score", `{"type":"number","format":"double","nullable":true}`},
		{posts, "active", `{"type":"boolean"}`},
		{posts, "tags", `{"type":"array","items":{"type":"string"},"nullable":true}`},
		{posts, "data", `{"description":"Any JSON value."}`},
		{posts, "day", `{"type":"string","format":"date","nullable":true}`},
		{posts, "at", `{"type":"string","format":"date-time"}`},
		{posts, "local", `{"type":"string","nullable":true,"description":"A date and time without a zone, such as 2026-01-31T12:00:00."}`},
		{posts, "period", `{"type":"string","nullable":true,"description":"As PostgreSQL writes the type tstzrange."}`},
		{posts, "bytes", `{"type":"string","pattern":"^\\\\x([0-9a-fA-F]{2})*$","nullable":true,"description":"Bytes in hexadecimal, after \\x."}`},
		{posts, "positive", `{"type":"integer","format":"int32","description":"Domain positive."}`},
		{"Authors", "id", `{"type":"integer","format":"int64","readOnly":true}`},
		{"Authors", "name", `{"type":"string","description":"What they are called: \"in full\"."}`},
		{"Authors", "email", `{"type":"string","nullable":true,"description":"Domain email. An address."}`},
		{"Authors", "mood", `{"$ref":"#/components/schemas/Mood"}`},
		{"Authors", "other_mood", `{"$ref":"#/components/schemas/HiddenMoodOrNull"}`},
		{"Authors", "unspeakable", `{"type":"string","nullable":true,"description":"As PostgreSQL writes the type public.unspeakable."}`},
		{"Authors", "home", `{"type":"object","properties":{"street":{"type":"string","nullable":true},"zip code":{"type":"string","nullable":true},
			"tags":{"type":"array","items":{"type":"string"},"nullable":true}},"nullable":true}`},
		{"AuthorsInsert", "mood", `{"allOf":[{"$ref":"#/components/schemas/Mood"}],"default":"happy"}`},
		{posts + "Insert", "title", `{"type":"string","maxLength":80,"default":"it's new"}`},
		{posts + "Insert", "discount", `{"type":"number","x-go-type":"json.Number","nullable":true,"default":-1.5}`},
		{posts + "Insert", "small", `{"type":"integer","format":"int32","minimum":-32768,"maximum":32767,"nullable":true,"default":-3}`},
		{posts + "Insert", "big", `{"type":"integer","format":"int64","nullable":true,"default":9007199254740993}`},
		{posts + "Insert", "active", `{"type":"boolean","default":true}`},
		{posts + "Insert", "at", `{"type":"string","format":"date-time"}`},
		{posts + "Insert", "words", ""},
		{"AuthorsInsert", "id", ""},
		{"StrangeNames", `quo"te`, ""},
	} {
		got, ok := all.Components.Schemas[tt.schema].Properties[tt.column]
		if tt.want == "" || !ok {
			if ok != (tt.want != "") {
				t.Errorf("%s.%s is %s", tt.schema, tt.column, got)
			}
			continue
		}
		if diff := cmp.Diff(parse(t, tt.want), parse(t, string(got))); diff != "" {
			t.Errorf("%s.%s (-want +got):\n%s", tt.schema, tt.column, diff)
		}
	}
	for schema, want := range map[string][]string{
		posts:                nil, // select may leave out any
		posts + "Insert":     {"author_id"},
		posts + "Update":     nil,
		"AuthorsInsert":      {"name"},
		"MembershipsInsert":  {"author_id", "post_id", "kind,of", "day"},
		"MembershipsReplace": {"day"}, // the key is in the path
	} {
		if diff := cmp.Diff(want, all.Components.Schemas[schema].Required); diff != "" {
			t.Errorf("%s requires (-want +got):\n%s", schema, diff)
		}
	}
}

func TestRecordsAreAddressedByTheirKey(t *testing.T) {
	t.Parallel()
	_, doc := extend(t, nasty(t), openapi.Options{Role: introspect.Owner})
	for path, want := range map[string]string{
		"/api/v1/tables/authors/{id}": `{"name":"id","in":"path","required":true,"description":"The primary key, id.",
			"schema":{"type":"integer","format":"int64"},"example":1}`,
		"/api/v1/tables/memberships/{id}": `{"name":"id","in":"path","required":true,
			"description":"The primary key: the values of post_id, author_id, kind,of, separated by commas. A comma within a value is percent-encoded twice over: %252C.",
			"schema":{"type":"string","pattern":"^[^,]*,[^,]*,[^,]*$"},"example":"0191d9a0-5f0e-7c5e-9a52-6f6f3a2b1c4d,1,te"}`,
	} {
		got, err := json.Marshal(doc.Paths.Value(path).Parameters.GetByInAndName("path", "id"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(parse(t, want), parse(t, string(got))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// filterNames are the query parameters of an operation that begin with a column's name.
func filterNames(op *openapi3.Operation, column string) string {
	var out []string
	for _, p := range op.Parameters {
		if p.Value.In == "query" && (p.Value.Name == column || strings.HasPrefix(p.Value.Name, column+".")) {
			out = append(out, strings.TrimPrefix(p.Value.Name, column))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestFiltersFitTheColumnsType(t *testing.T) {
	t.Parallel()
	_, doc := extend(t, nasty(t), openapi.Options{Role: introspect.Owner})
	posts, strange := doc.Paths.Value("/api/v1/tables/posts"), doc.Paths.Value("/api/v1/tables/strange%20names")
	for _, tt := range []struct {
		item         *openapi3.PathItem
		column, want string
	}{
		{posts, "body", " .eq .gt .gte .ilike .in .is .like .lt .lte .neq"},
		{posts, "title", " .eq .gt .gte .ilike .in .like .lt .lte .neq"}, // never null
		{posts, "big", " .eq .gt .gte .in .is .lt .lte .neq"},
		{posts, "at", " .eq .gt .gte .in .lt .lte .neq"},
		{posts, "active", " .eq .in .is .neq"},
		{posts, "id", " .eq .in .neq"},
		{posts, "tags", " .eq .is .neq"},
		{posts, "period", " .eq .is .neq"},
		{posts, "old_data", " .is"},
		{strange, "limit", " .eq .gt .gte .in .is .lt .lte .neq"}, // the parameter limit, and filters of the column
		{strange, "user id", " .eq .gt .gte .ilike .in .is .like .lt .lte .neq"},
		{strange, `quo"te`, ""},
		{strange, "@at", ""},
	} {
		for _, op := range []*openapi3.Operation{tt.item.Get, tt.item.Patch, tt.item.Delete} {
			want := tt.want
			if tt.column == "limit" && op != tt.item.Get {
				want = strings.TrimPrefix(want, " ")
			}
			if got := filterNames(op, tt.column); got != want {
				t.Errorf("%s: %s has %q, not %q", op.OperationID, tt.column, got, want)
			}
		}
		if got := filterNames(tt.item.Post, tt.column); got != "" {
			t.Errorf("a POST is filtered by %s%s", tt.column, got)
		}
	}
	if got := posts.Get.Parameters.GetByInAndName("query", "big.gte").Schema.Value; !got.Type.Is("integer") || got.Format != "int64" {
		t.Errorf("big.gte is %+v", got)
	}
	if got := doc.Paths.Value("/api/v1/tables/authors").Get.Parameters.GetByInAndName("query", "mood.eq").Schema.Value; len(got.Enum) != 7 {
		t.Errorf("mood.eq has the values %v", got.Enum)
	}
}

func TestFunctionsHaveArgumentsAndResults(t *testing.T) {
	t.Parallel()
	_, doc := extend(t, nasty(t), openapi.Options{Role: introspect.Owner})
	posts := strings.TrimPrefix(doc.Paths.Value("/api/v1/tables/posts").Get.OperationID, "list")
	for _, tt := range []struct{ function, body, result string }{
		{"add", `{"anyOf":[{"$ref":"#/components/schemas/AddArguments"},{"$ref":"#/components/schemas/AddArguments_2"}]}`,
			`{"anyOf":[{"type":"integer","format":"int32","nullable":true},{"type":"string","nullable":true}]}`},
		{"search_posts", `{"$ref":"#/components/schemas/SearchPostsArguments"}`, `{"type":"array","items":{"$ref":"#/components/schemas/` + posts + `"}}`},
		{"top_authors", `{"$ref":"#/components/schemas/TopAuthorsArguments"}`, `{"type":"array","items":{"$ref":"#/components/schemas/TopAuthorsResult"}}`},
		{"out_args", `{"$ref":"#/components/schemas/OutArgsArguments"}`, `{"$ref":"#/components/schemas/OutArgsResult"}`},
		{"bump", `{"$ref":"#/components/schemas/BumpArguments"}`, ""},
		{"now_is", "", `{"type":"string","format":"date-time","nullable":true}`},
		{"many", "", `{"type":"array","items":{"type":"string","nullable":true}}`},
		{"echo", `{"description":"Any JSON value."}`, `{"description":"Any JSON value."}`},
	} {
		op := doc.Paths.Value("/api/v1/rpc/" + tt.function).Post
		body, result := "", ""
		if op.RequestBody != nil {
			body = schemaOf(t, op.RequestBody.Value.Content)
		}
		if response := op.Responses.Value("200"); response != nil {
			result = schemaOf(t, response.Value.Content)
		}
		for _, part := range []struct{ name, got, want string }{{"body", body, tt.body}, {"result", result, tt.result}} {
			if part.want == "" || part.got == "" {
				if part.want != part.got {
					t.Errorf("%s: %s is %q, not %q", tt.function, part.name, part.got, part.want)
				}
			} else if diff := cmp.Diff(parse(t, part.want), parse(t, part.got)); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", tt.function, part.name, diff)
			}
		}
	}
	add := doc.Paths.Value("/api/v1/rpc/add").Get
	if a, b := add.Parameters.GetByInAndName("query", "a"), add.Parameters.GetByInAndName("query", "b"); !a.Required || b.Required {
		t.Error("add needs a, and one of its forms does without b")
	}
	if add.Summary != "Adds two numbers." || add.Description != "The second is 1 where it is left out." {
		t.Errorf("add is described as %q, %q", add.Summary, add.Description)
	}
	search := doc.Paths.Value("/api/v1/rpc/search_posts").Get
	for _, name := range []string{"term", "limit", "select", "order", "title.eq"} {
		if search.Parameters.GetByInAndName("query", name) == nil {
			t.Errorf("search_posts has no parameter %s", name)
		}
	}
	if shout := doc.Paths.Value("/api/v1/rpc/shout").Post; shout.RequestBody.Value.Content["text/plain"] == nil || len(shout.RequestBody.Value.Content) != 1 {
		t.Error("shout takes text only")
	}
}

func schemaOf(t *testing.T, content openapi3.Content) string {
	t.Helper()
	text, err := json.Marshal(content["application/json"].Schema)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
