package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

func newOAuthCommand(c *cli) *cobra.Command {
	return newGroupCommand("oauth", "See and end what applications were allowed",
		newGroupCommand("clients", "The applications that can ask", newOAuthClientsListCommand(c), newOAuthClientsRevokeCommand(c)),
		newGroupCommand("applications", "The applications that you let in", newApplicationsListCommand(c), newApplicationsRevokeCommand(c)))
}

func newOAuthClientsListCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the applications that registered, newest first",
		Long: "List the applications that registered or presented a metadata document, newest first.\n\nFor administrators and service keys.",
		Args: cobra.NoArgs,
	}
	window := pageFlags(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a, err := c.connect()
		if err != nil {
			return err
		}
		list, got, err := listOf[client.OAuthClientList](cmd.Context(), "clients", *window, func(ctx context.Context, limit, offset int32) (answer, error) {
			return read(a.ListOAuthClients(ctx, &client.ListOAuthClientsParams{Limit: &limit, Offset: &offset}))
		})
		if err != nil {
			return err
		}
		t := &table{columns: []column{
			{title: "ID"}, {title: "NAME", min: 10}, {title: "GRANTS"}, {title: "USED"}, {title: "MADE", optional: true}, {title: "REDIRECTS", min: 14, optional: true},
		}}
		for _, k := range list.Clients {
			used := "never"
			if k.LastUsedAt != nil {
				used = ago(c.now(), *k.LastUsedAt)
			}
			t.add(text(k.ClientID), text(k.ClientName), text(strconv.FormatInt(k.Grants, 10)), text(used), text(ago(c.now(), k.CreatedAt)),
				text(strings.Join(k.RedirectURIs, " ")))
		}
		return c.printList(cmd, output.value, got.body, t, extent{len(list.Clients), list.Total, "client", "clients"})
	}
	return cmd
}

func newOAuthClientsRevokeCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "revoke <client-id>", Short: "Remove an application and end what users allowed it",
		Long: "Remove an application and end what users allowed it. Its tokens stop working at once.\n\nFor administrators and service keys.",
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
	}
	force := cmd.Flags().Bool("force", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.mayAsk(*force); err != nil {
			return err
		}
		a, err := c.connect()
		if err != nil {
			return err
		}
		if !*force {
			if err := c.confirm(cmd, "Remove "+harmless(args[0])+" and end all that users allowed it?"); err != nil {
				return err
			}
		}
		if _, err := read(a.RevokeOAuthClient(cmd.Context(), args[0])); err != nil {
			return err
		}
		remark(cmd, "Removed %s.", harmless(args[0]))
		return nil
	}
	return cmd
}

func newApplicationsListCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the applications that you let in, newest first", Args: cobra.NoArgs}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a, err := c.connect()
		if err != nil {
			return err
		}
		list, got, err := readAs[client.ApplicationList](a.ListApplications(cmd.Context()))
		if err != nil {
			return err
		}
		t := &table{columns: []column{{title: "ID"}, {title: "NAME", min: 10}, {title: "SINCE"}, {title: "USED"}, {title: "SCOPES", min: 14, optional: true}}}
		for _, k := range list.Applications {
			used := "never"
			if k.LastUsedAt != nil {
				used = ago(c.now(), *k.LastUsedAt)
			}
			t.add(text(k.ID.String()), text(k.ClientName), text(ago(c.now(), k.CreatedAt)), text(used), text(strings.Join(k.Scopes, ",")))
		}
		return c.print(cmd, output.value, got.body, t)
	}
	return cmd
}

func newApplicationsRevokeCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "revoke <id>", Short: "Shut an application out again",
		Long: `Shut an application out again, at once. Its id is in "bough oauth applications list".`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := uuid.Parse(args[0])
			if err != nil {
				return usagef("%q is no id, which has the form of a uuid", harmless(args[0]))
			}
			a, err := c.connect()
			if err != nil {
				return err
			}
			if _, err := read(a.RevokeApplication(cmd.Context(), id)); err != nil {
				return err
			}
			remark(cmd, "It is shut out.")
			return nil
		},
	}
}
