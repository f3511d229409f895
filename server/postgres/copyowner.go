package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/pgcopy"
)

// copyAsOwner makes a snapshot copy log in to the target, which is empty, as the branch, and gives everything in it to the
// owner of objects. Filling a database runs what somebody put into the schema of its source, such as the functions of check
// constraints: with Bough's own role they would have its rights.
func (c *Cluster) copyAsOwner(ctx context.Context, admin *pgx.Conn, r CloneRequest, target string, o *pgcopy.Options) error {
	if c.separation.Owner == "" {
		return nil
	}
	o.Owner = c.separation.Owner
	var err error
	if target != r.Target { // a schema image, which the login may not enter any more when it is complete
		if err := c.admitLogin(ctx, admin, target, r); err != nil {
			return err
		}
	}
	if o.Target, err = c.loginConfig(ctx, c.loginOf(r.Branch, r.Target), target, r.op()); err != nil {
		return err
	}
	conn, err := c.connect(ctx, target, r.op())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "alter schema public owner to "+ident(o.Owner)); err != nil {
		return fmt.Errorf("giving schema public to %q: %w", o.Owner, err)
	}
	o.Prepared, err = c.createExtensions(ctx, r, target, o.Owner)
	if c.cfg.Supervise != nil || c.caps.Superuser {
		o.Grant = func(ctx context.Context, statements []string) error {
			conn, err := c.superuser(ctx, target, r.op())
			if err != nil {
				return err
			}
			defer conn.Close(context.WithoutCancel(ctx))
			for _, statement := range statements {
				if _, err := conn.Exec(ctx, statement); err != nil {
					return fmt.Errorf("%s: %w", statement, err)
				}
			}
			return nil
		}
	}
	return err
}

// superuser opens a superuser's session, where there is one: on Bough's own server, or as the configured role.
func (c *Cluster) superuser(ctx context.Context, database, op string) (*pgx.Conn, error) {
	if c.cfg.Supervise != nil {
		return c.supervise(ctx, database)
	}
	conn, err := c.connect(ctx, database, op)
	if err != nil {
		return nil, err
	}
	if err := prepareSession(ctx, conn); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return conn, nil
}

// createExtensions creates the extensions of the source that only superusers may create, where there is a superuser to
// do it, while the target is empty. It returns what is there, as package pgcopy names it.
func (c *Cluster) createExtensions(ctx context.Context, r CloneRequest, target, owner string) (prepared []string, err error) {
	if c.cfg.Supervise == nil && !c.caps.Superuser {
		return nil, nil
	}
	source, err := c.connect(ctx, r.Source, r.op())
	if err != nil {
		return nil, err
	}
	defer source.Close(context.WithoutCancel(ctx))
	rows, err := source.Query(ctx, `
		select e.extname::text, quote_ident(e.extname), n.nspname::text, quote_ident(n.nspname), e.extversion, coalesce(obj_description(e.oid, 'pg_extension'), '')
		from pg_extension e
		join pg_namespace n on n.oid = e.extnamespace
		join pg_available_extension_versions v on v.name = e.extname and v.version = e.extversion
		where v.superuser and not v.trusted and e.extname <> 'plpgsql'
		order by e.oid`)
	if err != nil {
		return nil, err
	}
	type extension struct{ Name, Identity, Schema, SchemaIdentity, Version, Comment string }
	extensions, err := pgx.CollectRows(rows, pgx.RowToStructByPos[extension])
	if err != nil || len(extensions) == 0 {
		return nil, err
	}
	conn, err := c.superuser(ctx, target, r.op())
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, e := range extensions {
		var statements []string
		if e.Schema != "public" && e.Schema != "pg_catalog" {
			statements = append(statements, fmt.Sprintf("create schema if not exists %s authorization %s", ident(e.Schema), ident(owner)))
			prepared = append(prepared, "schema "+e.SchemaIdentity)
		}
		statements = append(statements,
			fmt.Sprintf("create extension if not exists %s with schema %s version %s cascade", ident(e.Name), ident(e.Schema), literal(e.Version)),
			fmt.Sprintf("comment on extension %s is %s", ident(e.Name), literal(e.Comment)))
		for _, statement := range statements {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return nil, fmt.Errorf("%s: %w", statement, err)
			}
		}
		prepared = append(prepared, "extension "+e.Identity)
	}
	return prepared, nil
}
