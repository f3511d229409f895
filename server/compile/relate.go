package compile

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
)

var (
	errNoRelationship = fault.New(fault.Invalid, "PGRST200", "Could not find a relationship in the schema cache")
	errAmbiguous      = fault.New(fault.MultipleChoices, "PGRST201", "more than one relationship was found")
)

// relationship finds the way that an embed's name and hint mean.
func (l *level) relationship(item *query.Item) *introspect.Relationship {
	var found []*introspect.Relationship
	if l.rel != nil {
		found = l.candidates(item.Target, item.Hint)
	}
	switch len(found) {
	case 1:
		if fn := found[0].Function; fn != nil {
			l.mayCall(fn)
		}
		return found[0]
	case 0:
		l.c.b.fail(l.noRelationship(item))
	default:
		l.c.b.fail(l.ambiguous(item.Target, found))
	}
	return nil
}

// candidates returns the relationships that a name and a hint may mean. Each way of naming hides the ones after it: a
// computed relationship, the relation, a constraint, the column of a foreign key, the relation by its plural.
func (l *level) candidates(target, hint string) []*introspect.Relationship {
	all := l.rel.Relationships
	if hint == "" {
		if found := pick(all, func(r *introspect.Relationship) bool {
			return r.Function != nil && r.Name == target
		}); len(found) > 0 {
			return found
		}
	}
	if found := pick(all, func(r *introspect.Relationship) bool {
		return r.Function == nil && r.To.Name == target && r.To.Schema == l.c.Namespace
	}); len(found) > 0 {
		return byRelation(found, hint)
	}
	if found := pick(all, func(r *introspect.Relationship) bool {
		return r.Function == nil && r.Junction == nil && r.Name == target
	}); len(found) > 0 {
		return preferTables(preferOutgoing(found))
	}
	if found := pick(all, func(r *introspect.Relationship) bool {
		return r.Outgoing && len(r.Columns) == 1 && r.Columns[0].From == target
	}); len(found) > 0 {
		return preferTables(applyHint(found, hint))
	}
	plural := l.c.Schema.Resolve(l.c.Namespace, target)
	return byRelation(pick(all, func(r *introspect.Relationship) bool {
		return r.Function == nil && plural != nil && r.To == plural
	}), hint)
}

// byRelation chooses among the relationships to a relation that was named. The key of a relation that refers to itself
// leads both ways: the relation's name means the many, whatever the hint, the column's name alone the one.
func byRelation(found []*introspect.Relationship, hint string) []*introspect.Relationship {
	many := pick(found, func(r *introspect.Relationship) bool { return !r.Outgoing || r.From != r.To })
	if hinted := applyHint(many, hint); len(hinted) > 0 {
		return preferJunctions(hinted)
	}
	return preferJunctions(applyHint(found, hint))
}

// preferJunctions leaves out the views that show a junction by which the same keys lead to the same relation.
func preferJunctions(found []*introspect.Relationship) []*introspect.Relationship {
	return pick(found, func(v *introspect.Relationship) bool {
		return v.Junction == nil || v.Junction.Kind != introspect.View && v.Junction.Kind != introspect.MaterializedView ||
			!slices.ContainsFunc(found, func(r *introspect.Relationship) bool {
				return r.Junction != nil && r.Junction.Kind != introspect.View && r.Junction.Kind != introspect.MaterializedView &&
					r.To == v.To && r.Name == v.Name && r.JunctionName == v.JunctionName
			})
	})
}

func pick(from []*introspect.Relationship, fits func(*introspect.Relationship) bool) (fitting []*introspect.Relationship) {
	for _, r := range from {
		if fits(r) {
			fitting = append(fitting, r)
		}
	}
	return fitting
}

// preferOutgoing settles what the constraint of a relation that refers to itself means.
func preferOutgoing(found []*introspect.Relationship) []*introspect.Relationship {
	for _, r := range found {
		if r.Outgoing && r.From == r.To {
			return []*introspect.Relationship{r}
		}
	}
	return found
}

// preferTables leaves out the views that show a table to which the same foreign key leads.
func preferTables(found []*introspect.Relationship) []*introspect.Relationship {
	if tables := pick(found, func(r *introspect.Relationship) bool {
		return r.To.Kind != introspect.View && r.To.Kind != introspect.MaterializedView
	}); len(tables) > 0 {
		return tables
	}
	return found
}

// applyHint keeps the relationships that a hint means: by a constraint's name, a junction's, or a column's.
func applyHint(found []*introspect.Relationship, hint string) []*introspect.Relationship {
	if hint == "" {
		return found
	}
	single := func(pairs []introspect.ColumnPair) introspect.ColumnPair {
		if len(pairs) == 1 {
			return pairs[0]
		}
		return introspect.ColumnPair{}
	}
	for _, fits := range []func(r *introspect.Relationship) bool{
		// The way from the junction on tells the two directions of a relation's junction with itself apart.
		func(r *introspect.Relationship) bool { return r.Junction != nil && r.JunctionName == hint },
		func(r *introspect.Relationship) bool {
			return r.Junction == nil && r.Name == hint && (!r.Outgoing || r.From != r.To)
		},
		func(r *introspect.Relationship) bool { return r.Name == hint },
		func(r *introspect.Relationship) bool { return r.Junction != nil && r.Junction.Name == hint },
		func(r *introspect.Relationship) bool { return r.Outgoing && single(r.Columns).From == hint },
		func(r *introspect.Relationship) bool {
			return r.Junction == nil && r.Function == nil && !r.Outgoing && single(r.Columns).To == hint
		},
		func(r *introspect.Relationship) bool {
			return r.Junction != nil && single(r.JunctionColumns).From == hint
		},
		func(r *introspect.Relationship) bool { return r.Junction != nil && single(r.Columns).To == hint },
		func(r *introspect.Relationship) bool { return r.Outgoing && single(r.Columns).To == hint },
		func(r *introspect.Relationship) bool {
			return r.Junction == nil && r.Function == nil && !r.Outgoing && single(r.Columns).From == hint
		},
	} {
		if fitting := pick(found, fits); len(fitting) > 0 {
			return fitting
		}
	}
	return nil
}

// label is the name of the level's rows in messages.
func (l *level) label() string {
	switch {
	case l.rel != nil:
		return l.rel.Name
	case l.source != nil && l.source.Name != "":
		return l.source.Name
	}
	return "the result"
}

func (l *level) noRelationship(item *query.Item) error {
	between := "'" + l.label() + "' and '" + item.Target + "'"
	err := *errNoRelationship.Msgf("Could not find a relationship between %s in the schema cache", between)
	using := ""
	if item.Hint != "" {
		using = " using the hint '" + item.Hint + "'"
	}
	err.Details = "Searched for a foreign key relationship between " + between + using + " in the schema '" +
		l.c.Namespace + "', but no matches were found."
	if l.rel == nil || item.Hint != "" {
		return &err
	}
	names := map[string]bool{}
	for _, r := range l.rel.Relationships {
		if r.Function != nil {
			names[r.Name] = true
		} else if r.To.Schema == l.c.Namespace {
			names[r.To.Name] = true
		}
	}
	delete(names, item.Target)
	if near := closest(item.Target, slices.Sorted(maps.Keys(names))); near != "" {
		err.Hint = "Perhaps you meant '" + near + "' instead of '" + item.Target + "'."
	}
	return &err
}

// candidate describes a relationship in the details of PGRST201.
type candidate struct {
	Cardinality  string `json:"cardinality"`
	Embedding    string `json:"embedding"`
	Relationship string `json:"relationship"`
}

func (l *level) ambiguous(target string, found []*introspect.Relationship) error {
	details := make([]candidate, len(found))
	choices := make([]string, len(found))
	for i, r := range found {
		details[i] = describe(r)
		hint := r.Name
		if r.Junction != nil {
			hint = r.Junction.Name
			if r.From == r.To {
				hint = r.JunctionName
			}
		}
		choices[i] = "'" + target + "!" + hint + "'"
	}
	err := *errAmbiguous.Msgf("Could not embed because more than one relationship was found for '%s' and '%s'", l.label(), target)
	text, jsonErr := json.Marshal(details)
	if jsonErr != nil {
		return jsonErr
	}
	err.Details = string(text)
	err.Hint = "Try changing '" + target + "' to one of the following: " + strings.Join(choices, ", ") +
		". Find the desired relationship in the 'details' key."
	return &err
}

func describe(r *introspect.Relationship) candidate {
	from, to := make([]string, len(r.Columns)), make([]string, len(r.Columns))
	for i, pair := range r.Columns {
		from[i], to[i] = pair.From, pair.To
	}
	c := candidate{Embedding: r.From.Name + " with " + r.To.Name}
	switch {
	case r.Function != nil:
		c.Cardinality = "many"
		if r.One {
			c.Cardinality = "one"
		}
		c.Relationship = r.Name + "(" + r.From.Name + ")"
	case r.Junction != nil:
		there := make([]string, len(r.JunctionColumns))
		for i, pair := range r.JunctionColumns {
			there[i] = pair.From
		}
		c.Cardinality = "many-to-many"
		c.Relationship = r.Junction.Name + " using " + r.Name + "(" + strings.Join(to, ", ") + ") and " +
			r.JunctionName + "(" + strings.Join(there, ", ") + ")"
	default:
		c.Cardinality = "one-to-many"
		if r.One {
			c.Cardinality = "one-to-one"
			if r.Outgoing && !isUnique(r.From, from) {
				c.Cardinality = "many-to-one"
			}
		}
		c.Relationship = r.Name + " using " + r.From.Name + "(" + strings.Join(from, ", ") + ") and " +
			r.To.Name + "(" + strings.Join(to, ", ") + ")"
	}
	return c
}

// isUnique reports whether a unique constraint covers no other columns than these.
func isUnique(rel *introspect.Relation, columns []string) bool {
	for _, u := range rel.Uniques {
		if u.Predicate == "" && !slices.ContainsFunc(u.Columns, func(c string) bool { return !slices.Contains(columns, c) }) {
			return true
		}
	}
	return false
}
