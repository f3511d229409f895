package rows_test

import (
	"context"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/rows"
)

const claims = `{"role":"reader","sub":"0b52a9a0-95ab-4a3b-8a8e-5d7e5fb2b3aa","exp":1999999999}`

// orders is a connection to a database with rows of about 370 bytes of JSON.
func orders(b *testing.B) *pgconn.PgConn {
	b.Helper()
	pgtest.SharedRoles(b, "reader_bench")
	return setup(b, `create table orders (
		id bigint primary key, author_id int not null, title text not null, note text, price numeric(12,2) not null,
		paid boolean not null, created_at timestamptz not null, updated_at timestamptz not null, data jsonb not null)`,
		`insert into orders select i, i % 400, 'order number ' || i, repeat('lorem ipsum ', 10), i * 1.25, i % 2 = 0,
		timestamptz '2024-01-01' + i * interval '1 minute', timestamptz '2024-02-01' + i * interval '1.5 minute',
		jsonb_build_object('tags', array['a', 'b'], 'n', i) from generate_series(1, 20000) i`,
		`create index on orders (author_id, id)`, `grant select on orders to reader_bench`, `vacuum analyze orders`)
}

var orderColumns = []string{"id:n", "author_id:n", "title", "note", "price:n", "paid:b", "created_at:t", "updated_at:t", "data:j"}

const (
	getSQL  = `select id, author_id, title, note, price, paid, created_at, updated_at, data from orders where id = $1`
	listSQL = `select id, author_id, title, note, price, paid, created_at, updated_at, data from orders where author_id = $1 order by id limit 50`
)

func BenchmarkGet(b *testing.B)  { benchmark(b, getSQL, 20000) }
func BenchmarkList(b *testing.B) { benchmark(b, listSQL, 400) }

// benchmark measures a statement with encoding, each time beside a yardstick: the same messages sent with pgconn's
// pipeline, whose rows are only received. Both take turns at the same connection, so that other load on the machine
// concerns them alike: the ratios are what counts.
func benchmark(b *testing.B, sql string, n int) {
	conn := orders(b)
	outputs := statement(sql, nil, orderColumns...).Output
	session := &rows.Session{Role: "reader_bench", Settings: []rows.Setting{{Name: "request.jwt.claims", Value: claims}}}
	measure := func(ctx context.Context, run func(context.Context, rows.Step) error) func(*testing.B) {
		return func(b *testing.B) {
			size := 0
			compare(b, func(i int) {
				body := rows.NewBody(nil, false)
				s := compile.Statement{SQL: sql, Args: [][]byte{strconv.AppendInt(nil, int64(i%n), 10)}, Output: outputs}
				if err := run(ctx, rows.Step{Statement: &s, Sink: rows.NewObjects(body, outputs, rows.Options{})}); err != nil {
					b.Fatal(err)
				}
				size += len(body.Bytes())
				body.Release()
			}, yardstick(b, conn, sql, n))
			b.ReportMetric(float64(size)/float64(b.N), "bytes")
		}
	}
	run := func(ctx context.Context, step rows.Step) error { return rows.Run(ctx, conn, session, step) }
	b.Run("run", measure(context.Background(), run))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	b.Run("run-with-context", measure(ctx, run))
	b.Run("tx", measure(context.Background(), func(ctx context.Context, step rows.Step) error {
		tx, err := rows.Begin(ctx, conn, session, "")
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		if err := tx.Run(ctx, step); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}))
}

// compare runs both in alternating blocks and reports the median ratios of time and of this process's processor time.
// The time of an operation is that of the first alone.
func compare(b *testing.B, measured, yardstick func(int)) {
	b.Helper()
	const block = 20
	var times, cpus []float64
	timed := func(f func(int), i, n int) (wall, used time.Duration) {
		start, before := time.Now(), processorTime(b)
		for j := range n {
			f(i + j)
		}
		return time.Since(start), processorTime(b) - before
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += block {
		n := min(block, b.N-i)
		wall, used := timed(measured, i, n)
		b.StopTimer()
		yardWall, yardUsed := timed(yardstick, i, n)
		b.StartTimer()
		times = append(times, float64(wall)/float64(yardWall))
		cpus = append(cpus, float64(used)/float64(max(yardUsed, 1)))
	}
	b.StopTimer()
	slices.Sort(times)
	slices.Sort(cpus)
	b.ReportMetric(times[len(times)/2], "time-ratio")
	b.ReportMetric(cpus[len(cpus)/2], "cpu-ratio")
}

// processorTime is that of this process: the server's is not in it.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func yardstick(b *testing.B, conn *pgconn.PgConn, sql string, n int) func(int) {
	b.Helper()
	ctx := context.Background()
	settings, err := conn.Prepare(ctx, "settings", `select 1 where num_nulls(set_config('request.jwt.claims', $1, true), set_config('role', $2, true)) < 0`, nil)
	if err != nil {
		b.Fatal(err)
	}
	query, err := conn.Prepare(ctx, "query", sql, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = conn.Deallocate(ctx, "settings")
		_ = conn.Deallocate(ctx, "query")
	})
	return func(i int) {
		p := conn.StartPipeline(ctx)
		p.SendQueryStatement(settings, [][]byte{[]byte(claims), []byte("reader_bench")}, nil, nil)
		p.SendQueryStatement(query, [][]byte{strconv.AppendInt(nil, int64(i%n), 10)}, nil, nil)
		if err := p.Sync(); err != nil {
			b.Fatal(err)
		}
		for {
			r, err := p.GetResults()
			if err != nil {
				b.Fatal(err)
			}
			if r == nil {
				break
			}
			if rr, ok := r.(*pgconn.ResultReader); ok {
				for rr.NextRow() {
				}
				if _, err := rr.Close(); err != nil {
					b.Fatal(err)
				}
			}
		}
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncode measures the encoder alone.
func BenchmarkEncode(b *testing.B) {
	outputs := statement("", nil, orderColumns...).Output
	values := row()
	b.ReportAllocs()
	for b.Loop() {
		body := rows.NewBody(nil, false)
		s := rows.NewObjects(body, outputs, rows.Options{})
		_ = s.Begin()
		for range 50 {
			_ = s.Row(values)
		}
		_ = s.End()
		b.SetBytes(int64(len(body.Bytes())))
		body.Release()
	}
}

func row() [][]byte {
	return [][]byte{
		[]byte("12345"), []byte("345"), []byte("order number 12345"), []byte("lorem ipsum lorem ipsum lorem ipsum lorem ipsum lorem ipsum"),
		[]byte("15431.25"), []byte("t"), []byte("2024-01-09 13:45:00+00"), []byte("2024-02-13 20:37:30.5+00"),
		[]byte(`{"n": 12345, "tags": ["a", "b"]}`),
	}
}
