package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const someQueries = `-- A remark on the file.

-- name: GetThing :one
-- It says what it is.
select sqlc.embed(t), t.id::text from things t
where t.id = @id and t.at > now() - make_interval(secs => @seconds::double precision);

-- name: DropThing :exec
delete from things where id = @id;
`

func TestStatementsAreReadFromQueries(t *testing.T) {
	t.Parallel()
	q := parseQueries(someQueries)
	got, err := q.script("GetThing", map[string]string{"id": ":id", "seconds": "60"})
	want := "select t.*, t.id::text from things t\nwhere t.id = :id and t.at > now() - make_interval(secs => 60::double precision);\n"
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	if _, err := q.script("GetThing", map[string]string{"id": ":id"}); err == nil || !strings.Contains(err.Error(), "@seconds") {
		t.Errorf("a parameter without a value: %v", err)
	}
	if _, err := q.script("MakeThing", nil); err == nil {
		t.Error("a query that is not there is no error")
	}
}

// The benchmark's scripts need what the product's queries have.
func TestScriptsFitTheQueries(t *testing.T) {
	t.Parallel()
	q, err := readQueries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds() {
		text, err := k.pgbench(q)
		if err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
		if strings.Contains(text, "@") || strings.Contains(text, "sqlc") {
			t.Errorf("%s: not all is replaced in\n%s", k.name, text)
		}
	}
}

func TestFlagsAreChecked(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	o, err := parseFlags([]string{"-connections", "7", "-requests", "100"}, &out)
	if err != nil || o.requests != 98 {
		t.Errorf("requests %d, %v", o.requests, err)
	}
	for _, args := range [][]string{{"-connections", "0"}, {"-requests", "3"}, {"-rounds", "0"}, {"more"}, {"-nothing"}} {
		if _, err := parseFlags(args, &out); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
