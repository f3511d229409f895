package openapi_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/openapi"
	"github.com/boughdb/bough/server/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var loadContract = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromFile("../../gen/openapi.yaml")
})

// contract is the document of the fixed endpoints, which all tests share.
func contract(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := loadContract()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// nasty is the catalog of a database in which everything that is hard to describe occurs.
func nasty(t testing.TB) *introspect.Schema {
	t.Helper()
	pgtest.SharedRoles(t, "nasty_anon", "nasty_user")
	url := pgtest.Template(t, "nasty", func(ctx context.Context, url string) error {
		sql, err := os.ReadFile("testdata/nasty.sql")
		if err != nil {
			return err
		}
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, string(sql))
		return err
	})
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	schema, err := introspect.Load(ctx, conn, introspect.Options{
		Schemas: []string{"public", "personal"}, Roles: []string{"nasty_anon", "nasty_user"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// extend makes a document and reads it back.
func extend(t testing.TB, schema *introspect.Schema, opts openapi.Options) ([]byte, *openapi3.T) {
	t.Helper()
	text, err := openapi.Extend(contract(t), schema, opts)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	return text, doc
}
