package rows

import (
	"github.com/boughdb/bough/server/compile"
)

// NewObjects returns a sink that writes a JSON array with an object for each row.
func NewObjects(b *Body, outputs []compile.Output, o Options) Sink {
	s := &objects{sink: newSink(b, outputs), strip: o.StripNulls}
	s.key(outputs)
	return s
}

type objects struct {
	sink
	strip bool
}

func (s *objects) Begin() error {
	_ = s.sink.Begin()
	s.body.buf = append(s.body.buf, '[')
	return nil
}

func (s *objects) Row(values [][]byte) error {
	s.separate()
	switch {
	case long(values):
		if err := s.longObject(values, s.strip, false); err != nil {
			return err
		}
	case s.strip:
		s.body.buf = appendObjectStripped(s.body.buf, s.columns, values)
	default:
		s.body.buf = appendObject(s.body.buf, s.columns, values)
	}
	return s.body.grown()
}

func (s *objects) End() error {
	s.body.buf = append(s.body.buf, ']')
	return nil
}

// NewObject returns a sink that writes the only row as an object. Without a row, and with several, the error is a
// *NotSingleError.
func NewObject(b *Body, outputs []compile.Output, o Options) Sink {
	s := &object{sink: newSink(b, outputs), strip: o.StripNulls, optional: o.Optional}
	s.key(outputs)
	return s
}

type object struct {
	sink
	strip, optional bool
}

func (s *object) Row(values [][]byte) error {
	switch {
	case !s.single():
	case s.strip:
		s.body.buf = appendObjectStripped(s.body.buf, s.columns, values)
	default:
		s.body.buf = appendObject(s.body.buf, s.columns, values)
	}
	return s.body.kept()
}

func (s *object) End() error {
	if s.rows != 1 && (s.rows > 1 || !s.optional) {
		return &NotSingleError{Rows: s.rows}
	}
	return nil
}

// NewScalar returns a sink that writes the first column of the only row as bare JSON, null without a row: the result of
// a function. With several rows the error is a *NotSingleError.
func NewScalar(b *Body, outputs []compile.Output) Sink {
	return &scalar{newSink(b, outputs)}
}

type scalar struct{ sink }

func (s *scalar) Row(values [][]byte) error {
	if s.single() {
		s.body.buf = appendScalar(s.body.buf, s.columns, values)
	}
	return s.body.kept()
}

func (s *scalar) End() error {
	if s.rows > 1 {
		return &NotSingleError{Rows: s.rows}
	}
	if s.rows == 0 {
		s.body.buf = append(s.body.buf, "null"...)
	}
	return nil
}

// NewScalars returns a sink that writes a JSON array with the first column of each row.
func NewScalars(b *Body, outputs []compile.Output) Sink {
	return &scalars{newSink(b, outputs)}
}

type scalars struct{ sink }

func (s *scalars) Begin() error {
	_ = s.sink.Begin()
	s.body.buf = append(s.body.buf, '[')
	return nil
}

func (s *scalars) Row(values [][]byte) error {
	s.separate()
	s.body.buf = appendScalar(s.body.buf, s.columns, values)
	return s.body.grown()
}

func (s *scalars) End() error {
	s.body.buf = append(s.body.buf, ']')
	return nil
}

// appendScalar appends the first column that is shown.
func appendScalar(dst []byte, columns []column, values [][]byte) []byte {
	if len(columns) == 0 || values[columns[0].index] == nil {
		return append(dst, "null"...)
	}
	return appendValue(dst, values[columns[0].index], columns[0].encoding)
}

// NewNDJSON returns a sink that writes a line with an object for each row.
func NewNDJSON(b *Body, outputs []compile.Output, o Options) Sink {
	s := &ndjson{sink: newSink(b, outputs), strip: o.StripNulls}
	s.key(outputs)
	return s
}

type ndjson struct {
	sink
	strip bool
}

func (s *ndjson) Row(values [][]byte) error {
	start := len(s.body.buf)
	switch {
	case long(values):
		if err := s.longObject(values, s.strip, true); err != nil {
			return err
		}
	case s.strip:
		s.body.buf = appendObjectStripped(s.body.buf, s.columns, values)
	default:
		s.body.buf = appendObject(s.body.buf, s.columns, values)
		// JSON values may have been stored with line breaks, and json_agg makes some.
		joinLines(s.body.buf[start:])
	}
	s.body.buf = append(s.body.buf, '\n')
	return s.body.grown()
}
