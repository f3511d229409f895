package compile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
)

// Return is what a write answers with.
type Return byte

// The answers: nothing, the primary key's columns as text, the rows as select asks for them.
const (
	ReturnMinimal Return = iota
	ReturnKeys
	ReturnRepresentation
)

// Conflict is what an insert does with a row whose unique key is there already.
type Conflict byte

// The ways: fail, leave the row that is there, update it.
const (
	ConflictFail Conflict = iota
	ConflictIgnore
	ConflictMerge
)

// Insert describes a POST.
type Insert struct {
	Body *Body
	// Columns restrict the body to these keys (columns=); nil takes the keys that are there.
	Columns []string
	// MissingDefault gives a column its default in the rows that do not have its key; otherwise they get NULL.
	MissingDefault bool
	Conflict       Conflict
	// OnConflict are the columns of the unique key; nil for the primary key.
	OnConflict []string
	Return     Return
	// Tell adds the hidden outputs of KeyColumn and VersionColumn to a representation.
	Tell bool
}

var (
	errNoColumn = fault.New(fault.Invalid, "PGRST204", "Could not find the column in the schema cache")
	// errNoConflictKey has PostgreSQL's code for the same.
	errNoConflictKey = fault.New(fault.Invalid, "42P10",
		"there is no unique or exclusion constraint matching the ON CONFLICT specification")
)

// Insert compiles an insert of the body's rows. One row travels as one parameter for each column. More rows travel as one
// array for each column, which PostgreSQL reads up to twice as fast as json_to_recordset, and which keeps the
// statement's text the same for any number of rows.
func (c Context) Insert(rel *introspect.Relation, q *query.Request, in Insert) (*Statement, error) {
	columns, err := c.bodyColumns(rel, in.Body, in.Columns)
	if err != nil {
		return nil, err
	}
	var b builder
	if err := insertRows(&b, rel, columns, in.Body, in.MissingDefault); err != nil {
		return nil, err
	}
	merges := false
	if in.Conflict != ConflictFail {
		key, err := conflictKey(rel, in.OnConflict)
		if err != nil {
			return nil, err
		}
		if key != nil {
			onConflict(&b, key, in.Conflict, columns)
			merges = in.Conflict == ConflictMerge
		}
	}
	return c.answer(&b, rel, q, in.Return, extras{inserted: merges, keys: in.Tell, version: in.Tell})
}

// bodyColumns looks the keys of a body up in the catalog.
func (c Context) bodyColumns(rel *introspect.Relation, body *Body, restrict []string) ([]*introspect.Column, error) {
	names := body.Columns
	if restrict != nil {
		names = restrict
	}
	columns := make([]*introspect.Column, 0, len(names))
	for i, name := range names {
		column := rel.Column(name)
		if column == nil {
			return nil, noColumn(rel, name)
		}
		if restrict != nil && slices.Contains(names[:i], name) {
			continue
		}
		columns = append(columns, column)
	}
	return columns, nil
}

func noColumn(rel *introspect.Relation, name string) error {
	err := errNoColumn.Msgf("Could not find the '%s' column of '%s' in the schema cache", name, rel.Name)
	if near := rel.SimilarColumn(name); near != "" {
		return err.WithHint(fmt.Sprintf("Perhaps you meant the column '%s'.", near))
	}
	return err
}

func insertRows(b *builder, rel *introspect.Relation, columns []*introspect.Column, body *Body, defaults bool) error {
	b.write("insert into ")
	b.name(rel.Schema, rel.Name)
	b.write(" as t")
	if len(columns) == 0 {
		b.writeAll(" select from generate_series(1, ", b.param([]byte(strconv.Itoa(body.Rows))), "::int)")
		return nil
	}
	b.write(" (")
	for i, column := range columns {
		b.comma(i)
		b.ident(column.Name)
	}
	b.write(") ")
	if body.Rows == 1 && !defaults {
		return insertValues(b, columns, body)
	}
	rs, err := rowsOf(body, columns)
	if err != nil {
		return err
	}
	if !defaults {
		clear(rs.present) // absent and null are the same
	}
	b.write("select ")
	drawn := ""
	for i, column := range columns {
		b.comma(i)
		sql := ""
		if defaults {
			sql = defaultSQL(rel, column)
		}
		if sql == "" {
			b.write(rs.value(i, "b"))
			continue
		}
		// A default is evaluated for every row, in a subquery of its own, whether the row needs it or not: a sequence
		// moves on by one a row, as it does in PostgREST.
		name := "d" + strconv.Itoa(i+1)
		drawn += ", (" + sql + ")::" + plainType(column.Type) + " as " + name
		if rs.present[i] == nil {
			b.write(rs.value(i, "b"))
			continue
		}
		b.writeAll("case when b.p", strconv.Itoa(i+1), " then ", rs.value(i, "b"), " else b.", name, " end")
	}
	if drawn == "" {
		b.writeAll(" from ", rs.from("b", b.param))
		return nil
	}
	b.writeAll(" from (select b.*", drawn, " from ", rs.from("b", b.param), ") as b")
	return nil
}

// insertValues writes the values of the only row. Their types are those of the columns, by inference.
func insertValues(b *builder, columns []*introspect.Column, body *Body) error {
	values := make([][]byte, len(columns))
	err := body.each(func(_ int, members []member) error {
		for _, m := range members {
			i := slices.IndexFunc(columns, func(c *introspect.Column) bool { return c.Name == m.name })
			if i < 0 {
				continue
			}
			var err error
			if values[i], err = formOf(columns[i].Type, body.Text).encode(m.raw); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.write("values (")
	for i, column := range columns {
		b.comma(i)
		b.write(formOf(column.Type, body.Text).decode(b.param(values[i]), column.Type))
	}
	b.write(")")
	return nil
}

// defaultSQL is the expression that a column's default is drawn with; "" where it has none or cannot be given.
func defaultSQL(rel *introspect.Relation, column *introspect.Column) string {
	switch {
	case column.Generated || column.Identity == 'a':
		return ""
	case column.Identity == 'd':
		var b builder
		b.write("nextval(pg_get_serial_sequence(")
		b.literal(quote(rel.Schema) + "." + quote(rel.Name))
		b.write(", ")
		b.literal(column.Name)
		b.write(")::regclass)")
		return string(b.sql)
	}
	return column.Default
}

// conflictKey finds the unique key that an upsert means; nil where none is named and the relation has no primary key.
func conflictKey(rel *introspect.Relation, names []string) (*introspect.Unique, error) {
	if len(names) == 0 {
		if len(rel.PrimaryKey) == 0 {
			return nil, nil
		}
		key := &introspect.Unique{Primary: true}
		for _, column := range rel.PrimaryKey {
			key.Columns = append(key.Columns, column.Name)
		}
		return key, nil
	}
	for _, name := range names {
		if rel.Column(name) == nil {
			return nil, noColumn(rel, name)
		}
	}
	var partial *introspect.Unique
	for _, unique := range rel.Uniques {
		if !sameSet(unique.Columns, names) {
			continue
		}
		if unique.Predicate == "" {
			return unique, nil
		}
		if partial == nil {
			partial = unique
		}
	}
	if partial != nil {
		return partial, nil
	}
	if rel.Kind != introspect.Table && rel.Kind != introspect.PartitionedTable {
		// PostgreSQL looks for the index of the table behind a view.
		return &introspect.Unique{Columns: names}, nil
	}
	var keys []string
	for _, unique := range rel.Uniques {
		keys = append(keys, "("+strings.Join(unique.Columns, ", ")+")")
	}
	if keys == nil {
		return nil, errNoConflictKey.WithHint(fmt.Sprintf("The table '%s' has no unique key.", rel.Name))
	}
	return nil, errNoConflictKey.WithHint(fmt.Sprintf("The unique keys of '%s' are %s.", rel.Name, strings.Join(keys, ", ")))
}

func sameSet(a, b []string) bool {
	for _, s := range b {
		if !slices.Contains(a, s) {
			return false
		}
	}
	for _, s := range a {
		if !slices.Contains(b, s) {
			return false
		}
	}
	return true
}

// onConflict writes what is to be done with rows that are there. The key's own columns stay as they are. With nothing
// else to set, the first of them is set to itself, so that the row counts as written and is returned.
func onConflict(b *builder, key *introspect.Unique, conflict Conflict, columns []*introspect.Column) {
	b.write(" on conflict (")
	for i, name := range key.Columns {
		b.comma(i)
		b.ident(name)
	}
	b.write(")")
	if key.Predicate != "" {
		b.writeAll(" where ", key.Predicate)
	}
	if conflict == ConflictIgnore {
		b.write(" do nothing")
		return
	}
	b.write(" do update set ")
	n := 0
	for _, column := range columns {
		if slices.Contains(key.Columns, column.Name) {
			continue
		}
		b.comma(n)
		n++
		b.writeAll(quote(column.Name), " = excluded.", quote(column.Name))
	}
	if n == 0 {
		b.writeAll(quote(key.Columns[0]), " = excluded.", quote(key.Columns[0]))
	}
}

// comma separates the items of a list: it writes nothing before the first.
func (b *builder) comma(i int) {
	if i > 0 {
		b.write(", ")
	}
}
