package schematools

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/mcp"
)

type slowArgs struct {
	Limit int    `json:"limit,omitempty" schema:"default=10,min=1,max=50"`
	Order string `json:"order,omitempty" schema:"enum=total|mean,default=total"`
}

type slowResult struct {
	Queries []slowQuery `json:"queries"`
	Since   string      `json:"since,omitempty"`
}

type slowQuery struct {
	Query   string  `json:"query"`
	Calls   int64   `json:"calls"`
	TotalMS float64 `json:"total_ms"`
	MeanMS  float64 `json:"mean_ms"`
	MaxMS   float64 `json:"max_ms"`
	Rows    int64   `json:"rows"`
}

// maxQuery bounds the text of one statement.
const maxQuery = 1000

var errNoStatements = fault.New(fault.Unavailable, "unavailable", "pg_stat_statements is not there to count statements")

// slowQueries shows texts of everybody's statements, in which constants are replaced but names are not, and utility
// statements have both: only whoever may see everything sees them.
func (s *service) slowQueries(ctx context.Context, c *mcp.Call, in slowArgs) (*mcp.Result, error) {
	if !c.Principal.Admin {
		return nil, auth.ErrDenied.Msgf("the statements of everybody are for administrators and service keys")
	}
	order := map[string]string{"total": "total_exec_time", "mean": "mean_exec_time"}[in.Order]
	out := slowResult{}
	err := s.inspectAll(ctx, c.Database, func(tx pgx.Tx) error {
		var schema string
		err := tx.QueryRow(ctx, `select quote_ident(n.nspname) from pg_extension e join pg_namespace n on n.oid = e.extnamespace
			where e.extname = 'pg_stat_statements'`).Scan(&schema)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoStatements.Msgf("the extension pg_stat_statements is not installed in this database").
				WithHint("create extension pg_stat_statements; PostgreSQL must have it in shared_preload_libraries, which takes a restart")
		}
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, fmt.Sprintf(`
			select s.query, s.calls, s.total_exec_time, s.mean_exec_time, s.max_exec_time, s.rows
			from %s.pg_stat_statements s
			where s.dbid = (select oid from pg_database where datname = current_database()) and s.queryid is not null
			order by s.%s desc limit $1`, schema, order), once, in.Limit)
		if err != nil {
			return err
		}
		out.Queries, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (q slowQuery, err error) {
			err = row.Scan(&q.Query, &q.Calls, &q.TotalMS, &q.MeanMS, &q.MaxMS, &q.Rows)
			q.Query = cut(strings.TrimSpace(q.Query), maxQuery)
			for _, n := range []*float64{&q.TotalMS, &q.MeanMS, &q.MaxMS} {
				*n = math.Round(*n*1000) / 1000
			}
			return q, err
		})
		var pgErr *pgconn.PgError
		if errors.As(err, &pgErr) && pgErr.Code == "55000" {
			return errNoStatements.Msgf("pg_stat_statements is installed but not loaded").
				WithHint("put it into shared_preload_libraries and restart PostgreSQL")
		}
		if err != nil {
			return err
		}
		return tx.QueryRow(ctx, fmt.Sprintf(`select to_char(stats_reset at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') from %s.pg_stat_statements_info`, schema)).
			Scan(&out.Since)
	})
	if err != nil {
		return nil, err
	}
	return &mcp.Result{
		Structured: out, Untrusted: true,
		Summary: fmt.Sprintf("%d statements by %s time. explain_query shows how one is carried out.", len(out.Queries), in.Order),
	}, nil
}
