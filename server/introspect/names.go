package introspect

import (
	"slices"
	"strings"

	"github.com/jinzhu/inflection"
)

// pluralise gives the relations their plural names. Where the plural is the exact name of another relation, or an
// earlier one's plural, the relation keeps its own name only.
func (l *loader) pluralise() {
	s := l.schema
	ordered := slices.Clone(s.Relations)
	slices.SortStableFunc(ordered, func(a, b *Relation) int { return a.rank() - b.rank() })
	for _, r := range ordered {
		r.Plural = inflection.Plural(r.Name)
		n := [2]string{r.Schema, r.Plural}
		if s.relations[n] != nil || s.plurals[n] != nil {
			r.Plural = r.Name
			continue
		}
		s.plurals[n] = r
	}
}

// rank orders relations that share a plural: tables before views, the whole before its partitions.
func (r *Relation) rank() int {
	switch {
	case r.Partition:
		return 2
	case r.Kind == View || r.Kind == MaterializedView:
		return 1
	default:
		return 0
	}
}

// SimilarRelation returns the name of the relation of that schema that name may have meant; "" for none.
func (s *Schema) SimilarRelation(schema, name string) string {
	var c closest
	c.start(name)
	for _, r := range s.Relations {
		if r.Schema == schema && !r.Partition {
			c.try(r.Name)
			if r.Plural != r.Name {
				c.try(r.Plural)
			}
		}
	}
	return c.best
}

// SimilarFunction returns the name of the function of that schema that name may have meant; "" for none.
func (s *Schema) SimilarFunction(schema, name string) string {
	var c closest
	c.start(name)
	for _, f := range s.Functions {
		if f.Schema == schema {
			c.try(f.Name)
		}
	}
	return c.best
}

// SimilarColumn returns the name of the column, or computed column, that name may have meant; "" for none.
func (r *Relation) SimilarColumn(name string) string {
	var c closest
	c.start(name)
	for _, col := range r.Columns {
		c.try(col.Name)
	}
	names := make([]string, 0, len(r.Computed))
	for n := range r.Computed {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		c.try(n)
	}
	return c.best
}

// maxSimilar bounds the length of a name that is compared: PostgreSQL's names have 63 bytes.
const maxSimilar = 64

// maxCompared bounds how many names are compared in full, so that a wrong name costs no more in a huge schema.
const maxCompared = 2000

// closest finds the candidate with the fewest edits, the first among equals.
type closest struct {
	name     []byte
	limit    int
	compared int
	best     string
	rows     [3][maxSimilar + 1]int
}

func (c *closest) start(name string) {
	c.name = []byte(strings.ToLower(name))
	// A third of the name may be wrong, three letters at most; of very short names nothing can be guessed but the case.
	c.limit = min(len(name)/3, 3) + 1
	if len(name) > maxSimilar {
		c.limit = 0
	}
}

// try considers a candidate.
func (c *closest) try(candidate string) {
	if len(candidate) > maxSimilar || c.limit == 0 || abs(len(candidate)-len(c.name)) >= c.limit {
		return
	}
	if c.compared++; c.compared > maxCompared {
		return
	}
	if d := c.distance(strings.ToLower(candidate)); d < c.limit {
		c.limit, c.best = d, candidate
	}
}

// distance is the number of letters to insert, remove, replace or swap with the next.
func (c *closest) distance(b string) int {
	before, last, row := &c.rows[0], &c.rows[1], &c.rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := range c.name {
		row[0] = i + 1
		lowest := row[0]
		for j := range len(b) {
			d := last[j]
			if c.name[i] != b[j] {
				d++
			}
			d = min(d, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && c.name[i] == b[j-1] && c.name[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			row[j+1] = d
			lowest = min(lowest, d)
		}
		if lowest > c.limit {
			return lowest
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

func abs(n int) int { return max(n, -n) }
