package readsql

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The rules of built-in functions: immutable and stable ones pass but for denied, volatile ones are refused but for
// allowed. What is left only computes, or reads what a role may know of the server.
var (
	// allowed are random numbers and clocks, sizes, and TABLESAMPLE.
	allowed = set(`random random_normal gen_random_uuid uuidv4 uuidv7 clock_timestamp timeofday bernoulli system
		array_sample array_shuffle pg_relation_size pg_table_size pg_indexes_size pg_total_relation_size pg_database_size
		pg_partition_tree pg_partition_ancestors pg_is_in_recovery`)
	// denied read tables that are named in their arguments, use up transaction ids, or show what other sessions or
	// earlier requests left behind.
	denied = set(`table_to_xml table_to_xml_and_xmlschema schema_to_xml schema_to_xml_and_xmlschema
		database_to_xml database_to_xml_and_xmlschema txid_current pg_current_xact_id pg_prepared_statement pg_cursor
		pg_show_all_settings pg_stat_get_activity pg_stat_get_subscription pg_stat_get_wal_receiver pg_config
		fmgr_c_validator fmgr_internal_validator fmgr_sql_validator`)
	// deniedRelations show settings of roles and databases, or what earlier requests left behind.
	deniedRelations = set("pg_db_role_setting pg_prepared_statements pg_cursors")
	// secretFunctions show source text, options, or the names of roles and databases, to callers who do not administer the
	// database. Passwords and tokens are found there: in the arguments of triggers that call web hooks, in the bodies of
	// functions and views, in settings of roles, in options of foreign servers; other users' branches are databases and
	// roles. PostgreSQL shows them to every role, but without SQL nobody sees them.
	secretFunctions = set(`pg_get_functiondef pg_get_function_sqlbody pg_get_triggerdef pg_get_viewdef pg_get_ruledef
		pg_get_userbyid to_regrole pg_has_role has_database_privilege pg_database_size shobj_description pg_describe_object
		pg_identify_object pg_identify_object_as_address pg_get_object_address`)
)

// shownColumns are the relations of PostgreSQL's own that callers see who do not administer the database, and which of
// their columns: all where there are none, all but those that begin with a minus sign, or only the others. What is not
// here is refused: new versions of PostgreSQL bring new relations.
var shownColumns = columnRules(`
	pg_class pg_attribute(-attfdwoptions -attmissingval) pg_attrdef pg_constraint pg_index pg_type pg_enum pg_range pg_namespace
	pg_description pg_depend pg_inherits pg_partitioned_table pg_sequence pg_collation pg_cast pg_conversion pg_language pg_am
	pg_amop pg_amproc pg_opclass pg_opfamily pg_operator pg_aggregate pg_statistic_ext(-stxexprs) pg_ts_config pg_ts_config_map
	pg_ts_dict(-dictinitoption) pg_ts_parser pg_ts_template pg_extension(-extcondition)
	pg_available_extensions pg_available_extension_versions pg_timezone_names pg_timezone_abbrevs
	pg_proc(-prosrc -prosqlbody -proconfig -probin -proargdefaults) pg_trigger(-tgargs -tgqual) pg_rewrite(-ev_action -ev_qual)
	pg_policy(-polqual -polwithcheck) pg_policies(-qual -with_check) pg_foreign_table(-ftoptions)
	pg_tables(-tableowner) pg_views(-definition -viewowner) pg_matviews(-definition -matviewowner) pg_indexes pg_sequences(-sequenceowner)
	pg_stats(schemaname tablename attname inherited null_frac avg_width n_distinct correlation)
	pg_stat_user_tables pg_stat_user_indexes pg_statio_user_tables pg_statio_user_indexes pg_stat_all_tables pg_stat_all_indexes
	pg_stat_user_functions
	administrable_role_authorizations applicable_roles attributes character_sets check_constraint_routine_usage check_constraints
	collations collation_character_set_applicability column_column_usage column_domain_usage column_privileges column_udt_usage
	columns constraint_column_usage constraint_table_usage data_type_privileges domain_constraints domain_udt_usage domains
	element_types enabled_roles foreign_tables information_schema_catalog_name key_column_usage parameters referential_constraints
	role_column_grants role_routine_grants role_table_grants role_udt_grants role_usage_grants routine_column_usage
	routine_privileges routine_routine_usage routine_sequence_usage routine_table_usage routines(-routine_definition)
	schemata(-schema_owner) sequences sql_features sql_implementation_info sql_parts sql_sizing table_constraints table_privileges
	tables transforms triggered_update_columns triggers(-action_statement -action_condition) udt_privileges usage_privileges
	user_defined_types view_column_usage view_routine_usage view_table_usage views(-view_definition)`)

// columnRule says which columns of a relation are shown: those that are named, or all others.
type columnRule struct {
	names  map[string]bool
	except bool
}

func (r columnRule) shows(column string) bool { return r.names[column] != r.except }

// columnRules reads names, each followed by columns in parentheses or not.
func columnRules(text string) map[string]columnRule {
	rules := map[string]columnRule{}
	for _, item := range regexp.MustCompile(`(\w+)(\([^)]*\))?`).FindAllStringSubmatch(text, -1) {
		rule := columnRule{names: set(strings.ReplaceAll(strings.Trim(item[2], "()"), "-", "")), except: true}
		if item[2] != "" {
			rule.except = strings.HasPrefix(item[2], "(-")
		}
		rules[item[1]] = rule
	}
	return rules
}

// The rules of extensions' functions: the immutable ones of nearly all, the stable ones of those that are known not to
// take SQL as text. What is written in a language like PL/pgSQL might do just that.
var (
	extensions = set(`pg_trgm citext hstore ltree intarray unaccent vector btree_gin btree_gist fuzzystrmatch cube
		earthdistance isn seg uuid-ossp pgcrypto tsm_system_rows tsm_system_time bloom dict_int dict_xsyn
		postgis postgis_raster postgis_sfcgal postgis_topology address_standardizer h3 h3_postgis pg_bigm semver rum ip4r
		timescaledb hll periods temporal_tables plpgsql`)
	runners   = set("dblink tablefunc xml2 pgrouting http pg_net plsh pg_background pg_cron adminpack file_fdw postgres_fdw lo")
	languages = set("c internal sql")
	harmless  = set("uuid_generate_v1 uuid_generate_v1mc uuid_generate_v4 gen_random_uuid gen_random_bytes gen_salt system_rows system_time")
)

// identity are the functions of schema auth that row-level security is written with; they take nothing and tell callers
// about themselves.
var identity = set("uid role email jwt scopes")

// firstNormalOID is the first oid of what is not PostgreSQL's own (its access/transam.h).
const firstNormalOID = 16384

// function is what the catalog knows of a function.
type function struct {
	OID        uint32 `json:"oid"`
	Schema     string `json:"schema"`
	Name       string `json:"name"`
	Signature  string `json:"signature"`
	Volatility string `json:"volatility"`
	Language   string `json:"language"`
	Extension  string `json:"extension"`
	Args       int    `json:"args"`
	Part       bool   `json:"part"`
}

// relation is what the catalog knows of a relation.
type relation struct {
	OID       uint32 `json:"oid"`
	Schema    string `json:"schema"`
	Name      string `json:"name"`
	Extension string `json:"extension"`
	Protected bool   `json:"protected"`
	// Leaky tells of a view that reads as its owner, and does not keep conditions of a query from rows that it hides.
	Leaky bool `json:"leaky"`
	// Columns are those of a catalog that the statement reads.
	Columns []string `json:"columns"`
}

// catalog is what a statement refers to: the functions, those of its operators, and those that its aggregates consist
// of, since PostgreSQL calls every aggregate immutable. To what was found in the tree it adds what PostgreSQL itself noted
// as the dependencies of the function $4.
const catalog = `
	with noted as (select refclassid, refobjid from pg_depend where classid = 'pg_proc'::regclass and objid = $4::oid),
	asked as (
		select unnest($1::oid[]) as oid
		union select o.oprcode from pg_operator o
			where o.oid = any ($2::oid[]) or o.oid in (select refobjid from noted where refclassid = 'pg_operator'::regclass)
		union select refobjid from noted where refclassid = 'pg_proc'::regclass),
	called as (
		select oid, false as part from asked
		union select part, true from asked join pg_aggregate a on a.aggfnoid = asked.oid, unnest(array[a.aggtransfn, a.aggfinalfn,
			a.aggcombinefn, a.aggserialfn, a.aggdeserialfn, a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn]::oid[]) part
		where part <> 0)
	select json_build_object(
		'filters', (select json_agg(p.oid::bigint) from pg_proc p where not p.proleakproof and (
			p.oid = any ($6::oid[]) or p.oid in (select oprcode from pg_operator where oid = any ($7::oid[])))),
		'unknown', (select count(*) from called where oid not in (select oid from pg_proc))
			+ (select count(*) from unnest($2::oid[]) o where o not in (select oid from pg_operator)),
		'functions', (
			select json_agg(json_build_object('oid', p.oid::bigint, 'schema', n.nspname, 'name', p.proname, 'signature', p.oid::regprocedure::text,
				'volatility', p.provolatile, 'language', l.lanname, 'extension', e.extname, 'args', p.pronargs, 'part', c.part) order by p.oid)
			from called c join pg_proc p on p.oid = c.oid join pg_namespace n on n.oid = p.pronamespace join pg_language l on l.oid = p.prolang
			left join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
			left join pg_extension e on e.oid = d.refobjid),
		'relations', (
			select json_agg(json_build_object('oid', c.oid::bigint, 'schema', n.nspname, 'name', c.relname, 'extension', e.extname,
				'protected', c.relrowsecurity or c.relkind = 'v',
				'leaky', c.relkind = 'v' and c.oid >= 16384 and not exists (
					select from unnest(c.reloptions) o
					where o ~* '^security_(barrier|invoker)=(t|tr|tru|true|on|1|y|ye|yes)$'), 'columns', (
					select json_agg(a.attname) from pg_attribute a
					where a.attrelid = c.oid and c.oid < 16384 and not a.attisdropped and exists (
						select from json_to_recordset($5::json) r (relation oid, number int) where r.relation = c.oid and r.number in (0, a.attnum)))) order by c.oid)
			from pg_class c join pg_namespace n on n.oid = c.relnamespace
			left join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = c.oid and d.objsubid = 0 and d.deptype = 'e'
			left join pg_extension e on e.oid = d.refobjid
			where c.oid = any ($3::oid[]) or c.relkind <> 'c' and c.oid in (select refobjid from noted where refclassid = 'pg_class'::regclass)))`

// judge holds what a statement refers to against the rules.
func (s *session) judge(ctx context.Context, v *verdict, body string, refs *references, schemas []string, unbound bool) error {
	columns, err := json.Marshal(refs.columns)
	if err != nil {
		return fmt.Errorf("writing what a statement refers to: %w", err)
	}
	rows, err := s.query(ctx, catalog, oidArray(refs.functions), oidArray(refs.operators), oidArray(refs.relations), body, string(columns),
		oidArray(refs.filters.functions), oidArray(refs.filters.operators))
	if err != nil {
		return fmt.Errorf("reading what a statement refers to: %w", err)
	}
	var found struct {
		Filters   []uint32
		Unknown   int
		Functions []function
		Relations []relation
	}
	if err := json.Unmarshal([]byte(rows[0][0]), &found); err != nil {
		return fmt.Errorf("reading what a statement refers to: %w", err)
	}
	if found.Unknown > 0 {
		return errUnknown
	}
	if refs.roles && !unbound {
		return errRefused.Msgf("names of roles are not shown here")
	}
	leaks := !unbound && (refs.filters.leaks || len(found.Filters) > 0)
	for _, rel := range found.Relations {
		if err := rel.judge(schemas, unbound); err != nil {
			return err
		}
		v.guarded = v.guarded || rel.Protected
		if leaks && rel.Leaky && refs.ranges[rel.OID] > 0 {
			v.fences = append(v.fences, fence{schema: rel.Schema, name: rel.Name, count: refs.ranges[rel.OID]})
		}
	}
	for _, fn := range found.Functions {
		exposed, err := fn.judge(schemas, unbound)
		if err != nil {
			return err
		}
		if exposed && v.execute == "" {
			v.execute = fn.Signature
		}
	}
	return nil
}

// judge refuses what is in schemas that are not exposed, and extensions' own tables and views, which the tables API does
// not show either: pg_stat_statements has the statements of others. What PostGIS knows of the world is for everybody.
func (r *relation) judge(schemas []string, unbound bool) error {
	own := r.OID < firstNormalOID && (r.Schema == "pg_catalog" || r.Schema == "information_schema")
	switch {
	case own && deniedRelations[r.Name]:
		return errRefused.Msgf("%s is not shown here", r.Name)
	case own && !unbound:
		rule, ok := shownColumns[r.Name]
		if !ok {
			return errRefused.Msgf("%s is not shown here", r.Name)
		}
		for _, column := range r.Columns {
			if !rule.shows(column) {
				return errSecret.Msgf("the column %s is not shown here: there may be secrets in it", r.Name+"."+column)
			}
		}
		return nil
	case own:
		return nil
	case r.Extension != "" && !strings.HasPrefix(r.Extension, "postgis"):
		return errRefused.Msgf("%s belongs to the extension %s, whose tables and views are not shown here", r.Name, r.Extension)
	case slices.Contains(schemas, r.Schema):
		return nil
	}
	return errRefused.Msgf("the schema %s is not exposed", r.Schema).
		WithHint("exposed are " + strings.Join(schemas, ", ") + ", pg_catalog and information_schema")
}

// judge applies the rules to a function. exposed tells that it is one that the operations for procedures call as well.
func (f *function) judge(schemas []string, unbound bool) (exposed bool, err error) {
	volatile := f.Volatility == "v"
	refuse := func(why string) error {
		what := f.Signature
		if f.Part {
			what += ", which an aggregate or an operator uses,"
		}
		return errRefused.Msgf("%s is not allowed in a query: %s", what, why)
	}
	switch {
	case f.OID < firstNormalOID && f.Extension == "":
		switch {
		case (secretFunctions[f.Name] || strings.HasPrefix(f.Name, "pg_stat_get_db_") || strings.HasPrefix(f.Name, "pg_stat_get_backend")) && !unbound:
			return false, refuse("there may be secrets in what it shows")
		case denied[f.Name]:
			return false, refuse("it reads or changes what is not the caller's")
		case volatile && !allowed[f.Name]:
			return false, refuse("it is volatile, so it may change something or run other SQL")
		}
		return false, nil
	case f.Extension != "":
		switch {
		case runners[f.Extension]:
			return false, refuse("the extension " + f.Extension + " runs SQL that is given as text, or reaches out of the database")
		case volatile && (!extensions[f.Extension] || !harmless[f.Name]):
			return false, refuse("it is volatile, so it may change something")
		case !languages[f.Language]:
			return false, refuse("it is written in " + f.Language + ", so it may run SQL that is given as text")
		case f.Volatility == "s" && !extensions[f.Extension]:
			return false, refuse("stable functions of the extension " + f.Extension + " may run SQL that is given as text")
		}
		return false, nil
	case f.Schema == "auth" && identity[f.Name] && f.Args == 0 && !volatile:
		return false, nil
	case !slices.Contains(schemas, f.Schema):
		return false, refuse("the schema " + f.Schema + " is not exposed")
	case volatile:
		return false, errRefused.Msgf("%s is not allowed in a query: it is volatile, so it may change something", f.Signature).
			WithHint("call it by call_procedure, or have it declared stable if it only reads")
	}
	return true, nil
}

// oidArray writes oids as PostgreSQL reads an array.
func oidArray(oids map[uint32]bool) string {
	texts := make([]string, 0, len(oids))
	for _, oid := range slices.Sorted(maps.Keys(oids)) {
		texts = append(texts, strconv.FormatUint(uint64(oid), 10))
	}
	return arrayOf(texts)
}

func jsonList(items []string) string {
	data, _ := json.Marshal(items) // strings always have JSON
	return string(data)
}
