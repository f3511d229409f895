package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

var userID = uuid.MustParse("0190a0b0-0000-7000-8000-000000000001")

// fill gives both sides what they use up in all rounds: each connection has rows of its own, and of each it uses one once.
func (b *bench) fill(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, `insert into users (id, email) values ($1, 'benchmark@example.com')`, userID)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `insert into oauth_clients (id, kind, name, redirect_uris) values ($1, 'registered', 'benchmark', array[$2])`, clientID, redirectURI)
	if err != nil {
		return err
	}
	each := b.requests / b.connections * b.rounds
	if err := b.fillServer(ctx, conn, each); err != nil {
		return fmt.Errorf("for the server: %w", err)
	}
	if err := b.fillPgbench(ctx, conn, each); err != nil {
		return fmt.Errorf("for pgbench: %w", err)
	}
	_, err = conn.Exec(ctx, `analyze`)
	return err
}

// fillServer makes grants whose secrets the benchmark knows.
func (b *bench) fillServer(ctx context.Context, conn *pgx.Conn, each int) error {
	sum := sha256.Sum256([]byte(verifier))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	var grants []uuid.UUID
	var codes, refresh, access [][]byte
	hash := func(prefix string, connection, n int) []byte {
		sum := sha256.Sum256([]byte(secret(prefix, connection, n)))
		return sum[:]
	}
	for c := range b.connections {
		for n := range each {
			grants = append(grants, uuid.Must(uuid.NewV7()))
			codes, refresh, access = append(codes, hash(codePrefix, c, n)), append(refresh, hash(refreshPrefix, c, n)), append(access, hash(accessPrefix, c, n))
		}
	}
	return b.insert(ctx, conn, grants, codes, refresh, access, challenge)
}

// fillPgbench makes grants whose rows are found by their connection's number and a count.
func (b *bench) fillPgbench(ctx context.Context, conn *pgx.Conn, each int) error {
	var grants []uuid.UUID
	var codes, refresh, access [][]byte
	rows, err := conn.Query(ctx, `
		select md5('code ' || c || ' ' || n)::uuid, sha256(convert_to('code ' || c || ' ' || n, 'UTF8')),
			sha256(convert_to('access ' || c || ' ' || n, 'UTF8'))
		from generate_series(0, $1 - 1) c, generate_series(1, $2) n`, b.connections, each)
	if err != nil {
		return err
	}
	var grant uuid.UUID
	var code, token []byte
	_, err = pgx.ForEachRow(rows, []any{&grant, &code, &token}, func() error {
		grants, codes, access = append(grants, grant), append(codes, code), append(access, token)
		code, token = nil, nil
		return nil
	})
	if err != nil {
		return err
	}
	if err := b.insert(ctx, conn, grants, codes, nil, access, "unused"); err != nil {
		return err
	}
	grants, refresh = nil, nil
	rows, err = conn.Query(ctx, `
		select md5('refresh ' || c || ' ' || n)::uuid, sha256(convert_to('refresh ' || c || ' ' || n, 'UTF8'))
		from generate_series(0, $1 - 1) c, generate_series(1, $2) n`, b.connections, each)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, []any{&grant, &code}, func() error {
		grants, refresh = append(grants, grant), append(refresh, code)
		code = nil
		return nil
	})
	if err != nil {
		return err
	}
	return b.insert(ctx, conn, grants, nil, refresh, nil, "")
}

// insert stores grants, and for each of them a code, a refresh token and an access token, where there are any. The server
// redeems codes of grants of their own.
func (b *bench) insert(ctx context.Context, conn *pgx.Conn, grants []uuid.UUID, codes, refresh, access [][]byte, challenge string) error {
	_, err := conn.Exec(ctx, `
		insert into oauth_grants (id, client_id, user_id, scopes, resource, expires_at, last_used_at)
		select g, $2, $3, string_to_array($4, ' '), $5, now() + interval '1 day', now() from unnest($1::uuid[]) g`,
		grants, clientID, userID, scope, b.resource)
	if err != nil {
		return err
	}
	if codes != nil {
		_, err = conn.Exec(ctx, `
			insert into oauth_codes (hash, grant_id, redirect_uri, redirect_named, code_challenge, expires_at)
			select h, g, $3, true, $4, now() + interval '1 hour' from unnest($1::bytea[], $2::uuid[]) x (h, g)`, codes, grants, redirectURI, challenge)
		if err != nil {
			return err
		}
	}
	for name, hashes := range map[string][][]byte{"refresh": refresh, "access": access} {
		if hashes == nil {
			continue
		}
		_, err = conn.Exec(ctx, `
			insert into oauth_tokens (hash, kind, grant_id, generation, scopes, expires_at)
			select h, $3::oauth_token_kind, g, 0, string_to_array($4, ' '), now() + interval '1 day' from unnest($1::bytea[], $2::uuid[]) x (h, g)`,
			hashes, grants, name, scope)
		if err != nil {
			return err
		}
	}
	return nil
}
