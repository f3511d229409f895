// Package schematools has the tools, resources and prompts by which assistants learn what a database looks like, and work
// on branches: overview, tables, search, advisors, slow queries, branches, comparison and migrations.
//
// The schema tools show what the caller's database role has a privilege on, and of the catalog's further knowledge only
// what concerns that. Service keys see everything in the exposed schemas. Advisors and comparisons show administrators
// everything too: they may have a connection of the database's owner anyway.
package schematools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/branching"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/mcp"
	"github.com/boughdb/bough/server/postgres"
)

// Deps are what the tools work with.
type Deps struct {
	Branches *branching.Service
	Schemas  *introspect.Cache
	// Acquire opens a connection to a database that reads the catalog.
	Acquire func(ctx context.Context, database string) (*postgres.Conn, error)
	// Session opens a session as the login of a database's branch, which reaches that database only.
	Session func(ctx context.Context, database string) (*postgres.Session, error)
	// EngineSession opens a session that sees what belongs to others, such as their statements. Nothing that somebody else
	// wrote may run in it.
	EngineSession func(ctx context.Context, database string) (*postgres.Session, error)
	Roles         postgres.DataRoles
	// ExposedSchemas are those that requests reach; the first one is the default.
	ExposedSchemas []string
	// AllowMigrateMain lets apply_migration change main.
	AllowMigrateMain bool
	// Document returns the OpenAPI document of the call's branch, as the caller sees it.
	Document func(ctx context.Context, c *mcp.Call) ([]byte, error)
	// Migrated is told of a migration that was committed, for the record; nil keeps none.
	Migrated func(ctx context.Context, c *mcp.Call, m Migration)
}

// service is what the tools are methods of.
type service struct{ Deps }

// Tools returns the tools, in the order in which they are listed.
func Tools(d Deps) []mcp.Tool {
	s := &service{d}
	return slices.Concat(s.schemaTools(), s.branchTools())
}

func (s *service) schemaTools() []mcp.Tool {
	schema := mcp.Tool{
		Feature: mcp.Schema, Scopes: []string{auth.ReadSchema}, ReadOnly: true, Idempotent: true, Branched: true,
	}
	named := func(name, title, description string) mcp.Tool {
		t := schema
		t.Name, t.Title, t.Description = name, title, description
		return t
	}
	slow := named("list_slow_queries", "Slow queries", "The statements that took most time, by pg_stat_statements.")
	slow.Administrators = true // statements may have anybody's data in them
	return []mcp.Tool{
		mcp.NewTool[overviewArgs, overviewResult](named("get_database_overview", "Database overview",
			"Schemas, largest tables, extensions and the role you act as. Start here."),
			s.overview),
		mcp.NewTool[listArgs, listResult](named("list_tables", "List tables",
			"Tables and views of one schema, compact."),
			s.listTables),
		mcp.NewTool[describeArgs, description](named("describe_table", "Describe a table",
			"Columns, keys, foreign keys in both directions, constraints, indexes, policies, triggers and size of a table or view. Use it before you write a query."),
			s.describeTable),
		mcp.NewTool[searchArgs, searchResult](named("search_schema", "Search the schema",
			"Finds tables, columns and functions by words in their names and comments, the best match first."),
			s.search),
		mcp.NewTool[advisorArgs, advisorResult](named("get_advisors", "Advisors",
			"Security problems (such as missing row-level security) and performance problems (such as foreign keys without index), with SQL that mends them."),
			s.advisors),
		mcp.NewTool[slowArgs, slowResult](slow, s.slowQueries),
	}
}

// inspect runs f in a read-only transaction, in which names come out qualified and nothing waits long.
func (s *service) inspect(ctx context.Context, database string, f func(tx pgx.Tx) error) error {
	conn, err := s.Acquire(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Release()
	return readCatalog(ctx, conn.Conn.Conn(), f)
}

func readCatalog(ctx context.Context, conn *pgx.Conn, f func(tx pgx.Tx) error) error {
	options := pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.RepeatableRead}
	return catalogFault(pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, settings); err != nil {
			return err
		}
		return f(tx)
	}))
}

// inspectAll is inspect by Bough's own role, which sees what is hidden from others: statistics, positions of sequences.
func (s *service) inspectAll(ctx context.Context, database string, f func(tx pgx.Tx) error) error {
	conn, err := s.EngineSession(ctx, database)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return readCatalog(ctx, conn.Conn, f)
}

// once is for statements that are too large, and too rarely used, to stay prepared.
const once = pgx.QueryExecModeDescribeExec

const settings = `
select pg_catalog.set_config('search_path', '', true), pg_catalog.set_config('jit', 'off', true),
  pg_catalog.set_config('quote_all_identifiers', 'off', true), pg_catalog.set_config('lock_timeout', '3s', true),
  pg_catalog.set_config('statement_timeout', '20s', true)`

// catalogFault says what stands in the way of reading a catalog.
func catalogFault(err error) error {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return err
	}
	busy := fault.New(fault.Unavailable, "unavailable", "").Retry(2 * time.Second)
	switch pgErr.Code {
	case "55P03":
		return busy.Msgf("another session is changing the schema at the moment; try again")
	case "57014":
		return busy.Msgf("reading the catalog took too long and was given up; try again, or ask for less")
	case "XX000", "42P01", "42704", "42883": // something was dropped after the snapshot was taken
		return busy.Msgf("the schema was changed while it was read; try again")
	}
	return fmt.Errorf("reading the catalog: %w", err)
}
