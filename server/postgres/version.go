package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// imageFormat is part of each schema version and is counted up when images are made differently.
const imageFormat = 1

// Catalogs that say nothing of the schema, or that a branch does not get: planner statistics, large objects, the state
// of subscriptions, passwords of foreign servers. Those shared by all databases are left out by their kind.
var unversioned = []string{
	"pg_statistic", "pg_statistic_ext_data", "pg_largeobject", "pg_largeobject_metadata", "pg_subscription_rel", "pg_user_mapping",
}

// temporary are the schemas of temporary objects; transient also those of TOAST tables, which rewriting a table makes
// again and which belong to their tables.
const (
	temporary = `(select oid from pg_namespace where nspname ~ '^pg_(toast_)?temp_')`
	transient = `(select c.oid from pg_class c where c.relpersistence = 't' or c.relnamespace = 'pg_toast'::regnamespace
		or c.relnamespace in ` + temporary + `)`
)

// versionedRows limits what counts of a catalog: temporary objects come and go without a change of the schema.
var versionedRows = map[string]string{
	"pg_attribute":         "t.attrelid not in (select oid from transient)",
	"pg_attrdef":           "t.adrelid not in (select oid from transient)",
	"pg_index":             "t.indrelid not in (select oid from transient)",
	"pg_constraint":        "t.conrelid not in (select oid from transient) and t.connamespace not in " + temporary,
	"pg_trigger":           "t.tgrelid not in (select oid from transient)",
	"pg_rewrite":           "t.ev_class not in (select oid from transient)",
	"pg_inherits":          "t.inhrelid not in (select oid from transient)",
	"pg_sequence":          "t.seqrelid not in (select oid from transient)",
	"pg_policy":            "t.polrelid not in (select oid from transient)",
	"pg_partitioned_table": "t.partrelid not in (select oid from transient)",
	"pg_statistic_ext":     "t.stxrelid not in (select oid from transient)",
	"pg_description":       "t.objoid not in (select oid from transient)",
	"pg_namespace":         "t.nspname !~ '^pg_(toast_)?temp_'",
	"pg_type":              "t.typnamespace <> 'pg_toast'::regnamespace and t.typnamespace not in " + temporary,
	"pg_proc":              "t.pronamespace not in " + temporary,
	"pg_operator":          "t.oprnamespace not in " + temporary,
	"pg_collation":         "t.collnamespace not in " + temporary,
	// The rest follows from the definitions of the objects.
	"pg_depend": `(t.deptype in ('e', 'x') or t.classid = 'pg_class'::regclass and t.deptype in ('a', 'i') and t.refobjsubid > 0
		and t.objid in (select seqrelid from pg_sequence)) and t.objid not in (select oid from transient)`,
}

// schemaVersion is a digest of a database's schema, equal as long as no statement changes the schema, and equal in a
// copy by CREATE DATABASE … TEMPLATE, which has the same rows of the catalogs at the same places. It reads what one
// snapshot shows, takes no lock that anybody waits for, and time in proportion to the size of the catalogs.
//
// Rewriting a catalog (VACUUM FULL) makes another version of the same schema; VACUUM, ANALYZE, TRUNCATE, and what else
// changes rows only does not.
func schemaVersion(ctx context.Context, q querier) (string, error) {
	catalogs, err := texts(ctx, q, `
		select relname::text from pg_class
		where relnamespace = 'pg_catalog'::regnamespace and relkind = 'r' and not relisshared and has_table_privilege(oid, 'select')
			and relname <> 'pg_class' and relname <> all ($1)
		order by 1`, unversioned)
	if err != nil {
		return "", fmt.Errorf("listing the catalogs: %w", err)
	}
	var sql strings.Builder
	// The columns that statements change; the others are where and how large the relation's files are, and hints that
	// VACUUM corrects.
	fmt.Fprintf(&sql, `
		with transient as materialized %s
		select 'pg_class ' || count(*) || ' ' || coalesce(sum(hashtextextended(row(c.oid, c.relname, c.relnamespace, c.reltype, c.reloftype,
			c.relowner, c.relam, c.reltablespace, c.relpersistence, c.relkind, c.relnatts, c.relchecks, c.relrowsecurity,
			c.relforcerowsecurity, c.relispopulated, c.relreplident, c.relispartition, c.relacl, c.reloptions, c.relpartbound,
			t.reloptions)::text, 0)), 0)
		from pg_class c left join pg_class t on t.oid = c.reltoastrelid
		where c.oid not in (select oid from transient)`, transient)
	for _, name := range catalogs {
		rows := versionedRows[name]
		if rows == "" {
			rows = "true"
		}
		// A row that is changed moves and has another xmin.
		fmt.Fprintf(&sql, `
			union all select '%s ' || count(*) || ' ' || coalesce(sum(hash_record_extended(row(t.ctid, t.xmin), 0)), 0)
			from pg_catalog.%s t where %s`, name, ident(name), rows)
	}
	lines, err := texts(ctx, q, sql.String())
	if err != nil {
		return "", fmt.Errorf("reading the version of the schema: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%s", imageFormat, strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:16]), nil
}
