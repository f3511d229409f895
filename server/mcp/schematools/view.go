package schematools

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/mcp"
)

// view is a database's schema as a caller sees it.
type view struct {
	*introspect.Schema
	// role is the index of the caller's role, introspect.Owner for one who sees everything; name is the role's, "" for
	// that of the connection.
	role int
	name string
}

// roleOf is the database role that a caller's requests run as, "" for the connection's own.
func (s *service) roleOf(p *auth.Principal) (string, error) {
	if p.Service {
		return s.Roles.Session(auth.RoleService)
	}
	return s.Roles.Session(auth.RoleAuthenticated)
}

// view returns the schema of a call's database as the caller sees it.
func (s *service) view(ctx context.Context, c *mcp.Call) (*view, error) {
	name, err := s.roleOf(c.Principal)
	if err != nil {
		return nil, err
	}
	schema, err := s.Schemas.Get(ctx, c.Database)
	if err != nil {
		return nil, err
	}
	return newView(schema, c.Principal, name), nil
}

func newView(schema *introspect.Schema, p *auth.Principal, role string) *view {
	v := &view{Schema: schema, name: role, role: schema.Role(role)}
	if p.Service {
		v.role = introspect.Owner
	}
	return v
}

// all reports whether nothing of the exposed schemas is hidden from the caller.
func (v *view) all() bool { return v.role == introspect.Owner }

// privileges are what a role may do to a relation, in words, at least on some of its columns.
var privileges = []struct {
	bit  introspect.Privilege
	word string
}{{introspect.Select, "select"}, {introspect.Insert, "insert"}, {introspect.Update, "update"}, {introspect.Delete, "delete"}}

// may lists what the caller may do to a relation, at least to some of its columns.
func (v *view) may(r *introspect.Relation) []string {
	var out []string
	for _, p := range privileges {
		if r.Grants.Can(v.role, p.bit) || p.bit != introspect.Delete && slices.ContainsFunc(r.Columns, func(c *introspect.Column) bool {
			return c.Grants.Can(v.role, p.bit)
		}) {
			out = append(out, p.word)
		}
	}
	return out
}

// sees reports whether the caller has any privilege on a relation.
func (v *view) sees(r *introspect.Relation) bool { return r != nil && (v.all() || len(v.may(r)) > 0) }

// seesColumn reports whether the caller may read or write a column.
func (v *view) seesColumn(c *introspect.Column) bool {
	return v.reads(c) || c.Grants.Can(v.role, introspect.Insert) || c.Grants.Can(v.role, introspect.Update)
}

func (v *view) reads(c *introspect.Column) bool { return c.Grants.Can(v.role, introspect.Select) }

// relations are those that the caller sees; partitions are reached through their tables.
func (v *view) relations(schema string) []*introspect.Relation {
	var out []*introspect.Relation
	for _, r := range v.Relations {
		if (schema == "" || r.Schema == schema) && !r.Partition && v.sees(r) {
			out = append(out, r)
		}
	}
	return out
}

// functions are those that the caller may execute.
func (v *view) functions(schema string) []*introspect.Function {
	var out []*introspect.Function
	for _, f := range v.Functions {
		if (schema == "" || f.Schema == schema) && f.Grants.Can(v.role, introspect.Execute) {
			out = append(out, f)
		}
	}
	return out
}

// relation finds the relation that name means: of the default schema, of another exposed one where it has the name in
// front, or the only one of that name. nil for none that the caller sees.
func (v *view) relation(name string) *introspect.Relation {
	if r := v.resolve(v.Schemas[0], name); r != nil {
		return r
	}
	if schema, rest, ok := strings.Cut(name, "."); ok {
		if r := v.resolve(schema, rest); r != nil {
			return r
		}
	}
	var found *introspect.Relation
	for _, schema := range v.Schemas[1:] {
		if r := v.resolve(schema, name); r != nil {
			if found != nil {
				return nil
			}
			found = r
		}
	}
	return found
}

func (v *view) resolve(schema, name string) *introspect.Relation {
	if r := v.Resolve(schema, name); v.sees(r) {
		return r
	}
	return nil
}

// similar is the name of a relation that the caller sees and may have meant, "" for none.
func (v *view) similar(name string) string {
	schema, rest, ok := strings.Cut(name, ".")
	if !ok || !slices.Contains(v.Schemas, schema) {
		schema, rest = v.Schemas[0], name
	}
	if found := v.SimilarRelation(schema, rest); found != "" {
		if r := v.resolve(schema, found); r != nil {
			return v.short(r)
		}
	}
	return ""
}

// short is a relation's name as the tools take it: qualified outside of the default schema.
func (v *view) short(r *introspect.Relation) string { return v.qualify(r.Schema, r.Name) }

func (v *view) qualify(schema, name string) string {
	if schema == v.Schemas[0] {
		return name
	}
	return schema + "." + name
}

// need finds a relation. One that is not known may have been made a moment ago.
func (s *service) need(ctx context.Context, c *mcp.Call, name string) (*view, *introspect.Relation, error) {
	v, err := s.view(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if r := v.relation(name); r != nil {
		return v, r, nil
	}
	fresh, err := s.Schemas.RefreshUnlessFresh(ctx, c.Database, v.Schema)
	if err != nil {
		return nil, nil, err
	}
	v = newView(fresh, c.Principal, v.name)
	if r := v.relation(name); r != nil {
		return v, r, nil
	}
	notFound := fault.New(fault.NotFound, "not_found", "").Msgf("there is no table or view %q that you may see on branch %q", cut(name, 200), c.Branch)
	if similar := v.similar(name); similar != "" {
		return nil, nil, notFound.WithHint("perhaps you meant " + similar)
	}
	return nil, nil, notFound.WithHint("list_tables and search_schema tell what there is")
}

// schemaNamed checks the name of a schema; "" is the default one.
func (v *view) schemaNamed(name string) (string, error) {
	if name == "" {
		return v.Schemas[0], nil
	}
	if !slices.Contains(v.Schemas, name) {
		return "", fault.Field("schema", "must be one of the exposed schemas: %s", strings.Join(v.Schemas, ", "))
	}
	return name, nil
}

var kinds = map[introspect.RelationKind]string{
	introspect.Table: "table", introspect.PartitionedTable: "partitioned table", introspect.View: "view",
	introspect.MaterializedView: "materialized view", introspect.ForeignTable: "foreign table",
}

// isTable reports whether row-level security can be enabled on a relation.
func isTable(r *introspect.Relation) bool {
	return r.Kind == introspect.Table || r.Kind == introspect.PartitionedTable
}

// cut shortens a text to at most n bytes, at the boundary of a character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
