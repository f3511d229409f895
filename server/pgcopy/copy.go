package pgcopy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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

	targetRole string

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
	main, err := c.open(connect(ctx, c.Target, targetSettings))
	if err != nil {
		return fmt.Errorf("connecting to the target: %w", err)
	}
	existing, err := c.readTarget(ctx, main)
	if err != nil {
		return err
	}
	view, err := c.look(ctx, existing)
	if err != nil {
		return err
	}
	cat := view.catalog
	if err := c.mayCreate(ctx, main, view); err != nil {
		return err
	}
	if err := c.prepare(ctx, main, cat, existing); err != nil {
		return err
	}
	var schema schema
	if c.PGDump != "" {
		schema = newDumped(view.pre, view.post, cat, c.LeaveOut, c.Prepared)
	} else {
		schema, err = newBuiltin(cat, existing, c.Prepared, c.targetRole, c.Grant == nil)
	}
	if err != nil {
		return err
	}
	if err := schema.before(ctx, main); err != nil {
		return c.checkSource(ctx, view, err)
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
	view.second.Close(ctx)
	view.leader.Close(ctx)

	c.report(PhaseIndexes)
	if err := schema.after(ctx, targets); err != nil {
		return c.checkSource(ctx, view, err)
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
	if err := c.verify(ctx, main, view); err != nil {
		return err
	}
	return analyze(ctx, main)
}

// grant has those privileges set that the target's sessions may not set.
func (c *copier) grant(ctx context.Context, cat *catalog, existing map[string][]string) error {
	if c.Grant == nil {
		return nil
	}
	var statements []string
	for _, it := range cat.items {
		if it.kind == "privileges" && !slices.Equal(existing[it.String()], it.statements()) {
			statements = append(statements, it.statements()...)
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
	c.leaveOut(cat)
	return cat, nil
}

// copyData copies rows, large objects and sequences.
func (c *copier) copyData(ctx context.Context, view *view, targets []*pgx.Conn) error {
	leftOut := view.catalog.leftOutRelations()
	list, err := c.pieces(ctx, view.leader, leftOut)
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
	if err := c.copySequences(ctx, view.leader, target, leftOut); err != nil {
		return err
	}
	for _, conn := range append(view.workers, target) {
		conn.Close(ctx)
	}
	return nil
}

// readTarget makes sure that the target is empty. It returns what is in every
// new database: the statements that create it, by name.
func (c *copier) readTarget(ctx context.Context, target *pgx.Conn) (map[string][]string, error) {
	cat, err := c.read(ctx, target)
	if err != nil {
		return nil, err
	}
	existing := map[string][]string{}
	for _, it := range cat.items {
		name := it.String()
		if name != "schema public" && name != "extension plpgsql" && it.kind != "privileges" && !slices.Contains(c.Prepared, name) {
			return nil, fmt.Errorf("the target database is not empty, it has the %s", name)
		}
		existing[name] = it.statements()
	}
	var objects int
	if err := target.QueryRow(ctx, "select current_user::text, count(*) from pg_largeobject_metadata").Scan(&c.targetRole, &objects); err != nil {
		return nil, err
	}
	if objects > 0 {
		return nil, errors.New("the target database is not empty, it has large objects")
	}
	return existing, nil
}

// prepare removes from the target what the source has not, and sets it up for
// the source's encoding.
func (c *copier) prepare(ctx context.Context, target *pgx.Conn, source *catalog, existing map[string][]string) error {
	if _, err := target.Exec(ctx, "select set_config('client_encoding', $1, false)", c.encoding); err != nil {
		return err
	}
	for _, name := range []string{"extension plpgsql", "schema public"} {
		if _, ok := existing[name]; !ok || slices.ContainsFunc(source.items, func(it *item) bool { return it.String() == name }) {
			continue
		}
		if _, err := target.Exec(ctx, "drop "+name); err != nil {
			return fmt.Errorf("removing the %s, which the source has not: %w", name, err)
		}
		delete(existing, name)
	}
	return nil
}

// mayCreate makes sure that the role can create what is in the source, which
// would else be found out in the middle, or after the rows were copied.
func (c *copier) mayCreate(ctx context.Context, target *pgx.Conn, v *view) error {
	denied := v.denied
	triggers, err := c.probe(ctx, target, v.catalog)
	if err != nil {
		return err
	}
	for _, d := range triggers {
		if !slices.ContainsFunc(denied, func(other Denied) bool { return other.Object == d.Object }) {
			denied = append(denied, d)
		}
	}
	slices.SortFunc(denied, func(a, b Denied) int { return cmp.Compare(a.Object, b.Object) })
	if len(denied) > 0 {
		return &PermissionError{Role: v.role, Denied: denied}
	}
	return nil
}

// probe tries to create an event trigger, if there are some. Usually only
// superusers may, but some providers let others.
func (c *copier) probe(ctx context.Context, target *pgx.Conn, source *catalog) (denied []Denied, err error) {
	for _, it := range source.items {
		if it.kind != "event trigger" {
			continue
		}
		if denied == nil {
			_, err := target.PgConn().Exec(ctx, `
				begin;
				create function pg_temp.pgcopy_probe() returns event_trigger language plpgsql as 'begin end';
				create event trigger pgcopy_probe on ddl_command_end when tag in ('CREATE CAST') execute function pg_temp.pgcopy_probe()`).ReadAll()
			if _, rollbackErr := target.Exec(ctx, "rollback"); rollbackErr != nil {
				return nil, errors.Join(err, rollbackErr)
			}
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != "42501" { // insufficient_privilege
				return nil, err
			}
		}
		denied = append(denied, Denied{it.String(), "can be created by superusers only"})
	}
	return denied, nil
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
