package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/postgres"
)

// rowsOfAuthor is how many posts an author has.
const rowsOfAuthor = 100

// The databases of the benchmark. Each one that is served has a control database of its own.
const (
	mainDatabase = "main"
	wideDatabase = "wide" // main and very many tables
)

// tables are those that requests read, and entries, which requests insert into so that posts stays as it is. Nothing is
// to vacuum them while they are measured.
const tables = `
	create table authors (
		id bigint primary key,
		name text not null
	);
	create table posts (
		id bigint primary key,
		author_id bigint not null references authors,
		title text not null,
		body text not null,
		views bigint not null,
		amount numeric not null,
		created_at timestamptz not null,
		data jsonb not null
	) with (autovacuum_enabled = false);
	create table entries (like posts) with (autovacuum_enabled = false);
	alter table entries alter id add generated always as identity, add primary key (id);`

// fillTables makes about 370 bytes of JSON of each row.
const fillTables = `
	insert into authors
	select i, 'Author number ' || i from generate_series(1, ($1::bigint + $2 - 1) / $2) i;`

const fillPosts = `
	insert into posts
	select i, 1 + (i - 1) / $2::bigint, 'The title of post number ' || i,
		repeat('All work and no play "makes" Jack a dull boy. ', 3), i * 7919 % 100000, (i * 104729 % 10000000) / 100.0,
		'2025-01-01 00:00:00+00'::timestamptz + i * interval '1 minute',
		jsonb_build_object('tags', jsonb_build_array('tag' || i % 10, 'tag' || i % 7), 'draft', i % 3 = 0)
	from generate_series(1, $1::bigint) i`

// protect gives signed-in users the posts by a policy of row-level security. It needs what the server makes: its role
// and the schema auth.
const protect = `
	grant select on posts to authenticated;
	alter table posts enable row level security;
	create policy readers on posts for select to authenticated using ((select auth.uid()) is not null)`

// widen adds tables of twelve columns, with a key, an index and a reference each.
const widen = `
	do $$
	begin
		for i in 1..%d loop
			execute format($table$
				create table wide_%%1$s (
					id bigint primary key, parent_id bigint references wide_%%2$s, name text not null, note text,
					count int not null default 0, price numeric, active boolean not null default true, tags text[],
					data jsonb, day date, created_at timestamptz not null default now(), token uuid default gen_random_uuid()
				);
				create index on wide_%%1$s (parent_id)$table$, i, greatest(i - 1, 1));
		end loop;
	end $$`

const wideTables = 500

// fill makes the databases.
func (b *bench) fill(ctx context.Context, url func(database string) string) error {
	if err := postgres.EnsureDatabase(ctx, url(mainDatabase)); err != nil {
		return err
	}
	err := b.onDatabase(ctx, url(mainDatabase), func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, tables); err != nil {
			return err
		}
		for _, sql := range []string{fillTables, fillPosts} {
			if _, err := conn.Exec(ctx, sql, b.rows, rowsOfAuthor); err != nil {
				return err
			}
		}
		for _, sql := range []string{"create index on posts (author_id, id)", "vacuum (analyze) posts, authors", "checkpoint"} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("filling %s: %w", mainDatabase, err)
	}
	if !b.wants(partWide) {
		return nil
	}
	err = b.onDatabase(ctx, url("postgres"), func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "create database "+wideDatabase+" template "+mainDatabase)
		return err
	})
	if err == nil {
		err = b.onDatabase(ctx, url(wideDatabase), func(conn *pgx.Conn) error {
			if _, err := conn.Exec(ctx, fmt.Sprintf(widen, wideTables)); err != nil {
				return err
			}
			_, err := conn.Exec(ctx, "checkpoint")
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("filling %s: %w", wideDatabase, err)
	}
	return nil
}

// onDatabase works on a connection of its own.
func (b *bench) onDatabase(ctx context.Context, url string, work func(conn *pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return work(conn)
}
