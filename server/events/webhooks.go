package events

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
)

// List returns webhooks, newest first, and how many there are in all.
func (s *Service) List(ctx context.Context, p *auth.Principal, limit, offset int32) ([]Webhook, int64, error) {
	if err := allow(p); err != nil {
		return nil, 0, err
	}
	q := db.New(s.pool)
	hooks, err := q.ListWebhooks(ctx, db.ListWebhooksParams{MaxRows: limit, SkipRows: offset})
	if err != nil {
		return nil, 0, fmt.Errorf("listing webhooks: %w", err)
	}
	total, err := q.CountWebhooks(ctx)
	return hooks, total, err
}

// Get returns a webhook, or ErrNotFound.
func (s *Service) Get(ctx context.Context, p *auth.Principal, id uuid.UUID) (Webhook, error) {
	if err := allow(p); err != nil {
		return Webhook{}, err
	}
	w, err := db.New(s.pool).GetWebhook(ctx, id)
	if none(err) {
		return w, ErrNotFound
	}
	return w, err
}

// Change is what an administrator gives or changes; nil leaves a thing as it is.
type Change struct {
	URL, Description *string
	Events           []string
	Enabled          *bool
}

func (s *Service) check(change Change) error {
	if change.URL != nil {
		if err := s.checkTarget(*change.URL); err != nil {
			return err
		}
	}
	if change.Events != nil {
		return checkTypes(change.Events)
	}
	return nil
}

// Create makes a webhook and returns its secret, which cannot be read again. URL and Events must be given; secret is the
// caller's own, or nil for a new one.
func (s *Service) Create(ctx context.Context, p *auth.Principal, change Change, secret *string) (Webhook, string, error) {
	if err := allow(p); err != nil {
		return Webhook{}, "", err
	}
	if err := s.check(change); err != nil {
		return Webhook{}, "", err
	}
	key, err := readSecret(secret)
	if err != nil {
		return Webhook{}, "", err
	}
	params := db.InsertWebhookParams{
		ID: newID(), URL: *change.URL, Events: change.Events, CreatedBy: p.Actor(), Enabled: change.Enabled == nil || *change.Enabled,
	}
	if change.Description != nil {
		params.Description = *change.Description
	}
	var w Webhook
	err = s.inTx(ctx, func(_ pgx.Tx, q *db.Queries) error {
		if w, err = q.InsertWebhook(ctx, params); err != nil {
			return fmt.Errorf("inserting a webhook: %w", err)
		}
		return s.insertSecret(ctx, q, w.ID, key)
	})
	if err != nil {
		return w, "", err
	}
	s.log.Info("a webhook was made", "webhook", w.ID, "events", w.Events, "by", p.Actor())
	return w, showSecret(key), nil
}

// Update changes a webhook. What was on its way to one that is disabled is cancelled.
func (s *Service) Update(ctx context.Context, p *auth.Principal, id uuid.UUID, change Change) (Webhook, error) {
	if err := allow(p); err != nil {
		return Webhook{}, err
	}
	if err := s.check(change); err != nil {
		return Webhook{}, err
	}
	var w Webhook
	err := s.inTx(ctx, func(_ pgx.Tx, q *db.Queries) (err error) {
		w, err = q.UpdateWebhook(ctx, db.UpdateWebhookParams{ID: id, URL: change.URL, Events: change.Events, Description: change.Description, Enabled: change.Enabled})
		if none(err) {
			return ErrNotFound
		}
		if err != nil {
			return fmt.Errorf("updating a webhook: %w", err)
		}
		if w.Enabled {
			return nil
		}
		return q.CancelDeliveries(ctx, id)
	})
	if err != nil {
		return w, err
	}
	s.log.Info("a webhook was changed", "webhook", id, "enabled", w.Enabled, "by", p.Actor())
	return w, nil
}

// Delete removes a webhook with its deliveries.
func (s *Service) Delete(ctx context.Context, p *auth.Principal, id uuid.UUID) error {
	if err := allow(p); err != nil {
		return err
	}
	n, err := db.New(s.pool).DeleteWebhook(ctx, id)
	if err != nil {
		return fmt.Errorf("deleting a webhook: %w", err)
	}
	if n == 0 {
		return ErrNotFound
	}
	s.log.Info("a webhook was deleted", "webhook", id, "by", p.Actor())
	return nil
}

// RotateSecret gives a webhook a new secret and returns it. The old one signs too for a day, unless it is to end
// immediately.
func (s *Service) RotateSecret(ctx context.Context, p *auth.Principal, id uuid.UUID, secret *string, immediately bool) (string, error) {
	if err := allow(p); err != nil {
		return "", err
	}
	key, err := readSecret(secret)
	if err != nil {
		return "", err
	}
	err = s.inTx(ctx, func(_ pgx.Tx, q *db.Queries) error {
		if _, err := q.LockWebhook(ctx, id); none(err) {
			return ErrNotFound
		} else if err != nil {
			return err
		}
		keep := int32(maxSecrets - 1)
		if immediately {
			keep = 0
		}
		if err := q.RetireWebhookSecrets(ctx, db.RetireWebhookSecretsParams{WebhookID: id, Keep: keep, OverlapSeconds: overlap.Seconds()}); err != nil {
			return fmt.Errorf("retiring a webhook's secrets: %w", err)
		}
		return s.insertSecret(ctx, q, id, key)
	})
	if err != nil {
		return "", err
	}
	s.log.Info("a webhook's secret was rotated", "webhook", id, "immediately", immediately, "by", p.Actor())
	return showSecret(key), nil
}
