package pgcopy

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/boughdb/bough/server/pgtest"
)

// BenchmarkCopy copies a database like pgbench's, with more indexes, of
// BOUGH_BENCH_MB megabytes (100 if not set), and for comparison lets pg_dump
// and psql do it where they are installed.
func BenchmarkCopy(b *testing.B) {
	megabytes := 100
	if v := os.Getenv("BOUGH_BENCH_MB"); v != "" {
		var err error
		if megabytes, err = strconv.Atoi(v); err != nil {
			b.Fatal(err)
		}
	}
	source := pgtest.Database(b)
	execute(b, connectTo(b, source), fmt.Sprintf(`
		create table accounts (id int primary key, branch int not null, balance int not null, filler char(84) not null);
		create table history (id bigint generated always as identity primary key, account int, delta int, at timestamptz default now(), note text);
		insert into accounts select i, i %% 100, i, 'x' from generate_series(1, %[1]d * 4500) i;
		insert into history (account, delta, note) select 1 + i %% (%[1]d * 4500), i, md5(i::text) from generate_series(1, %[1]d * 2200) i;
		create index on accounts (branch);
		create index on history (account);
		alter table history add foreign key (account) references accounts`, megabytes))
	execute(b, connectTo(b, source), "vacuum analyze")
	size := one[int64](b, connectTo(b, source), "select pg_database_size(current_database())")

	for name, dump := range schemaReaders(b) {
		for _, schemaOnly := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/schemaOnly=%t", name, schemaOnly), func(b *testing.B) {
				if !schemaOnly {
					b.SetBytes(size)
				}
				for b.Loop() {
					b.StopTimer()
					target := pgtest.Database(b)
					b.StartTimer()
					if _, err := Copy(b.Context(), Options{Source: config(b, source), Target: config(b, target), PGDump: dump, SchemaOnly: schemaOnly}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	dump := pgDump(b)
	if dump == "" {
		return
	}
	b.Run("pg_dump|psql", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			b.StopTimer()
			target := pgtest.Database(b)
			b.StartTimer()
			if err := pipe(b.Context(), dump, source, target); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func pipe(ctx context.Context, dump, source, target string) error {
	from := exec.CommandContext(ctx, dump, "-d", source)
	to := exec.CommandContext(ctx, filepath.Join(filepath.Dir(dump), "psql"), "-qX", "-v", "ON_ERROR_STOP=1", "-o", os.DevNull, "-d", target)
	var stderr bytes.Buffer
	from.Stderr, to.Stderr = &stderr, &stderr
	var err error
	if to.Stdin, err = from.StdoutPipe(); err != nil {
		return err
	}
	if err := from.Start(); err != nil {
		return err
	}
	if err := to.Run(); err != nil {
		return fmt.Errorf("psql: %w: %s", err, stderr.String())
	}
	return from.Wait()
}
