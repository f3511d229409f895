package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/postgres"
)

// dataset is a main database with pgbench's tables.
type dataset struct {
	size     int64 // asked for
	name     string
	url      string
	accounts int
	branches int
	actual   int64 // as PostgreSQL says
}

const (
	accountBytes = 156          // a row and its index entry
	emptyBytes   = 8 * megabyte // a database without tables
	branchRows   = 100_000      // accounts for each branch, as in pgbench
	tellersEach  = 10           // for each branch
	schemaTables = 4            // pgbench's
	schemaKeys   = 3            // of them have a primary key
)

func (d *dataset) tellers() int { return d.branches * tellersEach }

// newDataset plans a database of about the size.
func newDataset(serverURL string, size int64) (*dataset, error) {
	d := &dataset{size: size, name: "main_" + strconv.FormatInt(size/megabyte, 10)}
	d.accounts = int((size - emptyBytes) / accountBytes)
	d.branches = max(d.accounts/branchRows, 1)
	var err error
	d.url, err = postgres.WithDatabase(serverURL, d.name)
	return d, err
}

// fill makes the database. Under wal_level minimal nothing of it goes through the WAL.
func (d *dataset) fill(ctx context.Context) error {
	if err := postgres.EnsureDatabase(ctx, d.url); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, tables); err != nil {
			return err
		}
		for _, t := range []struct {
			name string
			rows int
			bid  func(i int) int
		}{
			{"branches (bid, bbalance)", d.branches, nil},
			{"tellers (tid, bid, tbalance)", d.tellers(), func(i int) int { return 1 + (i-1)/tellersEach }},
			{"accounts (aid, bid, abalance, filler)", d.accounts, func(i int) int { return 1 + (i-1)%d.branches }},
		} {
			into := "copy pgbench_" + t.name + " from stdin with (freeze)"
			if _, err := tx.Conn().PgConn().CopyFrom(ctx, rows(t.rows, t.bid, strings.Contains(t.name, "filler")), into); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, keys)
		return err
	})
	if err == nil {
		_, err = conn.Exec(ctx, "vacuum (analyze) pgbench_branches, pgbench_tellers, pgbench_accounts")
	}
	if err == nil {
		err = conn.QueryRow(ctx, "select pg_database_size(current_database())").Scan(&d.actual)
	}
	if err != nil {
		return fmt.Errorf("filling %s: %w", d.name, err)
	}
	return nil
}

const tables = `
	create table pgbench_branches (bid int not null, bbalance int, filler char(88));
	create table pgbench_tellers (tid int not null, bid int, tbalance int, filler char(84));
	create table pgbench_accounts (aid int not null, bid int, abalance int, filler char(84));
	create table pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));`

const keys = `
	set local maintenance_work_mem = '512MB';
	alter table pgbench_branches add primary key (bid);
	alter table pgbench_tellers add primary key (tid);
	alter table pgbench_accounts add primary key (aid);`

// rows writes the rows of a table in COPY's text format: number, branch, balance 0 and an empty filler.
func rows(n int, bid func(i int) int, filler bool) io.Reader {
	r, w := io.Pipe()
	go func() {
		var buf []byte
		for i := 1; i <= n; i++ {
			buf = strconv.AppendInt(buf, int64(i), 10)
			if bid != nil {
				buf = strconv.AppendInt(append(buf, '\t'), int64(bid(i)), 10)
			}
			buf = append(buf, "\t0"...)
			if filler {
				buf = append(buf, '\t')
			}
			buf = append(buf, '\n')
			if len(buf) < 64<<10 && i < n {
				continue
			}
			if _, err := w.Write(buf); err != nil {
				return // the reader is gone
			}
			buf = buf[:0]
		}
		_ = w.Close()
	}()
	return r
}

// checkSchema returns an error unless a database has the tables and their keys, and not a single row.
func checkSchema(ctx context.Context, url string) error {
	s, err := readSums(ctx, url)
	if err != nil {
		return err
	}
	if s.AccountRows+s.HistoryRows != 0 {
		return fmt.Errorf("the copy of the schema has %d rows", s.AccountRows+s.HistoryRows)
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var tables, keys int
	err = conn.QueryRow(ctx, `
		select count(*) filter (where relkind = 'r'), count(*) filter (where relkind = 'i')
		from pg_class where relnamespace = 'public'::regnamespace`).Scan(&tables, &keys)
	if err == nil && (tables != schemaTables || keys != schemaKeys) {
		err = fmt.Errorf("the copy of the schema has %d tables and %d keys, not %d and %d", tables, keys, schemaTables, schemaKeys)
	}
	return err
}
