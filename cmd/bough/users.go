package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

func newUsersCommand(c *cli) *cobra.Command {
	return newGroupCommand("users", "Make and change users",
		newUsersListCommand(c), newUsersCreateCommand(c), newUsersSetRoleCommand(c),
		newUsersDisableCommand(c, "disable", "Shut a user out", true), newUsersDisableCommand(c, "enable", "Let a user in again", false),
		newUsersDeleteCommand(c))
}

func newUsersListCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List users, newest first", Args: cobra.NoArgs}
	email := cmd.Flags().String("email", "", "only the user with this address")
	role := enumFlag(cmd, "role", "", "", "only users of this role", client.UserRoleAuthenticated, client.UserRoleAdmin)
	window := pageFlags(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a, err := c.connect()
		if err != nil {
			return err
		}
		params := client.ListUsersParams{}
		if *email != "" {
			params.Email = email
		}
		if role.value != "" {
			params.Role = new(client.UserRole(role.value))
		}
		list, got, err := listOf[client.UserList](cmd.Context(), "users", *window, func(ctx context.Context, limit, offset int32) (answer, error) {
			params.Limit, params.Offset = &limit, &offset
			return read(a.ListUsers(ctx, &params))
		})
		if err != nil {
			return err
		}
		t := &table{columns: []column{
			{title: "ID"}, {title: "EMAIL", min: 16}, {title: "ROLE"}, {title: "STATE"}, {title: "SIGNED IN", optional: true}, {title: "MADE", optional: true},
		}}
		for _, u := range list.Users {
			seen := "never"
			if u.LastSignInAt != nil {
				seen = ago(c.now(), *u.LastSignInAt)
			}
			t.add(text(u.ID.String()), text(u.Email), text(string(u.Role)), userState(u), text(seen), text(ago(c.now(), u.CreatedAt)))
		}
		return c.printList(cmd, output.value, got.body, t, extent{len(list.Users), list.Total, "user", "users"})
	}
	return cmd
}

// userState tells whether a user may sign in.
func userState(u client.AdminUser) cell {
	switch {
	case u.DisabledAt != nil:
		return cell{"disabled", "31"}
	case !u.EmailVerified:
		return cell{"unconfirmed", "33"}
	}
	return cell{"active", "32"}
}

const usersCreateLong = `Make a user. Without --password she signs in by magic link. With it the password
is asked for without showing it, or read from standard input where there is no
terminal.`

const usersCreateExample = `  bough users create ada@example.com --role admin --password
  pass show ada | bough users create ada@example.com --password`

func newUsersCreateCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "create <email>", Short: "Make a user", Long: usersCreateLong, Example: usersCreateExample, Args: cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	role := enumFlag(cmd, "role", "", string(client.UserRoleAuthenticated), "admin is an administrator of the installation", client.UserRoleAuthenticated, client.UserRoleAdmin)
	withPassword := cmd.Flags().Bool("password", false, "ask for a password")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, err := c.connect()
		if err != nil {
			return err
		}
		request := client.CreateUserRequest{Email: args[0], Role: new(client.UserRole(role.value))}
		if *withPassword {
			secret, err := c.passwordFor(cmd, "Password for "+args[0]+": ")
			if err != nil {
				return err
			}
			request.Password = &secret
		}
		user, got, err := readAs[client.AdminUser](a.CreateUser(cmd.Context(), request))
		if err != nil {
			return err
		}
		if output.value != formatTable {
			return c.print(cmd, output.value, got.body, nil)
		}
		remark(cmd, "Made the user %s (%s). Her id:", user.Email, user.Role)
		return c.printLine(cmd, user.ID.String())
	}
	return cmd
}

func newUsersSetRoleCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "set-role <email|id> <role>",
		Short: "Make a user an administrator, or not any more",
		Long: `Give a user another role: "admin" is an administrator of the installation,
"authenticated" is everybody else. Her sessions end, so that it counts at once;
her client keys follow.`,
		Args: cobra.ExactArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return []cobra.Completion{string(client.UserRoleAdmin), string(client.UserRoleAuthenticated)}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			role := client.UserRole(args[1])
			if !role.Valid() {
				return usagef("there is no role %q; there are %s and %s", harmless(args[1]), client.UserRoleAdmin, client.UserRoleAuthenticated)
			}
			user, err := c.changeUser(cmd, args[0], client.UpdateUserRequest{Role: &role})
			if err != nil {
				return err
			}
			remark(cmd, "%s has the role %s now.", user.Email, user.Role)
			return nil
		},
	}
}

func newUsersDisableCommand(c *cli, name, short string, disabled bool) *cobra.Command {
	return &cobra.Command{
		Use: name + " <email|id>", Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			user, err := c.changeUser(cmd, args[0], client.UpdateUserRequest{Disabled: &disabled})
			if err != nil {
				return err
			}
			remark(cmd, "%s is %sd.", user.Email, name)
			return nil
		},
	}
}

func newUsersDeleteCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete <email|id>",
		Short: "Delete a user",
		Long: `Delete a user with her sessions, and revoke her client keys, at once. Rows of your
tables that bear her id stay.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	force := cmd.Flags().Bool("force", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.mayAsk(*force); err != nil {
			return err
		}
		a, user, err := c.findUser(cmd, args[0])
		if err != nil {
			return err
		}
		if !*force {
			if err := c.confirm(cmd, fmt.Sprintf("Delete the user %s (%s)?", user.Email, user.ID)); err != nil {
				return err
			}
		}
		if _, err := read(a.DeleteUser(cmd.Context(), user.ID)); err != nil {
			return err
		}
		remark(cmd, "Deleted the user %s.", user.Email)
		return nil
	}
	return cmd
}

// findUser returns the user with the address or id.
func (c *cli) findUser(cmd *cobra.Command, ref string) (*api, client.AdminUser, error) {
	a, err := c.connect()
	if err != nil {
		return nil, client.AdminUser{}, err
	}
	if id, err := uuid.Parse(ref); err == nil {
		user, _, err := readAs[client.AdminUser](a.GetUser(cmd.Context(), id))
		return a, user, err
	}
	list, _, err := readAs[client.UserList](a.ListUsers(cmd.Context(), &client.ListUsersParams{Email: &ref}))
	if err != nil {
		return nil, client.AdminUser{}, err
	}
	if len(list.Users) == 0 {
		return nil, client.AdminUser{}, hintError{fmt.Errorf("there is no user %q", ref), `"bough users list" shows the users`}
	}
	return a, list.Users[0], nil
}

func (c *cli) changeUser(cmd *cobra.Command, ref string, change client.UpdateUserRequest) (client.AdminUser, error) {
	a, user, err := c.findUser(cmd, ref)
	if err != nil {
		return user, err
	}
	changed, _, err := readAs[client.AdminUser](a.UpdateUser(cmd.Context(), user.ID, change))
	return changed, err
}

const keysRotateLong = `Change the key that users' access tokens are signed with. The new key is published
at once and signs from five minutes later; the old one is accepted until the last
of its tokens has expired. With --immediately all tokens of older keys are refused
from now on, for when a key may have leaked; sessions go on by their refresh tokens.`

func newKeysRotateCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "rotate", Short: "Change the key that access tokens are signed with", Long: keysRotateLong, Args: cobra.NoArgs}
	immediately := cmd.Flags().Bool("immediately", false, "refuse the tokens of older keys from now on")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a, err := c.connect()
		if err != nil {
			return err
		}
		list, got, err := readAs[client.SigningKeyList](a.RotateSigningKeys(cmd.Context(), &client.RotateSigningKeysParams{Immediately: immediately}))
		if err != nil {
			return err
		}
		t := &table{columns: []column{{title: "KEY", min: 20}, {title: "SIGNS FROM"}, {title: "ACCEPTED UNTIL"}}}
		for _, k := range list.Keys {
			signs, accepted := "never", "replaced"
			if k.ActivatesAt != nil {
				signs = ago(c.now(), *k.ActivatesAt)
			}
			if k.RetiredAt != nil {
				accepted = ago(c.now(), *k.RetiredAt)
			}
			t.add(text(k.Kid), text(signs), text(accepted))
		}
		return c.print(cmd, output.value, got.body, t)
	}
	return cmd
}
