package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

func newBranchCommand(c *cli) *cobra.Command {
	return newGroupCommand("branch", "Make, inspect, reset and delete branches",
		newBranchListCommand(c),
		newBranchGetCommand(c),
		newBranchCreateCommand(c),
		newBranchUpdateCommand(c),
		newBranchDeleteCommand(c),
		newBranchResetCommand(c),
		newBranchStatusCommand(c),
		newBranchActivityCommand(c),
		newBranchStatsCommand(c),
		newBranchAccessCommand(c),
		newBranchCredentialsCommand(c),
	)
}

func newBranchListCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List branches, newest first", Args: cobra.NoArgs}
	output := outputFlag(cmd)
	status := enumFlag(cmd, "status", "", "", "only branches in this status",
		client.BranchStatusCreating, client.BranchStatusReady, client.BranchStatusResetting,
		client.BranchStatusDeleting, client.BranchStatusError)
	branchType := enumFlag(cmd, "type", "", "", "only branches of this type", client.BranchTypePreview, client.BranchTypePersistent)
	window := pageFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a, err := c.connect()
		if err != nil {
			return err
		}
		params := client.ListBranchesParams{}
		if status.value != "" {
			params.Status = new(client.BranchStatus(status.value))
		}
		if branchType.value != "" {
			params.Type = new(client.BranchType(branchType.value))
		}
		list, got, err := listOf[client.BranchList](cmd.Context(), "branches", *window, func(ctx context.Context, limit, offset int32) (answer, error) {
			params.Limit, params.Offset = &limit, &offset
			return read(a.ListBranches(ctx, &params))
		})
		if err != nil {
			return err
		}
		t := &table{columns: []column{
			{title: "NAME", min: 12}, {title: "SLUG", min: 12, late: true}, {title: "STATUS"}, {title: "TYPE"}, {title: "CREATED"},
		}}
		for _, b := range list.Branches {
			t.add(text(b.Name), text(b.Slug), statusCell(b.Status), text(string(b.Type)), text(ago(c.now(), b.CreatedAt)))
		}
		return c.printList(cmd, output.value, got.body, t, extent{len(list.Branches), list.Total, "branch", "branches"})
	}
	return cmd
}

func newBranchGetCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "get <branch>",
		Short:             "Show a branch",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeBranch,
	}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, b, got, err := c.branchArg(cmd, args)
		if err != nil {
			return err
		}
		return c.printBranch(cmd, a, output.value, b, got)
	}
	return cmd
}

// printBranch prints a branch of which got is the server's description.
func (c *cli) printBranch(cmd *cobra.Command, a *api, format string, b client.Branch, got answer) error {
	if format != formatTable {
		return c.print(cmd, format, got.body, nil)
	}
	d := &details{}
	d.add("Name", text(b.Name))
	d.add("Slug", text(b.Slug))
	d.add("ID", text(b.ID.String()))
	d.add("Status", statusCell(b.Status))
	if b.Phase != nil {
		d.add("Phase", text(*b.Phase))
	}
	if b.ErrorMessage != nil {
		d.add("Error", cell{*b.ErrorMessage, "31"})
	}
	d.add("Type", text(string(b.Type)))
	d.add("Database", text(b.DatabaseName))
	if b.Slug != mainBranch {
		d.add("Parent", text(a.parentName(cmd.Context(), b)))
		d.add("Data", text(string(b.DataCloneMode)))
	}
	if b.RepohostRepo != nil {
		d.add("Repository", text(*b.RepohostRepo))
	}
	if b.RepohostPRURL != nil {
		d.add("Pull request", text(*b.RepohostPRURL))
	}
	if b.CreatedBy != "" {
		d.add("Created by", text(b.CreatedBy))
	}
	d.add("Created", c.when(&b.CreatedAt))
	d.add("Updated", c.when(&b.UpdatedAt))
	if b.ResetAt != nil {
		d.add("Reset", c.when(b.ResetAt))
	}
	d.add("Expires", c.when(b.ExpiresAt))
	return c.print(cmd, format, got.body, d)
}

// when returns a time as people say it, followed by the exact one.
func (c *cli) when(t *time.Time) cell {
	if t == nil {
		return text("never")
	}
	return text(ago(c.now(), *t) + " (" + t.UTC().Format("2006-01-02 15:04:05Z") + ")")
}

// statusCell returns a branch's status in the colour of a traffic light.
func statusCell(status client.BranchStatus) cell {
	switch status {
	case client.BranchStatusReady:
		return cell{string(status), "32"}
	case client.BranchStatusError:
		return cell{string(status), "31"}
	}
	return cell{string(status), "33"}
}
