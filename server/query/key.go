package query

import "strings"

// segment is one name of a key; they are separated by dots.
type segment struct {
	name       string
	quoted     bool
	path       []Step // a JSON path, which only the column's segment may have
	start, end int    // in the key, with quotes and path
}

// word returns the text of a segment that may be a word of the language; "" for names in quotes and JSON paths.
func (s *segment) word() string {
	if s.quoted || s.path != nil {
		return ""
	}
	return s.name
}

// parseKey appends the segments of a decoded key to segs.
func parseKey(key string, segs []segment) ([]segment, error) {
	sc := scanner{what: "the parameter's name", text: key}
	for {
		// A path of embeds, the column, a negation, an operator and one word more.
		if len(segs) == maxDepth+4 {
			return nil, sc.tooDeep()
		}
		seg := segment{start: sc.pos}
		var err error
		if seg.name, seg.quoted, err = sc.name(inKey, "a name"); err != nil {
			return nil, err
		}
		if !seg.quoted && sc.peek() == '.' {
			seg.name = sc.configuration(seg.name)
		}
		if seg.path, err = sc.jsonPath(inKey); err != nil {
			return nil, err
		}
		seg.end = sc.pos
		segs = append(segs, seg)
		if sc.done() {
			return segs, nil
		}
		if !sc.take('.') {
			return nil, sc.expected(`a dot, "->" or the end`, "")
		}
	}
}

// configuration extends an operator such as fts(public.english) over the dot of its text search configuration.
func (s *scanner) configuration(name string) string {
	op, config, found := strings.Cut(name, "(")
	if !found || strings.Contains(config, ")") || !isFullText(lookupOp(op)) {
		return name
	}
	end := strings.IndexByte(s.rest(), ')')
	if end < 0 {
		return name
	}
	name = s.text[s.pos-len(name) : s.pos+end+1]
	s.pos += end + 1
	return name
}

// path returns the names of segments that stand before a column or a modifier.
func path(key string, segs []segment) ([]string, error) {
	if len(segs) == 0 {
		return nil, nil
	}
	if len(segs) > maxDepth {
		return nil, (&scanner{what: "the parameter's name", text: key}).tooDeep()
	}
	names := make([]string, len(segs))
	for i := range segs {
		if segs[i].path != nil {
			sc := scanner{what: "the parameter's name", text: key}
			return nil, sc.failAt(segs[i].end, "a JSON path may only follow the column", `put a JSON key with a dot in double quotes: data->"a.b"`)
		}
		names[i] = segs[i].name
	}
	return names, nil
}

// dotted returns the name that bare segments make together, with their dots; ok is false if one is quoted.
func dotted(key string, segs []segment) (name string, ok bool) {
	for i := range segs {
		if segs[i].quoted {
			return "", false
		}
	}
	last := segs[len(segs)-1]
	return key[segs[0].start : last.start+len(last.name)], true
}

// PathKey returns the key of Request.Embeds for a path of embeds: the names joined by dots, in double quotes where a
// name holds a dot or a quote, so that different paths have different keys.
func PathKey(path []string) string {
	if len(path) == 1 && !strings.ContainsAny(path[0], `."`) {
		return path[0]
	}
	var b strings.Builder
	for i, name := range path {
		if i > 0 {
			b.WriteByte('.')
		}
		if !strings.ContainsAny(name, `."`) {
			b.WriteString(name)
			continue
		}
		b.WriteByte('"')
		for j := range len(name) {
			if name[j] == '"' || name[j] == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(name[j])
		}
		b.WriteByte('"')
	}
	return b.String()
}
