package pgcopy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// textSettings make what a session reads and writes independent of the settings
// of the server, the database and the role. With an empty search path every
// name that the server writes is qualified.
var textSettings = map[string]string{
	"search_path":                 "",
	"client_min_messages":         "warning",
	"DateStyle":                   "ISO, YMD",
	"IntervalStyle":               "postgres",
	"TimeZone":                    "UTC",
	"extra_float_digits":          "3",
	"bytea_output":                "hex",
	"lc_monetary":                 "C",
	"lc_numeric":                  "C",
	"xmlbinary":                   "base64",
	"xmloption":                   "content",
	"standard_conforming_strings": "on",
	"escape_string_warning":       "off",
	"array_nulls":                 "on",
	"transform_null_equals":       "off",
	"quote_all_identifiers":       "off",
	"row_security":                "off",
	"check_function_bodies":       "off",
	"default_tablespace":          "",
	"default_table_access_method": "heap",
	"default_toast_compression":   "pglz",
	"jit":                         "off", // takes longer than what it makes faster
}

// sessionSettings are those of a session that takes its time.
var sessionSettings = map[string]string{
	"statement_timeout":                   "0",
	"lock_timeout":                        "0",
	"transaction_timeout":                 "0", // from version 17 on
	"idle_in_transaction_session_timeout": "0",
	"idle_session_timeout":                "0",
}

// applySettings sets those settings that the server knows, for the transaction
// only or for the session.
func applySettings(ctx context.Context, conn *pgx.Conn, local bool, more map[string]string) error {
	all := maps.Clone(textSettings)
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
	// A statement that is no longer waited for must not go on in the server.
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: 2 * time.Second}
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(sessionSettings)
	maps.Copy(all, more)
	if err := applySettings(ctx, conn, false, all); err != nil {
		conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return conn, nil
}

// targetSettings are those of a session in the database to copy into. What it
// commits may be lost in a crash of the server until analyze has ended.
var targetSettings = map[string]string{
	"synchronous_commit":            "off",
	"default_transaction_read_only": "off",
}

// target opens another session in the database to copy into.
func (c *copier) target(ctx context.Context) (*pgx.Conn, error) {
	settings := maps.Clone(targetSettings)
	settings["client_encoding"] = c.encoding
	return connect(ctx, c.Target, settings)
}

func inOrder(ctx context.Context, conn *pgx.Conn, statements ...string) error {
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

const (
	// shortWait is how long to wait for a lock while holding others. Who
	// changes the schema may hold that lock and wait for one of ours, and
	// after a second (deadlock_timeout) one of the two has to fail. This
	// makes it us, and we can try again.
	shortWait = "200ms"

	// patience is for how long to try.
	patience = 5 * time.Second
)

// lockTables takes the lock that every reader has.
func lockTables(ctx context.Context, conn *pgx.Conn, tables []string) error {
	for chunk := range slices.Chunk(tables, 200) {
		if _, err := conn.Exec(ctx, "lock table only "+strings.Join(chunk, ", only ")+" in access share mode"); err != nil {
			return changedUnderUs(fmt.Errorf("locking the tables of the source: %w", err))
		}
	}
	return nil
}

// tables returns the names of all tables that can be locked. A copy by a role
// that may not read some of them is refused, but first it is to be said why.
func (c *copier) tables(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	rows, err := conn.Query(ctx, `
		select format('%I.%I', n.nspname, c.relname)
		from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where c.relkind in ('r', 'p') and `+lasting("c.relnamespace")+`
			and (`+own("pg_class", "c")+` or exists (select from pg_extension e where c.oid = any (e.extconfig)))
			and has_table_privilege(c.oid, 'SELECT')
		order by c.oid`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
