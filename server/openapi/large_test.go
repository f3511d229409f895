package openapi_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/openapi"
)

// largeSchema has tables with twelve columns of the usual types, in chains of foreign keys.
func largeSchema(tables int) *introspect.Schema {
	types := map[string]*introspect.Type{}
	for i, t := range []struct {
		name     string
		category byte
	}{
		{"int8", 'N'}, {"int4", 'N'}, {"numeric", 'N'}, {"float8", 'N'}, {"text", 'S'}, {"varchar", 'S'}, {"bool", 'B'},
		{"uuid", 'U'}, {"timestamptz", 'D'}, {"date", 'D'}, {"jsonb", 'U'},
	} {
		types[t.name] = &introspect.Type{OID: uint32(i + 1), Schema: "pg_catalog", Name: t.name, SQL: t.name, Kind: introspect.Base, Category: t.category}
	}
	s := &introspect.Schema{Schemas: []string{"public"}, Roles: []string{"anon", "authenticated", "service_role"}}
	all := introspect.Select | introspect.Insert | introspect.Update | introspect.Delete
	grants := introspect.Grants{introspect.Select, introspect.Select | introspect.Insert, all}
	for i := range tables {
		name := fmt.Sprintf("things_%03d", i)
		r := &introspect.Relation{
			OID: uint32(1000 + i), Schema: "public", Name: name, Plural: name, Kind: introspect.Table, HasXmin: true,
			Insertable: true, Updatable: true, Deletable: true, Grants: grants, Comment: "Things of the kind " + name + ".",
		}
		for j, c := range []introspect.Column{
			{Name: "id", Type: types["int8"], NotNull: true, Identity: 'd', HasDefault: true, PrimaryKey: true},
			{Name: "parent_id", Type: types["int8"]},
			{Name: "title", Type: types["varchar"], MaxLength: 200, NotNull: true, Comment: "What people call it."},
			{Name: "body", Type: types["text"]},
			{Name: "price", Type: types["numeric"], Default: "0", HasDefault: true, NotNull: true},
			{Name: "amount", Type: types["int4"]},
			{Name: "ratio", Type: types["float8"]},
			{Name: "active", Type: types["bool"], Default: "true", HasDefault: true, NotNull: true},
			{Name: "owner", Type: types["uuid"], NotNull: true},
			{Name: "due", Type: types["date"]},
			{Name: "data", Type: types["jsonb"]},
			{Name: "created_at", Type: types["timestamptz"], Default: "now()", HasDefault: true, NotNull: true},
		} {
			if j%2 == 1 { // half of the columns have names that other tables do not have
				c.Name = fmt.Sprintf("%s_%03d", c.Name, i)
			}
			c.Position, c.Updatable, c.Grants = j+1, true, grants
			r.Columns = append(r.Columns, &c)
		}
		r.PrimaryKey = r.Columns[:1]
		if i > 0 {
			r.Relationships = []*introspect.Relationship{{
				From: r, To: s.Relations[i-1], Name: name + "_parent_id_fkey", One: true, Outgoing: true,
				Columns: []introspect.ColumnPair{{From: r.Columns[1].Name, To: "id"}},
			}}
		}
		s.Relations = append(s.Relations, r)
	}
	return s
}

// The time grows with the tables, not with their square. Both documents are made on the same machine, which may be busy
// with other things for a while: one try that is good is enough. The benchmark has the true figure.
func TestLargeDocumentIsMadeInLinearTime(t *testing.T) {
	t.Parallel()
	fixed := contract(t)
	extend := func(tables int) time.Duration {
		schema := largeSchema(tables)
		start := time.Now()
		doc, err := openapi.Extend(fixed, schema, openapi.Options{Role: introspect.Owner})
		if err != nil {
			t.Fatal(err)
		}
		if len(doc) > 20e6 {
			t.Errorf("the document has %d bytes", len(doc))
		}
		return time.Since(start)
	}
	var small, large [5]time.Duration
	for i := range small {
		small[i], large[i] = extend(50), extend(500)
		if large[i] <= 25*small[i] {
			return
		}
	}
	t.Errorf("50 tables took %s, 500 took %s", small, large)
}

func BenchmarkExtend500Tables(b *testing.B) {
	fixed, schema := contract(b), largeSchema(500)
	b.ReportAllocs()
	var size int
	for b.Loop() {
		doc, err := openapi.Extend(fixed, schema, openapi.Options{Role: introspect.Owner})
		if err != nil {
			b.Fatal(err)
		}
		size = len(doc)
	}
	b.ReportMetric(float64(size)/1e6, "MB")
}
