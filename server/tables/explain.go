package tables

import (
	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/query"
	"github.com/boughdb/bough/server/rows"
)

// explained is the statement whose rows are the plan of another one. With analyze the other one is run as well.
func explained(st *compile.Statement, p *query.Plan) *compile.Statement {
	options := "explain (format text"
	if p.JSON {
		options = "explain (format json"
	}
	for _, o := range []struct {
		on   bool
		name string
	}{{p.Analyze, "analyze"}, {p.Verbose, "verbose"}, {p.Settings, "settings"}, {p.Buffers, "buffers"}, {p.WAL, "wal"}} {
		if o.on {
			options += ", " + o.name
		}
	}
	return &compile.Statement{SQL: options + ") " + st.SQL, Args: st.Args, Output: []compile.Output{{Name: "QUERY PLAN", Encoding: compile.JSON}}}
}

// newPlanText writes a plan: as JSON the one row, as text a line for each row.
func newPlanText(b *rows.Body, out []compile.Output, p *query.Plan) rows.Sink {
	if p.JSON {
		return rows.NewScalar(b, out)
	}
	return rows.NewLines(b, out)
}
