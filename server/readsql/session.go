package readsql

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
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

// begin begins a transaction with settings of its own. The function that it returns rolls back; the connection is closed
// if that fails.
func (s *session) begin(ctx context.Context, mode string) (func(), error) {
	end := func() {
		if s.conn.IsClosed() || s.conn.TxStatus() == 'I' {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		if _, err := s.query(ctx, "rollback"); err != nil || s.conn.TxStatus() != 'I' {
			_ = s.conn.Close(ctx)
		}
	}
	if _, err := s.query(ctx, "begin "+mode); err != nil {
		end()
		return nil, fmt.Errorf("beginning a transaction: %w", err)
	}
	// A literal has to mean the same wherever it stands, and PostgreSQL to give up even if this process is gone. What does
	// not fit into memory goes to disk: not without bound, where that can be set.
	_, err := s.query(ctx, `select set_config('standard_conforming_strings', 'on', true), set_config('row_security', 'on', true),
		set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true), set_config('idle_in_transaction_session_timeout', $1, true),
		case when current_setting('temp_file_limit') = '-1' and has_parameter_privilege('temp_file_limit', 'set') then set_config('temp_file_limit', '1GB', true) end`,
		milliseconds(s.timeout), milliseconds(min(lockTimeout, s.timeout)))
	if err != nil {
		end()
		return nil, fmt.Errorf("setting up a transaction: %w", err)
	}
	return end, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// query runs a statement with text parameters and returns its rows, "" for NULL.
func (s *session) query(ctx context.Context, sql string, args ...string) ([][]string, error) {
	params := make([][]byte, len(args))
	for i, a := range args {
		params[i] = []byte(a)
	}
	res := s.conn.ExecParams(ctx, sql, params, nil, nil, nil).Read()
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
