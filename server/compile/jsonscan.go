package compile

import (
	"fmt"
	"unicode/utf8"
)

// maxDepth bounds how deep JSON of a body may nest; PostgreSQL's own parser is recursive, too.
const maxDepth = 256

// scanner walks over JSON text without building values, so that numbers stay as they were sent and a large body costs
// no more than reading it. It is as strict as RFC 8259.
type scanner struct {
	data []byte
	pos  int
}

// scanError is what is wrong with JSON text.
type scanError struct {
	pos     int
	problem string
}

func (e *scanError) Error() string { return fmt.Sprintf("%s at byte %d", e.problem, e.pos+1) }

func (s *scanner) fail(problem string) error { return &scanError{s.pos, problem} }

// unexpected describes what stands where something else is needed.
func (s *scanner) unexpected(want string) error {
	if s.pos >= len(s.data) {
		return s.fail("the end comes too early, " + want + " is missing,")
	}
	r, _ := utf8.DecodeRune(s.data[s.pos:])
	return s.fail(fmt.Sprintf("%q stands in the place of %s", r, want))
}

// peek skips white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// value skips a value and returns its text.
func (s *scanner) value(depth int) ([]byte, error) {
	c := s.peek()
	start := s.pos
	var err error
	switch {
	case c == '{':
		err = s.object(depth, nil)
	case c == '[':
		err = s.array(depth, nil)
	case c == '"':
		_, err = s.string()
	case c == '-' || c >= '0' && c <= '9':
		err = s.number()
	case c == 't':
		err = s.word("true")
	case c == 'f':
		err = s.word("false")
	case c == 'n':
		err = s.word("null")
	default:
		err = s.unexpected("a value")
	}
	return s.data[start:s.pos], err
}

// object skips an object. It calls member, where given, at each value with the key's text between the quotes; member
// must skip the value.
func (s *scanner) object(depth int, member func(key []byte) error) error {
	if depth >= maxDepth {
		return s.fail(fmt.Sprintf("values nest deeper than %d levels", maxDepth))
	}
	s.pos++ // {
	if s.peek() == '}' {
		s.pos++
		return nil
	}
	for {
		if s.peek() != '"' {
			return s.unexpected("a key in double quotes")
		}
		key, err := s.string()
		if err != nil {
			return err
		}
		if s.peek() != ':' {
			return s.unexpected("a colon")
		}
		s.pos++
		if member != nil {
			err = member(key)
		} else {
			_, err = s.value(depth + 1)
		}
		if err != nil {
			return err
		}
		if done, err := s.next('}'); done || err != nil {
			return err
		}
	}
}

// array skips an array. It calls element, where given, at each value; element must skip the value.
func (s *scanner) array(depth int, element func() error) error {
	if depth >= maxDepth {
		return s.fail(fmt.Sprintf("values nest deeper than %d levels", maxDepth))
	}
	s.pos++ // [
	if s.peek() == ']' {
		s.pos++
		return nil
	}
	for {
		var err error
		if element != nil {
			err = element()
		} else {
			_, err = s.value(depth + 1)
		}
		if err != nil {
			return err
		}
		if done, err := s.next(']'); done || err != nil {
			return err
		}
	}
}

// next skips a comma, or the closing bracket and reports done.
func (s *scanner) next(closing byte) (done bool, err error) {
	switch s.peek() {
	case ',':
		s.pos++
		return false, nil
	case closing:
		s.pos++
		return true, nil
	}
	return false, s.unexpected(fmt.Sprintf("a comma or %q", closing))
}

// string skips a string and returns what is between its quotes.
func (s *scanner) string() ([]byte, error) {
	s.pos++ // "
	start := s.pos
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return s.data[start : s.pos-1], nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return nil, err
			}
		case c < ' ':
			return nil, s.fail(fmt.Sprintf("the control character %#02x stands unescaped in a string", c))
		default:
			s.pos++
		}
	}
	return nil, s.unexpected("the closing quote of a string")
}

func (s *scanner) escape() error {
	if s.pos+1 >= len(s.data) {
		s.pos = len(s.data)
		return s.unexpected("the closing quote of a string")
	}
	switch s.data[s.pos+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos += 2
		return nil
	case 'u':
		if s.pos+6 <= len(s.data) {
			if _, ok := hex4(s.data[s.pos+2:]); ok {
				s.pos += 6
				return nil
			}
		}
	}
	return s.fail("an unknown escape stands in a string")
}

func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > start
}

func (s *scanner) at(chars string) bool {
	if s.pos < len(s.data) {
		for i := range len(chars) {
			if s.data[s.pos] == chars[i] {
				s.pos++
				return true
			}
		}
	}
	return false
}

func (s *scanner) number() error {
	s.at("-")
	if !s.at("0") && !s.digits() {
		return s.unexpected("a digit")
	}
	if s.at(".") && !s.digits() {
		return s.unexpected("a digit")
	}
	if s.at("eE") {
		s.at("+-")
		if !s.digits() {
			return s.unexpected("a digit")
		}
	}
	return nil
}

func (s *scanner) word(word string) error {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		return s.unexpected("a value")
	}
	s.pos += len(word)
	return nil
}

// end fails when something follows.
func (s *scanner) end() error {
	s.peek()
	if s.pos < len(s.data) {
		return s.fail("something follows after the end of the value")
	}
	return nil
}
