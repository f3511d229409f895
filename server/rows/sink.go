package rows

import (
	"github.com/boughdb/bough/server/compile"
)

// Options vary the encoding of objects.
type Options struct {
	// StripNulls leaves fields out that are null, in embedded objects as well.
	StripNulls bool
	// Optional lets NewObject write nothing where there is no row.
	Optional bool
}

// column is an output that is shown.
type column struct {
	key      []byte // `{"name":` for the first column, `,"name":` for the others
	index    int
	encoding compile.Encoding
	wrapped  bool
}

// sink is what all sinks that write to a body have in common.
type sink struct {
	body    *Body
	columns []column
	mark    int // where the sink began to write
	begun   bool
	rows    int64
}

// newSink returns a sink for the outputs that are shown.
func newSink(b *Body, outputs []compile.Output) sink {
	first := len(b.columns)
	for i := range outputs {
		if !outputs[i].Hidden {
			b.columns = append(b.columns, column{index: i, encoding: outputs[i].Encoding, wrapped: outputs[i].Wrapped})
		}
	}
	return sink{body: b, columns: b.columns[first:len(b.columns):len(b.columns)]}
}

// key makes the keys of the columns.
func (s *sink) key(outputs []compile.Output) {
	b := s.body
	for i := range s.columns {
		c := &s.columns[i]
		start := len(b.keys)
		if i == 0 {
			b.keys = append(b.keys, '{')
		} else {
			b.keys = append(b.keys, ',')
		}
		b.keys = appendName(b.keys, outputs[c.index].Name)
		b.keys = append(b.keys, ':')
		c.key = b.keys[start:len(b.keys):len(b.keys)]
	}
}

// appendName appends a string of Go as a JSON string.
func appendName(dst []byte, s string) []byte {
	start := len(dst)
	dst = append(dst, '"')
	dst = append(dst, s...)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			return appendString(dst[:start], []byte(s))
		}
	}
	return append(dst, '"')
}

func (s *sink) Begin() error {
	s.mark, s.begun, s.rows = len(s.body.buf), true, 0
	return nil
}

func (s *sink) End() error { return nil }

func (s *sink) Reset() bool {
	if !s.begun {
		return true
	}
	if s.body.Streaming() {
		return false
	}
	s.begun = false
	s.body.buf = s.body.buf[:s.mark]
	return true
}

// single counts a row of a sink that takes one only, and reports whether this is it. The others are read for their
// number alone.
func (s *sink) single() bool {
	s.rows++
	return s.rows == 1
}

// separate writes what stands between two elements of an array.
func (s *sink) separate() {
	if s.rows > 0 {
		s.body.buf = append(s.body.buf, ',')
	}
	s.rows++
}

// appendObject appends a row as an object.
func appendObject(dst []byte, columns []column, values [][]byte) []byte {
	if len(columns) == 0 {
		return append(dst, "{}"...)
	}
	for i := range columns {
		c := &columns[i]
		dst = append(dst, c.key...)
		if v := values[c.index]; v != nil {
			dst = appendValue(dst, v, c.encoding)
		} else {
			dst = append(dst, "null"...)
		}
	}
	return append(dst, '}')
}

// appendObjectStripped appends a row as an object without its nulls.
func appendObjectStripped(dst []byte, columns []column, values [][]byte) []byte {
	dst = append(dst, '{')
	start := len(dst)
	for i := range columns {
		c := &columns[i]
		v := values[c.index]
		if v == nil || c.encoding == compile.JSON && string(v) == "null" {
			continue
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(dst, c.key[1:]...)
		if c.encoding == compile.JSON {
			dst = appendStripped(dst, v)
		} else {
			dst = appendValue(dst, v, c.encoding)
		}
	}
	return append(dst, '}')
}

// long reports whether a row has a value that is worth writing piece by piece.
func long(values [][]byte) bool {
	for _, v := range values {
		if len(v) > threshold {
			return true
		}
	}
	return false
}

// longObject writes a row as an object, of which at most a part is in memory at a time unless the body is held.
func (s *sink) longObject(values [][]byte, strip, oneLine bool) error {
	b := s.body
	b.buf = append(b.buf, '{')
	first := true
	for i := range s.columns {
		c := &s.columns[i]
		v := values[c.index]
		if strip && (v == nil || c.encoding == compile.JSON && string(v) == "null") {
			continue
		}
		if !first {
			b.buf = append(b.buf, ',')
		}
		first = false
		b.buf = append(b.buf, c.key[1:]...)
		var err error
		switch {
		case v == nil:
			b.buf = append(b.buf, "null"...)
		case strip && c.encoding == compile.JSON:
			b.buf = appendStripped(b.buf, v)
			err = b.grown()
		default:
			err = b.value(v, c.encoding, oneLine)
		}
		if err != nil {
			return err
		}
	}
	b.buf = append(b.buf, '}')
	return nil
}
