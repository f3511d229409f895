package main

import (
	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

func newBranchCredentialsCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "credentials <branch>",
		Short: "Show the database credentials of a branch, or set a new password",
		Long: `Show the URL of a branch's database, with the role that connects to this
database only and its password. They stay the same when the branch is reset.

--rotate sets a new password first: the old one is invalid at once, and the
sessions that used it are closed.`,
		Example: `  bough branch credentials demo
  bough branch credentials main --rotate`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeBranch,
	}
	rotate := cmd.Flags().Bool("rotate", false, "set a new password first")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, b, _, err := c.branchArg(cmd, args)
		if err != nil {
			return err
		}
		var connection client.BranchConnection
		var got answer
		if *rotate {
			connection, got, err = readAs[client.BranchConnection](a.RotateBranchCredentials(cmd.Context(), b.ID.String()))
		} else {
			connection, got, err = readAs[client.BranchConnection](a.GetBranchConnection(cmd.Context(), b.ID.String()))
		}
		if err != nil {
			return err
		}
		if output.value != formatTable {
			return c.print(cmd, output.value, got.body, nil)
		}
		return c.printLine(cmd, connection.URL)
	}
	return cmd
}
