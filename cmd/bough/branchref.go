package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

const (
	mainBranch = "main"
	pageSize   = 100
)

// branch returns the branch that ref means: its id, its slug, or else its exact name.
func (a *api) branch(ctx context.Context, ref string) (client.Branch, answer, error) {
	if ref == "" {
		return client.Branch{}, answer{}, usagef("the branch's name must not be empty")
	}
	var notFound error
	// As a path segment these would lead out of the branches.
	if ref == "." || ref == ".." {
		notFound = &apiError{status: 404, body: client.Error{Error: "there is no branch \"" + ref + "\"", Code: "branch_not_found"}}
	} else {
		found, got, err := readAs[client.Branch](a.GetBranch(ctx, ref))
		if err == nil || !hasCode(err, "branch_not_found") {
			return found, got, err
		}
		notFound = err
	}
	entry, err := a.branchNamed(ctx, ref)
	if err != nil {
		return client.Branch{}, answer{}, err
	}
	if entry == nil {
		return client.Branch{}, answer{}, notFound
	}
	return readAs[client.Branch](a.GetBranch(ctx, entry.ID.String()))
}

// branchNamed returns the branch with that display name, or nil.
func (a *api) branchNamed(ctx context.Context, name string) (*client.BranchListEntry, error) {
	for offset := int32(0); ; offset += pageSize {
		page, _, err := readAs[client.BranchList](a.ListBranches(ctx, &client.ListBranchesParams{
			Limit: new(int32(pageSize)), Offset: &offset,
		}))
		if err != nil {
			return nil, err
		}
		for _, entry := range page.Branches {
			if entry.Name == name {
				return &entry, nil
			}
		}
		if len(page.Branches) == 0 || int(offset)+len(page.Branches) >= page.Total {
			return nil, nil
		}
	}
}

// parentName returns what to call the parent of b.
func (a *api) parentName(ctx context.Context, b client.Branch) string {
	if b.ParentBranchID == nil {
		return mainBranch
	}
	parent, _, err := readAs[client.Branch](a.GetBranch(ctx, b.ParentBranchID.String()))
	if err != nil {
		// The parent may be gone or invisible; its id still says which one it was.
		return b.ParentBranchID.String()
	}
	return parent.Name
}

// branchArg returns the branch that the first argument of cmd names, main without one.
func (c *cli) branchArg(cmd *cobra.Command, args []string) (*api, client.Branch, answer, error) {
	a, err := c.connect()
	if err != nil {
		return nil, client.Branch{}, answer{}, err
	}
	ref := mainBranch
	if len(args) > 0 {
		ref = args[0]
	}
	b, got, err := a.branch(cmd.Context(), ref)
	return a, b, got, err
}
