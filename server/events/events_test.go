package events

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
	"github.com/boughdb/bough/server/safedial"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The example of the specification of Standard Webhooks.
func TestSignature(t *testing.T) {
	t.Parallel()
	secret := "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	key, err := readSecret(&secret)
	if err != nil {
		t.Fatal(err)
	}
	got := signatures([][]byte{key, []byte("another")}, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if first, _, _ := strings.Cut(got, " "); first != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("signature %s", first)
	}
	if len(strings.Fields(got)) != 2 {
		t.Errorf("%q has not a signature for each secret", got)
	}
	if showSecret(key) != secret {
		t.Errorf("%s became %s", secret, showSecret(key))
	}
}

func TestSecretLength(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bool{0: false, 23: false, 24: true, 25: true, 64: true, 65: false} {
		secret := secretPrefix + base64.StdEncoding.EncodeToString(make([]byte, n))
		if _, err := readSecret(&secret); (err == nil) != want {
			t.Errorf("%d bytes: %v, want accepted %v", n, err, want)
		}
	}
	a, errA := readSecret(nil)
	b, errB := readSecret(nil)
	if errA != nil || errB != nil || len(a) != 32 || cmp.Equal(a, b) {
		t.Errorf("new secrets %x and %x", a, b)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "0": 0, "120": 2 * time.Minute, "86400": 24 * time.Hour, "86401": 24 * time.Hour, "2147483647": 24 * time.Hour,
		"-1": 0, "1.5": 0, "soon": 0, "99999999999999999999": 0,
		"Sun, 01 Mar 2026 12:01:00 GMT": time.Minute, "Sun, 01 Mar 2026 11:00:00 GMT": 0, "Sun, 01 Mar 2037 12:00:00 GMT": 24 * time.Hour,
	} {
		if got := retryAfter(header, now); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	s := &Service{cfg: Config{Retries: []time.Duration{time.Second, time.Minute}}}
	answer := func(status int) attempt { return attempt{Status: &status} }
	for _, tc := range []struct {
		name     string
		a        attempt
		tries    int
		want     outcome
		min, max time.Duration
	}{
		{"success", answer(299), 0, outcome{status: db.DeliveryStatusDelivered}, 0, 0},
		{"late success", answer(200), 2, outcome{status: db.DeliveryStatusDelivered}, 0, 0},
		{"redirect", answer(301), 0, outcome{status: db.DeliveryStatusPending}, time.Second, 1200 * time.Millisecond},
		{"no answer", attempt{}, 1, outcome{status: db.DeliveryStatusPending}, time.Minute, 72 * time.Second},
		{"no answer at last", attempt{}, 2, outcome{status: db.DeliveryStatusFailed}, 0, 0},
		{"gone", answer(410), 0, outcome{status: db.DeliveryStatusFailed, disable: db.WebhookDisabledReasonGone}, 0, 0},
		{"asked to wait", attempt{Status: new(429), retryAfter: time.Hour}, 0, outcome{status: db.DeliveryStatusPending}, time.Hour, time.Hour},
		{"asked to wait less", attempt{Status: new(503), retryAfter: time.Second}, 1, outcome{status: db.DeliveryStatusPending}, time.Minute, 72 * time.Second},
	} {
		got := s.judge(tc.a, tc.tries)
		if got.delay < tc.min || got.delay > tc.max {
			t.Errorf("%s: delay %s, want %s to %s", tc.name, got.delay, tc.min, tc.max)
		}
		got.delay = 0
		if got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestReasonHidesTheURL(t *testing.T) {
	t.Parallel()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://192.0.2.1/hook?token=hunter2", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	s := New(nil, Config{}, nil)
	res, err := s.client.Do(req)
	if err == nil {
		res.Body.Close()
		t.Fatal("a special address was reached")
	}
	if got, want := reason(err), "connections to 192.0.2.1 are refused: it is a special-use address"; !strings.HasSuffix(got, want) || strings.Contains(got, "hunter2") {
		t.Errorf("reason %q", got)
	}
	if got := reason(errors.New("a\x00b\xff" + strings.Repeat("é", 5000))); !strings.HasPrefix(got, "a\uFFFDb\uFFFD") || len([]rune(got)) != keptBody {
		t.Errorf("reason of %d characters: %.20q", len([]rune(got)), got)
	}
}

// newService returns a service on a control database of its own, whose jobs nobody works on.
func newService(t *testing.T) *Service {
	t.Helper()
	url := pgtest.Template(t, "control", func(ctx context.Context, url string) error {
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return err
		}
		defer pool.Close()
		return postgres.Migrate(ctx, pool)
	})
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	vault, err := auth.NewVault("webhook secrets", strings.Repeat("secret", 8), "")
	if err != nil {
		t.Fatal(err)
	}
	s := New(pool, Config{Vault: vault, Targets: safedial.Options{AllowLoopback: true}, Retention: 30 * 24 * time.Hour}, slog.New(slog.DiscardHandler))
	jobs, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s.SetJobs(jobs)
	return s
}

// counts returns how many rows each table has.
func (s *Service) counts(t *testing.T, tables ...string) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, table := range tables {
		var n int
		if err := s.pool.QueryRow(t.Context(), "select count(*) from "+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		out[table] = n
	}
	return out
}

func (s *Service) hook(t *testing.T, types ...string) Webhook {
	t.Helper()
	url := "http://127.0.0.1:1/"
	w, _, err := s.Create(t.Context(), &auth.Principal{Service: true, Admin: true}, Change{URL: &url, Events: types}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// An event, its deliveries and their jobs are there when the change is committed, and only then.
func TestEventIsPartOfTheTransaction(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.hook(t, "*")
	s.hook(t, "branch.ready", "branch.deleted")
	s.hook(t, "branch.deleted")
	publish := func(after error) {
		t.Helper()
		err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
			if err := s.Publish(t.Context(), tx, "branch.ready", map[string]string{"slug": "demo"}); err != nil {
				t.Fatal(err)
			}
			return after
		})
		if !errors.Is(err, after) {
			t.Fatal(err)
		}
	}
	tables := []string{"events", "webhook_deliveries", "river_job"}
	publish(errors.New("the change is undone"))
	if diff := cmp.Diff(map[string]int{"events": 0, "webhook_deliveries": 0, "river_job": 0}, s.counts(t, tables...)); diff != "" {
		t.Errorf("after a rollback (-want +got):\n%s", diff)
	}
	publish(nil)
	if diff := cmp.Diff(map[string]int{"events": 1, "webhook_deliveries": 2, "river_job": 2}, s.counts(t, tables...)); diff != "" {
		t.Errorf("after a commit (-want +got):\n%s", diff)
	}
}

// A webhook that is deleted while a change tells of itself must not undo the change.
func TestDeletedWebhookDoesNotUndoAChange(t *testing.T) {
	t.Parallel()
	s := newService(t)
	w := s.hook(t, "*")
	deleting, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := db.New(deleting).DeleteWebhook(t.Context(), w.ID); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	published := make(chan error, 1)
	go func() {
		published <- pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error { return s.Publish(t.Context(), tx, "branch.ready", nil) })
	}()
	time.Sleep(200 * time.Millisecond) // it waits for the webhook's row
	if err := deleting.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-published; err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]int{"events": 1, "webhook_deliveries": 0}, s.counts(t, "events", "webhook_deliveries")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// One that is due is claimed once; one that nobody tried in time is queued again, once.
func TestClaims(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.hook(t, "*")
	if err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error { return s.Publish(t.Context(), tx, "branch.ready", nil) }); err != nil {
		t.Fatal(err)
	}
	q := db.New(s.pool)
	rows, err := q.ListDeliveries(t.Context(), db.ListDeliveriesParams{MaxRows: 1})
	if err != nil {
		t.Fatal(err)
	}
	id := rows[0].WebhookDelivery.ID
	claim := func() bool {
		t.Helper()
		_, err := q.ClaimDelivery(t.Context(), db.ClaimDeliveryParams{ID: id, LeaseSeconds: 20})
		if err != nil && !none(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	lost := func() int {
		t.Helper()
		before := s.counts(t, "river_job")["river_job"]
		if err := s.takeUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s.counts(t, "river_job")["river_job"] - before
	}
	age := func(column, by string) {
		t.Helper()
		if _, err := s.pool.Exec(t.Context(), "update webhook_deliveries set "+column+" = "+column+" - $1::interval", by); err != nil {
			t.Fatal(err)
		}
	}
	if lost() != 0 || !claim() || claim() {
		t.Error("a fresh delivery is claimed by other than one worker")
	}
	age("due_at", "1 hour")
	if lost() != 0 {
		t.Error("a delivery that is being tried was taken for lost")
	}
	age("lease_until", "1 minute")
	if lost() != 1 || lost() != 0 || !claim() {
		t.Error("a lost delivery was not queued again once")
	}
	// A worker whose claim ended cannot overwrite what another found out.
	stale := time.Now().Add(-time.Hour)
	if _, err := q.RecordAttempt(t.Context(), db.RecordAttemptParams{ID: id, Lease: &stale, Attempt: []byte(`{}`), Keep: 1, Status: db.DeliveryStatusFailed}); !none(err) {
		t.Errorf("a stale worker's record: %v", err)
	}
}

// A secret that no key opens is no endless loop of jobs: the try counts, and says what is wrong.
func TestDeliveryThatCannotBeSigned(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.cfg.Retries = []time.Duration{time.Minute}
	w := s.hook(t, "*")
	if _, err := s.pool.Exec(t.Context(), "update webhook_secrets set secret = '0123456789'"); err != nil {
		t.Fatal(err)
	}
	p := &auth.Principal{Service: true, Admin: true}
	d, err := s.Test(t.Context(), p, w.ID)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []db.DeliveryStatus{db.DeliveryStatusPending, db.DeliveryStatusFailed} {
		wait, err := s.deliver(t.Context(), d.WebhookDelivery.ID)
		if err != nil || (wait >= time.Minute) != (want == db.DeliveryStatusPending) {
			t.Fatalf("try %d: again in %s, %v", i+1, wait, err)
		}
		if d, err = s.Delivery(t.Context(), p, d.WebhookDelivery.ID); err != nil {
			t.Fatal(err)
		}
		if got := string(d.WebhookDelivery.Attempts); d.WebhookDelivery.Status != want || !strings.Contains(got, "cannot be signed: the secret was encrypted with a key") {
			t.Errorf("after try %d: %s, %s", i+1, d.WebhookDelivery.Status, got)
		}
		if _, err := s.pool.Exec(t.Context(), "update webhook_deliveries set due_at = now()"); err != nil {
			t.Fatal(err)
		}
	}
	// Rotating the secret mends it at once, although the old one would sign too for a day.
	if _, err := s.RotateSecret(t.Context(), p, w.ID, nil, false); err != nil {
		t.Fatal(err)
	}
	if secrets, err := s.secrets(t.Context(), db.New(s.pool), w.ID); err != nil || len(secrets) != 1 {
		t.Errorf("%d secrets sign after a rotation, %v", len(secrets), err)
	}
}

func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	s := newService(t)
	w := s.hook(t, "*")
	_, err := s.pool.Exec(t.Context(), `
		insert into events (id, type, payload) values (gen_random_uuid(), 'branch.ready', '{}');
		insert into webhook_deliveries (id, webhook_id, event_id, event_type, attempts) select id, '`+w.ID.String()+`', id, type, '[{"n":0}]' from events`)
	if err != nil {
		t.Fatal(err)
	}
	q := db.New(s.pool)
	for _, n := range []string{"1", "2", "3"} {
		rows, err := q.ListDeliveries(t.Context(), db.ListDeliveriesParams{MaxRows: 1})
		if err != nil {
			t.Fatal(err)
		}
		d, err := q.ClaimDelivery(t.Context(), db.ClaimDeliveryParams{ID: rows[0].WebhookDelivery.ID, LeaseSeconds: 20})
		if err != nil {
			t.Fatal(err)
		}
		if d, err = q.RecordAttempt(t.Context(), db.RecordAttemptParams{ID: d.ID, Lease: d.LeaseUntil, Attempt: []byte(`{"n":` + n + `}`), Keep: 2, Status: db.DeliveryStatusPending}); err != nil {
			t.Fatal(err)
		}
		if n == "3" && string(d.Attempts) != `[{"n": 2}, {"n": 3}]` {
			t.Errorf("attempts %s", d.Attempts)
		}
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	s := newService(t)
	w := s.hook(t, "*")
	_, err := s.pool.Exec(t.Context(), `
		insert into events (id, type, payload, created_at) select gen_random_uuid(), 'e'||g, '{}', now() - g * interval '10 days' from generate_series(1, 5) g;
		insert into webhook_deliveries (id, webhook_id, event_id, event_type, status, created_at)
			select gen_random_uuid(), '`+w.ID.String()+`', id, type, case type when 'e5' then 'pending' else 'delivered' end::delivery_status, created_at from events where type in ('e2', 'e4', 'e5');
		insert into webhook_secrets (id, webhook_id, secret, expires_at)
			select gen_random_uuid(), '`+w.ID.String()+`', '', now() + h * interval '1 hour' from (values (-1), (1)) v(h)`)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// Of the events of 10 to 50 days ago those of 30 and 40 go; what is still on its way keeps that of 50.
	if diff := cmp.Diff(map[string]int{"events": 3, "webhook_deliveries": 2, "webhook_secrets": 2}, s.counts(t, "events", "webhook_deliveries", "webhook_secrets")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
