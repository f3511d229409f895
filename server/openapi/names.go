package openapi

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// names is a set of names in which two that differ in case or punctuation only are the same: generators make
// identifiers of them, and drop both.
type names map[string]bool

func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if isWord(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// has tells whether one of the names is taken.
func (n names) has(list ...string) bool {
	for _, name := range list {
		if n[fold(name)] {
			return true
		}
	}
	return false
}

// add takes names.
func (n names) add(list ...string) {
	for _, name := range list {
		n[fold(name)] = true
	}
}

// take takes the name, or where it is taken the first free one with a number behind it.
func (n names) take(name string) string {
	for i, base := 2, name; n.has(name); i++ {
		name = base + "_" + strconv.Itoa(i)
	}
	n.add(name)
	return name
}

// goName takes the name that a property or parameter has in generated code. It is "" where the generator finds one by
// itself: where no other has it, as a_b would that of a.b, and all letters are ASCII, for it drops others.
func (n names) goName(name string) string {
	field := title(name)
	ascii := !strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII })
	if !n.has(field) && ascii {
		n.add(field)
		return ""
	}
	return strings.ReplaceAll(n.take(field), "_", "N")
}

// title makes a component's name of an SQL name: its words with capitals and without anything between them. Letters
// that ASCII has no base of are written by their code, so that every name has a form, and different ones mostly
// different forms.
func title(sql string) string {
	var b strings.Builder
	start := true
	for _, r := range norm.NFKD.String(sql) {
		switch {
		case isWord(r):
			if start {
				r = unicode.ToUpper(r)
			}
			b.WriteRune(r)
			start = false
		case unicode.Is(unicode.Mn, r): // the accent of the letter before
		case unicode.IsLetter(r):
			fmt.Fprintf(&b, "U%04X", r)
			start = true
		default:
			start = true
		}
	}
	name := b.String()
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		return "T" + name
	}
	return name
}

func isWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// segment is a name as a path segment.
func segment(name string) string { return url.PathEscape(name) }

// modifiers are the parameters that a column of the same name would be taken for.
var modifiers = map[string]bool{
	"select": true, "columns": true, "on_conflict": true, "order": true, "limit": true, "offset": true, "and": true, "or": true,
}

// plainName tells whether a name can stand in the document as the name of a property or parameter. Generators refuse
// whole documents because of a quote in a name, which they would have to escape in code.
func plainName(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r == '"' || r == '`' || r == '\\' || unicode.IsControl(r) })
}

// filterKey is a column's name as the key of a filter; alone is for a key that consists of nothing but the column. It is
// not ok for a column that must be written in quotes there.
func filterKey(column string, alone bool) (key string, ok bool) {
	switch {
	case column == "" || column[0] == '@' || !plainName(column) || strings.Contains(column, "->"):
		return "", false
	case alone && (modifiers[column] || strings.Contains(column, ".")):
		return "", false
	}
	return column, true
}
