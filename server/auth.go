package server

import (
	"context"
	"fmt"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/events"
	boughmail "github.com/boughdb/bough/server/mail"
	"github.com/boughdb/bough/server/repohost"
	"github.com/boughdb/bough/server/users"
)

// newUsers makes the service of users, with what it signs and mails with.
func (s *server) newUsers() error {
	c := s.cfg.Auth
	var err error
	s.signer, err = auth.NewSigner(s.planes.Control, s.cfg.BaseURL(), c.AccessTokenLifetime, c.EncryptionKey)
	if err != nil {
		return fmt.Errorf("auth.encryption-key: %w", err)
	}
	s.tokens = auth.NewTokens(s.planes.Control, s.cfg.BaseURL(), c.outside())
	s.users = users.New(s.planes.Control, s.signer, s.tokens, c.hasher(), s.newMailer(), users.Config{
		SignUp: c.SignUp, RequireVerification: c.RequireVerification, RefreshLifetime: c.RefreshTokenLifetime,
		PasswordMinLength: c.PasswordMinLength, RedirectURLs: c.RedirectURLs, RateLimit: c.RateLimit, BaseURL: s.cfg.BaseURL(),
	}, s.log)
	s.users.OnChange(func() {
		s.keys.Forget("")
		s.oauthNotified("")
	})
	return nil
}

func (s *server) newMailer() boughmail.Sender {
	m := s.cfg.Mail
	if m.Host == "" {
		return &boughmail.Outbox{From: m.From, Dir: s.cfg.outboxDir(), Log: s.log}
	}
	return &boughmail.SMTP{From: m.From, Host: m.Host, Port: m.Port, Username: m.Username, Password: m.Password, TLS: boughmail.TLS(m.TLS)}
}

// startUsers sees to it that tokens can be signed, and knows the sessions that have ended, before requests are served.
func (s *server) startUsers(ctx context.Context) error {
	if err := s.signer.Ensure(ctx); err != nil {
		return err
	}
	if s.cfg.Auth.EncryptionKey == "" {
		s.log.Debug("private signing keys and the secrets of webhooks are stored readable in the control database; auth.encryption-key encrypts them")
	}
	return s.tokens.LoadRevocations(ctx)
}

// loadRevocations reads the ended sessions again when notifications may have been missed.
func (s *server) loadRevocations() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.tokens.LoadRevocations(ctx); err != nil {
		s.log.Warn("reading the sessions that have ended; it is tried again within a minute", "error", err)
	}
}

// sweepUsers does the small chores of users' data.
func (s *server) sweepUsers(ctx context.Context) {
	warn := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			s.log.Warn(what, "error", err)
		}
	}
	warn("reading the sessions that have ended", s.tokens.LoadRevocations(ctx))
	warn("sweeping users' sessions", s.users.Sweep(ctx))
	warn("sweeping signing keys", s.signer.Sweep(ctx))
	rotated, err := s.signer.RotateOld(ctx, s.cfg.Auth.SigningKeyMaxAge)
	warn("rotating the signing key", err)
	if rotated {
		s.log.Info("the signing key was rotated, since it was old")
	}
}

// jobErrors logs failed jobs: mails, deliveries and the work for pull requests here, the others by the branches' handler.
type jobErrors struct {
	river.ErrorHandler
	s *server
}

func (h jobErrors) HandleError(ctx context.Context, job *rivertype.JobRow, err error) *river.ErrorHandlerResult {
	switch job.Kind {
	case users.MailKind:
	case events.JobKind:
		h.s.log.Warn("a delivery could not be made and is tried again", "job", job.ID, "args", string(job.EncodedArgs), "error", err)
		return nil
	case repohost.WorkKind, repohost.ReportKind:
		h.s.log.Warn("work for a pull request could not be done and is tried again", "kind", job.Kind, "job", job.ID, "attempt", job.Attempt, "error", err)
		return nil
	default:
		return h.ErrorHandler.HandleError(ctx, job, err)
	}
	if job.Attempt >= job.MaxAttempts {
		h.s.log.Error("a mail could not be sent and is given up", "job", job.ID, "error", err)
	} else {
		h.s.log.Warn("a mail could not be sent and is tried again", "job", job.ID, "attempt", job.Attempt, "error", err)
	}
	return nil
}
