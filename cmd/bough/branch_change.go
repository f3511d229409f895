package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

func newBranchUpdateCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "update <branch>",
		Short: "Change a branch's name, type or expiry",
		Long:  "Change a branch's name, type or expiry. Its slug and its database stay the same.",
		Example: `  bough branch update demo --expires-in 7d
  bough branch update demo --type persistent --expires-in never`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeBranch,
	}
	name := cmd.Flags().String("name", "", "the new name")
	completeWith(cmd, "name", cobra.NoFileCompletions)
	branchType := enumFlag(cmd, "type", "", "", "for a while, or to stay", client.BranchTypePreview, client.BranchTypePersistent)
	expiresIn := cmd.Flags().String("expires-in", "", `delete it after this time from now, such as 7d; or "never"`)
	completeWith(cmd, "expires-in", cobra.FixedCompletions([]string{"never"}, cobra.ShellCompDirectiveNoFileComp))
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var request client.UpdateBranchRequest
		if cmd.Flags().Changed("name") {
			request.Name = name
		}
		if cmd.Flags().Changed("type") {
			request.Type = new(client.BranchType(branchType.value))
		}
		if cmd.Flags().Changed("expires-in") {
			request.ExpiresIn = expiresIn
		}
		if request == (client.UpdateBranchRequest{}) {
			return usagef("nothing to change: give --name, --type or --expires-in")
		}
		a, b, _, err := c.branchArg(cmd, args)
		if err != nil {
			return err
		}
		b, got, err := readAs[client.Branch](a.UpdateBranch(cmd.Context(), b.ID.String(), request))
		if err != nil {
			return err
		}
		return c.printBranch(cmd, a, output.value, b, got)
	}
	return cmd
}

func newBranchDeleteCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "delete <branch>",
		Short:             "Delete a branch and its database",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeBranch,
	}
	force := cmd.Flags().Bool("force", false, "do not ask")
	children := enumFlag(cmd, "children", "", "", "branches made from this one go to its parent, or are deleted too",
		client.DeleteBranchParamsChildrenOrphan, client.DeleteBranchParamsChildrenCascade)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.mayAsk(*force); err != nil {
			return err
		}
		a, b, _, err := c.branchArg(cmd, args)
		if err != nil {
			return err
		}
		// The server refuses to delete main; asking first would only frighten.
		if !*force && b.Slug != mainBranch {
			parent := a.parentName(cmd.Context(), b)
			question := fmt.Sprintf("Delete branch %q and its database %s?", b.Name, b.DatabaseName)
			switch client.DeleteBranchParamsChildren(children.value) {
			case client.DeleteBranchParamsChildrenCascade:
				question += " Branches made from it are deleted too."
			case client.DeleteBranchParamsChildrenOrphan:
				question += fmt.Sprintf(" Branches made from it go to its parent %q.", parent)
			}
			question += fmt.Sprintf(" Its parent %q stays as it is.", parent)
			if err := c.confirm(cmd, question); err != nil {
				return err
			}
		}
		params := client.DeleteBranchParams{}
		if children.value != "" {
			params.Children = new(client.DeleteBranchParamsChildren(children.value))
		}
		_, err = read(a.DeleteBranch(cmd.Context(), b.ID.String(), &params))
		if hasCode(err, "has_children") {
			return hintError{err, "--children orphan hands them to the parent, --children cascade deletes them too"}
		}
		if err != nil {
			return err
		}
		remark(cmd, "Deleted branch %q.", b.Name)
		return nil
	}
	return cmd
}

func newBranchResetCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reset <branch>",
		Short: "Bring a branch back to its parent's present state",
		Long: `Bring a branch back to its parent's present state. All changes made in the branch
are lost. An interrupt ends the waiting, not the reset.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeBranch,
	}
	force := cmd.Flags().Bool("force", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.mayAsk(*force); err != nil {
			return err
		}
		ctx := cmd.Context()
		a, b, _, err := c.branchArg(cmd, args)
		if err != nil {
			return err
		}
		if !*force && b.Slug != mainBranch {
			question := fmt.Sprintf("Reset branch %q? Its database %s is replaced by a new copy (%s) of %q; all changes made in it are lost.",
				b.Name, b.DatabaseName, b.DataCloneMode, a.parentName(ctx, b))
			if err := c.confirm(cmd, question); err != nil {
				return err
			}
		}
		on := waiting{
			id: b.ID.String(), name: b.Name, slug: b.Slug, what: "reset", since: c.now(),
			resetBefore: b.ResetAt, resetReady: b.Status == client.BranchStatusReady,
		}
		if c.stderrIsTerminal {
			remark(cmd, "Resetting %q…", b.Name)
		}
		got, err := read(a.ResetBranch(ctx, b.ID.String()))
		switch {
		case err != nil && ctx.Err() != nil:
			return c.stoppedWaiting(on)
		case err != nil:
			return err
		case got.status != http.StatusAccepted:
			remark(cmd, "Branch %q is reset.", b.Name)
			return nil
		}
		_, _, err = c.wait(cmd, a, on)
		return err
	}
	return cmd
}
