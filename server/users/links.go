package users

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
	boughmail "github.com/boughdb/bough/server/mail"
)

const (
	linkLifetime    = 15 * time.Minute
	confirmLifetime = 24 * time.Hour
	// A browser that followed a link takes a code to the application, which redeems it at once.
	codeLifetime = 5 * time.Minute
)

// MagicLinkParams describe a link to be sent.
type MagicLinkParams struct {
	Email         string
	RedirectTo    *string
	CreateUser    bool
	CodeChallenge *string // PKCE, S256; nil for none
}

// RequestMagicLink sends a link to sign in with, if there is an account or there may be one. It does not say which.
func (s *Service) RequestMagicLink(ctx context.Context, params MagicLinkParams, c Client) error {
	email, err := normalize(params.Email)
	if err != nil {
		return err
	}
	if err := s.checkRedirect(params.RedirectTo); err != nil {
		return err
	}
	if err := s.takeMail(ctx, email, c); err != nil {
		return err
	}
	_, err = s.queueLink(ctx, db.InsertMailTokenParams{
		Purpose: db.MailPurposeMagicLink, Email: email, CreateUser: params.CreateUser && s.cfg.SignUp, UserMetadata: []byte("{}"),
		RedirectTo: params.RedirectTo, CodeChallenge: params.CodeChallenge, LifetimeSeconds: linkLifetime.Seconds(),
	})
	return err
}

// queueLink stores what a link is for and leaves the mail to a worker, which makes the token: so the token exists in the
// mail alone, and the answer takes no longer for an address that gets one.
func (s *Service) queueLink(ctx context.Context, params db.InsertMailTokenParams) (db.MailToken, error) {
	var row db.MailToken
	err := s.inTx(ctx, func(tx pgx.Tx, q *db.Queries) (err error) {
		row, err = s.queueLinkIn(ctx, tx, q, params)
		return err
	})
	return row, err
}

func (s *Service) queueLinkIn(ctx context.Context, tx pgx.Tx, q *db.Queries, params db.InsertMailTokenParams) (db.MailToken, error) {
	params.ID = newID()
	row, err := q.InsertMailToken(ctx, params)
	if err != nil {
		return row, fmt.Errorf("inserting a link: %w", err)
	}
	return row, s.enqueue(ctx, tx, mailArgs{LinkID: &params.ID})
}

// Link is what can be known of a link without redeeming it.
type Link struct {
	Purpose    db.MailPurpose
	Email      string
	RedirectTo string // "" for none
}

// Look tells what a link is for. It changes nothing.
func (s *Service) Look(ctx context.Context, token string, c Client) (Link, error) {
	if err := s.limits.Take(ctx, otherNetwork, c.Network()); err != nil {
		return Link{}, err
	}
	row, err := db.New(s.pool).PeekMailToken(ctx, hashOf(token))
	if none(err) || err == nil && row.Purpose == db.MailPurposeExchange {
		return Link{}, ErrLinkExpired
	}
	if err != nil {
		return Link{}, fmt.Errorf("looking up a link: %w", err)
	}
	return Link{row.Purpose, row.Email, value(row.RedirectTo)}, nil
}

// Verify redeems a mail's link or code, or the code that a browser got for a link, and signs in. verifier is PKCE's, ""
// for none.
func (s *Service) Verify(ctx context.Context, proof Proof, verifier string, c Client) (*Session, error) {
	purposes := signInPurposes
	if proof.Token != "" {
		purposes = linkPurposes
	}
	return s.verify(ctx, proof, verifier, c, purposes)
}

// RedeemCode redeems the code that a browser got for a link, and nothing else.
func (s *Service) RedeemCode(ctx context.Context, code, verifier string, c Client) (*Session, error) {
	return s.verify(ctx, Proof{Token: code}, verifier, c, []db.MailPurpose{db.MailPurposeExchange})
}

func (s *Service) verify(ctx context.Context, proof Proof, verifier string, c Client, purposes []db.MailPurpose) (*Session, error) {
	spend, err := s.examine(ctx, proof, c, purposes)
	if err != nil {
		return nil, err
	}
	var ended ending
	session, err := s.open(ctx, db.SignInMethodMagicLink, c, func(tx pgx.Tx, q *db.Queries) (User, error) {
		row, user, gone, err := s.redeem(ctx, tx, q, spend)
		if err != nil {
			return user, err
		}
		ended = gone
		if row.CodeChallenge != nil {
			sum := sha256.Sum256([]byte(verifier))
			if subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(*row.CodeChallenge)) != 1 {
				return user, ErrVerifier
			}
		}
		return user, nil
	})
	if err != nil {
		return nil, err
	}
	s.finish(ended)
	return session, nil
}

// Exchange redeems a link's token in a browser: for a code, which the application that sent the browser redeems by
// RedeemCode. redirect takes the place of the link's own, unless it is nil. It returns where the browser goes, "" when
// nothing says that, and the code.
func (s *Service) Exchange(ctx context.Context, token string, redirect *string, c Client) (location, code string, err error) {
	if err := s.checkRedirect(redirect); err != nil {
		return "", "", err
	}
	spend, err := s.examine(ctx, Proof{Token: token}, c, signInPurposes)
	if err != nil {
		return "", "", err
	}
	code, hash := newSecret(linkPrefix)
	var row db.MailToken
	var ended ending
	err = s.inTx(ctx, func(tx pgx.Tx, q *db.Queries) error {
		var user User
		var err error
		row, user, ended, err = s.redeem(ctx, tx, q, spend)
		switch {
		case err != nil:
			return err
		case user.DisabledAt != nil:
			return ErrDisabled
		}
		_, err = q.InsertMailToken(ctx, db.InsertMailTokenParams{
			ID: newID(), Purpose: db.MailPurposeExchange, Hash: hash, Email: user.Email, UserID: &user.ID, UserMetadata: []byte("{}"),
			CodeChallenge: row.CodeChallenge, LifetimeSeconds: codeLifetime.Seconds(),
		})
		return err
	})
	if err != nil {
		return "", "", err
	}
	s.finish(ended)
	if redirect == nil {
		redirect = row.RedirectTo
	}
	if redirect == nil {
		return "", code, nil
	}
	location, err = withQuery(*redirect, "code", code)
	return location, code, err
}

// redeem spends a token and does what it is for. It returns the user, and what ended by it.
func (s *Service) redeem(ctx context.Context, tx pgx.Tx, q *db.Queries, spend spender) (db.MailToken, User, ending, error) {
	var user User
	var ended ending
	row, err := spend(ctx, q)
	if err != nil {
		return row, user, ended, err
	}
	switch row.Purpose {
	case db.MailPurposeMagicLink, db.MailPurposeSignUp:
		user, ended, err = s.arrive(ctx, q, row)
	case db.MailPurposeChangeEmail:
		user, ended, err = s.changeEmail(ctx, tx, q, row)
	case db.MailPurposeExchange:
		user, err = q.LockUser(ctx, *row.UserID)
	default:
		err = ErrLinkExpired
	}
	if none(err) {
		err = ErrLinkExpired
	}
	return row, user, ended, err
}

// arrive finds or creates the user whose mailbox a link came from.
func (s *Service) arrive(ctx context.Context, q *db.Queries, row db.MailToken) (User, ending, error) {
	signUp := row.Purpose == db.MailPurposeSignUp
	if signUp || row.CreateUser {
		id := newID()
		if signUp {
			id = row.ID // which the answer to the sign-up named
		}
		user, err := q.InsertUser(ctx, db.InsertUserParams{
			ID: id, Email: row.Email, EmailVerified: true, PasswordHash: row.PasswordHash, Role: db.UserRoleAuthenticated,
			UserMetadata: row.UserMetadata, AppMetadata: []byte("{}"),
		})
		if err == nil { // of other sign-ups with the address there may be mails
			err = q.CancelAllMailTokens(ctx, db.CancelAllMailTokensParams{UserID: user.ID, Email: user.Email})
		}
		if !none(err) {
			return user, ending{}, err
		}
	}
	user, err := q.LockUserByEmail(ctx, row.Email)
	if err != nil {
		return user, ending{}, err
	}
	if user.EmailVerifiedAt != nil {
		if signUp {
			return user, ending{}, ErrLinkExpired // the address has an account by now
		}
		return user, ending{}, nil
	}
	// Whoever created an unconfirmed account need not be who has the mailbox. Where addresses must be confirmed, not even
	// what they said of themselves stays.
	user, err = q.VerifyEmail(ctx, db.VerifyEmailParams{
		ID: user.ID, ReplacePassword: true, PasswordHash: row.PasswordHash,
		ReplaceMetadata: signUp || s.cfg.RequireVerification, UserMetadata: row.UserMetadata,
	})
	if err != nil {
		return user, ending{}, err
	}
	ended, err := s.endBefore(ctx, q, user)
	return user, ended, err
}

// changeEmail gives a user the address that they asked for and have shown to be theirs. It ends their sessions, and
// everything else as well where it is the first address that they have shown.
func (s *Service) changeEmail(ctx context.Context, tx pgx.Tx, q *db.Queries, row db.MailToken) (User, ending, error) {
	user, err := q.LockUser(ctx, *row.UserID)
	if err != nil {
		return user, ending{}, err
	}
	if value(user.NewEmail) != row.Email {
		return user, ending{}, ErrLinkExpired // they asked for another one since
	}
	old, first := user.Email, user.EmailVerifiedAt == nil
	user, err = q.ChangeEmail(ctx, db.ChangeEmailParams{ID: user.ID, Email: row.Email, RemovePassword: first})
	if none(err) || taken(err) {
		return user, ending{}, ErrEmailExists
	}
	if err != nil {
		return user, ending{}, err
	}
	if err := s.enqueue(ctx, tx, mailArgs{Notice: boughmail.EmailChanged, To: old}); err != nil {
		return user, ending{}, err
	}
	if first {
		ended, err := s.endBefore(ctx, q, user)
		return user, ended, err
	}
	sessions, err := s.end(ctx, q, db.EndSessionsParams{UserID: user.ID})
	return user, ending{sessions: sessions}, err
}
