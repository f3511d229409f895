package rows

import (
	"bytes"
	"encoding/hex"
	"fmt"

	"github.com/boughdb/bough/server/compile"
)

// NewText returns a sink that writes the first column of the only row as it is, nothing for NULL or without a row. With
// several rows the error is a *NotSingleError.
func NewText(b *Body, outputs []compile.Output) Sink { return &raw{sink: newSink(b, outputs)} }

// NewBinary returns a sink like that of NewText for a column of type bytea, whose bytes it writes.
func NewBinary(b *Body, outputs []compile.Output) Sink {
	return &raw{sink: newSink(b, outputs), binary: true}
}

type raw struct {
	sink
	binary bool
}

func (s *raw) Row(values [][]byte) error {
	if !s.single() || len(s.columns) == 0 {
		return nil
	}
	v := values[s.columns[0].index]
	if v == nil || !s.binary {
		s.body.buf = append(s.body.buf, s.columns[0].plain(v)...)
		return s.body.kept()
	}
	digits, ok := bytes.CutPrefix(v, []byte(`\x`))
	if !ok {
		return fmt.Errorf("column %d is not a bytea in hex form", s.columns[0].index+1)
	}
	var err error
	if s.body.buf, err = hex.AppendDecode(s.body.buf, digits); err != nil {
		return fmt.Errorf("decoding a bytea: %w", err)
	}
	return s.body.kept()
}

func (s *raw) End() error {
	if s.rows > 1 {
		return &NotSingleError{Rows: s.rows}
	}
	return nil
}

// Values is a sink that keeps the rows: results of statements that others depend on. Hidden columns are among them.
type Values struct {
	// Rows are the values in text form, nil for NULL.
	Rows [][]*string
}

// Begin implements Sink.
func (v *Values) Begin() error {
	v.Rows = nil
	return nil
}

// Row implements Sink.
func (v *Values) Row(values [][]byte) error {
	row := make([]*string, len(values))
	for i := range values {
		if values[i] != nil {
			s := string(values[i])
			row[i] = &s
		}
	}
	v.Rows = append(v.Rows, row)
	return nil
}

// End implements Sink.
func (v *Values) End() error { return nil }

// Reset implements Sink.
func (v *Values) Reset() bool {
	v.Rows = nil
	return true
}
