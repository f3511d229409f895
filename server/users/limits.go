package users

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/fault"
)

// limit lets a burst of attempts pass, and then one in each interval. It never locks for longer than that.
type limit struct {
	name  string
	burst int
	every time.Duration
}

// Limits are kept in the control database, so that they hold for all server processes together. A stranger who guesses
// passwords runs into the limits of her own network first. What she does from many networks slows the account down for
// networks that are not known: the owner, who signed in from hers before, does not notice.
var (
	signInNetwork = limit{"sign-in from a network", 30, 2 * time.Second}
	signInPair    = limit{"sign-in to an account from a network", 10, time.Minute}
	signInAccount = limit{"sign-in to an account", 100, 36 * time.Second}
	signUpNetwork = limit{"sign-up from a network", 10, time.Minute}
	mailMinute    = limit{"mail to an address in a minute", 1, time.Minute}
	mailAddress   = limit{"mail to an address", 5, 12 * time.Minute}
	mailNetwork   = limit{"mail from a network", 20, time.Minute}
	otherNetwork  = limit{"other from a network", 300, 200 * time.Millisecond}
)

// ErrRateLimited is the error of too many attempts.
var ErrRateLimited = fault.New(fault.RateLimited, "too_many_attempts", "too many attempts")

func (l limit) key(of string) []byte {
	hash := sha256.Sum256([]byte(l.name + "\x00" + of))
	return hash[:]
}

// take counts an attempt, or returns ErrRateLimited.
func (s *Service) take(ctx context.Context, l limit, of string) error {
	if !s.cfg.RateLimit {
		return nil
	}
	row, err := db.New(s.pool).TakeRate(ctx, db.TakeRateParams{
		Key: l.key(of), IntervalSeconds: l.every.Seconds(), BurstSeconds: l.every.Seconds() * float64(l.burst),
	})
	if err != nil {
		return fmt.Errorf("counting attempts: %w", err)
	}
	if row.Allowed {
		return nil
	}
	wait := max(time.Duration(row.WaitSeconds*float64(time.Second)), time.Second).Round(time.Second)
	return ErrRateLimited.Msgf("too many attempts; try again in %d seconds", int(wait.Seconds())).Retry(wait)
}

// takeSignIn counts an attempt to sign in, whether there is such an account or not.
func (s *Service) takeSignIn(ctx context.Context, email string, c Client) error {
	network := c.network()
	if err := s.take(ctx, signInNetwork, network); err != nil {
		return err
	}
	if err := s.take(ctx, signInPair, email+"\x00"+network); err != nil {
		return err
	}
	if !s.cfg.RateLimit {
		return nil
	}
	known, err := s.knows(ctx, db.New(s.pool), email, c)
	if known || err != nil {
		return err
	}
	return s.take(ctx, signInAccount, email)
}

// knows reports whether the owner of the address signed in from the client's network not long ago.
func (s *Service) knows(ctx context.Context, q *db.Queries, email string, c Client) (bool, error) {
	known, err := q.KnowsNetwork(ctx, db.KnowsNetworkParams{Email: email, Network: c.network()})
	if err != nil {
		return false, fmt.Errorf("looking for earlier sign-ins: %w", err)
	}
	return known, nil
}

// signedIn forgets the attempts of somebody who knew the password after all.
func (s *Service) signedIn(ctx context.Context, email string, c Client) {
	if err := db.New(s.pool).ResetRate(ctx, signInPair.key(email+"\x00"+c.network())); err != nil {
		s.log.Warn("forgetting attempts to sign in", "error", err)
	}
}

// takeMail counts a mail that is asked for. A network that the owner of the address signed in from has a count of its
// own, so that strangers cannot use up what she is entitled to.
func (s *Service) takeMail(ctx context.Context, email string, c Client) error {
	if !s.cfg.RateLimit {
		return nil
	}
	if err := s.take(ctx, mailNetwork, c.network()); err != nil {
		return err
	}
	known, err := s.knows(ctx, db.New(s.pool), email, c)
	if err != nil {
		return err
	}
	of := email
	if known {
		of += "\x00" + c.network()
	}
	if err := s.take(ctx, mailMinute, of); err != nil {
		return err
	}
	return s.take(ctx, mailAddress, of)
}
