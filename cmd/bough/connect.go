package main

import (
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

func newConnectCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "connect [branch]",
		Short: "Print the URL of a branch's database",
		Long: `Print the libpq URL of a branch's database, with its password; of main without a
branch. Nothing else goes to standard output. The role in it reaches this
database only and acts as the owner of the objects.`,
		Example:           `  pg_dump --schema-only "$(bough connect demo)"`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeBranch,
		RunE: func(cmd *cobra.Command, args []string) error {
			dsn, err := c.connection(cmd, args)
			if err != nil {
				return err
			}
			return c.printLine(cmd, dsn)
		},
	}
}

// connection returns the libpq URL of the branch that the first argument names.
func (c *cli) connection(cmd *cobra.Command, args []string) (string, error) {
	a, b, _, err := c.branchArg(cmd, args)
	if err != nil {
		return "", err
	}
	got, _, err := readAs[client.BranchConnection](a.GetBranchConnection(cmd.Context(), b.ID.String()))
	return got.URL, err
}

func newPsqlCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "psql [branch] [-- psql arguments]",
		Short: "Start psql on a branch",
		Long: `Start psql on a branch, main by default. What follows "--" goes to psql. The
password is in psql's environment, not among its arguments.`,
		Example: `  bough psql demo
  bough psql demo -- -c '\d'`,
		Args: func(cmd *cobra.Command, args []string) error {
			own, _ := splitArgs(cmd, args)
			return cobra.MaximumNArgs(1)(cmd, own)
		},
		ValidArgsFunction: c.completeBranch,
		RunE: func(cmd *cobra.Command, args []string) error {
			own, rest := splitArgs(cmd, args)
			path, err := exec.LookPath("psql")
			if err != nil {
				return hintError{errors.New("psql is not installed"), `"bough sql" runs SQL without it`}
			}
			dsn, err := c.connection(cmd, own)
			if err != nil {
				return err
			}
			return c.startPsql(path, dsn, rest)
		},
	}
}

// startPsql replaces this process with psql.
func (c *cli) startPsql(path, dsn string, args []string) error {
	dsn, password, err := splitPassword(dsn)
	if err != nil {
		return err
	}
	env := c.environ()
	if password != "" {
		// Of a variable that is set twice some systems take the first.
		env = withoutVariable(env, "PGPASSWORD")
		env = append(env, "PGPASSWORD="+password)
	}
	if err := c.exec(path, append([]string{"psql", "--dbname=" + dsn}, args...), env); err != nil {
		return fmt.Errorf("starting psql: %w", err)
	}
	return nil
}

// splitArgs returns what stands before and after "--".
func splitArgs(cmd *cobra.Command, args []string) (own, rest []string) {
	if at := cmd.ArgsLenAtDash(); at >= 0 {
		return args[:at], args[at:]
	}
	return args, nil
}

// splitPassword takes the password out of a libpq URL. It goes by the text, since net/url refuses some of libpq's
// URLs, such as those with several hosts or a socket's directory as host.
func splitPassword(dsn string) (without, password string, err error) {
	scheme, rest, ok := strings.Cut(dsn, "://")
	if !ok {
		return "", "", errors.New("the server's connection string is no URL")
	}
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	authority, path := rest[:end], rest[end:]
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, secret, _ := strings.Cut(authority[:at], ":")
		if password, err = url.PathUnescape(secret); err != nil {
			return "", "", errors.New("the server's connection string is malformed")
		}
		authority = user + authority[at:]
	}
	path, query, hasQuery := strings.Cut(path, "?")
	if hasQuery {
		var kept []string
		for _, pair := range strings.Split(query, "&") {
			key, secret, _ := strings.Cut(pair, "=")
			if key != "password" {
				kept = append(kept, pair)
				continue
			}
			if password, err = url.PathUnescape(secret); err != nil {
				return "", "", errors.New("the server's connection string is malformed")
			}
		}
		if len(kept) > 0 {
			path += "?" + strings.Join(kept, "&")
		}
	}
	return scheme + "://" + authority + path, password, nil
}

func withoutVariable(env []string, name string) []string {
	var kept []string
	for _, entry := range env {
		if !strings.HasPrefix(entry, name+"=") {
			kept = append(kept, entry)
		}
	}
	return kept
}
