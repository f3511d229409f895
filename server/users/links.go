package users

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/fault"
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
	return s.queueLink(ctx, db.InsertMailTokenParams{
		Purpose: db.MailPurposeMagicLink, Email: email, CreateUser: params.CreateUser && s.cfg.SignUp, UserMetadata: []byte("{}"),
		RedirectTo: params.RedirectTo, CodeChallenge: params.CodeChallenge, LifetimeSeconds: linkLifetime.Seconds(),
	})
}

// queueLink stores what a link is for and leaves the mail to a worker, which makes the token: so the token exists in the
// mail alone, and the answer takes no longer for an address that gets one.
func (s *Service) queueLink(ctx context.Context, params db.InsertMailTokenParams) error {
	return s.inTx(ctx, func(tx pgx.Tx, q *db.Queries) error { return s.queueLinkIn(ctx, tx, q, params) })
}

func (s *Service) queueLinkIn(ctx context.Context, tx pgx.Tx, q *db.Queries, params db.InsertMailTokenParams) error {
	params.ID = newID()
	if _, err := q.InsertMailToken(ctx, params); err != nil {
		return fmt.Errorf("inserting a link: %w", err)
	}
	return s.enqueue(ctx, tx, mailArgs{LinkID: &params.ID})
}

// Link is what can be known of a link without redeeming it.
type Link struct {
	Purpose    db.MailPurpose
	Email      string
	RedirectTo string // "" for none
}

// Look tells what a link is for. It changes nothing.
func (s *Service) Look(ctx context.Context, token string, c Client) (Link, error) {
	if err := s.take(ctx, otherNetwork, c.network()); err != nil {
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

// Verify redeems a link's token, or the code that a browser got for it, and signs in. verifier is PKCE's, "" for none.
func (s *Service) Verify(ctx context.Context, token, verifier string, c Client) (*Session, error) {
	if err := s.take(ctx, otherNetwork, c.network()); err != nil {
		return nil, err
	}
	var ended []uuid.UUID
	session, err := s.open(ctx, db.SignInMethodMagicLink, c, func(tx pgx.Tx, q *db.Queries) (User, error) {
		row, user, gone, err := s.redeem(ctx, tx, q, token)
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
	s.revoke(ended)
	return session, nil
}

// Exchange redeems a link's token in a browser: for a code, which the application that sent the browser redeems by
// Verify. It returns where the browser goes, "" when the link says nothing about that, and the code.
func (s *Service) Exchange(ctx context.Context, token string, c Client) (redirect, code string, err error) {
	if err := s.take(ctx, otherNetwork, c.network()); err != nil {
		return "", "", err
	}
	code, hash := newSecret(linkPrefix)
	var row db.MailToken
	var ended []uuid.UUID
	err = s.inTx(ctx, func(tx pgx.Tx, q *db.Queries) error {
		var user User
		var err error
		row, user, ended, err = s.redeem(ctx, tx, q, token)
		switch {
		case err != nil:
			return err
		case row.Purpose == db.MailPurposeExchange:
			return ErrLinkExpired
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
	s.revoke(ended)
	if row.RedirectTo == nil {
		return "", code, nil
	}
	u, err := url.Parse(*row.RedirectTo)
	if err != nil {
		return "", "", fmt.Errorf("reading a redirect that was checked before: %w", err)
	}
	query := u.Query()
	query.Set("code", code)
	u.RawQuery = query.Encode()
	return u.String(), code, nil
}

// redeem spends a token and does what it is for. It returns the user, and the sessions that ended by it.
func (s *Service) redeem(ctx context.Context, tx pgx.Tx, q *db.Queries, token string) (db.MailToken, User, []uuid.UUID, error) {
	var user User
	row, err := q.SpendMailToken(ctx, hashOf(token))
	if none(err) {
		return row, user, nil, ErrLinkExpired
	}
	if err != nil {
		return row, user, nil, fmt.Errorf("spending a link: %w", err)
	}
	var ended []uuid.UUID
	switch row.Purpose {
	case db.MailPurposeMagicLink, db.MailPurposeSignUp:
		user, ended, err = s.arrive(ctx, q, row)
	case db.MailPurposeChangeEmail:
		user, ended, err = s.changeEmail(ctx, tx, q, row)
	case db.MailPurposeExchange:
		user, err = q.LockUser(ctx, *row.UserID)
	}
	if none(err) {
		err = ErrLinkExpired
	}
	return row, user, ended, err
}

// arrive finds or makes the user whose mailbox a link came from.
func (s *Service) arrive(ctx context.Context, q *db.Queries, row db.MailToken) (User, []uuid.UUID, error) {
	signUp := row.Purpose == db.MailPurposeSignUp
	if signUp || row.CreateUser {
		user, err := q.InsertUser(ctx, db.InsertUserParams{
			ID: newID(), Email: row.Email, EmailVerified: true, PasswordHash: row.PasswordHash, Role: db.UserRoleAuthenticated,
			UserMetadata: row.UserMetadata, AppMetadata: []byte("{}"),
		})
		if !none(err) {
			return user, nil, err
		}
	}
	user, err := q.LockUserByEmail(ctx, row.Email)
	if err != nil {
		return user, nil, err
	}
	unverified := user.EmailVerifiedAt == nil
	if signUp && !unverified {
		return user, nil, ErrLinkExpired // the address has an account by now
	}
	// Whoever made an unconfirmed account need not be who has the mailbox: where that counts, her password and her
	// sessions end here.
	replace := signUp || unverified && s.cfg.RequireVerification
	params := db.VerifyEmailParams{ID: user.ID, Replace: replace, PasswordHash: row.PasswordHash, UserMetadata: row.UserMetadata}
	if user, err = q.VerifyEmail(ctx, params); err != nil || !replace {
		return user, nil, err
	}
	ended, err := s.end(ctx, q, db.EndSessionsParams{UserID: user.ID})
	return user, ended, err
}

// changeEmail gives a user the address that she asked for and has shown to be hers.
func (s *Service) changeEmail(ctx context.Context, tx pgx.Tx, q *db.Queries, row db.MailToken) (User, []uuid.UUID, error) {
	user, err := q.LockUser(ctx, *row.UserID)
	if err != nil {
		return user, nil, err
	}
	if value(user.NewEmail) != row.Email {
		return user, nil, ErrLinkExpired // she asked for another one since
	}
	old := user.Email
	user, err = q.ChangeEmail(ctx, db.ChangeEmailParams{ID: user.ID, Email: row.Email})
	if none(err) || taken(err) {
		return user, nil, ErrEmailExists
	}
	if err != nil {
		return user, nil, err
	}
	if err := s.enqueue(ctx, tx, mailArgs{Notice: boughmail.EmailChanged, To: old}); err != nil {
		return user, nil, err
	}
	ended, err := s.end(ctx, q, db.EndSessionsParams{UserID: user.ID})
	return user, ended, err
}

// checkRedirect returns ErrRedirect unless the URL is on the list. An entry that ends in /* stands for all paths below.
func (s *Service) checkRedirect(raw *string) error {
	if raw == nil {
		return nil
	}
	u, err := parseRedirect(*raw)
	if err != nil {
		return ErrRedirect
	}
	for _, entry := range s.cfg.RedirectURLs {
		prefix, below := strings.CutSuffix(entry, "*")
		allowed, err := parseRedirect(prefix)
		if err != nil || allowed.Scheme != u.Scheme || allowed.Host != u.Host {
			continue
		}
		if u.Path == allowed.Path && !below && u.RawQuery == allowed.RawQuery || below && strings.HasPrefix(u.Path, allowed.Path) {
			return nil
		}
	}
	return ErrRedirect
}

// CheckRedirectEntry says what is wrong with an entry of the list.
func CheckRedirectEntry(entry string) error {
	prefix, below := strings.CutSuffix(entry, "*")
	u, err := parseRedirect(prefix)
	if err != nil || strings.Contains(prefix, "*") || below && (!strings.HasSuffix(u.Path, "/") || u.RawQuery != "") {
		return fmt.Errorf("%q must be a URL, or one that ends in /* for all paths below it", entry)
	}
	return nil
}

// parseRedirect reads a URL in the one form that browsers and this program see the same way.
func parseRedirect(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme == "" || u.Opaque != "" || u.User != nil || u.Fragment != "" || strings.Contains(raw, "#"),
		strings.ContainsAny(raw, "\\ \t\r\n") || u.RawPath != "",
		(u.Scheme == "http" || u.Scheme == "https") && u.Host == "",
		u.Path != "" && path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") && u.Path != "/":
		return nil, fault.Validation("not a plain URL")
	}
	u.Host = strings.ToLower(u.Host)
	if u.Path == "" {
		u.Path = "/"
	}
	return u, nil
}
