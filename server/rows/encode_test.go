package rows_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/rows"
)

// The encoders must give what to_json gives, byte for byte, for every type they are chosen for.
func TestEncodingIsThatOfToJSON(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	timestamps := []string{
		"2024-01-01 00:00:00", "2024-01-01 00:00:00.1", "2024-12-31 23:59:59.999999", "1999-02-28 12:34:56.000001",
		"0001-01-01 00:00:00", "9999-12-31 23:59:59", "10000-01-01 00:00:00", "294275-12-31 23:59:59.999999",
		"0044-03-15 12:00:00 BC", "4713-01-01 00:00:00 BC", "1582-10-15 00:00:00", "1883-11-18 12:03:57",
		"1840-06-01 10:00:00.5", "1937-05-01 00:00:00", "2024-03-31 02:30:00", "infinity", "-infinity",
	}
	zones := []string{
		"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu", "America/St_Johns", "Africa/Monrovia",
		"Pacific/Kiritimati", "Pacific/Marquesas", "Europe/Amsterdam", "<+15:30>-15:30", "<-12:34>+12:34",
	}
	type sample struct {
		encoding      string
		typ, expr, tz string
	}
	var samples []sample
	for _, ts := range timestamps {
		samples = append(samples, sample{"t", "timestamp", "'" + ts + "'", "UTC"})
		for _, z := range zones {
			samples = append(samples, sample{"t", "timestamptz", "'" + ts + "'", z})
		}
	}
	for _, e := range []string{
		"'NaN'::float8", "'-Infinity'::float8", "'Infinity'::float4", "'NaN'::numeric", "'Infinity'::numeric", "'-Infinity'::numeric",
		"0::int", "-5::bigint", "1.50::numeric", "1e-7::float8", "-1e+300::float8", "0.1::float4", "123456789012345678901234567890.123::numeric",
	} {
		samples = append(samples, sample{"n", "", e, "UTC"})
	}
	samples = append(samples, sample{"b", "", "true", "UTC"}, sample{"b", "", "false", "UTC"},
		sample{"j", "", `'{"a": [1, null]}'::jsonb`, "UTC"}, sample{"j", "", `to_json(array[1,2])`, "UTC"})
	for c := 1; c < 0x180; c++ {
		samples = append(samples, sample{"s", "text", fmt.Sprintf("'x' || chr(%d) || 'yz'", c), "UTC"})
	}
	for _, e := range []string{
		"''::text", `'"\/'::text`, `'ünï😀 \u2028'::text`, `repeat('a"b\c', 20)`, "'2024-01-01'::date", "'0044-03-15 BC'::date", "'infinity'::date", "'12:00:00.5'::time",
		"'12:00+05:30'::timetz", "'1 year 2 days -03:00'::interval", `'\xdeadbeef'::bytea`, "'0b52a9a0-95ab-4a3b-8a8e-5d7e5fb2b3aa'::uuid",
		"'192.168.0.0/24'::cidr", "'101'::bit(3)", "'a'::\"char\"", "'12.50'::money", "'(1,2)'::point",
	} {
		samples = append(samples, sample{"s", "", e, "UTC"})
	}
	// The values are selected in groups, as columns of a row.
	byZone := map[string][]sample{}
	for _, s := range samples {
		byZone[s.tz] = append(byZone[s.tz], s)
	}
	for tz, all := range byZone {
		for len(all) > 0 {
			group := all[:min(len(all), 500)]
			all = all[len(group):]
			var plain, asJSON []string
			var columns, texts []string
			for i, s := range group {
				e := s.expr
				if s.typ != "" {
					e = "(" + e + ")::" + s.typ
				}
				plain = append(plain, e)
				asJSON = append(asJSON, "to_json("+e+")::text")
				columns = append(columns, fmt.Sprintf("c%d:%s", i, s.encoding))
				texts = append(texts, fmt.Sprintf("c%d", i))
			}
			session := &rows.Session{Settings: []rows.Setting{{Name: "timezone", Value: tz}}}
			ndjson := rows.NewBody(nil, false)
			one := statement("select "+strings.Join(plain, ", "), nil, columns...)
			var want rows.Values
			if err := rows.Run(t.Context(), conn, session,
				rows.Step{Statement: one, Sink: rows.NewNDJSON(ndjson, one.Output, rows.Options{})},
				rows.Step{Statement: statement("select "+strings.Join(asJSON, ", "), nil, texts...), Sink: &want},
			); err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for i, w := range want.Rows[0] {
				fmt.Fprintf(&b, `%s"c%d":%s`, map[bool]string{true: "{", false: ","}[i == 0], i, *w)
			}
			b.WriteString("}\n")
			if got := string(ndjson.Bytes()); got != b.String() {
				g, w := strings.Split(got, ",\"c"), strings.Split(b.String(), ",\"c")
				t.Errorf("timezone %s: (-to_json +ours)\n%s", tz, cmp.Diff(w, g))
			}
			if !json.Valid(ndjson.Bytes()) {
				t.Errorf("not JSON: %s", ndjson.Bytes())
			}
			ndjson.Release()
		}
	}
}

func FuzzString(f *testing.F) {
	for _, s := range []string{"", "a", `"`, `\`, "\x00\x01\x1f\x7f", "12345678", `1234567"`, `12345678"`, "ünïcödé 😀", "a\nb\tc\rd\be\ff", strings.Repeat(`x"`, 99), "\xff\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := rows.AppendString([]byte("x"), []byte(s))
		if got[0] != 'x' {
			t.Fatal("the prefix is gone")
		}
		if !utf8.ValidString(s) {
			return
		}
		var back string
		if err := json.Unmarshal(got[1:], &back); err != nil || back != s {
			t.Fatalf("%q became %s: %q, %v", s, got[1:], back, err)
		}
	})
}

var timestampForm = regexp.MustCompile(`^(\d+-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)([+-]\d\d)?((?::\d\d)*)( BC)?$`)

// slowTimestamp is the reference: what PostgreSQL prints, taken apart and put together.
func slowTimestamp(s string) (string, bool) {
	m := timestampForm.FindStringSubmatch(s)
	if m == nil || m[3] == "" && m[4] != "" {
		return "", false
	}
	if m[3] != "" && m[4] == "" {
		m[4] = ":00"
	}
	return `"` + m[1] + "T" + m[2] + m[3] + m[4] + m[5] + `"`, true
}

func FuzzTimestamp(f *testing.F) {
	for _, s := range []string{
		"2024-01-01 00:00:00", "2024-01-01 00:00:00.123+02", "0044-03-15 00:00:00+00:53:28 BC", "infinity", "-infinity", "294276-12-31 23:59:59.999999-12:30", "1-1-1 x\" ", "",
		"2024-01-01 00:00:00-05 BC", "2024-01-01 00:00:00 BC", "01/02/2024 00:00:00", "Mon Jan 01 00:00:00 2024 UTC",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := string(rows.AppendTimestamp(nil, []byte(s)))
		if want, ok := slowTimestamp(s); ok && got != want {
			t.Fatalf("%q became %s, want %s", s, got, want)
		}
		var back string
		if utf8.ValidString(s) {
			if err := json.Unmarshal([]byte(got), &back); err != nil {
				t.Fatalf("%q became %s: %v", s, got, err)
			}
		}
	})
}

// strip is the reference of AppendStripped.
func strip(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if e == nil {
				delete(v, k)
			} else {
				v[k] = strip(e)
			}
		}
	case []any:
		for i := range v {
			v[i] = strip(v[i])
		}
	}
	return v
}

func FuzzStripped(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `null`, ` { "a" : null , "b" : [ null, {"c":null,"d":1} ], "e\"\\": "x, null}" } `, `"nu\\ll"`, `-1.5e+3`, `[[],{},[null,[null]]]`,
		"{\"a\":null}", "{\"null\":{\"null\":null,\"n\":\"null\"}}", "[1 ,\n 2,true ,false]",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !json.Valid([]byte(s)) || !utf8.ValidString(s) {
			return
		}
		got := rows.AppendStripped(nil, []byte(s))
		// Numbers are compared as text.
		parse := func(b []byte) (v any) {
			d := json.NewDecoder(bytes.NewReader(b))
			d.UseNumber()
			if err := d.Decode(&v); err != nil {
				t.Fatalf("%s became %s: %v", s, got, err)
			}
			return v
		}
		if hasDuplicates(s) {
			return
		}
		if diff := cmp.Diff(strip(parse([]byte(s))), parse(got)); diff != "" {
			t.Fatalf("%s became %s: (-want +got)\n%s", s, got, diff)
		}
	})
}

// hasDuplicates reports whether JSON loses keys when it is read into maps: their order decides then.
func hasDuplicates(s string) bool {
	var v any
	_ = json.Unmarshal([]byte(s), &v)
	again, _ := json.Marshal(v)
	return strings.Count(s, ":") != strings.Count(string(again), ":")
}

func TestStrippedIsThatOfPostgres(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	for _, s := range []string{
		`{"a":null,"b":1}`, ` { "a" : null , "b" : [ null, {"c":null,"d":1} ], "e": {"f": null} } `, `[null, 1, {"a": null}]`, `"null"`, `{"a\"b":"\\\"","c":null}`,
	} {
		want := value(t, conn, nil, "select json_strip_nulls('"+s+"'::json)::text")
		if got := string(rows.AppendStripped(nil, []byte(s))); got != want {
			t.Errorf("%s: got %s, want %s", s, got, want)
		}
	}
}

func TestEncodingARowAllocatesNothing(t *testing.T) {
	outputs := statement("", nil, orderColumns...).Output
	hidden := append([]compile.Output{{Name: "xmin", Hidden: true}}, outputs...)
	for _, c := range []struct {
		name string
		sink func(*rows.Body) rows.Sink
	}{
		{"objects", func(b *rows.Body) rows.Sink { return rows.NewObjects(b, hidden, rows.Options{}) }},
		{"stripped", func(b *rows.Body) rows.Sink { return rows.NewObjects(b, hidden, rows.Options{StripNulls: true}) }},
		{"ndjson", func(b *rows.Body) rows.Sink { return rows.NewNDJSON(b, hidden, rows.Options{}) }},
		{"csv", func(b *rows.Body) rows.Sink { return rows.NewCSV(b, hidden) }},
		{"scalars", func(b *rows.Body) rows.Sink { return rows.NewScalars(b, hidden) }},
	} {
		body := rows.NewBody(discard, false)
		s := c.sink(body)
		if err := s.Begin(); err != nil {
			t.Fatal(err)
		}
		values := append([][]byte{[]byte("1")}, row()...)
		values[4] = nil
		if n := testing.AllocsPerRun(1000, func() {
			if err := s.Row(values); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations a row", c.name, n)
		}
		body.Release()
	}
}

// A request as a whole allocates a fixed number of times, however many rows there are.
func TestRunAllocatesNothingForRows(t *testing.T) {
	conn := setup(t)
	session := &rows.Session{Role: "postgres", Settings: []rows.Setting{{Name: "request.jwt.claims", Value: claims}}}
	session.Role = value(t, conn, nil, "select current_user::text")
	measure := func(n int) float64 {
		s := statement(fmt.Sprintf("select i, 'text ' || i, now(), 'x' from generate_series(1, %d) i", n), nil, "id:n", "text", "at:t", "-key")
		var result rows.Result
		return testing.AllocsPerRun(50, func() {
			body := rows.NewBody(discard, false)
			if err := rows.Run(context.Background(), conn, session, rows.Step{Statement: s, Sink: rows.NewObjects(body, s.Output, rows.Options{}), Result: &result}); err != nil {
				t.Fatal(err)
			}
			if result.Rows != int64(n) {
				t.Fatalf("%d rows, want %d", result.Rows, n)
			}
			body.Release()
		})
	}
	few, many := measure(1), measure(2000)
	// The pool of bodies may forget some, under the race detector at random.
	if few > 12 || many > few+12 {
		t.Errorf("%v allocations for one row, %v for 2000", few, many)
	}
}
