package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Engine is the role by which Bough works on a server of its own. It is no superuser.
type Engine struct {
	Role, Password string
	// Roles are the data roles. They are created here, since only a superuser may let a role bypass row-level security.
	Roles RoleNames
	// Databases are those that it is to own, as soon as they exist; the ones of branches are added.
	Databases []string
}

// PrepareEngine creates the engine's role on Bough's own server, or brings it up to date, and gives it the databases that
// an older Bough made as superuser. conn is a superuser's, to a database that is no branch. It may be called again, and
// after it was interrupted.
func PrepareEngine(ctx context.Context, conn *pgx.Conn, e Engine) error {
	var version int
	var superuser string
	if err := conn.QueryRow(ctx, "select current_setting('server_version_num')::int, current_user").Scan(&version, &superuser); err != nil {
		return err
	}
	exec := func(format string, args ...any) error {
		statement := fmt.Sprintf(format, args...)
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
		return nil
	}
	create := func(role, attributes string) error {
		exists, err := roleExists(ctx, conn, role)
		if err != nil || exists {
			return err
		}
		return exec("create role %s %s", ident(role), attributes)
	}
	if err := create(e.Role, "nologin"); err != nil {
		return err
	}
	// It reads everything, since it copies databases.
	err := exec("alter role %s login inherit nosuperuser createdb createrole bypassrls noreplication", ident(e.Role))
	if err != nil {
		return err
	}
	var verifier string
	if err := conn.QueryRow(ctx, "select coalesce(rolpassword, '') from pg_authid where rolname = $1", e.Role).Scan(&verifier); err != nil {
		return err
	}
	if !verifies(verifier, e.Password) {
		if err := setPassword(ctx, conn, e.Role, e.Password); err != nil {
			return err
		}
	}
	for _, role := range []string{"pg_signal_backend", "pg_checkpoint", "pg_monitor", "pg_read_all_data"} {
		if err := exec("grant %s to %s", role, ident(e.Role)); err != nil {
			return err
		}
	}
	for role, attributes := range map[string]string{
		e.Roles.Anon: "nologin", e.Roles.Authenticated: "nologin", e.Roles.Service: "nologin bypassrls",
	} {
		if role == "" {
			continue
		}
		if err := create(role, attributes); err != nil {
			return err
		}
		grant := "grant %s to %s with admin option"
		if version >= 160000 {
			grant = "grant %s to %s with admin true, inherit false, set true"
		}
		if err := exec(grant, ident(role), ident(e.Role)); err != nil {
			return err
		}
	}
	if e.Roles.Service != "" {
		if err := exec("alter role %s bypassrls", ident(e.Roles.Service)); err != nil {
			return err
		}
	}
	names, err := texts(ctx, conn, `
		select datname from pg_database
		where pg_get_userbyid(datdba) = current_user
			and (datname = any ($1) or starts_with(shobj_description(oid, 'pg_database'), $2) or starts_with(datname, 'branch_'))`,
		e.Databases, markerPrefix)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := exec("alter database %s owner to %s", ident(name), ident(e.Role)); err != nil {
			return err
		}
	}
	// The rest of the server is nobody else's business.
	for _, name := range []string{"postgres", "template1"} {
		if err := exec("grant connect on database %s to %s", ident(name), ident(e.Role)); err != nil {
			return err
		}
		if err := exec("revoke connect, temporary on database %s from public", ident(name)); err != nil {
			return err
		}
	}
	return nil
}

// Adopt gives role what the connection's own role owns in the connection's database.
func Adopt(ctx context.Context, conn *pgx.Conn, role string) (warnings []string, err error) {
	var self string
	if err := conn.QueryRow(ctx, "select current_user").Scan(&self); err != nil {
		return nil, err
	}
	return adopt(ctx, conn, []string{self}, role)
}
