package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
)

// JobKind is the kind of the jobs that deliver events.
const JobKind = "webhook_delivery"

const (
	queue = "webhooks"
	// Deliveries under way at a time in one process. Most of the time they wait for others.
	workers = 16
	// How often a job is tried that fails by itself; what an endpoint answers is no failure of the job. Afterwards the
	// delivery is taken up as one that was lost.
	jobAttempts = 5
	tryTimeout  = 15 * time.Second
	// A claim is good for a try and what is written after it.
	leaseTime = tryTimeout + 5*time.Second
	// Endpoints that only failed for so long are disabled.
	failingTime = 5 * 24 * time.Hour
	// Attempts that a delivery keeps.
	keptAttempts = 20
)

// deliveryArgs is a job that makes the next try of a delivery when it is due. The delivery's row says what there is to
// do; a job too many does no harm.
type deliveryArgs struct {
	DeliveryID uuid.UUID `json:"delivery_id"`
}

func (deliveryArgs) Kind() string { return JobKind }

// Queues are the queues to be worked on.
func (s *Service) Queues() map[string]river.QueueConfig {
	return map[string]river.QueueConfig{queue: {MaxWorkers: workers, FetchCooldown: 50 * time.Millisecond, FetchPollInterval: time.Second}}
}

// AddWorker registers the worker that delivers.
func (s *Service) AddWorker(workers *river.Workers) { river.AddWorker(workers, &worker{s: s}) }

type worker struct {
	river.WorkerDefaults[deliveryArgs]
	s *Service
}

// Timeout is beyond what a try may take, so that its end can be recorded.
func (*worker) Timeout(*river.Job[deliveryArgs]) time.Duration { return 2 * leaseTime }

// NextRetry is after the claim of the try that failed has ended.
func (*worker) NextRetry(job *river.Job[deliveryArgs]) time.Time {
	return time.Now().Add(time.Duration(job.Attempt) * leaseTime)
}

// Work makes a try when it is due, and puts the job off until the next one.
func (w *worker) Work(ctx context.Context, job *river.Job[deliveryArgs]) error {
	wait, err := w.s.deliver(ctx, job.Args.DeliveryID)
	switch {
	case err != nil && ctx.Err() != nil:
		return river.JobSnooze(0) // the server is stopping; the next one takes it up
	case err != nil:
		return err
	case wait > 0:
		return river.JobSnooze(wait)
	}
	return nil
}

// deliver makes the next try of a delivery if it is due. It returns how long to wait for the one after; 0 is for ever.
func (s *Service) deliver(ctx context.Context, id uuid.UUID) (time.Duration, error) {
	q := db.New(s.pool)
	d, err := q.ClaimDelivery(ctx, db.ClaimDeliveryParams{ID: id, LeaseSeconds: leaseTime.Seconds()})
	if none(err) {
		seconds, err := q.DeliveryWait(ctx, id)
		if none(err) {
			return 0, nil // ended, or gone
		}
		return max(asDuration(seconds), 100*time.Millisecond), err
	}
	if err != nil {
		return 0, fmt.Errorf("claiming a delivery: %w", err)
	}
	webhook, err := q.GetWebhook(ctx, d.WebhookID)
	switch {
	case none(err):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("reading a webhook: %w", err)
	case !webhook.Enabled: // since the event was written
		return 0, q.CancelDeliveries(ctx, webhook.ID)
	}
	event, err := q.GetEvent(ctx, d.EventID)
	if err != nil {
		return 0, fmt.Errorf("reading an event: %w", err)
	}
	secrets, err := s.secrets(ctx, q, webhook.ID)
	var a attempt
	switch {
	case errors.Is(err, auth.ErrSealed):
		// Another try of the job would end the same way; as one of the delivery it is seen, and comes to an end.
		a = failed(fmt.Errorf("not sent, since it cannot be signed: %w", err))
	case err != nil:
		return 0, err
	default:
		a = s.try(ctx, webhook.URL, event, secrets)
	}
	if ctx.Err() != nil {
		// It was not the endpoint that ended the try, so it does not count.
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := q.ReleaseDelivery(release, db.ReleaseDeliveryParams{ID: id, Lease: d.LeaseUntil}); err != nil {
			s.log.Warn("giving back a delivery; it is taken up again in a minute", "delivery", id, "error", err)
		}
		return 0, ctx.Err()
	}
	return s.record(ctx, d, a)
}

// outcome is what becomes of a delivery, and of its endpoint, after a try.
type outcome struct {
	status  db.DeliveryStatus
	delay   time.Duration // until the next try of one that stays pending
	disable db.WebhookDisabledReason
}

// judge decides after a try; tries are those that were made before.
func (s *Service) judge(a attempt, tries int) outcome {
	switch {
	case a.succeeded():
		return outcome{status: db.DeliveryStatusDelivered}
	case a.Status != nil && *a.Status == http.StatusGone:
		return outcome{status: db.DeliveryStatusFailed, disable: db.WebhookDisabledReasonGone}
	case tries >= len(s.cfg.Retries):
		return outcome{status: db.DeliveryStatusFailed}
	}
	delay := s.cfg.Retries[tries]
	// What failed together should not come back together.
	delay += time.Duration(rand.Int64N(int64(delay)/5 + 1))
	return outcome{status: db.DeliveryStatusPending, delay: max(delay, a.retryAfter)}
}

// record writes down what came of a try and returns how long to wait for the next; 0 is for ever.
func (s *Service) record(ctx context.Context, d db.WebhookDelivery, a attempt) (time.Duration, error) {
	entry, err := json.Marshal(a)
	if err != nil {
		return 0, err
	}
	then := s.judge(a, int(d.Tries))
	err = s.inTx(ctx, func(_ pgx.Tx, q *db.Queries) error {
		webhook, err := q.LockWebhook(ctx, d.WebhookID)
		if err != nil {
			return err
		}
		if !webhook.Enabled && then.status == db.DeliveryStatusPending {
			then = outcome{status: db.DeliveryStatusCancelled}
		}
		_, err = q.RecordAttempt(ctx, db.RecordAttemptParams{
			ID: d.ID, Lease: d.LeaseUntil, Attempt: entry, Keep: keptAttempts, Status: then.status, DelaySeconds: then.delay.Seconds(),
		})
		if err != nil {
			return err
		}
		if then.status == db.DeliveryStatusDelivered {
			return q.NoteWebhookSuccess(ctx, webhook.ID)
		}
		failing, err := q.NoteWebhookFailure(ctx, webhook.ID)
		if err != nil {
			return err
		}
		if then.disable == "" && asDuration(failing) >= failingTime {
			then.disable = db.WebhookDisabledReasonFailing
		}
		if then.disable == "" || !webhook.Enabled {
			then.disable = ""
			return nil
		}
		if err := q.DisableWebhook(ctx, db.DisableWebhookParams{ID: webhook.ID, Reason: &then.disable}); err != nil {
			return err
		}
		return q.CancelDeliveries(ctx, webhook.ID)
	})
	if none(err) {
		return 0, nil // deleted, cancelled or taken over meanwhile
	}
	if err != nil {
		return 0, fmt.Errorf("recording a try: %w", err)
	}
	if then.disable != "" {
		s.log.Warn("a webhook was disabled", "webhook", d.WebhookID, "reason", then.disable)
		return 0, nil
	}
	if then.status == db.DeliveryStatusFailed {
		s.log.Warn("an event could not be delivered and is given up", "delivery", d.ID, "webhook", d.WebhookID, "event", d.EventType)
	}
	return then.delay, nil
}

func asDuration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
