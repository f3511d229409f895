package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

func newRepohostCommand(c *cli) *cobra.Command {
	return newGroupCommand("repohost", "Let branches follow pull requests",
		newRepohostListCommand(c), newRepohostSetCommand(c), newRepohostDeleteCommand(c), newRepohostDeliveriesCommand(c))
}

func newRepohostListCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the repositories whose pull requests have branches", Args: cobra.NoArgs}
	window := pageFlags(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a, err := c.connect()
		if err != nil {
			return err
		}
		params := client.ListRepohostConfigsParams{}
		list, got, err := listOf[client.RepohostConfigList](cmd.Context(), "configs", *window, func(ctx context.Context, limit, offset int32) (answer, error) {
			params.Limit, params.Offset = &limit, &offset
			return read(a.ListRepohostConfigs(ctx, &params))
		})
		if err != nil {
			return err
		}
		t := &table{columns: []column{
			{title: "REPOSITORY", min: 16}, {title: "STATE"}, {title: "CREATE"}, {title: "DELETE"}, {title: "DATA", optional: true}, {title: "LAST DELIVERY", optional: true},
		}}
		for _, cfg := range list.Configs {
			last := "never"
			if cfg.LastDeliveryAt != nil {
				last = ago(c.now(), *cfg.LastDeliveryAt)
			}
			create := "by hand"
			if cfg.AutoCreateOnPR {
				create = "opened"
			}
			t.add(text(cfg.Repository), repohostState(cfg), text(create), text(deletedWhen(cfg)), text(string(cfg.DefaultDataCloneMode)), text(last))
		}
		return c.printList(cmd, output.value, got.body, t, extent{len(list.Configs), list.Total, "repository", "repositories"})
	}
	return cmd
}

// repohostState tells whether a configuration works.
func repohostState(cfg client.RepohostConfig) cell {
	switch {
	case !cfg.HasWebhookSecret:
		return cell{"no secret", "31"}
	case cfg.LastReportError != nil:
		return cell{"cannot report", "33"}
	case cfg.HasAPIToken:
		return cell{"reports", "32"}
	}
	return cell{"listens", "32"}
}

// deletedWhen says which ends of a pull request are its branch's.
func deletedWhen(cfg client.RepohostConfig) string {
	var when []string
	if cfg.AutoDeleteOnMerge {
		when = append(when, "merged")
	}
	if cfg.AutoDeleteOnClose {
		when = append(when, "closed +"+cfg.CloseGrace)
	}
	if when == nil {
		return "by hand"
	}
	return strings.Join(when, ", ")
}

const repohostSetLong = `Make or change the configuration of a repository. Without a flag a thing stays as
it is; "none" takes away what there may be none of.

The webhook's secret is read from a file, or from standard input with "-", which
asks for it on a terminal. Another secret takes the place of the present one,
which is still accepted for 24 hours. Add the webhook at the repository host with
the URL that is printed, content type application/json, and pull request events.`

const repohostSetExample = `  openssl rand -hex 32 > secret
  bough repohost set acme/shop --webhook-secret-file secret
  bough repohost set acme/shop --reset-on-push --base-branches 'main,release/*'
  bough repohost set acme/shop --provider github --api-token-file token`

// nothing is what a flag says to take its thing away.
const nothing = "none"

func newRepohostSetCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "set <owner/repo>", Short: "Make or change the configuration of a repository", Long: repohostSetLong, Example: repohostSetExample,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeRepository,
	}
	f := cmd.Flags()
	secretFile := f.String("webhook-secret-file", "", `read the webhook's secret from this file; "-" asks for it`)
	secret := f.String("webhook-secret", "", `the webhook's secret, which others can see in the list of processes; "none" refuses all deliveries`)
	provider := enumFlag(cmd, "provider", "", "", "take deliveries of this kind of repository host only",
		string(client.RepohostProviderGithub), string(client.RepohostProviderGitea), string(client.RepohostProviderGitlab), nothing)
	create := f.Bool("auto-create-on-pr", true, "make a branch when a pull request is opened")
	deleteOnMerge := f.Bool("auto-delete-on-merge", true, "delete the branches when it is merged, those made by hand for it included")
	deleteOnClose := f.Bool("auto-delete-on-close", true, "delete the branch when it is closed without a merge")
	grace := f.String("close-grace", "24h", "how long the branch of a closed one is kept; 0 deletes at once")
	reset := f.Bool("reset-on-push", false, "reset the branch when it is pushed to")
	mode := enumFlag(cmd, "clone-data", "", string(client.DataCloneModeSchemaOnly), "what of main a branch has",
		client.DataCloneModeSchemaOnly, client.DataCloneModeFullClone, client.DataCloneModeSeedData)
	branchType := enumFlag(cmd, "type", "", string(client.BranchTypePreview), "the type of the branches", client.BranchTypePreview, client.BranchTypePersistent)
	bases := f.StringSlice("base-branches", nil, `only for pull requests into these, separated by commas, * is any characters; "" is all`)
	drafts := f.Bool("ignore-drafts", false, "make no branch for a draft")
	forks := f.Bool("allow-forks", false, "make branches for forks, too, never with main's rows")
	most := f.Int32("max-branches", 20, "most branches of the repository at a time")
	expires := f.String("expires-in", "30d", `how long a branch lives after the last push; "none" is until it is closed`)
	apiURL := f.String("api-url", "", `where the repository host's API is, to report to; "none" takes it away`)
	tokenFile := f.String("api-token-file", "", `read the token to report with from this file; "-" asks for it, "none" takes it away`)
	for _, flag := range []string{"webhook-secret", "close-grace", "base-branches", "max-branches", "expires-in", "api-url"} {
		completeWith(cmd, flag, cobra.NoFileCompletions)
	}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *secret != "" && *secretFile != "" {
			return usagef("give one of --webhook-secret and --webhook-secret-file, not both")
		}
		if *secretFile == "-" && *tokenFile == "-" {
			return usagef("standard input is one secret: give a file for one of --webhook-secret-file and --api-token-file")
		}
		request := client.PutRepohostConfigRequest{
			Repository: args[0], AutoCreateOnPR: given(cmd, "auto-create-on-pr", create), AutoDeleteOnMerge: given(cmd, "auto-delete-on-merge", deleteOnMerge),
			AutoDeleteOnClose: given(cmd, "auto-delete-on-close", deleteOnClose), CloseGrace: given(cmd, "close-grace", grace),
			ResetOnPush: given(cmd, "reset-on-push", reset), DefaultDataCloneMode: given(cmd, "clone-data", new(client.DataCloneMode(mode.value))),
			DefaultBranchType: given(cmd, "type", new(client.BranchType(branchType.value))), IgnoreDrafts: given(cmd, "ignore-drafts", drafts),
			AllowForks: given(cmd, "allow-forks", forks), MaxBranches: given(cmd, "max-branches", most),
			Provider: orNull(given(cmd, "provider", &provider.value)), ExpiresIn: orNull(given(cmd, "expires-in", expires)),
			APIURL: orNull(given(cmd, "api-url", apiURL)), WebhookSecret: orNull(given(cmd, "webhook-secret", secret)),
		}
		if cmd.Flags().Changed("base-branches") {
			request.BaseBranches = new(append([]string{}, *bases...))
		}
		var err error
		if *secretFile != "" {
			if request.WebhookSecret, err = c.secretFrom(cmd, *secretFile, "Secret of the webhook: "); err != nil {
				return err
			}
		}
		switch *tokenFile {
		case "":
		case nothing:
			request.APIToken = json.RawMessage("null")
		default:
			if request.APIToken, err = c.secretFrom(cmd, *tokenFile, "Token of the repository host: "); err != nil {
				return err
			}
		}
		a, err := c.connect()
		if err != nil {
			return err
		}
		cfg, got, err := readAs[client.RepohostConfig](a.PutRepohostConfig(cmd.Context(), request))
		if err != nil {
			return err
		}
		return c.printRepohost(cmd, a, output.value, cfg, got)
	}
	return cmd
}

// given returns the value of a flag that was set, nil for one that was not.
func given[T any](cmd *cobra.Command, flag string, value *T) *T {
	if !cmd.Flags().Changed(flag) {
		return nil
	}
	return value
}

// orNull is a value as JSON, of which "none" is null.
func orNull(value *string) json.RawMessage {
	switch {
	case value == nil:
		return nil
	case *value == nothing:
		return json.RawMessage("null")
	}
	return quoted(*value)
}

func quoted(s string) json.RawMessage {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string
	}
	return data
}

// secretFrom reads a secret from a file, without the end of its line. "-" is standard input, or a question on a terminal.
func (c *cli) secretFrom(cmd *cobra.Command, file, prompt string) (json.RawMessage, error) {
	var secret string
	var err error
	switch {
	case file != "-":
		var data []byte
		data, err = os.ReadFile(file)
		secret = string(data)
	case c.stdinIsTerminal:
		secret, err = c.askSecret(cmd, prompt)
	default:
		var data []byte
		data, err = interruptible(cmd.Context(), func() ([]byte, error) { return io.ReadAll(cmd.InOrStdin()) })
		secret = string(data)
	}
	if err != nil {
		return nil, err
	}
	secret = strings.TrimRight(secret, "\r\n")
	if secret == "" {
		return nil, errors.New("the secret is empty")
	}
	return quoted(secret), nil
}

func (c *cli) printRepohost(cmd *cobra.Command, a *api, format string, cfg client.RepohostConfig, got answer) error {
	if format != formatTable {
		return c.print(cmd, format, got.body, nil)
	}
	yes := func(b bool, detail string) cell {
		if !b {
			return text("no")
		}
		return text(strings.TrimSpace("yes " + detail))
	}
	forMissing := func(s *string, missing string) cell {
		if s == nil {
			return text(missing)
		}
		return text(*s)
	}
	d := &details{}
	d.add("Repository", text(cfg.Repository))
	d.add("State", repohostState(cfg))
	if cfg.HasPreviousSecret {
		d.add("Old secret until", c.when(cfg.PreviousSecretUntil))
	}
	d.add("Provider", forMissing(cfg.Provider, "any"))
	d.add("Create", yes(cfg.AutoCreateOnPR, "when opened"))
	d.add("Delete", text(deletedWhen(cfg)))
	d.add("Reset on push", yes(cfg.ResetOnPush, ""))
	d.add("Branches", text(fmt.Sprintf("%s, %s, at most %d", cfg.DefaultBranchType, cfg.DefaultDataCloneMode, cfg.MaxBranches)))
	d.add("Expire", forMissing(cfg.ExpiresIn, "never"))
	if len(cfg.BaseBranches) > 0 {
		d.add("Base branches", text(strings.Join(cfg.BaseBranches, ", ")))
	}
	d.add("Drafts", yes(!cfg.IgnoreDrafts, ""))
	d.add("Forks", yes(cfg.AllowForks, ""))
	if cfg.APIURL != nil {
		d.add("API", text(*cfg.APIURL))
	}
	if cfg.LastReportError != nil {
		d.add("Report error", cell{*cfg.LastReportError, "31"})
	}
	if !cfg.HasWebhookSecret {
		remark(cmd, "The repository has no webhook secret, so its deliveries are refused: set one with --webhook-secret-file.")
	}
	if err := c.print(cmd, format, got.body, d); err != nil {
		return err
	}
	remark(cmd, "The URL of its webhook, where the repository host reaches the server by this name:")
	// Alone on its line, whatever its length, so that it can be copied.
	return c.printLine(cmd, strings.TrimSuffix(a.Server, "/")+cfg.WebhookPath)
}

func newRepohostDeleteCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete <owner/repo>", Short: "Delete the configuration of a repository",
		Long: `Delete the configuration of a repository. Its deliveries are refused from now on.
Branches stay as they are.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeRepository,
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
			if err := c.confirm(cmd, fmt.Sprintf("Delete the configuration of %s?", args[0])); err != nil {
				return err
			}
		}
		if _, err := read(a.DeleteRepohostConfig(cmd.Context(), args[0])); err != nil {
			return err
		}
		remark(cmd, "Deleted the configuration of %s.", args[0])
		return nil
	}
	return cmd
}

func newRepohostDeliveriesCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "deliveries [owner/repo]", Short: "Show what repository hosts sent, and what became of it",
		Long: `Show the deliveries of the last 30 days whose signature was right, newest first.
The server's log tells of refused ones.`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: c.completeRepository,
	}
	status := enumFlag(cmd, "status", "", "", "only deliveries in this status", client.RepohostDeliveryStatusAccepted,
		client.RepohostDeliveryStatusDone, client.RepohostDeliveryStatusFailed, client.RepohostDeliveryStatusIgnored)
	window := pageFlags(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, err := c.connect()
		if err != nil {
			return err
		}
		params := client.ListRepohostDeliveriesParams{}
		if len(args) > 0 {
			params.Repository = &args[0]
		}
		if status.value != "" {
			params.Status = new(client.RepohostDeliveryStatus(status.value))
		}
		list, got, err := listOf[client.RepohostDeliveryList](cmd.Context(), "deliveries", *window, func(ctx context.Context, limit, offset int32) (answer, error) {
			params.Limit, params.Offset = &limit, &offset
			return read(a.ListRepohostDeliveries(ctx, &params))
		})
		if err != nil {
			return err
		}
		t := &table{columns: []column{
			{title: "WHEN"}, {title: "REPOSITORY", min: 12}, {title: "EVENT"}, {title: "PR", right: true}, {title: "STATUS"},
			{title: "BRANCH", min: 8, optional: true}, {title: "REASON", min: 16, optional: true},
		}}
		for _, d := range list.Deliveries {
			event, number := d.Event, ""
			if d.Action != nil {
				event = *d.Action
			}
			if d.RepohostPRNumber != nil {
				number = fmt.Sprint(*d.RepohostPRNumber)
			}
			t.add(text(ago(c.now(), d.ReceivedAt)), text(d.Repository), text(event), text(number), deliveryStatus(d.Status),
				text(value(d.Branch)), text(value(d.Reason)))
		}
		return c.printList(cmd, output.value, got.body, t, extent{len(list.Deliveries), list.Total, "delivery", "deliveries"})
	}
	return cmd
}

func deliveryStatus(status client.RepohostDeliveryStatus) cell {
	switch status {
	case client.RepohostDeliveryStatusDone:
		return cell{string(status), "32"}
	case client.RepohostDeliveryStatusFailed:
		return cell{string(status), "31"}
	case client.RepohostDeliveryStatusAccepted:
		return cell{string(status), "33"}
	case client.RepohostDeliveryStatusIgnored:
	}
	return text(string(status))
}

// completeRepository completes the first argument with the repositories that have a configuration.
func (c *cli) completeRepository(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	a, err := c.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, _, err := readAs[client.RepohostConfigList](a.ListRepohostConfigs(ctx, &client.ListRepohostConfigsParams{Limit: new(int32(pageSize))}))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, cfg := range list.Configs {
		names = append(names, cfg.Repository)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
