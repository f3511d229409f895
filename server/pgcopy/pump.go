package pgcopy

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgconn"
)

// pump carries rows from one connection to another in large pieces, so that
// the two servers' processes seldom wait for each other.
type pump struct {
	source, target *pgconn.PgConn
	count          func(bytes int64)

	free, full chan []byte
}

const (
	chunkSize = 1 << 20
	chunks    = 3
)

func newPump(source, target *pgconn.PgConn, count func(int64)) *pump {
	p := &pump{source: source, target: target, count: count, free: make(chan []byte, chunks)}
	for range chunks {
		p.free <- make([]byte, 0, chunkSize)
	}
	return p
}

// copy executes a COPY TO and a COPY FROM and carries the rows. It returns
// their number when both sides agree on it. After an error neither the pump nor
// the connections can be used any more.
func (p *pump) copy(ctx context.Context, from, to string) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.full = make(chan []byte, chunks)
	w := &chunkWriter{ctx: ctx, pump: p, chunk: <-p.free}

	var sent int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(p.full)
		tag, err := p.source.CopyTo(ctx, w, from)
		if err == nil {
			err = w.flush()
		}
		if err != nil {
			cancel(fmt.Errorf("reading rows: %w", err))
			return
		}
		p.free <- w.chunk[:0]
		sent = tag.RowsAffected()
	}()

	r := &chunkReader{ctx: ctx, pump: p}
	tag, err := p.target.CopyFrom(ctx, r, to)
	if err != nil {
		// CopyFrom may have left its goroutine at work on r; the closed
		// channel ends it.
		cancel(fmt.Errorf("writing rows: %w", err))
		for range p.full {
		}
	}
	<-done
	// The first to fail has made the other one fail.
	if cause := context.Cause(ctx); cause != nil {
		return 0, cause
	}
	if got := tag.RowsAffected(); got != sent {
		return 0, fmt.Errorf("%d rows were read but %d written", sent, got)
	}
	return sent, nil
}

// chunkWriter collects what the source sends, message by message.
type chunkWriter struct {
	ctx   context.Context
	pump  *pump
	chunk []byte
}

func (w *chunkWriter) Write(b []byte) (int, error) {
	if len(w.chunk) > 0 && len(w.chunk)+len(b) > chunkSize {
		if err := w.flush(); err != nil {
			return 0, err
		}
	}
	w.chunk = append(w.chunk, b...)
	return len(b), nil
}

func (w *chunkWriter) flush() error {
	select {
	case w.pump.full <- w.chunk:
		w.chunk = nil
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
	select {
	case w.chunk = <-w.pump.free:
		return nil
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
}

// chunkReader hands the chunks to the target.
type chunkReader struct {
	ctx   context.Context
	pump  *pump
	chunk []byte // being read
	rest  []byte
}

var errAborted = errors.New("the other side has ended")

func (r *chunkReader) Read(b []byte) (int, error) {
	for len(r.rest) == 0 {
		r.release()
		chunk, ok := <-r.pump.full
		if !ok {
			// A clean end and an aborted one both close the channel.
			if r.ctx.Err() != nil {
				return 0, errAborted
			}
			return 0, io.EOF
		}
		r.chunk, r.rest = chunk, chunk
		r.pump.count(int64(len(chunk)))
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *chunkReader) release() {
	if r.chunk != nil {
		r.pump.free <- r.chunk[:0]
		r.chunk, r.rest = nil, nil
	}
}
