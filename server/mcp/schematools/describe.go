package schematools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/mcp"
)

type describeArgs struct {
	Table string `json:"table" jsonschema:"name; schema.name outside of the default schema"`
}

// description is what describe_table returns.
type description struct {
	Schema  string `json:"schema"`
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Comment string `json:"comment,omitempty"`
	Rows    *int64 `json:"rows,omitempty"`
	Size    string `json:"size,omitempty"`
	// Privileges may be on some columns only; these then say so.
	Privileges []string `json:"privileges" jsonschema:"what you may do"`
	RLS        string   `json:"rls,omitempty"`

	Columns    []column `json:"columns"`
	PrimaryKey []string `json:"primary_key,omitempty"`
	// What follows is SQL, one line for each.
	ForeignKeys  []string `json:"foreign_keys,omitempty"`
	ReferencedBy []string `json:"referenced_by,omitempty"`
	Constraints  []string `json:"constraints,omitempty"`
	Indexes      []string `json:"indexes,omitempty"`
	Policies     []string `json:"policies,omitempty"`
	Triggers     []string `json:"triggers,omitempty"`
	PartitionKey string   `json:"partition_key,omitempty"`
	Partitions   []string `json:"partitions,omitempty"`
	View         string   `json:"view_definition,omitempty"`
	// LeftOut keeps the answer within bounds.
	LeftOut []string `json:"left_out,omitempty"`
}

type column struct {
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	Nullable  bool     `json:"nullable"`
	Default   string   `json:"default,omitempty"`
	Identity  string   `json:"identity,omitempty"`
	Generated string   `json:"generated,omitempty"`
	Enum      []string `json:"enum,omitempty"`
	Access    string   `json:"access,omitempty"`
	Comment   string   `json:"comment,omitempty"`
}

func (s *service) describeTable(ctx context.Context, c *mcp.Call, in describeArgs) (*mcp.Result, error) {
	d, err := s.describe(ctx, c, in.Table)
	if err != nil {
		return nil, err
	}
	summary := fmt.Sprintf("%s %s.%s: %d columns.", d.Kind, d.Schema, d.Name, len(d.Columns))
	if len(d.LeftOut) > 0 {
		summary += " Too long to show: " + strings.Join(d.LeftOut, ", ") + "."
	}
	return &mcp.Result{Structured: d, Summary: summary, Untrusted: true}, nil
}

func (s *service) describe(ctx context.Context, c *mcp.Call, name string) (*description, error) {
	v, r, err := s.need(ctx, c, name)
	if err != nil {
		return nil, err
	}
	d := v.describe(r)
	err = s.inspect(ctx, c.Database, func(tx pgx.Tx) error {
		sizes, err := sizesOf(ctx, tx, []*introspect.Relation{r})
		if err != nil {
			return err
		}
		if len(sizes) > 0 {
			d.Rows, d.Size = sizes[0].rows, sizes[0].pretty
		}
		return v.describeMore(ctx, tx, r, d)
	})
	if err != nil {
		return nil, err
	}
	d.fit(maxDescription)
	return d, nil
}

// describe says what the cached schema knows of a relation.
func (v *view) describe(r *introspect.Relation) *description {
	d := &description{Schema: r.Schema, Name: r.Name, Kind: kinds[r.Kind], Comment: r.Comment, Privileges: v.may(r), Columns: []column{}}
	if isTable(r) {
		d.RLS = onOff(r.RowSecurity)
	}
	for _, col := range r.Columns {
		if !v.seesColumn(col) {
			continue
		}
		e := column{
			Name: col.Name, Type: col.TypeSQL, Nullable: !col.NotNull, Default: col.Default, Comment: col.Comment, Access: v.access(col, d.Privileges),
			Identity: map[byte]string{'a': "always", 'd': "by default"}[col.Identity],
		}
		if t := enumOf(col.Type); t != nil {
			e.Enum = t.Labels
		}
		d.Columns = append(d.Columns, e)
	}
	if !slices.ContainsFunc(r.PrimaryKey, func(c *introspect.Column) bool { return !v.seesColumn(c) }) {
		for _, col := range r.PrimaryKey {
			d.PrimaryKey = append(d.PrimaryKey, col.Name)
		}
	}
	return d
}

// access says what the caller may do to a column where that is less than to others of its table.
func (v *view) access(col *introspect.Column, table []string) string {
	var may []string
	less := false
	for _, p := range privileges {
		switch {
		case p.bit == introspect.Delete || !slices.Contains(table, p.word):
		case col.Grants.Can(v.role, p.bit):
			may = append(may, p.word)
		default:
			less = true
		}
	}
	if !less {
		return ""
	}
	return strings.Join(may, ", ")
}

// enumOf is the enumerated type that a type is, or is made of; nil for none.
func enumOf(t *introspect.Type) *introspect.Type {
	for t != nil && (t.Kind == introspect.Domain || t.Kind == introspect.Array) {
		t = t.Elem
	}
	if t != nil && t.Kind == introspect.Enum {
		return t
	}
	return nil
}

// maxDescription bounds a description's JSON.
const maxDescription = 56 << 10

// fit leaves out what matters least until the description is short enough.
func (d *description) fit(limit int) {
	for _, part := range []struct {
		name string
		drop func()
	}{
		{"view_definition", func() { d.View = "" }},
		{"triggers", func() { d.Triggers = nil }},
		{"referenced_by", func() { d.ReferencedBy = nil }},
		{"policies", func() { d.Policies = nil }},
		{"indexes", func() { d.Indexes = nil }},
		{"constraints", func() { d.Constraints = nil }},
		{"comments of columns", func() {
			for i := range d.Columns {
				d.Columns[i].Comment = ""
			}
		}},
		{"enum values", func() {
			for i := range d.Columns {
				d.Columns[i].Enum = nil
			}
		}},
		{"defaults", func() {
			for i := range d.Columns {
				d.Columns[i].Default, d.Columns[i].Generated = "", ""
			}
		}},
		{"columns", func() { d.Columns = d.Columns[:min(len(d.Columns), 400)] }},
	} {
		if d.size() <= limit {
			return
		}
		part.drop()
		d.LeftOut = append(d.LeftOut, part.name)
	}
}

func (d *description) size() int {
	data, err := json.Marshal(d)
	if err != nil {
		panic(err) // texts and numbers
	}
	return len(data)
}
