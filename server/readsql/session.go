package readsql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/postgres"
)

// session is a connection that a statement is checked and run on. All statements go by the extended protocol, which
// takes one at a time: of several, PostgreSQL refuses them all.
type session struct {
	conn    *pgconn.PgConn
	timeout time.Duration
}

const (
	lockTimeout = 5 * time.Second
	farewell    = 5 * time.Second
)

// statement is a statement with its parameters and what becomes of its rows.
type statement struct {
	sql    string
	params [][]byte
	oids   []uint32 // of the parameters; nil leaves their types to PostgreSQL
	row    func(values [][]byte) error
}

func text(args ...string) [][]byte {
	params := make([][]byte, len(args))
	for i, a := range args {
		params[i] = []byte(a)
	}
	return params
}

// settings are those of every transaction here. A literal has to mean the same wherever it stands, and PostgreSQL to give
// up even if this process is gone. What does not fit into memory goes to disk: not without bound, where that can be set.
func (s *session) settings() statement {
	return statement{
		sql: `select set_config('standard_conforming_strings', 'on', true), set_config('row_security', 'on', true),
			set_config('IntervalStyle', 'postgres', true), set_config('bytea_output', 'hex', true), set_config('extra_float_digits', '1', true),
			set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true), set_config('idle_in_transaction_session_timeout', $1, true),
			case when current_setting('temp_file_limit') = '-1' and has_parameter_privilege('temp_file_limit', 'set') then set_config('temp_file_limit', '1GB', true) end`,
		params: text(milliseconds(s.timeout), milliseconds(min(lockTimeout, s.timeout))),
	}
}

// end rolls back. The connection is closed if that fails.
func (s *session) end(ctx context.Context) {
	if s.conn.IsClosed() || s.conn.TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	// Locks and prepared statements outlive a rollback, and stable functions may have made them.
	foreign, err := s.clear(ctx)
	if err == nil && foreign != "" {
		_, err = s.conn.Exec(ctx, foreign).ReadAll()
	}
	if err != nil || s.conn.TxStatus() != 'I' {
		_ = s.conn.Close(ctx)
	}
}

// clear rolls back and clears the session. It returns the SQL that removes the prepared statements that were made by SQL.
func (s *session) clear(ctx context.Context) (foreign string, err error) {
	results, err := s.conn.Exec(ctx, "rollback;"+postgres.ClearSession).ReadAll()
	for _, res := range results {
		for _, row := range res.Rows {
			if len(row) == 1 && len(row[0]) > 0 {
				foreign += "deallocate " + pgx.Identifier{string(row[0])}.Sanitize() + ";"
			}
		}
	}
	return foreign, err //nolint:wrapcheck // the connection is closed
}

// run runs statements in one round trip, each only if those before it succeed, and returns how many did.
func (s *session) run(ctx context.Context, statements ...statement) (done int, err error) {
	p := s.conn.StartPipeline(ctx)
	for _, st := range statements {
		p.SendQueryParams(st.sql, st.params, st.oids, nil, nil)
	}
	if err := p.Sync(); err != nil {
		return 0, errors.Join(err, p.Close())
	}
	for _, st := range statements {
		if err = s.result(p, st.row); err != nil {
			break
		}
		done++
	}
	if closed := p.Close(); err == nil {
		err = closed
	}
	return done, err
}

// result reads the rows of the next statement. They are read to the end, also where row fails.
func (s *session) result(p *pgconn.Pipeline, row func([][]byte) error) error {
	got, err := p.GetResults()
	if err != nil {
		return err
	}
	rr, ok := got.(*pgconn.ResultReader)
	if !ok {
		return fmt.Errorf("a statement gave a %T instead of rows", got)
	}
	var failed error
	for rr.NextRow() {
		if row != nil && failed == nil {
			failed = row(rr.Values())
		}
	}
	if _, err := rr.Close(); err != nil {
		return err
	}
	return failed
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// query runs a statement with text parameters and returns its rows, "" for NULL.
func (s *session) query(ctx context.Context, sql string, args ...string) ([][]string, error) {
	res := s.conn.ExecParams(ctx, sql, text(args...), nil, nil, nil).Read()
	if res.Err != nil {
		return nil, res.Err
	}
	rows := make([][]string, len(res.Rows))
	for i, values := range res.Rows {
		rows[i] = make([]string, len(values))
		for j, v := range values {
			rows[i][j] = string(v)
		}
	}
	return rows, nil
}

// take has the rest of the transaction run as a role; "" leaves it as it is.
func (s *session) take(ctx context.Context, role string) error {
	if role == "" {
		return nil
	}
	if _, err := s.query(ctx, "select set_config('role', $1, true)", role); err != nil {
		return fmt.Errorf("taking on the role %q: %w", role, err)
	}
	return nil
}
