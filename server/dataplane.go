package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/branching"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/postgres"
)

// dataPlane is what the configuration gives main and the branches.
func (c *Config) dataPlane() *postgres.DataPlane {
	return &postgres.DataPlane{Roles: c.Roles, Schemas: c.API.Schemas, ManageGrants: c.API.ManageGrants}
}

// checkDataPlane says what in the names of roles and schemas does not make sense.
func (c *Config) checkDataPlane() error {
	var errs []error
	seen := map[string]bool{}
	for setting, name := range map[string]string{"roles.anon": c.Roles.Anon, "roles.authenticated": c.Roles.Authenticated, "roles.service": c.Roles.Service} {
		switch {
		case name == "" || len(name) > 63 || strings.HasPrefix(name, "pg_") || strings.ContainsRune(name, 0) || name == "public" || name == "none":
			errs = append(errs, fmt.Errorf("%s: %q cannot be the name of a role", setting, name))
		case seen[name]:
			errs = append(errs, fmt.Errorf("roles: %q is named twice; callers of different kinds need different roles", name))
		}
		seen[name] = true
	}
	if len(c.API.Schemas) == 0 {
		errs = append(errs, errors.New("api.schemas: name at least one schema"))
	}
	for i, name := range c.API.Schemas {
		switch {
		case name == "" || len(name) > 63 || strings.HasPrefix(name, "pg_") || name == "information_schema" || name == "auth":
			errs = append(errs, fmt.Errorf("api.schemas: %q cannot be exposed", name))
		case slices.Contains(c.API.Schemas[:i], name):
			errs = append(errs, fmt.Errorf("api.schemas: %q is named twice", name))
		}
	}
	return errors.Join(errs...)
}

// branchChanged takes in a notification about a branch; "" stands for those that were missed.
func (s *server) branchChanged(payload string) {
	if database := s.branches.Notified(payload); database != "" && database != s.planes.Data.Main() {
		s.schemas.Forget(database)
	}
}

// newSchemas returns the cache of the databases' schemas. It is told of changes where a database does so, and looks for
// them elsewhere.
//
// The keeper is told of each change, so that privileges that were dropped with a schema come back without a restart.
func newSchemas(cfg Config, data *postgres.Cluster, keeper *postgres.PlaneKeeper, log *slog.Logger) *introspect.Cache {
	roles := data.DataRoles()
	return introspect.NewCache(introspect.CacheConfig{
		Options: introspect.Options{Schemas: cfg.API.Schemas, Roles: roles.All()}, Log: log,
		Changed: keeper.Changed,
		Acquire: func(ctx context.Context, database string) (*pgx.Conn, func(), error) {
			c, err := data.Pools.Acquire(ctx, database)
			if err != nil {
				return nil, nil, err
			}
			return c.Conn.Conn(), c.Release, nil
		},
		Watch: func(database string, invalidate, reset func()) (stop func()) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			stop, err := data.WatchSchema(ctx, database, invalidate, reset)
			if err != nil {
				log.Debug("a database's schema is looked at now and then", "database", database, "reason", err)
				return nil
			}
			return stop
		},
	})
}

// newSchemas makes the cache of schemas and the keeper of what data requests need in the databases.
func (s *server) newSchemas() {
	s.keeper = postgres.NewPlaneKeeper(s.planes.Data.RestoreDataPlane)
	s.keeper.Restored = func(database string) {
		s.log.Info("schema auth, roles' privileges and triggers restored after a change of the schema", "database", database)
		s.schemas.Invalidate(database)
	}
	s.keeper.Failed = func(database string, err error) {
		s.log.Warn("restoring schema auth and roles' privileges after a change of the schema", "database", database, "error", err)
	}
	s.schemas = newSchemas(s.cfg, s.planes.Data, s.keeper, s.log)
}

// ensureBranches gives the branches that are there their part of the data plane: they may be older than this program.
func (s *server) ensureBranches(ctx context.Context) {
	ready := db.BranchStatusReady
	everybody := &auth.Principal{Admin: true}
	for offset := int32(0); ; offset += 100 {
		page, _, err := s.branches.List(ctx, everybody, branching.ListParams{Status: &ready, Limit: 100, Offset: offset})
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, branching.ErrDisabled) {
				s.log.Warn("listing branches to bring them up to date", "error", err)
			}
			return
		}
		for _, b := range page {
			if b.IsMain {
				continue
			}
			state, err := s.planes.Data.EnsureDataPlane(ctx, b.DatabaseName)
			if ctx.Err() != nil {
				return
			}
			// A branch may be gone, or be reset, by now.
			if err != nil || len(state.Warnings) > 0 {
				s.log.Debug("bringing a branch up to date", "branch", b.Slug, "error", err, "warnings", state.Warnings)
			}
		}
		if len(page) < 100 {
			return
		}
	}
}

// logDataPlane says how data requests will run; `bough doctor` says more.
func (s *server) logDataPlane() {
	roles, main := s.planes.Data.DataRoles(), s.planes.Data.MainState()
	changes := "by notification"
	if !main.Notifies {
		changes = "by looking now and then"
	}
	s.log.Info("data requests", "schemas", s.cfg.API.Schemas, "anon", orNone(roles.Anon), "authenticated", orNone(roles.Authenticated),
		"service", serviceRole(roles), "schema_changes", changes)
	separation := s.planes.Data.Separation()
	s.log.Info("database roles", "engine", s.planes.Data.Capabilities().Role, "owner", orNone(separation.Owner),
		"requests", orOwn(separation.Requests), "logins_of_branches", separation.Isolated)
	for _, f := range separationFindings(s.planes.Data) {
		if f.Level != OK {
			s.log.Warn(f.Text, "advice", f.Advice)
		}
	}
	if len(roles.Made) > 0 {
		s.log.Info("made database roles", "roles", roles.Made)
	}
	if p, _ := s.planes.Data.Pooler(); p.Present {
		s.log.Info("main is reached through a pooler", "mode", p.Mode)
	}
	for _, f := range append(poolerFindings(s.planes.Data), dataPlaneFindings(s.cfg, s.planes.Data)...) {
		if f.Level != OK {
			s.log.Warn(f.Text, "advice", f.Advice)
		}
	}
}

func orOwn(role string) string {
	if role == "" {
		return "(the connection's role)"
	}
	return role
}

// separationFindings says who logs in for what, and what keeps each from a role of its own.
func separationFindings(cluster *postgres.Cluster) []Finding {
	s, k := cluster.Separation(), cluster.Capabilities()
	var out []Finding
	if s.Requests != "" {
		out = append(out, Finding{OK, fmt.Sprintf("requests log in as %q, which owns nothing", s.Requests), ""})
	}
	if s.Isolated {
		out = append(out, Finding{OK, "each branch, and main, has a login that reaches this database only", ""})
	}
	for i, missing := range s.Missing {
		f := Finding{Level: Warning, Text: missing}
		if i < len(s.Advice) {
			f.Advice = s.Advice[i]
		}
		out = append(out, f)
	}
	if s.Requests == "" {
		out = append(out, Finding{Warning, fmt.Sprintf("requests log in as %q and give its rights up in each transaction: SQL that gets around that has them", k.Role), ""})
	}
	if !s.Isolated {
		out = append(out, Finding{Warning, fmt.Sprintf("migrations by MCP are refused, and connection strings, which only administrators get, are those of %q", k.Role), ""})
	}
	return out
}

func orNone(role string) string {
	if role == "" {
		return "(refused)"
	}
	return role
}

func serviceRole(r postgres.DataRoles) string {
	if r.Service == "" {
		return "(the connection's role)"
	}
	return r.Service
}

// dataPlaneFindings says what main has of roles, schema auth and notification of schema changes.
func dataPlaneFindings(cfg Config, cluster *postgres.Cluster) []Finding {
	roles, main, k := cluster.DataRoles(), cluster.MainState(), cluster.Capabilities()
	var out []Finding
	add := func(level Level, text, advice string) { out = append(out, Finding{level, text, advice}) }
	advice := strings.Join(roles.Advice, "; ")
	switch {
	case len(roles.Missing) == 0:
		add(OK, fmt.Sprintf("data requests run as %s, %s and %s", roles.Anon, roles.Authenticated, serviceRole(roles)), "")
	case roles.Anon == "" || roles.Authenticated == "":
		level := Failed
		if k.CreateRole && len(roles.Made) == 0 {
			advice += " (where they do not exist, `bough serve` makes them)"
			level = Warning
		}
		add(level, fmt.Sprintf("requests of users are refused: %q cannot run them as %s", k.Role, strings.Join(roles.Missing, ", ")), advice)
	default:
		add(Warning, fmt.Sprintf("%q cannot take on the role %s", k.Role, cfg.Roles.Service), advice)
	}
	switch {
	case roles.Bypass:
	case roles.Service == "":
		add(Warning, "requests with a service key run as the connection's role, which row-level security of main's tables binds", advice)
	default:
		add(Warning, fmt.Sprintf("row-level security binds requests with a service key: %s may not bypass it", roles.Service), advice)
	}
	switch {
	case len(main.Foreign) > 0:
		add(Warning, "somebody else's functions are used as they are: auth."+strings.Join(main.Foreign, ", auth."),
			"see that they read the setting request.jwt.claims")
	case len(main.Missing) == 0:
		add(OK, "schema auth has its functions for policies", "")
	}
	if len(main.Missing) > 0 {
		add(Warning, "functions for policies are not there or out of date: auth."+strings.Join(main.Missing, ", auth."),
			fmt.Sprintf("`bough serve` makes them where %q may create the schema auth and functions in it", k.Role))
	}
	if main.Notifies {
		add(OK, "an event trigger tells of changes of main's schema", "")
	} else {
		add(OK, "there is no event trigger that tells of changes of main's schema: it is looked at now and then", "")
	}
	if len(main.Absent) > 0 {
		add(Warning, "api.schemas names what main does not have: "+strings.Join(main.Absent, ", "), "create the schema, or take it out of api.schemas")
	}
	if main.Ungranted > 0 {
		add(Warning, fmt.Sprintf("%s has too few privileges on %d tables, sequences or functions of the exposed schemas", roles.Service, main.Ungranted),
			"grant them, or let api.manage-grants do it at the next start")
	}
	for _, w := range main.Warnings {
		add(Warning, "not set up in main: "+w, "")
	}
	return out
}
