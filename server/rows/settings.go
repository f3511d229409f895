package rows

import (
	"strconv"
	"strings"
)

// settingsRole stands for the role in the cache keys of settings statements, whose SQL is replaced by the names of the
// settings. No role has this name.
const settingsRole = "\x00settings"

// shape appends the names of the session's settings to dst: sessions with the same shape share a statement.
func (s *Session) shape(dst []byte) []byte {
	for i := range s.Settings {
		dst = append(dst, s.Settings[i].Name...)
		dst = append(dst, 0)
	}
	if s.Role != "" {
		dst = append(dst, 1)
	}
	return dst
}

// maxArguments is the number of arguments that a function may be called with in PostgreSQL, some to spare.
const maxArguments = 90

// settingsSQL is a statement that sets the settings of a shape to its parameters and gives no row, which saves its
// description and transfer. num_nulls takes any number of arguments and computes them all, in order.
func (s *Session) settingsSQL() string {
	var b strings.Builder
	b.WriteString("select where num_nulls(")
	n := 0
	set := func(name string) {
		switch {
		case n > 0 && n%maxArguments == 0:
			b.WriteString(") + num_nulls(")
		case n > 0:
			b.WriteString(", ")
		}
		n++
		b.WriteString("set_config('")
		b.WriteString(strings.ReplaceAll(name, "'", "''"))
		b.WriteString("', $")
		b.WriteString(strconv.Itoa(n))
		b.WriteString(", true)")
	}
	for i := range s.Settings {
		set(s.Settings[i].Name)
	}
	if s.Role != "" {
		set("role")
	}
	b.WriteString(") < 0")
	return b.String()
}

// values appends the parameters of the settings statement to params. Their text is copied to scratch, which may be
// overwritten when they have been encoded.
func (s *Session) values(params [][]byte, scratch []byte) (_ [][]byte, _ []byte) {
	add := func(v string) {
		start := len(scratch)
		scratch = append(scratch, v...)
		params = append(params, scratch[start:len(scratch):len(scratch)])
	}
	for i := range s.Settings {
		add(s.Settings[i].Value)
	}
	if s.Role != "" {
		add(s.Role)
	}
	return params, scratch
}

// empty reports whether there is nothing to set.
func (s *Session) empty() bool { return s == nil || s.Role == "" && len(s.Settings) == 0 }
