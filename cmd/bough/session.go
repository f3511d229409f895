package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/boughdb/bough/gen/client"
)

// sessionTokens are the tokens of a user who signed in by address.
type sessionTokens struct {
	Email        string    `yaml:"email"`
	AccessToken  string    `yaml:"access_token"`
	ExpiresAt    time.Time `yaml:"expires_at"`
	RefreshToken string    `yaml:"refresh_token"`
}

func newSessionTokens(s client.Session) *sessionTokens {
	return &sessionTokens{s.User.Email, s.AccessToken, time.Unix(s.ExpiresAt, 0).UTC(), s.RefreshToken}
}

// A token that expires so soon is renewed before it is used: the request should not meet the end on its way.
const renewBefore = 30 * time.Second

// signedIn sends requests in the session of a profile.
type signedIn struct {
	http.RoundTripper
	c       *cli
	profile string
}

func (s *signedIn) RoundTrip(req *http.Request) (*http.Response, error) {
	access, err := s.c.accessToken(req.Context(), s.profile, "")
	if err != nil {
		return nil, err
	}
	resp, err := s.RoundTripper.RoundTrip(withToken(req, access))
	if err != nil || resp.StatusCode != http.StatusUnauthorized || req.Body != nil && req.GetBody == nil {
		return resp, err
	}
	// Before its time an access token ends with the key that signed it, and the session goes on.
	renewed, err := s.c.accessToken(req.Context(), s.profile, access)
	if err != nil {
		return resp, nil //nolint:nilerr // the answer says what there is to say
	}
	again := withToken(req, renewed)
	if req.GetBody != nil {
		if again.Body, err = req.GetBody(); err != nil {
			return resp, nil //nolint:nilerr // as above
		}
	}
	_ = resp.Body.Close()
	return s.RoundTripper.RoundTrip(again)
}

func withToken(req *http.Request, access string) *http.Request {
	signed := req.Clone(req.Context())
	signed.Header.Set("Authorization", "Bearer "+access)
	return signed
}

// accessToken returns the access token of a profile's session, a new one where the old one expires or was refused. The
// refresh token works once, so that commands which run at the same time take turns.
func (c *cli) accessToken(ctx context.Context, name, refused string) (string, error) {
	good := func(s *sessionTokens) bool {
		return s != nil && s.AccessToken != refused && s.ExpiresAt.Sub(c.now()) > renewBefore
	}
	known, path, err := c.loadProfiles()
	if err != nil {
		return "", err
	}
	if s := known.Profiles[name].Session; good(s) {
		return s.AccessToken, nil
	}
	unlock, err := lockFile(ctx, path+".lock")
	if err != nil {
		return "", fmt.Errorf("waiting for another command to renew the session: %w", err)
	}
	defer unlock()
	// Another command may have renewed it meanwhile.
	if known, err = readProfiles(path); err != nil {
		return "", err
	}
	p := known.Profiles[name]
	switch s := p.Session; {
	case s == nil:
		return "", fmt.Errorf("profile %q is not signed in any more", name)
	case good(s):
		return s.AccessToken, nil
	}
	a, err := newAPI(target{baseURL: p.BaseURL})
	if err != nil {
		return "", err
	}
	renewed, _, err := readAs[client.Session](a.RefreshSession(ctx, client.RefreshRequest{RefreshToken: p.Session.RefreshToken}))
	var ended *apiError
	if errors.As(err, &ended) && (ended.status == http.StatusUnauthorized || ended.status == http.StatusForbidden) {
		return "", hintError{fmt.Errorf("the session of %s at %s has ended: %s", p.Session.Email, p.BaseURL, ended.body.Error), `sign in again with "bough login --email ` + p.Session.Email + `"`}
	}
	if err != nil {
		return "", err
	}
	p.Session = newSessionTokens(renewed)
	known.Profiles[name] = p
	return renewed.AccessToken, known.save(path)
}

// lockFile waits until no other process has the lock. The lock ends with the process at the latest.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, err
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			f.Close()
			return nil, err
		}
	}
}
