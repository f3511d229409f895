// Package script splits SQL text into its statements, as PostgreSQL's own lexer would find them, and tells those that a
// script within somebody else's transaction must not have.
package script

import (
	"errors"
	"slices"
	"strings"
)

// Statement is one statement of a script.
type Statement struct {
	// Text begins with the statement's first word and ends before its semicolon.
	Text string
	// Line is where it begins, from 1.
	Line int

	words []string // the first ones outside of quotes and parentheses, in upper case
}

// maxWords are looked at to tell what a statement is.
const maxWords = 40

var (
	errQuote   = errors.New("a quoted text or name has no end")
	errComment = errors.New("a comment has no end")
)

// Split splits at semicolons that are not within quotes, dollar quotes, comments, parentheses and the bodies of SQL
// functions (begin atomic … end). Empty statements are left out.
func Split(sql string) ([]Statement, error) {
	l := lexer{text: sql}
	var all []Statement
	line, counted := 1, 0
	for {
		s, start, err := l.statement()
		if err != nil {
			return nil, err
		}
		if s.Text != "" {
			line += strings.Count(sql[counted:start], "\n")
			counted = start
			s.Line = line
			all = append(all, s)
		}
		if l.pos >= len(sql) {
			return all, nil
		}
	}
}

// Refused says why a statement is refused, "" for one that is not: it would begin or end a transaction, or wants data that
// comes beside the text.
func (s Statement) Refused() string {
	const ours = "the statements run in one transaction, which is begun and committed for them"
	w := func(i int) string {
		if i < len(s.words) {
			return s.words[i]
		}
		return ""
	}
	switch w(0) {
	case "BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE":
		return strings.ToLower(w(0)) + ": " + ours
	case "PREPARE":
		if w(1) == "TRANSACTION" {
			return "prepare transaction: " + ours
		}
	case "SET":
		if slices.Contains(s.words[1:min(len(s.words), 3)], "TRANSACTION") || w(1) == "SESSION" && w(2) == "CHARACTERISTICS" {
			return "set transaction: " + ours
		}
	case "COPY":
		if i := slices.IndexFunc(s.words, func(w string) bool { return w == "STDIN" || w == "STDOUT" }); i > 0 {
			return "copy: rows cannot be sent along; use insert"
		}
	}
	return ""
}

// lexer reads the text byte by byte: all that it looks for is ASCII, and the bytes of other characters are letters to
// PostgreSQL.
type lexer struct {
	text string
	pos  int
}

// statement reads up to the next semicolon that ends a statement, or to the end.
func (l *lexer) statement() (s Statement, start int, err error) {
	start = -1
	depth, blocks := 0, 0
	end := func(at int) (Statement, int, error) {
		if start >= 0 {
			s.Text = strings.TrimRight(l.text[start:at], " \t\r\n\f\v")
		}
		return s, start, nil
	}
	for l.pos < len(l.text) {
		at, b := l.pos, l.text[l.pos]
		switch {
		case strings.IndexByte(" \t\r\n\f\v", b) >= 0:
			l.pos++
			continue
		case l.has("--"):
			l.lineComment()
			continue
		case l.has("/*"):
			if err := l.comment(); err != nil {
				return s, start, err
			}
			continue
		case b == ';' && depth <= 0 && blocks == 0:
			l.pos++
			if start >= 0 {
				return end(at)
			}
			continue
		}
		if start < 0 {
			start = at
		}
		switch {
		case b == '\'' || b == '"':
			err = l.quoted(b, false)
		case b == '$':
			err = l.dollar()
		case letter(b):
			word := l.word()
			if (word == "E" || word == "e") && l.has("'") {
				err = l.quoted('\'', true)
				break
			}
			if depth == 0 {
				blocks = s.add(strings.ToUpper(word), blocks)
			}
		case '0' <= b && b <= '9':
			l.word() // with what sticks to the number
		case b == '(':
			depth++
			l.pos++
		case b == ')':
			depth--
			l.pos++
		default:
			l.pos++
		}
		if err != nil {
			return s, start, err
		}
	}
	return end(len(l.text))
}

// add takes a word in and returns how deep in blocks the statement is after it.
func (s *Statement) add(word string, blocks int) int {
	if len(s.words) < maxWords {
		s.words = append(s.words, word)
	}
	switch {
	case word == "ATOMIC" && blocks == 0 && s.definesRoutine():
		return 1
	case word == "CASE" && blocks > 0:
		return blocks + 1
	case word == "END" && blocks > 0:
		return blocks - 1
	}
	return blocks
}

// definesRoutine reports whether the statement makes a function or a procedure.
func (s *Statement) definesRoutine() bool {
	w := s.words
	if len(w) > 3 && w[1] == "OR" && w[2] == "REPLACE" {
		w = w[2:]
	}
	return len(w) > 1 && s.words[0] == "CREATE" && (w[1] == "FUNCTION" || w[1] == "PROCEDURE")
}

func (l *lexer) has(prefix string) bool { return strings.HasPrefix(l.text[l.pos:], prefix) }

func letter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' || b == '_' || b >= 0x80 }

// word returns the letters, digits, underscores and dollars that begin here.
func (l *lexer) word() string {
	start := l.pos
	for l.pos < len(l.text) {
		if b := l.text[l.pos]; !letter(b) && b != '$' && (b < '0' || b > '9') {
			break
		}
		l.pos++
	}
	return l.text[start:l.pos]
}

func (l *lexer) lineComment() {
	if i := strings.IndexAny(l.text[l.pos:], "\r\n"); i >= 0 {
		l.pos += i
		return
	}
	l.pos = len(l.text)
}

// comment passes over a comment; comments nest.
func (l *lexer) comment() error {
	for depth := 0; l.pos < len(l.text); {
		switch {
		case l.has("/*"):
			depth++
			l.pos += 2
		case l.has("*/"):
			depth--
			l.pos += 2
			if depth == 0 {
				return nil
			}
		default:
			l.pos++
		}
	}
	return errComment
}

// quoted passes over a text in quotes. A doubled quote looks like the end and a new beginning, which comes to the same.
func (l *lexer) quoted(quote byte, escapes bool) error {
	for l.pos++; l.pos < len(l.text); l.pos++ {
		switch b := l.text[l.pos]; {
		case escapes && b == '\\':
			l.pos++
		case escapes && b == quote && l.pos+1 < len(l.text) && l.text[l.pos+1] == quote:
			l.pos++
		case b == quote:
			l.pos++
			return nil
		}
	}
	l.pos = len(l.text)
	return errQuote
}

// dollar passes over a dollar-quoted text, or over the dollar of a parameter.
func (l *lexer) dollar() error {
	end := l.pos + 1
	for end < len(l.text) {
		b := l.text[end]
		if !letter(b) && (b < '0' || b > '9' || end == l.pos+1) {
			break
		}
		end++
	}
	if end == len(l.text) || l.text[end] != '$' {
		l.pos++
		return nil
	}
	tag := l.text[l.pos : end+1]
	i := strings.Index(l.text[end+1:], tag)
	if i < 0 {
		l.pos = len(l.text)
		return errQuote
	}
	l.pos = end + 1 + i + len(tag)
	return nil
}
