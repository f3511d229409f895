package query

import (
	"strconv"
	"strings"
)

// Nobody needs more than these; they keep a request from exhausting the stack, the memory or the database.
const (
	maxDepth = 32   // levels of or/and, of select, of embed paths and of JSON paths
	maxItems = 1000 // conditions in all, items of select in all, terms of one list of columns or order
)

// The places where a bare name ends at different characters.
const (
	inKey byte = 1 << iota
	inLogic
	inOrder
	inSelect
	inList
)

// stops has, for each character that may end a bare name, the places where it does. "->" ends one everywhere.
var stops = [256]byte{
	'"': inKey | inLogic | inOrder | inSelect | inList,
	'.': inKey | inLogic | inOrder | inSelect,
	',': inLogic | inOrder | inSelect | inList,
	'(': inLogic | inOrder | inSelect,
	')': inLogic | inOrder | inSelect,
	':': inSelect,
	'!': inSelect,
}

// scanner reads a decoded key or value from left to right.
type scanner struct {
	what string // the parameter, for messages
	text string
	pos  int
}

// peek returns the next byte, 0 at the end: no text holds a null byte.
func (s *scanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

func (s *scanner) rest() string { return s.text[s.pos:] }

func (s *scanner) done() bool { return s.pos == len(s.text) }

// take steps over a byte if it is the next.
func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.done() {
		return false
	}
	s.pos++
	return true
}

func (s *scanner) takeText(t string) bool {
	if !strings.HasPrefix(s.rest(), t) {
		return false
	}
	s.pos += len(t)
	return true
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func (s *scanner) space() {
	for s.pos < len(s.text) && isSpace(s.text[s.pos]) {
		s.pos++
	}
}

// bare reads up to a character that ends names in this place; the result may be empty.
func (s *scanner) bare(place byte) string {
	start := s.pos
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		if stops[c]&place != 0 || c == '-' && s.arrow() {
			break
		}
		s.pos++
	}
	return s.text[start:s.pos]
}

// arrow tells whether a JSON path goes on here.
func (s *scanner) arrow() bool {
	return s.pos+1 < len(s.text) && s.text[s.pos] == '-' && s.text[s.pos+1] == '>'
}

// quoted reads a text in double quotes, in which a backslash takes the next character as it is.
func (s *scanner) quoted() (string, error) {
	start := s.pos
	s.pos++
	from := s.pos
	var b []byte // only where something is escaped
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case c == '"':
			piece := s.text[from:s.pos]
			s.pos++
			if b == nil {
				return piece, nil
			}
			return string(append(b, piece...)), nil
		case c == '\\' && s.pos+1 < len(s.text):
			b = append(b, s.text[from:s.pos]...)
			from = s.pos + 1
			s.pos += 2
		default:
			s.pos++
		}
	}
	return "", s.failAt(start, "a double quote is not closed", `inside of double quotes write " as \" and \ as \\`)
}

// name reads a bare or quoted name, with space around it except in keys.
func (s *scanner) name(place byte, what string) (name string, quoted bool, err error) {
	if place != inKey {
		s.space()
	}
	start := s.pos
	if s.peek() == '"' {
		quoted = true
		if name, err = s.quoted(); err != nil {
			return "", true, err
		}
	} else {
		name = s.bare(place)
	}
	if place != inKey {
		s.space()
		if !quoted {
			name = strings.TrimRight(name, " \t\r\n")
		}
	}
	switch {
	case name == "" && quoted:
		return "", true, s.failAt(start, "a name must not be empty", "")
	case name == "":
		return "", false, s.expected(what, "")
	case !quoted && s.peek() == '"':
		return "", false, s.failAt(s.pos, "a double quote stands inside of a name",
			`put the whole name in double quotes and write a quote in it as \"`)
	}
	return name, quoted, nil
}

// field reads a column with an optional JSON path.
func (s *scanner) field(place byte, what string) (Field, error) {
	name, _, err := s.name(place, what)
	if err != nil {
		return Field{}, err
	}
	path, err := s.jsonPath(place)
	return Field{Name: name, Path: path}, err
}

// jsonPath reads steps of -> and ->>; nil where there is none.
func (s *scanner) jsonPath(place byte) ([]Step, error) {
	var path []Step
	for s.arrow() {
		if len(path) == maxDepth {
			return nil, s.tooDeep()
		}
		s.pos += len("->")
		step := Step{Text: s.take('>')}
		if err := s.step(place, &step); err != nil {
			return nil, err
		}
		path = append(path, step)
	}
	return path, nil
}

func (s *scanner) step(place byte, step *Step) (err error) {
	if place != inKey {
		s.space()
	}
	if s.peek() == '"' {
		step.Key, err = s.quoted()
	} else {
		start := s.pos
		step.Key = s.bare(place)
		if place != inKey {
			step.Key = strings.TrimRight(step.Key, " \t\r\n")
		}
		if step.Key == "" {
			return s.expected("a key or an index of the JSON value", "")
		}
		if isInteger(step.Key) {
			// PostgreSQL's operator takes an integer of 32 bits.
			n, err := strconv.ParseInt(step.Key, 10, 32)
			if err != nil {
				return s.failAt(start, "the index "+quote(step.Key)+" is too large", `to name a key put it in double quotes`)
			}
			step.Key, step.Index, step.IsIndex = "", int(n), true
		}
	}
	if place != inKey {
		s.space()
	}
	return err
}

// isInteger tells whether a text is made of digits, with an optional minus sign.
func isInteger(s string) bool {
	s = strings.TrimPrefix(s, "-")
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// names reads a list of names, as of columns=.
func (s *scanner) names() ([]string, error) {
	names := make([]string, 0, min(strings.Count(s.text, ","), maxItems)+1)
	for {
		start := s.pos
		name, _, err := s.name(inList, "the name of a column")
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if n == name {
				return nil, s.failAt(start, "the column "+quote(name)+" is named twice", "")
			}
		}
		if len(names) == maxItems {
			return nil, tooMany("columns")
		}
		names = append(names, name)
		if s.done() {
			return names, nil
		}
		if !s.take(',') {
			return nil, s.expected("a comma or the end", "")
		}
	}
}
