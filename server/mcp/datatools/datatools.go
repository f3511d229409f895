// Package datatools has the tools by which assistants read and change the data of main and the branches: records,
// aggregates, SQL that only reads, and procedures. Records and procedures go through package tables, as requests over
// HTTP do, with the caller as she is; SQL goes through package readsql. So row-level security, privileges and scopes are
// the same here as there, and so are most messages. What is left for this package is to put the arguments of a tool into
// the form of a request, and the answer into one that a model can use: short, and with a way to go on.
package datatools

import (
	"context"
	"strings"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/mcp"
	"github.com/boughdb/bough/server/readsql"
	"github.com/boughdb/bough/server/tables"
)

// Deps is what the tools work with.
type Deps struct {
	Tables  *tables.Service
	SQL     *readsql.Runner
	Schemas *introspect.Cache
	// Exposed are the exposed schemas; the first is the default.
	Exposed []string
	// MaxRows bounds the rows of one answer of Tables; 0 for no bound.
	MaxRows int64
}

// The most bytes of records in a result. With what is around them they stay below 64 kB.
const maxBytes = 60_000

// service is what the tools are made of.
type service struct{ Deps }

// Tools returns the tools.
func Tools(d Deps) []mcp.Tool {
	s := &service{d}
	return []mcp.Tool{
		s.queryTable(), s.getRecord(), s.aggregateTable(), s.runSQLQuery(), s.explainQuery(),
		s.insertRecords(), s.updateRecords(), s.deleteRecords(), s.listProcedures(), s.callProcedure(),
	}
}

// named splits a name into the schema, "" for the default, and the name in it.
func (s *service) named(name string) (schema, rest string) {
	if prefix, after, ok := strings.Cut(name, "."); ok {
		for _, exposed := range s.Exposed {
			if prefix == exposed {
				return prefix, after
			}
		}
	}
	return "", name
}

// serve has the tables answer a request of a tool's caller.
func (s *service) serve(ctx context.Context, c *mcp.Call, call tables.Call) (*answer, error) {
	call.Dialect, call.Principal, call.Database = &tables.Bough, c.Principal, c.Database
	call.Path, call.Headers = "/mcp", "{}"
	call.Accept, call.ContentType = "application/json", "application/json"
	a := &answer{}
	if err := s.Tables.Serve(ctx, &call, a); err != nil && !a.cut {
		return nil, err
	}
	return a, nil
}

// caller is a tool's caller as readsql knows her.
func (s *service) caller(c *mcp.Call) (readsql.Caller, error) {
	p := c.Principal
	role, claims, err := s.Tables.Identity(p)
	return readsql.Caller{ID: p.ID.String(), Role: role, Claims: claims, MayExecute: p.Require(auth.ExecuteRPC) == nil, Unbound: p.Service}, err
}

var errLarge = fault.New(fault.Invalid, "too_large", "the result is too large").
	WithHint("select fewer columns, or fewer rows")
