package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DDLChannel is the channel on which a database tells of changes of its schema, where it has an event trigger for it.
const DDLChannel = "bough_ddl"

// DataPlane says what main and its branches are given beyond what is the user's.
type DataPlane struct {
	Roles   RoleNames
	Schemas []string // that are exposed
	// ManageGrants keeps the roles' privileges on the exposed schemas.
	ManageGrants bool
}

// PlaneState is what a database has of the data plane.
type PlaneState struct {
	Functions []string // of schema auth that are Bough's own and current
	Foreign   []string // of schema auth that somebody else made; they are used as they are
	Missing   []string // of schema auth that are not there, or not current
	Notifies  bool     // changes of the schema are told on DDLChannel
	Absent    []string // exposed schemas that do not exist
	Ungranted int      // objects of the exposed schemas that the service role has too few privileges on
	// Warnings say what could not be done.
	Warnings []string
}

// SetUp makes the data roles and gives main its part of the data plane. Several processes may call it at once. What the
// role may not do is in the state's warnings and in DataRoles.
func (c *Cluster) SetUp(ctx context.Context) error {
	if c.cfg.DataPlane == nil {
		return nil
	}
	conn, err := c.connect(ctx, c.Main(), "")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := c.separate(ctx); err != nil {
		return err
	}
	if err := c.setUpRoles(ctx, conn); err != nil {
		return err
	}
	c.letOwnerAct(ctx, conn)
	if c.main, err = c.ensurePlane(ctx, conn); err != nil {
		return err
	}
	if err := c.openMain(ctx); err != nil {
		return err
	}
	if c.separation.Owner != "" && c.separation.Requests == "" { // requests take on their roles from the connection's own
		if err := c.setUpRoles(ctx, conn); err != nil {
			return err
		}
	}
	if role := c.separation.Requests; role != "" {
		password, err := c.ensureLogin(ctx, role, requestLogin)
		if err != nil {
			return err
		}
		c.Pools.SetLogin(role, password)
	}
	return c.upgradeBranches(ctx)
}

// setUpRoles makes the data roles. Where requests cannot take them on from a login of their own, they do it from the
// connection's role.
func (c *Cluster) setUpRoles(ctx context.Context, conn *pgx.Conn) (err error) {
	c.roles, err = c.ensureRoles(ctx, conn)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) { // such as a standby, on which nothing can be made
		c.cfg.Log.Warn("the roles of data requests were not set up", "error", err)
		c.roles, err = c.findRoles(ctx, conn)
	}
	if err != nil || c.separation.Requests == "" || len(c.roles.Missing) == 0 {
		return err
	}
	for _, advice := range c.roles.Advice {
		c.separation.lacks(advice, "%q cannot take on the role %s", c.separation.Requests, strings.Join(c.roles.Missing, ", "))
	}
	c.separation.Requests = ""
	return c.setUpRoles(ctx, conn)
}

// Inspect is SetUp without any change: it finds out what is there.
func (c *Cluster) Inspect(ctx context.Context) error {
	if c.cfg.DataPlane == nil {
		return nil
	}
	conn, err := c.connect(ctx, c.Main(), "")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := c.inspectSeparation(ctx, conn); err != nil {
		return err
	}
	if c.roles, err = c.findRoles(ctx, conn); err != nil {
		return err
	}
	if err := prepareSession(ctx, conn); err != nil {
		return err
	}
	c.main, err = c.planeState(ctx, conn)
	return err
}

// MainState is what SetUp or Inspect found in main.
func (c *Cluster) MainState() PlaneState { return c.main }

// EnsureDataPlane gives a database its part of the data plane: schema auth, the event trigger, privileges. What is
// there already stays as it is; finding that out takes some milliseconds. SetUp was called before.
func (c *Cluster) EnsureDataPlane(ctx context.Context, database string) (PlaneState, error) {
	return c.ensureIn(ctx, database, "")
}

// ensureIn is EnsureDataPlane within an operation.
func (c *Cluster) ensureIn(ctx context.Context, database, op string) (PlaneState, error) {
	if c.cfg.DataPlane == nil {
		return PlaneState{}, nil
	}
	conn, err := c.connect(ctx, database, op)
	if err != nil {
		return PlaneState{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	state, err := c.ensurePlane(ctx, conn)
	if err != nil {
		return state, fmt.Errorf("setting up schema auth in database %q: %w", database, err)
	}
	return state, nil
}

// ensurePlane installs what is missing. Each part that the server refuses becomes a warning: data is served without it.
func (c *Cluster) ensurePlane(ctx context.Context, conn *pgx.Conn) (PlaneState, error) {
	if err := prepareSession(ctx, conn); err != nil {
		return PlaneState{}, err
	}
	warnings, err := c.adoptObjects(ctx, conn)
	if err != nil {
		return PlaneState{}, err
	}
	if err := c.superviseSchema(ctx, conn); err != nil {
		return PlaneState{}, err
	}
	todo, err := c.todo(ctx, conn)
	if err != nil {
		return PlaneState{}, err
	}
	if len(todo) > 0 {
		more, err := c.install(ctx, conn)
		if err != nil {
			return PlaneState{}, err
		}
		warnings = append(warnings, more...)
	}
	state, err := c.planeState(ctx, conn)
	state.Warnings = warnings
	return state, err
}

// superviseSchema has a superuser of Bough's own server make what only a superuser may: the event trigger.
func (c *Cluster) superviseSchema(ctx context.Context, conn *pgx.Conn) error {
	if c.cfg.Supervise == nil {
		return nil
	}
	found, err := readAuth(ctx, conn)
	if err != nil || found.schema && len(found.repairNotify()) == 0 {
		return err
	}
	super, err := c.supervise(ctx, conn.Config().Database)
	if err != nil {
		return err
	}
	defer super.Close(context.WithoutCancel(ctx))
	return pgx.BeginFunc(ctx, super, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockPlane); err != nil {
			return err
		}
		found, err := readAuth(ctx, tx)
		if err != nil {
			return err
		}
		var statements []string
		if !found.schema {
			statements = authSchema(c.objectOwner())
		}
		for _, stmt := range append(statements, found.repairNotify()...) {
			if _, err := tx.Exec(ctx, stmt); err != nil {
				return fmt.Errorf("%s: %w", stmt, err)
			}
		}
		return nil
	})
}

// lockPlane makes processes that install things in the same database take turns.
const lockPlane = "select pg_advisory_xact_lock(hashtextextended('bough.data_plane', 0))"

// todo returns the statements that give the database what it lacks, those together that need each other.
func (c *Cluster) todo(ctx context.Context, q querier) ([][]string, error) {
	found, err := readAuth(ctx, q)
	if err != nil {
		return nil, err
	}
	owner := c.separation.Owner
	if owner == "" && c.caps.Superuser && c.caps.Owner != c.caps.Role {
		owner = c.caps.Owner
	}
	todo := found.repair(owner)
	if c.cfg.Supervise == nil {
		if notify := found.repairNotify(); len(notify) > 0 {
			todo = append(todo, notify)
		}
	}
	if !c.cfg.DataPlane.ManageGrants {
		return todo, nil
	}
	statements, err := c.missingGrants(ctx, q)
	for _, stmt := range statements {
		todo = append(todo, []string{stmt})
	}
	return todo, err
}

// prepareSession makes what the session does independent of the database's settings, and keeps it from making others
// wait for long.
func prepareSession(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "set search_path = ''; set lock_timeout = '5s'; set statement_timeout = '30s'; set client_min_messages = warning")
	return err
}

// install executes what is missing in one transaction, in which other processes at the same database take turns.
func (c *Cluster) install(ctx context.Context, conn *pgx.Conn) (warnings []string, err error) {
	attempt := func(tx pgx.Tx, statements ...string) (bool, error) {
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			for _, stmt := range statements {
				if _, err := tx.Exec(ctx, stmt); err != nil {
					return err
				}
			}
			return nil
		})
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) {
			return err == nil, err
		}
		if strings.Contains(statements[len(statements)-1], "create event trigger") && pgErr.Code == "42501" {
			return false, nil // most servers allow it to superusers only; PlaneState.Notifies tells
		}
		first, _, _ := strings.Cut(statements[0], "\n")
		warnings = append(warnings, fmt.Sprintf("%s: %s", first, pgErr.Message))
		return false, nil
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockPlane); err != nil {
			return err
		}
		// Another process may have been faster.
		todo, err := c.todo(ctx, tx)
		if err != nil {
			return err
		}
		for _, statements := range todo {
			ok, err := attempt(tx, statements...)
			if err != nil {
				return err
			}
			if !ok && statements[0] == createAuth {
				return nil // nothing of the rest would work, and one warning is enough
			}
		}
		return nil
	})
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && conn.Ping(ctx) == nil { // the database is read-only, or somebody holds a lock
		return append(warnings, pgErr.Message), nil
	}
	return warnings, err
}

// planeState reads what the database has.
func (c *Cluster) planeState(ctx context.Context, q querier) (PlaneState, error) {
	var s PlaneState
	found, err := readAuth(ctx, q)
	if err != nil {
		return s, err
	}
	for _, f := range authFunctions {
		switch have, ok := found.functions[f.name]; {
		case ok && !have.ours:
			s.Foreign = append(s.Foreign, f.name)
		case ok && have.version >= authVersion:
			s.Functions = append(s.Functions, f.name)
		default:
			s.Missing = append(s.Missing, f.name)
		}
	}
	s.Notifies = found.notifies()
	rows, err := q.Query(ctx, "select s from unnest($1::text[]) s where s not in (select nspname from pg_namespace)", c.cfg.DataPlane.Schemas)
	if err != nil {
		return s, err
	}
	if s.Absent, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || c.roles.Service == "" {
		return s, err
	}
	err = q.QueryRow(ctx, "select count(*) from ("+ungranted+") u", c.cfg.DataPlane.Schemas, c.roles.Service).Scan(&s.Ungranted)
	return s, err
}

// ErrUnnotified is the error of WatchSchema for a database that does not tell of changes of its schema.
var ErrUnnotified = errors.New("the database has no event trigger that tells of changes of its schema")

// WatchSchema calls changed when the schema of a database may have changed, and replaced when another database may be in
// its place. Both are called as Pools.Watch does, which also says what stop is. The error is ErrUnnotified or
// ErrWatchLimit, among others: the caller then looks for changes itself.
func (c *Cluster) WatchSchema(ctx context.Context, database string, changed, replaced func()) (stop func(), err error) {
	conn, err := c.Pools.Acquire(ctx, database)
	if err != nil {
		return nil, err
	}
	found, err := readAuth(ctx, conn)
	conn.Release()
	if err != nil {
		return nil, err
	}
	if !found.notifies() {
		return nil, ErrUnnotified
	}
	return c.Pools.watch(&watch{
		database: database, channel: DDLChannel,
		notify: func(string) { changed() },
		began: func(again bool) {
			if again && database != c.Main() {
				replaced()
			} else {
				changed()
			}
		},
		// An event trigger does not tell that it is dropped, alone or with its schema.
		quiet: func(ctx context.Context, conn *pgx.Conn) error {
			found, err := readAuth(ctx, conn)
			if err == nil && !found.notifies() {
				changed()
			}
			return err
		},
	})
}
