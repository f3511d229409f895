package compile

import (
	"fmt"
	"strings"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
)

var (
	errColumn = fault.New(fault.Invalid, "42703", "column does not exist")
	errCast   = fault.New(fault.Invalid, "42704", "type does not exist")
	// The hint names what the caller lacks: whoever may call functions may call those that a column stands for as well.
	errVolatile = fault.New(fault.Forbidden, "access_denied", "a volatile function needs the scope execute:rpc").
			WithHint("declare the function stable or immutable if it only reads, or use a key with the scope execute:rpc")
)

// value is an SQL expression that can stand as an operand, with what is known of it.
type value struct {
	sql string
	coding
	typ     *introspect.Type // nil where not known
	notNull bool
}

// has reports whether rows of the level have a column, stored or computed, of that name.
func (l *level) has(name string) bool {
	if l.rel == nil {
		return l.attribute(name) != nil
	}
	if l.rel.Column(name) != nil {
		return l.source == nil || l.source.Has == nil || l.source.Has(name)
	}
	return l.rel.Computed[name] != nil
}

// declares is has, whatever of the relation the level's source gives.
func (l *level) declares(name string) bool {
	return l.has(name) || l.rel != nil && l.rel.Column(name) != nil
}

func (l *level) attribute(name string) *introspect.Attribute {
	for i := range l.attributes {
		if l.attributes[i].Name == name {
			return &l.attributes[i]
		}
	}
	return nil
}

// column resolves a name of the request.
func (l *level) column(name string) value {
	if !l.has(name) {
		l.c.b.fail(l.unknownColumn(name))
		return value{}
	}
	if l.rel == nil {
		t := l.attribute(name).Type
		return value{sql: l.ref(name), coding: codingOf(t), typ: t}
	}
	if c := l.rel.Column(name); c != nil {
		return l.stored(c)
	}
	fn := l.rel.Computed[name]
	l.mayCall(fn)
	return value{
		sql: quote(fn.Schema) + "." + quote(fn.Name) + "(" + l.row() + ")", coding: codingOf(fn.Returns), typ: fn.Returns,
	}
}

// mayCall fails the statement where the function is not for the caller.
func (l *level) mayCall(fn *introspect.Function) {
	if l.c.DenyVolatile && fn.Volatility == introspect.Volatile {
		l.c.b.fail(errVolatile.Msgf("%s.%s is computed by a volatile function, which may do more than read: it requires the scope execute:rpc", l.rel.Name, fn.Name))
	}
}

func (l *level) stored(c *introspect.Column) value {
	return value{sql: l.ref(c.Name), coding: codingOf(c.Type), typ: c.Type, notNull: c.NotNull}
}

// ref is the SQL of a column of the level's rows.
func (l *level) ref(name string) string {
	if l.outside {
		l.use(name)
	}
	if strings.IndexByte(name, '"') >= 0 {
		return l.alias + "." + quote(name)
	}
	return l.alias + `."` + name + `"`
}

// row is the SQL of a whole row as a value of the relation's type, for functions that take one.
func (l *level) row() string {
	switch {
	case l.outside:
		l.wholeRow = true
		return l.alias + ".bough_row"
	case l.source != nil:
		return l.castRow()
	}
	return l.alias + ".*"
}

// castRow makes a whole row a value of the relation's type. A source may have columns beside the relation's.
func (l *level) castRow() string {
	b := l.c.b
	return b.capture(func() {
		if l.source == nil {
			b.writeAll("(", l.alias, ".*)::")
		} else {
			b.write("row(")
			for i, c := range l.rel.Columns {
				if i > 0 {
					b.write(", ")
				}
				b.writeAll(l.alias, ".")
				b.ident(c.Name)
			}
			b.write(")::")
		}
		b.name(l.rel.Schema, l.rel.Name)
	})
}

func (l *level) unknownColumn(name string) error {
	var names []string
	label := name
	if l.rel == nil {
		for _, a := range l.attributes {
			names = append(names, a.Name)
		}
	} else {
		label = l.rel.Name + "." + name
		for _, c := range l.rel.Columns {
			names = append(names, c.Name)
		}
		for computed := range l.rel.Computed {
			names = append(names, computed)
		}
	}
	err := errColumn.Msgf("column %s does not exist", label)
	if near := closest(name, names); near != "" {
		return err.WithHint(fmt.Sprintf("Perhaps you meant %q", near))
	}
	return err
}

// field resolves a column with its path. Composite and array columns have paths through to_jsonb.
func (l *level) field(f query.Field) value {
	v := l.column(f.Name)
	if len(f.Path) == 0 || l.c.b.err != nil {
		return v
	}
	b := l.c.b
	v.typ, v.notNull = nil, false
	base := v
	v.sql = b.capture(func() {
		b.write("(")
		if base.json {
			b.write(base.sql)
		} else {
			b.writeAll("to_jsonb(", base.sql, ")")
			v.coding = codeJSONB
		}
		for i, step := range f.Path {
			if step.Text {
				b.write("->>")
			} else {
				b.write("->")
			}
			if step.IsIndex {
				// In parentheses, because -> and a minus sign would be read as one operator.
				b.write("(")
				b.number(step.Index)
				b.write(")")
			} else {
				b.literal(step.Key)
			}
			if step.Text && i == len(f.Path)-1 {
				v.coding = codeString
			}
		}
		b.write(")")
	})
	return v
}

// cast converts a value to a type that the request names; "" leaves it as it is.
func (l *level) cast(v value, name string) value {
	if name == "" {
		return v
	}
	sql, code := l.castType(name)
	return value{sql: "(" + v.sql + ")::" + sql, coding: code}
}

// fieldName is the name of a field in the result: the last key of its path, or the column's.
func fieldName(f query.Field) string {
	for i := len(f.Path) - 1; i >= 0; i-- {
		if !f.Path[i].IsIndex {
			return f.Path[i].Key
		}
	}
	return f.Name
}
