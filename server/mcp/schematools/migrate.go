package schematools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/mcp"
	"github.com/boughdb/bough/server/mcp/schematools/schematext"
	"github.com/boughdb/bough/server/mcp/schematools/script"
	"github.com/boughdb/bough/server/postgres"
)

// Migration is a migration that was committed.
type Migration struct {
	Name, SQL string
	Took      time.Duration
	// Changed are the objects that are different now.
	Changed []string
}

type migrateArgs struct {
	Name    string `json:"name" jsonschema:"such as add_posts_table" schema:"max=100"`
	SQL     string `json:"sql" schema:"max=500000"`
	Confirm string `json:"confirm,omitempty" jsonschema:"main, once the person agreed to change main"`
}

type migrateResult struct {
	Branch     string `json:"branch"`
	Statements int    `json:"statements"`
	DurationMS int64  `json:"duration_ms"`
	changes
}

// Limits of a migration, which runs while somebody waits: what holds more than it can get soon gives way.
const (
	migrationTime = 50 * time.Second
	lockTime      = 10 * time.Second
	commitTime    = 30 * time.Second
)

var (
	errMigrateMain  = fault.New(fault.Forbidden, "access_denied", "migrations of main are not allowed on this server").WithHint("name a branch: create_branch makes one")
	errTransaction  = fault.New(fault.Invalid, "validation_error", "the transaction is not the migration's to control")
	errUnknown      = fault.New(fault.Unavailable, "unavailable", "the connection was lost at the commit: it is not known whether the migration was applied").WithHint("compare_branch_schema or describe_table tell")
	errMigrateAdmin = auth.ErrDenied.Msgf("migrations are for administrators and service keys")
)

// applyMigration runs the statements in one transaction, as the login of the branch, which owns the objects of this
// database and reaches no other, and commits them if all succeed. The
// connection is closed afterwards: what the statements set for the session, or left in it, is gone with it.
func (s *service) applyMigration(ctx context.Context, c *mcp.Call, in migrateArgs) (*mcp.Result, error) {
	switch {
	case !c.Principal.Admin:
		return nil, errMigrateAdmin
	case c.Branch == mainSlug && !s.AllowMigrateMain:
		return nil, errMigrateMain
	}
	statements, err := script.Split(in.SQL)
	if err != nil {
		return nil, fault.Field("sql", "%s", err)
	}
	if len(statements) == 0 {
		return nil, fault.Field("sql", "has no statement")
	}
	for i, stmt := range statements {
		if problem := stmt.Refused(); problem != "" {
			return nil, fault.Field("sql", "has a statement that is refused: %s: %s", place(statements, i), problem)
		}
	}
	if c.Branch == mainSlug {
		if err := confirm(c, in.Confirm, mainSlug, fmt.Sprintf("Apply migration %q (%d statements) to main?", cut(in.Name, 100), len(statements))); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, migrationTime)
	defer cancel()
	d, err := s.migrate(ctx, c, statements)
	if err != nil {
		return nil, err
	}
	s.Schemas.Invalidate(c.Database)
	// The caller's next question is about what she just made. An old answer for a moment does no harm otherwise.
	_, _ = s.Schemas.Refresh(ctx, c.Database)
	out := migrateResult{Branch: c.Branch, Statements: len(statements), DurationMS: time.Since(began).Milliseconds(), changes: changesOf(d)}
	if s.Migrated != nil {
		m := Migration{Name: in.Name, SQL: in.SQL, Took: time.Since(began)}
		for _, list := range [][]string{out.Added, out.Removed, out.Changed} {
			m.Changed = append(m.Changed, list...)
		}
		s.Migrated(context.WithoutCancel(ctx), c, m)
	}
	return &mcp.Result{
		Structured: out, Untrusted: true,
		Summary: fmt.Sprintf("Applied %d statements to branch %s; objects: %s. get_advisors checks the result.", len(statements), c.Branch, tell(d)),
	}, nil
}

// place says which statement it is.
func place(statements []script.Statement, i int) string {
	return fmt.Sprintf("statement %d of %d, line %d", i+1, len(statements), statements[i].Line)
}

// migrate commits the statements, or changes nothing, and returns what they changed.
func (s *service) migrate(ctx context.Context, c *mcp.Call, statements []script.Statement) (d schematext.Difference, err error) {
	conn, err := s.Session(ctx, c.Database)
	if err != nil {
		return d, err
	}
	defer discard(conn)
	tx, err := conn.Begin(ctx)
	if err != nil {
		return d, fmt.Errorf("beginning a migration: %w", err)
	}
	// Quotes mean the same to the server as to package script.
	const limits = `set local standard_conforming_strings = on; set local lock_timeout = %d; set local statement_timeout = %d`
	if _, err := tx.Exec(ctx, fmt.Sprintf(limits, lockTime.Milliseconds(), migrationTime.Milliseconds())); err != nil {
		return d, fmt.Errorf("beginning a migration: %w", err)
	}
	before, err := s.textWithin(ctx, tx)
	if err != nil {
		return d, catalogFault(err)
	}
	pg := conn.PgConn()
	for i, stmt := range statements {
		// The extended protocol takes one statement and no more, whatever the text is.
		result := pg.ExecParams(ctx, stmt.Text, nil, nil, nil, nil)
		for result.NextRow() { // nobody asked for rows
		}
		if _, err := result.Close(); err != nil {
			return d, migrationFault(ctx, err, statements, i)
		}
		if pg.TxStatus() != 'T' {
			return d, errTransaction.Msgf("%s: the statement ended the transaction, after what came before it; see what became of it", place(statements, i))
		}
	}
	after, err := s.textWithin(ctx, tx)
	if err != nil {
		return d, catalogFault(err)
	}
	// From here on giving up would leave open what has become of it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTime)
	defer cancel()
	if err := tx.Commit(ctx); err != nil {
		return d, migrationFault(ctx, err, statements, -1)
	}
	return schematext.Compare(before, after), nil
}

// textWithin reads the schema as the transaction sees it, and leaves the transaction's settings as they are.
func (s *service) textWithin(ctx context.Context, tx pgx.Tx) ([]schematext.Object, error) {
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := savepoint.Exec(ctx, "set local role none"); err != nil {
		return nil, err
	}
	objects, err := schematext.Read(ctx, savepoint, schematext.Options{Grantees: s.Roles.All()})
	if err != nil {
		return nil, err
	}
	return objects, savepoint.Rollback(ctx)
}

// discard ends a session, with all that is left in it, and with it a transaction that was not committed.
func discard(conn *postgres.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = conn.Close(ctx) // the server ends what it cannot be told to end
}

// migrationFault says which statement failed and why; i is -1 for the commit.
func migrationFault(ctx context.Context, err error, statements []script.Statement, i int) error {
	where := "the commit"
	if i >= 0 {
		where = place(statements, i)
	}
	var pgErr *pgconn.PgError
	switch {
	case errors.As(err, &pgErr):
	case i < 0:
		return errUnknown
	case ctx.Err() != nil:
		return fault.New(fault.Timeout, "timeout", "").Msgf("%s: the migration took longer than %s and was given up; nothing was changed", where, migrationTime)
	default:
		return fmt.Errorf("applying a migration: %s: %w", where, err)
	}
	f := &fault.Error{Kind: fault.Invalid, Code: pgErr.Code, Details: pgErr.Detail, Hint: pgErr.Hint}
	message := pgErr.Message
	switch {
	case pgErr.Code == "42501" && strings.Contains(message, "to create extension"):
		f.Hint = "a superuser creates it: on the embedded server with `bough postgres sql -d <database> -c 'create extension …'`; what main has, later branches have too"
	case pgErr.Code == "55P03":
		message, f.Kind = fmt.Sprintf("another session holds a lock that the statement needs, for more than %s", lockTime), fault.Unavailable
	case pgErr.Code == "57014":
		message, f.Kind = fmt.Sprintf("the statement was given up; a migration may take %s", migrationTime), fault.Timeout
	case i >= 0 && pgErr.Position > 0:
		if near := excerpt(statements[i].Text, int(pgErr.Position)); near != "" {
			message += fmt.Sprintf(" (at %q)", near)
		}
	}
	if context := pgErr.Where; context != "" && f.Details == "" {
		f.Details = cut(context, 500)
	}
	f.Message = fmt.Sprintf("%s: %s; nothing was changed", where, message)
	return f
}

// excerpt is the text at a position that PostgreSQL counts in characters from 1.
func excerpt(text string, position int) string {
	runes := []rune(text)
	if position > len(runes) {
		return ""
	}
	line, _, _ := strings.Cut(string(runes[position-1:]), "\n")
	return cut(line, 60)
}
