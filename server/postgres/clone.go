package postgres

import (
	"context"
	"errors"
	"fmt"
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

// Up to this size writing through the WAL is as fast as copying files and spares the two checkpoints.
const walLogMaxSize = 200 << 20

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
			c.cfg.Log.Info("cloning from a snapshot, since the source is in use by other programs", "source", r.Source)
			res.Strategy = StrategyCopy
		case errors.Is(err, errTemplateBusy):
			return res, ErrSourceInUse
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
	if res.Strategy == StrategyCopy {
		if err := c.copySnapshot(ctx, r); err != nil {
			return res, err
		}
	}
	res.Warnings, err = c.settle(ctx, conn, r, src)
	if err != nil {
		return res, err
	}
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
		select r.rolsuper or d.datistemplate or pg_has_role(d.datdba, 'member')
		from pg_database d, pg_roles r where d.datname = $1 and r.rolname = current_user`, r.Source).Scan(&allowed)
	if err != nil {
		return "", err
	}
	if !allowed {
		return StrategyCopy, nil
	}
	if c.cfg.Strategy != "" {
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
	if s == StrategyFileCopy && c.caps.Superuser && src.size > walLogMaxSize {
		// Takes the long checkpoint out of the pause; the one that CREATE DATABASE makes is then short.
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
	limit := max(2*c.estimate(s, src.size), 30*time.Second)
	began := time.Now()
	release, err := c.hold(ctx, r.Source, c.cfg.Drain, limit)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return 0, fmt.Errorf("%w: requests at work for more than %s", errTemplateBusy, c.cfg.Drain)
	}
	if err != nil {
		return 0, err
	}
	defer release()
	if err := c.waitForOwnSessions(ctx, conn, r.Source); err != nil {
		return 0, err
	}
	// Sessions that come now wait inside PostgreSQL until the copy is done. One that came just before makes CREATE
	// DATABASE wait for it, so it is ended, or the statement is.
	var pid uint32 = conn.PgConn().PID()
	watch := make(chan error, 1)
	watchCtx, stop := context.WithCancel(ctx)
	go func() { watch <- c.watchTemplate(watchCtx, pid, r.Source) }()
	strategy := string(s)
	if s == StrategyReflink {
		strategy = string(StrategyFileCopy)
	}
	_, err = conn.Exec(ctx, fmt.Sprintf("create database %s template %s strategy %s%s",
		ident(r.Target), ident(r.Source), strategy, c.ownerClause(ctx, conn, src)))
	stop()
	watchErr := <-watch
	switch {
	case err == nil:
		return time.Since(began), nil
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.Is(watchErr, errTemplateBusy), hasCode(err, "55006"): // object_in_use
		return 0, errTemplateBusy
	}
	return 0, fmt.Errorf("creating database %q: %w", r.Target, err)
}

// ownerClause gives the copy the source's owner where the role may.
func (c *Cluster) ownerClause(ctx context.Context, conn *pgx.Conn, src source) string {
	var may bool
	err := conn.QueryRow(ctx, "select pg_has_role($1, 'member')", src.owner).Scan(&may)
	if err != nil || !may {
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

// watchTemplate looks for sessions in the source while a CREATE DATABASE of backend pid runs. By policy it ends them,
// or cancels the statement and returns errTemplateBusy.
func (c *Cluster) watchTemplate(ctx context.Context, pid uint32, database string) error {
	conn, err := c.admin(ctx, "")
	if err != nil {
		return nil //nolint:nilerr // the statement then runs into PostgreSQL's own limit of five seconds
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for {
		var n int
		err := conn.QueryRow(ctx, `
			select count(*) filter (where case when $2 then pg_terminate_backend(a.pid) else true end)
			from pg_stat_activity a, pg_stat_activity me
			where a.datname = $1 and a.usesysid is not null and me.pid = $3
				and (a.backend_start is null or me.query_start is null or a.backend_start < me.query_start)`,
			database, c.cfg.Sessions == Terminate, pid).Scan(&n)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			c.cfg.Log.Debug("watching a clone", "error", err)
		case n > 0 && c.cfg.Sessions != Terminate:
			_, _ = conn.Exec(ctx, "select pg_cancel_backend($1)", pid)
			return errTemplateBusy
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// create makes an empty database with the source's encoding and locale.
func (c *Cluster) create(ctx context.Context, conn *pgx.Conn, target string, src source) error {
	stmt := fmt.Sprintf("create database %s template template0 encoding %s lc_collate %s lc_ctype %s%s",
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
	if _, err := conn.Exec(ctx, stmt); err != nil {
		return fmt.Errorf("creating database %q: %w", target, err)
	}
	return nil
}

// copySnapshot fills the target from a snapshot of the source.
func (c *Cluster) copySnapshot(ctx context.Context, r CloneRequest) error {
	config := func(database string) *pgx.ConnConfig {
		cfg := c.base.Copy()
		cfg.Database = database
		cfg.RuntimeParams["application_name"] = c.application(r.op())
		return cfg
	}
	_, err := pgcopy.Copy(ctx, pgcopy.Options{
		Source: config(r.Source), Target: config(r.Target), SchemaOnly: r.SchemaOnly, Jobs: c.cfg.Jobs, PGDump: c.caps.PGDump,
	})
	return err
}

func comment(ctx context.Context, conn *pgx.Conn, database, text string) error {
	_, err := conn.Exec(ctx, "comment on database "+ident(database)+" is "+literal(text))
	if err != nil {
		return fmt.Errorf("marking database %q: %w", database, err)
	}
	return nil
}
