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

// accessToken returns the access token of a profile's session, a new one where the old one expires. The refresh token
// works once, so that commands which run at the same time take turns.
func (c *cli) accessToken(ctx context.Context, name string) (string, error) {
	known, path, err := c.loadProfiles()
	if err != nil {
		return "", err
	}
	if s := known.Profiles[name].Session; s != nil && s.ExpiresAt.Sub(c.now()) > renewBefore {
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
	case s.ExpiresAt.Sub(c.now()) > renewBefore:
		return s.AccessToken, nil
	}
	a, err := newAPI(target{baseURL: p.BaseURL})
	if err != nil {
		return "", err
	}
	renewed, _, err := readAs[client.Session](a.RefreshSession(ctx, client.RefreshRequest{RefreshToken: p.Session.RefreshToken}))
	var refused *apiError
	if errors.As(err, &refused) && (refused.status == http.StatusUnauthorized || refused.status == http.StatusForbidden) {
		return "", hintError{fmt.Errorf("the session of %s at %s has ended: %s", p.Session.Email, p.BaseURL, refused.body.Error), `sign in again with "bough login --email ` + p.Session.Email + `"`}
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
