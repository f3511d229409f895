package query

import "strings"

// list reads (a,"b,c"): quotes are needed only where an item holds a comma, a parenthesis or a quote. () has no items,
// ("") has one.
func (s *scanner) list() ([]string, error) {
	const hint = `write a list as (1,2,3), with double quotes around items that hold a comma, a parenthesis or a quote`
	start := s.pos
	if !s.take('(') {
		return nil, s.expected(`a list that begins with "("`, hint)
	}
	s.space()
	if s.take(')') {
		return []string{}, nil
	}
	s.pos = start + 1
	// A guess that looks no further than this list may reach.
	size := 1
	if end := strings.IndexByte(s.rest(), ')'); end >= 0 {
		size += strings.Count(s.rest()[:end], ",")
	}
	items := make([]string, 0, size)
	for {
		item, err := s.item()
		if err != nil {
			return nil, err
		}
		items = append(items, item)
		switch {
		case s.take(','):
		case s.take(')'):
			return items, nil
		default:
			return nil, s.failAt(start, "the list is not closed", hint)
		}
	}
}

// item reads an item of a list: a quoted text with nothing but space around it, else everything up to the next comma
// or parenthesis, quotes and space included.
func (s *scanner) item() (string, error) {
	start := s.pos
	if s.space(); s.peek() == '"' {
		text, err := s.quoted()
		if err != nil {
			return "", err
		}
		if s.space(); s.atEnd() {
			return text, nil
		}
	}
	s.pos = start
	return s.raw(), nil
}

// atEnd tells whether an item or a value of a condition ends here.
func (s *scanner) atEnd() bool {
	c := s.peek()
	return s.done() || c == ',' || c == ')'
}

// raw reads up to the next comma or closing parenthesis.
func (s *scanner) raw() string {
	end := strings.IndexAny(s.rest(), ",)")
	if end < 0 {
		end = len(s.rest())
	}
	s.pos += end
	return s.text[s.pos-end : s.pos]
}

// array reads {a,"b,c"} by the rules of PostgreSQL's array literals: space around elements does not count, a backslash
// takes the next character as it is, elements that are empty or hold special characters stand in quotes.
func (s *scanner) array() ([]string, error) {
	const hint = `write the values as {1,2,3}, with double quotes around those that hold a comma, a brace, a quote or a backslash`
	start := s.pos
	if !s.take('{') {
		return nil, s.expected(`a list that begins with "{"`, hint)
	}
	if s.space(); s.take('}') {
		return []string{}, nil
	}
	var elements []string
	for {
		s.space()
		element, err := s.element()
		if err != nil {
			return nil, err
		}
		elements = append(elements, element)
		s.space()
		switch {
		case s.take(','):
		case s.take('}'):
			return elements, nil
		case s.done():
			return nil, s.failAt(start, "the list is not closed", hint)
		default:
			return nil, s.expected(`a comma or "}"`, hint)
		}
	}
}

// element reads an element of an array literal.
func (s *scanner) element() (string, error) {
	if s.peek() == '"' {
		return s.quoted()
	}
	start := s.pos
	var b []byte
	kept := 0 // what trailing space must not be cut from
	escaped := false
	for !s.done() && strings.IndexByte(`,{}"`, s.peek()) < 0 {
		c := s.peek()
		s.pos++
		if c == '\\' && !s.done() {
			c, escaped = s.peek(), true
			s.pos++
			b = append(b, c)
			kept = len(b)
			continue
		}
		b = append(b, c)
		if !isSpace(c) {
			kept = len(b)
		}
	}
	text := string(b[:kept])
	switch {
	case text == "":
		return "", s.expected("a value", `write an empty text as ""`)
	case !escaped && strings.EqualFold(text, "null"):
		return "", s.failAt(start, "null is no value to compare with", `use is.null for null, or put the text "null" in double quotes`)
	}
	return text, nil
}
