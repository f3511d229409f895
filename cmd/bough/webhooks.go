package main

import (
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

const webhooksLong = `Tell other programs of what happens to branches. Events are posted to a webhook's
URL as Standard Webhooks says, signed with its secret; the libraries of that name
verify them. An endpoint answers with 2xx within 15 seconds, else it is tried
again: ten times over three days.`

func newWebhooksCommand(c *cli) *cobra.Command {
	cmd := newGroupCommand("webhooks", "Tell other programs of events",
		newWebhooksListCommand(c), newWebhooksCreateCommand(c), newWebhooksUpdateCommand(c), newWebhooksDeleteCommand(c),
		newWebhooksTestCommand(c), newWebhooksRotateSecretCommand(c), newWebhooksDeliveriesCommand(c), newWebhooksRedeliverCommand(c))
	cmd.Long = webhooksLong
	return cmd
}

// selectors returns what a webhook can be subscribed to.
func selectors() []client.EventSelector {
	return []client.EventSelector{
		client.EventSelectorAll, client.EventSelectorBranchCreated, client.EventSelectorBranchReady, client.EventSelectorBranchFailed,
		client.EventSelectorBranchReset, client.EventSelectorBranchUpdated, client.EventSelectorBranchExpiring, client.EventSelectorBranchDeleted,
	}
}

// eventsFlag adds --events to cmd; the function returns what was given.
func eventsFlag(cmd *cobra.Command, initial []string) func() ([]client.EventSelector, error) {
	given := cmd.Flags().StringSlice("events", initial, "types of events, separated by commas; * is all")
	completeWith(cmd, "events", func(_ *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := toComplete[:strings.LastIndex(toComplete, ",")+1]
		var all []cobra.Completion
		for _, event := range selectors() {
			all = append(all, before+string(event))
		}
		return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
	return func() ([]client.EventSelector, error) {
		out := make([]client.EventSelector, len(*given))
		for i, event := range *given {
			if out[i] = client.EventSelector(event); !out[i].Valid() {
				return nil, usagef("--events: there is no event %q", harmless(event))
			}
		}
		return out, nil
	}
}

func webhookID(ref string) (uuid.UUID, error) {
	id, err := uuid.Parse(ref)
	if err != nil {
		return id, usagef(`%q is no webhook id, which has the form of a uuid; "bough webhooks list" shows them`, harmless(ref))
	}
	return id, nil
}

// ownSecret asks for a secret when the user wants to give one.
func (c *cli) ownSecret(cmd *cobra.Command, wanted bool) (*string, error) {
	if !wanted {
		return nil, nil
	}
	ask := func() (string, error) { return c.readLine(cmd) }
	if c.stdinIsTerminal {
		ask = func() (string, error) { return c.askSecret(cmd, "Secret (whsec_…): ") }
	}
	secret, err := ask()
	if err == nil && secret == "" {
		err = errors.New("no secret was given")
	}
	return &secret, err
}

func newWebhooksListCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List webhooks, newest first", Args: cobra.NoArgs}
	window := pageFlags(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a, err := c.connect()
		if err != nil {
			return err
		}
		list, got, err := listOf[client.WebhookList](cmd.Context(), "webhooks", *window, func(ctx context.Context, limit, offset int32) (answer, error) {
			return read(a.ListWebhooks(ctx, &client.ListWebhooksParams{Limit: &limit, Offset: &offset}))
		})
		if err != nil {
			return err
		}
		t := &table{columns: []column{
			{title: "ID"}, {title: "URL", min: 16}, {title: "STATE"}, {title: "EVENTS", min: 8, optional: true},
			{title: "DELIVERED", optional: true}, {title: "FOR", min: 8, optional: true},
		}}
		for _, w := range list.Webhooks {
			delivered := "never"
			if w.LastSuccessAt != nil {
				delivered = ago(c.now(), *w.LastSuccessAt)
			}
			t.add(text(w.ID.String()), text(w.URL), c.webhookState(w), text(joined(w.Events)), text(delivered), text(w.Description))
		}
		return c.printList(cmd, output.value, got.body, t, extent{len(list.Webhooks), list.Total, "webhook", "webhooks"})
	}
	return cmd
}

func joined(events []client.EventSelector) string {
	words := make([]string, len(events))
	for i, event := range events {
		words[i] = string(event)
	}
	return strings.Join(words, ",")
}

// webhookState tells whether events reach a webhook.
func (c *cli) webhookState(w client.Webhook) cell {
	switch {
	case !w.Enabled && w.DisabledReason != nil && *w.DisabledReason != "manual":
		return cell{"disabled: " + *w.DisabledReason, "31"}
	case !w.Enabled:
		return cell{"disabled", "31"}
	case w.FailingSince != nil:
		return cell{"failing for " + roughly(c.now().Sub(*w.FailingSince)), "33"}
	}
	return cell{"enabled", "32"}
}

const webhooksCreateLong = `Register a webhook and print the secret that its events are signed with. It can be
read only this once. With --own-secret it is asked for without showing it, or read
from standard input where there is no terminal.`

const webhooksCreateExample = `  bough webhooks create https://ci.example.com/hook --events branch.ready,branch.deleted
  bough webhooks create http://127.0.0.1:9000/ --description "on my machine"`

func newWebhooksCreateCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "create <url>", Short: "Register a webhook", Long: webhooksCreateLong, Example: webhooksCreateExample, Args: cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	events := eventsFlag(cmd, []string{string(client.EventSelectorAll)})
	description := cmd.Flags().String("description", "", "what the webhook is for")
	own := cmd.Flags().Bool("own-secret", false, "give the secret, instead of having one made")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		selected, err := events()
		if err != nil {
			return err
		}
		a, err := c.connect()
		if err != nil {
			return err
		}
		request := client.CreateWebhookRequest{URL: args[0], Events: selected}
		if *description != "" {
			request.Description = description
		}
		if request.Secret, err = c.ownSecret(cmd, *own); err != nil {
			return err
		}
		w, got, err := readAs[client.CreatedWebhook](a.CreateWebhook(cmd.Context(), request))
		if err != nil {
			return err
		}
		if output.value != formatTable {
			return c.print(cmd, output.value, got.body, nil)
		}
		remark(cmd, `Registered the webhook %s for %s. "bough webhooks test %s" tries it.`, w.ID, joined(w.Events), w.ID)
		remark(cmd, "Keep its secret now, it cannot be shown again:")
		// Alone on standard output, so that a script can take it.
		return c.printLine(cmd, w.Secret)
	}
	return cmd
}

func newWebhooksUpdateCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "update <id>", Short: "Change a webhook, enable or disable it", Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeWebhook,
		Example: "  bough webhooks update 0199f3c2-52a4-7d5b-9f0a-1b8d5e2f6a70 --enable",
	}
	target := cmd.Flags().String("url", "", "where events are posted to")
	events := eventsFlag(cmd, nil)
	description := cmd.Flags().String("description", "", "what the webhook is for")
	enable := cmd.Flags().Bool("enable", false, "send events to it again")
	disable := cmd.Flags().Bool("disable", false, "send it nothing more, and cancel what is on its way")
	completeWith(cmd, "url", cobra.NoFileCompletions)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := webhookID(args[0])
		if err != nil {
			return err
		}
		if *enable && *disable {
			return usagef("--enable and --disable cannot be together")
		}
		changed := cmd.Flags().Changed
		change := client.UpdateWebhookRequest{}
		if changed("url") {
			change.URL = target
		}
		if changed("description") {
			change.Description = description
		}
		if changed("events") {
			if change.Events, err = events(); err != nil {
				return err
			}
		}
		if *enable || *disable {
			change.Enabled = enable
		}
		if change.URL == nil && change.Description == nil && change.Events == nil && change.Enabled == nil {
			return usagef("nothing to change: say --url, --events, --description, --enable or --disable")
		}
		a, err := c.connect()
		if err != nil {
			return err
		}
		w, got, err := readAs[client.Webhook](a.UpdateWebhook(cmd.Context(), id, change))
		if err != nil {
			return err
		}
		if output.value != formatTable {
			return c.print(cmd, output.value, got.body, nil)
		}
		remark(cmd, "The webhook %s to %s is %s.", w.ID, w.URL, c.webhookState(w).text)
		return nil
	}
	return cmd
}

func newWebhooksDeleteCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete <id>", Short: "Delete a webhook and its deliveries", Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeWebhook,
	}
	force := cmd.Flags().Bool("force", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := webhookID(args[0])
		if err != nil {
			return err
		}
		if err := c.mayAsk(*force); err != nil {
			return err
		}
		a, err := c.connect()
		if err != nil {
			return err
		}
		if !*force {
			w, _, err := readAs[client.Webhook](a.GetWebhook(cmd.Context(), id))
			if err != nil {
				return err
			}
			if err := c.confirm(cmd, "Delete the webhook to "+w.URL+"?"); err != nil {
				return err
			}
		}
		if _, err := read(a.DeleteWebhook(cmd.Context(), id)); err != nil {
			return err
		}
		remark(cmd, "Deleted the webhook %s.", id)
		return nil
	}
	return cmd
}

func newWebhooksRotateSecretCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rotate-secret <id>",
		Short: "Change the secret of a webhook",
		Long: `Change the secret that events are signed with, and print the new one. For 24 hours
the old one signs too, so that the receiver may change over when it suits. With
--immediately it ends now, for when it may have leaked.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeWebhook,
	}
	immediately := cmd.Flags().Bool("immediately", false, "end the old secret now")
	own := cmd.Flags().Bool("own-secret", false, "give the secret, instead of having one made")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := webhookID(args[0])
		if err != nil {
			return err
		}
		a, err := c.connect()
		if err != nil {
			return err
		}
		request := client.RotateWebhookSecretRequest{}
		if request.Secret, err = c.ownSecret(cmd, *own); err != nil {
			return err
		}
		made, _, err := readAs[client.WebhookSecret](a.RotateWebhookSecret(cmd.Context(), id, &client.RotateWebhookSecretParams{Immediately: immediately}, request))
		if err != nil {
			return err
		}
		if *immediately {
			remark(cmd, "The old secret does not sign any more. The new one cannot be shown again:")
		} else {
			remark(cmd, "The old secret signs too for 24 hours. Keep the new one now, it cannot be shown again:")
		}
		return c.printLine(cmd, made.Secret)
	}
	return cmd
}

// completeWebhook completes the first argument with the ids of webhooks.
func (c *cli) completeWebhook(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	a, err := c.connect()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	list, _, err := readAs[client.WebhookList](a.ListWebhooks(ctx, &client.ListWebhooksParams{Limit: new(int32(pageSize))}))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var hooks []cobra.Completion
	for _, w := range list.Webhooks {
		hooks = append(hooks, cobra.CompletionWithDesc(w.ID.String(), harmless(w.URL)))
	}
	return hooks, cobra.ShellCompDirectiveNoFileComp
}
