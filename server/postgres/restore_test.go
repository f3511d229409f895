package postgres_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/boughdb/bough/server/postgres"
)

// Whatever of the data plane is dropped comes back, and what is whole is left alone.
func TestDataPlaneIsRestored(t *testing.T) {
	t.Parallel()
	f, names := setUp(t)
	for _, drop := range []string{
		"drop schema public cascade; create schema public; create table t (id int)",
		"drop schema auth cascade",
		"drop event trigger bough_ddl_end",
		"drop function auth.uid()",
	} {
		execute(t, f.url, drop)
		changed, left, err := f.RestoreDataPlane(t.Context(), f.Main(), "")
		if err != nil || !changed || left != "" {
			t.Errorf("after %q: changed %t, left %q, %v", drop, changed, left, err)
		}
		before := query[string](t, f.url, "select string_agg(xmin::text, ' ' order by oid) from pg_namespace")
		if changed, left, err := f.RestoreDataPlane(t.Context(), f.Main(), ""); err != nil || changed || left != "" {
			t.Errorf("once more after %q: changed %t, left %q, %v", drop, changed, left, err)
		}
		if after := query[string](t, f.url, "select string_agg(xmin::text, ' ' order by oid) from pg_namespace"); after != before {
			t.Errorf("after %q the second call wrote something", drop)
		}
	}
	if !query[bool](t, f.url, "select has_schema_privilege($1, 'public', 'usage') and has_table_privilege($2, 't', 'insert') and auth.uid() is null", names.Anon, names.Service) {
		t.Error("privileges are missing")
	}
}

// Statements that do not help are not executed again and again: each would be a change that is told of.
func TestFutileRestoringIsNotRepeated(t *testing.T) {
	t.Parallel()
	f, names := setUp(t)
	// Somebody does not let privileges be given, and counts how often it is tried: a sequence rolls nothing back.
	execute(t, f.url, "create sequence tried", `create function undo() returns event_trigger language plpgsql as $$ begin
		if exists (select from pg_event_trigger_ddl_commands() where command_tag = 'GRANT') then
			perform nextval('public.tried');
			raise exception 'no grants here';
		end if; end $$`,
		"revoke all on schema public from "+quote(names.Anon)+", public", "create event trigger z_undo on ddl_command_end execute function undo()")
	changed, left, err := f.RestoreDataPlane(t.Context(), f.Main(), "")
	if err != nil || changed || left == "" {
		t.Fatalf("changed %t, left %q, %v", changed, left, err)
	}
	before := query[int64](t, f.url, "select last_value from tried")
	if _, again, err := f.RestoreDataPlane(t.Context(), f.Main(), left); err != nil || again != left {
		t.Errorf("again: left %q, %v", again, err)
	}
	if after := query[int64](t, f.url, "select last_value from tried"); after != before {
		t.Errorf("tried %d times more", after-before)
	}
	execute(t, f.url, "drop event trigger z_undo")
	if changed, left, err := f.RestoreDataPlane(t.Context(), f.Main(), ""); err != nil || !changed || left != "" {
		t.Errorf("when it may be done: changed %t, left %q, %v", changed, left, err)
	}
}

// However many changes there are, one restoring runs at a time and one follows; one that fails is tried again.
func TestKeeperRestoresOneAtATime(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var calls []string
	running, most := 0, 0
	begun, proceed := make(chan struct{}, 100), make(chan struct{})
	fail := errors.New("not now")
	k := postgres.NewPlaneKeeper(func(_ context.Context, database, futile string) (bool, string, error) {
		mu.Lock()
		calls = append(calls, database+"/"+futile)
		n := len(calls)
		running++
		most = max(most, running)
		mu.Unlock()
		begun <- struct{}{}
		<-proceed
		mu.Lock()
		running--
		mu.Unlock()
		if n == 2 {
			return false, "rest", fail
		}
		return false, "rest", nil
	})
	postgres.SetKeeperPause(k, time.Millisecond)
	for range 100 {
		k.Changed("a")
	}
	<-begun
	for range 100 {
		k.Changed("a")
	}
	close(proceed)
	<-begun // what came meanwhile
	<-begun // since the second one failed
	k.Close()
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"a/", "a/rest", "a/rest"}; !slices.Equal(calls, want) || most != 1 {
		t.Errorf("calls %q, %d at a time; want %q, one at a time", calls, most, want)
	}
	k.Changed("a") // closed: nothing happens
}
