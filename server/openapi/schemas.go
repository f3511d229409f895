package openapi

import (
	"maps"
	"slices"
	"strings"

	"github.com/boughdb/bough/server/introspect"
)

// addSchemas adds the schemas of a relation's rows, and of what is sent to make and to change them, and returns
// references to the latter; nil where the role may not.
func (b *builder) addSchemas(r *relation) (insert, update object) {
	b.schemas.add(r.base, b.rowSchema(r))
	if b.may(r.Relation, introspect.Insert) {
		b.schemas.add(r.base+"Insert", b.writeSchema(r, introspect.Insert))
		insert = ref("schemas", r.base+"Insert")
	}
	if b.may(r.Relation, introspect.Update) {
		b.schemas.add(r.base+"Update", b.writeSchema(r, introspect.Update))
		update = ref("schemas", r.base+"Update")
	}
	return insert, update
}

// rowSchema describes rows. It requires no column, since select may leave out any.
func (b *builder) rowSchema(r *relation) object {
	references := map[string]string{}
	for _, s := range r.Relationships {
		if s.Outgoing && s.Junction == nil && len(s.Columns) == 1 && !isView(s.To.Kind) && b.may(s.To, introspect.Select) {
			references[s.Columns[0].From] = "Refers to " + s.To.Name + "." + s.Columns[0].To + "."
		}
	}
	properties, sample := object{}, object{}
	var unnamed []string
	for _, c := range r.columns {
		if !plainName(c.Name) {
			unnamed = append(unnamed, c.Name)
			continue
		}
		var notes []string
		schema := b.typeSchema(c.Type, !c.NotNull)
		if c.MaxLength > 0 && schema.get("type") == "string" && schema.get("format") == nil {
			schema = annotated(schema, member{"maxLength", c.MaxLength})
		}
		for _, note := range []string{c.Comment, references[c.Name], b.typeNote(c, schema)} {
			if note != "" {
				notes = append(notes, note)
			}
		}
		if len(notes) > 0 {
			schema = annotated(schema, member{"description", strings.Join(notes, "\n")})
		}
		if c.Generated || c.Identity == 'a' {
			schema = annotated(schema, member{"readOnly", true})
		}
		properties.add(c.Name, schema)
		sample = withExample(sample, c)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Computed)) {
		f := r.Computed[name]
		if f.Returns == nil || !plainName(name) || r.Column(name) != nil || !f.Grants.Can(b.opts.Role, introspect.Execute) || properties.get(name) != nil {
			continue
		}
		note := "Computed, and only there when select names it."
		if f.Comment != "" {
			note = f.Comment + "\n" + note
		}
		properties.add(name, annotated(b.typeSchema(f.Returns, true), member{"description", note}, member{"readOnly", true}))
	}
	out := object{{"type", "object"}}
	description := r.Comment
	if len(unnamed) > 0 {
		description = strings.TrimSpace(description + "\n\nRecords also have columns whose names code generators refuse: " + strings.Join(unnamed, ", ") + ".")
	}
	if description != "" {
		out.add("description", description)
	}
	out.add("properties", named(properties))
	if len(sample) > 0 {
		out.add("example", sample)
	}
	return out
}

// withExample adds an example of the column to that of its record. A column called $ref is left out: tools would follow it.
func withExample(sample object, c *introspect.Column) object {
	if value := example(c.Type, c.MaxLength); value != nil && c.Name != "$ref" {
		sample.add(c.Name, value)
	}
	return sample
}

// typeNote names the type where the schema does not tell it, and says what is special about it.
func (b *builder) typeNote(c *introspect.Column, schema object) string {
	t := c.Type
	note := ""
	if t.Kind == introspect.Domain {
		note = "Domain " + t.Name + "."
		if t.Comment != "" {
			note += " " + t.Comment
		}
		t = t.Underlying()
	}
	special := explained[t.Name]
	if special == "" && schema.get("type") == "string" && schema.get("format") == nil && t.Category != 'S' && c.TypeSQL != "" {
		special = "As PostgreSQL writes the type " + c.TypeSQL + "."
	}
	return strings.TrimSpace(note + " " + special)
}

// writable tells whether a role's insert or update may set a column.
func (b *builder) writable(r *relation, c *introspect.Column, p introspect.Privilege) bool {
	return !c.Generated && c.Identity != 'a' && (c.Updatable || !isView(r.Kind)) && c.Grants.Can(b.opts.Role, p)
}

func isView(kind introspect.RelationKind) bool {
	return kind == introspect.View || kind == introspect.MaterializedView
}

// writeSchema describes a record in the body of an insert or an update.
func (b *builder) writeSchema(r *relation, p introspect.Privilege) object {
	var required array
	properties, sample := object{}, object{}
	for _, c := range r.Columns {
		key := p == introspect.Update && r.key && c.PrimaryKey
		if !plainName(c.Name) || !key && !b.writable(r, c, p) {
			continue
		}
		schema := b.writeColumn(c)
		if p == introspect.Insert {
			if isRequired(c) {
				required = append(required, c.Name)
			}
			if value, ok := constant(c.Type, c.MaxLength, c.Default); ok {
				schema = annotated(schema, member{"default", value})
			}
		}
		properties.add(c.Name, schema)
		if p == introspect.Insert && isRequired(c) || !c.PrimaryKey && len(sample) == 0 {
			sample = withExample(sample, c)
		}
	}
	out := object{{"type", "object"}}
	if len(required) > 0 {
		out.add("required", required)
	}
	out.add("properties", named(properties))
	if len(sample) >= len(required) {
		out.add("example", sample)
	}
	return out
}

func (b *builder) writeColumn(c *introspect.Column) object {
	schema := b.typeSchema(c.Type, !c.NotNull)
	if c.MaxLength > 0 && schema.get("type") == "string" && schema.get("format") == nil {
		schema = annotated(schema, member{"maxLength", c.MaxLength})
	}
	if c.Comment != "" {
		schema = annotated(schema, member{"description", c.Comment})
	}
	return schema
}

// isRequired tells whether an insert must give the column a value.
func isRequired(c *introspect.Column) bool {
	return c.NotNull && !c.HasDefault && c.Default == "" && c.Identity == 0 && !c.Generated
}

// replaceSchema is the schema of a whole record whose key stands in the path: that of an insert, unless that requires
// columns of the key.
func (b *builder) replaceSchema(r *relation, insert object) object {
	if !slices.ContainsFunc(r.PrimaryKey, isRequired) {
		return insert
	}
	name := r.base + "Replace"
	var schema object
	for _, m := range b.schemas.get(r.base + "Insert").(object) {
		if m.name != "required" {
			schema = append(schema, m)
			continue
		}
		var required array
		for _, column := range m.value.(array) {
			if c := r.Column(column.(string)); c == nil || !c.PrimaryKey {
				required = append(required, column)
			}
		}
		if len(required) > 0 {
			schema.add("required", required)
		}
	}
	b.schemas.add(name, schema)
	return ref("schemas", name)
}
