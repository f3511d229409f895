package compile

import (
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/query"
)

var errKeyset = fault.New(fault.Invalid, "validation_error", "invalid cursor")

// keysetTerm is a term of the order with the cursor's value.
type keysetTerm struct {
	value
	bound      string // the place holder; "" for NULL
	desc       bool
	nullsFirst bool
}

// after is the operator that finds values after the cursor's.
func (t *keysetTerm) after() string {
	if t.desc {
		return " < "
	}
	return " > "
}

// writeKeyset writes the condition that a row comes after the one with the cursor's values.
func (l *level) writeKeyset(k *query.Keyset) {
	b := l.c.b
	if len(k.Values) != len(k.Order) || len(k.Order) == 0 {
		b.fail(errKeyset.Msgf("The cursor is for another order: leave it out to begin again."))
		return
	}
	terms := make([]keysetTerm, len(k.Order))
	uniform := true
	for i, o := range k.Order {
		if o.Embed != "" {
			b.fail(errKeyset.Msgf("Pages by @cursor cannot be ordered by columns of the embed '%s'.", o.Embed))
			return
		}
		t := &terms[i]
		t.value, t.desc = l.field(o.Field), o.Desc
		t.nullsFirst = o.Nulls == query.NullsFirst || o.Nulls == query.DefaultNulls && o.Desc
		if v := k.Values[i]; v != nil {
			t.bound = b.param([]byte(*v))
		}
		uniform = uniform && t.notNull && t.bound != "" && t.desc == terms[0].desc
	}
	if b.err != nil {
		return
	}
	if uniform {
		l.writeRowComparison(terms)
		return
	}
	b.write("(")
	// A bound on the first column alone is what an index can use.
	if first := &terms[0]; len(terms) > 1 && first.bound != "" && (first.notNull || first.nullsFirst) {
		b.writeAll(first.sql, first.after()[:2], "= ", first.bound, " and (")
		l.writeAlternatives(terms)
		b.write(")")
	} else {
		l.writeAlternatives(terms)
	}
	b.write(")")
}

// writeRowComparison writes (a, b) > ($1, $2), which an index on both columns answers.
func (l *level) writeRowComparison(terms []keysetTerm) {
	b := l.c.b
	b.write("(")
	for i := range terms {
		if i > 0 {
			b.write(", ")
		}
		b.write(terms[i].sql)
	}
	b.writeAll(")", terms[0].after(), "(")
	for i := range terms {
		if i > 0 {
			b.write(", ")
		}
		b.write(terms[i].bound)
	}
	b.write(")")
}

// writeAlternatives writes, for each term, that all before it are equal and that it comes after.
func (l *level) writeAlternatives(terms []keysetTerm) {
	b := l.c.b
	some := false
	for i := range terms {
		t := &terms[i]
		if t.bound == "" && (!t.nullsFirst || t.notNull) {
			continue // nothing comes after NULL
		}
		if some {
			b.write(" or ")
		}
		some = true
		for j := range terms[:i] {
			if equal := &terms[j]; equal.bound == "" {
				b.writeAll(equal.sql, " is null and ")
			} else {
				b.writeAll(equal.sql, " = ", equal.bound, " and ")
			}
		}
		switch {
		case t.bound == "":
			b.writeAll(t.sql, " is not null")
		case t.nullsFirst || t.notNull:
			b.writeAll(t.sql, t.after(), t.bound)
		default:
			b.writeAll("(", t.sql, t.after(), t.bound, " or ", t.sql, " is null)")
		}
	}
	if !some {
		b.write("false")
	}
}
