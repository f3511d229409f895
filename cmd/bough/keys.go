package main

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

func newKeysCommand(c *cli) *cobra.Command {
	return newGroupCommand("keys", "Make and revoke API keys",
		newKeysCreateCommand(c), newKeysListCommand(c), newKeysRevokeCommand(c), newKeysRotateCommand(c))
}

// scopes returns what a client key can be allowed.
func scopes() []client.Scope {
	return []client.Scope{
		client.ScopeReadTables, client.ScopeWriteTables, client.ScopeExecuteFunctions, client.ScopeExecuteRPC,
		client.ScopeReadStorage, client.ScopeWriteStorage, client.ScopeExecuteJobs, client.ScopeReadVectors,
		client.ScopeReadSchema, client.ScopeReadBranches, client.ScopeWriteBranches, client.ScopeWriteSchema,
	}
}

const keysCreateLong = `Make an API key and print it. It can be read only this once.

A service key may do everything. A client key acts as a user, within its scopes.`

const keysCreateExample = `  bough keys create --type service --name backend
  bough keys create --type client --name "nightly report" --scopes read:branches,read:tables --expires-in 90d`

func newKeysCreateCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "create", Short: "Make an API key", Long: keysCreateLong, Example: keysCreateExample, Args: cobra.NoArgs,
	}
	keyType := enumFlag(cmd, "type", "", "", "whether it may do everything, or acts as a user", client.KeyTypeService, client.KeyTypeClient)
	name := cmd.Flags().String("name", "", "what the key is for")
	wanted := cmd.Flags().StringSlice("scopes", nil, "what a client key may do, separated by commas")
	user := cmd.Flags().String("user", "", "the id of the user a client key acts as, if that is not you")
	expiresIn := cmd.Flags().String("expires-in", "", "how long it works, such as 24h or 90d; without it, until it is revoked")
	for _, flag := range []string{"name", "user", "expires-in"} {
		completeWith(cmd, flag, cobra.NoFileCompletions)
	}
	completeWith(cmd, "scopes", completeScopes)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if keyType.value == "" || *name == "" {
			return usagef("a key needs --type and --name")
		}
		request := client.CreateKeyRequest{Type: client.KeyType(keyType.value), Name: *name}
		for _, scope := range *wanted {
			if !slices.Contains(scopes(), client.Scope(scope)) {
				return usagef("--scopes: there is no scope %q", scope)
			}
			request.Scopes = append(request.Scopes, client.Scope(scope))
		}
		if *user != "" {
			id, err := userID(*user)
			if err != nil {
				return err
			}
			request.UserID = &id
		}
		if *expiresIn != "" {
			request.ExpiresIn = expiresIn
		}
		a, err := c.connect()
		if err != nil {
			return err
		}
		key, got, err := readAs[client.CreatedKey](a.CreateKey(cmd.Context(), request))
		if err != nil {
			return err
		}
		if output.value != formatTable {
			return c.print(cmd, output.value, got.body, nil)
		}
		expires := "works until it is revoked"
		if key.ExpiresAt != nil {
			expires = "expires " + ago(c.now(), *key.ExpiresAt)
		}
		remark(cmd, "Made the %s key %q, id %s; it %s. Keep it now, it cannot be shown again:", key.Type, key.Name, key.ID, expires)
		// Alone on standard output, so that a script can take it.
		return c.printLine(cmd, key.Key)
	}
	return cmd
}

func completeScopes(_ *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := toComplete[:strings.LastIndex(toComplete, ",")+1]
	var all []cobra.Completion
	for _, scope := range scopes() {
		if !slices.Contains(strings.Split(before, ","), string(scope)) {
			all = append(all, before+string(scope))
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

func newKeysListCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List API keys, newest first", Args: cobra.NoArgs}
	keyType := enumFlag(cmd, "type", "", "", "only keys of this type", client.KeyTypeService, client.KeyTypeClient)
	window := pageFlags(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a, err := c.connect()
		if err != nil {
			return err
		}
		params := client.ListKeysParams{}
		if keyType.value != "" {
			params.Type = new(client.KeyType(keyType.value))
		}
		list, got, err := listOf[client.KeyList](cmd.Context(), "keys", *window, func(ctx context.Context, limit, offset int32) (answer, error) {
			params.Limit, params.Offset = &limit, &offset
			return read(a.ListKeys(ctx, &params))
		})
		if err != nil {
			return err
		}
		t := &table{columns: []column{
			{title: "ID"}, {title: "TYPE"}, {title: "NAME", min: 10}, {title: "STATE"}, {title: "USED"},
			{title: "PREFIX", optional: true}, {title: "SCOPES", min: 14, optional: true},
		}}
		for _, k := range list.Keys {
			used := "never"
			if k.LastUsedAt != nil {
				used = ago(c.now(), *k.LastUsedAt)
			}
			allowed := make([]string, len(k.Scopes))
			for i, scope := range k.Scopes {
				allowed[i] = string(scope)
			}
			t.add(text(k.ID.String()), text(string(k.Type)), text(k.Name), c.keyState(k), text(used), text(k.Prefix), text(strings.Join(allowed, ",")))
		}
		return c.printList(cmd, output.value, got.body, t, extent{len(list.Keys), list.Total, "key", "keys"})
	}
	return cmd
}

// keyState tells whether a key works, and until when.
func (c *cli) keyState(k client.Key) cell {
	switch {
	case k.RevokedAt != nil:
		return cell{"revoked", "31"}
	case k.ExpiresAt != nil && !k.ExpiresAt.After(c.now()):
		return cell{"expired", "31"}
	case k.ExpiresAt != nil:
		return cell{roughly(k.ExpiresAt.Sub(c.now())) + " left", "33"}
	}
	return cell{"valid", "32"}
}

func newKeysRevokeCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "revoke <id>",
		Short:             "Make an API key stop working",
		Long:              `Make an API key stop working, at once. Its id is in "bough keys list".`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := uuid.Parse(args[0])
			if err != nil {
				return usagef("%q is no key id, which has the form of a uuid", harmless(args[0]))
			}
			a, err := c.connect()
			if err != nil {
				return err
			}
			if _, err := read(a.RevokeKey(cmd.Context(), id)); err != nil {
				return err
			}
			remark(cmd, "Key %s does not work any more.", id)
			return nil
		},
	}
}
