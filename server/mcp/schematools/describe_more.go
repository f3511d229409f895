package schematools

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/introspect"
)

// details are what the catalog says of a relation beyond the cached schema, as one JSON object. The parameters are $1 the
// relation, $2 the numbers of the columns that the caller sees or null for all, $3 the role whose policies are shown, ”
// for all roles'. What depends on a column that the caller does not see is left out. There may be secrets in the arguments and conditions of triggers, so
// that only those who see everything see them.
const details = `
with hidden as materialized (
  select a.attnum from pg_attribute a
  where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped and $2::int2[] is not null and a.attnum <> all ($2::int2[])
), veiled as materialized (
  select d.classid, d.objid from pg_depend d
  where d.refclassid = 'pg_class'::regclass and d.refobjid = $1 and d.refobjsubid in (select attnum from hidden)
)
select json_build_object(
  'forced', c.relforcerowsecurity,
  'generated', (
    select json_object_agg(a.attname, pg_get_expr(e.adbin, e.adrelid))
    from pg_attribute a join pg_attrdef e on e.adrelid = a.attrelid and e.adnum = a.attnum
    where a.attrelid = c.oid and a.attgenerated <> '' and not a.attisdropped
      and not exists (select from veiled v where v.classid = 'pg_attrdef'::regclass and v.objid = e.oid)),
  'foreign_keys', (
    select json_agg(json_build_object('name', k.conname, 'other', k.confrelid::bigint, 'columns', k.conkey, 'references', k.confkey,
      'on_delete', k.confdeltype, 'on_update', k.confupdtype) order by k.conname)
    from pg_constraint k where k.conrelid = c.oid and k.contype = 'f'),
  'referenced_by', (
    select json_agg(json_build_object('name', k.conname, 'other', k.conrelid::bigint, 'columns', k.confkey, 'references', k.conkey,
      'on_delete', k.confdeltype, 'on_update', k.confupdtype) order by k.conrelid::regclass::text, k.conname)
    from (select * from pg_constraint where confrelid = c.oid and contype = 'f' and conparentid = 0 limit 200) k),
  'constraints', (
    select json_agg(quote_ident(k.conname) || ' ' || pg_get_constraintdef(k.oid) order by position(k.contype in 'uxc'), k.conname)
    from pg_constraint k
    where k.conrelid = c.oid and k.contype in ('u', 'c', 'x')
      and not exists (select from veiled v where v.classid = 'pg_constraint'::regclass and v.objid = k.oid)),
  'indexes', (
    select json_agg(pg_get_indexdef(i.indexrelid) || case when i.indisvalid or x.relkind = 'I' then '' else ' -- not valid, not used' end
      || case when x.relkind = 'i' then ' -- ' || pg_size_pretty(pg_relation_size(x.oid)) else '' end order by not i.indisprimary, x.relname)
    from pg_index i join pg_class x on x.oid = i.indexrelid
    where i.indrelid = c.oid
      and not exists (select from veiled v where v.classid = 'pg_class'::regclass and v.objid = x.oid)
      and not exists (
        select from veiled v join pg_constraint k on v.classid = 'pg_constraint'::regclass and v.objid = k.oid where k.conindid = x.oid)),
  'policies', (
    select json_agg(concat_ws(' ', quote_ident(p.polname), case when not p.polpermissive then 'as restrictive' end, 'for',
      case p.polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'all' end,
      'to', (select string_agg(case when o = 0 then 'public' else quote_ident(pg_get_userbyid(o)) end, ', ' order by pg_get_userbyid(o)) from unnest(p.polroles) o),
      'using (' || pg_get_expr(p.polqual, p.polrelid) || ')', 'with check (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')') order by p.polname)
    from pg_policy p
    where p.polrelid = c.oid
      and case when $3::text = '' then true
        else exists (select from unnest(p.polroles) o where o = 0 or o in (select oid from pg_roles where rolname = $3))
          and not exists (
            select from pg_depend d
            where d.classid = 'pg_policy'::regclass and d.objid = p.oid and d.refclassid = 'pg_class'::regclass
              and not has_table_privilege($3, d.refobjid, 'select, insert, update, delete') and not has_any_column_privilege($3, d.refobjid, 'select')) end
      and not exists (select from veiled v where v.classid = 'pg_policy'::regclass and v.objid = p.oid)),
  'triggers', (
    select json_agg(case when $3 = '' then pg_get_triggerdef(t.oid) else concat(quote_ident(t.tgname), ' ', case when t.tgtype & 64 > 0 then 'instead of' when t.tgtype & 2 > 0 then 'before' else 'after' end, ' ',
      concat_ws(' or ', case when t.tgtype & 4 > 0 then 'insert' end, case when t.tgtype & 16 > 0 then 'update' end, case when t.tgtype & 8 > 0 then 'delete' end,
        case when t.tgtype & 32 > 0 then 'truncate' end), case when t.tgtype & 1 > 0 then ' for each row' else ' for each statement' end) end || case t.tgenabled when 'D' then ' -- disabled' else '' end order by t.tgname)
    from pg_trigger t
    where t.tgrelid = c.oid and not t.tgisinternal
      and not exists (select from veiled v where v.classid = 'pg_trigger'::regclass and v.objid = t.oid)),
  'partition_key', case when c.relkind = 'p' then pg_get_partkeydef(c.oid) else '' end,
  'partitions', case when c.relkind = 'p' then (
    select json_agg(p.line order by p.place)
    from (
      select row_number() over (order by l.relname) as place, quote_ident(l.relname) || ' ' || pg_get_expr(l.relpartbound, l.oid) as line
      from pg_inherits i join pg_class l on l.oid = i.inhrelid
      where i.inhparent = c.oid
    ) p
    where p.place <= 20) end,
  'view', case when c.relkind in ('v', 'm') and $3 = '' then pg_get_viewdef(c.oid) else '' end
)
from pg_class c
where c.oid = $1`

// catalogDetails are the result of details.
type catalogDetails struct {
	Forced       bool              `json:"forced"`
	Generated    map[string]string `json:"generated"`
	ForeignKeys  []catalogKey      `json:"foreign_keys"`
	Referenced   []catalogKey      `json:"referenced_by"`
	Constraints  []string          `json:"constraints"`
	Indexes      []string          `json:"indexes"`
	Policies     []string          `json:"policies"`
	Triggers     []string          `json:"triggers"`
	PartitionKey string            `json:"partition_key"`
	Partitions   []string          `json:"partitions"`
	View         string            `json:"view"`
}

// catalogKey is a foreign key, by numbers.
type catalogKey struct {
	Name       string `json:"name"`
	Other      uint32 `json:"other"`
	Columns    []int  `json:"columns"`
	References []int  `json:"references"`
	OnDelete   string `json:"on_delete"`
	OnUpdate   string `json:"on_update"`
}

// describeMore says what only the catalog knows.
func (v *view) describeMore(ctx context.Context, tx pgx.Tx, r *introspect.Relation, d *description) error {
	var visible []int16
	role := ""
	if !v.all() {
		visible, role = []int16{}, v.name
		for _, col := range r.Columns {
			if v.seesColumn(col) {
				visible = append(visible, int16(col.Position))
			}
		}
	}
	var found catalogDetails
	if err := tx.QueryRow(ctx, details, once, r.OID, visible, role).Scan(&found); err != nil {
		return err
	}
	if found.Forced && r.RowSecurity {
		d.RLS = "forced"
	}
	for i := range d.Columns {
		d.Columns[i].Generated = found.Generated[d.Columns[i].Name]
	}
	d.ForeignKeys = v.references(r, found.ForeignKeys, func(k catalogKey, own, other, table string) string {
		return fmt.Sprintf("%s (%s) references %s (%s)%s", k.Name, own, table, other, k.actions())
	})
	d.ReferencedBy = v.references(r, found.Referenced, func(k catalogKey, own, other, table string) string {
		return fmt.Sprintf("%s: %s (%s) references (%s)%s", k.Name, table, other, own, k.actions())
	})
	d.Constraints, d.Indexes, d.Policies, d.Triggers, d.PartitionKey, d.Partitions, d.View = found.Constraints, found.Indexes, found.Policies, found.Triggers, found.PartitionKey, found.Partitions, found.View
	return nil
}

// referential are what a foreign key does; the default is not worth a word.
var referential = map[string]string{"r": "restrict", "c": "cascade", "n": "set null", "d": "set default"}

// actions are what is done with rows whose key is deleted or changed.
func (k catalogKey) actions() string {
	var out string
	if a := referential[k.OnDelete]; a != "" {
		out += " on delete " + a
	}
	if a := referential[k.OnUpdate]; a != "" {
		out += " on update " + a
	}
	return out
}

// references writes the foreign keys whose both ends the caller sees.
func (v *view) references(r *introspect.Relation, keys []catalogKey, write func(k catalogKey, own, other, table string) string) []string {
	var out []string
	for _, k := range keys {
		other := v.RelationByOID(k.Other)
		if !v.sees(other) {
			continue
		}
		columns, ok := v.columnNames(r, k.Columns)
		references, okToo := v.columnNames(other, k.References)
		if ok && okToo {
			out = append(out, write(k, strings.Join(columns, ", "), strings.Join(references, ", "), v.short(other)))
		}
	}
	return out
}

// columnNames names columns by their numbers, unless the caller does not see one of them.
func (v *view) columnNames(r *introspect.Relation, numbers []int) ([]string, bool) {
	var names []string
	for _, n := range numbers {
		for _, col := range r.Columns {
			if col.Position == n && v.seesColumn(col) {
				names = append(names, col.Name)
			}
		}
	}
	return names, len(names) == len(numbers)
}
