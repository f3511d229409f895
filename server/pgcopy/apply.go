package pgcopy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"
)

// step is some statements that go together, of an object if built in.
type step struct {
	name       string // for errors
	statements []string
	tables     []string // relations that they lock
	shared     bool     // others may do the same to these at the same time
	needs      []int    // steps before it in the same list
}

// runInOrder executes steps one after another on one connection, many at a time.
func runInOrder(ctx context.Context, conn *pgx.Conn, steps []step) error {
	const size = 64 << 10
	var script strings.Builder
	var starts []int // of each step in the script, in bytes
	first := 0
	flush := func(next int) error {
		defer func() {
			script.Reset()
			starts, first = nil, next
		}()
		if script.Len() == 0 {
			return nil
		}
		_, err := conn.PgConn().Exec(ctx, script.String()).ReadAll()
		if err == nil {
			return nil
		}
		var pg *pgconn.PgError
		if errors.As(err, &pg) {
			if i := stepAt(script.String(), starts, int(pg.Position)); i >= 0 {
				return fmt.Errorf("creating %s: %w", steps[first+i].name, err)
			}
		}
		if len(starts) == 1 {
			return fmt.Errorf("creating %s: %w", steps[first].name, err)
		}
		// The server has not said where. All was rolled back, so find out.
		for _, s := range steps[first : first+len(starts)] {
			if err := s.run(ctx, conn); err != nil {
				return err
			}
		}
		return nil
	}
	for i, s := range steps {
		starts = append(starts, script.Len())
		for _, statement := range s.statements {
			script.WriteString(statement)
			script.WriteString(";\n")
		}
		if script.Len() > size || len(starts) == 100 {
			if err := flush(i + 1); err != nil {
				return err
			}
		}
	}
	return flush(len(steps))
}

// stepAt returns which of the steps is at a position, in characters from 1.
func stepAt(script string, starts []int, position int) int {
	if position <= 0 {
		return -1
	}
	bytes := 0
	for range position - 1 {
		_, n := utf8.DecodeRuneInString(script[bytes:])
		bytes += n
	}
	found := -1
	for i, start := range starts {
		if start <= bytes {
			found = i
		}
	}
	return found
}

// run executes the statements of a step, each in its own transaction.
func (s step) run(ctx context.Context, conn *pgx.Conn) error {
	for _, statement := range s.statements {
		if _, err := conn.PgConn().Exec(ctx, statement).ReadAll(); err != nil {
			return fmt.Errorf("creating %s: %w", s.name, err)
		}
	}
	return nil
}

// runParallel executes steps over several connections. A step starts when those
// it needs are done and nobody is at work on its tables, unless all of them
// share: two steps that wait for each other's locks would be a deadlock.
func runParallel(ctx context.Context, conns []*pgx.Conn, steps []step) error {
	if len(steps) == 0 {
		return nil
	}
	type table struct{ shared, exclusive int }
	busy := map[string]*table{}
	started, done := make([]bool, len(steps)), make([]bool, len(steps))
	free := func(s step) bool {
		for _, t := range s.tables {
			if b := busy[t]; b != nil && (b.exclusive > 0 || !s.shared && b.shared > 0) {
				return false
			}
		}
		return true
	}
	mark := func(s step, by int) {
		for _, t := range s.tables {
			if busy[t] == nil {
				busy[t] = &table{}
			}
			if s.shared {
				busy[t].shared += by
			} else {
				busy[t].exclusive += by
			}
		}
	}
	// A table may be listed twice, which only marks it twice. The steps before
	// first have all started.
	first := 0
	ready := func() int {
		for first < len(steps) && started[first] {
			first++
		}
	next:
		for i := first; i < len(steps); i++ {
			s := steps[i]
			if started[i] {
				continue
			}
			for _, n := range s.needs {
				if !done[n] {
					continue next
				}
			}
			if free(s) {
				return i
			}
		}
		return -1
	}

	g, gctx := errgroup.WithContext(ctx)
	idle := make(chan *pgx.Conn, len(conns))
	for _, conn := range conns {
		idle <- conn
	}
	finished := make(chan int, len(steps))
	running, left := 0, len(steps)
	for left > 0 {
		if i := ready(); i >= 0 && len(idle) > 0 {
			conn := <-idle
			started[i] = true
			mark(steps[i], 1)
			running++
			g.Go(func() error {
				err := steps[i].run(gctx, conn)
				idle <- conn
				finished <- i
				return err
			})
			continue
		}
		if running == 0 {
			break // nothing can start: an error in the order, see below
		}
		i := <-finished
		mark(steps[i], -1)
		done[i] = true
		running--
		left--
		if gctx.Err() != nil {
			break
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if left > 0 {
		return errors.New("the remaining objects need each other")
	}
	return nil
}

// stepsOf returns the steps that create objects. What they need of the list
// comes before them.
func stepsOf(items []*item) []step {
	index := make(map[*item]int, len(items))
	steps := make([]step, len(items))
	for i, it := range items {
		index[it] = i
		steps[i] = step{name: it.String(), statements: it.statements(), shared: it.shared}
		for _, t := range it.tables {
			steps[i].tables = append(steps[i].tables, fmt.Sprint(t))
		}
		for _, n := range it.needs {
			if j, ok := index[n]; ok {
				steps[i].needs = append(steps[i].needs, j)
			}
		}
	}
	return steps
}
