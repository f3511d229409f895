package compile_test

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/fault"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseJSON(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, in string
		want     compile.Body
	}{
		{"object", ` {"a":1,"b":null} `, compile.Body{JSON: []byte(`[ {"a":1,"b":null} ]`), Columns: []string{"a", "b"},
			Single: true, Uniform: true, Rows: 1}},
		{"empty object", `{}`, compile.Body{JSON: []byte(`[{}]`), Single: true, Uniform: true, Rows: 1}},
		{"empty array", `[]`, compile.Body{JSON: []byte(`[]`), Uniform: true}},
		{"same keys in another order", `[{"a":1,"b":2},{"b":3,"a":4}]`, compile.Body{
			JSON: []byte(`[{"a":1,"b":2},{"b":3,"a":4}]`), Columns: []string{"a", "b"}, Uniform: true, Rows: 2}},
		{"a key more", `[{"a":1},{"a":2,"b":3}]`, compile.Body{
			JSON: []byte(`[{"a":1},{"a":2,"b":3}]`), Columns: []string{"a", "b"}, Rows: 2}},
		{"a key less", `[{"a":1,"b":3},{"a":2}]`, compile.Body{
			JSON: []byte(`[{"a":1,"b":3},{"a":2}]`), Columns: []string{"a", "b"}, Rows: 2}},
		{"other keys", `[{"a":1},{"b":3}]`, compile.Body{
			JSON: []byte(`[{"a":1},{"b":3}]`), Columns: []string{"a", "b"}, Rows: 2}},
		{"escaped keys", `{"\u0061\n\ud83d\ude00":1}`, compile.Body{JSON: []byte(`[{"\u0061\n\ud83d\ude00":1}]`),
			Columns: []string{"a\n😀"}, Single: true, Uniform: true, Rows: 1}},
		{"numbers stay", `{"n":12345678901234567890.000000000000000001,"e":-1E+400}`, compile.Body{
			JSON:    []byte(`[{"n":12345678901234567890.000000000000000001,"e":-1E+400}]`),
			Columns: []string{"n", "e"}, Single: true, Uniform: true, Rows: 1}},
		{"nested duplicates are the column's matter", `{"j":{"a":1,"a":2}}`, compile.Body{
			JSON: []byte(`[{"j":{"a":1,"a":2}}]`), Columns: []string{"j"}, Single: true, Uniform: true, Rows: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := compile.ParseJSON([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, *got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestManyKeysAreFoundByName(t *testing.T) {
	t.Parallel()
	var forward, backward []string
	for i := range 40 {
		key := `"k` + strings.Repeat("x", i) + `":1`
		forward = append(forward, key)
		backward = append([]string{key}, backward...)
	}
	b, err := compile.ParseJSON([]byte("[{" + strings.Join(forward, ",") + "},{" + strings.Join(backward, ",") + "}]"))
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Columns) != 40 || !b.Uniform {
		t.Errorf("got %d columns, uniform %v", len(b.Columns), b.Uniform)
	}
	if _, err := compile.ParseJSON([]byte("{" + strings.Join(forward, ",") + "," + forward[3] + "}")); err == nil {
		t.Error("a key that comes twice is taken")
	}
}

func TestParseJSONRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 300) + strings.Repeat("]", 300)
	for _, tt := range []struct{ in, want string }{
		{``, "The body is empty; a JSON object or an array of objects is needed."},
		{`  `, "The body is empty; a JSON object or an array of objects is needed."},
		{`1`, "The body is not a JSON object or an array of objects."},
		{`"x"`, "The body is not a JSON object or an array of objects."},
		{`[1]`, "Row 1 is not a JSON object."},
		{`[{"a":1},[]]`, "Row 2 is not a JSON object."},
		{`{"a":1,"a":2}`, `Row 1 has the key "a" twice.`},
		{`[{"a":1},{"a":1,"\u0061":2}]`, `Row 2 has the key "a" twice.`},
		{`{"a":1`, "Invalid JSON: the end comes too early, a comma or '}' is missing, at byte 7."},
		{`[{"a":1},{"a":tru}]`, "Invalid JSON: 't' stands in the place of a value at byte 15 (row 2)."},
		{`{"a":1}x`, "Invalid JSON: something follows after the end of the value at byte 8."},
		{`{a:1}`, "Invalid JSON: 'a' stands in the place of a key in double quotes at byte 2."},
		{`{"a" 1}`, "Invalid JSON: '1' stands in the place of a colon at byte 6."},
		{`{"a":01}`, "Invalid JSON: '1' stands in the place of a comma or '}' at byte 7."},
		{`{"a":1.}`, "Invalid JSON: '}' stands in the place of a digit at byte 8."},
		{`{"a":"` + "\n" + `"}`, "Invalid JSON: the control character 0x0a stands unescaped in a string at byte 7."},
		{`{"a":"\x"}`, "Invalid JSON: an unknown escape stands in a string at byte 7."},
		{`{"\u0000":1}`, `\u0000 cannot be converted to text.`},
		{`{"\ud800":1}`, "A Unicode surrogate stands alone in a JSON string."},
		{"{\"a\":\"\xff\"}", "The body is not valid UTF-8."},
		{`{"a":` + deep + `}`, "Invalid JSON: values nest deeper than 256 levels at byte 260."},
	} {
		_, err := compile.ParseJSON([]byte(tt.in))
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.Invalid {
			t.Errorf("%s: got error %v", tt.in, err)
			continue
		}
		if f.Message != tt.want {
			t.Errorf("%s: got %q, want %q", tt.in, f.Message, tt.want)
		}
	}
}

func TestParseCSV(t *testing.T) {
	t.Parallel()
	b, err := compile.ParseCSV(strings.NewReader("\ufeffid,\"na\"\"me\"\r\n1,\"a,\"\"b\"\"\nc\"\nNULL,\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := &compile.Body{
		JSON:    []byte(`[{"id":"1","na\"me":"a,\"b\"\u000ac"},{"id":null,"na\"me":""}]`),
		Columns: []string{"id", `na"me`}, Uniform: true, Text: true, Rows: 2,
	}
	if diff := cmp.Diff(want, b); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for in, want := range map[string]string{
		"":                "The body is empty; a line that names the columns is needed.",
		"a,a\n1,2\n":      `The column "a" comes twice.`,
		"a,\n1,2\n":       "The name of column 2 is empty.",
		"a,b\n1,2\n3\n":   "All lines must have same number of fields; line 3 has not as many as the first.",
		"a\n\"x\n":        `Invalid CSV: line 2: extraneous or missing " in quoted-field.`,
		"a,b\n1,\xff\n":   `Invalid CSV: line 2, column "b": it is not valid UTF-8.`,
		"a,b\n1,x\x00y\n": `Invalid CSV: line 2, column "b": a zero byte cannot be stored in text.`,
	} {
		if _, err := compile.ParseCSV(strings.NewReader(in)); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", in, err, want)
		}
	}
}

func TestParseNDJSON(t *testing.T) {
	t.Parallel()
	b, err := compile.ParseNDJSON([]byte("{\"a\":1}\r\n\n {\"b\":\n2} \n{\"a\":3}"))
	if err != nil {
		t.Fatal(err)
	}
	want := &compile.Body{JSON: []byte("[{\"a\":1},{\"b\":\n2},{\"a\":3}]"), Columns: []string{"a", "b"}, Rows: 3}
	if diff := cmp.Diff(want, b); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for in, want := range map[string]string{
		`{"a":1}{"a":2}`:     "Invalid NDJSON: something follows object 1 on its line.",
		"{\"a\":1}\n2":       "Row 2 is not a JSON object.",
		"{\"a\":1}\n\x00":    "Invalid NDJSON: something follows after the end of the value at byte 9 (row 1).",
		"{\"a\":1}\n{\"a\":": "Invalid NDJSON: the end comes too early, a value is missing, at byte 14 (row 2).",
	} {
		if _, err := compile.ParseNDJSON([]byte(in)); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", in, err, want)
		}
	}
}

func TestParseForm(t *testing.T) {
	t.Parallel()
	b, err := compile.ParseForm([]byte("a=1+2%263&&b=NULL&c"))
	if err != nil {
		t.Fatal(err)
	}
	want := &compile.Body{JSON: []byte(`[{"a":"1 2&3","b":"NULL","c":""}]`), Columns: []string{"a", "b", "c"},
		Single: true, Uniform: true, Text: true, Rows: 1}
	if diff := cmp.Diff(want, b); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for in, want := range map[string]string{
		"a=1&a=2": `The field "a" comes twice.`,
		"a=%zz":   `Invalid form: the value of "a" is not encoded correctly.`,
		"%zz=1":   `Invalid form: the name "%zz" is not encoded correctly.`,
		"a=%ff":   `Invalid form: the value of "a": it is not valid UTF-8.`,
		"a=%00":   `Invalid form: the value of "a": a zero byte cannot be stored in text.`,
		"=1":      "The name of field 1 is empty.",
	} {
		if _, err := compile.ParseForm([]byte(in)); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", in, err, want)
		}
	}
}

// checkBody tests what every body that was taken promises.
func checkBody(t *testing.T, b *compile.Body) {
	t.Helper()
	var rows []map[string]json.RawMessage
	if err := json.Unmarshal(b.JSON, &rows); err != nil {
		t.Fatalf("%v: %s", err, b.JSON)
	}
	if len(rows) != b.Rows || b.Single && b.Rows != 1 {
		t.Fatalf("%d rows, said to be %d (single: %v)", len(rows), b.Rows, b.Single)
	}
	keys := map[string]bool{}
	uniform := true
	for _, row := range rows {
		for key := range row {
			keys[key] = true
		}
		uniform = uniform && len(row) == len(rows[0])
	}
	for _, row := range rows {
		uniform = uniform && len(row) == len(keys)
	}
	if b.Rows > 0 && len(keys) != len(b.Columns) || b.Rows > 0 && uniform != b.Uniform {
		t.Fatalf("keys %v, columns %v; uniform %v, said to be %v", keys, b.Columns, uniform, b.Uniform)
	}
	for _, column := range b.Columns {
		if b.Rows > 0 && !keys[column] || !utf8.ValidString(column) || strings.Contains(column, "\x00") {
			t.Fatalf("column %q", column)
		}
	}
}

func FuzzParseJSON(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `[{"a":"\u00e9\ud83d\ude00"},{"b":[1,{"c":null}]}]`, `[]`, `{"a":-0.1e-5}`, `[{"a":1},`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := compile.ParseJSON(data)
		if err == nil {
			checkBody(t, b)
			return
		}
		var rows []map[string]json.RawMessage
		var row map[string]json.RawMessage
		// encoding/json takes what is refused here on purpose: invalid UTF-8, keys that come twice, deep values, null.
		if fe := new(fault.Error); !errors.As(err, &fe) {
			t.Fatalf("not a fault: %v", err)
		} else if strings.HasPrefix(fe.Message, "Invalid JSON") && !strings.Contains(fe.Message, "levels") &&
			(json.Unmarshal(data, &rows) == nil || json.Unmarshal(data, &row) == nil) {
			t.Fatalf("valid JSON is refused: %v", err)
		}
	})
}

func FuzzParseNDJSON(f *testing.F) {
	f.Add([]byte("{\"a\":1}\n{\"b\":2}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if b, err := compile.ParseNDJSON(data); err == nil {
			checkBody(t, b)
		}
	})
}

func FuzzParseCSV(f *testing.F) {
	f.Add("a,b\n1,\"x\ny\"\nNULL,\n")
	f.Fuzz(func(t *testing.T, data string) {
		if b, err := compile.ParseCSV(strings.NewReader(data)); err == nil {
			checkBody(t, b)
		}
	})
}

func FuzzParseForm(f *testing.F) {
	f.Add("a=1&b=%20+&c")
	f.Fuzz(func(t *testing.T, data string) {
		b, err := compile.ParseForm([]byte(data))
		if err != nil {
			return
		}
		checkBody(t, b)
		values, err := url.ParseQuery(data)
		if err == nil && len(values) != len(b.Columns) {
			t.Fatalf("%v, but columns %q", values, b.Columns)
		}
	})
}
