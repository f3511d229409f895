package schematext_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/mcp/schematools/schematext"
	"github.com/boughdb/bough/server/pgtest"
)

// BenchmarkRead reads a schema of a thousand tables.
func BenchmarkRead(b *testing.B) {
	url := pgtest.Database(b)
	conn, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(context.Background())
	_, err = conn.Exec(b.Context(), `do $$ begin for i in 1..1000 loop
		execute format('create table t%s (id int primary key, a text not null default %L, b int references t%s, c timestamptz); create index on t%s (b); comment on table t%s is %L', i, 'x', greatest(i - 1, 1), i, i, 'y');
	end loop; end $$`)
	if err != nil {
		b.Fatal(err)
	}
	for _, viewer := range []string{"", "pg_monitor"} {
		b.Run("viewer="+viewer, func(b *testing.B) {
			for b.Loop() {
				err := pgx.BeginFunc(b.Context(), conn, func(tx pgx.Tx) error {
					_, err := schematext.Read(b.Context(), tx, schematext.Options{Viewer: viewer})
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
