package events

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
)

// DeliveriesParams select deliveries; nil is any.
type DeliveriesParams struct {
	ID, WebhookID *uuid.UUID
	Status        *db.DeliveryStatus
	Event         *string
	Limit, Offset int32
}

// Deliveries returns deliveries, newest first, and how many match. Those of a webhook that is not there are
// ErrNotFound.
func (s *Service) Deliveries(ctx context.Context, p *auth.Principal, params DeliveriesParams) ([]Delivery, int64, error) {
	if params.WebhookID != nil {
		if _, err := s.Get(ctx, p, *params.WebhookID); err != nil {
			return nil, 0, err
		}
	}
	if err := allow(p); err != nil {
		return nil, 0, err
	}
	q := db.New(s.pool)
	rows, err := q.ListDeliveries(ctx, db.ListDeliveriesParams{
		ID: params.ID, WebhookID: params.WebhookID, Status: params.Status, EventType: params.Event, MaxRows: params.Limit, SkipRows: params.Offset,
	})
	if err != nil {
		return nil, 0, fmt.Errorf("listing deliveries: %w", err)
	}
	total, err := q.CountDeliveries(ctx, db.CountDeliveriesParams{ID: params.ID, WebhookID: params.WebhookID, Status: params.Status, EventType: params.Event})
	return rows, total, err
}

// Pending returns how many deliveries are on their way, for metrics.
func (s *Service) Pending(ctx context.Context) (int64, error) {
	return db.New(s.pool).CountPendingDeliveries(ctx)
}

// Delivery returns a delivery, or ErrDeliveryNotFound.
func (s *Service) Delivery(ctx context.Context, p *auth.Principal, id uuid.UUID) (Delivery, error) {
	if err := allow(p); err != nil {
		return Delivery{}, err
	}
	rows, err := db.New(s.pool).ListDeliveries(ctx, db.ListDeliveriesParams{ID: &id, MaxRows: 1})
	if err != nil {
		return Delivery{}, fmt.Errorf("reading a delivery: %w", err)
	}
	if len(rows) == 0 {
		return Delivery{}, ErrDeliveryNotFound
	}
	return rows[0], nil
}

// Redeliver begins a delivery anew, whatever came of it before: a pending one is tried at once.
func (s *Service) Redeliver(ctx context.Context, p *auth.Principal, id uuid.UUID) (Delivery, error) {
	before, err := s.Delivery(ctx, p, id)
	if err != nil {
		return before, err
	}
	err = s.inTx(ctx, func(tx pgx.Tx, q *db.Queries) error {
		if err := lockEnabled(ctx, q, before.WebhookDelivery.WebhookID); err != nil {
			return err
		}
		if _, err := q.Redeliver(ctx, id); none(err) {
			return ErrDeliveryBusy
		} else if err != nil {
			return fmt.Errorf("beginning a delivery anew: %w", err)
		}
		return s.enqueue(ctx, tx, id)
	})
	if err != nil {
		return before, err
	}
	s.log.Info("an event is delivered again", "delivery", id, "webhook", before.WebhookDelivery.WebhookID, "by", p.Actor())
	return s.Delivery(ctx, p, id)
}
