package schematools

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/mcp"
)

type overviewArgs struct{}

// overviewResult is what get_database_overview returns.
type overviewResult struct {
	Branch   string          `json:"branch"`
	Version  string          `json:"version"`
	Size     string          `json:"size"`
	Role     string          `json:"role"`
	Schemas  []schemaSummary `json:"schemas" jsonschema:"the first is the default"`
	Largest  []string        `json:"largest_tables"`
	RLS      int             `json:"tables_with_rls"`
	NoRLS    int             `json:"tables_without_rls"`
	Extended []string        `json:"extensions"`
}

type schemaSummary struct {
	Name      string `json:"name"`
	Comment   string `json:"comment,omitempty"`
	Tables    int    `json:"tables"`
	Views     int    `json:"views"`
	Functions int    `json:"functions"`
}

// howMany largest tables the overview shows.
const howMany = 10

func (s *service) overview(ctx context.Context, c *mcp.Call, _ overviewArgs) (*mcp.Result, error) {
	v, err := s.view(ctx, c)
	if err != nil {
		return nil, err
	}
	out := overviewResult{Branch: c.Branch, Schemas: make([]schemaSummary, len(v.Schemas)), Largest: []string{}}
	bySchema := map[string]*schemaSummary{}
	for i, name := range v.Schemas {
		out.Schemas[i].Name = name
		bySchema[name] = &out.Schemas[i]
	}
	for _, r := range v.relations("") {
		switch r.Kind {
		case introspect.View, introspect.MaterializedView:
			bySchema[r.Schema].Views++
		default:
			bySchema[r.Schema].Tables++
		}
		switch {
		case isTable(r) && r.RowSecurity:
			out.RLS++
		case isTable(r):
			out.NoRLS++
		}
	}
	for _, f := range v.functions("") {
		bySchema[f.Schema].Functions++
	}
	err = s.inspect(ctx, c.Database, func(tx pgx.Tx) error { return out.measure(ctx, tx, v) })
	if err != nil {
		return nil, err
	}
	tables := 0
	for _, n := range out.Schemas {
		tables += n.Tables
	}
	return &mcp.Result{
		Structured: out, Untrusted: true,
		Summary: fmt.Sprintf("Branch %s: %d tables that you may use. list_tables lists them, describe_table shows one, search_schema finds by words.", c.Branch, tables),
	}, nil
}

// measure fills in what the cached schema does not know.
func (o *overviewResult) measure(ctx context.Context, tx pgx.Tx, v *view) error {
	err := tx.QueryRow(ctx, `select current_setting('server_version'), pg_size_pretty(pg_database_size(current_database())), current_user`).
		Scan(&o.Version, &o.Size, &o.Role)
	if err != nil {
		return err
	}
	if v.name != "" {
		o.Role = v.name
	}
	rows, err := tx.Query(ctx, `select extname || ' ' || extversion from pg_extension where extname <> 'plpgsql' order by 1`)
	if err != nil {
		return err
	}
	if o.Extended, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return err
	}
	rows, err = tx.Query(ctx, `select n.nspname, obj_description(n.oid, 'pg_namespace') from pg_namespace n
		where n.nspname = any ($1) and obj_description(n.oid, 'pg_namespace') is not null`, v.Schemas)
	if err != nil {
		return err
	}
	var name, comment string
	_, err = pgx.ForEachRow(rows, []any{&name, &comment}, func() error {
		for i := range o.Schemas {
			if o.Schemas[i].Name == name {
				o.Schemas[i].Comment = cut(comment, 300)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	sizes, err := sizesOf(ctx, tx, v.relations(""))
	if err != nil {
		return err
	}
	slices.SortStableFunc(sizes, func(a, b sized) int { return cmp.Compare(b.bytes, a.bytes) })
	for _, t := range sizes[:min(len(sizes), howMany)] {
		if r := v.RelationByOID(t.oid); r != nil && t.bytes > 0 {
			line := v.short(r) + ": " + t.pretty
			if t.rows != nil {
				line += fmt.Sprintf(", about %d rows", *t.rows)
			}
			o.Largest = append(o.Largest, line)
		}
	}
	return nil
}

// sized is how large a relation is. rows is nil where nobody has analysed it.
type sized struct {
	oid    uint32
	rows   *int64
	bytes  int64
	pretty string
}

// leaves are the relations that hold the rows of those in $1: a partitioned table's are its partitions'.
const leaves = `
	select w.ord, c.oid, l.oid as leaf, l.reltuples, l.relkind
	from unnest($1::oid[]) with ordinality w (oid, ord)
	join pg_class c on c.oid = w.oid
	join lateral (
		select c.oid as relid where c.relkind <> 'p'
		union all
		select relid from pg_partition_tree(c.oid) where c.relkind = 'p' and isleaf
	) t on true
	join pg_class l on l.oid = t.relid
	where l.relkind in ('r', 'm', 'f')`

// sizesOf measures relations with rows of their own, in the order given.
func sizesOf(ctx context.Context, tx pgx.Tx, relations []*introspect.Relation) ([]sized, error) {
	rows, err := tx.Query(ctx, `
		select oid, rows, bytes, pg_size_pretty(bytes)
		from (
			select ord, oid, sum(nullif(reltuples, -1))::bigint as rows, coalesce(sum(pg_total_relation_size(leaf)), 0)::bigint as bytes
			from (`+leaves+`) leaves
			group by ord, oid
		) s
		order by ord`, oidsOf(relations))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (t sized, err error) {
		return t, row.Scan(&t.oid, &t.rows, &t.bytes, &t.pretty)
	})
}

// rowsOf estimates the numbers of rows of relations that were analysed. It reads the catalog alone, so that it waits for no
// session that is changing one of them.
func rowsOf(ctx context.Context, tx pgx.Tx, relations []*introspect.Relation) (map[uint32]int64, error) {
	rows, err := tx.Query(ctx, "select oid, sum(reltuples)::bigint from ("+leaves+") leaves where reltuples >= 0 group by oid", oidsOf(relations))
	if err != nil {
		return nil, err
	}
	out := map[uint32]int64{}
	var oid uint32
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&oid, &n}, func() error {
		out[oid] = n
		return nil
	})
	return out, err
}

func oidsOf(relations []*introspect.Relation) []uint32 {
	oids := make([]uint32, len(relations))
	for i, r := range relations {
		oids[i] = r.OID
	}
	return oids
}
