package main

import (
	"context"
	"fmt"
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

// newDataset makes and fills a database of about the size.
func newDataset(ctx context.Context, serverURL string, size int64) (*dataset, error) {
	d := &dataset{size: size, name: "main_" + strconv.FormatInt(size/megabyte, 10)}
	d.accounts = int((size - emptyBytes) / accountBytes)
	d.branches = max(d.accounts/branchRows, 1)
	var err error
	if d.url, err = postgres.WithDatabase(serverURL, d.name); err != nil {
		return nil, err
	}
	if err := postgres.EnsureDatabase(ctx, d.url); err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, stmt := range d.statements() {
		if _, err := conn.Exec(ctx, stmt); err != nil {
			return nil, fmt.Errorf("filling %s: %w", d.name, err)
		}
	}
	err = conn.QueryRow(ctx, "select pg_database_size(current_database())").Scan(&d.actual)
	return d, err
}

func (d *dataset) statements() []string {
	fill := strings.NewReplacer("BRANCHES", strconv.Itoa(d.branches), "TELLERS", strconv.Itoa(d.tellers()),
		"ACCOUNTS", strconv.Itoa(d.accounts)).Replace
	return []string{
		"create table pgbench_branches (bid int not null, bbalance int, filler char(88)) with (fillfactor = 100)",
		"create table pgbench_tellers (tid int not null, bid int, tbalance int, filler char(84)) with (fillfactor = 100)",
		"create table pgbench_accounts (aid int not null, bid int, abalance int, filler char(84)) with (fillfactor = 100)",
		"create table pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22))",
		fill("insert into pgbench_branches select b, 0 from generate_series(1, BRANCHES) b"),
		fill("insert into pgbench_tellers select t, 1 + (t - 1) / 10, 0 from generate_series(1, TELLERS) t"),
		fill("insert into pgbench_accounts select a, 1 + (a - 1) % BRANCHES, 0, '' from generate_series(1, ACCOUNTS) a"),
		"alter table pgbench_branches add primary key (bid)",
		"alter table pgbench_tellers add primary key (tid)",
		"alter table pgbench_accounts add primary key (aid)",
		"vacuum (analyze) pgbench_branches, pgbench_tellers, pgbench_accounts",
		"checkpoint",
	}
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
