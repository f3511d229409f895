package pgcopy

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestSmoke(t *testing.T) {
	src, _ := pgx.ParseConfig(os.Getenv("SRC"))
	dst, _ := pgx.ParseConfig(os.Getenv("DST"))
	res, err := Copy(t.Context(), Options{Source: src, Target: dst, PGDump: os.Getenv("PGDUMP"), SchemaOnly: os.Getenv("SCHEMAONLY") != ""})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", res)
}
