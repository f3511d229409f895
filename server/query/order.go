package query

import "strings"

// ParseOrder reads the value of order=: terms such as column.desc.nullslast, separated by commas.
func ParseOrder(text string) ([]Order, error) { return parseOrder("order", text) }

func parseOrder(what, text string) ([]Order, error) {
	s := scanner{what: what, text: text}
	terms := make([]Order, 0, min(strings.Count(text, ","), maxItems)+1)
	for {
		if len(terms) == maxItems {
			return nil, tooMany("terms of order")
		}
		terms = append(terms, Order{})
		if err := s.orderTerm(&terms[len(terms)-1]); err != nil {
			return nil, err
		}
		if s.done() {
			return terms, nil
		}
		if !s.take(',') {
			return nil, s.expected("a comma or the end", "")
		}
	}
}

// orderTerm reads a term with the space around it.
func (s *scanner) orderTerm(o *Order) (err error) {
	if o.Field, err = s.field(inOrder, "the name of a column"); err != nil {
		return err
	}
	if s.peek() == '(' && o.Field.Path == nil {
		s.pos++
		o.Embed = o.Field.Name
		if o.Field, err = s.field(inOrder, "the name of a column of the embed"); err != nil {
			return err
		}
		if !s.take(')') {
			return s.expected(`")" after the column of the embed`, "")
		}
		s.space()
	}
	const none, direction, nulls = 0, 1, 2
	for seen := none; s.take('.'); {
		start := s.pos
		word := strings.TrimSpace(s.bare(inOrder))
		isDirection := word == "asc" || word == "desc"
		switch {
		case isDirection && seen == none:
			o.Desc, seen = word == "desc", direction
		case word == "nullsfirst" && seen != nulls:
			o.Nulls, seen = NullsFirst, nulls
		case word == "nullslast" && seen != nulls:
			o.Nulls, seen = NullsLast, nulls
		case isDirection && seen == nulls:
			return s.failAt(start, quote(word)+" must stand before "+oneOf("nullsfirst", "nullslast"), "")
		case isDirection || word == "nullsfirst" || word == "nullslast":
			return s.failAt(start, quote(word)+" comes after a word of its kind", "")
		default:
			return s.orderWord(start, word, o.Field.Name)
		}
	}
	return nil
}

// orderWord explains a word that is no direction.
func (s *scanner) orderWord(start int, word, column string) error {
	words := []string{"asc", "desc", "nullsfirst", "nullslast"}
	if word == "" {
		return s.expectedAt(start, oneOf(words...), "")
	}
	hint := "to order by a column of an embed write " + column + "(" + word + "); put a name with a dot in double quotes"
	near := nearest(strings.ToLower(strings.ReplaceAll(word, "_", "")), words)
	switch strings.ToLower(word) {
	case "ascending":
		near = "asc"
	case "descending":
		near = "desc"
	}
	if near != "" {
		hint = "did you mean " + near + "?"
	}
	return s.failAt(start, "expected "+oneOf(words...)+", not "+quote(word), hint)
}
