package pgcopy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/pgtest"
)

// bank fills a database with accounts and returns the sum of their balances.
func bank(t testing.TB, url string) int64 {
	t.Helper()
	execute(t, connectTo(t, url), `
		create table accounts (id int primary key, balance bigint not null check (balance > -1000000000), filler text);
		create table transfers (id bigint generated always as identity primary key, "from" int references accounts, "to" int references accounts, amount bigint);
		insert into accounts select i, 1000, repeat('x', 500) from generate_series(1, 20000) i`)
	return 20000 * 1000
}

// transferAll moves money between accounts over several sessions until ctx
// ends, and reports the number of transfers and the first failure.
func transferAll(ctx context.Context, url string, sessions int) (wait func() (int64, error)) {
	var wg sync.WaitGroup
	var done atomic.Int64
	failures := make(chan error, sessions)
	for range sessions {
		wg.Go(func() {
			conn, err := pgx.Connect(context.Background(), url)
			if err != nil {
				failures <- err
				return
			}
			defer conn.Close(context.Background())
			for ctx.Err() == nil {
				from, to, amount := rand.IntN(20000)+1, rand.IntN(20000)+1, rand.IntN(100)
				if from > to {
					from, to, amount = to, from, -amount // an order without deadlocks
				}
				err := pgx.BeginFunc(context.Background(), conn, func(tx pgx.Tx) error {
					var batch pgx.Batch
					batch.Queue("update accounts set balance = balance - $1 where id = $2", amount, from)
					batch.Queue("update accounts set balance = balance + $1 where id = $2", amount, to)
					batch.Queue(`insert into transfers ("from", "to", amount) values ($1, $2, $3)`, from, to, amount)
					return tx.SendBatch(context.Background(), &batch).Close()
				})
				if err != nil {
					failures <- err
					return
				}
				done.Add(1)
			}
		})
	}
	return func() (int64, error) {
		wg.Wait()
		close(failures)
		return done.Load(), <-failures
	}
}

func TestCopyWhileWritersWork(t *testing.T) {
	t.Parallel()
	for name, dump := range schemaReaders(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := pgtest.Database(t)
			want := bank(t, source)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			wait := transferAll(ctx, source, 4)
			for range 3 {
				target := pgtest.Database(t)
				if _, err := Copy(t.Context(), Options{Source: config(t, source), Target: config(t, target), PGDump: dump}); err != nil {
					t.Fatal(err)
				}
				conn := connectTo(t, target)
				if got := one[int64](t, conn, "select sum(balance)::bigint from accounts"); got != want {
					t.Errorf("the balances sum up to %d, want %d", got, want)
				}
				// Each account's balance is what its transfers say.
				if n := one[int](t, conn, `
					with moved as (
						select id, sum(amount) as sum
						from (select "from" as id, -amount as amount from transfers union all select "to", amount from transfers) m
						group by id
					)
					select count(*) from accounts left join moved using (id)
					where balance <> 1000 + coalesce(sum, 0)`); n > 0 {
					t.Errorf("%d accounts do not agree with the transfers", n)
				}
				execute(t, conn, `insert into transfers ("from", "to", amount) values (1, 2, 3)`) // with a fresh id
			}
			stop()
			transfers, err := wait()
			if err != nil {
				t.Errorf("a writer failed: %v", err)
			}
			if transfers < 100 {
				t.Errorf("only %d transfers were made meanwhile", transfers)
			}
		})
	}
}

// A copy that meets changes of the schema is complete or fails as retryable.
func TestSchemaChangesDuringCopies(t *testing.T) {
	t.Parallel()
	for name, dump := range schemaReaders(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := pgtest.Database(t)
			execute(t, connectTo(t, source), `
				create table steady (id int primary key, v text);
				insert into steady select i, 'x' from generate_series(1, 1000) i;
				create table rewritten (id int primary key, v int);
				insert into rewritten select i, i from generate_series(1, 1000) i`)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var wg sync.WaitGroup
			wg.Go(func() {
				conn, err := pgx.Connect(context.Background(), source)
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close(context.Background())
				for i := 0; ctx.Err() == nil; i++ {
					for _, sql := range []string{
						"create table t%d (id int primary key); insert into t%[1]d values (1)",
						"alter table rewritten alter column v type bigint",
						"alter table t%d add column v text default 'x'; create index on t%[1]d (v)",
						"create or replace function f() returns int language sql as 'select %d'",
						"create view v%d as select * from t%[1]d",
						"begin; truncate rewritten; insert into rewritten select i, %d from generate_series(1, 1000) i; commit",
						"drop view v%d; drop table t%[1]d",
						"alter table rewritten alter column v type int",
					} {
						if strings.Contains(sql, "%") {
							sql = fmt.Sprintf(sql, i)
						}
						_, err := conn.PgConn().Exec(context.Background(), sql).ReadAll()
						var pg *pgconn.PgError
						if dump != "" && errors.As(err, &pg) && pg.Code == "40P01" {
							continue // pg_dump waits for locks while it holds others
						}
						if err != nil {
							t.Errorf("%s: %v", sql, err)
							return
						}
					}
					time.Sleep(5 * time.Millisecond)
				}
			})
			complete := 0
			for range 5 {
				target := pgtest.Database(t)
				_, err := Copy(t.Context(), Options{Source: config(t, source), Target: config(t, target), PGDump: dump})
				if err != nil {
					if !Retryable(err) {
						t.Errorf("not retryable: %v", err)
					}
					continue
				}
				complete++
				conn := connectTo(t, target)
				for table, want := range map[string]int{"steady": 1000, "rewritten": 1000} {
					if got := one[int](t, conn, "select count(*) from "+table); got != want {
						t.Errorf("%s has %d rows, want %d", table, got, want)
					}
				}
			}
			stop()
			wg.Wait()
			t.Logf("%d of 5 copies were complete", complete)
		})
	}
}

func TestLockedTableIsRetryable(t *testing.T) {
	t.Parallel()
	source, target := pgtest.Database(t), pgtest.Database(t)
	conn := connectTo(t, source)
	execute(t, conn, "create table t ()")
	execute(t, conn, "begin; lock table t in access exclusive mode")
	_, err := Copy(t.Context(), Options{Source: config(t, source), Target: config(t, target)})
	if !Retryable(err) {
		t.Errorf("got error %v, want a retryable one", err)
	}
}

func TestCancelStopsEverything(t *testing.T) {
	before := runtime.NumGoroutine()
	for name, dump := range schemaReaders(t) {
		for _, when := range []Phase{PhaseSchema, PhaseRows, PhaseIndexes, PhaseRefresh} {
			t.Run(fmt.Sprintf("%s, %s", name, when), func(t *testing.T) {
				source, target := pgtest.Database(t), pgtest.Database(t)
				bank(t, source)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				reason := errors.New("enough")
				var canceled time.Time
				_, err := Copy(ctx, Options{
					Source: config(t, source), Target: config(t, target), PGDump: dump,
					Progress: func(p Progress) {
						if p.Phase == when && canceled.IsZero() && (when != PhaseRows || p.Bytes > 0) {
							canceled = time.Now()
							cancel(reason)
						}
					},
				})
				if took := time.Since(canceled); took > 3*time.Second {
					t.Errorf("it took %v to end", took)
				}
				if !errors.Is(err, reason) {
					t.Errorf("got error %v", err)
				}
				conn := connectTo(t, pgtest.ServerURL(t))
				databases := []string{config(t, source).Database, config(t, target).Database}
				deadline := time.Now().Add(3 * time.Second)
				for one[int](t, conn, "select count(*) from pg_stat_activity where datname = any ($1) and application_name = 'pgcopy'", databases) > 0 {
					if time.Now().After(deadline) {
						t.Error("there are sessions left")
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
	}
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > before+5 {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, now %d:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A role that may do no more than log in and create databases and roles copies
// what it owns.
func TestOwnerWithoutSuperuser(t *testing.T) {
	t.Parallel()
	owner, member := role(t, "login createdb createrole"), role(t, "")
	execute(t, connectTo(t, pgtest.ServerURL(t)), "grant "+member+" to "+owner)
	for name, dump := range schemaReaders(t) {
		t.Run(name, func(t *testing.T) {
			source, target := pgtest.Database(t), pgtest.Database(t)
			for _, url := range []string{source, target} {
				execute(t, connectTo(t, url), "alter database "+pgx.Identifier{config(t, url).Database}.Sanitize()+" owner to "+owner)
			}
			source, target = withUser(t, source, owner), withUser(t, target, owner)
			conn := connectTo(t, source)
			execute(t, conn, strings.ReplaceAll(`
				create extension pg_trgm;
				create schema app;
				grant all on schema app to pgcopy_member;
				create table app.t (id int generated always as identity primary key, v text);
				insert into app.t (v) select i::text from generate_series(1, 1000) i;
				create index on app.t using gin (v gin_trgm_ops);
				create table app.by_member (id int);
				insert into app.by_member values (1);
				alter table app.by_member owner to pgcopy_member;
				create function app.f() returns trigger language plpgsql as 'begin return new; end';
				create trigger tr before update on app.t for each row execute function app.f();
				create view app.v as select * from app.t;
				create materialized view app.m as select count(*) from app.t;
				alter table app.t enable row level security;
				create policy p on app.t using (true);
				grant select on app.t to public;
				revoke usage on schema public from public;
				alter default privileges in schema app grant select on tables to pgcopy_member;
				create publication pub for table app.t;
				select lo_from_bytea(77, 'x')`, "pgcopy_member", member))
			if _, err := Copy(t.Context(), Options{Source: config(t, source), Target: config(t, target), PGDump: dump}); err != nil {
				t.Fatal(err)
			}
			mustBeEqual(t, source, target, true)
			if n := one[int](t, connectTo(t, target), "select count(*) from app.t"); n != 1000 {
				t.Errorf("%d rows were copied, want 1000", n)
			}
			execute(t, conn, "drop publication pub") // a role must not own anything to be dropped
		})
	}
}

func TestForcedRowSecurityIsAnError(t *testing.T) {
	t.Parallel()
	forced := role(t, "login")
	for name, dump := range schemaReaders(t) {
		t.Run(name, func(t *testing.T) {
			source, target := pgtest.Database(t), pgtest.Database(t)
			for _, url := range []string{source, target} {
				execute(t, connectTo(t, url), "alter database "+pgx.Identifier{config(t, url).Database}.Sanitize()+" owner to "+forced)
			}
			super := source
			source, target = withUser(t, source, forced), withUser(t, target, forced)
			execute(t, connectTo(t, source), `
				create table hidden (id int);
				insert into hidden values (1), (2);
				alter table hidden enable row level security, force row level security;
				create policy one on hidden using (id = 1)`)
			_, err := Copy(t.Context(), Options{Source: config(t, source), Target: config(t, target), PGDump: dump})
			if err == nil || !strings.Contains(err.Error(), "hidden") {
				t.Errorf("got error %v, want one about the table", err)
			}
			// A superuser sees all rows.
			again := pgtest.Database(t)
			if _, err := Copy(t.Context(), Options{Source: config(t, super), Target: config(t, again), PGDump: dump}); err != nil {
				t.Fatal(err)
			}
			mustBeEqual(t, super, again, true)
		})
	}
}
