package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/pgcopy"
)

// Strategy is a way to copy a database.
type Strategy string

// The strategies, fastest first. The first three are forms of CREATE DATABASE … TEMPLATE, for which the source must
// have no sessions for the moment (PostgreSQL manual, CREATE DATABASE, STRATEGY); StrategyCopy reads a snapshot.
const (
	StrategyReflink  Strategy = "reflink"
	StrategyFileCopy Strategy = "file_copy"
	StrategyWALLog   Strategy = "wal_log"
	StrategyCopy     Strategy = "copy"
)

// Up to this size writing through the WAL is as fast as copying files, and spares the checkpoints. At 100 MB copying
// files took half as long on PostgreSQL 15 and as long on 18 (make bench-branch, ext4).
const walLogMaxSize = 32 << 20

// CloneRequest says what to clone.
type CloneRequest struct {
	Source     string
	Target     string // is dropped first where it exists, so it must be the caller's
	SchemaOnly bool
	Branch     uuid.UUID
	Generation int32
	// Progress is told what is being done; may be nil.
	Progress func(phase string)
}

// op is the name under which the operation's sessions are known on the server.
func (r CloneRequest) op() string { return r.Branch.String() }

// CloneResult tells how a clone went.
type CloneResult struct {
	Strategy Strategy
	Pause    time.Duration // how long requests to the source were held
	Duration time.Duration
	Size     int64
	Warnings []string // what could not be carried over
}

// ErrSourceInUse is the error of a clone that the policy about other programs' sessions forbids.
var ErrSourceInUse = errors.New("other programs are connected to the source")

// errTemplateBusy makes a clone fall back to copying from a snapshot.
var errTemplateBusy = errors.New("the source has sessions that cannot be held back")

// Clone makes Target a copy of Source. The source stays in use: requests of this installation wait for the moment of
// the copy where that is short, otherwise the copy is read from a snapshot. On an error Target may be left behind,
// marked as incomplete.
func (c *Cluster) Clone(ctx context.Context, r CloneRequest) (CloneResult, error) {
	began := time.Now()
	res := CloneResult{}
	if r.Source == r.Target {
		return res, fmt.Errorf("database %q cannot be cloned into itself", r.Source)
	}
	if r.Progress == nil {
		r.Progress = func(string) {}
	}
	if err := c.Abandon(ctx, r.op()); err != nil {
		return res, fmt.Errorf("ending an earlier try: %w", err)
	}
	conn, err := c.admin(ctx, r.op())
	if err != nil {
		return res, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := c.drop(ctx, conn, r.Target); err != nil {
		return res, err
	}
	src, err := c.inspect(ctx, conn, r.Source)
	if err != nil {
		return res, err
	}
	res.Size = src.size
	res.Strategy, err = c.choose(ctx, conn, r, src)
	if err != nil {
		return res, err
	}
	r.Progress("cloning")
	if res.Strategy != StrategyCopy {
		res.Pause, err = c.template(ctx, conn, r, src, res.Strategy)
		switch {
		case errors.Is(err, errTemplateBusy) && c.cfg.Sessions == CopyAround:
			c.cfg.Log.Info("cloning from a snapshot", "source", r.Source, "reason", err)
			res.Strategy = StrategyCopy
		case errors.Is(err, errTemplateBusy):
			return res, fmt.Errorf("%w: %w", ErrSourceInUse, err)
		case err != nil:
			return res, err
		default:
			c.measure(res.Strategy, src.size, res.Pause)
		}
	}
	marker := Marker{Installation: c.cfg.Installation, Branch: r.Branch, Generation: r.Generation}
	if res.Strategy == StrategyCopy {
		if err := c.create(ctx, conn, r.Target, src); err != nil {
			return res, err
		}
	}
	if err := comment(ctx, conn, r.Target, marker.comment(src.comment)); err != nil {
		return res, err
	}
	privileges, err := c.grants(ctx, conn, r, src)
	if err != nil {
		return res, err
	}
	// They come before the rows, lest somebody reads these who may not connect to the source.
	res.Warnings, err = carryOver(ctx, conn, privileges)
	if err != nil {
		return res, err
	}
	if err := c.admitBranch(ctx, conn, r); err != nil {
		return res, err
	}
	if res.Strategy == StrategyCopy {
		if err := c.copySnapshot(ctx, r); err != nil {
			return res, err
		}
	}
	warnings, err := c.settle(ctx, conn, r, src, res.Strategy)
	if err != nil {
		return res, err
	}
	res.Warnings = append(res.Warnings, warnings...)
	state, err := c.ensureIn(ctx, r.Target, r.op())
	if err != nil {
		return res, err
	}
	res.Warnings = append(res.Warnings, state.Warnings...)
	res.Duration = time.Since(began)
	return res, nil
}

// Complete marks a database as filled. Only a complete database may take a branch's place.
func (c *Cluster) Complete(ctx context.Context, r CloneRequest) error {
	conn, err := c.admin(ctx, r.op())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	src, err := c.inspect(ctx, conn, r.Target)
	if err != nil {
		return err
	}
	marker := Marker{Installation: c.cfg.Installation, Branch: r.Branch, Generation: r.Generation, Complete: true}
	return comment(ctx, conn, r.Target, marker.comment(src.comment))
}

// source is what the catalog says about the database to copy.
type source struct {
	oid                            uint32
	size                           int64
	owner, encoding                string
	collate, ctype, provider       string
	locale, rules                  *string
	comment                        string
	connLimit                      int
	acl                            bool
	externalSessions, preparedXact int
}

func (c *Cluster) inspect(ctx context.Context, conn *pgx.Conn, name string) (source, error) {
	locale, rules := "daticulocale", "null"
	if c.caps.ServerVersion >= 160000 {
		rules = "daticurules"
	}
	if c.caps.ServerVersion >= 170000 {
		locale = "datlocale"
	}
	var s source
	var comment string
	err := conn.QueryRow(ctx, `
		select oid, pg_database_size(oid), pg_get_userbyid(datdba), pg_encoding_to_char(encoding), datcollate, datctype,
			datlocprovider::text, `+locale+`, `+rules+`, coalesce(shobj_description(oid, 'pg_database'), ''), datconnlimit,
			datacl is not null, (select count(*) from pg_prepared_xacts where database = $1)
		from pg_database where datname = $1`, name).Scan(
		&s.oid, &s.size, &s.owner, &s.encoding, &s.collate, &s.ctype, &s.provider, &s.locale, &s.rules, &comment, &s.connLimit,
		&s.acl, &s.preparedXact)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, fmt.Errorf("database %q does not exist", name)
	}
	if err != nil {
		return s, fmt.Errorf("looking at database %q: %w", name, err)
	}
	_, s.comment, _ = parseMarker(comment)
	s.externalSessions, err = c.externalSessions(ctx, conn, name)
	return s, err
}

// externalSessions counts the sessions in a database that are not this installation's. What PostgreSQL itself runs
// there (autovacuum) is ended by CREATE DATABASE.
func (c *Cluster) externalSessions(ctx context.Context, conn *pgx.Conn, name string) (n int, err error) {
	err = conn.QueryRow(ctx, `
		select count(*) from pg_stat_activity
		where datname = $1 and usesysid is not null and application_name not like $2 || '%'`,
		name, strings.ReplaceAll(c.application(""), "_", `\_`)).Scan(&n)
	return n, err
}

// choose picks the strategy for a clone.
func (c *Cluster) choose(ctx context.Context, conn *pgx.Conn, r CloneRequest, src source) (Strategy, error) {
	switch {
	case r.SchemaOnly, c.cfg.Strategy == StrategyCopy:
		return StrategyCopy, nil // a schema is read in no time, and nobody has to wait
	case src.externalSessions+src.preparedXact > 0 && c.cfg.Sessions == CopyAround:
		return StrategyCopy, nil
	case src.externalSessions+src.preparedXact > 0 && c.cfg.Sessions == Refuse, src.preparedXact > 0:
		return "", fmt.Errorf("%w: %d sessions, %d prepared transactions", ErrSourceInUse, src.externalSessions, src.preparedXact)
	}
	var allowed bool
	err := conn.QueryRow(ctx, `
		select r.rolsuper or d.datistemplate or pg_has_role(d.datdba, 'usage')
		from pg_database d, pg_roles r where d.datname = $1 and r.rolname = current_user`, r.Source).Scan(&allowed)
	if err != nil {
		return "", err
	}
	if !allowed {
		return StrategyCopy, nil
	}
	switch {
	case c.cfg.Strategy == StrategyReflink && !c.caps.CloneMethod:
		return StrategyFileCopy, nil // what it is on this server
	case c.cfg.Strategy != "":
		return c.cfg.Strategy, nil
	}
	strategy := StrategyFileCopy
	switch {
	case c.caps.Reflink:
		strategy = StrategyReflink
	case src.size < walLogMaxSize:
		strategy = StrategyWALLog
	}
	if c.cfg.MaxPause > 0 && c.estimate(strategy, src.size) > c.cfg.MaxPause {
		return StrategyCopy, nil
	}
	return strategy, nil
}

// Bytes a second to expect before the first clone, from measurements on modest machines.
var defaultRates = map[Strategy]float64{
	StrategyReflink: 10 << 30, StrategyFileCopy: 500 << 20, StrategyWALLog: 250 << 20,
}

func (c *Cluster) estimate(s Strategy, size int64) time.Duration {
	c.rateMu.Lock()
	defer c.rateMu.Unlock()
	rate := c.rates[s]
	if rate == 0 {
		rate = defaultRates[s]
	}
	return time.Duration(float64(size) / rate * float64(time.Second))
}

// measure remembers how fast a strategy was. Small databases tell nothing: there the fixed cost is all.
func (c *Cluster) measure(s Strategy, size int64, took time.Duration) {
	if size < 50<<20 || took <= 0 {
		return
	}
	c.rateMu.Lock()
	defer c.rateMu.Unlock()
	c.rates[s] = float64(size) / took.Seconds()
}

// template copies with CREATE DATABASE … TEMPLATE while the source is held, and returns for how long it was.
func (c *Cluster) template(ctx context.Context, conn *pgx.Conn, r CloneRequest, src source, s Strategy) (time.Duration, error) {
	if s != StrategyWALLog && c.caps.Checkpoint {
		// Takes the long checkpoint out of the pause; the one that CREATE DATABASE makes is then short. It halves the
		// pause of a reflink clone.
		if _, err := conn.Exec(ctx, "checkpoint"); err != nil {
			return 0, err
		}
	}
	if c.caps.CloneMethod {
		method := "copy"
		if s == StrategyReflink {
			method = "clone"
		}
		if _, err := conn.Exec(ctx, "set file_copy_method = "+method); err != nil {
			return 0, err
		}
	}
	strategy := string(s)
	if s == StrategyReflink {
		strategy = string(StrategyFileCopy)
	}
	statement := fmt.Sprintf("%s %s template %s strategy %s%s%s",
		createDatabase, ident(r.Target), ident(r.Source), strategy, c.ownerClause(ctx, conn, src), c.shut())
	watcher, err := c.admin(ctx, "")
	if err != nil {
		return 0, err
	}
	defer watcher.Close(context.WithoutCancel(ctx))

	limit := max(2*c.estimate(s, src.size), 30*time.Second)
	began := time.Now()
	release, err := c.hold(ctx, r.Source, c.cfg.Drain, limit)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return time.Since(began), fmt.Errorf("%w: requests at work for more than %s", errTemplateBusy, c.cfg.Drain)
	}
	if err != nil {
		return 0, err
	}
	defer release()
	if err := c.waitForOwnSessions(ctx, conn, r.Source); err != nil {
		return time.Since(began), err
	}
	// Sessions that come now wait inside PostgreSQL until the copy is done. One that came just before makes CREATE
	// DATABASE wait for it, so it is ended, or the statement is.
	watchCtx, stop := context.WithCancel(ctx)
	watched := make(chan bool, 1)
	go func() { watched <- c.watchTemplate(watchCtx, watcher, conn.PgConn().PID(), r.Source) }()
	_, err = conn.Exec(ctx, statement)
	stop()
	canceled := <-watched
	pause := time.Since(began)
	switch {
	case err == nil:
		return pause, nil
	case ctx.Err() != nil:
		return pause, ctx.Err()
	case canceled && hasCode(err, "57014"), hasCode(err, "55006"): // query_canceled, object_in_use
		return pause, fmt.Errorf("%w: somebody has connected", errTemplateBusy)
	}
	return pause, fmt.Errorf("creating database %q: %w", r.Target, err)
}

// createDatabase is how the statement begins that watchTemplate looks at.
const createDatabase = "create database"

// ownerClause gives the copy the source's owner where the role may, and may do the rest that a clone needs too.
func (c *Cluster) ownerClause(ctx context.Context, conn *pgx.Conn, src source) string {
	may := "pg_has_role($1, 'usage')"
	if c.caps.ServerVersion >= 160000 {
		may += " and pg_has_role($1, 'set')"
	}
	var ok bool
	if err := conn.QueryRow(ctx, "select "+may, src.owner).Scan(&ok); err != nil || !ok {
		return ""
	}
	return " owner " + ident(src.owner)
}

// waitForOwnSessions waits until the sessions that this installation had in the source are gone: backends take a
// moment to exit, and other processes to follow.
func (c *Cluster) waitForOwnSessions(ctx context.Context, conn *pgx.Conn, database string) error {
	deadline := time.Now().Add(c.cfg.Drain + time.Second)
	for {
		var n int
		err := conn.QueryRow(ctx, `
			select count(*) from pg_stat_activity where datname = $1 and application_name like $2 || '%'`,
			database, c.application("")).Scan(&n)
		if err != nil || n == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: %d sessions of other Bough servers", errTemplateBusy, n)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// How long a session of another program may keep CREATE DATABASE waiting. Most are gone after a moment.
const sessionGrace = 300 * time.Millisecond

// watchTemplate looks for sessions in the source while a CREATE DATABASE of backend pid runs, until ctx ends. By policy
// it ends them, or cancels the statement and returns true.
func (c *Cluster) watchTemplate(ctx context.Context, conn *pgx.Conn, pid uint32, database string) (canceled bool) {
	// A statement of the watcher is never given up: it could then hit what the backend does next.
	whole := context.WithoutCancel(ctx)
	// What PostgreSQL lets wait came after the statement, or is not listed with a database yet.
	const creating = `pg_stat_activity me where me.pid = $1 and me.state = 'active' and me.query like '` + createDatabase + ` %'`
	const sessions = `pg_stat_activity a, ` + creating + `
		and a.datname = $2 and a.usesysid is not null and (a.backend_start is null or a.backend_start < me.query_start)`
	var since time.Time
	for {
		var n int
		var err error
		if c.cfg.Sessions == Terminate {
			err = conn.QueryRow(whole, "select count(*) filter (where pg_terminate_backend(a.pid)) from "+sessions, pid, database).Scan(&n)
		} else {
			err = conn.QueryRow(whole, "select count(*) from "+sessions, pid, database).Scan(&n)
			switch {
			case err != nil:
			case n == 0:
				since = time.Time{}
			case since.IsZero():
				since = time.Now()
			case time.Since(since) > sessionGrace:
				n = 0
				err = conn.QueryRow(whole, "select count(*) filter (where pg_cancel_backend(me.pid)) from "+creating, pid).Scan(&n)
				canceled = canceled || n > 0
			}
		}
		if err != nil {
			// The statement then runs into PostgreSQL's own limit of five seconds.
			c.cfg.Log.Debug("watching a clone", "error", err)
		}
		select {
		case <-ctx.Done():
			return canceled
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// create makes an empty database with the source's encoding and locale.
func (c *Cluster) create(ctx context.Context, conn *pgx.Conn, target string, src source) error {
	stmt := fmt.Sprintf(createDatabase+" %s template template0 encoding %s lc_collate %s lc_ctype %s%s",
		ident(target), literal(src.encoding), literal(src.collate), literal(src.ctype), c.ownerClause(ctx, conn, src))
	switch {
	case src.provider == "i" && src.locale != nil:
		stmt += " locale_provider icu icu_locale " + literal(*src.locale)
		if src.rules != nil {
			stmt += " icu_rules " + literal(*src.rules)
		}
	case src.provider == "b" && src.locale != nil:
		stmt += " locale_provider builtin builtin_locale " + literal(*src.locale)
	case src.provider == "c":
		stmt += " locale_provider libc"
	}
	if _, err := conn.Exec(ctx, stmt+c.shut()); err != nil {
		return fmt.Errorf("creating database %q: %w", target, err)
	}
	return nil
}

// dumpProgram is the pg_dump that was found at start, "" when it has gone since, as in an upgrade.
func (c *Cluster) dumpProgram() string {
	if _, err := os.Stat(c.caps.PGDump); err != nil {
		return ""
	}
	return c.caps.PGDump
}

// copySnapshot fills the target from a snapshot of the source.
func (c *Cluster) copySnapshot(ctx context.Context, r CloneRequest) error {
	config := func(database string) *pgx.ConnConfig {
		cfg := c.base.Copy()
		cfg.Database = database
		cfg.RuntimeParams["application_name"] = c.application(r.op())
		cfg.RuntimeParams["default_transaction_read_only"] = "off"
		return cfg
	}
	options := pgcopy.Options{Source: config(r.Source), Target: config(r.Target), SchemaOnly: r.SchemaOnly, Jobs: c.cfg.Jobs}
	if err := c.copyAsOwner(ctx, r, &options); err != nil {
		return err
	}
	if c.cfg.DataPlane != nil {
		options.LeaveOut = notOfCopies
	}
	_, err := pgcopy.Copy(ctx, options)
	// The copier's own reader of schemas takes its locks at once and gets along with statements that change the schema;
	// pg_dump knows every kind of object. It is asked where the reader does not know one, which it says before anything
	// is copied.
	var unsupported *pgcopy.UnsupportedError
	if errors.As(err, &unsupported) {
		if options.PGDump = c.dumpProgram(); options.PGDump != "" {
			_, err = pgcopy.Copy(ctx, options)
		}
	}
	return err
}

func comment(ctx context.Context, conn *pgx.Conn, database, text string) error {
	_, err := conn.Exec(ctx, "comment on database "+ident(database)+" is "+literal(text))
	if err != nil {
		return fmt.Errorf("marking database %q: %w", database, err)
	}
	return nil
}
