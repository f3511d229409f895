package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/boughdb/bough/server"
)

const serveLong = `Run the server. With nothing configured it starts a PostgreSQL of its own, with
its data in the directory .bough, makes the databases and a first service key,
and keeps that key in the profile "local", so that the other commands work at
once. With --database-url it uses a PostgreSQL 15 or newer that is there.

Each setting is a flag, a key of the configuration file (branching.max-branches
is max_branches: below branching:) and an environment variable
(BOUGH_BRANCHING_MAX_BRANCHES). A flag wins over the environment, that over the
file. "bough config" prints what is in force.`

func newServeCommand() *cobra.Command {
	s := newServerSettings()
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long:  serveLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := s.load(); err != nil {
				return err
			}
			s.cfg.Version = programVersion()
			log := server.NewLogger(s.cfg, cmd.ErrOrStderr())
			// A server is stopped by its terminal as by its service manager.
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return server.Run(ctx, s.cfg, log, server.Hooks{FirstKey: func(baseURL, key string) {
				fmt.Fprintf(cmd.ErrOrStderr(), "\nYour first service key, shown this once:\n\n    %s\n\n", key)
				path, err := saveLocalProfile(baseURL, key)
				if err != nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "It could not be kept for the command line: %v\n\n", err)
					return
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "The commands of bough find it in %s\n\n", path)
			}})
		},
	}
	s.addFlags(cmd)
	return cmd
}
