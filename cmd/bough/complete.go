package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

// completionTimeout is how long a press of the tab key may wait for the server.
const completionTimeout = 2 * time.Second

const completionLong = `Print a script that completes commands, flags and names of branches in a shell.
Load it where the shell starts:

  bash        source <(bough completion bash)
  zsh         source <(bough completion zsh), after compinit
  fish        bough completion fish | source
  powershell  bough completion powershell | Out-String | Invoke-Expression`

func newCompletionCommand() *cobra.Command {
	shells := []cobra.Completion{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:       "completion " + strings.Join(shells, "|"),
		Short:     "Print a script for completion in a shell",
		Long:      completionLong,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			}
			return root.GenPowerShellCompletionWithDesc(out)
		},
	}
}

// completeWith completes the values of a flag.
func completeWith(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // the flag does not exist
	}
}

// completeBranch completes the first argument with the branches of the server.
func (c *cli) completeBranch(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completeBranches(cmd, args, toComplete)
}

// completeBranches completes with the branches of the server; with nothing when it does not answer.
func (c *cli) completeBranches(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	a, err := c.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	list, _, err := readAs[client.BranchList](a.ListBranches(ctx, &client.ListBranchesParams{Limit: new(int32(pageSize))}))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var branches []cobra.Completion
	for _, b := range list.Branches {
		branches = append(branches, cobra.CompletionWithDesc(harmless(b.Slug), harmless(b.Name)+", "+harmless(string(b.Status))))
	}
	return branches, cobra.ShellCompDirectiveNoFileComp
}

// completeKey completes the first argument with the ids of the keys that still work.
func (c *cli) completeKey(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	a, err := c.connect()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	list, _, err := readAs[client.KeyList](a.ListKeys(ctx, &client.ListKeysParams{Limit: new(int32(pageSize))}))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var keys []cobra.Completion
	for _, k := range list.Keys {
		if k.RevokedAt == nil {
			keys = append(keys, cobra.CompletionWithDesc(k.ID.String(), harmless(k.Name)))
		}
	}
	return keys, cobra.ShellCompDirectiveNoFileComp
}
