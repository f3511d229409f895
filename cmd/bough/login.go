package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

const loginLong = `Check a key or token against a server and keep it in a profile, which becomes the
current one.

Without a flag for the credential it is asked for, without showing it. The value
"-" reads it from standard input; written out as a value it stays in the shell's
history.

With --email a user signs in: with her password, which is asked for or read from
standard input, or with a link that is sent by mail. Her session is kept in the
profile and renewed as long as it is used.`

const loginExample = `  bough login --base-url https://bough.example.com
  pass show bough | bough login --base-url https://bough.example.com --service-key -
  bough login --base-url https://bough.example.com --email ada@example.com
  bough login --base-url https://bough.example.com --email ada@example.com --magic-link`

func newLoginCommand(c *cli) *cobra.Command {
	given := map[credentialKind]*string{}
	cmd := &cobra.Command{
		Use:     "login",
		Short:   "Sign in to a server and remember it",
		Long:    loginLong,
		Example: loginExample,
		Args:    cobra.NoArgs,
	}
	for _, flag := range []struct {
		name string
		kind credentialKind
		what string
	}{
		{"service-key", serviceKey, "the service key"},
		{"client-key", clientKey, "the client key"},
		{"token", token, "the user's access token (JWT)"},
	} {
		given[flag.kind] = cmd.Flags().String(flag.name, "", flag.what+`; "-" reads it from standard input`)
	}
	email := cmd.Flags().String("email", "", "the user's e-mail address")
	byLink := cmd.Flags().Bool("magic-link", false, "sign in by a link in a mail, instead of the password")
	completeWith(cmd, "email", cobra.NoFileCompletions)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var cred credential
		for kind, v := range given {
			if *v == "" {
				continue
			}
			if cred.value != "" {
				return usagef("give one of --service-key, --client-key and --token")
			}
			cred = credential{kind, *v}
		}
		switch {
		case *email != "" && cred.value != "":
			return usagef("give --email or a key, not both")
		case *email == "" && *byLink:
			return usagef("--magic-link needs --email")
		case *email != "":
			return c.login(cmd, func(baseURL string) (profile, error) {
				tokens, err := c.signIn(cmd, baseURL, *email, *byLink)
				return profile{BaseURL: baseURL, Session: tokens}, err
			})
		}
		return c.login(cmd, func(baseURL string) (profile, error) {
			cred, err := c.readCredential(cmd, baseURL, cred)
			if err != nil {
				return profile{}, err
			}
			return newProfile(baseURL, cred), checkCredential(cmd.Context(), target{baseURL, cred})
		})
	}
	return cmd
}

// login keeps the profile that obtain makes for the server.
func (c *cli) login(cmd *cobra.Command, obtain func(baseURL string) (profile, error)) error {
	known, path, err := c.loadProfiles()
	if err != nil {
		return err
	}
	baseURL, err := c.loginBaseURL(known)
	if err != nil {
		return err
	}
	name := c.profile
	if name == "" {
		name = profileFor(known, baseURL)
	}
	if !profileName.MatchString(name) {
		return usagef("a profile's name has letters, digits and . _ : - only")
	}
	made, err := obtain(baseURL)
	if err != nil {
		return err
	}

	// Asking took its time; what another command wrote meanwhile stays.
	if known, err = readProfiles(path); err != nil {
		return err
	}
	known.Profiles[name] = made
	known.Current = name
	if err := known.save(path); err != nil {
		return err
	}
	remark(cmd, "Signed in to %s; profile %q is in %s.", baseURL, name, path)
	if u, err := url.Parse(baseURL); err == nil && u.Scheme == "http" && !isLoopback(u.Hostname()) {
		remark(cmd, "Note: over plain http the credential can be read on its way; prefer https.")
	}
	if c.environmentCredential().value != "" || c.getenv("BOUGH_BASE_URL") != "" {
		remark(cmd, "Note: the BOUGH_ variables in the environment win over the profile.")
	}
	return nil
}

// loginBaseURL returns the server to sign in to.
func (c *cli) loginBaseURL(known *profiles) (string, error) {
	candidates := []string{c.baseURL, c.getenv("BOUGH_BASE_URL"), known.Profiles[known.Current].BaseURL, defaultBaseURL}
	if named, ok := known.Profiles[c.profile]; ok && c.baseURL == "" {
		candidates = []string{named.BaseURL, defaultBaseURL}
	}
	for _, candidate := range candidates {
		if candidate == "" {
			continue
		}
		clean, err := cleanBaseURL(candidate)
		if err != nil {
			return "", usageError{err}
		}
		return clean, nil
	}
	return defaultBaseURL, nil
}

var notInProfileName = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// profileFor returns the profile that a sign-in to baseURL goes to: one that is there already, else one called after
// the host.
func profileFor(known *profiles, baseURL string) string {
	for _, name := range append([]string{known.Current}, known.names()...) {
		if clean, err := cleanBaseURL(known.Profiles[name].BaseURL); err == nil && clean == baseURL {
			return name
		}
	}
	_, address, _ := strings.Cut(baseURL, "://")
	return strings.Trim(notInProfileName.ReplaceAllString(address, "-"), "-_.")
}

// readCredential completes cred: its value from standard input, its kind from its form.
func (c *cli) readCredential(cmd *cobra.Command, baseURL string, cred credential) (credential, error) {
	switch {
	case cred.value == "" && !c.stdinIsTerminal:
		return cred, usagef("there is no terminal to ask for a key: give --service-key -, --client-key - or --token - and the key on standard input")
	case cred.value == "" || cred.value == "-" && c.stdinIsTerminal:
		secret, err := c.askSecret(cmd, "Key or token for "+baseURL+": ")
		if err != nil {
			return cred, err
		}
		cred.value = secret
	case cred.value == "-":
		secret, err := c.readLine(cmd)
		if err != nil {
			return cred, err
		}
		cred.value = secret
	}
	cred.value = strings.TrimSpace(cred.value)
	if cred.value == "" {
		return cred, errors.New("no key was given")
	}
	if strings.ContainsFunc(cred.value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return cred, errors.New("the key holds characters that no key has; was something else pasted?")
	}
	if strings.HasPrefix(cred.value, "mcp_at_") {
		return cred, errors.New("this is a token of an MCP client, which serves the MCP endpoint only")
	}
	if cred.kind == "" {
		cred.kind = kindOf(cred.value)
	}
	return cred, nil
}

// kindOf tells a credential by its form.
func kindOf(secret string) credentialKind {
	switch {
	case strings.HasPrefix(secret, "bough_ck_"):
		return clientKey
	case strings.HasPrefix(secret, "eyJ") && strings.Count(secret, ".") == 2:
		return token
	}
	// Service keys may also have been chosen by the operator.
	return serviceKey
}

// checkCredential asks the server whether it knows the credential.
func checkCredential(ctx context.Context, t target) error {
	a, err := newAPI(t)
	if err != nil {
		return err
	}
	_, _, err = readAs[client.BranchList](a.ListBranches(ctx, &client.ListBranchesParams{Limit: new(int32(1))}))
	var refused *apiError
	if errors.As(err, &refused) {
		switch {
		case refused.status == http.StatusUnauthorized:
			// The general advice for 401, to sign in, would be of no use here.
			return fmt.Errorf("%s does not accept this credential: %s", t.baseURL, refused.body.Error)
		case refused.status == http.StatusForbidden && refused.body.Code != "", refused.body.Code == "branching_disabled":
			// It is known; a client key without this scope may still do other things.
			return nil
		}
	}
	return err
}

func isLoopback(host string) bool {
	return host == "localhost" || strings.HasPrefix(host, "127.") || host == "::1"
}

func newLogoutCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "logout",
		Short: "Forget the key of a profile",
		Long: `Forget the key or token of the current profile, or of the one in --profile. The
profile and its server's address stay. The session of a user who signed in with
--email ends. A key itself goes on working; "bough keys revoke" ends it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			known, path, err := c.loadProfiles()
			if err != nil {
				return err
			}
			name := c.profile
			if name == "" {
				name = known.Current
			}
			if name == "" {
				return errors.New("no profile is current")
			}
			p, err := known.named(name)
			if err != nil {
				return err
			}
			if p.Session != nil {
				c.signOut(cmd, name, p)
				if known, err = readProfiles(path); err != nil {
					return err
				}
			}
			known.Profiles[name] = profile{BaseURL: p.BaseURL}
			if err := known.save(path); err != nil {
				return err
			}
			remark(cmd, "Forgot the credential of profile %q.", name)
			return nil
		},
	}
}

// signOut ends the session of a profile. One that cannot be ended is forgotten all the same.
func (c *cli) signOut(cmd *cobra.Command, name string, p profile) {
	a, err := c.api(target{p.BaseURL, credential{session, name}})
	if err == nil {
		_, err = read(a.SignOut(cmd.Context(), &client.SignOutParams{}, client.SignOutRequest{}))
	}
	if err != nil {
		remark(cmd, "Note: the session at %s could not be ended: %s", p.BaseURL, message(err))
	}
}
