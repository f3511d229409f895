package main

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// statement is one of several SQL statements.
type statement struct {
	text  string
	start int // where text begins in the whole, in bytes
	// words are the first words outside quotes and parentheses, in upper case.
	words []string
	// data are the lines after a COPY … FROM STDIN, up to the line `\.`.
	data string
}

// copiesIn tells whether the statement reads rows from the client.
func (s statement) copiesIn() bool { return s.copies("FROM", "STDIN") }

// copiesOut tells whether the statement sends rows to the client as a stream.
func (s statement) copiesOut() bool { return s.copies("TO", "STDOUT") }

func (s statement) copies(direction, stream string) bool {
	if len(s.words) == 0 || s.words[0] != "COPY" {
		return false
	}
	i := slices.Index(s.words, direction)
	return i >= 0 && i+1 < len(s.words) && s.words[i+1] == stream
}

// splitStatements splits SQL at its semicolons, as psql does: not within quotes, dollar quotes, comments, parentheses
// and the bodies of SQL functions. inlineData says that the rows of a COPY … FROM STDIN follow it in the text.
func splitStatements(sql string, inlineData bool) ([]statement, error) {
	var all []statement
	s := splitter{sql: sql}
	for {
		s.skipSpace()
		if s.pos == len(sql) {
			return all, nil
		}
		if sql[s.pos] == '\\' {
			line := s.line()
			// pg_dump writes these two, which concern psql only.
			if name := strings.Fields(line)[0]; name != `\restrict` && name != `\unrestrict` {
				return nil, hintError{usagef("%s is a command of psql, not SQL", name), `"bough psql" starts psql`}
			}
			continue
		}
		stmt := s.statement()
		if stmt.text == "" {
			continue
		}
		if inlineData && stmt.copiesIn() {
			stmt.data = s.copyData()
		}
		all = append(all, stmt)
	}
}

type splitter struct {
	sql string
	pos int
}

// skipSpace passes over white space, comments and empty statements.
func (s *splitter) skipSpace() {
	for s.pos < len(s.sql) {
		rest := s.sql[s.pos:]
		switch {
		case strings.ContainsRune(" \t\r\n\f\v;", rune(rest[0])):
			s.pos++
		case strings.HasPrefix(rest, "\ufeff"):
			s.pos += len("\ufeff")
		case strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "/*"):
			s.comment()
		default:
			return
		}
	}
}

// line returns the rest of the line and moves behind it.
func (s *splitter) line() string {
	line, _, _ := strings.Cut(s.sql[s.pos:], "\n")
	s.pos = min(s.pos+len(line)+1, len(s.sql))
	return strings.TrimSuffix(line, "\r")
}

// copyData returns the lines up to `\.` and moves behind it.
func (s *splitter) copyData() string {
	s.line()
	start := s.pos
	for s.pos < len(s.sql) {
		end := s.pos
		if s.line() == `\.` {
			return s.sql[start:end]
		}
	}
	return s.sql[start:]
}

// statement returns the statement that begins here, without its semicolon, and moves behind it.
func (s *splitter) statement() statement {
	stmt := statement{start: s.pos}
	parens, blocks := 0, 0
	for s.pos < len(s.sql) {
		rest := s.sql[s.pos:]
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == ';' && parens <= 0 && blocks == 0:
			stmt.text = strings.TrimSpace(s.sql[stmt.start:s.pos])
			s.pos++
			return stmt
		case r == '(':
			parens++
			s.pos++
		case r == ')':
			parens--
			s.pos++
		case r == '\'', r == '"':
			s.quoted(byte(r), false)
		case r == '$':
			s.dollar()
		case strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "/*"):
			s.comment()
		case isWordStart(r):
			word := s.word()
			// E'…' has backslash escapes.
			if word == "E" && strings.HasPrefix(s.sql[s.pos:], "'") {
				s.quoted('\'', true)
				break
			}
			if parens > 0 {
				break
			}
			if len(stmt.words) < 32 {
				stmt.words = append(stmt.words, word)
			}
			switch {
			case word == "BEGIN" && definesRoutine(stmt.words), word == "CASE" && blocks > 0:
				blocks++
			case word == "END" && blocks > 0:
				blocks--
			}
		default:
			s.pos += size
		}
	}
	stmt.text = strings.TrimSpace(s.sql[stmt.start:])
	return stmt
}

// definesRoutine tells whether words begin the definition of a function or procedure, which may have a body of
// statements.
func definesRoutine(words []string) bool {
	if words[0] != "CREATE" {
		return false
	}
	words = words[1:]
	if len(words) > 1 && words[0] == "OR" && words[1] == "REPLACE" {
		words = words[2:]
	}
	return len(words) > 0 && (words[0] == "FUNCTION" || words[0] == "PROCEDURE")
}

func isWordStart(r rune) bool { return r == '_' || unicode.IsLetter(r) }

// word returns the word that begins here, in upper case, and moves behind it.
func (s *splitter) word() string {
	start := s.pos
	for s.pos < len(s.sql) {
		r, size := utf8.DecodeRuneInString(s.sql[s.pos:])
		if !isWordStart(r) && !unicode.IsDigit(r) && r != '$' {
			break
		}
		s.pos += size
	}
	return strings.ToUpper(s.sql[start:s.pos])
}

// quoted moves behind the text in quotes that begins here. A doubled quote ends it and begins the next one.
func (s *splitter) quoted(quote byte, escapes bool) {
	for s.pos++; s.pos < len(s.sql); s.pos++ {
		switch {
		case escapes && s.sql[s.pos] == '\\':
			s.pos++
		case s.sql[s.pos] == quote:
			s.pos++
			return
		}
	}
	s.pos = len(s.sql)
}

// dollar moves behind the dollar-quoted text that begins here, or behind the dollar of a parameter.
func (s *splitter) dollar() {
	rest := s.sql[s.pos:]
	end := 1
	for end < len(rest) {
		r, size := utf8.DecodeRuneInString(rest[end:])
		if !isWordStart(r) && (end == 1 || !unicode.IsDigit(r)) {
			break
		}
		end += size
	}
	if end == len(rest) || rest[end] != '$' {
		s.pos++
		return
	}
	tag := rest[:end+1]
	if i := strings.Index(rest[len(tag):], tag); i >= 0 {
		s.pos += len(tag) + i + len(tag)
		return
	}
	s.pos = len(s.sql)
}

// comment moves behind the comment that begins here; those between /* and */ nest.
func (s *splitter) comment() {
	if strings.HasPrefix(s.sql[s.pos:], "--") {
		s.line()
		return
	}
	depth := 0
	for s.pos < len(s.sql) {
		switch rest := s.sql[s.pos:]; {
		case strings.HasPrefix(rest, "/*"):
			depth++
			s.pos += 2
		case strings.HasPrefix(rest, "*/"):
			depth--
			s.pos += 2
		default:
			s.pos++
		}
		if depth == 0 {
			return
		}
	}
}
