package rows

// appendStripped appends JSON without the fields of objects that are null, at any depth, as json_strip_nulls does. The
// white space goes, too. v must be valid JSON.
func appendStripped(dst, v []byte) []byte {
	s := stripper{in: v}
	return s.value(dst)
}

type stripper struct {
	in []byte
	i  int
}

// next skips white space and returns the byte after it, 0 at the end.
func (s *stripper) next() byte {
	for ; s.i < len(s.in); s.i++ {
		switch c := s.in[s.i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (s *stripper) value(dst []byte) []byte {
	switch s.next() {
	case '{':
		return s.object(dst)
	case '[':
		return s.array(dst)
	case '"':
		return append(dst, s.text()...)
	}
	start := s.i
	for s.i < len(s.in) {
		switch s.in[s.i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return append(dst, s.in[start:s.i]...)
		}
		s.i++
	}
	return append(dst, s.in[start:]...)
}

func (s *stripper) object(dst []byte) []byte {
	dst = append(dst, '{')
	s.i++
	for first := true; s.next() == '"'; {
		key := s.text()
		s.next()
		s.i++ // the colon
		if s.next() == 'n' {
			s.i += len("null")
		} else {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(dst, key...)
			dst = append(dst, ':')
			dst = s.value(dst)
		}
		if s.next() == ',' {
			s.i++
		}
	}
	s.i++
	return append(dst, '}')
}

func (s *stripper) array(dst []byte) []byte {
	dst = append(dst, '[')
	s.i++
	for first := true; ; first = false {
		c := s.next()
		if c == ']' || c == 0 {
			break
		}
		if !first {
			dst = append(dst, ',')
			s.i++ // the comma
		}
		dst = s.value(dst)
	}
	s.i++
	return append(dst, ']')
}

// text returns a string with its quotes.
func (s *stripper) text() []byte {
	start := s.i
	for s.i++; s.i < len(s.in); s.i++ {
		switch s.in[s.i] {
		case '\\':
			s.i++
		case '"':
			s.i++
			return s.in[start:s.i]
		}
	}
	return s.in[start:]
}
