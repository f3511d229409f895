package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Separation tells which roles log in for what. Without roles of their own, requests log in as Bough's own role and give
// its rights up in each transaction, and there are no logins for branches.
type Separation struct {
	Owner    string // of schemas and objects; "" where they are the connection's role's
	Requests string // the login of data requests
	Isolated bool   // each branch, and main, has a login that reaches its database only
	// Missing says what keeps it from being complete, and Advice what to do about each, "" for nothing in particular.
	Missing, Advice []string
}

func (s *Separation) lacks(advice, format string, args ...any) {
	if what := fmt.Sprintf(format, args...); !slices.Contains(s.Missing, what) {
		s.Missing = append(s.Missing, what)
		s.Advice = append(s.Advice, advice)
	}
}

// inspectSeparation is what can be told without any change: where roles can be created, SetUp creates them.
func (c *Cluster) inspectSeparation(ctx context.Context, q querier) error {
	s := Separation{}
	defer func() { c.separation = s }()
	err := q.QueryRow(ctx, `
		select coalesce((select rolname::text from pg_roles where rolname ~ '^bough_[0-9a-f]{8}_authenticator$' and has_database_privilege(oid, current_database(), 'connect') and not rolsuper limit 1), '')
		where not has_database_privilege('public', current_database(), 'connect')`).Scan(&s.Requests)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	s.Isolated = s.Requests != ""
	if s.Requests != "" {
		s.Owner = namePrefix(s.Requests) + "owner"
	}
	switch {
	case s.Isolated:
	case c.caps.CreateRole:
		s.lacks("", "the roles that log in are created by `bough serve`")
	default:
		s.lacks(fmt.Sprintf("alter role %s createrole", ident(c.caps.Role)), "%q may not create roles: requests and connection strings have its own rights", c.caps.Role)
	}
	return nil
}

// Separation returns what SetUp found and made.
func (c *Cluster) Separation() Separation { return c.separation }

// Isolated reports whether the logins of branches reach their own database only.
func (c *Cluster) Isolated() bool { return c.separation.Isolated }

// objectOwner owns what is created in main and the branches.
func (c *Cluster) objectOwner() string {
	if c.separation.Owner != "" {
		return c.separation.Owner
	}
	return c.caps.Owner
}

// requester is the role that data requests log in as.
func (c *Cluster) requester() string {
	if c.separation.Requests != "" {
		return c.separation.Requests
	}
	return c.caps.Role
}

// separate creates the roles that own and log in, as far as the connection's role may.
func (c *Cluster) separate(ctx context.Context) error {
	if c.cfg.Logins == nil {
		return nil
	}
	s := Separation{}
	defer func() { c.separation = s }()
	if p, direct := c.Pooler(); p.Shared() && !direct {
		s.lacks("set database-direct-url to a URL of the server itself", "the roles that log in cannot be created through a pooler in transaction mode")
		return nil
	}
	if !c.caps.CreateRole {
		s.lacks(fmt.Sprintf("alter role %s createrole", ident(c.caps.Role)), "%q may not create roles: requests and connection strings have its own rights", c.caps.Role)
		return nil
	}
	conn, err := c.admin(ctx, "")
	if err == nil {
		defer conn.Close(context.WithoutCancel(ctx))
		err = c.ensureRole(ctx, conn, c.names.owner, "nologin inherit nosuperuser nocreatedb nocreaterole noreplication")
	}
	if err == nil {
		_, err = c.ensureLogin(ctx, c.names.authenticator, requestLogin)
	}
	if err == nil {
		err = c.verifyLogin(ctx, conn, c.names.authenticator, requestLogin)
	}
	if err == nil {
		_, err = c.ensureLogin(ctx, c.names.main, branchLogin)
	}
	if err == nil {
		err = c.verifyLogin(ctx, conn, c.names.main, branchLogin)
	}
	if passing, ok := serverRefused(err); !ok {
		return err
	} else if passing != nil {
		s.lacks("", "the roles that log in could not be created: %s", passing.Message)
		return nil
	}
	if err := c.limitTemporaryFiles(ctx); err != nil {
		return err
	}
	s.Owner, s.Requests = c.names.owner, c.names.authenticator
	return nil
}

// limitTemporaryFiles bounds what sorts and the like of a request may put on Bough's own server's disk. Only a superuser may
// set that; elsewhere it is the operator's choice.
func (c *Cluster) limitTemporaryFiles(ctx context.Context) error {
	if c.cfg.Supervise == nil {
		return nil
	}
	super, err := c.supervise(ctx, c.Main())
	if err != nil {
		return err
	}
	defer super.Close(context.WithoutCancel(ctx))
	_, err = super.Exec(ctx, "alter role "+ident(c.names.authenticator)+" set temp_file_limit = '1GB'")
	return err
}

// letOwnerAct lets those who act as the owner take on the data roles, so that policies can be tried out. That it cannot is
// no reason to complain.
func (c *Cluster) letOwnerAct(ctx context.Context, conn *pgx.Conn) {
	if c.separation.Owner == "" {
		return
	}
	for _, role := range c.roles.All() {
		if err := c.ensureMember(ctx, conn, role, c.separation.Owner, false); err != nil {
			c.cfg.Log.Debug("the owner of objects cannot take on a data role", "role", role, "error", err)
		}
	}
}

// serverRefused returns the server's error in err, nil where there is no error at all; ok is false for errors of other
// kinds.
func serverRefused(err error) (refused *pgconn.PgError, ok bool) {
	if err == nil {
		return nil, true
	}
	return refused, errors.As(err, &refused)
}

// verifyLogin creates a role again that is gone from the server although its password is known.
func (c *Cluster) verifyLogin(ctx context.Context, conn *pgx.Conn, role, attributes string) error {
	exists, err := roleExists(ctx, conn, role)
	if err != nil || exists {
		return err
	}
	if err := c.ensureRole(ctx, conn, role, attributes); err != nil {
		return err
	}
	_, err = c.ensureLogin(ctx, role, attributes)
	return err
}

// openMain lets the logins of requests and of main into main, and nobody in who has nothing there. It decides whether
// the logins of branches reach their own database only.
func (c *Cluster) openMain(ctx context.Context) error {
	s := &c.separation
	if s.Owner == "" {
		return nil
	}
	conn, err := c.admin(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	databases := []string{c.Main()}
	err = c.keepIn(ctx, conn, c.Main())
	if err == nil {
		err = c.admit(ctx, conn, c.Main(), c.names.main)
	}
	if refused, ok := serverRefused(err); !ok {
		return err
	} else if refused != nil {
		s.lacks(fmt.Sprintf("alter database %s owner to %s", ident(c.Main()), ident(c.caps.Role)), "the privileges on main could not be set: %s", refused.Message)
	}
	if name := c.cfg.Control; name != "" {
		databases = append(databases, name)
		err := c.keepIn(ctx, conn, name)
		if err == nil {
			err = raced(ctx, func() error {
				_, err := conn.Exec(ctx, "revoke connect on database "+ident(name)+" from public")
				return err
			})
		}
		if _, ok := serverRefused(err); !ok {
			return err
		}
	}
	open, err := texts(ctx, conn, `
		select datname from pg_database
		where datname = any ($1) and (has_database_privilege('public', oid, 'connect') or has_database_privilege($2::name, oid, 'connect'))
		order by 1`, databases, s.Owner)
	if err != nil {
		return err
	}
	for _, name := range open {
		s.lacks(fmt.Sprintf("revoke connect on database %s from public, %s", ident(name), ident(s.Owner)),
			"every role may connect to database %q: a login of a branch would reach it", name)
	}
	if err := c.tryLogin(ctx, c.names.main); err != nil {
		s.lacks("let the roles bough_* log in by password (pg_hba.conf, connection poolers)", "main's own login cannot log in: %s", err)
	} else if len(open) == 0 {
		s.Isolated = true
	}
	if err := c.tryLogin(ctx, c.names.authenticator); err != nil {
		s.lacks("let the roles bough_* log in by password (pg_hba.conf, connection poolers)", "requests cannot log in as %q: %s", c.names.authenticator, err)
		s.Requests = ""
	}
	return nil
}

// keepIn gives those roles the right to connect by name that have something in the database, before the right of
// everybody goes.
func (c *Cluster) keepIn(ctx context.Context, conn *pgx.Conn, database string) error {
	data := c.cfg.DataPlane.Roles
	names, err := texts(ctx, conn, `
		select distinct r.rolname::text
		from pg_shdepend s join pg_roles r on r.oid = s.refobjid join pg_database d on d.oid = s.dbid
		where d.datname = $1 and s.refclassid = 'pg_authid'::regclass and has_database_privilege('public', d.oid, 'connect')
			and r.rolname !~ '^(pg_|bough_[0-9a-f]{8}_)' and not r.rolsuper and r.rolname <> all ($2)
		order by 1`, database, []string{data.Anon, data.Authenticated, data.Service, c.caps.Role})
	if err != nil {
		return err
	}
	for _, name := range names {
		err := raced(ctx, func() error {
			_, err := conn.Exec(ctx, "grant connect on database "+ident(database)+" to "+ident(name))
			return err
		})
		if err != nil && !hasCode(err, "42704") { // undefined_object: dropped meanwhile
			return err
		}
	}
	return nil
}

// admit lets the logins of requests and of the branch into a database and nobody else who has no right of their own. The
// owner of objects may create schemas in it. That everybody is shut out comes last: it marks a database that has all.
func (c *Cluster) admit(ctx context.Context, conn *pgx.Conn, database, login string) error {
	if c.separation.Owner == "" {
		return nil
	}
	d := ident(database)
	statements := "grant create, temporary on database " + d + " to " + ident(c.separation.Owner) +
		"; grant connect on database " + d + " to " + ident(c.names.authenticator) + ", " + ident(login) +
		"; revoke connect on database " + d + " from public"
	if database != c.Main() {
		statements += "; alter database " + d + " allow_connections true"
	}
	return raced(ctx, func() error {
		_, err := conn.Exec(ctx, statements)
		return err
	})
}

// shut is the clause of CREATE DATABASE that keeps everybody out until admit has been called.
func (c *Cluster) shut() string {
	if c.separation.Owner == "" {
		return ""
	}
	return " allow_connections false"
}

// admitBranch is admit for a database that was just made for a branch.
func (c *Cluster) admitBranch(ctx context.Context, conn *pgx.Conn, r CloneRequest) error {
	return c.admitLogin(ctx, conn, r.Target, r)
}

// admitLogin lets the login of the request's branch into a database that was just made.
func (c *Cluster) admitLogin(ctx context.Context, conn *pgx.Conn, database string, r CloneRequest) error {
	if c.separation.Owner == "" {
		return nil
	}
	login := c.loginOf(r.Branch, r.Target)
	if _, err := c.ensureLogin(ctx, login, branchLogin); err != nil {
		return err
	}
	if err := c.verifyLogin(ctx, conn, login, branchLogin); err != nil {
		return err
	}
	return c.admit(ctx, conn, database, login)
}

// tryLogin logs in to main as a role.
func (c *Cluster) tryLogin(ctx context.Context, role string) error {
	cfg, err := c.loginConfig(ctx, role, c.Main(), "")
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// loginConfig is what connects to a database as one of the roles that log in.
func (c *Cluster) loginConfig(ctx context.Context, role, database, op string) (*pgx.ConnConfig, error) {
	attributes := branchLogin
	if role == c.names.authenticator {
		attributes = requestLogin
	}
	password, err := c.ensureLogin(ctx, role, attributes)
	if err != nil {
		return nil, err
	}
	cfg := c.base.Copy()
	cfg.Database, cfg.User, cfg.Password = database, role, password
	cfg.RuntimeParams["application_name"] = c.application(op)
	cfg.RuntimeParams["default_transaction_read_only"] = "off"
	return cfg, nil
}

// upgradeBranches gives the databases of branches that an older Bough made what new ones have. It can be interrupted at any
// time: what was not done to the end is done by the next call.
func (c *Cluster) upgradeBranches(ctx context.Context) error {
	if c.separation.Owner == "" {
		return nil
	}
	databases, err := c.Databases(ctx)
	if err != nil || len(databases) == 0 {
		return err
	}
	conn, err := c.admin(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	todo, err := texts(ctx, conn, `
		select datname from pg_database
		where shobj_description(oid, 'pg_database') like $1
			and (has_database_privilege('public', oid, 'connect') or not has_database_privilege($2::name, oid, 'connect'))`,
		markerPrefix+"%", c.names.authenticator)
	if err != nil {
		return err
	}
	for _, d := range databases {
		if !slices.Contains(todo, d.Name) || d.Invalid || d.Name == c.Main() {
			continue
		}
		login := c.loginOf(d.Marker.Branch, d.Name)
		_, err := c.ensureLogin(ctx, login, branchLogin)
		if err == nil {
			_, err = c.ensureIn(ctx, d.Name, "")
		}
		if err == nil {
			err = c.admit(ctx, conn, d.Name, login)
		}
		if err != nil && ctx.Err() == nil {
			c.cfg.Log.Warn("bringing a branch's database up to date failed; the next start will try again", "database", d.Name, "error", err)
		}
	}
	return ctx.Err()
}

// adoptObjects gives what Bough's own role and the branches' logins own in a database to the owner of objects, and on
// Bough's own server what a superuser owns there. Objects of others stay theirs.
func (c *Cluster) adoptObjects(ctx context.Context, conn *pgx.Conn) (warnings []string, err error) {
	owner := c.separation.Owner
	if owner == "" {
		return nil, nil
	}
	from, err := texts(ctx, conn, "select rolname::text from pg_roles where rolname = current_user or starts_with(rolname, $1) and rolname <> $2", c.names.prefix, owner)
	if err != nil {
		return nil, err
	}
	if c.cfg.Supervise != nil {
		supers, err := texts(ctx, conn, "select rolname::text from pg_roles where rolsuper")
		if err != nil {
			return nil, err
		}
		left, err := texts(ctx, conn, belongings, supers, owner)
		if err != nil {
			return nil, err
		}
		rights, err := texts(ctx, conn, defaultRights, supers, owner)
		if err != nil {
			return nil, err
		}
		if len(left)+len(rights) > 0 {
			super, err := c.supervise(ctx, conn.Config().Database)
			if err != nil {
				return nil, err
			}
			defer super.Close(context.WithoutCancel(ctx))
			if warnings, err = adopt(ctx, super, supers, owner); err != nil {
				return warnings, err
			}
		}
	}
	more, err := adopt(ctx, conn, from, owner)
	return append(warnings, more...), err
}

// supervise opens a superuser's session on Bough's own server. Names mean what the system says, whatever somebody has
// put into the database.
func (c *Cluster) supervise(ctx context.Context, database string) (*pgx.Conn, error) {
	conn, err := c.cfg.Supervise(ctx, database)
	if err != nil {
		return nil, fmt.Errorf("supervising database %q: %w", database, err)
	}
	// By its name the session is known as one of this installation's.
	_, err = conn.Exec(ctx, "select set_config('application_name', $1, false)", c.application(""))
	if err == nil {
		err = prepareSession(ctx, conn)
	}
	if err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return conn, nil
}
