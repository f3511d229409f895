package httpapi_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

// A table with a policy on the token's subject shows each user her own rows.
func TestPoliciesSeeTheSignedInUser(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Exec(t, s.Main, `
		create schema if not exists auth;
		create or replace function auth.uid() returns uuid language sql stable as
			$$ select nullif(nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub', '')::uuid $$;
		grant usage on schema auth to authenticated;
		create table notes (owner uuid not null default auth.uid(), text text);
		alter table notes enable row level security;
		create policy own on notes using (owner = auth.uid()) with check (owner = auth.uid());
		grant select, insert on notes to authenticated`)
	conn, err := pgx.Connect(t.Context(), s.Main)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	// as runs a statement as a request with the access token does.
	as := func(session *client.Session, sql string) ([]string, error) {
		payload, err := base64.RawURLEncoding.DecodeString(strings.Split(session.AccessToken, ".")[1])
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "select set_config('role', 'authenticated', true), set_config('request.jwt.claims', $1, true)", string(payload)); err != nil {
				return err
			}
			rows, err := tx.Query(t.Context(), sql)
			if err != nil {
				return err
			}
			out, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
		return out, err
	}
	first, second := signUp(t, s, ada), signUp(t, s, "grace@example.com")
	for name, session := range map[string]*client.Session{"ada": first, "grace": second} {
		got, err := as(session, fmt.Sprintf("insert into notes (text) values ('%s''s note') returning text", name))
		if err != nil || len(got) != 1 {
			t.Fatalf("%v, %v", got, err)
		}
	}
	for name, session := range map[string]*client.Session{"ada": first, "grace": second} {
		got, err := as(session, "select text from notes")
		if err != nil {
			t.Fatal(err)
		}
		diff(t, name+"'s rows", []string{name + "'s note"}, got)
	}
	// The same by the tables API.
	for name, session := range map[string]*client.Session{"ada": first, "grace": second} {
		eventually(t, "the table in the API", func() bool {
			resp, body := call(t, s, "GET", "/api/v1/tables/notes?select=text", "", "Authorization", "Bearer "+session.AccessToken)
			return resp.StatusCode == 200 && body == `[{"text":"`+name+`'s note"}]`
		})
	}
	if _, err := as(first, "insert into notes values ('"+second.User.ID.String()+"', 'forged') returning text"); err == nil {
		t.Error("a row in another's name was written")
	}
}

// A sign-in over HTTP, with the default cost of a hash.
func BenchmarkSignIn(b *testing.B) {
	s := servertest.Start(b, func(cfg *server.Config) {
		cfg.Auth.RateLimit, cfg.Auth.HashMemory, cfg.Auth.HashIterations = false, 19456, 2
	})
	post := func(path string, want int) {
		resp, err := http.Post(s.URL+path, "application/json", strings.NewReader(`{"email":"`+ada+`","password":"`+pass+`"}`))
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want {
			b.Fatalf("status %d", resp.StatusCode)
		}
	}
	post("/api/v1/auth/signup", 201)
	for b.Loop() {
		post("/api/v1/auth/signin", 200)
	}
}
