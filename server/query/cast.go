package query

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// cast reads ::type if it follows. Only the characters of plain type names are let through, so that the type is safe to
// be shown in messages; whether there is such a type is for others to find out.
func (s *selectScanner) cast() (string, error) {
	if !s.takeText("::") {
		return "", nil
	}
	s.space()
	start := s.pos
	if !s.typeName() {
		return "", s.expected("the name of a type", "")
	}
	if s.peek() == '.' && !s.aggregateFollows() {
		s.pos++
		if !s.typeName() {
			return "", s.expected("the name of a type", "")
		}
	}
	if s.take('(') && !s.modifiers() {
		return "", s.expected("numbers such as (10,2) of the type", "")
	}
	for s.takeText("[]") {
	}
	text := strings.TrimRight(s.text[start:s.pos], " \t\r\n")
	s.space()
	return text, nil
}

// typeName steps over a name, which may hold spaces, as double precision does.
func (s *selectScanner) typeName() bool {
	start := s.pos
	for !s.done() {
		r, size := utf8.DecodeRuneInString(s.rest())
		if r != '_' && r != ' ' && r != '$' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			break
		}
		s.pos += size
	}
	return strings.TrimSpace(s.text[start:s.pos]) != ""
}

// aggregateFollows tells int.sum() from public.mood.
func (s *selectScanner) aggregateFollows() bool {
	after := s.rest()[1:]
	end := strings.IndexAny(after, ".(,)")
	if end < 0 || after[end] != '(' {
		return false
	}
	return strings.HasPrefix(strings.TrimLeft(after[end+1:], " \t\r\n"), ")")
}

// modifiers steps over n) or n,m).
func (s *selectScanner) modifiers() bool {
	for {
		start := s.pos
		for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
			s.pos++
		}
		if s.pos == start || s.pos-start > 9 {
			return false
		}
		if s.take(')') {
			return true
		}
		if !s.take(',') {
			return false
		}
	}
}
