package introspect

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// fingerprintQuery sums up the state of the catalog in a line of text. Each version of a catalog row has the id of the
// transaction that wrote it in xmin, so that every change but a removal raises the sum, and a removal lowers the count.
// ANALYZE and VACUUM write in place and leave xmin alone; temporary tables are left out, and so are roles that
// requests have nothing to do with, because roles belong to all databases. The conditions on oids are ranges of the
// catalogs' indexes, so that the thousands of rows that a database is born with are not read.
const fingerprintQuery = `
with recursive temporary as materialized (
  select oid from pg_class where relpersistence = 't'
), granted (oid) as (
  select oid from pg_roles where rolname::text = any ($1::text[])
  union
  select m.roleid from pg_auth_members m join granted g on g.oid = m.member
)
select concat_ws(' ',
  (select concat(count(*), '/', sum(xmin::text::bigint)) from pg_class
    where oid >= 16384 and relpersistence <> 't'),
  (select concat(count(*), '/', sum(xmin::text::bigint)) from pg_attribute
    where attrelid >= 16384 and attrelid not in (select oid from temporary)),
  (select concat(count(*), '/', sum(xmin::text::bigint)) from pg_attrdef
    where adrelid not in (select oid from temporary)),
  (select concat(count(*), '/', sum(xmin::text::bigint)) from pg_constraint
    where oid >= 16384 and conrelid not in (select oid from temporary)),
  (select concat(count(*), '/', sum(xmin::text::bigint)) from pg_index
    where indrelid >= 16384 and indrelid not in (select oid from temporary)),
  (select concat(count(*), '/', sum(xmin::text::bigint)) from pg_type
    where oid >= 16384 and typrelid = 0 and typelem = 0),
  (select concat(count(*), '/', sum(xmin::text::bigint)) from pg_enum),
  (select concat(count(*), '/', sum(xmin::text::bigint)) from pg_proc where oid >= 16384),
  (select concat(count(*), '/', sum(xmin::text::bigint)) from pg_rewrite where ev_class >= 16384),
  (select concat(count(*), '/', sum(xmin::text::bigint)) from pg_trigger
    where not tgisinternal and tgrelid not in (select oid from temporary)),
  (select concat(count(*), '/', sum(xmin::text::bigint)) from pg_policy),
  (select concat(count(*), '/', sum(xmin::text::bigint)) from pg_namespace
    where nspname !~ '^pg_(toast_)?temp_'),
  (select concat(count(*), '/', sum(xmin::text::bigint)) from pg_description where objoid >= 16384),
  (select concat(count(*), '/', sum(xmin::text::bigint)) from pg_extension),
  (select concat(count(*), '/', sum(xmin::text::bigint)) from pg_auth_members
    where member in (select oid from granted)),
  (select string_agg(concat(oid, rolsuper), ',' order by oid) from pg_roles
    where rolname::text = any ($1::text[]))
)`

// Unchanged reports whether the catalog is as it was when s was loaded from the same database. It is far cheaper than
// Load: one round trip and a look at the ids of the transactions that changed the catalog. Being wrong takes a removal
// and changes whose numbers happen to add up to the same sum.
func Unchanged(ctx context.Context, conn *pgx.Conn, s *Schema) (bool, error) {
	if s.partial {
		return false, nil
	}
	l := newLoader(Options{Schemas: s.Schemas, Roles: s.Roles})
	err := l.read(ctx, conn.PgConn(), []statement{
		{"begin", "begin isolation level repeatable read read only", nil, nil},
		{"settings", settings, nil, nil},
		{"fingerprint", fingerprintQuery, [][]byte{textArray(s.Roles)}, l.fingerprint},
		{"commit", "commit", nil, nil},
	})
	return err == nil && l.schema.fingerprint == s.fingerprint, err
}
