package pgcopy

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/boughdb/bough/server/pgcopy/inventory"
)

// view is the source as it is at one moment.
type view struct {
	leader    *pgx.Conn
	second    *pgx.Conn   // that sees the same
	workers   []*pgx.Conn // that see the same; none if only the schema is copied
	catalog   *catalog
	inventory *inventory.Inventory
	version   string // of the schema, see schemaVersion
	pre, post string // what pg_dump has written
	role      string
	denied    []Denied // what the role cannot create; then the rest may be missing
}

// look takes a view of the source. If the schema is being changed it lets go of
// all locks and tries again.
// existing is what is in the target.
func (c *copier) look(ctx context.Context, existing map[string][]string) (*view, error) {
	v := &view{}
	var err error
	if v.leader, err = c.open(connect(ctx, c.Source, map[string]string{"lock_timeout": shortWait})); err != nil {
		return nil, err
	}
	err = v.leader.QueryRow(ctx, `
		select pg_encoding_to_char(encoding), datname, current_setting('server_version_num')::int / 10000
		from pg_database where datname = current_database()`).Scan(&c.encoding, &c.database, &c.major)
	if err != nil {
		return nil, err
	}
	if v.second, err = c.open(connect(ctx, c.Source, map[string]string{"lock_timeout": shortWait})); err != nil {
		return nil, err
	}
	for !c.SchemaOnly && len(v.workers) < c.jobs {
		conn, err := c.open(connect(ctx, c.Source, map[string]string{"lock_timeout": shortWait, "client_encoding": c.encoding}))
		if err != nil {
			return nil, err
		}
		v.workers = append(v.workers, conn)
	}
	for start := time.Now(); ; {
		err := c.lookOnce(ctx, v, existing)
		if err == nil || !Retryable(err) || time.Since(start) > patience {
			return v, err
		}
		for _, conn := range append([]*pgx.Conn{v.leader, v.second}, v.workers...) {
			if _, err := conn.Exec(ctx, "rollback"); err != nil {
				return nil, err
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (c *copier) lookOnce(ctx context.Context, v *view, existing map[string][]string) error {
	if err := c.freeze(ctx, v); err != nil {
		return err
	}
	// Not canceled by each other, the sessions can be used again.
	var g errgroup.Group
	dumpCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c.PGDump != "" {
		g.Go(func() (err error) {
			v.pre, v.post, err = c.dumpSchema(dumpCtx)
			return err
		})
	}
	g.Go(func() (err error) {
		if v.catalog, err = c.read(ctx, v.leader); err == nil {
			v.role, v.denied, err = c.findDenied(ctx, v.leader, v.catalog, existing)
		}
		if err != nil {
			cancel()
		}
		return changedUnderUs(err)
	})
	g.Go(func() (err error) {
		if v.version, err = schemaVersion(ctx, v.second); err == nil {
			v.inventory, err = inventory.ReadOwned(ctx, v.second, c.Owner, c.granted())
		}
		if err != nil {
			cancel()
		}
		return err
	})
	err := g.Wait()
	if len(v.denied) > 0 {
		return nil // and pg_dump may not read all
	}
	if err != nil {
		return err
	}
	if c.InSnapshot != nil {
		if err := c.InSnapshot(ctx, v.leader); err != nil {
			return changedUnderUs(err)
		}
	}
	// The tables are locked, so that nobody who waits for these sessions can
	// make them wait.
	for _, conn := range v.workers {
		if err := inOrder(ctx, conn, "set local lock_timeout = 0"); err != nil {
			return err
		}
	}
	return inOrder(ctx, v.leader, "set local lock_timeout = '5s'")
}

// freeze locks all tables for all sessions and gives them one snapshot. The
// locks come first, since a TRUNCATE or an ALTER TABLE that rewrites would make
// a table's old rows invisible to an older snapshot. All sessions take them, at
// once: one that came later could be behind somebody who waits for the first.
func (c *copier) freeze(ctx context.Context, v *view) error {
	tables, err := c.tables(ctx, v.leader)
	if err != nil {
		return err
	}
	var g errgroup.Group
	for _, conn := range append([]*pgx.Conn{v.leader}, v.workers...) {
		g.Go(func() error {
			if err := inOrder(ctx, conn, "begin isolation level repeatable read read only"); err != nil {
				return err
			}
			return lockTables(ctx, conn, tables)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := v.leader.QueryRow(ctx, "select pg_export_snapshot()").Scan(&c.snapshot); err != nil {
		return err
	}
	if err := inOrder(ctx, v.second, "begin isolation level repeatable read read only", "set transaction snapshot '"+c.snapshot+"'"); err != nil {
		return err
	}
	for _, conn := range v.workers {
		if err := inOrder(ctx, conn, "set transaction snapshot '"+c.snapshot+"'"); err != nil {
			return err
		}
	}
	now, err := c.tables(ctx, v.leader)
	if err != nil {
		return err
	}
	if !slices.Equal(tables, now) {
		return &sourceChangedError{errors.New("there are tables that were made after the others were locked")}
	}
	return nil
}
