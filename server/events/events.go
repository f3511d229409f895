// Package events tells others what has happened: it keeps the webhooks that administrators register and delivers events
// to them, signed as Standard Webhooks asks.
//
// It is a transactional outbox. Publish writes an event, a delivery for each webhook that wants it and the jobs that
// send them in the transaction of the change itself: there is no event without the change, and no change without its
// event. From there on a delivery is a row that says when its next try is due; a try is claimed, made and recorded, and
// what a process that died has claimed is claimed again. So an event arrives at least once; a receiver tells a second
// arrival by the header webhook-id. The order of events is not kept: each is on its own way, and says when it happened.
//
// What happens, and what of it may be told, is the affair of the packages that publish.
package events

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/safedial"
)

// The nouns of the area.
type (
	Webhook  = db.Webhook
	Delivery = db.ListDeliveriesRow
)

// TestType is the event that a test of a webhook sends. It goes to that webhook only.
const TestType = "webhook.test"

// allTypes subscribes to every event.
const allTypes = "*"

// What callers may be told.
var (
	ErrNotFound         = fault.New(fault.NotFound, "not_found", "there is no such webhook")
	ErrDeliveryNotFound = fault.New(fault.NotFound, "not_found", "there is no such delivery; they are kept for a while only")
	ErrDisabled         = fault.New(fault.Conflict, "webhook_disabled", "the webhook is disabled").WithHint("enable it first")
	ErrDeliveryBusy     = fault.New(fault.Conflict, "delivery_busy", "the delivery is being tried at this moment").Retry(time.Second)
)

// Config are the settings of events.
type Config struct {
	// Vault encrypts the secrets of webhooks in the control database.
	Vault *auth.Vault
	// Targets says where webhooks may go. Where private networks are allowed, so is plain http.
	Targets safedial.Options
	// Retries are the waits before the second try and those that follow; a delivery is given up when all have failed.
	Retries []time.Duration
	// Retention is how long deliveries that have ended, and events, are kept.
	Retention time.Duration
}

// DefaultRetries spread ten tries over about three days, as Standard Webhooks recommends.
var DefaultRetries = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// Service keeps the webhooks of one installation and delivers to them.
type Service struct {
	pool   *pgxpool.Pool
	cfg    Config
	log    *slog.Logger
	vault  *auth.Vault
	client *http.Client
	jobs   *river.Client[pgx.Tx]
}

// New returns the service. SetJobs must follow before anything is published.
func New(pool *pgxpool.Pool, cfg Config, log *slog.Logger) *Service {
	cfg.Targets.Timeout = tryTimeout
	return &Service{pool: pool, cfg: cfg, log: log, vault: cfg.Vault, client: safedial.Client(cfg.Targets)}
}

// SetJobs gives the service the queue that deliveries go into.
func (s *Service) SetJobs(jobs *river.Client[pgx.Tx]) { s.jobs = jobs }

// allow returns an error unless the caller may manage webhooks.
func allow(p *auth.Principal) error {
	if !p.Unbound() {
		return auth.ErrDenied.Msgf("webhooks are managed by administrators and service keys")
	}
	return nil
}

func (s *Service) inTx(ctx context.Context, f func(pgx.Tx, *db.Queries) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return f(tx, db.New(tx)) })
}

func none(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }
