package main

import (
	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

func newBranchAccessCommand(c *cli) *cobra.Command {
	return newGroupCommand("access", "Say who else may use a branch",
		newAccessListCommand(c), newAccessGrantCommand(c), newAccessRevokeCommand(c))
}

func newAccessListCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "list <branch>",
		Short:             "List who was granted access",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeBranch,
	}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, b, _, err := c.branchArg(cmd, args)
		if err != nil {
			return err
		}
		list, got, err := readAs[client.AccessList](a.ListBranchAccess(cmd.Context(), b.ID.String()))
		if err != nil {
			return err
		}
		t := &table{columns: []column{{title: "USER"}, {title: "LEVEL"}, {title: "SINCE"}, {title: "GRANTED BY", min: 12}}}
		for _, g := range list.Access {
			t.add(text(g.UserID.String()), text(string(g.Level)), text(ago(c.now(), g.CreatedAt)), text(g.GrantedBy))
		}
		return c.print(cmd, output.value, got.body, t)
	}
	return cmd
}

func newAccessGrantCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "grant <branch> <user-id>",
		Short:             "Grant a user access, or another level of it",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: c.completeBranch,
	}
	level := enumFlag(cmd, "level", "", string(client.AccessLevelRead), "look, change data, or also reset, delete and grant",
		client.AccessLevelRead, client.AccessLevelWrite, client.AccessLevelAdmin)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		user, err := userID(args[1])
		if err != nil {
			return err
		}
		a, b, _, err := c.branchArg(cmd, args)
		if err != nil {
			return err
		}
		g, got, err := readAs[client.AccessGrant](a.GrantBranchAccess(cmd.Context(), b.ID.String(), user,
			client.GrantAccessRequest{Level: client.AccessLevel(level.value)}))
		if err != nil {
			return err
		}
		d := &details{}
		d.add("Branch", text(b.Name))
		d.add("User", text(g.UserID.String()))
		d.add("Level", text(string(g.Level)))
		return c.print(cmd, output.value, got.body, d)
	}
	return cmd
}

func newAccessRevokeCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "revoke <branch> <user-id>",
		Short:             "Take a user's access away",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: c.completeBranch,
		RunE: func(cmd *cobra.Command, args []string) error {
			user, err := userID(args[1])
			if err != nil {
				return err
			}
			a, b, _, err := c.branchArg(cmd, args)
			if err != nil {
				return err
			}
			if _, err := read(a.RevokeBranchAccess(cmd.Context(), b.ID.String(), user)); err != nil {
				return err
			}
			remark(cmd, "User %s has no grant on branch %q any more.", user, b.Name)
			return nil
		},
	}
}

func userID(s string) (uuid.UUID, error) {
	id, err := uuid.Parse(s)
	if err != nil {
		return id, usagef("%q is no user id, which has the form of a uuid", s)
	}
	return id, nil
}
