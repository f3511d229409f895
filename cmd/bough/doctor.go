package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/boughdb/bough/server"
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
