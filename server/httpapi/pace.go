package httpapi

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/limits"
)

var (
	errSlowBody = fault.New(fault.Timeout, "timeout", "the body did not come in time")
	errMemory   = fault.New(fault.Unavailable, "unavailable", "there is no memory left for large requests at the moment").Retry(time.Second)
)

// AnswerTimeout is how long an answer may take from the end of a request on, for the server's WriteTimeout. Answers that
// are written piece by piece have deadlines of their own.
const AnswerTimeout = 10 * time.Minute

// Bodies up to this size do not count against the budget of memory.
const smallBody = 1 << 20

// unread is how long the rest of a body that nobody reads may take: net/http reads some of it, to use the connection again.
const unread = 2 * time.Second

// paceBodies gives clients a limited time for the bodies of all requests, whatever serves them: a rate, after a grace.
func (a *API) paceBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		b := &pacedBody{
			ReadCloser: r.Body, header: w.Header(), control: http.NewResponseController(w),
			meter: limits.Meter{Pace: a.Pace}, memory: a.Memory,
		}
		defer b.release()
		// The server looks at its own request for whether a body that nobody read is worth reading before the answer, and
		// reads one that it does not know.
		paced := r.WithContext(r.Context())
		paced.Body = b
		next.ServeHTTP(w, paced)
	})
}

// pacedBody is a body that must come in time.
type pacedBody struct {
	io.ReadCloser
	header  http.Header
	control *http.ResponseController
	meter   limits.Meter
	// until is when all of the body must have come; zero for never.
	until time.Time
	// deadline is what the connection was given; zero for none.
	deadline time.Time
	ended    bool
	bytes    int64

	memory *limits.Budget
	taken  int64
}

// Read implements io.Reader.
func (b *pacedBody) Read(p []byte) (int, error) {
	began := time.Now()
	b.extend(began)
	n, err := b.ReadCloser.Read(p)
	b.meter.Passed(n, time.Since(began))
	b.bytes += int64(n)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.ended = true // the connection is closed
		b.header.Set("Connection", "close")
		return n, errSlowBody
	case err != nil && !errors.Is(err, io.EOF):
		return n, brokenBody(err)
	case errors.Is(err, io.EOF) && !b.ended:
		b.ended = true
		if !b.deadline.IsZero() {
			_ = b.control.SetReadDeadline(time.Time{}) // net/http goes on reading, to see when the client goes
		}
		if b.meter.Waited() > time.Minute { // the time for the answer began with the request
			_ = b.control.SetWriteDeadline(time.Now().Add(AnswerTimeout))
		}
	}
	if b.bytes > smallBody && b.bytes > b.taken {
		if more := max(b.bytes-b.taken, smallBody); b.memory.Take(more) {
			b.taken += more
		} else if err == nil {
			return n, errMemory
		}
	}
	return n, err //nolint:wrapcheck // io.EOF must stay what it is
}

// extend moves the deadline. It is not worth a call for each piece of a body that comes fast.
func (b *pacedBody) extend(now time.Time) {
	left, ok := b.meter.Left(1)
	deadline := now.Add(left)
	if !b.until.IsZero() && (!ok || deadline.After(b.until)) {
		deadline, ok = b.until, true
	}
	if !ok || b.ended || !b.deadline.IsZero() && b.deadline.Before(deadline) && b.deadline.Sub(now) > b.meter.Grace/2 {
		return
	}
	if b.control.SetReadDeadline(deadline) == nil {
		b.deadline = deadline
	}
}

// release is called when the request is answered.
func (b *pacedBody) release() {
	b.memory.Give(b.taken)
	if !b.ended && (b.meter.BytesPerSecond > 0 || !b.until.IsZero()) {
		_ = b.control.SetReadDeadline(time.Now().Add(unread))
	}
}
