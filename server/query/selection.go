package query

import (
	"slices"
	"strings"
)

// ParseSelect reads the value of select=: columns, aggregates and embeds, separated by commas. An empty text is an
// empty list, not nil.
func ParseSelect(text string) ([]Item, error) {
	s := selectScanner{scanner: scanner{what: "select", text: text}}
	s.space()
	items, err := s.list(0)
	if err != nil {
		return nil, err
	}
	if !s.done() {
		return nil, s.expected("a comma or the end", "there is a closing parenthesis too many")
	}
	return items, nil
}

var aggregates = []string{"avg", "count", "max", "min", "sum"}

type selectScanner struct {
	scanner
	items int
}

// list reads items up to the end or, inside of an embed, up to its closing parenthesis.
func (s *selectScanner) list(depth int) ([]Item, error) {
	if depth > maxDepth {
		return nil, s.tooDeep()
	}
	if s.done() || depth > 0 && s.peek() == ')' {
		return []Item{}, nil
	}
	var items []Item
	if depth == 0 {
		items = make([]Item, 0, s.guess())
	}
	for {
		if s.items++; s.items > maxItems {
			return nil, tooMany("items of select")
		}
		items = append(items, Item{})
		if err := s.item(&items[len(items)-1], depth); err != nil {
			return nil, err
		}
		s.space()
		switch {
		case s.take(','):
			s.space()
		case s.done() || s.peek() == ')':
			return items, nil
		default:
			return nil, s.expected(`a comma, ")" or the end`, "")
		}
	}
}

// guess counts the outermost items.
func (s *selectScanner) guess() int {
	n, depth := 1, 0
	for i := s.pos; i < len(s.text) && n < maxItems; i++ {
		switch s.text[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				n++
			}
		}
	}
	return n
}

func (s *selectScanner) item(it *Item, depth int) error {
	const what = "a column, an embed or *"
	it.Position = s.pos
	if s.takeText("...") {
		it.Spread = true
	} else if s.take('*') {
		it.Kind = Star
		if s.space(); !s.atEnd() {
			return s.expected(`a comma, ")" or the end after *`, "")
		}
		return nil
	}
	name, quoted, err := s.name(inSelect, what)
	if err != nil {
		return err
	}
	if s.peek() == ':' && !strings.HasPrefix(s.rest(), "::") {
		if it.Spread {
			return s.failAt(s.pos, "an embed that is spread has no alias", "")
		}
		s.pos++
		it.Alias = name
		if s.space(); s.peek() == '*' || s.peek() == '.' {
			return s.expected("a column or an embed after the alias", "")
		}
		if name, quoted, err = s.name(inSelect, "a column or an embed after the alias"); err != nil {
			return err
		}
	}
	switch c := s.peek(); {
	case c == '(' && name == "count" && !quoted && !it.Spread && s.emptyParens():
		it.Kind, it.Func = Aggregate, "count"
		it.FuncCast, err = s.cast()
		return err
	case c == '(' || c == '!':
		it.Kind, it.Target = Embed, name
		return s.embed(it, depth)
	case it.Spread:
		return s.expected(`"(" after the embed that is spread`, "write ...relation(column)")
	}
	it.Kind, it.Field.Name = Column, name
	return s.column(it)
}

// column reads what follows the name of a column: JSON path, cast, aggregate, cast.
func (s *selectScanner) column(it *Item) (err error) {
	if it.Field.Path, err = s.jsonPath(inSelect); err != nil {
		return err
	}
	if it.Cast, err = s.cast(); err != nil {
		return err
	}
	if !s.take('.') {
		return nil
	}
	s.space()
	start := s.pos
	it.Func = strings.TrimSpace(s.bare(inSelect))
	if !slices.Contains(aggregates, it.Func) {
		hint := "a column of an embed is written " + it.Field.Name + "(" + it.Func + "); put a name with a dot in double quotes"
		if near := nearest(it.Func, aggregates); near != "" {
			hint = "did you mean " + near + "()?"
		}
		if it.Func == "" {
			return s.expectedAt(start, oneOf(aggregates...), hint)
		}
		return s.failAt(start, "unknown aggregate "+quote(it.Func)+": there are "+strings.Join(aggregates, ", "), hint)
	}
	it.Kind = Aggregate
	if !s.emptyParens() {
		return s.expected(`"()" after the aggregate`, "")
	}
	it.FuncCast, err = s.cast()
	return err
}

// emptyParens steps over () if it follows.
func (s *selectScanner) emptyParens() bool {
	start := s.pos
	if s.take('(') {
		if s.space(); s.take(')') {
			s.space()
			return true
		}
	}
	s.pos = start
	return false
}

// embed reads what follows the name of an embed: hint, join and items.
func (s *selectScanner) embed(it *Item, depth int) error {
	for s.take('!') {
		start := s.pos
		name, quoted, err := s.name(inSelect, oneOf("inner", "left", "a constraint, column or table that tells which relationship is meant"))
		switch {
		case err != nil:
			return err
		case !quoted && (name == "inner" || name == "left"):
			if it.Join != DefaultJoin {
				return s.failAt(start, "the join is said twice", "")
			}
			it.Join = InnerJoin
			if name == "left" {
				it.Join = LeftJoin
			}
		case it.Hint != "":
			return s.failAt(start, "the relationship is said twice", "")
		default:
			it.Hint = name
		}
	}
	if !s.take('(') {
		return s.expected(`"(" after the embed`, "write relation(column), or relation(*) for every column")
	}
	s.space()
	var err error
	if it.Select, err = s.list(depth + 1); err != nil {
		return err
	}
	if !s.take(')') {
		return s.expected(`a comma or ")"`, "")
	}
	return nil
}
