package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// Schemas have one type a property, or say which there are, are closed, and have what the tags say.
func TestSchemas(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	definitions := map[string]string{}
	for _, tool := range s.cfg.Tools {
		d, err := tool.Definition()
		if err != nil {
			t.Fatal(err)
		}
		definitions[tool.Name] = string(d)
		for _, bad := range []string{`["null"`, `"last":true`, "$schema", "oneOf", `"type":[`} {
			if strings.Contains(string(d), bad) {
				t.Errorf("%s has %s: %s", tool.Name, bad, d)
			}
		}
	}
	want := `{"annotations":{"destructiveHint":false,"idempotentHint":false,"openWorldHint":false,"readOnlyHint":true},"description":"For tests.",` +
		`"inputSchema":{"type":"object","properties":{"text":{"type":"string","description":"what to say","maxLength":40,"minLength":1},` +
		`"count":{"type":"integer","default":2,"minimum":1,"maximum":5},"tone":{"type":"string","default":"soft","enum":["soft","loud"]},` +
		`"lines":{"type":"array","maxItems":3,"items":{"type":"object","properties":{"column":{"type":"string"},` +
		`"op":{"type":"string","default":"eq","enum":["eq","neq"]}},"required":["column"],"additionalProperties":false}},` +
		`"any":{"description":"anything","anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"null"},{"type":"array"},{"type":"object"}]},"names":{"type":"array","items":{"type":"string","enum":["a","b"]}},"sure":{"type":"boolean"},` +
		`"share":{"type":"number"}},"required":["text"],"additionalProperties":false},"name":"echo",` +
		`"outputSchema":{"type":"object","properties":{"said":{"type":"string"},"lines":{"type":"array","items":{"type":"object","properties":` +
		`{"column":{"type":"string"},"op":{"type":"string","default":"eq","enum":["eq","neq"]}},"required":["column"],"additionalProperties":false}},` +
		`"notes":{"type":"object","additionalProperties":{"type":"string"}},"last":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["said","lines","notes","last"],"additionalProperties":false}}`
	if diff := cmp.Diff(parsed(t, want), parsed(t, definitions["echo"])); diff != "" {
		t.Errorf("echo (-want +got):\n%s", diff)
	}
	if i, j := strings.Index(definitions["echo"], `"count"`), strings.Index(definitions["echo"], `"tone"`); i < 0 || i > j {
		t.Errorf("the fields are out of order: %s", definitions["echo"])
	}
	if !strings.Contains(definitions["rows"], `"branch":{"type":"string","description":"slug or id of the branch; default main"}`) {
		t.Errorf("rows has no branch: %s", definitions["rows"])
	}
}

func parsed(tb testing.TB, text string) any {
	tb.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		tb.Fatalf("%v: %s", err, text)
	}
	return v
}

// Types whose JSON is not that of their Go type have the schema of their JSON.
func TestSchemasOfKnownTypes(t *testing.T) {
	t.Parallel()
	got := string(written(schemaOf[struct {
		ID   uuid.UUID       `json:"id"`
		At   time.Time       `json:"at"`
		Raw  json.RawMessage `json:"raw"`
		Opt  *int            `json:"opt,omitempty"`
		List []any           `json:"list"`
		Map  map[string]any  `json:"map"`
	}](true)))
	want := `{"type":"object","properties":{"id":{"type":"string","format":"uuid"},"at":{"type":"string","format":"date-time"},"raw":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"null"},{"type":"array"},{"type":"object"}]},` +
		`"opt":{"type":"integer"},"list":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"null"},{"type":"array"},{"type":"object"}]}},"map":{"type":"object"}},` +
		`"required":["id","at","raw","list","map"],"additionalProperties":false}`
	if diff := cmp.Diff(parsed(t, want), parsed(t, got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A tag that is wrong is found when the program starts.
func TestWrongTags(t *testing.T) {
	t.Parallel()
	panics := func(name string, f func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", name)
			}
		}()
		f()
	}
	panics("no value", func() {
		schemaOf[struct {
			A int `json:"a,omitempty" schema:"min"`
		}](false)
	})
	panics("unknown key", func() {
		schemaOf[struct {
			A int `json:"a,omitempty" schema:"least=1"`
		}](false)
	})
	panics("default of a required field", func() {
		schemaOf[struct {
			A int `json:"a" schema:"default=1"`
		}](false)
	})
	panics("default of another type", func() {
		schemaOf[struct {
			A int `json:"a,omitempty" schema:"default=x"`
		}](false)
	})
	panics("bound of a boolean", func() {
		schemaOf[struct {
			A bool `json:"a,omitempty" schema:"min=1"`
		}](false)
	})
	panics("no object", func() { schemaOf[[]int](false) })
	panics("branch of its own", func() {
		NewTool[lookIn, empty](Tool{Name: "x", Branched: true}, nil)
	})
}

// Arguments are held against the schema; what is wrong is told in words that help.
func TestArguments(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	echo := s.cfg.Tools[0]
	for _, c := range []struct{ name, args, said, problem string }{
		{"least", `{"text":"a"}`, "a a soft", ""},
		{"all", `{"text":"a","count":1,"tone":"loud","lines":[{"column":"x"}],"names":["a","b"],"sure":true,"share":0.5}`, "a loud", ""},
		{"nulls", `{"text":"a","count":null,"tone":null,"lines":null}`, "a a soft", ""},
		{"integers in other forms", `{"text":"a","count":1.0}`, "a soft", ""},
		{"big number in any", `{"text":"a","count":1,"any":12345678901234567890}`, "a soft json.Number 12345678901234567890", ""},
		{"nothing", ``, "", "text is missing; it must be a text"},
		{"null", `null`, "", "text is missing; it must be a text"},
		{"list", `[1]`, "", "the arguments must be an object, not a list"},
		{"unknown", `{"text":"a","txet":1}`, "", "there is no argument txet; there is text, count, tone, lines, any, names, sure, share"},
		{"other case", `{"Text":"a"}`, "", "there is no argument Text; there is text, count, tone, lines, any, names, sure, share; text is missing; it must be a text"},
		{"number for text", `{"text":5}`, "", "text must be a text, not the number 5"},
		{"text for number", `{"text":"a","count":"3"}`, "", `count must be an integer, not the text "3"`},
		{"null for required", `{"text":null}`, "", "text must be a text, not null"},
		{"fraction", `{"text":"a","count":1.5}`, "", "count must be an integer of at most 64 bits, not 1.5"},
		{"huge", `{"text":"a","count":1e300}`, "", "count must be an integer of at most 64 bits, not 1e300"},
		{"beyond", `{"text":"a","share":1e999}`, "", "share is a number out of range: 1e999"},
		{"too small", `{"text":"a","count":0}`, "", "count must be at least 1, not 0"},
		{"too large", `{"text":"a","count":6}`, "", "count must be at most 5, not 6"},
		{"empty", `{"text":""}`, "", "text must not be empty"},
		{"long", `{"text":"` + strings.Repeat("ä", 41) + `"}`, "", "text must have at most 40 characters, not 41"},
		{"no value of those", `{"text":"a","tone":"shrill"}`, "", `tone must be soft or loud, not "shrill"`},
		{"element", `{"text":"a","names":["a","c"]}`, "", `names[1] must be a or b, not "c"`},
		{"too many", `{"text":"a","lines":[{"column":"x"},{"column":"x"},{"column":"x"},{"column":"x"}]}`, "", "lines must have at most 3 elements, not 4"},
		{"within", `{"text":"a","lines":[{"column":"x","op":"is","vaule":1}]}`, "", `lines[0].op must be eq or neq, not "is"; there is no argument lines[0].vaule; there is column, op`},
		{"no boolean", `{"text":"a","sure":"yes"}`, "", `sure must be true or false, not the text "yes"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := echo.Do(t.Context(), &Call{}, json.RawMessage(c.args))
			if err != nil {
				if diff := cmp.Diff(c.problem, err.Error()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				return
			}
			if diff := cmp.Diff(c.said, r.Structured.(echoOut).Said); diff != "" || c.problem != "" {
				t.Errorf("want problem %q; (-want +got):\n%s", c.problem, diff)
			}
		})
	}
}

// Defaults reach into lists of objects.
func TestDefaultsWithin(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	r, err := s.cfg.Tools[0].Do(t.Context(), &Call{}, json.RawMessage(`{"text":"a","lines":[{"column":"x"},{"column":"y","op":"neq"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]line{{"x", "eq"}, {"y", "neq"}}, r.Structured.(echoOut).Lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A result that is not as the tool's schema has it does not pass a tool's own tests.
func TestDoHoldsResultsAgainstTheSchema(t *testing.T) {
	t.Parallel()
	tool := NewTool[empty, changeOut](Tool{Name: "x"}, func(_ context.Context, _ *Call, _ empty) (*Result, error) {
		return &Result{Structured: map[string]any{"answer": 5}}, nil
	})
	if _, err := tool.Do(t.Context(), &Call{}, nil); err == nil || !strings.Contains(err.Error(), "not as its schema has it") {
		t.Errorf("got %v", err)
	}
}
