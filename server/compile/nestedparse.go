package compile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/boughdb/bough/server/introspect"
)

// nestedNode is a relation at one place of the body's tree, with all rows that stand there, whichever row they are in.
type nestedNode struct {
	rel *introspect.Relation
	// via leads from the parent's rows to these; nil for the root.
	via    *introspect.Relationship
	parent *nestedNode
	name   string
	depth  int
	number int

	columns  []*introspect.Column
	rows     []nestedRow
	children []*nestedNode
	last     int // the number of the parent row that was seen last
}

// nestedRow is the values of a row, by the node's columns; nil for those that it does not have.
type nestedRow struct {
	parent int
	values [][]byte
}

// first reports whether rows of the node must be known before the parent's: the parent refers to them.
func (n *nestedNode) first() bool { return n.via.Outgoing && n.via.Junction == nil }

// nestedParser makes the tree of a body.
type nestedParser struct{ nodes []*nestedNode }

func (p *nestedParser) add(parent *nestedNode, rel *introspect.Relation, via *introspect.Relationship, name string) (
	*nestedNode, error,
) {
	n := &nestedNode{rel: rel, via: via, parent: parent, name: name, number: len(p.nodes) + 1}
	if parent != nil {
		n.depth = parent.depth + 1
		parent.children = append(parent.children, n)
	}
	if len(p.nodes) == maxNestedTables || n.depth > maxNestedDepth {
		return nil, errNested.Msgf("The body nests more than %d levels or %d tables.", maxNestedDepth, maxNestedTables)
	}
	p.nodes = append(p.nodes, n)
	return n, nil
}

// row adds the object that the scanner stands at.
func (p *nestedParser) row(n *nestedNode, parent int, s *scanner) error {
	n.rows = append(n.rows, nestedRow{parent: parent})
	number := len(n.rows)
	values := make([][]byte, len(n.columns))
	err := s.object(0, func(raw []byte) error {
		key, err := unescape(raw)
		if err != nil {
			return err
		}
		if column := n.rel.Column(string(key)); column != nil {
			value, err := s.value(1)
			i := slices.Index(n.columns, column)
			if i < 0 {
				i = len(n.columns)
				n.columns = append(n.columns, column)
			}
			for len(values) <= i {
				values = append(values, nil)
			}
			if values[i] != nil {
				return errBody.Msgf("An object of '%s' has the key %q twice.", n.rel.Name, key)
			}
			values[i] = value
			return err
		}
		return p.related(n, number, string(key), s)
	})
	n.rows[number-1].values = values
	return err
}

// related adds the rows under the name of a relationship.
func (p *nestedParser) related(n *nestedNode, number int, name string, s *scanner) error {
	kind := s.peek()
	if kind != '[' && kind != '{' && kind != 'n' {
		return noColumn(n.rel, name)
	}
	var child *nestedNode
	for _, known := range n.children {
		if known.name == name {
			child = known
		}
	}
	if child == nil {
		via, err := nestedRelationship(n.rel, name, kind)
		if err != nil {
			return err
		}
		if child, err = p.add(n, via.To, via, name); err != nil {
			return err
		}
	}
	if child.last == number {
		return errBody.Msgf("An object of '%s' has the key %q twice.", n.rel.Name, name)
	}
	child.last = number
	switch kind {
	case '{':
		if !child.via.One {
			return errNested.Msgf("The rows of '%s' are many; an array is needed.", name)
		}
		return p.row(child, number, s)
	case 'n':
		_, err := s.value(0)
		return err
	}
	if child.via.One {
		return errNested.Msgf("The row of '%s' is one; an object is needed.", name)
	}
	return s.array(0, func() error {
		if s.peek() != '{' {
			return errNested.Msgf("An element of '%s' is not an object.", name)
		}
		return p.row(child, number, s)
	})
}

// nestedRelationship finds the relationship that a key of an object means. Tables that are related in both directions
// are told apart by the value, and a direct relationship comes before one through a junction.
func nestedRelationship(rel *introspect.Relation, key string, kind byte) (*introspect.Relationship, error) {
	found := nestedCandidates(rel, key, kind)
	if len(found) > 1 {
		direct := slices.DeleteFunc(slices.Clone(found), func(r *introspect.Relationship) bool { return r.Junction != nil })
		if len(direct) > 0 {
			found = direct
		}
	}
	switch len(found) {
	case 0:
		return nil, noColumn(rel, key)
	case 1:
		return found[0], nil
	}
	hint := ""
	for _, r := range found {
		if hint != "" {
			hint += ", "
		}
		hint += "'" + r.To.Name + "!" + r.Name + "'"
	}
	return nil, errNested.Msgf("'%s' and '%s' are related in more than one way.", rel.Name, key).
		WithHint("Use one of the keys " + hint + ".")
}

func nestedCandidates(rel *introspect.Relation, key string, kind byte) []*introspect.Relationship {
	target, hint, hinted := strings.Cut(key, "!")
	var found []*introspect.Relationship
	for _, r := range rel.Relationships {
		named := r.To.Name == target || r.To.Plural == target
		switch {
		case r.Function != nil:
			continue
		case hinted && (!named || r.Name != hint && r.JunctionName != hint):
			continue
		case !hinted && !named && r.Name != key:
			continue
		case kind == '{' && !r.One && hasOne(rel, r.To), kind == '[' && r.One && hasMany(rel, r.To):
			continue
		}
		found = append(found, r)
	}
	return found
}

func hasOne(rel, to *introspect.Relation) bool {
	return slices.ContainsFunc(rel.Relationships, func(r *introspect.Relationship) bool { return r.To == to && r.One })
}

func hasMany(rel, to *introspect.Relation) bool {
	return slices.ContainsFunc(rel.Relationships, func(r *introspect.Relationship) bool { return r.To == to && !r.One })
}

// parseNested makes the tree.
func parseNested(rel *introspect.Relation, body *Body) (*nestedParser, error) {
	if body.Text {
		return nil, errNested.Msgf("Only JSON can hold related rows.")
	}
	p := &nestedParser{}
	root, err := p.add(nil, rel, nil, rel.Name)
	if err != nil {
		return nil, err
	}
	s := &scanner{data: body.JSON}
	s.peek()
	if err := s.array(0, func() error {
		s.peek()
		return p.row(root, 0, s)
	}); err != nil {
		return nil, err
	}
	return p, nil
}

// rowSet makes parameters of a node's rows.
func (n *nestedNode) rowSet() (*rowSet, error) {
	rs := &rowSet{columns: n.columns, parents: []byte{'{'}}
	for row := range n.rows {
		if row > 0 {
			rs.parents = append(rs.parents, ',')
		}
		rs.parents = strconv.AppendInt(rs.parents, int64(n.rows[row].parent), 10)
	}
	rs.parents = append(rs.parents, '}')
	for i, column := range n.columns {
		f := formOf(column.Type, false)
		values, present, missing := []byte{'{'}, []byte{'{'}, false
		for row := range n.rows {
			var raw []byte
			if i < len(n.rows[row].values) {
				raw = n.rows[row].values[i]
			}
			var value []byte
			if raw != nil {
				var err error
				if value, err = f.encode(raw); err != nil {
					return nil, err
				}
			}
			values = appendElement(values, value, row > 0)
			present = appendBool(present, raw != nil, row > 0)
			missing = missing || raw == nil
		}
		rs.forms = append(rs.forms, f)
		rs.values = append(rs.values, append(values, '}'))
		if !missing {
			rs.present = append(rs.present, nil)
			continue
		}
		rs.present = append(rs.present, append(present, '}'))
	}
	return rs, nil
}
