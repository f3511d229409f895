package pgcopy

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/fidelity"
	"github.com/boughdb/bough/server/pgtest"
)

// BenchmarkRead reads generated schemas, and lets pg_dump do it where it is installed.
func BenchmarkRead(b *testing.B) {
	for _, n := range []int{100, 400, 1500} {
		url := pgtest.Template(b, fmt.Sprintf("generated%d", n), func(ctx context.Context, url string) error {
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				return err
			}
			defer conn.Close(ctx)
			start := time.Now()
			for _, statement := range splitScript(fidelity.Generate(n)) {
				if _, err := conn.PgConn().Exec(ctx, statement).ReadAll(); err != nil {
					return fmt.Errorf("%s: %w", statement, err)
				}
			}
			b.Logf("loading took %v", time.Since(start))
			return nil
		})
		b.Run(fmt.Sprintf("%d/builtin", n), func(b *testing.B) {
			for b.Loop() {
				conn, err := connect(b.Context(), config(b, url), nil)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := readCatalog(b.Context(), conn, ""); err != nil {
					b.Fatal(err)
				}
				conn.Close(b.Context())
			}
		})
		if dump := pgDump(b); dump != "" {
			b.Run(fmt.Sprintf("%d/pg_dump", n), func(b *testing.B) {
				for b.Loop() {
					if out, err := exec.Command(dump, "-s", "-d", url).CombinedOutput(); err != nil {
						b.Fatalf("%v: %s", err, out)
					}
				}
			})
		}
	}
}
