package introspect

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// routine is a function as it is in the catalog.
type routine struct {
	*Function
	types    []uint32
	modes    string // empty when all arguments are IN
	names    []string
	result   uint32
	defaults int
}

func (l *loader) function(r *row) {
	f := &routine{Function: &Function{OID: r.oid(), Schema: l.name(r), Name: l.name(r)}}
	f.Procedure = r.char() == 'p'
	f.Volatility = Volatility(r.char())
	f.ReturnsSet, f.SingleRow = r.bool(), r.bool()
	f.result, f.defaults = r.oid(), r.int()
	for _, n := range r.ints() {
		f.types = append(f.types, uint32(n))
	}
	f.modes = r.text()
	r.json(&f.names)
	f.Comment, f.Grants = r.text(), r.grants()
	l.routines = append(l.routines, f)
}

// buildFunctions finds the arguments and results of the functions, and which of them are computed columns.
func (l *loader) buildFunctions() {
	s := l.schema
	for _, f := range l.routines {
		if !l.describe(f) {
			continue
		}
		s.Functions = append(s.Functions, f.Function)
	}
	slices.SortFunc(s.Functions, func(a, b *Function) int {
		return cmp.Or(cmp.Compare(l.places[a.Schema], l.places[b.Schema]), cmp.Compare(a.Name, b.Name),
			slices.CompareFunc(a.Args, b.Args, func(a, b Argument) int {
				return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type.SQL, b.Type.SQL))
			}), cmp.Compare(a.OID, b.OID))
	})
	for _, f := range s.Functions {
		n := [2]string{f.Schema, f.Name}
		s.functions[n] = append(s.functions[n], f)
		s.leaving[n] = leaves{reading: true, writing: true}
		rel := l.computedOf(f)
		if rel == nil || f.ReturnsSet || rel.columns[f.Name] != nil || rel.Computed[f.Name] != nil {
			continue // a column of that name wins, as it does in PostgreSQL; else the first schema
		}
		if rel.Computed == nil {
			rel.Computed = map[string]*Function{}
		}
		rel.Computed[f.Name] = f
	}
}

// describe fills in the arguments and the result. It reports false where a type is missing.
func (l *loader) describe(f *routine) bool {
	if f.Returns = l.schema.types[f.result]; f.Returns == nil {
		return false
	}
	var out []Attribute
	named := false // whether any of them has a name
	for i, oid := range f.types {
		a := Argument{Type: l.schema.types[oid]}
		if a.Type == nil {
			return false
		}
		if i < len(f.names) {
			a.Name = f.names[i]
		}
		mode := byte('i')
		if i < len(f.modes) {
			mode = f.modes[i]
		}
		a.Variadic = mode == 'v'
		switch mode {
		case 'i', 'v', 'b':
			f.Args = append(f.Args, a)
		case 'o':
			if f.Procedure {
				f.Outs = append(f.Outs, a)
			}
		}
		if strings.IndexByte("obt", mode) >= 0 {
			name := a.Name
			named = named || name != ""
			if name == "" {
				name = "column" + strconv.Itoa(len(out)+1) // as PostgreSQL names it
			}
			out = append(out, Attribute{Name: name, Type: a.Type})
		}
	}
	for i := max(0, len(f.Args)-f.defaults); i < len(f.Args); i++ {
		f.Args[i].HasDefault = true
	}
	result := f.Returns.Underlying()
	switch {
	case len(out) == 1 && !named && !f.Procedure:
		// One OUT argument without a name makes a scalar.
	case out != nil:
		f.Columns = out
	case result.Kind == Composite:
		f.Columns = result.Attributes
		f.Relation = l.schema.byOID[result.relation]
	}
	return true
}

// computedOf returns the relation whose row is the only argument of f; nil for none.
func (l *loader) computedOf(f *Function) *Relation {
	if len(f.Args) != 1 || f.Procedure || f.Args[0].Variadic || f.Args[0].Type.Kind != Composite ||
		f.Returns.Kind == Pseudo {
		return nil
	}
	return l.schema.byOID[f.Args[0].Type.relation]
}
