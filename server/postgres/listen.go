package postgres

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// Listener hands on the control database's notifications. A connection of its own listens; after a loss it comes back
// and calls Reset, since notifications may have been missed.
type Listener struct {
	// Connect opens the connection.
	Connect func(ctx context.Context) (*pgx.Conn, error)
	// Handlers are called one after the other with the payload; they must not block for long.
	Handlers map[string]func(payload string)
	// Reset is called each time that listening begins, the first time included.
	Reset func()
	Log   *slog.Logger
}

// Run listens until ctx ends.
func (l *Listener) Run(ctx context.Context) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		began := time.Now()
		err := l.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		l.Log.Warn("listening for notifications was interrupted; trying again", "error", err)
		if time.Since(began) > time.Minute {
			wait = 100 * time.Millisecond
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (l *Listener) listen(ctx context.Context) error {
	conn, err := l.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for channel := range l.Handlers {
		if _, err := conn.Exec(ctx, "listen "+ident(channel)); err != nil {
			return err
		}
	}
	if l.Reset != nil {
		l.Reset()
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if handle := l.Handlers[n.Channel]; handle != nil {
			handle(n.Payload)
		}
	}
}
