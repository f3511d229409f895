package compile

import (
	"slices"
	"strings"

	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
)

// InsertedColumn is the name of the hidden output that tells, where PostgreSQL can, whether rows of a merging insert are
// new: t for a row that was inserted, f for one that was updated. With embedded relations it is t in every row when any
// row was inserted.
const InsertedColumn = "@inserted"

// KeyColumn begins the names of the hidden outputs with the values of the primary key, VersionColumn is the name of the
// one with the row's version, its xmin. They come with a representation that is of the rows alone.
const (
	KeyColumn     = "@key "
	VersionColumn = "@version"
)

// extras are hidden outputs that a write is asked for.
type extras struct{ inserted, keys, version bool }

// written is the name of the CTE that writes, where rows are read from what it returns.
const written = "bough_written"

// tellsInserted reports whether the rows' xmax shows which of them are new. Partitioned tables and views have none, and
// a role must be able to read the whole table to see it.
func (c Context) tellsInserted(rel *introspect.Relation) bool {
	return rel.HasXmin && rel.Kind == introspect.Table && rel.Grants.Can(c.Role, introspect.Select)
}

// insertedSQL tells of a row that an insert returns whether it is new: its xmax does. Where that cannot be seen, the
// rows of before the statement are looked at; "" where those cannot be told apart either.
func (c Context) insertedSQL(rel *introspect.Relation) string {
	if c.tellsInserted(rel) {
		return "t.xmax = 0"
	}
	if len(rel.PrimaryKey) == 0 || !c.readsKey(rel) {
		return ""
	}
	var b builder
	b.write("not exists (select from ")
	b.name(rel.Schema, rel.Name)
	b.write(" as was where ")
	for i, column := range rel.PrimaryKey {
		if i > 0 {
			b.write(" and ")
		}
		b.writeAll("was.", quote(column.Name), " = t.", quote(column.Name))
	}
	b.write(")")
	return string(b.sql)
}

// readsKey reports whether the role may read the primary key.
func (c Context) readsKey(rel *introspect.Relation) bool {
	return !slices.ContainsFunc(rel.PrimaryKey, func(k *introspect.Column) bool { return !k.Grants.Can(c.Role, introspect.Select) })
}

// answer ends a write with what it returns. A representation is never cut off at
// MaxRows: what was written is to be seen.
func (c Context) answer(
	b *builder, rel *introspect.Relation, q *query.Request, ret Return, more extras,
) (*Statement, error) {
	if b.err != nil {
		return nil, b.err
	}
	inserted := ""
	if more.inserted {
		inserted = c.insertedSQL(rel)
	}
	var list string
	var outputs []Output
	switch ret {
	case ReturnKeys:
		list, outputs = keyOutputs(rel)
	case ReturnRepresentation:
		c.MaxRows = 0
		var ok bool
		var err error
		if list, outputs, ok, err = c.Returning(rel, q); err != nil {
			return nil, err
		} else if !ok {
			return c.answerFrom(b, rel, q, inserted)
		}
		list, outputs = c.hideExtras(rel, more, list, outputs)
	}
	if inserted != "" {
		if list != "" {
			list += ", "
		}
		list += inserted
		outputs = append(outputs, Output{Name: InsertedColumn, Encoding: Bool, Hidden: true})
	}
	if list != "" {
		b.writeAll(" returning ", list)
	}
	return b.statement(outputs)
}

// hideExtras adds the key and the version of the rows, as far as the role may read them.
func (c Context) hideExtras(rel *introspect.Relation, more extras, list string, outputs []Output) (string, []Output) {
	if more.keys && c.readsKey(rel) {
		for _, column := range rel.PrimaryKey {
			list += ", t." + quote(column.Name)
			outputs = append(outputs, Output{Name: KeyColumn + column.Name, Hidden: true})
		}
	}
	if more.version && c.tellsInserted(rel) {
		list += ", t.xmin"
		outputs = append(outputs, Output{Name: VersionColumn, Hidden: true})
	}
	return list, outputs
}

// keyOutputs are the primary key's columns in their text form, for the address of a row.
func keyOutputs(rel *introspect.Relation) (list string, outputs []Output) {
	for i, column := range rel.PrimaryKey {
		if i > 0 {
			list += ", "
		}
		list += "t." + quote(column.Name)
		outputs = append(outputs, Output{Name: column.Name})
	}
	return list, outputs
}

// answerFrom makes a CTE of the write, for a request that embeds into the rows or orders them.
func (c Context) answerFrom(
	b *builder, rel *introspect.Relation, q *query.Request, inserted string,
) (*Statement, error) {
	list, has := c.readable(rel)
	// A computed column takes the whole row, which then must have no columns but its own.
	tells := inserted != "" && len(rel.Computed) == 0 && q.Distinct == nil
	if tells {
		list += ", " + inserted + " as " + quote(InsertedColumn)
	}
	source := Source{
		With: "with " + written + " as (" + string(b.sql) + " returning " + list + ")",
		Args: b.args, From: written, Has: has,
	}
	read := *q
	read.Where, read.Embeds = nil, shown(q) // the write has filtered
	statement, err := c.SelectFrom(source, rel, &read, Options{})
	if err != nil || !tells {
		return statement, err
	}
	if rest, ok := strings.CutPrefix(statement.SQL, source.With+" select "); ok {
		statement.SQL = source.With + " select exists (select from " + written + " w where w." + quote(InsertedColumn) +
			"), " + rest
		hidden := Output{Name: InsertedColumn, Encoding: Bool, Hidden: true}
		statement.Output = append([]Output{hidden}, statement.Output...)
	}
	return statement, nil
}

// readable are the columns that the role may read, as a list for RETURNING. When it may read none, all are returned, and
// PostgreSQL says what is wrong.
func (c Context) readable(rel *introspect.Relation) (list string, has func(string) bool) {
	readable := map[string]bool{}
	for _, column := range rel.Columns {
		if column.Grants.Can(c.Role, introspect.Select) {
			readable[column.Name] = true
		}
	}
	if len(readable) == 0 || len(readable) == len(rel.Columns) {
		return "t.*", nil
	}
	for _, column := range rel.Columns {
		if !readable[column.Name] {
			continue
		}
		if list != "" {
			list += ", "
		}
		list += "t." + quote(column.Name)
	}
	return list, func(name string) bool { return readable[name] }
}

// nothing is a statement that finds no rows, for a write that has nothing to do.
func (c Context) nothing(rel *introspect.Relation, q *query.Request, ret Return) (*Statement, error) {
	none := quote(rel.Schema) + "." + quote(rel.Name) + " as t where false"
	var b builder
	switch ret {
	case ReturnKeys:
		if list, outputs := keyOutputs(rel); list != "" {
			b.writeAll("select ", list, " from ", none)
			return b.statement(outputs)
		}
	case ReturnRepresentation:
		list, has := c.readable(rel)
		source := Source{With: "with " + written + " as (select " + list + " from " + none + ")", From: written, Has: has}
		read := *q
		read.Where, read.Embeds = nil, shown(q) // the write has filtered
		return c.SelectFrom(source, rel, &read, Options{})
	}
	b.write("select where false")
	return b.statement(nil)
}
