package query

import (
	"iter"
	"strings"
)

// splitOutsideQuotes gives the pieces of a header between separators that do not stand in a quoted string.
func splitOutsideQuotes(s string, sep byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			end := endOutsideQuotes(s, sep)
			if !yield(s[:end]) || end == len(s) {
				return
			}
			s = s[end+1:]
		}
	}
}

// firstOutsideQuotes returns the first of the pieces, without space around it.
func firstOutsideQuotes(s string, sep byte) string {
	return strings.TrimSpace(s[:endOutsideQuotes(s, sep)])
}

func endOutsideQuotes(s string, sep byte) int {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == sep && !quoted:
			return i
		}
	}
	return len(s)
}

// unquoteHeader returns the value of a token or a quoted string of a header; ok is false if the quotes are not closed.
func unquoteHeader(s string) (value string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return s, !strings.Contains(s, `"`)
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), i == len(s)-1
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}
