package query

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/boughdb/bough/server/fault"
)

// The codes of the package's errors are PostgREST's, which clients of that dialect switch on.
const (
	codeSyntax     = "PGRST100"
	codeRange      = "PGRST103"
	codeMedia      = "PGRST107"
	codePreference = "PGRST122"
)

// maxQuoted bounds the pieces of a request that messages repeat.
const maxQuoted = 120

// invalid returns the error of a query string that is not well-formed. Hints often spell the request out anew.
func invalid(message, details, hint string) error {
	return &fault.Error{Kind: fault.Invalid, Code: codeSyntax, Message: message, Details: details, Hint: clipTo(hint, 4*maxQuoted)}
}

// quote shows a piece of the request in a message.
func quote(s string) string { return `"` + clip(s) + `"` }

// clip shortens a piece of the request for a message, at the border of a character.
func clip(s string) string { return clipTo(s, maxQuoted) }

func clipTo(s string, end int) string {
	if len(s) <= end {
		return s
	}
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "..."
}

// expected returns the error that something else should stand at the scanner's position.
func (s *scanner) expected(what, hint string) error {
	return s.expectedAt(s.pos, what, hint)
}

func (s *scanner) expectedAt(pos int, what, hint string) error {
	found := "the end"
	if pos < len(s.text) {
		r, _ := utf8.DecodeRuneInString(s.text[pos:])
		found = `"` + string(r) + `"`
	}
	return s.failAt(pos, "expected "+what+", but found "+found, hint)
}

// unexpected returns the error that the text should end at the scanner's position.
func (s *scanner) unexpected(after, hint string) error {
	return s.failAt(s.pos, "unexpected text "+quote(s.rest())+" after "+after, hint)
}

// failAt returns an error with the position of its cause, counted in characters from 1.
func (s *scanner) failAt(pos int, problem, hint string) error {
	details := fmt.Sprintf("at character %d of %s", utf8.RuneCountInString(s.text[:pos])+1, quote(s.text))
	return invalid(s.what+": "+problem, details, hint)
}

// tooMany returns the error of a query string with more parts than anyone needs.
func tooMany(what string) error {
	return invalid(fmt.Sprintf("too many %s: at most %d are allowed", what, maxItems), "", "")
}

// tooDeep returns the error of brackets that are nested beyond what the parsers recurse into.
func (s *scanner) tooDeep() error {
	return s.failAt(s.pos, fmt.Sprintf("nested too deeply: at most %d levels are allowed", maxDepth), "")
}

// oneOf lists words for a message: a, b or c.
func oneOf(words ...string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// withHint returns the error with another hint.
func withHint(err error, hint string) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.WithHint(hint)
	}
	return err
}
