package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/tern/v2/migrate"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/boughdb/bough/schema"
)

// MinServerVersion is the oldest PostgreSQL that Bough works with, as server_version_num.
const MinServerVersion = 150000

const versionTable = "public.bough_schema_version"

// WithDatabase returns the connection URL (or keyword/value string) with another database name.
func WithDatabase(connString, database string) (string, error) {
	if !strings.HasPrefix(connString, "postgres://") && !strings.HasPrefix(connString, "postgresql://") {
		return connString + " dbname='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(database) + "'", nil
	}
	u, err := url.Parse(connString)
	if err != nil {
		return "", errors.New("the database URL cannot be read") // err would repeat the password
	}
	u.Path = "/" + database
	u.RawPath = ""
	query := u.Query()
	query.Del("dbname")
	query.Del("database")
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// AwaitServer waits until the server of a connection string accepts connections, at most the given time: it may be
// starting, recovering, or not be there yet when all of a machine's services start together. Other errors are left to
// whoever connects next.
func AwaitServer(ctx context.Context, connString string, most time.Duration, log *slog.Logger) error {
	cfg, err := pgx.ParseConfig(connString)
	if err != nil {
		return err
	}
	began := time.Now()
	var said time.Time
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		err := tryConnect(ctx, cfg)
		if !notYet(err) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(began)+wait > most {
			return fmt.Errorf("the server did not accept connections within %s: %w", most, err)
		}
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			log.Warn("waiting for the PostgreSQL server", "host", cfg.Host, "port", cfg.Port, "for", time.Since(began).Round(time.Second), "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// tryConnect connects once, to whatever database there is.
func tryConnect(ctx context.Context, cfg *pgx.ConnConfig) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// notYet reports whether an error of connecting says that the server is not there yet, or not ready: nobody listens,
// or it does not answer, or it starts or recovers (57P03).
func notYet(err error) bool {
	if err == nil {
		return false
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code == "57P03"
	}
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

// EnsureDatabase makes the database that connString names, unless it is there.
func EnsureDatabase(ctx context.Context, connString string) error {
	cfg, err := pgx.ParseConfig(connString)
	if err != nil {
		return err
	}
	conn, err := connectMaintenance(ctx, cfg)
	if err != nil {
		// The role may be let into this one database only.
		direct, directErr := pgx.ConnectConfig(ctx, cfg)
		if directErr != nil {
			return errors.Join(directErr, err)
		}
		return direct.Close(ctx)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var exists bool
	if err := conn.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", cfg.Database).Scan(&exists); err != nil || exists {
		return err
	}
	_, err = conn.Exec(ctx, "create database "+ident(cfg.Database))
	if hasCode(err, "42P04", "23505") { // another process was faster
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating database %q: %w", cfg.Database, err)
	}
	return nil
}

// connectMaintenance connects to a database that is never branched, to create and drop others from there. It is not the
// one that cfg names, as long as there is a choice.
func connectMaintenance(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	var errs []error
	names := []string{"postgres", "template1"}
	if cfg.Database == names[0] {
		slices.Reverse(names)
	}
	for _, name := range names {
		c := cfg.Copy()
		c.Database = name
		conn, err := pgx.ConnectConfig(ctx, c)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, fmt.Errorf("database %q: %w", name, err))
	}
	return nil, errors.Join(errs...)
}

// OpenControl opens the pool of the control database. The caller closes it.
func OpenControl(ctx context.Context, connString string, maxConns int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(connString)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = maxConns
	cfg.ConnConfig.RuntimeParams["application_name"] = "bough control"
	cfg.MaxConnIdleTime = 5 * time.Minute
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// Migrate brings the control database to this program's schema, the job queue's tables included. Several processes
// may call it at once; an advisory lock makes them take turns. A database that is newer than the program is an error.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	err := pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		m, err := newMigrator(ctx, c.Conn())
		if err != nil {
			return err
		}
		return m.Migrate(ctx)
	})
	if err != nil {
		var bad migrate.BadVersionError
		if errors.As(err, &bad) {
			return fmt.Errorf("the control database belongs to a newer Bough: %w", err)
		}
		return fmt.Errorf("migrating the control database: %w", err)
	}
	// River's migrator takes no lock of its own, and must not run in one transaction: before PostgreSQL 17 a value that
	// is new in an enum cannot be used in the transaction that adds it.
	lock, err := AcquireLock(ctx, pool, "bough.river_migrations")
	if err != nil {
		return err
	}
	defer lock.Release()
	river, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	if _, err := river.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrating the job queue: %w", err)
	}
	return nil
}

// MigrationState returns the control database's schema version and the one that this program needs.
func MigrationState(ctx context.Context, pool *pgxpool.Pool) (current, wanted int32, err error) {
	err = pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		files, err := migrate.FindMigrations(schema.Files)
		if err != nil {
			return err
		}
		wanted = int32(len(files))
		return c.QueryRow(ctx, "select version from "+versionTable).Scan(&current)
	})
	if hasCode(err, "42P01") { // undefined_table: never migrated
		return 0, wanted, nil
	}
	return current, wanted, err
}

func newMigrator(ctx context.Context, conn *pgx.Conn) (*migrate.Migrator, error) {
	m, err := migrate.NewMigrator(ctx, conn, versionTable)
	if err != nil {
		return nil, err
	}
	return m, m.LoadMigrations(schema.Files)
}

// hasCode reports whether err is PostgreSQL's with one of the SQLSTATEs.
func hasCode(err error, codes ...string) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	return slices.Contains(codes, pgErr.Code)
}

func ident(name string) string { return pgx.Identifier{name}.Sanitize() }

// literal quotes text as a string constant, for statements that take no parameters.
func literal(s string) string {
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return " E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}
