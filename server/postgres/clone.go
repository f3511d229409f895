package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
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
	// StrategyImage is that of schema-only clones: CREATE DATABASE … TEMPLATE of the source's schema image.
	StrategyImage Strategy = "image"
)

// CloneRequest says what to clone.
type CloneRequest struct {
	Source string
	// SourceBranch is the branch that Source belongs to, by whose id its schema image is known. The caller keeps others
	// from cloning it at the same time. Without one, Source's name stands for it.
	SourceBranch uuid.UUID
	Target       string // is dropped first where it exists, so it must be the caller's
	SchemaOnly   bool
	Branch       uuid.UUID
	Generation   int32
	// Progress is told what is being done; may be nil.
	Progress func(phase string)
	// Step is called after each step at which the process may be killed, for tests; may be nil.
	Step func(step string)
}

// op is the name under which the operation's sessions are known on the server.
func (r CloneRequest) op() string { return r.Branch.String() }

// CloneResult tells how a clone went.
type CloneResult struct {
	Strategy Strategy
	// Copier says who copied the schema where that was not PostgreSQL itself: pg_dump or builtin. For StrategyImage, what
	// has made the image, CREATE DATABASE … TEMPLATE included.
	Copier string
	// Reused says that the schema image was there already.
	Reused   bool
	Pause    time.Duration // how long requests to the source were held
	Duration time.Duration
	Size     int64
	Warnings []string // what could not be carried over
}

// ErrSourceInUse is the error of a clone that the policy about other programs' sessions forbids.
var ErrSourceInUse = errors.New("other programs are connected to the source")

// errTemplateBusy makes a clone fall back to copying from a snapshot, errPauseTooLong too, whatever the policy about
// sessions is.
var (
	errTemplateBusy = errors.New("the source has sessions that cannot be held back")
	errPauseTooLong = errors.New("requests would be held for longer than the limit")
)

// clone does what Clone says.
func (c *Cluster) clone(ctx context.Context, r CloneRequest) (CloneResult, error) {
	began := time.Now()
	res := CloneResult{}
	if r.Source == r.Target {
		return res, fmt.Errorf("database %q cannot be cloned into itself", r.Source)
	}
	if r.Progress == nil {
		r.Progress = func(string) {}
	}
	if r.Step == nil {
		r.Step = func(string) {}
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
	// A session that ends is listed for a moment more; it is no reason for a slower way.
	for since := time.Now(); src.externalSessions > 0 && c.cfg.Sessions != Terminate && time.Since(since) < sessionGrace; {
		select {
		case <-ctx.Done():
			return res, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if src.externalSessions, err = c.externalSessions(ctx, conn, r.Source); err != nil {
			return res, err
		}
	}
	res.Size = src.size
	if r.SchemaOnly {
		err = c.cloneImage(ctx, conn, r, src, &res)
	} else {
		err = c.cloneRows(ctx, conn, r, src, &res)
	}
	if err != nil {
		return res, err
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

// cloneRows makes Target a copy of Source with its rows.
func (c *Cluster) cloneRows(ctx context.Context, conn *pgx.Conn, r CloneRequest, src source, res *CloneResult) error {
	var e extent
	var err error
	if res.Strategy, e, err = c.choose(ctx, conn, r, src); err != nil {
		return err
	}
	if err := c.requireRoom(ctx, conn, res.Strategy, src.size); err != nil {
		return err
	}
	r.Progress("cloning")
	if res.Strategy != StrategyCopy {
		res.Pause, err = c.template(ctx, conn, r.Source, r.Target, src, res.Strategy, e)
		switch {
		case errors.Is(err, errPauseTooLong), errors.Is(err, errTemplateBusy) && c.cfg.Sessions == CopyAround:
			c.cfg.Log.Info("cloning from a snapshot", "source", r.Source, "reason", err)
			res.Strategy = StrategyCopy
			if err := c.requireRoom(ctx, conn, res.Strategy, src.size); err != nil {
				return err
			}
		case errors.Is(err, errTemplateBusy):
			return fmt.Errorf("%w: %w", ErrSourceInUse, err)
		case err != nil:
			return err
		}
	}
	marker := Marker{Installation: c.cfg.Installation, Branch: r.Branch, Generation: r.Generation}
	claim := func() error {
		res.Warnings, err = c.claim(ctx, conn, r, src, marker)
		return err
	}
	if res.Strategy != StrategyCopy {
		return claim()
	}
	// The privileges come before the rows, lest somebody reads these who may not connect to the source.
	left, err := c.copySnapshot(ctx, conn, r, src, r.Target, claim, nil, &res.Copier)
	res.Warnings = append(res.Warnings, left...)
	return err
}

// claim marks a new database as the request's, gives it the source's privileges, and lets in who is to work there.
func (c *Cluster) claim(ctx context.Context, conn *pgx.Conn, r CloneRequest, src source, marker Marker) (warnings []string, err error) {
	if err := comment(ctx, conn, r.Target, marker.comment(src.comment)); err != nil {
		return nil, err
	}
	privileges, err := c.grants(ctx, conn, r, src)
	if err != nil {
		return nil, err
	}
	if warnings, err = carryOver(ctx, conn, privileges); err != nil {
		return warnings, err
	}
	return warnings, c.admitBranch(ctx, conn, r)
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
	template                       bool // the role may use it as one
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
			datacl is not null, datistemplate or pg_has_role(datdba, 'usage'), (select count(*) from pg_prepared_xacts where database = $1)
		from pg_database where datname = $1`, name).Scan(
		&s.oid, &s.size, &s.owner, &s.encoding, &s.collate, &s.ctype, &s.provider, &s.locale, &s.rules, &comment, &s.connLimit,
		&s.acl, &s.template, &s.preparedXact)
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

// choose picks the strategy for a clone with rows, and tells how much there is to copy where that was asked for.
func (c *Cluster) choose(ctx context.Context, conn *pgx.Conn, r CloneRequest, src source) (Strategy, extent, error) {
	switch {
	case c.cfg.Strategy == StrategyCopy, src.externalSessions+src.preparedXact > 0 && c.cfg.Sessions == CopyAround:
		return StrategyCopy, extent{}, nil
	case src.externalSessions+src.preparedXact > 0 && c.cfg.Sessions == Refuse, src.preparedXact > 0:
		return "", extent{}, fmt.Errorf("%w: %d sessions, %d prepared transactions", ErrSourceInUse, src.externalSessions, src.preparedXact)
	}
	if !src.template {
		return StrategyCopy, extent{}, nil
	}
	e := extent{bytes: src.size}
	err := c.within(ctx, r.Source, r.op(), func(conn *pgx.Conn) (err error) {
		e.files, err = countFiles(ctx, conn)
		return err
	})
	if err != nil {
		return "", e, err
	}
	strategy := c.templateStrategy(e)
	if c.cfg.Strategy == "" && c.cfg.MaxPause > 0 && c.estimate(strategy, e) > c.cfg.MaxPause {
		return StrategyCopy, e, nil
	}
	return strategy, e, nil
}

// templateStrategy is the configured form of CREATE DATABASE … TEMPLATE, or the fastest.
func (c *Cluster) templateStrategy(e extent) Strategy {
	switch {
	case c.cfg.Strategy == StrategyReflink && !c.caps.CloneMethod:
		return StrategyFileCopy // what it is on this server
	case c.cfg.Strategy != "" && c.cfg.Strategy != StrategyCopy:
		return c.cfg.Strategy
	}
	return c.fastest(e)
}

// within calls f with a session in a database.
func (c *Cluster) within(ctx context.Context, database, op string, f func(*pgx.Conn) error) error {
	conn, err := c.connect(ctx, database, op)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return f(conn)
}

// template copies with CREATE DATABASE … TEMPLATE while the source is held, and returns for how long it was. When that
// comes to the limit of pauses, the copying is given up and the error is errPauseTooLong.
func (c *Cluster) template(ctx context.Context, conn *pgx.Conn, from, to string, src source, s Strategy, e extent) (time.Duration, error) {
	if s != StrategyWALLog && c.caps.Checkpoint {
		// Takes the long checkpoint out of the pause; the one that CREATE DATABASE makes is then short. It halves the
		// pause of a reflink clone.
		if _, err := conn.Exec(ctx, "checkpoint"); err != nil {
			return 0, err
		}
	}
	statement, err := c.templateStatement(ctx, conn, from, to, src, s)
	if err != nil {
		return 0, err
	}
	watcher, err := c.admin(ctx, "")
	if err != nil {
		return 0, err
	}
	defer watcher.Close(context.WithoutCancel(ctx))

	began := time.Now()
	drain, limit := c.cfg.Drain, max(2*c.estimate(s, e), 30*time.Second)
	var deadline time.Time
	if c.cfg.MaxPause > 0 {
		drain, limit = min(drain, c.cfg.MaxPause), c.cfg.MaxPause*3/2
		deadline = began.Add(c.cfg.MaxPause)
	}
	open, err := c.hold(ctx, from, drain, limit)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = errTemplateBusy
		if drain == c.cfg.MaxPause {
			err = errPauseTooLong
		}
		return time.Since(began), fmt.Errorf("%w: requests at work for more than %s", err, drain)
	}
	if err != nil {
		return 0, err
	}
	var pause time.Duration
	release := sync.OnceFunc(func() {
		open()
		pause = time.Since(began)
	})
	defer release()
	if err := c.waitForOwnSessions(ctx, conn, from, deadline); err != nil {
		release()
		return pause, err
	}
	// Sessions that come now wait inside PostgreSQL until the copy is done. One that came just before makes CREATE
	// DATABASE wait for it, so it is ended, or the statement is.
	watchCtx, stop := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() { watched <- c.watchTemplate(watchCtx, watcher, conn.PgConn().PID(), from, deadline, release) }()
	copying := time.Now()
	_, err = conn.Exec(ctx, statement)
	took := time.Since(copying)
	stop()
	canceled := <-watched
	release()
	switch {
	case err == nil:
		c.measure(s, e, took)
		return pause, nil
	case ctx.Err() != nil:
		return pause, ctx.Err()
	case canceled != nil && hasCode(err, "57014"): // query_canceled
		if errors.Is(canceled, errPauseTooLong) {
			c.measure(s, e, max(took, 2*c.estimate(s, e))) // at least
		}
		return pause, canceled
	case hasCode(err, "55006"): // object_in_use
		return pause, fmt.Errorf("%w: somebody has connected", errTemplateBusy)
	}
	return pause, fmt.Errorf("creating database %q: %w", to, err)
}

// templateStatement returns the CREATE DATABASE statement, and prepares the session for it.
func (c *Cluster) templateStatement(ctx context.Context, conn *pgx.Conn, from, to string, src source, s Strategy) (string, error) {
	if c.caps.CloneMethod {
		method := "copy"
		if s == StrategyReflink {
			method = "clone"
		}
		if _, err := conn.Exec(ctx, "set file_copy_method = "+method); err != nil {
			return "", err
		}
	}
	strategy := string(s)
	if s == StrategyReflink {
		strategy = string(StrategyFileCopy)
	}
	return fmt.Sprintf("%s %s template %s strategy %s%s%s",
		createDatabase, ident(to), ident(from), strategy, c.ownerClause(ctx, conn, src), c.shut()), nil
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
func (c *Cluster) waitForOwnSessions(ctx context.Context, conn *pgx.Conn, database string, limit time.Time) error {
	deadline := time.Now().Add(c.cfg.Drain + time.Second)
	for {
		var n int
		err := conn.QueryRow(ctx, `
			select count(*) from pg_stat_activity where datname = $1 and application_name like $2 || '%'`,
			database, c.application("")).Scan(&n)
		if err != nil || n == 0 {
			return err
		}
		if !limit.IsZero() && time.Now().After(limit) {
			return fmt.Errorf("%w: %d sessions of other Bough servers", errPauseTooLong, n)
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
// it ends them, or cancels the statement. It also cancels the statement at the deadline, and then calls release at once:
// the statement may take a moment to clean up. The error says why it has canceled.
func (c *Cluster) watchTemplate(ctx context.Context, conn *pgx.Conn, pid uint32, database string, deadline time.Time, release func()) (canceled error) {
	// A statement of the watcher is never given up: it could then hit what the backend does next.
	whole := context.WithoutCancel(ctx)
	// What PostgreSQL lets wait came after the statement, or is not listed with a database yet.
	const creating = `pg_stat_activity me where me.pid = $1 and me.state = 'active' and me.query like '` + createDatabase + ` %'`
	const sessions = `pg_stat_activity a, ` + creating + `
		and a.datname = $2 and a.usesysid is not null and (a.backend_start is null or a.backend_start < me.query_start)`
	cancel := func() (n int, err error) {
		err = conn.QueryRow(whole, "select count(*) filter (where pg_cancel_backend(me.pid)) from "+creating, pid).Scan(&n)
		return n, err
	}
	var since time.Time
	for {
		var n int
		var err error
		switch {
		case !deadline.IsZero() && !time.Now().Before(deadline):
			if n, err = cancel(); err == nil && n > 0 {
				canceled = fmt.Errorf("%w of %s", errPauseTooLong, c.cfg.MaxPause)
			}
			release()
		case c.cfg.Sessions == Terminate:
			err = conn.QueryRow(whole, "select count(*) filter (where pg_terminate_backend(a.pid)) from "+sessions, pid, database).Scan(&n)
		default:
			err = conn.QueryRow(whole, "select count(*) from "+sessions, pid, database).Scan(&n)
			switch {
			case err != nil:
			case n == 0:
				since = time.Time{}
			case since.IsZero():
				since = time.Now()
			case time.Since(since) > sessionGrace:
				if n, err = cancel(); err == nil && n > 0 {
					canceled = fmt.Errorf("%w: somebody has connected", errTemplateBusy)
				}
			}
		}
		if err != nil {
			// The statement then runs into PostgreSQL's own limit of five seconds.
			c.cfg.Log.Debug("watching a clone", "error", err)
		}
		wait := 50 * time.Millisecond
		if left := time.Until(deadline); left > 0 {
			wait = min(wait, left)
		}
		select {
		case <-ctx.Done():
			return canceled
		case <-time.After(wait):
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

// copySnapshot makes the database target and fills it from a snapshot of the source, by pg_dump where there is one: it
// knows every kind of object. Where it fails, or there is none, the copier's own reader of schemas does it. claim is
// called when the target is there and empty, and inSnapshot, if not nil, with a session that sees the snapshot. copier
// becomes the name of what has copied. The warnings say what was left out.
func (c *Cluster) copySnapshot(ctx context.Context, conn *pgx.Conn, r CloneRequest, src source, target string, claim func() error,
	inSnapshot func(context.Context, *pgx.Conn) error, copier *string,
) (warnings []string, err error) {
	config := func(database string) *pgx.ConnConfig {
		cfg := c.base.Copy()
		cfg.Database = database
		cfg.RuntimeParams["application_name"] = c.application(r.op())
		cfg.RuntimeParams["default_transaction_read_only"] = "off"
		return cfg
	}
	options := pgcopy.Options{Source: config(r.Source), Target: config(target), SchemaOnly: r.SchemaOnly, Jobs: c.cfg.Jobs, InSnapshot: inSnapshot}
	if c.cfg.DataPlane != nil {
		options.LeaveOut = notOfCopies
	}
	left, warnings, err := c.leaveOut(ctx, r.Source)
	if err != nil {
		return nil, err
	}
	options.LeaveOut = append(left, options.LeaveOut...)
	attempt := func() error {
		if err := c.drop(ctx, conn, target); err != nil {
			return err
		}
		if err := c.create(ctx, conn, target, src); err != nil {
			return err
		}
		if err := claim(); err != nil {
			return err
		}
		if err := c.copyAsOwner(ctx, conn, r, target, &options); err != nil {
			return err
		}
		res, err := pgcopy.Copy(ctx, options)
		*copier = res.Schema
		return err
	}
	if options.PGDump = c.dumpProgram(); options.PGDump != "" {
		err := attempt()
		if err == nil || hopeless(ctx, err) {
			return warnings, err
		}
		c.cfg.Log.Warn("copying with pg_dump failed; the built-in reader is tried", "source", r.Source, "error", err)
		options.PGDump = ""
	}
	return warnings, attempt()
}

// hopeless reports whether an error would meet another way to copy as well, or passes.
func hopeless(ctx context.Context, err error) bool {
	return ctx.Err() != nil || pgcopy.Retryable(err) ||
		hasCode(err, "53100", "53300", "57P01", "57P02", "57P03") // disk_full, too_many_connections, shutdown, crash, starting up
}

func comment(ctx context.Context, conn *pgx.Conn, database, text string) error {
	_, err := conn.Exec(ctx, "comment on database "+ident(database)+" is "+literal(text))
	if err != nil {
		return fmt.Errorf("marking database %q: %w", database, err)
	}
	return nil
}
