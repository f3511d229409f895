// Package readsql runs one read-only SQL statement of a caller, as her database role and under row-level security, so
// that she sees nothing and does nothing that the tables API would not let her see or do.
//
// The text of a statement says little about what it does: select set_config('role', …) takes another role on, and
// query_to_xml('…') runs SQL that is in a string. So PostgreSQL itself analyses the statement before it runs: it becomes
// the body of a temporary function, in a transaction that is rolled back, and the catalog then holds its tree (file
// check.go). Every function, operator and relation that the tree refers to is judged by what the catalog knows of it
// (judge.go). What runs in the end (run.go) is the tree, written as SQL by PostgreSQL, with names that mean what was
// judged; it runs in a read-only transaction that is rolled back.
//
// Trusted is what the database's owner made: her tables' policies, her views, and the functions in the exposed schemas
// that she declared immutable or stable and let the role execute. Callers cannot make any of these here.
package readsql

import (
	"context"
	"encoding/json"
	"time"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/limits"
	"github.com/boughdb/bough/server/postgres"
)

// Config are the settings of a Runner.
type Config struct {
	// Schemas are the exposed schemas: relations of others are refused, and functions unless an extension made them.
	Schemas []string
	// Timeout bounds a whole call; 0 stands for 15 seconds.
	Timeout time.Duration
	// PerCaller bounds the statements of one caller at a time, and Total those of all; 0 for no bound.
	PerCaller, Total int
	// Version identifies the state of a database's catalog. Statements are judged again when it changes; where it is nil,
	// and for what it does not cover, after a minute.
	Version func(ctx context.Context, database string) (string, error)
}

// Runner runs statements.
type Runner struct {
	cfg     Config
	acquire func(ctx context.Context, database string) (*postgres.Conn, error)
	checked *cache
	slots   *limits.Slots
}

// The limits of a Query that has none of its own, and of its text.
const (
	defaultTimeout = 15 * time.Second
	defaultLimit   = 100
	defaultBytes   = 64 << 10
	maxSQL         = 64 << 10
)

// New returns a runner. acquire opens a connection to a database.
func New(acquire func(ctx context.Context, database string) (*postgres.Conn, error), cfg Config) *Runner {
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	return &Runner{cfg: cfg, acquire: acquire, checked: newCache(500, time.Minute), slots: limits.NewSlots(cfg.PerCaller, cfg.Total)}
}

// Caller is who a statement runs for.
type Caller struct {
	// ID is who the statements are counted for.
	ID string
	// Role is the database role; "" keeps the connection's own.
	Role string
	// Claims are a JSON object, for row-level security.
	Claims string
	// MayExecute allows functions of the exposed schemas.
	MayExecute bool
	// Unbound allows what shows source text and settings, where secrets may be; for callers who administer the database.
	Unbound bool
}

// Query is a statement and how much of its result is wanted.
type Query struct {
	Caller   Caller
	Database string
	SQL      string
	// Params are the values of $1, $2, …: JSON null, strings, numbers and booleans; arrays where the parameter is an array,
	// and any JSON where it is json or jsonb.
	Params []json.RawMessage
	// Limit and MaxBytes bound the rows and the bytes of their JSON; 0 stands for 100 rows and 64 kB.
	Limit, MaxBytes int
	// Tag says in a comment of the statement where it comes from, for the database's log.
	Tag string
}

// Column is a column of a result.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Why a result is not whole.
const (
	MoreRows  = "rows"
	MoreBytes = "bytes"
)

// Result has the rows of a statement, as far as they were wanted.
type Result struct {
	Columns []Column
	// Rows have a value for each column, as the tables API shows it.
	Rows [][]json.RawMessage
	// Truncated is true where there are more rows than these; Reason is MoreRows or MoreBytes then.
	Truncated bool
	Reason    string
}

// Run runs a statement and returns the first of its rows. What the caller did wrong is a *fault.Error.
func (r *Runner) Run(ctx context.Context, q *Query) (*Result, error) {
	limit, most := q.Limit, q.MaxBytes
	if limit <= 0 {
		limit = defaultLimit
	}
	if most <= 0 {
		most = defaultBytes
	}
	var res *Result
	err := r.do(ctx, q, func(ctx context.Context, s *session, v *verdict, params [][]byte) error {
		var err error
		res, err = s.read(ctx, q, v, params, limit, most)
		return err
	})
	return res, err
}

// Explain returns the plan of a statement as EXPLAIN (format json) has it. With analyze the statement is run. How many
// rows a step saw before they were filtered tells of rows that the caller may not see, so where row-level security or a
// view stands between her and a table, analyze measures the statement as a whole only.
func (r *Runner) Explain(ctx context.Context, q *Query, analyze bool) (json.RawMessage, error) {
	var plan json.RawMessage
	err := r.do(ctx, q, func(ctx context.Context, s *session, v *verdict, params [][]byte) error {
		var err error
		plan, err = s.explain(ctx, q, v, params, analyze)
		return err
	})
	return plan, err
}

// do judges a statement and has it run on a session of the caller's.
func (r *Runner) do(ctx context.Context, q *Query, run func(context.Context, *session, *verdict, [][]byte) error) error {
	if len(q.SQL) > maxSQL {
		return fault.Validation("the statement has %d bytes; at most %d are run", len(q.SQL), maxSQL)
	}
	release := r.slots.Take(q.Caller.ID)
	if release == nil {
		return errCrowded
	}
	defer release()
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	conn, err := r.acquire(ctx, q.Database)
	if err != nil {
		return err
	}
	defer conn.Release()
	s := &session{conn: conn.Conn.Conn().PgConn(), timeout: r.cfg.Timeout}
	err = func() error {
		v, err := r.judged(ctx, s, q)
		if err != nil {
			return err
		}
		if v.execute != "" && !q.Caller.MayExecute {
			return errScope.Msgf("the statement calls %s, for which the scope execute:rpc is needed", v.execute)
		}
		params, err := v.encode(q.Params)
		if err != nil {
			return err
		}
		return run(ctx, s, v, params)
	}()
	if err != nil && ctx.Err() != nil && outer.Err() == nil {
		return errTimeout
	}
	return explained(err)
}

// judged is the verdict on a statement, from the cache or made now.
func (r *Runner) judged(ctx context.Context, s *session, q *Query) (*verdict, error) {
	version := ""
	if r.cfg.Version != nil {
		var err error
		if version, err = r.cfg.Version(ctx, q.Database); err != nil {
			return nil, err
		}
	}
	k := key{database: q.Database, version: version, role: q.Caller.Role, sql: q.SQL, unbound: q.Caller.Unbound}
	if v := r.checked.get(k); v != nil {
		return v, nil
	}
	v, err := s.check(ctx, q, r.cfg.Schemas)
	if err != nil {
		return nil, err
	}
	if !dated(q.SQL) {
		r.checked.put(k, v)
	}
	return v, nil
}
