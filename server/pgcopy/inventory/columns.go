package inventory

import "strings"

// newColumn returns how a column is compared, and false if it is not.
func newColumn(table, name, kind, ref, relation, owner string) (column, bool) {
	if _, ok := Skipped[table+"."+name]; ok {
		return column{}, false
	}
	col := column{name: name, sql: "x." + name + "::text", ref: ref, relation: relation}
	switch name { // which the catalogs do not say
	case "confdelsetcols":
		col.ref, col.relation = "pg_attribute", "conrelid"
	case "prattrs":
		col.ref, col.relation = "pg_attribute", "prrelid"
	}
	switch {
	case kind == "pg_node_tree":
		col.sql = "(x." + name + " is not null)::text"
	case kind == "aclitem[]":
		col.acl = true
		// None is the same as that which an object has from its creation.
		acl := "x." + name
		col.sql = "(select string_agg(a::text, ' ' order by a::text) from unnest(" + acl + ") a)"
		if kind := defaultACL[table]; kind != "" {
			col.sql = "case when " + acl + " is not null and not (" + acl + " @> acldefault(" + kind + ") and " + acl + " <@ acldefault(" + kind + ")) then " + col.sql + " end"
			if owner != "" {
				col.sql = "nullif(" + mappedACL(acl, table, owner) + ", " + mappedACL("acldefault("+kind+")", table, owner) + ")"
			}
		}
	case kind == "regproc" && ref != "":
		col.sql = "x." + name + "::oid::text"
	case strings.HasSuffix(name, "options") && kind == "text[]":
		// The server keeps things of its own among the options of users.
		col.sql = "(select string_agg(o, ' ' order by o) from unnest(x." + name + ") o where not starts_with(o, 'pg_'))"
		if name != "attoptions" && name != "reloptions" {
			col.sql = "(select string_agg(o, ' ' order by o) from unnest(x." + name + ") o)"
		}
		col.sql = "case when x." + name + " is not null then " + col.sql + " end"
	case kind == "text[]" && (name == "proconfig" || name == "evttags"):
		col.sql = "(select string_agg(o, ' ' order by o) from unnest(x." + name + ") o)"
	}
	switch name {
	case "polroles", "prattrs", "stxkeys":
		col.set = true
	}
	if sql, ok := instead[table+"."+name]; ok {
		col.sql = sql
	}
	return col, true
}

// Skipped are the columns that are not compared, with the reason. Most are what
// PostgreSQL itself changes when a database is dumped and restored.
var Skipped = map[string]string{
	"pg_class.relfilenode":    "where the rows are",
	"pg_class.relpages":       "statistics",
	"pg_class.reltuples":      "statistics",
	"pg_class.relallvisible":  "statistics",
	"pg_class.relallfrozen":   "statistics",
	"pg_class.relfrozenxid":   "age of the rows",
	"pg_class.relminmxid":     "age of the rows",
	"pg_class.relhasindex":    "stays true when the last index is dropped, until VACUUM",
	"pg_class.relhasrules":    "stays true when the last rule is dropped, until VACUUM",
	"pg_class.relhastriggers": "stays true when the last trigger is dropped, until VACUUM",
	"pg_class.relhassubclass": "stays true when the last child is dropped, until ANALYZE",
	"pg_class.relnatts":       "counts dropped columns",
	"pg_class.relrewrite":     "of a statement at work",
	"pg_class.reltype":        "the row type is named like the relation",
	"pg_class.reltoastrelid":  "named by a number; its options are compared as the column's reloptions",

	"pg_attribute.attcacheoff":   "of the running server",
	"pg_attribute.atthasmissing": "how rows are stored",
	"pg_attribute.attmissingval": "how rows are stored",
	"pg_attribute.attndims":      "PostgreSQL ignores it, and pg_dump does not keep it",
	"pg_attribute.attisdropped":  "dropped columns are left out",

	"pg_index.indcheckxmin":        "of the moment when the index was built",
	"pg_collation.collversion":     "the version of the library when the collation was created",
	"pg_extension.extowner":        "is who copies; PostgreSQL cannot change it",
	"pg_type.typrelid":             "the relation is named like the type",
	"pg_type.typndims":             "PostgreSQL ignores it, and pg_dump does not keep it",
	"pg_operator.oprkind":          "follows from the operands",
	"pg_inherits.inhdetachpending": "of a statement at work",
}

// instead is SQL for columns that do not say the same in a copy, though it means
// the same.
var instead = map[string]string{
	// Those of an index are named after what the columns were called when it was created.
	"pg_attribute.attname": "case when x.attrelid in (select indexrelid from pg_catalog.pg_index) then 'column ' || x.attnum else x.attname::text end",
	// Positions among the columns that are there. In a child that got columns after it was created pg_dump puts the
	// inherited ones first.
	"pg_attribute.attnum": `case when x.attrelid in (select i.inhrelid from pg_catalog.pg_inherits i join pg_catalog.pg_class c on c.oid = i.inhrelid
		where not c.relispartition) then null else row_number() over (partition by x.attrelid order by x.attnum) end::text`,
	// A partition is attached after it was created.
	"pg_attribute.attislocal":  `case when x.attrelid not in (select oid from pg_catalog.pg_class where relispartition) then x.attislocal::text end`,
	"pg_constraint.conislocal": `case when x.conrelid not in (select oid from pg_catalog.pg_class where relispartition) then x.conislocal::text end`,
	// Of keys it says whether the table is partitioned at the time.
	"pg_constraint.connoinherit": `case when x.contype in ('c', 'n') then x.connoinherit::text end`,
	// A rank: adding a label between two others leaves halves.
	"pg_enum.enumsortorder": "rank() over (partition by x.enumtypid order by x.enumsortorder)::text",
	// The text of an expression, if there is one.
	"pg_type.typdefault": "case when x.typdefaultbin is null then x.typdefault end",
	// With those of the relation for long values.
	"pg_class.reloptions": `nullif(concat_ws(' ', (select string_agg(o, ' ' order by o) from unnest(x.reloptions) o where not starts_with(o, 'pg_')),
		(select string_agg('toast.' || o, ' ' order by o) from pg_catalog.pg_class t, unnest(t.reloptions) o
		where t.oid = x.reltoastrelid and x.reltoastrelid <> 0 and not starts_with(o, 'pg_'))), '')`,
	"pg_attribute.attoptions": `(select string_agg(o, ' ' order by o) from unnest(x.attoptions) o
		where not starts_with(o, 'pg_'))`,
}

// mappedACL is the text of privileges in which a role stands for the object's
// owner.
func mappedACL(acl, table, owner string) string {
	of := ownerOf[table]
	name := func(role string) string {
		return "case " + role + " when 0 then 'public' when " + of + " then " + quoted("role "+owner) + " else 'role ' || pg_catalog.pg_get_userbyid(" + role + ") end"
	}
	return "(select string_agg(distinct concat_ws(' ', " + name("e.grantee") + ", e.privilege_type, e.is_grantable, 'by', " + name("e.grantor") + "), ', ') from aclexplode(" + acl + ") e)"
}

// quoted is a string as SQL.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// keys are the columns that name a row, where the first unique index is not it.
var keys = map[string][]string{
	"pg_inherits": {"inhrelid", "inhparent"},
	"pg_range":    {"rngtypid"},
	"pg_depend":   {"objid", "refobjid", "deptype"},
}

// names are further columns that names are made of.
var names = map[string][]string{
	"pg_attribute":   {"attname"},
	"pg_type":        {"typelem", "typcategory"},
	"pg_constraint":  {"conparentid", "contype", "conindid"},
	"pg_trigger":     {"tgisinternal", "tgconstraint", "tgfoid"},
	"pg_index":       {"indisvalid"},
	"pg_class":       {"relkind"},
	"pg_depend":      {"classid", "objsubid", "refclassid", "refobjsubid"},
	"pg_description": {"classoid", "objsubid"},
	"pg_seclabel":    {"classoid", "objsubid"},
	"pg_init_privs":  {"classoid", "objsubid"},
}

// fleeting are the schemas of sessions and of long values.
const fleeting = `select oid from pg_catalog.pg_namespace where nspname ~ '^pg_(temp|toast)'`

// always are conditions on the rows of a catalog.
var always = map[string]string{
	"pg_attribute": "x.attnum > 0 and not x.attisdropped and x.attrelid not in (select oid from pg_catalog.pg_class where relnamespace in (" + fleeting + "))",
	"pg_class":     "x.relnamespace not in (" + fleeting + ")",
	"pg_namespace": "x.oid not in (" + fleeting + ")",
}

// users are conditions on the rows that are the user's, where it is not the oid
// or privilege that tells.
var users = map[string]string{
	"pg_namespace":   "true",
	"pg_extension":   "true",
	"pg_language":    "true",
	"pg_am":          "true",
	"pg_description": "x.objoid >= 16384 or x.classoid in ('pg_namespace'::regclass, 'pg_extension'::regclass)",
	"pg_seclabel":    "true",
	// Members of extensions, what goes with one, and owned sequences.
	"pg_depend": "x.deptype in ('e', 'x') or x.deptype = 'a' and x.objid in (select seqrelid from pg_catalog.pg_sequence) and x.refobjsubid > 0",
}

// ownerOf are the columns with the owner of what has privileges.
var ownerOf = map[string]string{
	"pg_class":                "x.relowner",
	"pg_attribute":            "(select relowner from pg_catalog.pg_class where oid = x.attrelid)",
	"pg_proc":                 "x.proowner",
	"pg_type":                 "x.typowner",
	"pg_namespace":            "x.nspowner",
	"pg_language":             "x.lanowner",
	"pg_foreign_data_wrapper": "x.fdwowner",
	"pg_foreign_server":       "x.srvowner",
	"pg_largeobject_metadata": "x.lomowner",
}

// defaultACL is the kind and the owner that acldefault wants.
var defaultACL = map[string]string{
	"pg_class":                "(case x.relkind when 'S' then 's' else 'r' end)::\"char\", x.relowner",
	"pg_attribute":            "'c', 10",
	"pg_proc":                 "'f', x.proowner",
	"pg_type":                 "'T', x.typowner",
	"pg_namespace":            "'n', x.nspowner",
	"pg_language":             "'l', x.lanowner",
	"pg_foreign_data_wrapper": "'F', x.fdwowner",
	"pg_foreign_server":       "'S', x.srvowner",
	"pg_largeobject_metadata": "'L', x.lomowner",
}
