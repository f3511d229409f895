package rows

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// cancelDelay is how long a statement whose result nobody wants may go on before it is cancelled: most are done
	// sooner than another connection is opened.
	cancelDelay = 10 * time.Millisecond
	// cancelPatience is how long a cancelled statement may take to end. After that the connection is given up.
	cancelPatience = 5 * time.Second
)

// watch cancels what a connection does when a context ends. The pool's own way serves pgconn's methods only, and it must
// sleep after each cancellation; this one waits until the server has acted on the request, so that it cannot hit the
// next user of the connection.
type watch struct {
	conn *pgconn.PgConn
	fire func() // cancel, made into a func once
	stop func() bool
	wg   sync.WaitGroup // the goroutines of cancel

	mu   sync.Mutex
	over bool
	wake chan struct{} // made by cancel, closed by end
}

// begin starts to watch a context.
func (w *watch) begin(ctx context.Context) {
	w.over, w.wake, w.stop = false, nil, nil
	if ctx.Done() != nil {
		w.wg.Add(1)
		w.stop = context.AfterFunc(ctx, w.fire)
	}
}

// now cancels without regard to the context.
func (w *watch) now() { w.wg.Go(w.cancel) }

// end is called when the connection is at rest. If a cancellation is under way, end waits for it.
func (w *watch) end() {
	if w.stop != nil && w.stop() {
		w.wg.Done()
	}
	w.mu.Lock()
	w.over = true
	cancelled := w.wake != nil
	if cancelled {
		close(w.wake)
	}
	w.mu.Unlock()
	w.wg.Wait()
	if cancelled && !w.conn.IsClosed() {
		_ = w.conn.Conn().SetDeadline(time.Time{})
	}
}

func (w *watch) cancel() {
	w.mu.Lock()
	if w.over || w.wake != nil {
		w.mu.Unlock()
		return
	}
	wake := make(chan struct{})
	w.wake = wake
	w.mu.Unlock()

	_ = w.conn.Conn().SetDeadline(time.Now().Add(cancelPatience))
	ctx, stop := context.WithTimeout(context.Background(), cancelPatience)
	defer stop()
	// A request that comes before the server has read the statement is without effect, so that it is repeated. If nothing
	// helps, the deadline ends the connection.
	for delay := cancelDelay; ; delay *= 4 {
		select {
		case <-wake:
			return
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
		_ = w.conn.CancelRequest(ctx)
	}
}
