package auth_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const issuer = "https://bough.example"

// setup returns a signer and a verifier that share a control database.
func setup(t testing.TB, outside *auth.Outside) (*auth.Signer, *auth.Tokens, *pgxpool.Pool) {
	t.Helper()
	url := pgtest.Template(t, "control", func(ctx context.Context, url string) error {
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return err
		}
		defer pool.Close()
		return postgres.Migrate(ctx, pool)
	})
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	signer, err := auth.NewSigner(pool, issuer, 15*time.Minute, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := signer.Ensure(context.Background()); err != nil {
		t.Fatal(err)
	}
	return signer, auth.NewTokens(pool, issuer, outside), pool
}

func sign(t testing.TB, s *auth.Signer, c auth.Claims) string {
	t.Helper()
	if c.UserID == uuid.Nil {
		c.UserID = uuid.New()
	}
	if c.SessionID == uuid.Nil {
		c.SessionID = uuid.New()
	}
	c.AppMetadata, c.UserMetadata = json.RawMessage(`{"plan":"gold"}`), json.RawMessage(`{"n":12345678901234567890}`)
	token, _, err := s.Sign(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return token
}
