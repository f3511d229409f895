package oauth_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/oauth"
)

// left returns what a query of names finds, sorted.
func (w *world) left(sql string) []string {
	w.t.Helper()
	rows, err := w.pool.Query(w.t.Context(), sql)
	check(w.t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	check(w.t, err)
	slices.Sort(names)
	return names
}

func TestSweepClients(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	user := w.user("ada@example.com", db.UserRoleAuthenticated)
	w.exec(`
		insert into oauth_clients (id, kind, name, redirect_uris, created_at, last_used_at, expires_at)
		select id, case when id like 'https:%' then 'document' else 'registered' end::oauth_client_kind, 'x', '{}', now() - created, now() - used,
		    case when id like 'https:%' then now() end
		from (values
			('new', '1 hour'::interval, null::interval),
			('never used', '25 hours', null),
			('asks at present', '25 hours', null),
			('asked once', '25 hours', null),
			('used', '100 days', '1 day'),
			('not used for long', '100 days', '91 days'),
			('not used for long, connected', '100 days', '91 days'),
			('not used for long, disconnected', '100 days', '91 days'),
			('not used for long, expired', '100 days', '91 days'),
			('https://app.example.com/new', '1 hour', null),
			('https://app.example.com/never', '25 hours', null)
		) v (id, created, used)`)
	w.exec(`
		insert into oauth_grants (id, client_id, user_id, scopes, resource, expires_at, last_used_at, revoked_at)
		select gen_random_uuid(), client, $1, '{}', '', now() + expires, now(), now() + revoked
		from (values
			('used', '1 hour'::interval, null::interval),
			('not used for long, connected', '1 hour', null),
			('not used for long, disconnected', '1 hour', '-1 hour'),
			('not used for long, expired', '-1 hour', null)
		) v (client, expires, revoked)`, user.ID)
	w.exec(`
		insert into oauth_requests (id, browser, client_id, redirect_uri, redirect_named, scopes, resource, code_challenge, sign_in_again, expires_at)
		values (gen_random_uuid(), '', 'asks at present', '', true, '{}', '', '', false, now() + interval '1 minute'),
			(gen_random_uuid(), '', 'asked once', '', true, '{}', '', '', false, now() - interval '1 minute')`)
	check(t, w.a.Sweep(t.Context()))
	check(t, w.b.Sweep(t.Context()))
	want := []string{"asks at present", "https://app.example.com/new", "new", "not used for long, connected", "used"}
	if diff := cmp.Diff(want, w.left("select id from oauth_clients")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSweepTheRest(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	live := w.connect("ada@example.com", client)
	p, err := w.a.Verify(t.Context(), live.AccessToken)
	check(t, err)
	// The refresh lifetime of the tests is seven days.
	w.exec(`
		insert into oauth_tokens (hash, kind, grant_id, generation, scopes, expires_at, rotated_at)
		select convert_to(name, 'utf8'), kind::oauth_token_kind, $1, 0, '{}', now() + expires, case when kind = 'refresh' then now() end
		from (values
			('access, good', 'access', '1 minute'::interval),
			('access, expired', 'access', '-1 minute'),
			('access, long ago', 'access', '-2 hours'),
			('refresh, used', 'refresh', '1 minute'),
			('refresh, used and expired', 'refresh', '-6 days'),
			('refresh, long ago', 'refresh', '-8 days')
		) v (name, kind, expires)`, p.GrantID)
	w.exec(`
		insert into oauth_grants (id, client_id, user_id, scopes, resource, expires_at, last_used_at, revoked_at, revoked_reason)
		select gen_random_uuid(), $1, $2, '{}', '', now() + expires, now() + used, now() + revoked, name
		from (values
			('code waits', '5 minutes'::interval, null::interval, null::interval),
			('code was never redeemed', '-2 hours', null, null),
			('expired', '-6 days', '-13 days', null),
			('expired long ago', '-8 days', '-15 days', null),
			('revoked', '1 day', '-1 day', '-6 days'),
			('revoked long ago', '1 day', '-1 day', '-8 days')
		) v (name, expires, used, revoked)`, client.ID, p.ID)
	w.exec(`
		insert into oauth_requests (id, browser, client_id, redirect_uri, redirect_named, scopes, resource, code_challenge, sign_in_again, expires_at)
		values (gen_random_uuid(), '', $1, 'waits', true, '{}', '', '', false, now() + interval '1 minute'),
			(gen_random_uuid(), '', $1, 'expired', true, '{}', '', '', false, now() - interval '1 second')`, client.ID)
	w.exec(`
		insert into oauth_browsers (hash, session_id, expires_at)
		select convert_to(name, 'utf8'), (select id from sessions limit 1), now() + expires
		from (values ('signed in', '1 hour'::interval), ('out of time', '-1 second')) v (name, expires)`)
	check(t, w.a.Sweep(t.Context()))
	check(t, w.b.Sweep(t.Context()))
	for what, c := range map[string]struct {
		sql  string
		want []string
	}{
		"tokens": {"select convert_from(hash, 'utf8') from oauth_tokens where length(hash) <> 32",
			[]string{"access, expired", "access, good", "refresh, used", "refresh, used and expired"}},
		"grants":   {"select revoked_reason from oauth_grants where revoked_reason is not null", []string{"code waits", "expired", "revoked"}},
		"requests": {"select redirect_uri from oauth_requests where browser = ''", []string{"waits"}},
		"browsers": {"select convert_from(hash, 'utf8') from oauth_browsers where length(hash) <> 32", []string{"signed in"}},
	} {
		if diff := cmp.Diff(c.want, w.left(c.sql)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	if !w.alive(live) {
		t.Error("the grant that is in use is gone")
	}
	w.renew(client, live.RefreshToken)
	w.exec("update sessions set ended_at = now()")
	check(t, w.a.Sweep(t.Context()))
	if n := w.count("select count(*) from oauth_browsers"); n != 0 {
		t.Errorf("%d browsers of ended sessions are left", n)
	}
}

// A grant that is swept tells nobody: it had ended before.
func TestSweptGrantsAreNotAnnounced(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	user := w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	conn, err := pgx.ConnectConfig(t.Context(), w.pool.Config().ConnConfig)
	check(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "listen "+oauth.Channel)
	check(t, err)
	last := uuid.New()
	w.exec(`insert into oauth_grants (id, client_id, user_id, scopes, resource, expires_at, last_used_at, revoked_at)
		values (gen_random_uuid(), $1, $2, '{}', '', now() - interval '8 days', now(), null),
			(gen_random_uuid(), $1, $2, '{}', '', now() + interval '1 day', now(), now() - interval '8 days'),
			($3, $1, $2, '{}', '', now() + interval '1 day', now(), null)`, client.ID, user.ID, last)
	check(t, w.a.Sweep(t.Context()))
	w.exec("delete from oauth_grants")
	n, err := conn.WaitForNotification(t.Context())
	check(t, err)
	if n.Payload != last.String() {
		t.Errorf("the notification is of %s, want %s", n.Payload, last)
	}
}
