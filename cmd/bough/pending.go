package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func newServeCommand() *cobra.Command   { return newPendingCommand("serve", "Run the server") }
func newConfigCommand() *cobra.Command  { return newPendingCommand("config", "Print the configuration") }
func newMigrateCommand() *cobra.Command { return newPendingCommand("migrate", "Migrate the databases") }
func newDoctorCommand() *cobra.Command  { return newPendingCommand("doctor", "Check the setup") }

func newPendingCommand(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return errors.New("not there yet") },
	}
}
