package query

import "strings"

// logic reads or=(...), and=(...), their negations and those of embeds.
func (p *parser) logic(pr *param) error {
	n := len(pr.segs)
	l := &Logic{Or: pr.segs[n-1].name == "or"}
	rest := pr.segs[:n-1]
	if len(rest) > 0 && rest[len(rest)-1].word() == "not" {
		l.Not = true
		rest = rest[:len(rest)-1]
	}
	names, err := path(pr.key, rest)
	if err != nil {
		return err
	}
	sc := logicScanner{scanner{what: pr.key, text: pr.value}, p, pr.raw}
	sc.space()
	if sc.peek() != '(' {
		if _, _, ok := cutOperator(pr.value); ok {
			return pr.isWord(sc.expected(`conditions that begin with "("`, ""))
		}
		return sc.expected(`conditions that begin with "("`, "write "+pr.key+"=(a.eq.1,b.gt.2)")
	}
	if l.Conds, err = sc.conditions(1); err != nil {
		return err
	}
	if !sc.done() {
		return sc.unexpected("the closing parenthesis", logicHint)
	}
	return p.where(names, l)
}

const logicHint = "put a value that holds a comma or a parenthesis in double quotes"

// logicScanner reads the conditions inside of one parameter.
type logicScanner struct {
	scanner
	parser *parser
	raw    string
}

// conditions reads (cond,cond) with the space after it.
func (s *logicScanner) conditions(depth int) ([]Cond, error) {
	if depth > maxDepth {
		return nil, s.tooDeep()
	}
	s.pos++ // the parenthesis
	var conds []Cond
	for {
		if err := s.parser.countCond(); err != nil {
			return nil, err
		}
		c, err := s.condition(depth)
		if err != nil {
			return nil, err
		}
		conds = append(conds, c)
		s.space()
		switch {
		case s.take(','):
		case s.take(')'):
			s.space()
			return conds, nil
		default:
			return nil, s.expected(`a comma or ")"`, logicHint)
		}
	}
}

// condition reads a condition or a nested and(...) or or(...).
func (s *logicScanner) condition(depth int) (Cond, error) {
	s.space()
	if l, ok := s.junction(); ok {
		var err error
		l.Conds, err = s.conditions(depth + 1)
		return l, err
	}
	field, err := s.field(inLogic, "a condition such as column.eq.1")
	if err != nil {
		return nil, err
	}
	if !s.take('.') {
		return nil, s.expected("a dot and an operator after the column", `write a condition as column.eq.1; put a name with special characters in double quotes`)
	}
	not := s.takeText("not.")
	start := s.pos
	end := start + operatorEnd(s.rest())
	o, ok := parseOperator(s.text[start:end])
	if !ok {
		return nil, s.unknownOperator(start, end, field)
	}
	o.not = not
	s.pos = end
	if !s.take('.') {
		return nil, s.expected("a dot and a value after the operator", "")
	}
	f := o.filter(field, s.raw)
	return f, s.operand(f)
}

// junction steps over [not.]and or [not.]or if a parenthesis follows; without one it is the name of a column.
func (s *logicScanner) junction() (*Logic, bool) {
	start := s.pos
	l := &Logic{Not: s.takeText("not.")}
	if s.takeText("or") {
		l.Or = true
	} else if !s.takeText("and") {
		s.pos = start
		return nil, false
	}
	if s.space(); s.peek() != '(' {
		s.pos = start
		return nil, false
	}
	return l, true
}

// unknownOperator explains what stands in the place of an operator.
func (s *logicScanner) unknownOperator(start, end int, field Field) error {
	word := s.text[start:end]
	if field.Name == "not" {
		return s.failAt(start, "unknown operator "+quote(word), "a negation stands after the column: column.not.eq.1")
	}
	if word == "" {
		return s.expectedAt(start, oneOf("an operator such as eq", "not."), "")
	}
	hint := operatorHint(word)
	if hint == "" {
		hint = "put a column's name with a dot in double quotes; conditions on an embed are written " + field.Name + "." + s.what + "=(...)"
	}
	return s.failAt(start, "unknown operator "+quote(word), hint)
}

// operand reads a value of a condition, which ends at a comma or parenthesis.
func (s *logicScanner) operand(f *Filter) error {
	if f.Op == In || f.Quant != NoQuantifier {
		return s.operands(f, true)
	}
	text, err := s.value()
	if err != nil {
		return err
	}
	if f.Op == Is {
		// Space around conditions does not count, and this operand holds none.
		text = strings.TrimSpace(text)
	}
	return f.setText(s.what, text, true)
}

// value reads a text in quotes, or {...} or (...), which may hold commas, if nothing follows it; else everything up to
// the next comma or parenthesis.
func (s *logicScanner) value() (string, error) {
	start := s.pos
	switch s.peek() {
	case '"':
		text, err := s.quoted()
		if err != nil {
			return "", err
		}
		if s.space(); s.atEnd() {
			return text, nil
		}
	case '{':
		if s.braces() {
			text := s.text[start:s.pos]
			if s.space(); s.atEnd() {
				return text, nil
			}
		}
	case '(':
		if _, err := s.list(); err != nil {
			return "", err
		}
		return s.text[start:s.pos], nil
	}
	s.pos = start
	return s.scanner.raw(), nil
}

// braces steps over {...} without braces inside.
func (s *logicScanner) braces() bool {
	for s.pos++; !s.done(); s.pos++ {
		switch s.peek() {
		case '{':
			return false
		case '}':
			s.pos++
			return true
		}
	}
	return false
}
