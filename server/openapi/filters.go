package openapi

import (
	"slices"
	"strings"

	"github.com/boughdb/bough/server/introspect"
)

// class is a set of types that are compared in the same ways.
type class struct {
	name string
	// operators in the key of a filter, as column.op=value.
	operators []string
	// wide are those that the form column=op.value has besides.
	wide []string
}

var (
	equality = []string{"eq", "neq", "in", "is"}
	ordering = []string{"eq", "neq", "gt", "gte", "lt", "lte", "in", "is"}
	texts    = []string{"eq", "neq", "gt", "gte", "lt", "lte", "like", "ilike", "in", "is"}

	booleans = class{"Boolean", equality, []string{"isdistinct"}}
	ordered  = class{"Ordered", ordering, []string{"isdistinct"}}
	textual  = class{"Text", texts, []string{"isdistinct", "match", "imatch", "fts", "plfts", "phfts", "wfts"}}
	arrays   = class{"Array", []string{"eq", "neq", "is"}, []string{"isdistinct", "cs", "cd", "ov"}}
	ranges   = class{"Range", []string{"eq", "neq", "is"}, []string{"isdistinct", "cs", "cd", "ov", "sl", "sr", "nxr", "nxl", "adj"}}
	jsonb    = class{"JSON", []string{"eq", "neq", "is"}, []string{"isdistinct", "cs", "cd"}}
	vectors  = class{"Search", []string{"is"}, []string{"fts", "plfts", "phfts", "wfts"}}
	opaque   = class{"Null", []string{"is"}, nil}
	others   = class{"Other", equality, []string{"isdistinct"}}
)

// classOf tells how values of a type can be compared.
func classOf(t *introspect.Type) class {
	t = t.Underlying()
	switch t.Kind {
	case introspect.Array:
		return arrays
	case introspect.Range, introspect.Multirange:
		return ranges
	case introspect.Enum:
		return ordered
	case introspect.Base:
	default:
		return opaque
	}
	switch t.Name {
	case "json", "xml":
		return opaque
	case "jsonb":
		return jsonb
	case "tsvector":
		return vectors
	case "bool":
		return booleans
	}
	switch t.Category {
	case 'S':
		return textual
	case 'N', 'D', 'T', 'I', 'V':
		return ordered
	case 'G':
		return opaque
	}
	return others
}

// filter is a query parameter that filters, and its component.
type filter struct{ key, component string }

// refs are references to filters, as text: several operations have the same.
func refs(filters []filter) array {
	out := make(array, len(filters))
	for i, f := range filters {
		out[i] = raw(appendJSON(nil, ref("parameters", f.component)))
	}
	return out
}

// filters adds the filters of a relation's columns to the components and returns the references to them: one for each
// operator that the column's type has, and one for the form that has the operator in the value.
func (b *builder) filters(r *relation) []filter {
	var out []filter
	taken := b.fields(tablePath)
	add := func(component, key string, members ...member) {
		param := taken.parameter(append(object{{"name", key}, {"in", "query"}}, members...))
		// Tables share the filters of columns that have the same name and type.
		text := string(appendJSON(nil, param))
		name, ok := b.shared[text]
		if !ok {
			name = b.components.take(component)
			b.shared[text] = name
			b.parameters.add(name, raw(text))
		}
		out = append(out, filter{key, name})
	}
	for _, c := range r.columns {
		class := classOf(c.Type)
		component := title(c.Name)
		key, ok := filterKey(c.Name, false)
		if !ok {
			continue
		}
		value := object{{"type", "string"}}
		if plain[c.Type.Underlying().Name] != nil || c.Type.Underlying().Kind == introspect.Enum {
			value = b.typeSchema(c.Type, false)
		}
		for _, op := range class.operators {
			if op == "is" && c.NotNull && class.name != booleans.name {
				continue // no value is null
			}
			schema := value
			switch op {
			case "like", "ilike":
				schema = object{{"type", "string"}}
			case "in", "is":
				schema = b.filterSchema(op, class)
			}
			add(component+"."+op, key+"."+op, member{"schema", schema})
		}
		if key, ok := filterKey(c.Name, true); ok {
			add(component+"Filter", key, member{"schema", b.filterSchema("", class)})
		}
	}
	return out
}

// filterSchema is the component with the schema of a filter's value that is not simply a value of the column: of in, of
// is, and with "" of the form that has the operator in the value.
func (b *builder) filterSchema(op string, c class) object {
	key := "filter " + c.name + op
	var schema object
	switch op {
	case "in":
		key = "filter in"
		schema = object{
			{"type", "string"}, {"description", `A list: (1,2) or ("a,b","c").`}, {"pattern", `^\(.*\)$`},
		}
	case "is":
		states := array{"null", "not_null"}
		if c.name == booleans.name {
			states = append(states, "true", "false", "unknown")
		} else {
			key = "filter is"
		}
		schema = object{{"type", "string"}, {"enum", states}}
	default:
		sample := c.operators[0] + ".1"
		if c.operators[0] == "is" {
			sample = "is.null"
		}
		all := strings.Join(slices.Concat(c.operators, c.wide), "|")
		schema = object{
			{"type", "array"},
			{"description", "Conditions, each an operator and its operand, such as " + sample + ". The operators are " +
				strings.ReplaceAll(all, "|", ", ") + "; not. before one negates it."},
			{"items", object{{"type", "string"}, {"pattern", `^(not\.)?(` + all + `)(\([^)]*\))?\.`}}},
		}
	}
	name, ok := b.shared[key]
	if !ok {
		suffix := title(op)
		if op == "" {
			suffix = c.name
		} else if op == "is" && c.name == booleans.name {
			suffix = "IsBoolean"
		}
		name = b.components.take("Filter" + suffix)
		b.shared[key] = name
		b.schemas.add(name, schema)
	}
	return ref("schemas", name)
}
