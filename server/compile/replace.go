package compile

import (
	"slices"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
)

// Replace describes a PUT of the row with a key.
type Replace struct {
	// Key are the values of the primary key's columns, in key order.
	Key  []string
	Body *Body
	// Columns restrict the body to these keys (columns=); nil takes the keys that are there.
	Columns []string
	Return  Return
	// IfMatch is the xmin that the row must have. With it, no row is made where none is.
	IfMatch *string
	// Existing makes no row where none is.
	Existing bool
	// Tell adds the hidden outputs of KeyColumn and VersionColumn to a representation.
	Tell bool
}

var errPutKey = fault.New(fault.Invalid, "PGRST115", "Payload values do not match URL in primary key column(s)")

// Replace compiles the replacement of one row: columns that the body leaves out get their defaults. A row that is not
// there is made, except where the key is an identity column that is always generated.
func (c Context) Replace(rel *introspect.Relation, q *query.Request, r Replace) (*Statement, error) {
	switch {
	case len(rel.PrimaryKey) == 0:
		return nil, errKeyNeeded.Msgf("A row is replaced by its primary key; '%s' has none.", rel.Name)
	case len(r.Key) != len(rel.PrimaryKey):
		return nil, errKeyNeeded.Msgf("The primary key of '%s' has %d columns; %d values were given.",
			rel.Name, len(rel.PrimaryKey), len(r.Key))
	case r.Body.Rows != 1:
		return nil, errBody.Msgf("The body holds %d objects; one is needed to replace a row.", r.Body.Rows)
	}
	if err := checkWrite(q); err != nil {
		return nil, err
	}
	columns, err := c.bodyColumns(rel, r.Body, r.Columns)
	if err != nil {
		return nil, err
	}
	columns = slices.DeleteFunc(columns, func(column *introspect.Column) bool {
		return slices.Contains(rel.PrimaryKey, column)
	})
	var b builder
	keys := make([]string, len(r.Key))
	for i, key := range r.Key {
		if err := checkText(key); err != nil {
			return nil, errKeyNeeded.Msgf("The value of '%s' in the path: %v.", rel.PrimaryKey[i].Name, err)
		}
		keys[i] = b.param([]byte(key))
	}
	values := make([]string, len(columns))
	err = r.Body.each(func(_ int, members []member) error {
		for i, column := range columns {
			value, _, err := memberValue(members, column, r.Body.Text)
			if err != nil {
				return err
			}
			values[i] = formOf(column.Type, r.Body.Text).decode(b.param(value), column.Type)
		}
		return matchKeys(rel, r.Key, members)
	})
	if err != nil {
		return nil, err
	}
	rest := c.defaulted(rel, columns)
	if r.IfMatch != nil || r.Existing || !Creates(rel) {
		set := assignments{columns: slices.Concat(columns, rest), values: values, more: extras{version: r.Tell}}
		for range rest {
			set.values = append(set.values, "default")
		}
		for i, column := range rel.PrimaryKey {
			set.conditions = append(set.conditions, "t."+quote(column.Name)+" = "+keys[i])
			if len(set.columns) == 0 { // a table of keys only
				set.columns, set.values = rel.PrimaryKey[:1], []string{"t." + quote(rel.PrimaryKey[0].Name)}
			}
		}
		return c.update(&b, rel, q, set, r.Return, r.IfMatch)
	}
	return c.replaceOrInsert(&b, rel, q, assignments{columns: columns, values: values, more: extras{keys: r.Tell, version: r.Tell}}, keys, rest, r.Return)
}

// Creates reports whether a replacement makes a row that is not there. The key of an identity column that is always
// generated cannot be given.
func Creates(rel *introspect.Relation) bool {
	return !slices.ContainsFunc(rel.PrimaryKey, func(column *introspect.Column) bool { return column.Identity == 'a' })
}

func (c Context) replaceOrInsert(
	b *builder, rel *introspect.Relation, q *query.Request, set assignments, keys []string, rest []*introspect.Column,
	ret Return,
) (*Statement, error) {
	b.write("insert into ")
	b.name(rel.Schema, rel.Name)
	b.write(" as t (")
	all := slices.Concat(rel.PrimaryKey, set.columns)
	for i, column := range all {
		b.comma(i)
		b.ident(column.Name)
	}
	b.write(") values (")
	for i, value := range slices.Concat(keys, set.values) {
		b.comma(i)
		b.write(value)
	}
	b.write(")")
	key := &introspect.Unique{}
	for _, column := range rel.PrimaryKey {
		key.Columns = append(key.Columns, column.Name)
	}
	if len(set.columns) > 0 || len(rest) == 0 {
		onConflict(b, key, ConflictMerge, all)
	} else {
		onConflict(b, key, ConflictMerge, rel.PrimaryKey)
	}
	for _, column := range rest {
		b.writeAll(", ", quote(column.Name), " = default")
	}
	return c.answer(b, rel, q, ret, extras{inserted: true, keys: set.more.keys, version: set.more.version})
}

// defaulted are the columns that a replacement without them sets to their defaults: those that can be written.
func (c Context) defaulted(rel *introspect.Relation, given []*introspect.Column) []*introspect.Column {
	var rest []*introspect.Column
	for _, column := range rel.Columns {
		if column.Generated || column.Identity != 0 || !column.Updatable || slices.Contains(given, column) ||
			slices.Contains(rel.PrimaryKey, column) || !column.Grants.Can(c.Role, introspect.Update) {
			continue
		}
		rest = append(rest, column)
	}
	return rest
}

// matchKeys makes sure that a body that has key columns agrees with the path.
func matchKeys(rel *introspect.Relation, key []string, members []member) error {
	for i, column := range rel.PrimaryKey {
		for _, m := range members {
			if m.name != column.Name {
				continue
			}
			text, err := scalarText(m.raw)
			if err != nil {
				return err
			}
			if text == nil || string(sameKey(column.Type, text)) != string(sameKey(column.Type, []byte(key[i]))) {
				return errPutKey.WithHint("The body's '" + column.Name + "' must be left out or equal the path's.")
			}
		}
	}
	return nil
}
