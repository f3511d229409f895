package compile_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/query"
)

// reader runs requests against the tables of testdata/read.sql.
type reader struct {
	t    testing.TB
	conn *pgx.Conn
	c    compile.Context
}

func newReader(t testing.TB) *reader {
	t.Helper()
	ctx := context.Background()
	pgtest.SharedRoles(t, "compile_reader")
	address := pgtest.Template(t, "read", func(ctx context.Context, url string) error {
		script, err := os.ReadFile("testdata/read.sql")
		if err != nil {
			return err
		}
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, string(script))
		return err
	})
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["timezone"] = "UTC"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(ctx) })
	schema, err := introspect.Load(ctx, conn, introspect.Options{Schemas: []string{"public"}, Roles: []string{"compile_reader"}})
	if err != nil {
		t.Fatal(err)
	}
	return &reader{t: t, conn: conn, c: compile.Context{Schema: schema, Role: introspect.Owner, Namespace: "public"}}
}

func (r *reader) relation(name string) *introspect.Relation {
	r.t.Helper()
	rel := r.c.Schema.Relation("public", name)
	if rel == nil {
		r.t.Fatalf("there is no relation %q", name)
	}
	return rel
}

func (r *reader) parse(raw string) *query.Request {
	r.t.Helper()
	q, err := query.Parse(raw)
	if err != nil {
		r.t.Fatalf("parsing %s: %v", raw, err)
	}
	return q
}

// get returns the rows of a request as JSON.
func (r *reader) get(relation, raw string) (string, error) {
	r.t.Helper()
	s, err := r.c.Select(r.relation(relation), r.parse(raw), compile.Options{})
	if err != nil {
		return "", err
	}
	return r.run(s)
}

// run executes a statement and makes JSON of the result's visible columns.
func (r *reader) run(s *compile.Statement) (string, error) {
	r.t.Helper()
	rows, err := r.rows(s)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("[")
	for i, row := range rows {
		if i > 0 {
			out.WriteString(",")
		}
		out.WriteString("{")
		first := true
		for j, o := range s.Output {
			if o.Hidden {
				continue
			}
			if !first {
				out.WriteString(",")
			}
			first = false
			key, _ := json.Marshal(o.Name)
			out.Write(key)
			out.WriteString(":")
			out.WriteString(encode(o.Encoding, row[j]))
		}
		out.WriteString("}")
	}
	out.WriteString("]")
	return out.String(), nil
}

// rows executes a statement; values are in the text format.
func (r *reader) rows(s *compile.Statement) ([][][]byte, error) {
	r.t.Helper()
	result := r.conn.PgConn().ExecParams(context.Background(), s.SQL, s.Args, nil, nil, nil).Read()
	if result.Err != nil {
		return nil, result.Err
	}
	if len(result.Rows) > 0 && len(result.FieldDescriptions) != len(s.Output) {
		r.t.Fatalf("%d columns, %d outputs: %s", len(result.FieldDescriptions), len(s.Output), s.SQL)
	}
	return result.Rows, nil
}

func encode(e compile.Encoding, text []byte) string {
	s := string(text)
	quoted, _ := json.Marshal(s)
	switch {
	case text == nil:
		return "null"
	case e == compile.JSON:
		return s
	case e == compile.Bool:
		return map[string]string{"t": "true", "f": "false"}[s]
	case e == compile.Number && strings.ContainsAny(s[len(s)-1:], "0123456789"):
		return s
	case e == compile.Timestamp:
		return strings.Replace(string(quoted), " ", "T", 1)
	}
	return string(quoted)
}

// compact removes white space from JSON and keeps the order of keys.
func compact(t testing.TB, text string) string {
	t.Helper()
	var v json.RawMessage = []byte(text)
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return string(out)
}

type readCase struct{ relation, query, want string }

func (r *reader) check(cases []readCase) {
	r.t.Helper()
	for _, c := range cases {
		got, err := r.get(c.relation, c.query)
		if err != nil {
			r.t.Errorf("%s?%s: %v", c.relation, c.query, err)
			continue
		}
		if diff := cmp.Diff(compact(r.t, c.want), compact(r.t, got)); diff != "" {
			s, _ := r.c.Select(r.relation(c.relation), r.parse(c.query), compile.Options{})
			r.t.Errorf("%s?%s (-want +got):\n%s\n%s", c.relation, c.query, diff, s.SQL)
		}
	}
}

// code is the code of an error, of Bough's or of PostgreSQL's.
func code(err error) string {
	if err == nil {
		return ""
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	var fail *fault.Error
	if errors.As(err, &fail) {
		return fail.Code
	}
	return err.Error()
}

func itoa(n int) string { return strconv.Itoa(n) }

var optionsNone compile.Options

func parseOrNil(raw string) (*query.Request, error) { return query.Parse(raw) }

func escape(text string) string { return url.QueryEscape(text) }

// dataError reports whether an error of PostgreSQL says that data or types do not fit, which a request may well bring
// about.
func dataError(err error) bool {
	c := code(err)
	return strings.HasPrefix(c, "22") || dataErrors[c] || strings.Contains(err.Error(), "syntax error in tsquery") ||
		strings.Contains(err.Error(), "type modifier is not allowed")
}

var dataErrors = map[string]bool{
	"0A000": true, // feature_not_supported: input of anonymous composite types
	"2201B": true, // invalid_regular_expression
	"3F000": true, // invalid_schema_name: of a type
	"42704": true, // undefined_object: a type or a text search configuration
	"42725": true, // ambiguous_function: an operator for a value of unknown type
	"42803": true, // grouping_error
	"42804": true, // datatype_mismatch
	"42809": true, // wrong_object_type
	"42846": true, // cannot_coerce
	"42883": true, // undefined_function: no such operator for the type
	"42P10": true, // invalid_column_reference: order of different rows by what is not selected
	"42P13": true, // invalid_function_definition
	"42P22": true, // indeterminate_collation
	"42501": true, // insufficient_privilege
	"54000": true, // program_limit_exceeded
	"54011": true, // too_many_columns
	"54023": true, // too_many_arguments
	"54001": true, // statement_too_complex
	"57014": true, // query_canceled
}
