package rows_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/rows"
)

// PostgreSQL keeps the types of a prepared statement's parameters, whatever becomes of the columns.
func TestStatementsOfAnotherSchemaAreNotUsed(t *testing.T) {
	t.Parallel()
	conn := setup(t, "create table t (v date)", "insert into t values ('2026-01-01')")
	count := rows.Step{Statement: statement("select count(*) from t where v = $1", []string{"2026-01-01 12:30"}, "n:n")}
	check := func(schema, want string) {
		t.Helper()
		for range 2 {
			var v rows.Values
			count.Sink = &v
			run(t, conn, &rows.Session{Schema: schema, Settings: []rows.Setting{{Name: "request.method", Value: "GET"}}}, count)
			if got := *v.Rows[0][0]; got != want {
				t.Errorf("schema %s: %s rows, want %s", schema, got, want)
			}
		}
		if got := simple(t, conn, preparedCount); got != "2" {
			t.Errorf("%s statements are prepared", got)
		}
	}
	check("a", "1")
	exec(t, conn, "alter table t alter v type timestamp", "update t set v = '2026-01-01 12:30'")
	check("b", "1")
	exec(t, conn, "update t set v = '2026-01-01 00:00'")
	check("b", "0")
}

func TestAnyInsertedRowIsRemembered(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	for _, c := range []struct{ sql, want string }{
		{"values (1, false), (2, true), (3, false)", "3|t"},
		{"values (1, false), (2, false)", "2|f"},
		{"values (1, true)", "1|t"},
	} {
		var res rows.Result
		run(t, conn, nil, rows.Step{Statement: statement(c.sql, nil, "-id", "-"+compile.InsertedColumn), Result: &res})
		if got := string(res.Hidden[0]) + "|" + string(res.Hidden[1]); got != c.want {
			t.Errorf("%s: %s, want %s", c.sql, got, c.want)
		}
	}
}

// What to_json makes a JSON string of is no JSON by itself: outside of JSON it is the string.
func TestWrappedValuesAreText(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	const sql = `select to_json(point '(1,2)'), to_json(array[1, 2]), json '"x"', to_json(null::point)`
	columns := []string{"at:j", "list:j", "doc:j", "none:j"}
	got := map[string]string{}
	for name, sink := range map[string]func(*rows.Body, []compile.Output) rows.Sink{
		"csv": rows.NewCSV, "text": rows.NewText,
		"json": func(b *rows.Body, out []compile.Output) rows.Sink { return rows.NewObjects(b, out, rows.Options{}) },
	} {
		st := statement(sql, nil, columns...)
		for i := range st.Output {
			st.Output[i].Wrapped = st.Output[i].Name != "doc"
		}
		body := rows.NewBody(nil, true)
		run(t, conn, nil, rows.Step{Statement: st, Sink: sink(body, st.Output)})
		got[name] = string(body.Bytes())
		body.Release()
	}
	want := map[string]string{
		"csv": "at,list,doc,none\n\"(1,2)\",\"[1,2]\",\"\"\"x\"\"\",\n", "text": "(1,2)",
		"json": `[{"at":"(1,2)","list":[1,2],"doc":"x","none":null}]`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
