package pgserver_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/pgserver"
	"github.com/boughdb/bough/server/pgtest"
)

// A statement that needs too much memory fails. Its connection, others' and the server go on.
func TestMemoryOfBackendsIsLimited(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux limits the memory of another process")
	}
	eachMajor(t, func(t *testing.T, inst pgserver.Installation) {
		o := options(pgtest.DataDir(t))
		o.BinDir, o.BackendMemory = inst.BinDir, 300<<20
		s := start(t, o)
		connect := func() *pgx.Conn {
			conn, err := pgx.Connect(t.Context(), s.URL("postgres"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close(t.Context()) })
			return conn
		}
		conn, other := connect(), connect()
		started := query[string](t, s.URL("postgres"), "select pg_postmaster_start_time()::text")
		for _, sql := range []string{
			"select length(string_agg(repeat('x', 1000000), '')) from generate_series(1, 600)",
			"select length(repeat('x', 600000000))",
			"select cardinality(array_agg(repeat('x', 10000))) from generate_series(1, 60000)",
			"select length(json_agg(repeat('x', 10000))::text) from generate_series(1, 60000)",
		} {
			var n int
			err := conn.QueryRow(t.Context(), sql).Scan(&n)
			var e *pgconn.PgError
			if !errors.As(err, &e) || e.Code != "53200" {
				t.Errorf("%s: got %v, want an error with code 53200", sql, err)
			}
			for _, c := range []*pgx.Conn{conn, other} {
				if err := c.QueryRow(t.Context(), "select length(repeat('x', 50000000))").Scan(&n); err != nil || n != 50000000 {
					t.Fatalf("after %s: %v", sql, err)
				}
			}
		}
		if now := query[string](t, s.URL("postgres"), "select pg_postmaster_start_time()::text"); now != started {
			t.Error("the server has restarted")
		}
		// What usually needs memory has it.
		for _, sql := range []string{
			"create table numbers as select g, md5(g::text) from generate_series(1, 300000) g", "create index on numbers (md5)",
			"set max_parallel_workers_per_gather = 4; set parallel_setup_cost = 0; set work_mem = '64MB'; select md5, count(*) from numbers group by 1 order by 2 limit 1",
			"create database copy template template0", "vacuum full numbers",
		} {
			if _, err := other.Exec(t.Context(), sql); err != nil {
				t.Errorf("%s: %v", sql, err)
			}
		}
	})
}
