package rows_test

import (
	"context"
	"errors"
	"testing"

	"github.com/boughdb/bough/server/rows"
)

func TestTransactionDecidesAfterItSawResults(t *testing.T) {
	t.Parallel()
	conn := setup(t, "create table t (id int primary key)")
	ctx := t.Context()
	role := createRole(t, conn)
	exec(t, conn, "grant all on t to "+role)
	s := &rows.Session{Role: role, Settings: []rows.Setting{{"request.jwt.claims", claims}}}
	run := func(commit bool, unnamed bool) {
		t.Helper()
		s.Unnamed = unnamed
		tx, err := rows.Begin(ctx, conn, s, "Serializable")
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(ctx)
		var inserted rows.Result
		var v rows.Values
		if err := tx.Run(ctx, rows.Step{Statement: statement("insert into t values ($1::int) returning id", []string{"1"}, "id"), Result: &inserted}); err != nil {
			t.Fatal(err)
		}
		if inserted.Affected != 1 || conn.TxStatus() != 'T' {
			t.Errorf("affected %d, status %c", inserted.Affected, conn.TxStatus())
		}
		if err := rows.Run(ctx, conn, nil); err == nil {
			t.Error("another transaction may use the connection")
		}
		// Role, settings and isolation hold for later statements.
		if err := tx.Run(ctx, rows.Step{Sink: &v, Statement: statement(
			"select current_user, current_setting('request.jwt.claims'), current_setting('transaction_isolation'), (select count(*) from t)", nil, "u", "c", "i", "n")}); err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{role, claims, "serializable", "1"} {
			if got := *v.Rows[0][i]; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		if err := tx.CheckConstraints(ctx); err != nil {
			t.Error(err)
		}
		if commit {
			if err := tx.Commit(ctx); err != nil {
				t.Error(err)
			}
		} else {
			tx.Rollback(ctx)
		}
		if err := tx.Run(ctx); !errors.Is(err, rows.ErrTxDone) {
			t.Errorf("got %v after the end", err)
		}
		wantClean(t, conn)
	}
	run(false, false)
	run(false, true)
	if got := value(t, conn, nil, "select count(*) from t"); got != "0" {
		t.Errorf("%s rows after a rollback", got)
	}
	run(true, false)
	if got := value(t, conn, nil, "select count(*) from t"); got != "1" {
		t.Errorf("%s rows after a commit", got)
	}
	exec(t, conn, "truncate t")
	run(true, true)
}

func TestTransactionThatNeverRan(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	ctx := t.Context()
	for _, end := range []func(*rows.Tx) error{
		func(tx *rows.Tx) error { return tx.Commit(ctx) },
		func(tx *rows.Tx) error { tx.Rollback(ctx); return nil },
		func(tx *rows.Tx) error { return tx.CheckConstraints(ctx) },
	} {
		tx, err := rows.Begin(ctx, conn, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := end(tx); err != nil {
			t.Error(err)
		}
		wantClean(t, conn)
	}
	if _, err := rows.Begin(ctx, conn, nil, "serializable; drop table t"); err == nil {
		t.Error("an isolation level that does not exist is accepted")
	}
}

func TestRollbackAfterTheContextEnded(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	ctx, stop := context.WithCancel(t.Context())
	tx, err := rows.Begin(ctx, conn, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Run(ctx, rows.Step{Statement: statement("select 1", nil, "a")}); err != nil {
		t.Fatal(err)
	}
	stop()
	tx.Rollback(ctx)
	wantClean(t, conn)

	tx, err = rows.Begin(t.Context(), conn, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Run(t.Context(), rows.Step{Statement: statement("select 1", nil, "a")}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wantClean(t, conn)
}

// A statement that was rolled back by a serialization failure leaves nothing behind.
func TestSerializationFailure(t *testing.T) {
	t.Parallel()
	conn := setup(t, "create table t (id int primary key, n int)", "insert into t values (1, 0)")
	other := connect(t, databaseURL(t, conn))
	ctx := t.Context()
	tx, err := rows.Begin(ctx, conn, nil, "repeatable read")
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Run(ctx, rows.Step{Statement: statement("select n from t", nil, "n")}); err != nil {
		t.Fatal(err)
	}
	exec(t, other, "update t set n = 2")
	wantCode(t, tx.Run(ctx, rows.Step{Statement: statement("update t set n = n + 1", nil)}), "40001")
	if err := tx.Commit(ctx); !errors.Is(err, rows.ErrTxDone) {
		t.Errorf("got %v", err)
	}
	wantClean(t, conn)
}
