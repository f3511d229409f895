package rows

import (
	"fmt"
	"io"
	"sync"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/limits"
)

// threshold is the size up to which a body stays in memory, and the size of the pieces in which it is written then.
const threshold = 32 << 10

// large is the size from which on the memory of rows and bodies counts against the budget.
const large = 1 << 20

// Body collects an answer. While it is small it is held in memory, so that it can have a Content-Length, and the status
// and the headers can still change; beyond that it goes to the client as it grows.
type Body struct {
	buf   []byte
	start func() (io.Writer, error)
	w     io.Writer // nil until it streams
	hold  bool

	most     int // bytes that may be held; 0 for no bound
	budget   *limits.Budget
	reserved int64 // bytes of the budget

	// The columns of the encoders that write to the body, and the text of their keys.
	columns []column
	keys    []byte
}

var bodies = sync.Pool{New: func() any { return &Body{buf: make([]byte, 0, threshold+threshold/4)} }}

// NewBody returns an empty body. start is called once when the threshold is passed: it writes the header and returns
// where the body goes. With hold, or without start, all of it is kept in memory: answers to writes must wait for the end
// of the transaction. The caller releases the body.
func NewBody(start func() (io.Writer, error), hold bool) *Body {
	b := bodies.Get().(*Body)
	b.start, b.hold = start, hold || start == nil
	return b
}

// Limit bounds the bytes of a body that is held in memory: its own by most, 0 for no bound, and those of large bodies
// together by a budget. A sink whose body becomes larger fails with ErrTooLarge or ErrNoMemory.
func (b *Body) Limit(most int, budget *limits.Budget) { b.most, b.budget = most, budget }

// Bytes returns what has not been written to the client: all of a body that does not stream. It is valid until the next
// row or Release.
func (b *Body) Bytes() []byte { return b.buf }

// Streaming reports whether a part of the body is on its way to the client, and the header before it.
func (b *Body) Streaming() bool { return b.w != nil }

// Finish writes the rest of a body that streams; otherwise it does nothing. It is called when all statements have
// succeeded.
func (b *Body) Finish() error {
	if b.w == nil {
		return nil
	}
	if err := b.flush(); err != nil {
		return fmt.Errorf("%w: %w", ErrAborted, err)
	}
	return nil
}

// Release gives the memory of the body back. Neither the body nor its bytes nor the sinks that write to it may be used
// any more.
func (b *Body) Release() {
	b.budget.Give(b.reserved)
	b.reserved = 0
	if cap(b.buf) > 4*threshold || cap(b.columns) > 1024 || cap(b.keys) > threshold {
		return
	}
	*b = Body{buf: b.buf[:0], columns: b.columns[:0], keys: b.keys[:0]}
	bodies.Put(b)
}

// grown is called by the sinks after each row. It blocks while the client is slow.
func (b *Body) grown() error {
	if len(b.buf) < threshold {
		return nil
	}
	if b.hold {
		return b.kept()
	}
	return b.flush()
}

// kept is called by the sinks that write one row, which stays in memory until it is known that there is no other.
func (b *Body) kept() error {
	if len(b.buf) < threshold {
		return nil
	}
	if b.most > 0 && len(b.buf) > b.most {
		return ErrTooLarge
	}
	if n := int64(cap(b.buf)); n > large && n > b.reserved {
		if !b.budget.Take(n - b.reserved) {
			return ErrNoMemory
		}
		b.reserved = n
	}
	return nil
}

// value appends the JSON of a value. A long one is written on piece by piece. oneLine leaves no line breaks.
func (b *Body) value(v []byte, encoding compile.Encoding, oneLine bool) error {
	if len(v) <= threshold || encoding != compile.String && encoding != compile.JSON {
		start := len(b.buf)
		b.buf = appendValue(b.buf, v, encoding)
		if oneLine {
			joinLines(b.buf[start:])
		}
		return b.grown()
	}
	quoted := encoding == compile.String
	if quoted {
		b.buf = append(b.buf, '"')
	}
	for len(v) > 0 {
		piece := v[:min(len(v), threshold)]
		v = v[len(piece):]
		start := len(b.buf)
		if quoted {
			b.buf = appendEscaped(b.buf, piece)
		} else {
			b.buf = append(b.buf, piece...)
		}
		if oneLine {
			joinLines(b.buf[start:])
		}
		if err := b.grown(); err != nil {
			return err
		}
	}
	if quoted {
		b.buf = append(b.buf, '"')
	}
	return nil
}

// joinLines removes line breaks, which JSON has between tokens only.
func joinLines(text []byte) {
	for i, c := range text {
		if c == '\n' || c == '\r' {
			text[i] = ' '
		}
	}
}

func (b *Body) flush() error {
	if b.w == nil {
		w, err := b.start()
		if err != nil {
			return fmt.Errorf("starting the answer: %w", err)
		}
		b.w = w
	}
	if _, err := b.w.Write(b.buf); err != nil {
		return fmt.Errorf("writing to the client: %w", err)
	}
	if cap(b.buf) > 4*threshold { // after a very long row
		b.buf = make([]byte, 0, threshold+threshold/4)
	}
	b.buf = b.buf[:0]
	return nil
}
