package compile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
)

// Update describes a PATCH.
type Update struct {
	// Body is one object for Update, an array for UpdateMany.
	Body *Body
	// Columns restrict the body to these keys (columns=); nil takes the keys that are there.
	Columns []string
	// MissingDefault has Update give the columns of Columns that the object does not have their defaults; otherwise they
	// become NULL.
	MissingDefault bool
	Return         Return
	// IfMatch is the xmin that a row must have to be changed; nil for any.
	IfMatch *string
	// Tell adds the hidden output of VersionColumn to a representation.
	Tell bool
}

var (
	errWriteOrder = fault.New(fault.Invalid, "validation_error",
		"limit, offset, @distinct and @cursor cannot be used with an update or a delete; select the rows by filters")
	errKeyNeeded = fault.New(fault.Invalid, "validation_error", "the relation has no primary key")
	errNoXmin    = fault.New(fault.Invalid, "validation_error", "If-Match works on tables only")
	errManyKey   = fault.New(fault.Invalid, "validation_error", "an object of the body addresses no row")
)

// Update compiles an update of the rows that the filters of q select, all with the values of the body's only object. An
// object without keys updates no row and returns none, as in PostgREST.
func (c Context) Update(rel *introspect.Relation, q *query.Request, u Update) (*Statement, error) {
	if u.Body.Rows > 1 {
		return nil, errBody.Msgf("The body is an array of %d objects; one object is needed.", u.Body.Rows)
	}
	columns, err := c.bodyColumns(rel, u.Body, u.Columns)
	if err != nil {
		return nil, err
	}
	var b builder
	set := make([]string, len(columns))
	err = u.Body.each(func(_ int, members []member) error {
		for i, column := range columns {
			value, present, err := memberValue(members, column, u.Body.Text)
			if err != nil {
				return err
			}
			if !present && u.MissingDefault {
				set[i] = "default"
				continue
			}
			set[i] = formOf(column.Type, u.Body.Text).decode(b.param(value), column.Type)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if u.Body.Rows == 0 {
		columns = nil
	}
	return c.update(&b, rel, q, assignments{columns: columns, values: set, more: extras{version: u.Tell}}, u.Return, u.IfMatch)
}

// memberValue is the encoded value of a column in a row, nil for NULL, and whether the row has one.
func memberValue(members []member, column *introspect.Column, text bool) (value []byte, present bool, err error) {
	for _, m := range members {
		if m.name == column.Name {
			value, err = formOf(column.Type, text).encode(m.raw)
			return value, true, err
		}
	}
	return nil, false, nil
}

// assignments are what an update sets, and under which conditions beside the filters.
type assignments struct {
	columns    []*introspect.Column
	values     []string
	from       string
	conditions []string
	more       extras
}

// update writes an update and what it returns.
func (c Context) update(
	b *builder, rel *introspect.Relation, q *query.Request, set assignments, ret Return, ifMatch *string,
) (*Statement, error) {
	if err := checkWrite(q); err != nil {
		return nil, err
	}
	if len(set.columns) == 0 {
		return c.nothing(rel, q, ret)
	}
	b.write("update ")
	b.name(rel.Schema, rel.Name)
	b.write(" as t set ")
	for i, column := range set.columns {
		b.comma(i)
		b.ident(column.Name)
		b.writeAll(" = ", set.values[i])
	}
	if set.from != "" {
		b.writeAll(" from ", set.from)
	}
	if err := c.writeWhere(b, rel, q, set.conditions, ifMatch); err != nil {
		return nil, err
	}
	return c.answer(b, rel, q, ret, set.more)
}

// writeWhere writes the filters, further conditions and the test of xmin.
func (c Context) writeWhere(
	b *builder, rel *introspect.Relation, q *query.Request, conditions []string, ifMatch *string,
) error {
	if ifMatch != nil {
		if !rel.HasXmin {
			return errNoXmin
		}
		xmin := *ifMatch
		if _, err := strconv.ParseUint(xmin, 10, 32); err != nil {
			xmin = "0" // which no row has: a tag of another making matches none
		}
		conditions = append(conditions[:len(conditions):len(conditions)], "t.xmin = "+b.param([]byte(xmin))+"::xid")
	}
	conds, err := c.own(rel, q)
	if err != nil {
		return err
	}
	filters := b.capture(func() { c.where(b, rel, conds, "t") })
	if filters, ok := strings.CutPrefix(filters, " where "); ok {
		conditions = append(conditions[:len(conditions):len(conditions)], "("+filters+")")
	}
	for i, condition := range conditions {
		if i == 0 {
			b.write(" where ")
		} else {
			b.write(" and ")
		}
		b.write(condition)
	}
	return b.err
}

// checkWrite refuses what would change which rows an update or a delete means. An order is for the answer.
func checkWrite(q *query.Request) error {
	if q.Limit != nil || q.Offset != nil || q.Distinct != nil || q.Cursor != nil {
		return errWriteOrder
	}
	return nil
}

// UpdateMany compiles an update of several rows with different values: each object of the body names its row by the
// primary key's columns and sets the others that it has. Filters of q narrow the rows further.
func (c Context) UpdateMany(rel *introspect.Relation, q *query.Request, u Update) (*Statement, error) {
	if len(rel.PrimaryKey) == 0 {
		return nil, errKeyNeeded.Msgf("The rows of an array are found by the primary key; '%s' has none.", rel.Name)
	}
	if u.IfMatch != nil {
		return nil, errNoXmin.Msgf("If-Match cannot be used with an array: it names the state of one row.")
	}
	restrict := u.Columns
	if restrict != nil {
		restrict = slices.Clone(restrict)
		for _, column := range rel.PrimaryKey {
			if !slices.Contains(restrict, column.Name) {
				restrict = append(restrict, column.Name)
			}
		}
	}
	columns, err := c.bodyColumns(rel, u.Body, restrict)
	if err != nil {
		return nil, err
	}
	if err := checkKeys(rel, u.Body); err != nil {
		return nil, err
	}
	if u.Body.Rows == 0 {
		return c.update(&builder{}, rel, q, assignments{}, u.Return, nil)
	}
	rs, err := rowsOf(u.Body, columns)
	if err != nil {
		return nil, err
	}
	var b builder
	set := assignments{from: rs.from("b", b.param)}
	for i, column := range columns {
		value := rs.value(i, "b")
		switch {
		case column.PrimaryKey || slices.Contains(rel.PrimaryKey, column):
			set.conditions = append(set.conditions, "t."+quote(column.Name)+" = "+value)
			continue
		case rs.present[i] != nil:
			value = "case when b.p" + strconv.Itoa(i+1) + " then " + value + " else t." + quote(column.Name) + " end"
		}
		set.columns = append(set.columns, column)
		set.values = append(set.values, value)
	}
	return c.update(&b, rel, q, set, u.Return, nil)
}

// checkKeys makes sure that each row of a body has the primary key, and no two have the same: PostgreSQL would take any
// of them.
func checkKeys(rel *introspect.Relation, body *Body) error {
	seen := make(map[string]int, body.Rows)
	var key []byte
	return body.each(func(row int, members []member) error {
		key = key[:0]
		for _, column := range rel.PrimaryKey {
			i := slices.IndexFunc(members, func(m member) bool { return m.name == column.Name })
			if i < 0 || string(members[i].raw) == "null" {
				return errManyKey.Msgf("Object %d of the body has no value of '%s', which is part of the primary key.",
					row+1, column.Name)
			}
			text, err := scalarText(members[i].raw)
			if err != nil {
				return err
			}
			text = sameKey(column.Type, text)
			key = strconv.AppendInt(key, int64(len(text)), 10)
			key = append(append(key, ':'), text...)
		}
		if first, ok := seen[string(key)]; ok {
			return errManyKey.Msgf("Objects %d and %d of the body address the same row.", first, row+1)
		}
		seen[string(key)] = row + 1
		return nil
	})
}

// sameKey brings the spellings of an integer or a uuid to one.
func sameKey(t *introspect.Type, text []byte) []byte {
	switch t = t.Underlying(); {
	case t.Name == "uuid":
		return []byte(strings.ToLower(strings.NewReplacer("-", "", "{", "", "}", "").Replace(string(text))))
	case t.Category == 'N':
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return strconv.AppendInt(nil, n, 10)
		}
	}
	return text
}
