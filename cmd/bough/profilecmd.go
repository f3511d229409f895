package main

import (
	"encoding/json"

	"github.com/spf13/cobra"
)

func newProfileCommand(c *cli) *cobra.Command {
	return newGroupCommand("profile", "Servers this program knows",
		newProfileListCommand(c), newProfileUseCommand(c), newProfileDeleteCommand(c))
}

// profileEntry is a profile as it is shown: without the secret.
type profileEntry struct {
	Name       string         `json:"name"`
	BaseURL    string         `json:"base_url"`
	Credential credentialKind `json:"credential"`
	Current    bool           `json:"current"`
}

func newProfileListCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the profiles", Args: cobra.NoArgs}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		known, path, err := c.loadProfiles()
		if err != nil {
			return err
		}
		entries := []profileEntry{}
		t := &table{columns: []column{{title: ""}, {title: "NAME", min: 12, late: true}, {title: "BASE URL", min: 20}, {title: "SIGNED IN WITH"}}}
		for _, name := range known.names() {
			p := known.Profiles[name]
			entry := profileEntry{name, p.BaseURL, p.credential().kind, name == known.Current}
			entries = append(entries, entry)
			mark, with := "", "nothing"
			if entry.Current {
				mark = "*"
			}
			switch entry.Credential {
			case serviceKey:
				with = "service key"
			case clientKey:
				with = "client key"
			case token:
				with = "token"
			case session:
				with = p.Session.Email
			}
			t.add(text(mark), text(name), text(p.BaseURL), text(with))
		}
		if len(entries) == 0 && output.value == formatTable {
			remark(cmd, "There are no profiles in %s; \"bough login\" makes one.", path)
			return nil
		}
		body, err := json.Marshal(map[string]any{"profiles": entries})
		if err != nil {
			return err
		}
		return c.print(cmd, output.value, body, t)
	}
	return cmd
}

func newProfileUseCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "use <name>",
		Short:             "Make a profile the current one",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeProfiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			known, path, err := c.loadProfiles()
			if err != nil {
				return err
			}
			p, err := known.named(args[0])
			if err != nil {
				return err
			}
			known.Current = args[0]
			if err := known.save(path); err != nil {
				return err
			}
			remark(cmd, "Profile %q (%s) is current.", args[0], p.BaseURL)
			return nil
		},
	}
}

func newProfileDeleteCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "delete <name>",
		Short:             "Forget a profile",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeProfiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			known, path, err := c.loadProfiles()
			if err != nil {
				return err
			}
			if _, err := known.named(args[0]); err != nil {
				return err
			}
			delete(known.Profiles, args[0])
			if known.Current == args[0] {
				known.Current = ""
			}
			if err := known.save(path); err != nil {
				return err
			}
			remark(cmd, "Forgot profile %q.", args[0])
			return nil
		},
	}
}
