package pgcopy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// settings makes what a session reads and writes independent of the settings
// of the server, the database and the role. With an empty search path every
// name that the server writes is qualified.
var settings = map[string]string{
	"search_path":                         "",
	"client_min_messages":                 "warning",
	"DateStyle":                           "ISO, YMD",
	"IntervalStyle":                       "postgres",
	"TimeZone":                            "UTC",
	"extra_float_digits":                  "3",
	"bytea_output":                        "hex",
	"lc_monetary":                         "C",
	"lc_numeric":                          "C",
	"xmlbinary":                           "base64",
	"xmloption":                           "content",
	"standard_conforming_strings":         "on",
	"escape_string_warning":               "off",
	"array_nulls":                         "on",
	"transform_null_equals":               "off",
	"quote_all_identifiers":               "off",
	"row_security":                        "off",
	"check_function_bodies":               "off",
	"default_tablespace":                  "",
	"default_table_access_method":         "heap",
	"default_toast_compression":           "pglz",
	"statement_timeout":                   "0",
	"lock_timeout":                        "0",
	"transaction_timeout":                 "0", // from version 17 on
	"idle_in_transaction_session_timeout": "0",
	"idle_session_timeout":                "0",
}

// applySettings sets those settings that the server knows, for the transaction
// only or for the session.
func applySettings(ctx context.Context, conn *pgx.Conn, local bool, more map[string]string) error {
	all := maps.Clone(settings)
	maps.Copy(all, more)
	names := slices.Sorted(maps.Keys(all))
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = all[name]
	}
	// The server checks what it is given before it is asked which rows it is
	// needed for, hence the materialised step.
	_, err := conn.Exec(ctx, `
		with known as materialized (
			select s.name, w.value from unnest($1::text[], $2::text[]) w (name, value) join pg_settings s on lower(s.name) = lower(w.name)
		)
		select set_config(name, value, $3) from known`, names, values, local)
	if err != nil {
		return fmt.Errorf("preparing the session: %w", err)
	}
	return nil
}

// connect opens a session for copying.
func connect(ctx context.Context, config *pgx.ConnConfig, more map[string]string) (*pgx.Conn, error) {
	config = config.Copy()
	// Statements are many and each is sent once.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.StatementCacheCapacity, config.DescriptionCacheCapacity = 0, 0
	if config.RuntimeParams == nil {
		config.RuntimeParams = map[string]string{}
	}
	delete(config.RuntimeParams, "search_path")
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "pgcopy"
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := applySettings(ctx, conn, false, more); err != nil {
		conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// target opens a session in the database to copy into. What it commits may be
// lost in a crash of the server until finish has ended.
func (c *copier) target(ctx context.Context) (*pgx.Conn, error) {
	return connect(ctx, c.Target, map[string]string{
		"client_encoding":               c.encoding,
		"synchronous_commit":            "off",
		"default_transaction_read_only": "off",
	})
}

// source opens a session in the database to copy that sees the leader's
// snapshot and holds the same locks. It takes them at once, since later it
// could be behind somebody who waits for the leader.
func (c *copier) source(ctx context.Context) (*pgx.Conn, error) {
	conn, err := connect(ctx, c.Source, map[string]string{"client_encoding": c.encoding})
	if err != nil {
		return nil, err
	}
	for _, statement := range []string{
		"begin isolation level repeatable read read only",
		"set transaction snapshot '" + c.snapshot + "'",
		"set local lock_timeout = " + lockTimeout,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			conn.Close(ctx)
			return nil, err
		}
	}
	if err := lockTables(ctx, conn, c.locked); err != nil {
		conn.Close(ctx)
		return nil, err
	}
	if _, err := conn.Exec(ctx, "set local lock_timeout = 0"); err != nil {
		conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// lockTimeout is how long to wait for a lock on a table of the source.
const lockTimeout = "'5s'"

// lockTables takes the lock that every reader has. Its waiting for others does
// not make others wait, except for changes of the table.
func lockTables(ctx context.Context, conn *pgx.Conn, tables []string) error {
	for chunk := range slices.Chunk(tables, 200) {
		if _, err := conn.Exec(ctx, "lock table only "+strings.Join(chunk, ", only ")+" in access share mode"); err != nil {
			return fmt.Errorf("locking the tables of the source: %w", err)
		}
	}
	return nil
}

// lead opens the session whose snapshot all others read. The locks come before
// the snapshot: a TRUNCATE or a rewriting ALTER TABLE in between would make
// the table's old rows invisible to it.
func (c *copier) lead(ctx context.Context) (*pgx.Conn, error) {
	conn, err := connect(ctx, c.Source, nil)
	if err != nil {
		return nil, err
	}
	for range 5 {
		var stable bool
		if stable, err = c.snapshotOf(ctx, conn); err != nil {
			conn.Close(context.WithoutCancel(ctx))
			return nil, err
		}
		if stable {
			return conn, nil
		}
		if _, err := conn.Exec(ctx, "rollback"); err != nil {
			conn.Close(context.WithoutCancel(ctx))
			return nil, err
		}
	}
	conn.Close(context.WithoutCancel(ctx))
	return nil, &sourceChangedError{fmt.Errorf("new tables appear all the time")}
}

// snapshotOf begins the leader's transaction. It reports false if there are
// tables in the snapshot that were made after the locks were taken.
func (c *copier) snapshotOf(ctx context.Context, conn *pgx.Conn) (stable bool, err error) {
	before, err := c.tables(ctx, conn)
	if err != nil {
		return false, err
	}
	for _, statement := range []string{"begin isolation level repeatable read read only", "set local lock_timeout = " + lockTimeout} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return false, err
		}
	}
	if err := lockTables(ctx, conn, before); err != nil {
		return false, err
	}
	err = conn.QueryRow(ctx, `
		select pg_export_snapshot(), pg_encoding_to_char(d.encoding), d.datname, current_setting('server_version_num')::int / 10000
		from pg_database d where d.datname = current_database()`).Scan(&c.snapshot, &c.encoding, &c.database, &c.major)
	if err != nil {
		return false, err
	}
	after, err := c.tables(ctx, conn)
	if err != nil {
		return false, err
	}
	c.locked = after
	_, err = conn.Exec(ctx, "set local lock_timeout = 0")
	return slices.Equal(before, after), err
}

// tables returns the names of all tables that can be locked.
func (c *copier) tables(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	rows, err := conn.Query(ctx, `
		select c.oid::regclass::text from pg_class c
		where c.relkind in ('r', 'p') and `+lasting("c.relnamespace")+`
			and (`+own("pg_class", "c")+` or exists (select from pg_extension e where c.oid = any (e.extconfig)))
		order by c.oid`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
