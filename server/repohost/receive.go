package repohost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/gen/db"
)

// MaxBody is the size of the largest delivery that is read; GitHub sends none that is larger.
const MaxBody = 25 << 20

// Delivery is what a repository host sends.
type Delivery struct {
	// ConfigID is the configuration that the address names; nil where the payload's repository does.
	ConfigID *string
	Headers  Headers
	Body     []byte
	// Form says that the body is a form with the payload in it.
	Form bool
}

// Answer tells the repository host what came of a delivery.
type Answer struct {
	Record
	Pong      bool
	Duplicate bool // the record is of the first time
}

// Receive takes a delivery. It returns ErrRefused unless the signature is right.
func (s *Service) Receive(ctx context.Context, d Delivery) (Answer, error) {
	if err := s.branches.Enabled(); err != nil {
		return Answer{}, err
	}
	from, err := dialectOf(d.Headers)
	if err != nil {
		return Answer{}, err
	}
	payload, signed := d.contents(from)
	cfg, found, err := s.configFor(ctx, d, from, payload)
	if err != nil {
		return Answer{}, err
	}
	secrets, err := s.secrets(cfg)
	if err != nil {
		s.log.Error("a webhook's secret cannot be read, so all its deliveries are refused; set webhook_secret again", "repository", cfg.Repository, "error", err)
	}
	reason := verify(from.provider, d.Headers, signed, secrets, time.Now())
	if reason == "" && cfg.Provider != nil && *cfg.Provider != from.provider {
		reason = fmt.Sprintf("the configuration takes deliveries of %s only", *cfg.Provider)
	}
	if reason != "" {
		s.logRefusal(cfg, found, from, d, payload, reason)
		return Answer{}, ErrRefused
	}
	if err := s.takeRate(ctx, cfg); err != nil {
		return Answer{}, err
	}
	e, ignored, err := s.understand(cfg, from, payload)
	if err != nil {
		return Answer{}, err
	}
	answer, err := s.record(ctx, cfg, from, payload, e, ignored)
	if err != nil {
		return Answer{}, err
	}
	if err := db.New(s.pool).TouchRepohostConfig(ctx, cfg.ID); err != nil {
		s.log.Warn("noting the time of a delivery", "repository", cfg.Repository, "error", err)
	}
	answer.Pong = from.event == "ping"
	return answer, nil
}

// contents returns the payload and the bytes that are signed: those of the body, but that Gitea signs the payload even
// when it sends a form.
func (d Delivery) contents(from dialect) (payload, signed []byte) {
	if !d.Form {
		return d.Body, d.Body
	}
	form, err := url.ParseQuery(string(d.Body))
	if err == nil {
		payload = []byte(form.Get("payload"))
	}
	if from.provider == db.RepohostProviderGitea {
		return payload, payload
	}
	return payload, d.Body
}

// configFor finds the configuration that a delivery is for; found is false where there is none.
func (s *Service) configFor(ctx context.Context, d Delivery, from dialect, payload []byte) (cfg Config, found bool, err error) {
	q := db.New(s.pool)
	if d.ConfigID == nil {
		cfg, err = q.FindRepohostConfig(ctx, repositoryOf(from.provider, payload))
	} else {
		id, parseErr := uuid.Parse(*d.ConfigID)
		if parseErr != nil {
			id = uuid.Nil // is nobody's, and is looked up all the same
		}
		cfg, err = q.GetRepohostConfig(ctx, id)
	}
	if none(err) {
		return Config{}, false, nil
	}
	if err != nil {
		return Config{}, false, fmt.Errorf("looking for the configuration of a repository: %w", err)
	}
	return cfg, true, nil
}

// logRefusal tells the operator what the sender is not told. The name of a repository without a configuration is the
// sender's word.
func (s *Service) logRefusal(cfg Config, found bool, from dialect, d Delivery, payload []byte, reason string) {
	repository := cfg.Repository
	if !found {
		repository = clean(repositoryOf(from.provider, payload))
		if d.ConfigID != nil {
			repository = ""
		}
	}
	s.log.Warn("a delivery of a repository host was refused", "reason", reason, "repository", repository, "configured", found,
		"provider", from.provider, "event", from.event, "delivery", from.id)
}

// understand reads what a verified delivery says. ignored says why nothing is to be done.
func (s *Service) understand(cfg Config, from dialect, payload []byte) (e event, ignored string, err error) {
	if from.event == "ping" {
		return e, "a ping", nil
	}
	if !strings.EqualFold(repositoryOf(from.provider, payload), cfg.Repository) {
		return e, fmt.Sprintf("it is about another repository than %s", cfg.Repository), nil
	}
	return read(from, payload)
}

const foreignKeyViolation = "23503"

// record writes a delivery down and, unless it is ignored, what it says of its pull request, and queues the work. It is
// known by its payload and not by its body: a form has many ways to write a payload, all of which Gitea's signature fits.
func (s *Service) record(ctx context.Context, cfg Config, from dialect, payload []byte, e event, ignored string) (Answer, error) {
	hash := sha256.Sum256(payload)
	id := from.id
	if id == "" {
		id = hex.EncodeToString(hash[:])
	}
	row := db.InsertRepohostDeliveryParams{
		ID: newID(), ConfigID: cfg.ID, Provider: from.provider, DeliveryID: id, BodyHash: hash[:], Event: from.event,
		Status: db.RepohostDeliveryStatusAccepted,
	}
	if e.action != "" {
		row.Action = &e.action
	}
	if e.number != 0 {
		row.PRNumber = &e.number
	}
	if ignored != "" {
		row.Status, row.Reason = db.RepohostDeliveryStatusIgnored, &ignored
	}
	var answer Answer
	err := s.inTx(ctx, func(tx pgx.Tx, q *db.Queries) (err error) {
		answer.Record, err = q.InsertRepohostDelivery(ctx, row)
		if none(err) {
			answer, err = s.repeated(ctx, tx, row)
			return err
		}
		if err != nil {
			return fmt.Errorf("recording a delivery: %w", err)
		}
		if ignored != "" {
			return nil
		}
		answer.Record, err = s.apply(ctx, tx, cfg, from.provider, answer.Record, e)
		return err
	})
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == foreignKeyViolation {
		return Answer{}, ErrRefused // the configuration was deleted this moment
	}
	if err != nil {
		return Answer{}, err
	}
	faultPoint("recorded")
	return answer, nil
}

// repeated answers a delivery that came before. It does not count again, but when its work had failed the work is tried
// anew, which is what people send a delivery again for.
func (s *Service) repeated(ctx context.Context, tx pgx.Tx, row db.InsertRepohostDeliveryParams) (Answer, error) {
	q := db.New(tx)
	first, err := q.FindRepohostDelivery(ctx, db.FindRepohostDeliveryParams{
		ConfigID: row.ConfigID, Provider: row.Provider, DeliveryID: row.DeliveryID, BodyHash: row.BodyHash,
	})
	if err != nil {
		return Answer{}, fmt.Errorf("reading a delivery that came before: %w", err)
	}
	if first.Status == db.RepohostDeliveryStatusFailed && first.PullRequestID != nil {
		n, err := q.AskAgainFor(ctx, *first.PullRequestID)
		if err != nil {
			return Answer{}, err
		}
		if n > 0 {
			if err := s.enqueue(ctx, tx, *first.PullRequestID); err != nil {
				return Answer{}, err
			}
		}
	}
	return Answer{Record: first, Duplicate: true}, nil
}

// apply brings a pull request's row up to date, and queues the job that brings the branches into line with it.
func (s *Service) apply(ctx context.Context, tx pgx.Tx, cfg Config, provider Provider, rec Record, e event) (Record, error) {
	q := db.New(tx)
	err := q.EnsurePullRequest(ctx, db.EnsurePullRequestParams{ID: newID(), ConfigID: cfg.ID, Number: e.number, Provider: provider})
	if err != nil {
		return Record{}, fmt.Errorf("making the row of a pull request: %w", err)
	}
	pr, err := q.LockPullRequest(ctx, db.LockPullRequestParams{ConfigID: cfg.ID, Number: e.number})
	if err != nil {
		return Record{}, fmt.Errorf("reading a pull request: %w", err)
	}
	change := db.SetRepohostDeliveryParams{ID: rec.ID, Status: rec.Status, PullRequestID: &pr.ID}
	if reason := outdated(pr, e); reason != "" {
		change.Status, change.Reason = db.RepohostDeliveryStatusIgnored, &reason
	} else {
		pr, err = q.ApplyPullRequestEvent(ctx, db.ApplyPullRequestEventParams{
			ID: pr.ID, Provider: provider, State: e.state, URL: e.url, BaseRef: e.baseRef, HeadSHA: e.headSHA,
			Fork: e.fork, Draft: e.draft, EventAt: later(pr, e), Pushed: e.pushed,
		})
		if err != nil {
			return Record{}, fmt.Errorf("applying an event: %w", err)
		}
		change.Version = pr.Version
		if err := s.enqueue(ctx, tx, pr.ID); err != nil {
			return Record{}, err
		}
	}
	rec, err = q.SetRepohostDelivery(ctx, change)
	if err != nil {
		return Record{}, fmt.Errorf("recording what a delivery led to: %w", err)
	}
	return rec, nil
}

// later is the time up to which a pull request is known; a merge counts whenever it comes.
func later(pr PullRequest, e event) time.Time {
	if pr.EventAt.After(e.at) {
		return pr.EventAt
	}
	return e.at
}

// secrets returns the secrets that a configuration's deliveries may be signed with; none refuses them all.
func (s *Service) secrets(cfg Config) ([]string, error) {
	if cfg.WebhookSecret == nil {
		return nil, nil
	}
	current, err := s.vault.Open(cfg.WebhookSecret, secretName(cfg.ID))
	if err != nil {
		return nil, err
	}
	secrets := []string{current}
	if cfg.PreviousSecret != nil && cfg.PreviousSecretUntil != nil && cfg.PreviousSecretUntil.After(time.Now()) {
		if previous, err := s.vault.Open(cfg.PreviousSecret, secretName(cfg.ID)); err == nil {
			secrets = append(secrets, previous)
		}
	}
	return secrets, nil
}

// Names that bind a sealed secret to its place.
func secretName(config uuid.UUID) string { return config.String() + "/webhook_secret" }
func tokenName(config uuid.UUID) string  { return config.String() + "/api_token" }
