package pgcopy

import "strings"

// splitScript splits a script of SQL as pg_dump writes it into statements,
// without the semicolons at their ends, comments between them, and commands to
// psql. Strings are in the standard's form, which pg_dump makes sure of.
func splitScript(script string) []string {
	var statements []string
	start, parens, begins := -1, 0, 0
	word := func(i int) int { // end of the word at i, which may hold dollars
		for i < len(script) && (isWord(script[i]) || script[i] == '$') {
			i++
		}
		return i
	}
	for i := 0; i < len(script); {
		c := script[i]
		rest := script[i:]
		// Outside statements are blanks, comments and psql's commands.
		if start < 0 {
			switch {
			case strings.HasPrefix(rest, "--") || c == '\\':
				i += lineEnd(rest)
				continue
			case strings.HasPrefix(rest, "/*"):
				i += commentEnd(rest)
				continue
			case c == ';' || c == ' ' || c == '\n' || c == '\t' || c == '\r':
				i++
				continue
			}
			start = i
		}
		switch {
		case c == ';' && parens == 0 && begins == 0:
			statements = append(statements, script[start:i])
			start = -1
			i++
		case strings.HasPrefix(rest, "--"):
			i += lineEnd(rest)
		case strings.HasPrefix(rest, "/*"):
			i += commentEnd(rest)
		case c == '\'':
			i += quotedEnd(rest, '\'', i > start && (script[i-1] == 'E' || script[i-1] == 'e') && (i-1 == start || !isWord(script[i-2])))
		case c == '"':
			i += quotedEnd(rest, '"', false)
		case c == '$':
			i += dollarEnd(rest)
		case c == '(':
			parens++
			i++
		case c == ')':
			parens = max(parens-1, 0)
			i++
		case isWord(c):
			end := word(i)
			// The body of an SQL function may be statements between BEGIN
			// ATOMIC and END; CASE has an END too.
			switch strings.ToLower(script[i:end]) {
			case "begin":
				if begins > 0 || isRoutine(script[start:i]) {
					begins++
				}
			case "case":
				if begins > 0 {
					begins++
				}
			case "end":
				begins = max(begins-1, 0)
			}
			i = end
		default:
			i++
		}
	}
	if start >= 0 {
		statements = append(statements, strings.TrimSpace(script[start:]))
	}
	return statements
}

func isWord(c byte) bool {
	return c == '_' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// isRoutine reports whether a statement that begins so creates a routine.
func isRoutine(statement string) bool {
	words := strings.Fields(strings.ToLower(statement[:min(len(statement), 60)]))
	if len(words) > 2 && words[1] == "or" && words[2] == "replace" {
		words = append(words[:1], words[3:]...)
	}
	return len(words) > 1 && words[0] == "create" && (words[1] == "function" || words[1] == "procedure")
}

func lineEnd(s string) int {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return i + 1
	}
	return len(s)
}

// commentEnd returns the length of a comment, which may hold others.
func commentEnd(s string) int {
	depth := 0
	for i := 0; i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], "/*"):
			depth++
			i += 2
		case strings.HasPrefix(s[i:], "*/"):
			depth--
			i += 2
			if depth == 0 {
				return i
			}
		default:
			i++
		}
	}
	return len(s)
}

// quotedEnd returns the length of a quoted string or name.
func quotedEnd(s string, quote byte, escapes bool) int {
	for i := 1; i < len(s); i++ {
		switch {
		case escapes && s[i] == '\\':
			i++
		case s[i] == quote && i+1 < len(s) && s[i+1] == quote:
			i++
		case s[i] == quote:
			return i + 1
		}
	}
	return len(s)
}

// dollarEnd returns the length of a dollar-quoted string, or 1 if the dollar is
// something else.
func dollarEnd(s string) int {
	i := 1
	for i < len(s) && isWord(s[i]) {
		i++
	}
	if i == len(s) || s[i] != '$' || i > 1 && '0' <= s[1] && s[1] <= '9' {
		return 1
	}
	tag := s[:i+1]
	if end := strings.Index(s[len(tag):], tag); end >= 0 {
		return end + 2*len(tag)
	}
	return len(s)
}
