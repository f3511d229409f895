package rows

import (
	"bytes"
	"encoding/json"

	"github.com/boughdb/bough/server/compile"
)

// NewCSV returns a sink that writes a header line and a line for each row, quoted as RFC 4180 says. Values are in
// PostgreSQL's text form. NULL is empty and an empty text is "", as in the CSV of COPY.
func NewCSV(b *Body, outputs []compile.Output) Sink {
	s := &csv{sink: newSink(b, outputs)}
	start := len(b.keys)
	for i := range s.columns {
		if i > 0 {
			b.keys = append(b.keys, ',')
		}
		b.keys = appendField(b.keys, []byte(outputs[s.columns[i].index].Name))
	}
	b.keys = append(b.keys, '\n')
	s.header = b.keys[start:len(b.keys):len(b.keys)]
	return s
}

type csv struct {
	sink
	header []byte
}

func (s *csv) Begin() error {
	_ = s.sink.Begin()
	s.body.buf = append(s.body.buf, s.header...)
	return nil
}

func (s *csv) Row(values [][]byte) error {
	for i := range s.columns {
		if i > 0 {
			s.body.buf = append(s.body.buf, ',')
		}
		v := values[s.columns[i].index]
		if v == nil {
			continue
		}
		s.body.buf = appendField(s.body.buf, s.columns[i].plain(v))
		if len(v) > threshold {
			if err := s.body.grown(); err != nil {
				return err
			}
		}
	}
	s.body.buf = append(s.body.buf, '\n')
	return s.body.grown()
}

// plain is a value as text: what to_json has made a string of is that string.
func (c *column) plain(v []byte) []byte {
	if !c.wrapped || len(v) == 0 || v[0] != '"' {
		return v
	}
	var text string
	if json.Unmarshal(v, &text) != nil {
		return v
	}
	return []byte(text)
}

func appendField(dst, v []byte) []byte {
	if len(v) > 0 && bytes.IndexByte(v, '"') < 0 && bytes.IndexByte(v, ',') < 0 && bytes.IndexByte(v, '\n') < 0 &&
		bytes.IndexByte(v, '\r') < 0 {
		return append(dst, v...)
	}
	dst = append(dst, '"')
	for {
		i := bytes.IndexByte(v, '"')
		if i < 0 {
			break
		}
		dst = append(dst, v[:i+1]...)
		dst = append(dst, '"')
		v = v[i+1:]
	}
	dst = append(dst, v...)
	return append(dst, '"')
}
