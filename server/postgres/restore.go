package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// RestoreDataPlane gives a database back what it lost of the data plane, such as the privileges on a schema that was
// dropped and created again. changed reports whether it changed anything.
//
// futile is what an earlier call returned as left: statements that did not help then are not tried again and again,
// each of them a change of the schema that would be the reason for the next call.
func (c *Cluster) RestoreDataPlane(ctx context.Context, database, futile string) (changed bool, left string, err error) {
	if c.cfg.DataPlane == nil {
		return false, "", nil
	}
	// A database that is being cloned is left alone until that is done: a session in it would be in the way.
	gate, err := c.Pools.Acquire(ctx, database)
	if err != nil {
		return false, futile, err
	}
	gate.Release()
	conn, err := c.connect(ctx, database, "")
	if err != nil {
		return false, futile, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := prepareSession(ctx, conn); err != nil {
		return false, futile, err
	}
	before, err := c.todo(ctx, conn)
	if err != nil {
		return false, futile, err
	}
	if left = join(before); left == "" || left == futile {
		return false, left, nil
	}
	warnings, err := c.install(ctx, conn)
	if err != nil {
		return false, futile, fmt.Errorf("setting up the data plane of database %q again: %w", database, err)
	}
	after, err := c.todo(ctx, conn)
	if err != nil {
		return true, futile, err
	}
	left = join(after)
	if left != "" && len(warnings) > 0 {
		c.cfg.Log.Warn("the data plane of a database is not complete", "database", database, "warnings", warnings)
	}
	return len(after) < len(before), left, nil
}

func join(groups [][]string) string { return strings.Join(slices.Concat(groups...), ";\n") }

// PlaneKeeper restores the data plane of databases whose schema changes. At most one restoring of a database runs at a
// time, and one more is due after it, however many changes there were.
type PlaneKeeper struct {
	// Restore is Cluster.RestoreDataPlane.
	Restore func(ctx context.Context, database, futile string) (changed bool, left string, err error)
	// Restored is called when a database has got something back.
	Restored func(database string)
	// Failed is called with the error of a restoring that will not be tried again before the next change.
	Failed func(database string, err error)

	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	pause  time.Duration // restTime; tests are less patient

	mu     sync.Mutex
	closed bool
	kept   map[string]*kept
}

type kept struct {
	running, due bool
	futile       string
}

const (
	// A database rests for so long between two restorings, and ten times as long as the last one took, up to a limit:
	// meanwhile requests to a schema that was created again are refused.
	restTime    = time.Second
	maxRestTime = 15 * time.Second
	// A restoring takes no longer, and is tried so often.
	restoreTimeout  = 30 * time.Second
	restoreAttempts = 3
	// So many databases are remembered.
	maxKept = 1000
)

// NewPlaneKeeper returns a keeper that works until Close.
func NewPlaneKeeper(restore func(ctx context.Context, database, futile string) (bool, string, error)) *PlaneKeeper {
	k := &PlaneKeeper{Restore: restore, Restored: func(string) {}, Failed: func(string, error) {}, pause: restTime, kept: map[string]*kept{}}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// Close ends what is under way and waits for it.
func (k *PlaneKeeper) Close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.cancel()
	k.work.Wait()
}

// Changed says that the schema of a database has changed. It does not wait.
func (k *PlaneKeeper) Changed(database string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	d := k.kept[database]
	if d == nil {
		if len(k.kept) >= maxKept {
			for name, other := range k.kept {
				if !other.running {
					delete(k.kept, name)
				}
			}
		}
		d = &kept{}
		k.kept[database] = d
	}
	d.due = true
	if !d.running {
		d.running = true
		k.work.Go(func() { k.run(database, d) })
	}
}

// run restores the data plane of a database as often as it is due.
func (k *PlaneKeeper) run(database string, d *kept) {
	failures := 0
	for {
		k.mu.Lock()
		if !d.due || k.ctx.Err() != nil {
			d.running = false
			k.mu.Unlock()
			return
		}
		d.due = false
		futile := d.futile
		k.mu.Unlock()

		began := time.Now()
		ctx, cancel := context.WithTimeout(k.ctx, restoreTimeout)
		changed, left, err := k.Restore(ctx, database, futile)
		cancel()
		rest := max(k.pause, min(10*time.Since(began), maxRestTime))

		k.mu.Lock()
		d.futile = left
		switch {
		case err == nil:
			failures = 0
		case failures+1 < restoreAttempts && !hasCode(err, "3D000"): // the database does not exist
			failures++
			d.due = true
		default:
			failures = 0
		}
		again := d.due
		k.mu.Unlock()
		switch {
		case k.ctx.Err() != nil:
		case err != nil && !again:
			k.Failed(database, err)
		case changed:
			k.Restored(database)
		}
		select {
		case <-k.ctx.Done():
		case <-time.After(rest):
		}
	}
}
