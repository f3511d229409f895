package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/postgres"
)

func newMigrateCommand() *cobra.Command {
	s := newServerSettings()
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the control database up to date",
		Long: `Bring the control database to the schema that this program needs, as "bough
serve" does at its start. Several may run at once: they take turns.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := s.load(); err != nil {
				return err
			}
			planes, err := server.Open(cmd.Context(), s.cfg, server.NewLogger(s.cfg, cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			current, _, err := postgres.MigrationState(cmd.Context(), planes.Control)
			if closeErr := planes.Close(); err == nil {
				err = closeErr
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The control database has schema version %d.\n", current)
			return nil
		},
	}
	s.addFlags(cmd)
	return cmd
}
