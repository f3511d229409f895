package events

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
)

const (
	secretPrefix = "whsec_"
	secretLength = 32
	// What Standard Webhooks asks of a secret, in bytes.
	minSecret, maxSecret = 24, 64
	// How long a secret that was rotated away signs too.
	overlap = 24 * time.Hour
	// How many secrets of a webhook sign at most; each is a signature in the header.
	maxSecrets = 4
)

// readSecret returns the bytes of a caller's own secret, or of a new one when she gave none.
func readSecret(given *string) ([]byte, error) {
	if given == nil {
		secret := make([]byte, secretLength)
		_, _ = rand.Read(secret) // never fails (crypto/rand)
		return secret, nil
	}
	text, ok := strings.CutPrefix(*given, secretPrefix)
	secret, err := base64.StdEncoding.Strict().DecodeString(text)
	if !ok || err != nil || len(secret) < minSecret || len(secret) > maxSecret {
		return nil, fault.Field("secret", "must be %s and the base64 of %d to %d random bytes", secretPrefix, minSecret, maxSecret)
	}
	return secret, nil
}

func showSecret(secret []byte) string {
	return secretPrefix + base64.StdEncoding.EncodeToString(secret)
}

func (s *Service) insertSecret(ctx context.Context, q *db.Queries, webhook uuid.UUID, secret []byte) error {
	id := newID()
	sealed, err := s.vault.Seal(string(secret), id.String())
	if err != nil {
		return err
	}
	if err := q.InsertWebhookSecret(ctx, db.InsertWebhookSecretParams{ID: id, WebhookID: webhook, Secret: sealed}); err != nil {
		return fmt.Errorf("storing a webhook's secret: %w", err)
	}
	return nil
}

// secrets returns what a webhook's deliveries are signed with, the current secret first. One that was rotated away and
// that no key opens, which may be what it was rotated for, is left out.
func (s *Service) secrets(ctx context.Context, q *db.Queries, webhook uuid.UUID) ([][]byte, error) {
	rows, err := q.ListWebhookSecrets(ctx, webhook)
	if err != nil {
		return nil, fmt.Errorf("reading a webhook's secrets: %w", err)
	}
	out := make([][]byte, 0, len(rows))
	for _, row := range rows {
		secret, err := s.vault.Open(row.Secret, row.ID.String())
		switch {
		case err == nil:
			out = append(out, []byte(secret))
		case row.ExpiresAt == nil || !errors.Is(err, auth.ErrSealed):
			return nil, err
		}
	}
	return out, nil
}

// Ensure encrypts the secrets with the key that is used now. One that no key opens keeps its webhook from being served,
// and nothing else.
func (s *Service) Ensure(ctx context.Context) error {
	return s.inTx(ctx, func(_ pgx.Tx, q *db.Queries) error {
		rows, err := q.ListAllWebhookSecrets(ctx)
		if err != nil {
			return fmt.Errorf("reading the secrets of webhooks: %w", err)
		}
		for _, row := range rows {
			sealed, err := s.vault.Renew(row.Secret, row.ID.String())
			switch {
			case errors.Is(err, auth.ErrSealed):
				if row.ExpiresAt == nil { // else it was rotated away
					s.log.Error("a webhook's secret cannot be read; rotate it", "webhook", row.WebhookID, "error", err)
				}
				continue
			case err != nil:
				return err
			case sealed == nil:
				continue
			}
			if err := q.SetWebhookSecret(ctx, db.SetWebhookSecretParams{ID: row.ID, Secret: sealed}); err != nil {
				return err
			}
		}
		return nil
	})
}

// signatures returns the header webhook-signature: for each secret the version of the scheme and the HMAC-SHA256 of id,
// time and body.
func signatures(secrets [][]byte, id, timestamp string, body []byte) string {
	out := make([]string, len(secrets))
	for i, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
		out[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(out, " ")
}
