package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/diskspace"
)

// SessionPolicy says what a clone does about sessions of other programs in the source.
type SessionPolicy string

// The policies.
const (
	// CopyAround leaves them alone and copies from a snapshot.
	CopyAround SessionPolicy = "copy"
	// Terminate ends them, which costs each one error and saves the copying.
	Terminate SessionPolicy = "terminate"
	// Refuse fails the clone.
	Refuse SessionPolicy = "fail"
)

// ClusterConfig configures the server that holds main and the branches.
type ClusterConfig struct {
	URL          string    // of main
	DirectURL    string    // of main without a pooler in between; "" where URL is that
	PoolMode     PoolMode  // of what URL leads to; "" is PoolAuto
	Installation uuid.UUID // marks this installation's databases and sessions
	Limits       PoolLimits
	Sessions     SessionPolicy
	// Strategy overrides the choice of the clone strategy; empty lets the engine choose.
	Strategy Strategy
	// MaxPause is how long main's clients may have to wait for a clone. One that would take longer, by estimate, or that
	// does, is copied from a snapshot. Zero sets no limit.
	MaxPause time.Duration
	// Drain is how long a clone waits for the requests that are at work.
	Drain time.Duration
	// Jobs is the number of parallel connections of a snapshot copy.
	Jobs int
	// Reflink says that the server's file system is known to share blocks between copies.
	Reflink bool
	// PGDump finds a pg_dump for a server's major version; it returns "" where there is none.
	PGDump func(major int) string
	// KeepUserMappings copies foreign servers' user mappings, through which a branch can reach other databases.
	KeepUserMappings bool
	// LeaveOutUnsupported copies a database without what the role cannot create in a copy, where nothing else needs it.
	LeaveOutUnsupported bool
	// DataPlane is what main and the branches are given; nil gives them nothing.
	DataPlane *DataPlane
	// Disk guards the file system with the server's data; nil where that is not known.
	Disk *diskspace.Guard
	// Logins lets requests and branches log in as roles of their own; nil lets everything log in as the URL says.
	Logins *Logins
	// Control is the name of the control database where it is on the same server, "" elsewhere.
	Control string
	// Supervise opens a superuser's session on Bough's own server, for what nobody else may do. Nil on other servers.
	Supervise func(ctx context.Context, database string) (*pgx.Conn, error)
	Log       *slog.Logger
}

// Cluster is the PostgreSQL server that holds main and the branches.
type Cluster struct {
	cfg   ClusterConfig
	base  *pgx.ConnConfig // of main, without a pooler where that is known
	caps  Capabilities
	roles DataRoles  // set once, by SetUp or Inspect
	main  PlaneState // likewise
	Pools *Pools

	names      loginNames
	separation Separation // set once, by SetUp

	// Announce tells other processes of this installation to hold a database for at most the given time (0 ends the
	// hold). Nil where this process is alone.
	Announce func(ctx context.Context, database string, limit time.Duration) error

	rateMu sync.Mutex
	rates  map[Strategy]rate // as last measured
}

// Capabilities are what the server and its role allow, found at start.
type Capabilities struct {
	ServerVersion int    // server_version_num
	Version       string // server_version
	Role          string
	Superuser     bool
	CreateDB      bool
	CreateRole    bool
	SignalOthers  bool // may end other roles' sessions
	Checkpoint    bool // may write a checkpoint
	TemplateMain  bool // may use main as a template
	CloneMethod   bool // knows file_copy_method
	Reflink       bool
	PGDump        string // a pg_dump that fits, "" where there is none
	MaxConns      int
	Extensions    []string // of pg_stat_statements and vector, the ones that can be installed
	Owner         string   // of main
}

// OpenCluster connects to main and finds out what the server can do.
func OpenCluster(ctx context.Context, cfg ClusterConfig) (*Cluster, error) {
	base, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		return nil, err
	}
	if cfg.Limits.Pooler, err = FindPooler(ctx, base, cmp.Or(cfg.PoolMode, PoolAuto)); err != nil {
		return nil, err
	}
	if cfg.DirectURL != "" {
		if base, err = directly(base, cfg.DirectURL); err != nil {
			return nil, err
		}
		cfg.Limits.Direct = cfg.DirectURL
	}
	if cfg.Sessions == "" {
		cfg.Sessions = CopyAround
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := &Cluster{cfg: cfg, base: base, rates: map[Strategy]rate{}, names: namesOf(cfg.Installation)}
	if err := c.probe(ctx); err != nil {
		return nil, err
	}
	if room := c.caps.MaxConns - 10; cfg.Limits.Total > room && room > 0 {
		cfg.Limits.Total = room
	}
	c.Pools, err = NewPools(cfg.URL, c.application(""), cfg.Limits)
	return c, err
}

// Close closes the pools.
func (c *Cluster) Close() { c.Pools.Close() }

// Main is the name of the main database.
func (c *Cluster) Main() string { return c.base.Database }

// Capabilities returns what was found at start.
func (c *Cluster) Capabilities() Capabilities { return c.caps }

// URL is a libpq URL of a database, with password. It leads around a pooler where that is known.
func (c *Cluster) URL(database string) (string, error) {
	return WithDatabase(cmp.Or(c.cfg.DirectURL, c.cfg.URL), database)
}

// Pooler is what stands between the pools and the server, and whether there is a way around it.
func (c *Cluster) Pooler() (p Pooler, direct bool) {
	return c.cfg.Limits.Pooler, c.cfg.DirectURL != "" || !c.cfg.Limits.Pooler.Present
}

// directly is the configuration of the URL around a pooler. It must be of the same database.
func directly(pooled *pgx.ConnConfig, url string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(url)
	if err == nil && cfg.Database != pooled.Database {
		err = fmt.Errorf("the direct URL names the database %q, the other one %q", cfg.Database, pooled.Database)
	}
	return cfg, err
}

// Ping asks main for a sign of life.
func (c *Cluster) Ping(ctx context.Context) error {
	if c.Pools.Held(c.Main()) {
		return nil // it is being cloned, which it would not be if it were down
	}
	conn, err := c.Pools.Acquire(ctx, c.Main())
	if err != nil {
		return err
	}
	defer conn.Release()
	return conn.Ping(ctx)
}

func (c *Cluster) probe(ctx context.Context) error {
	conn, err := c.connect(ctx, c.base.Database, "")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	k := &c.caps
	err = conn.QueryRow(ctx, `
		select current_setting('server_version_num')::int, current_setting('server_version'), r.rolname, r.rolsuper,
			r.rolcreatedb or r.rolsuper, r.rolcreaterole or r.rolsuper,
			r.rolsuper or pg_has_role('pg_signal_backend', 'member'), r.rolsuper or pg_has_role('pg_checkpoint', 'usage'),
			r.rolsuper or (r.rolcreatedb and (d.datistemplate or pg_has_role(d.datdba, 'usage'))),
			exists (select from pg_settings where name = 'file_copy_method'),
			current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
				- coalesce(current_setting('reserved_connections', true)::int, 0),
			array(select name::text from pg_available_extensions where name in ('vector', 'pg_stat_statements') order by name),
			pg_get_userbyid(d.datdba)
		from pg_roles r, pg_database d
		where r.rolname = current_user and d.datname = current_database()`).Scan(
		&k.ServerVersion, &k.Version, &k.Role, &k.Superuser, &k.CreateDB, &k.CreateRole, &k.SignalOthers, &k.Checkpoint,
		&k.TemplateMain, &k.CloneMethod, &k.MaxConns, &k.Extensions, &k.Owner)
	if err != nil {
		return fmt.Errorf("asking the server what it can do: %w", err)
	}
	if k.ServerVersion < MinServerVersion {
		return fmt.Errorf("the server is PostgreSQL %s; Bough needs 15 or newer", k.Version)
	}
	k.Reflink = k.CloneMethod && c.cfg.Reflink
	if c.cfg.PGDump != nil {
		k.PGDump = c.cfg.PGDump(k.ServerVersion / 10000)
	}
	return nil
}

// application is the application_name of this installation's sessions; op names an operation.
func (c *Cluster) application(op string) string {
	name := "bough/" + c.cfg.Installation.String()[:8]
	if op != "" {
		name += "/" + op
	}
	return name
}

// connect opens a connection outside the pools. The database's own settings shall not keep it from its work, and names
// mean what the system says: a function of somebody else's with a system function's name would run with Bough's rights.
func (c *Cluster) connect(ctx context.Context, database, op string) (*pgx.Conn, error) {
	cfg := c.base.Copy()
	cfg.Database = database
	cfg.RuntimeParams["application_name"] = c.application(op)
	cfg.RuntimeParams["default_transaction_read_only"] = "off"
	cfg.RuntimeParams["search_path"] = "pg_catalog"
	if c.cfg.DirectURL == "" {
		c.cfg.Limits.Pooler.pooled(cfg)
	}
	return pgx.ConnectConfig(ctx, cfg)
}

// admin opens a connection for making and dropping databases, to a database that is never branched. A statement on
// it ends when this process does: a CREATE DATABASE would otherwise go on for a client that is gone.
func (c *Cluster) admin(ctx context.Context, op string) (*pgx.Conn, error) {
	if p, direct := c.Pooler(); p.Shared() && !direct {
		return nil, fmt.Errorf("%w: set database-direct-url to create, reset and delete branches", ErrShared)
	}
	cfg := c.base.Copy()
	cfg.RuntimeParams["application_name"] = c.application(op)
	if c.cfg.DirectURL == "" {
		c.cfg.Limits.Pooler.pooled(cfg)
	}
	conn, err := connectMaintenance(ctx, cfg)
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, "set statement_timeout = 0; set lock_timeout = 0; set idle_session_timeout = 0")
	if err == nil {
		_, err = conn.Exec(ctx, "set client_connection_check_interval = '500ms'")
		if hasCode(err, "22023") { // not supported by the platform
			err = nil
		}
	}
	if err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// Marker stands in the comment of each database that Bough makes, so that no other database is ever taken for one.
type Marker struct {
	Installation uuid.UUID `json:"installation"`
	Branch       uuid.UUID `json:"branch"`
	Generation   int32     `json:"generation"`
	Complete     bool      `json:"complete"` // false while the database is being filled
	// Kind is empty for a branch's database. For a schema image it is image, Branch is the branch with that schema, and
	// the rest says which schema it is, what copied it, and what is not as in the source, one in a line.
	Kind    string `json:"kind,omitempty"`
	Version string `json:"version,omitempty"`
	Copier  string `json:"copier,omitempty"`
	Note    string `json:"note,omitempty"`
}

const markerPrefix = "bough:"

func (m Marker) comment(original string) string {
	data, err := json.Marshal(m)
	if err != nil {
		panic(err) // uuids and numbers
	}
	out := markerPrefix + string(data)
	if original != "" {
		out += "\n" + original
	}
	return out
}

// parseMarker splits a database's comment into marker and the rest.
func parseMarker(comment string) (m Marker, rest string, ok bool) {
	first, rest, _ := strings.Cut(comment, "\n")
	data, found := strings.CutPrefix(first, markerPrefix)
	if !found || json.Unmarshal([]byte(data), &m) != nil {
		return Marker{}, comment, false
	}
	return m, rest, true
}

// Database is a database of the server.
type Database struct {
	Name    string
	Marker  Marker
	Marked  bool // has a marker of this installation
	Foreign bool // has a marker of another installation
	Invalid bool // what an interrupted DROP DATABASE leaves
}

// Lookup finds a database by name; nil when there is none.
func (c *Cluster) Lookup(ctx context.Context, name string) (*Database, error) {
	found, err := c.databases(ctx, "d.datname = $1", name)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// Databases lists the databases of branches that carry this installation's marker.
func (c *Cluster) Databases(ctx context.Context) ([]Database, error) {
	all, err := c.databases(ctx, "shobj_description(d.oid, 'pg_database') like $1", markerPrefix+"%")
	marked := all[:0]
	for _, d := range all {
		if d.Marked && d.Marker.Kind == "" {
			marked = append(marked, d)
		}
	}
	return marked, err
}

func (c *Cluster) databases(ctx context.Context, where string, arg any) ([]Database, error) {
	conn, err := c.admin(ctx, "")
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, `
		select d.datname, coalesce(shobj_description(d.oid, 'pg_database'), ''), d.datconnlimit = -2
		from pg_database d where `+where, arg)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Database, error) {
		var d Database
		var comment string
		if err := row.Scan(&d.Name, &comment, &d.Invalid); err != nil {
			return d, err
		}
		switch m, _, ok := parseMarker(comment); {
		case !ok:
		case m.Installation == c.cfg.Installation:
			d.Marker, d.Marked = m, true
		default:
			d.Foreign = true
		}
		return d, nil
	})
}

// Size is the logical size of a database in bytes.
func (c *Cluster) Size(ctx context.Context, name string) (size int64, err error) {
	conn, err := c.admin(ctx, "")
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, "select pg_database_size($1::name)", name).Scan(&size)
	return size, err
}

// Drop drops a database and ends the sessions in it; one that is not there is no error. op ends what an operation of
// that name is still doing on the server, see Abandon.
func (c *Cluster) Drop(ctx context.Context, name, op string) error {
	if op != "" {
		if err := c.Abandon(ctx, op); err != nil {
			return fmt.Errorf("ending what operation %s still does: %w", op, err)
		}
	}
	conn, err := c.admin(ctx, op)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return c.drop(ctx, conn, name)
}

func (c *Cluster) drop(ctx context.Context, conn *pgx.Conn, name string) error {
	if name == c.Main() {
		return errors.New("main is never dropped")
	}
	c.Pools.Forget(name)
	statement := "drop database if exists " + ident(name) + " with (force)"
	_, err := conn.Exec(ctx, statement)
	if hasCode(err, "55006") { // object_in_use, which FORCE leaves prepared transactions to be
		if err := c.rollbackPrepared(ctx, name); err != nil {
			return fmt.Errorf("rolling back the prepared transactions of database %q: %w", name, err)
		}
		_, err = conn.Exec(ctx, statement)
	}
	if c.cfg.Supervise != nil && hasCode(err, "42501", "55006") { // a superuser is connected
		stop := c.terminateWhile(ctx, name)
		_, err = conn.Exec(ctx, "drop database if exists "+ident(name))
		stop()
	}
	if err != nil {
		return fmt.Errorf("dropping database %q: %w", name, err)
	}
	return nil
}

// rollbackPrepared ends the prepared transactions of a database that is to be dropped.
func (c *Cluster) rollbackPrepared(ctx context.Context, database string) error {
	conn, err := c.connect(ctx, database, "")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, "select gid from pg_prepared_xacts where database = current_database()")
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := conn.Exec(ctx, "rollback prepared "+literal(id)); err != nil {
			return err
		}
	}
	return nil
}

// Abandon ends the sessions that an earlier try of the operation left on the server and waits until they are gone.
// The tries of a process that was killed go on for a moment.
func (c *Cluster) Abandon(ctx context.Context, op string) error {
	conn, err := c.admin(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for {
		var left int
		// Not given up half-way: it could then end the sessions of the next try.
		err := conn.QueryRow(context.WithoutCancel(ctx), `
			select count(*) from (
				select pg_terminate_backend(pid) from pg_stat_activity
				where application_name = $1 and (usename = current_user or starts_with(usename, $2)) and pid <> pg_backend_pid()
			) s`, c.application(op), c.names.prefix).Scan(&left)
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Swap puts database fresh in the place of current in one step and keeps the old one under the name old. Sessions in
// current are ended. Where there is no current, fresh takes its name.
func (c *Cluster) Swap(ctx context.Context, current, fresh, old, op string) error {
	conn, err := c.admin(ctx, op)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	release, err := c.hold(ctx, current, time.Second, 30*time.Second)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if release != nil {
		defer release()
	}
	var exists bool
	if err := conn.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", current).Scan(&exists); err != nil {
		return err
	}
	statements := "alter database " + ident(fresh) + " rename to " + ident(current)
	if exists {
		statements = "begin; alter database " + ident(current) + " rename to " + ident(old) + "; " + statements + "; commit"
	}
	// RENAME waits five seconds for sessions to go, so they are ended while it waits.
	stop := c.terminateWhile(ctx, current, fresh)
	defer stop()
	for try := 0; ; try++ {
		_, err = conn.Exec(ctx, statements)
		if !hasCode(err, "55006") || try == 3 { // object_in_use
			break
		}
		_, _ = conn.Exec(ctx, "rollback")
	}
	// A request that could not be held back has left a connection that is dead by now.
	c.Pools.Forget(current)
	c.Pools.Forget(fresh)
	if err != nil {
		return fmt.Errorf("swapping database %q: %w", current, err)
	}
	return nil
}

// terminateWhile ends the sessions in the databases again and again until stop is called.
func (c *Cluster) terminateWhile(ctx context.Context, databases ...string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		open := func() (*pgx.Conn, error) { return c.admin(ctx, "") }
		if c.cfg.Supervise != nil { // only a superuser may end a superuser's session
			open = func() (*pgx.Conn, error) { return c.supervise(ctx, "postgres") }
		}
		conn, err := open()
		if err != nil {
			return
		}
		defer conn.Close(context.WithoutCancel(ctx))
		for ctx.Err() == nil {
			// One that may not be ended makes the statement fail; the caller's own error then tells. The statement is
			// never given up half-way: it would go on in the server and end sessions that come after the caller.
			_, _ = conn.Exec(context.WithoutCancel(ctx), `
				select pg_terminate_backend(pid) from pg_stat_activity
				where datname = any ($1) and pid <> pg_backend_pid() and usesysid is not null`, databases)
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() { cancel(); <-done }
}

// hold lets this process's and its fellows' requests for a database wait, until the function it returns is called.
func (c *Cluster) hold(ctx context.Context, database string, drain, limit time.Duration) (func(), error) {
	if c.Announce != nil {
		if err := c.Announce(ctx, database, limit); err != nil {
			c.unhold(ctx, database) // some may have been told
			return nil, fmt.Errorf("telling other servers to hold database %q: %w", database, err)
		}
	}
	release, err := c.Pools.Hold(ctx, database, drain, limit)
	if err != nil {
		c.unhold(ctx, database)
		return nil, err
	}
	return func() { release(); c.unhold(ctx, database) }, nil
}

func (c *Cluster) unhold(ctx context.Context, database string) {
	if c.Announce != nil {
		if err := c.Announce(context.WithoutCancel(ctx), database, 0); err != nil {
			c.cfg.Log.Warn("telling other servers that a database is free again", "database", database, "error", err)
		}
	}
}

// PoolStats returns the numbers of a database's pool.
func (c *Cluster) PoolStats(database string) PoolStats { return c.Pools.Stats(database) }
