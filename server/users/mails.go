package users

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/boughdb/bough/gen/db"
	boughmail "github.com/boughdb/bough/server/mail"
)

// MailKind is the kind of the jobs that send mails.
const MailKind = "auth_mail"

const (
	mailQueue    = "mail"
	mailAttempts = 6
	mailTimeout  = time.Minute
)

// mailArgs is a mail to be sent: one with a link, or a notice. No secret is in it.
type mailArgs struct {
	LinkID *uuid.UUID     `json:"link_id,omitempty"`
	Notice boughmail.Kind `json:"notice,omitempty"`
	To     string         `json:"to,omitempty"`
}

func (mailArgs) Kind() string { return MailKind }

type mailWorker struct {
	river.WorkerDefaults[mailArgs]
	s *Service
}

// Queues are the queues to be worked on.
func (s *Service) Queues() map[string]river.QueueConfig {
	return map[string]river.QueueConfig{mailQueue: {MaxWorkers: 4, FetchCooldown: 50 * time.Millisecond, FetchPollInterval: time.Second}}
}

// AddWorker registers the worker that sends mails.
func (s *Service) AddWorker(workers *river.Workers) { river.AddWorker(workers, &mailWorker{s: s}) }

func (s *Service) enqueue(ctx context.Context, tx pgx.Tx, args mailArgs) error {
	if _, err := s.jobs.InsertTx(ctx, tx, args, &river.InsertOpts{Queue: mailQueue, MaxAttempts: mailAttempts}); err != nil {
		return fmt.Errorf("queueing a mail: %w", err)
	}
	return nil
}

func (*mailWorker) Timeout(*river.Job[mailArgs]) time.Duration { return mailTimeout }

// Work sends a mail. A try after one that failed makes a new token.
func (w *mailWorker) Work(ctx context.Context, job *river.Job[mailArgs]) error {
	var err error
	if job.Args.LinkID == nil {
		err = w.s.mailer.Send(ctx, boughmail.Message{To: job.Args.To, Kind: job.Args.Notice, Site: w.s.cfg.BaseURL})
	} else {
		err = w.s.sendLink(ctx, *job.Args.LinkID)
	}
	if err != nil && strings.ContainsRune(err.Error(), 0) {
		// The queue stores the error as JSON, in which PostgreSQL refuses this character; the words of a mail server may
		// hold any.
		err = errors.New(strings.ReplaceAll(err.Error(), "\x00", "�"))
	}
	return err
}

func (s *Service) sendLink(ctx context.Context, id uuid.UUID) error {
	q := db.New(s.pool)
	row, err := q.GetMailToken(ctx, id)
	if none(err) {
		return nil // used or expired meanwhile
	}
	if err != nil {
		return fmt.Errorf("reading a link: %w", err)
	}
	kind, err := s.kindOf(ctx, q, row)
	if err != nil || kind == "" {
		return err
	}
	m := boughmail.Message{To: row.Email, Kind: kind, Site: s.cfg.BaseURL}
	if kind != boughmail.AccountExists {
		token, hash := newSecret(linkPrefix)
		code, err := newCode()
		if err != nil {
			return err
		}
		codeHash, err := s.hasher.Hash(ctx, code)
		if err != nil {
			return err
		}
		n, err := q.SetMailTokenHash(ctx, db.SetMailTokenHashParams{ID: id, Hash: hash, CodeHash: &codeHash})
		if err != nil {
			return fmt.Errorf("storing a link: %w", err)
		}
		if n == 0 {
			return nil
		}
		if m.Link, err = s.linkTo(row, token); err != nil {
			return err
		}
		m.Code = code
	}
	if err := s.mailer.Send(ctx, m); err != nil {
		return errors.Join(err, ctx.Err())
	}
	return nil
}

// linkTo is where a mail's link leads. The page for a new password is the application's, where it asked for that.
func (s *Service) linkTo(row db.MailToken, token string) (string, error) {
	switch {
	case row.Purpose != db.MailPurposeReset:
		return s.cfg.BaseURL + "/api/v1/auth/magiclink/verify?" + url.Values{"token": {token}}.Encode(), nil
	case row.RedirectTo == nil:
		return s.cfg.BaseURL + "/api/v1/auth/password/confirm?" + url.Values{"token": {token}}.Encode(), nil
	}
	return withQuery(*row.RedirectTo, "token", token)
}

// withQuery sets a parameter of a URL's query.
func withQuery(raw, name, value string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", fmt.Errorf("reading a redirect that was checked before: %w", err)
	}
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// kindOf decides which mail a request leads to; "" is none. Whoever asked does not learn it.
func (s *Service) kindOf(ctx context.Context, q *db.Queries, row db.MailToken) (boughmail.Kind, error) {
	user, err := q.GetUserByEmail(ctx, row.Email)
	if err != nil && !none(err) {
		return "", fmt.Errorf("looking up a user: %w", err)
	}
	known := err == nil
	switch row.Purpose {
	case db.MailPurposeMagicLink:
		if known && user.DisabledAt != nil || !known && !row.CreateUser {
			return "", nil
		}
		return boughmail.MagicLink, nil
	case db.MailPurposeSignUp:
		if known && user.EmailVerifiedAt != nil {
			return boughmail.AccountExists, nil
		}
		return boughmail.ConfirmSignUp, nil
	case db.MailPurposeReset:
		if !known || user.DisabledAt != nil {
			return "", nil
		}
		return boughmail.ResetPassword, nil
	case db.MailPurposeChangeEmail:
		if known {
			return boughmail.AccountExists, nil
		}
		return boughmail.ConfirmEmail, nil
	}
	return "", nil
}
