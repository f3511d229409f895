package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

const auditLong = `Show what applications and assistants did, newest first: what users allowed
whom, refused refreshes, revocations, and each call of an MCP tool.

For administrators and service keys. Entries are kept for 90 days.`

func newAuditCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "Show what applications and assistants did", Long: auditLong, Args: cobra.NoArgs}
	area := enumFlag(cmd, "area", "", "", "only entries of this area", client.AuditAreaMCP, client.AuditAreaOauth)
	action := cmd.Flags().String("action", "", "only this action, such as grant, or the name of a tool")
	program := cmd.Flags().String("client", "", "only what this OAuth client did (its id)")
	user := cmd.Flags().String("user", "", "only what this user, or applications for her, did (an id)")
	for _, flag := range []string{"action", "client", "user"} {
		completeWith(cmd, flag, cobra.NoFileCompletions)
	}
	window := pageFlags(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		params := client.ListAuditParams{}
		if area.value != "" {
			params.Area = new(client.AuditArea(area.value))
		}
		if *action != "" {
			params.Action = action
		}
		if *program != "" {
			params.ClientID = program
		}
		if *user != "" {
			id, err := userID(*user)
			if err != nil {
				return err
			}
			params.UserID = &id
		}
		a, err := c.connect()
		if err != nil {
			return err
		}
		list, got, err := listOf[client.AuditList](cmd.Context(), "entries", *window, func(ctx context.Context, limit, offset int32) (answer, error) {
			params.Limit, params.Offset = &limit, &offset
			return read(a.ListAudit(ctx, &params))
		})
		if err != nil {
			return err
		}
		t := &table{columns: []column{
			{title: "AT"}, {title: "AREA"}, {title: "ACTION", min: 10}, {title: "OUTCOME"}, {title: "CLIENT", min: 8}, {title: "BRANCH", optional: true}, {title: "USER", optional: true},
		}}
		for _, e := range list.Entries {
			who := ""
			if e.UserID != nil {
				who = e.UserID.String()
			}
			t.add(text(e.At.Local().Format(time.DateTime)), text(string(e.Area)), text(e.Action), text(e.Outcome),
				text(orEmpty(e.ClientName)), text(orEmpty(e.Branch)), text(who))
		}
		return c.printList(cmd, output.value, got.body, t, extent{len(list.Entries), list.Total, "entry", "entries"})
	}
	return cmd
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
