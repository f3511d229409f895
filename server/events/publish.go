package events

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
)

// payload is the body that a webhook gets.
type payload struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      any       `json:"data"`
}

// Publish records an event, and its deliveries to the webhooks that want it, in the transaction of what happened.
func (s *Service) Publish(ctx context.Context, tx pgx.Tx, kind string, data any) error {
	q := db.New(tx)
	id, err := insertEvent(ctx, q, kind, data)
	if err != nil {
		return err
	}
	deliveries, err := q.FanOut(ctx, db.FanOutParams{EventID: id, EventType: kind})
	if err != nil {
		return fmt.Errorf("making the deliveries of %s: %w", kind, err)
	}
	return s.enqueue(ctx, tx, deliveries...)
}

func insertEvent(ctx context.Context, q *db.Queries, kind string, data any) (uuid.UUID, error) {
	id, now := newID(), time.Now().UTC().Truncate(time.Microsecond)
	body, err := json.Marshal(payload{kind, now, data})
	if err != nil {
		return id, fmt.Errorf("writing %s: %w", kind, err)
	}
	if err := q.InsertEvent(ctx, db.InsertEventParams{ID: id, Type: kind, Payload: body, CreatedAt: now}); err != nil {
		return id, fmt.Errorf("recording %s: %w", kind, err)
	}
	return id, nil
}

// enqueue inserts the jobs of deliveries in the transaction that made them due.
func (s *Service) enqueue(ctx context.Context, tx pgx.Tx, deliveries ...uuid.UUID) error {
	if len(deliveries) == 0 {
		return nil
	}
	params := make([]river.InsertManyParams, len(deliveries))
	for i, id := range deliveries {
		params[i] = river.InsertManyParams{Args: deliveryArgs{id}, InsertOpts: &river.InsertOpts{Queue: queue, MaxAttempts: jobAttempts}}
	}
	if _, err := s.jobs.InsertManyTx(ctx, tx, params); err != nil {
		return fmt.Errorf("queueing deliveries: %w", err)
	}
	return nil
}

// testData is what a test event is about.
type testData struct {
	WebhookID uuid.UUID `json:"webhook_id"`
	Message   string    `json:"message"`
}

// Test sends a webhook.test event to a webhook, whatever it is subscribed to.
func (s *Service) Test(ctx context.Context, p *auth.Principal, id uuid.UUID) (Delivery, error) {
	if err := allow(p); err != nil {
		return Delivery{}, err
	}
	var made db.WebhookDelivery
	err := s.inTx(ctx, func(tx pgx.Tx, q *db.Queries) error {
		if err := lockEnabled(ctx, q, id); err != nil {
			return err
		}
		event, err := insertEvent(ctx, q, TestType, testData{id, "This is a test. If you can read it and its signature is right, events will arrive."})
		if err != nil {
			return err
		}
		made, err = q.InsertDelivery(ctx, db.InsertDeliveryParams{ID: uuid.New(), WebhookID: id, EventID: event, EventType: TestType})
		if err != nil {
			return fmt.Errorf("making a delivery: %w", err)
		}
		return s.enqueue(ctx, tx, made.ID)
	})
	if err != nil {
		return Delivery{}, err
	}
	return s.Delivery(ctx, p, made.ID)
}

// lockEnabled keeps a webhook as it is until the end of the transaction, or says why nothing can be sent to it.
func lockEnabled(ctx context.Context, q *db.Queries, id uuid.UUID) error {
	w, err := q.LockWebhook(ctx, id)
	switch {
	case none(err):
		return ErrNotFound
	case err != nil:
		return fmt.Errorf("locking a webhook: %w", err)
	case !w.Enabled:
		return ErrDisabled
	}
	return nil
}
