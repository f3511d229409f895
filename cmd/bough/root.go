package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

const rootLong = `Bough turns a PostgreSQL into a backend with branches: isolated copies of a
live database, made in a moment.

"bough serve" is the server. The other commands talk to one: to the server of
the current profile (see "bough login"), or to the one in the environment
variables BOUGH_BASE_URL and BOUGH_SERVICE_KEY, BOUGH_CLIENT_KEY or
BOUGH_TOKEN. The environment wins over the current profile, a flag over both.`

// newRootCommand returns the whole command tree.
func newRootCommand(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use:           "bough",
		Short:         "Database branches, and the server that keeps them",
		Long:          rootLong,
		Version:       programVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
		// Its place takes a command that writes where it is told to.
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 80"))
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })

	flags := root.PersistentFlags()
	flags.StringVar(&c.profile, "profile", "", "use this profile, whatever is current or in the environment")
	flags.StringVar(&c.baseURL, "base-url", "", "the server to talk to, such as https://bough.example.com")
	completeWith(root, "profile", c.completeProfiles)
	completeWith(root, "base-url", cobra.NoFileCompletions)

	root.AddGroup(
		&cobra.Group{ID: "branches", Title: "Branches:"},
		&cobra.Group{ID: "data", Title: "Data:"},
		&cobra.Group{ID: "access", Title: "Access:"},
		&cobra.Group{ID: "server", Title: "Server:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, cmd := range commands {
			cmd.GroupID = group
			root.AddCommand(cmd)
		}
	}
	add("branches", newBranchCommand(c), newRepohostCommand(c), newWebhooksCommand(c), newConnectCommand(c), newSQLCommand(c), newPsqlCommand(c))
	add("data", newTablesCommand(c), newAPICommand(c))
	add("access", newLoginCommand(c), newLogoutCommand(c), newProfileCommand(c), newKeysCommand(c), newUsersCommand(c), newOAuthCommand(c), newAuditCommand(c))
	add("server", newServeCommand(), newConfigCommand(), newMigrateCommand(), newDoctorCommand(), newPostgresCommand(c))
	root.AddCommand(newVersionCommand(c), newCompletionCommand())
	root.SetHelpCommand(newHelpCommand())
	root.InitDefaultHelpCmd()
	wrapArgs(root)
	return root
}

// newGroupCommand returns a command that only holds others.
func newGroupCommand(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short}
	cmd.AddCommand(commands...)
	return cmd
}

func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Show the help of a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			parent, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []cobra.Completion
			for _, child := range parent.Commands() {
				if child.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(child.Name(), child.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, rest, err := cmd.Root().Find(args)
			if err != nil {
				return usageError{err}
			}
			if len(rest) > 0 {
				return noSubcommand(topic, rest)
			}
			topic.InitDefaultHelpFlag()
			return topic.Help()
		},
	}
}

func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// noSubcommand refuses the arguments of a command that only holds others.
func noSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	msg := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		msg += fmt.Sprintf(`, did you mean "%s"?`, strings.Join(near, `" or "`))
	}
	return usagef("%s", msg)
}

// wrapArgs makes a wrong number of arguments a usage error in cmd and all commands below it. A command that says
// nothing about its arguments takes none; one that only holds others shows its help.
func wrapArgs(cmd *cobra.Command) {
	if !cmd.Runnable() && cmd.HasSubCommands() {
		cmd.Args, cmd.RunE = noSubcommand, showHelp
	}
	check := cmd.Args
	if check == nil {
		check = cobra.NoArgs
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
	for _, child := range cmd.Commands() {
		wrapArgs(child)
	}
}
