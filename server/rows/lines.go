package rows

import "github.com/boughdb/bough/server/compile"

// NewLines returns a sink that writes the first column of each row on a line of its own, as it is.
func NewLines(b *Body, outputs []compile.Output) Sink { return &lines{newSink(b, outputs)} }

type lines struct{ sink }

func (s *lines) Row(values [][]byte) error {
	if len(s.columns) > 0 {
		s.body.buf = append(s.body.buf, values[s.columns[0].index]...)
	}
	s.body.buf = append(s.body.buf, '\n')
	return s.body.grown()
}
