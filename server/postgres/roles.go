package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/fault"
)

// RoleNames are the database roles that data requests run as.
type RoleNames struct {
	Anon, Authenticated, Service string
}

// DataRoles tells which roles data requests can run as.
type DataRoles struct {
	// Anon and Authenticated are "" where the connection's role cannot take the role on: such requests are refused.
	Anon, Authenticated string
	// Service is "" where requests with a service key keep the connection's own role.
	Service string
	// Bypass is true where requests with a service key are not bound by the row-level security of the owner's tables.
	Bypass bool
	// Made are the roles that were made just now.
	Made []string
	// Missing are the roles of the settings that requests cannot run as.
	Missing []string
	// Advice are the statements that would mend what is missing, for a role that may.
	Advice []string
}

// ErrNoRole is the error of a request for whose caller the server has no role.
var ErrNoRole = fault.New(fault.Unavailable, "unavailable", "the database has no role to run this request as").
	WithHint("`bough doctor` tells the operator what to do")

// Session returns the role that a caller's requests are to run as; "" keeps the connection's own. caller is what
// the caller is in Bough: anon, authenticated or service_role, whatever the roles are called in the database.
func (r DataRoles) Session(caller string) (string, error) {
	var name string
	switch caller {
	case "service_role":
		return r.Service, nil
	case "authenticated":
		name = r.Authenticated
	case "anon":
		name = r.Anon
	}
	if name == "" {
		return "", ErrNoRole
	}
	return name, nil
}

// All lists the roles that requests can run as.
func (r DataRoles) All() []string {
	return slices.DeleteFunc([]string{r.Anon, r.Authenticated, r.Service}, func(s string) bool { return s == "" })
}

// DataRoles returns what SetUp or Inspect found. It is empty before that.
func (c *Cluster) DataRoles() DataRoles { return c.roles }

// errRaced are the errors of a statement about roles that met the same one of another process.
var errRaced = []string{"42710", "23505", "XX000", "40001", "40P01"} // duplicate_object, unique_violation, "tuple concurrently updated", …

// ensureRoles makes the data roles that are not there, as far as the connection's role may, and finds out which can be
// used. Roles that are there stay as they are; the connection's role becomes a member of them where that is possible.
func (c *Cluster) ensureRoles(ctx context.Context, conn *pgx.Conn) (DataRoles, error) {
	for try := 0; ; try++ {
		var made []string
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
			made, err = c.makeRoles(ctx, tx)
			return err
		})
		if err == nil {
			roles, err := c.findRoles(ctx, conn)
			roles.Made = made
			return roles, err
		}
		if !hasCode(err, errRaced...) || try == 10 {
			return DataRoles{}, fmt.Errorf("making the data roles: %w", err)
		}
		select {
		case <-ctx.Done():
			return DataRoles{}, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// makeRoles returns the roles that it made. Other processes at the same main take turns; those at another main of the
// server run into an error of errRaced.
func (c *Cluster) makeRoles(ctx context.Context, tx pgx.Tx) (made []string, err error) {
	if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock(hashtextextended('bough.data_roles', 0))"); err != nil {
		return nil, err
	}
	names := c.cfg.DataPlane.Roles
	for _, name := range []string{names.Anon, names.Authenticated, names.Service} {
		var exists bool
		if err := tx.QueryRow(ctx, "select exists (select from pg_roles where rolname = $1)", name).Scan(&exists); err != nil {
			return nil, err
		}
		if !exists {
			if !c.caps.CreateRole {
				continue
			}
			bypass := name == names.Service
			if bypass {
				bypass, err = allowed(ctx, tx, "create role "+ident(name)+" nologin bypassrls")
			}
			if err == nil && !bypass {
				var ok bool
				if ok, err = allowed(ctx, tx, "create role "+ident(name)+" nologin"); err == nil && !ok {
					continue
				}
			}
			if err != nil {
				return nil, err
			}
			made = append(made, name)
			if name == names.Service && !bypass && c.separation.Owner == "" {
				// An owner is not bound by row-level security. The connection's role cannot be the member's member
				// and owner at once; requests with a service key then keep it.
				if err := c.grantOwner(ctx, tx, name); err != nil {
					return nil, err
				}
			}
		}
		if name == names.Service && c.separation.Owner != "" && !c.caps.Superuser {
			if err := c.ownService(ctx, tx, name); err != nil {
				return nil, err
			}
		}
		if can, err := c.canTakeOn(ctx, tx, name); err != nil {
			return nil, err
		} else if can {
			continue
		}
		if _, err := allowed(ctx, tx, c.membership(name)); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// grantOwner makes the service role a member of main's owner, unless that would let roles be members in a circle.
func (c *Cluster) grantOwner(ctx context.Context, tx pgx.Tx, service string) error {
	var circle bool
	err := tx.QueryRow(ctx, "select pg_has_role(current_user, $1, 'member')", c.caps.Owner).Scan(&circle)
	if err != nil || circle {
		return err
	}
	_, err = allowed(ctx, tx, "grant "+ident(c.caps.Owner)+" to "+ident(service))
	return err
}

// ownService makes a service role that row-level security binds a member of the owner of objects, which it does not bind.
// The owner owns no database.
func (c *Cluster) ownService(ctx context.Context, tx pgx.Tx, service string) error {
	var bound bool
	err := tx.QueryRow(ctx, "select not (rolsuper or rolbypassrls or pg_has_role(oid, $2::name, 'usage')) from pg_roles where rolname = $1", service, c.separation.Owner).Scan(&bound)
	if err != nil || !bound {
		return err
	}
	statement := "grant " + ident(c.separation.Owner) + " to " + ident(service)
	if c.caps.ServerVersion >= 160000 {
		statement += " with inherit true, set false"
	}
	_, err = allowed(ctx, tx, statement)
	return err
}

// membership is the statement after which requests can take a role on, and the role that they log in as has no more
// rights of its own than before where the server knows the difference.
func (c *Cluster) membership(role string) string {
	statement := "grant " + ident(role) + " to " + ident(c.requester())
	if c.caps.ServerVersion >= 160000 {
		statement += " with inherit false, set true"
	}
	return statement
}

// canTakeOn reports whether SET ROLE to the role works for requests.
func (c *Cluster) canTakeOn(ctx context.Context, q querier, role string) (can bool, err error) {
	privilege := "member"
	if c.caps.ServerVersion >= 160000 {
		privilege = "set"
	}
	err = q.QueryRow(ctx, "select pg_has_role($3::name, oid, $2) from pg_roles where rolname = $1", role, privilege, c.requester()).Scan(&can)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return can, err
}

// querier is a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// findRoles looks which roles requests can run as, and changes nothing.
func (c *Cluster) findRoles(ctx context.Context, q querier) (DataRoles, error) {
	names := c.cfg.DataPlane.Roles
	var r DataRoles
	for name, found := range map[string]*string{names.Anon: &r.Anon, names.Authenticated: &r.Authenticated, names.Service: &r.Service} {
		var exists bool
		if err := q.QueryRow(ctx, "select exists (select from pg_roles where rolname = $1)", name).Scan(&exists); err != nil {
			return r, err
		}
		can, err := c.canTakeOn(ctx, q, name)
		if err != nil {
			return r, err
		}
		if can {
			*found = name
			continue
		}
		r.Missing = append(r.Missing, name)
		if !exists {
			statement := "create role " + ident(name) + " nologin"
			if name == names.Service {
				statement += " bypassrls"
			}
			r.Advice = append(r.Advice, statement)
		}
		r.Advice = append(r.Advice, c.membership(name))
	}
	slices.Sort(r.Missing)
	slices.Sort(r.Advice)
	const unbound = "select r.rolsuper or r.rolbypassrls or pg_has_role(r.oid, o.oid, 'usage') from pg_roles r, pg_roles o where r.rolname = $1 and o.rolname = $2"
	if r.Service != "" {
		if err := q.QueryRow(ctx, unbound, r.Service, c.objectOwner()).Scan(&r.Bypass); err != nil || r.Bypass {
			return r, err
		}
	}
	// The service role would see less than a service key should; the connection's role may see more. A superuser's
	// powers go beyond rows, though: it is not what requests run as.
	if r.Service != "" && (c.caps.Superuser || c.separation.Requests != "") {
		r.Advice = append(r.Advice, "alter role "+ident(r.Service)+" bypassrls")
		return r, nil
	}
	if c.separation.Requests != "" {
		return r, nil // the role that logs in has no rights to fall back on
	}
	var own bool
	if err := q.QueryRow(ctx, unbound, c.caps.Role, c.caps.Owner).Scan(&own); err != nil {
		return r, err
	}
	if own {
		r.Service, r.Bypass = "", true
	}
	return r, nil
}

// allowed executes a statement within a transaction, which goes on when the role may not; it returns false then.
func allowed(ctx context.Context, tx pgx.Tx, statement string) (bool, error) {
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, statement)
		return err
	})
	if hasCode(err, "42501", "0LP01") { // insufficient_privilege, invalid_grant_operation
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", statement, err)
	}
	return true, nil
}
