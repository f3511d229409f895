package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/spf13/cobra"
)

const sqlLong = `Run SQL on a branch, main by default: the statements after -c, in a file, or on
standard input. psql is not needed; for a prompt use "bough psql".

The first error ends it. Each statement is a transaction of its own unless the
SQL has "begin" and "commit", or --single-transaction makes one of all. The rows
of "copy … from stdin" may follow in the file, as in the output of pg_dump.`

const sqlExample = `  bough sql -c 'select count(*) from orders'
  bough sql --branch demo -f seed.sql --single-transaction
  pg_dump --schema-only "$OTHER" | bough sql --branch demo`

func newSQLCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "sql [-c SQL | -f file | -]",
		Short:   "Run SQL on a branch",
		Long:    sqlLong,
		Example: sqlExample,
		Args:    cobra.MaximumNArgs(1),
	}
	branch := cmd.Flags().StringP("branch", "b", mainBranch, "the branch: its slug, id or name")
	completeWith(cmd, "branch", c.completeBranches)
	cmd.Flags().StringP("command", "c", "", "run this SQL")
	completeWith(cmd, "command", cobra.NoFileCompletions)
	file := cmd.Flags().StringP("file", "f", "", `run the SQL in this file; "-" is standard input`)
	single := cmd.Flags().BoolP("single-transaction", "1", false, "run everything in one transaction")
	output := enumFlag(cmd, "output", "o", formatTable, "how to print rows", formatTable, formatJSON, formatCSV)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && args[0] != "-" {
			return usagef("unexpected argument %q: give SQL after -c, a file after -f", args[0])
		}
		source, err := c.sqlSource(cmd, args, *file)
		if err != nil {
			return err
		}
		statements, err := splitStatements(source, !cmd.Flags().Changed("command"))
		if err != nil {
			return err
		}
		dsn, err := c.connection(cmd, []string{*branch})
		if err != nil {
			return err
		}
		return c.runSQL(cmd, dsn, *branch, source, statements, *single, output.value)
	}
	return cmd
}

// sqlSource returns the SQL to run: of -c, of a file or of standard input.
func (c *cli) sqlSource(cmd *cobra.Command, args []string, file string) (string, error) {
	given := len(args)
	for _, flag := range []string{"command", "file"} {
		if cmd.Flags().Changed(flag) {
			given++
		}
	}
	switch {
	case given > 1:
		return "", usagef("give one of -c, -f and -")
	case cmd.Flags().Changed("command"):
		return cmd.Flags().GetString("command")
	case file != "" && file != "-":
		content, err := os.ReadFile(file)
		return string(content), err
	case given == 0 && c.stdinIsTerminal:
		return "", usagef(`no SQL given: use -c or -f, or "bough psql" for a prompt`)
	}
	content, err := interruptible(cmd.Context(), func() ([]byte, error) { return io.ReadAll(cmd.InOrStdin()) })
	return string(content), err
}

// sqlSession runs statements over one connection.
type sqlSession struct {
	cmd    *cobra.Command
	source string // what the statements are parts of
	out    rowPrinter
	conn   *pgconn.PgConn
}

func (s *sqlSession) connect(ctx context.Context, dsn, branch string) error {
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("the connection string of %q: %w", branch, err)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 15 * time.Second
	}
	config.RuntimeParams["application_name"] = "bough sql"
	config.RuntimeParams["client_encoding"] = "UTF8"
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		remark(s.cmd, "%s: %s", n.SeverityUnlocalized, n.Message)
	}
	// An interrupt ends the statement on the server too, not only the waiting for it.
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: time.Second}
	}
	s.conn, err = pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connecting to branch %q: %w", branch, err)
	}
	return nil
}

func (s *sqlSession) run(ctx context.Context, statements []statement, single bool) (err error) {
	defer func() {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = s.conn.Close(closeCtx)
	}()
	if single {
		statements = append([]statement{{text: "begin"}}, append(statements, statement{text: "commit"})...)
	}
	for i, stmt := range statements {
		quiet := single && (i == 0 || i == len(statements)-1)
		if err := s.statement(ctx, stmt, quiet); err != nil {
			return s.explain(stmt, err)
		}
	}
	if s.conn.TxStatus() != 'I' {
		remark(s.cmd, "WARNING: the transaction was not committed, its changes are lost")
	}
	return nil
}

func (s *sqlSession) statement(ctx context.Context, stmt statement, quiet bool) error {
	switch {
	case stmt.copiesIn():
		var data io.Reader = strings.NewReader(stmt.data)
		if s.cmd.Flags().Changed("command") {
			data = s.cmd.InOrStdin()
		}
		tag, err := s.conn.CopyFrom(ctx, data, stmt.text)
		if err == nil {
			remark(s.cmd, "%s", tag)
		}
		return err
	case stmt.copiesOut():
		tag, err := s.conn.CopyTo(ctx, s.cmd.OutOrStdout(), stmt.text)
		if err == nil {
			remark(s.cmd, "%s", tag)
		}
		return err
	}
	results := s.conn.Exec(ctx, stmt.text)
	for results.NextResult() {
		rows := results.ResultReader()
		hasRows := len(rows.FieldDescriptions()) > 0
		tag, err := s.rows(rows)
		switch {
		case err != nil:
			_ = results.Close()
			return err
		case quiet || tag.String() == "":
		case hasRows && tag.Select():
			remark(s.cmd, "(%s)", plural(int(tag.RowsAffected()), "row", "rows"))
		default:
			remark(s.cmd, "%s", tag)
		}
	}
	return results.Close()
}

// rows prints the rows of one result, if it has any, and returns its command tag.
func (s *sqlSession) rows(rows *pgconn.ResultReader) (pgconn.CommandTag, error) {
	if len(rows.FieldDescriptions()) == 0 {
		return rows.Close()
	}
	// The reader owns the descriptions and reuses them.
	if err := s.out.begin(slices.Clone(rows.FieldDescriptions())); err != nil {
		return pgconn.CommandTag{}, err
	}
	for rows.NextRow() {
		if err := s.out.row(rows.Values()); err != nil {
			return pgconn.CommandTag{}, err
		}
	}
	tag, err := rows.Close()
	if err != nil {
		return tag, err
	}
	return tag, s.out.finish()
}

// explain adds to an error of PostgreSQL's what psql shows: code, position, detail and context.
func (s *sqlSession) explain(stmt statement, err error) error {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s (SQLSTATE %s)", pgErr.Message, pgErr.Code)
	if pgErr.Position > 0 {
		b.WriteString("\n" + pointAt(s.source, stmt, int(pgErr.Position)))
	}
	if pgErr.Detail != "" {
		b.WriteString("\nDetail: " + pgErr.Detail)
	}
	if pgErr.InternalQuery != "" {
		b.WriteString("\nQuery: " + pgErr.InternalQuery)
	}
	if pgErr.Where != "" {
		b.WriteString("\nWhere: " + pgErr.Where)
	}
	explained := errors.New(b.String())
	if pgErr.Code == "42501" && strings.Contains(pgErr.Message, "to create extension") {
		return hintError{explained, `a superuser creates it: on the embedded server "bough postgres sql"`}
	}
	if pgErr.Hint != "" {
		return hintError{explained, pgErr.Hint}
	}
	return explained
}

// pointAt returns the line of source where PostgreSQL found an error in stmt, and a mark below the place. position
// counts characters from 1.
func pointAt(source string, stmt statement, position int) string {
	const before, after = 50, 25
	at := 0
	for range position - 1 {
		_, size := utf8.DecodeRuneInString(stmt.text[at:])
		at += size
	}
	at = min(stmt.start+at, len(source))
	start := strings.LastIndexByte(source[:at], '\n') + 1
	number := strings.Count(source[:start], "\n") + 1
	line, _, _ := strings.Cut(source[start:], "\n")
	line = strings.TrimSuffix(line, "\r")

	show := func(s string) string { return harmless(strings.ReplaceAll(s, "\t", " ")) }
	head, tail := show(line[:min(at-start, len(line))]), show(line[min(at-start, len(line)):])
	if textWidth(head) > before {
		head = measure().TruncateLeft(head, textWidth(head)-before+1, "…")
	}
	label := fmt.Sprintf("LINE %d: ", number)
	return label + head + fit(tail, after) + "\n" + strings.Repeat(" ", len(label)+textWidth(head)) + "^"
}
