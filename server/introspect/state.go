package introspect

import "strings"

// leaves says which statements may leave something behind with the session that runs them.
type leaves struct{ reading, writing bool }

// leaving takes an exposed relation of which a statement runs functions that are not known to be harmless.
func (l *loader) leaving(r *row) {
	rel := l.schema.byOID[r.oid()]
	l.schema.leaving[[2]string{rel.Schema, rel.Name}] = leaves{reading: r.bool(), writing: true}
}

// LeavesState reports whether a statement, in which all names are quoted and qualified, may leave something behind with
// the session that runs it: settings, locks, temporary tables and the like. It may where the statement calls a function of
// the database's owner, or where such a function is called by a policy, a view, a default, a constraint or a trigger of a
// relation that the statement names. Immutable functions, those of extensions, and those of schema auth, are trusted
// there. write tells that the statement may be more than a SELECT.
func (s *Schema) LeavesState(sql string, write bool) bool {
	if len(s.leaving) == 0 {
		return false
	}
	for i := 0; ; {
		dot := strings.IndexByte(sql[i:], '.')
		if dot < 0 {
			// A name with a quote in it, which is doubled, is not worth taking apart.
			return strings.Contains(sql, `""`)
		}
		at := i + dot - 1
		i += dot + 1
		if at < 0 || sql[at] != '"' || i == len(sql) || sql[i] != '"' {
			continue
		}
		i++
		start, end := strings.LastIndexByte(sql[:at], '"')+1, strings.IndexByte(sql[i:], '"')
		if end < 0 {
			return true
		}
		if l, ok := s.leaving[[2]string{sql[start:at], sql[i : i+end]}]; ok && (l.reading || write) {
			return true
		}
	}
}
