package pgcopy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// Copy copies a database as the options say. The source's tables are locked
// against changes of the schema, not of rows, until the rows are copied.
//
// If it fails, the target holds parts of the copy, perhaps, and is to be
// dropped. [Retryable] tells whether it is worth to try again; an
// [*UnsupportedError] means that nothing was copied.
func Copy(ctx context.Context, o Options) (Result, error) {
	c := &copier{Options: o, jobs: o.Jobs}
	if c.jobs <= 0 {
		c.jobs = 2
	}
	start := time.Now()
	err := c.run(ctx)
	if ctx.Err() != nil && err != nil {
		err = context.Cause(ctx) // whatever the end has made fail
	}
	if err != nil {
		return Result{}, fmt.Errorf("copying the database %s: %w", o.Source.Database, err)
	}
	return Result{
		Tables:   c.progress.Tables,
		Rows:     c.progress.Rows,
		Bytes:    c.progress.Bytes,
		Schema:   c.schemaName(),
		Duration: time.Since(start),
	}, nil
}

// copier is one copy in progress.
type copier struct {
	Options
	jobs int

	snapshot string // of the source, as others can import it
	encoding string // of the source
	database string // the source's name
	major    int    // version of the server

	conns        []*pgx.Conn // to close
	largeObjects []largeObject

	mu       sync.Mutex
	progress Progress
}

// schema writes the schema into the target.
type schema interface {
	// before creates what rows need.
	before(ctx context.Context, conn *pgx.Conn) error
	// after creates the rest but for event triggers.
	after(ctx context.Context, conns []*pgx.Conn) error
	// last creates the event triggers.
	last(ctx context.Context, conn *pgx.Conn) error
}

func (c *copier) schemaName() string {
	if c.PGDump != "" {
		return "pg_dump"
	}
	return "builtin"
}

func (c *copier) run(ctx context.Context) error {
	defer c.close()
	c.report(PhaseSchema)
	view, err := c.look(ctx)
	if err != nil {
		return err
	}
	cat, want := view.catalog, view.catalog.objects()

	main, err := c.open(c.target(ctx))
	if err != nil {
		return fmt.Errorf("connecting to the target: %w", err)
	}
	existing, err := c.prepare(ctx, main, cat)
	if err != nil {
		return err
	}
	var schema schema
	if c.PGDump != "" {
		schema = newDumped(view.pre, view.post, cat, c.LeaveOut, c.Prepared)
	} else {
		schema, err = newBuiltin(cat, existing, c.Prepared, c.Grant == nil)
	}
	if err != nil {
		return err
	}
	if err := schema.before(ctx, main); err != nil {
		return c.blame(ctx, want, err)
	}

	// The workers' connections serve for the indexes too.
	targets := []*pgx.Conn{main}
	for len(targets) < c.jobs {
		conn, err := c.open(c.target(ctx))
		if err != nil {
			return fmt.Errorf("connecting to the target: %w", err)
		}
		targets = append(targets, conn)
	}
	if !c.SchemaOnly {
		if err := c.copyData(ctx, view, targets); err != nil {
			return err
		}
	}
	// From here on the source is not needed, and nobody has to wait for us.
	view.leader.Close(ctx)

	c.report(PhaseIndexes)
	if err := schema.after(ctx, targets); err != nil {
		return c.blame(ctx, want, err)
	}
	c.report(PhaseRefresh)
	if err := refresh(ctx, main, cat); err != nil {
		return err
	}
	if err := schema.last(ctx, main); err != nil {
		return err
	}
	if err := c.grant(ctx, cat, existing); err != nil {
		return err
	}
	c.report(PhaseVerify)
	if err := c.verify(ctx, main, want); err != nil {
		return err
	}
	return analyze(ctx, main)
}

// grant has those privileges set that the target's sessions may not set.
func (c *copier) grant(ctx context.Context, cat *catalog, existing map[Object]bool) error {
	if c.Grant == nil {
		return nil
	}
	var statements []string
	for i, o := range cat.objects() {
		if o.Kind == "privileges" && !existing[o] {
			statements = append(statements, cat.items[i].statements()...)
		}
	}
	if len(statements) == 0 {
		return nil
	}
	return c.Grant(ctx, statements)
}

// read reads a catalog without what is left out.
func (c *copier) read(ctx context.Context, conn *pgx.Conn) (*catalog, error) {
	cat, err := readCatalog(ctx, conn, c.Owner)
	if err != nil {
		return nil, err
	}
	cat.items = slices.DeleteFunc(cat.items, func(it *item) bool {
		return slices.Contains(c.LeaveOut, it.String()) || it.kind == "privileges" && c.Owner != "" && c.Grant == nil
	})
	return cat, nil
}

// copyData copies rows, large objects and sequences.
func (c *copier) copyData(ctx context.Context, view *view, targets []*pgx.Conn) error {
	list, err := c.pieces(ctx, view.leader)
	if err != nil {
		return err
	}
	c.report(PhaseRows)
	target, err := c.open(c.target(ctx))
	if err != nil {
		return fmt.Errorf("connecting to the target: %w", err)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.copyRows(gctx, list, view.workers, targets) })
	g.Go(func() error { return c.copyLargeObjects(gctx, view.leader, target) })
	if err := g.Wait(); err != nil {
		return err
	}
	if err := c.copySequences(ctx, view.leader, target); err != nil {
		return err
	}
	for _, conn := range append(view.workers, target) {
		conn.Close(ctx)
	}
	return nil
}

// prepare makes sure that the target is empty, and removes from it what every
// new database has but the source has not. It returns what is there.
func (c *copier) prepare(ctx context.Context, target *pgx.Conn, source *catalog) (map[Object]bool, error) {
	cat, err := c.read(ctx, target)
	if err != nil {
		return nil, err
	}
	existing := map[Object]bool{}
	names := map[string]bool{}
	for _, it := range source.items {
		names[it.String()] = true
	}
	for i, o := range cat.objects() {
		name := cat.items[i].String()
		switch {
		case name == "schema public" || name == "extension plpgsql":
			if !names[name] {
				if _, err := target.Exec(ctx, "drop "+name); err != nil {
					return nil, fmt.Errorf("removing the %s, which the source has not: %w", name, err)
				}
				continue
			}
		case o.Kind == "privileges", slices.Contains(c.Prepared, name):
		default:
			return nil, fmt.Errorf("the target database is not empty, it has the %s", name)
		}
		existing[o] = true
	}
	var objects int
	if err := target.QueryRow(ctx, "select count(*) from pg_largeobject_metadata").Scan(&objects); err != nil {
		return nil, err
	}
	if objects > 0 {
		return nil, errors.New("the target database is not empty, it has large objects")
	}
	return existing, c.probe(ctx, target, source)
}

// probe tries to create an event trigger, if there are some. Only superusers may,
// and it would be found out only after the rows were copied.
func (c *copier) probe(ctx context.Context, target *pgx.Conn, source *catalog) error {
	for _, it := range source.items {
		if it.kind != "event trigger" {
			continue
		}
		_, err := target.PgConn().Exec(ctx, `
			begin;
			create function pg_temp.pgcopy_probe() returns event_trigger language plpgsql as 'begin end';
			create event trigger pgcopy_probe on ddl_command_end when tag in ('CREATE CAST') execute function pg_temp.pgcopy_probe()`).ReadAll()
		if err != nil {
			err = fmt.Errorf("creating the %v: %w", it, err)
		}
		_, rollbackErr := target.Exec(ctx, "rollback")
		return errors.Join(err, rollbackErr)
	}
	return nil
}

// open takes note of a new connection.
func (c *copier) open(conn *pgx.Conn, err error) (*pgx.Conn, error) {
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

// close closes all connections and waits until they are closed.
func (c *copier) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, conn := range c.conns {
		conn.Close(ctx)
	}
	for _, conn := range c.conns {
		select {
		case <-conn.PgConn().CleanupDone():
		case <-ctx.Done():
		}
	}
	c.conns = nil
}

// report announces a phase.
func (c *copier) report(phase Phase) {
	c.update(func(p *Progress) { p.Phase = phase })
}

// update changes the progress and shows it.
func (c *copier) update(change func(*Progress)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.progress)
	if c.Progress != nil {
		c.Progress(c.progress)
	}
}
