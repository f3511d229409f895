package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

const createLong = `Make a branch and wait until it is ready. An interrupt ends the waiting, not the
creation.`

const createExample = `  bough branch create demo --expires-in 24h
  bough branch create "Load test" --clone-data full_clone --type persistent
  bough branch create pr-7 --from demo --if-not-exists`

func newBranchCreateCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "create <name>",
		Short:             "Make a branch",
		Long:              createLong,
		Example:           createExample,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	from := cmd.Flags().String("from", mainBranch, "the branch to copy: its slug, id or name")
	completeWith(cmd, "from", c.completeBranches)
	mode := enumFlag(cmd, "clone-data", "", string(client.DataCloneModeSchemaOnly), "what to copy",
		client.DataCloneModeSchemaOnly, client.DataCloneModeFullClone, client.DataCloneModeSeedData)
	branchType := enumFlag(cmd, "type", "", string(client.BranchTypePreview), "for a while, or to stay",
		client.BranchTypePreview, client.BranchTypePersistent)
	expiresIn := cmd.Flags().String("expires-in", "", "delete it after this time, such as 24h, 7d or 1d12h")
	completeWith(cmd, "expires-in", cobra.NoFileCompletions)
	noWait := cmd.Flags().Bool("no-wait", false, "do not wait until it is ready")
	ifNotExists := cmd.Flags().Bool("if-not-exists", false, "be content with a branch of this name that is there already")
	output := outputFlag(cmd)

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		a, err := c.connect()
		if err != nil {
			return err
		}
		request := client.CreateBranchRequest{
			Name:          args[0],
			DataCloneMode: new(client.DataCloneMode(mode.value)),
			Type:          new(client.BranchType(branchType.value)),
		}
		if *expiresIn != "" {
			request.ExpiresIn = expiresIn
		}
		// Without a parent the server copies main.
		if *from != mainBranch {
			parent, _, err := a.branch(ctx, *from)
			if err != nil {
				return fmt.Errorf("--from: %w", err)
			}
			if parent.Slug != mainBranch {
				request.ParentBranchID = &parent.ID
			}
		}
		created, got, err := readAs[client.CreatedBranch](a.CreateBranch(ctx, nil, request))
		if *ifNotExists && hasCode(err, "branch_exists") {
			existing, found, lookupErr := a.existing(ctx, args[0])
			if lookupErr != nil {
				return err
			}
			remark(cmd, "There is a branch %q already.", existing.Name)
			created.ID, created.Name, created.Slug, created.Status = existing.ID, existing.Name, existing.Slug, existing.Status
			got, err = found, nil
			if existing.Status == client.BranchStatusError {
				return c.failedBranch(existing)
			}
			if *noWait || existing.Status == client.BranchStatusReady {
				return c.printBranch(cmd, a, output.value, existing, got)
			}
		}
		if err != nil {
			return err
		}
		if *noWait {
			return c.print(cmd, output.value, got.body, c.createdDetails(created))
		}
		b, got, err := c.wait(cmd, a, waiting{
			id: created.ID.String(), name: created.Name, slug: created.Slug, what: "creation", since: c.now(),
		})
		if err != nil {
			return err
		}
		return c.printBranch(cmd, a, output.value, b, got)
	}
	return cmd
}

// existing returns the branch that took the name.
func (a *api) existing(ctx context.Context, name string) (client.Branch, answer, error) {
	entry, err := a.branchNamed(ctx, name)
	if err != nil || entry == nil {
		// Another name's slug took it.
		return a.branch(ctx, name)
	}
	return readAs[client.Branch](a.GetBranch(ctx, entry.ID.String()))
}

func (c *cli) createdDetails(b client.CreatedBranch) *details {
	d := &details{}
	d.add("Name", text(b.Name))
	d.add("Slug", text(b.Slug))
	d.add("ID", text(b.ID.String()))
	d.add("Status", statusCell(b.Status))
	d.add("Type", text(string(b.Type)))
	d.add("Database", text(b.DatabaseName))
	d.add("Data", text(string(b.DataCloneMode)))
	d.add("Expires", c.when(b.ExpiresAt))
	return d
}
