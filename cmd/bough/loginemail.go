package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

// signIn asks for what a user signs in with and returns her session.
func (c *cli) signIn(cmd *cobra.Command, baseURL, email string, byLink bool) (*sessionTokens, error) {
	a, err := newAPI(target{baseURL: baseURL})
	if err != nil {
		return nil, err
	}
	if byLink {
		return c.signInByLink(cmd, a, email)
	}
	secret, err := c.passwordFor(cmd, "Password of "+email+": ")
	if err != nil {
		return nil, err
	}
	session, _, err := readAs[client.Session](a.SignIn(cmd.Context(), client.SignInRequest{Email: email, Password: secret}))
	if err != nil {
		return nil, signInError(err)
	}
	return newSessionTokens(session), nil
}

// signInByLink has a link sent and asks for it. The link is of use to this command alone, which knows the verifier.
func (c *cli) signInByLink(cmd *cobra.Command, a *api, email string) (*sessionTokens, error) {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails (crypto/rand)
	verifier := base64.RawURLEncoding.EncodeToString(random)
	sum := sha256.Sum256([]byte(verifier))
	_, err := read(a.RequestMagicLink(cmd.Context(), client.MagicLinkRequest{
		Email: email, CreateUser: new(false), CodeChallenge: new(base64.RawURLEncoding.EncodeToString(sum[:])),
		CodeChallengeMethod: new(client.MagicLinkRequestCodeChallengeMethodS256),
	}))
	if err != nil {
		return nil, err
	}
	remark(cmd, "If %s can sign in there, a mail with a link is on its way.", email)
	fmt.Fprint(cmd.ErrOrStderr(), "Paste the link, or type the code from the mail: ")
	line, err := c.readLine(cmd)
	if err != nil {
		return nil, err
	}
	proof := client.VerifyMagicLinkRequest{CodeVerifier: &verifier}
	switch token := linkToken(line); {
	case token == "":
		return nil, errors.New("no link was given")
	case digits.MatchString(token):
		proof.Email, proof.Code = &email, &token
	default:
		proof.Token = &token
	}
	session, _, err := readAs[client.Session](a.VerifyMagicLink(cmd.Context(), proof))
	if err != nil {
		return nil, signInError(err)
	}
	return newSessionTokens(session), nil
}

// digits is the form of the code that a mail has beside its link.
var digits = regexp.MustCompile(`^[0-9]{6}$`)

// linkToken returns the token of a link, or the text itself where it is no link.
func linkToken(line string) string {
	line = strings.TrimSpace(line)
	if u, err := url.Parse(line); err == nil && u.Scheme != "" {
		return u.Query().Get("token")
	}
	return line
}

// signInError is a refusal without the general advice for 401, to sign in, which would be of no use here.
func signInError(err error) error {
	var refused *apiError
	if !errors.As(err, &refused) || refused.status != 401 {
		return err
	}
	if hint := value(refused.body.Hint); hint != "" {
		return hintError{errors.New(refused.body.Error), hint}
	}
	return errors.New(refused.body.Error)
}

// passwordFor asks for a password without showing it; without a terminal it is the next line of standard input.
func (c *cli) passwordFor(cmd *cobra.Command, prompt string) (string, error) {
	ask := func() (string, error) { return c.readLine(cmd) }
	if c.stdinIsTerminal {
		ask = func() (string, error) { return c.askSecret(cmd, prompt) }
	}
	secret, err := ask()
	if err == nil && secret == "" {
		err = errors.New("no password was given")
	}
	return secret, err
}
