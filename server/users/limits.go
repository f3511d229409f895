package users

import (
	"context"
	"fmt"
	"time"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/ratelimit"
)

// A stranger who guesses
// passwords runs into the limits of her own network first. What she does from many networks slows the account down for
// networks that are not known: the owner, who signed in from hers before, does not notice.
var (
	signInNetwork = ratelimit.Limit{Name: "sign-in from a network", Burst: 30, Every: 2 * time.Second}
	signInPair    = ratelimit.Limit{Name: "sign-in to an account from a network", Burst: 10, Every: time.Minute}
	signInAccount = ratelimit.Limit{Name: "sign-in to an account", Burst: 100, Every: 36 * time.Second}
	signUpNetwork = ratelimit.Limit{Name: "sign-up from a network", Burst: 10, Every: time.Minute}
	mailMinute    = ratelimit.Limit{Name: "mail to an address in a minute", Burst: 1, Every: time.Minute}
	mailAddress   = ratelimit.Limit{Name: "mail to an address", Burst: 5, Every: 12 * time.Minute}
	mailNetwork   = ratelimit.Limit{Name: "mail from a network", Burst: 20, Every: time.Minute}
	otherNetwork  = ratelimit.Limit{Name: "other from a network", Burst: 300, Every: 200 * time.Millisecond}
)

// takeSignIn counts an attempt to sign in, whether there is such an account or not.
func (s *Service) takeSignIn(ctx context.Context, email string, c Client) error {
	network := c.Network()
	if err := s.limits.Take(ctx, signInNetwork, network); err != nil {
		return err
	}
	if err := s.limits.Take(ctx, signInPair, email+"\x00"+network); err != nil {
		return err
	}
	if !s.limits.Enabled() {
		return nil
	}
	known, err := s.knows(ctx, db.New(s.pool), email, c)
	if known || err != nil {
		return err
	}
	return s.limits.Take(ctx, signInAccount, email)
}

// knows reports whether the owner of the address signed in from the client's network not long ago.
func (s *Service) knows(ctx context.Context, q *db.Queries, email string, c Client) (bool, error) {
	known, err := q.KnowsNetwork(ctx, db.KnowsNetworkParams{Email: email, Network: c.Network()})
	if err != nil {
		return false, fmt.Errorf("looking for earlier sign-ins: %w", err)
	}
	return known, nil
}

// signedIn forgets the attempts of somebody who knew the password after all.
func (s *Service) signedIn(ctx context.Context, email string, c Client) {
	if err := s.limits.Forget(ctx, signInPair, email+"\x00"+c.Network()); err != nil {
		s.log.Warn("forgetting attempts to sign in", "error", err)
	}
}

// takeMail counts a mail that is asked for. A network that the owner of the address signed in from has a count of its
// own, so that strangers cannot use up what she is entitled to.
func (s *Service) takeMail(ctx context.Context, email string, c Client) error {
	if !s.limits.Enabled() {
		return nil
	}
	if err := s.limits.Take(ctx, mailNetwork, c.Network()); err != nil {
		return err
	}
	known, err := s.knows(ctx, db.New(s.pool), email, c)
	if err != nil {
		return err
	}
	of := email
	if known {
		of += "\x00" + c.Network()
	}
	if err := s.limits.Take(ctx, mailMinute, of); err != nil {
		return err
	}
	return s.limits.Take(ctx, mailAddress, of)
}
