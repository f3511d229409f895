package schematools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/mcp"
)

type advisorArgs struct {
	Kind string `json:"kind,omitempty" schema:"enum=security|performance"`
}

type advisorResult struct {
	Findings []finding `json:"findings"`
	// Total counts those that were left out of a long list too.
	Total int `json:"total"`
}

type finding struct {
	Level   string `json:"level"`
	Kind    string `json:"kind"`
	Code    string `json:"code"`
	Object  string `json:"object"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// advisor is one thing that is looked for. Its query gives for each finding the oid of the relation or the function that it
// is about (0 for the schema itself), the object's name, a message and a remedy; level may be overruled by a fifth value
// that is not ”.
type advisor struct {
	kind, level, code string
	query             string
}

// maxFindings bounds an answer. Of one code no more than maxAlike are shown, so that none hides the others.
const (
	maxFindings = 100
	maxAlike    = 20
)

var levels = []string{"error", "warning", "info"}

func (s *service) advisors(ctx context.Context, c *mcp.Call, in advisorArgs) (*mcp.Result, error) {
	v, err := s.view(ctx, c)
	if err != nil {
		return nil, err
	}
	var found []finding
	err = s.inspectAll(ctx, c.Database, func(tx pgx.Tx) error {
		for _, a := range slices.Concat(securityAdvisors, performanceAdvisors) {
			if in.Kind != "" && in.Kind != a.kind {
				continue
			}
			more, err := s.ask(ctx, tx, a, v, c.Principal.Admin)
			if err != nil {
				return fmt.Errorf("%s: %w", a.code, err)
			}
			found = append(found, more...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(found, func(a, b finding) int {
		return cmp.Or(cmp.Compare(slices.Index(levels, a.Level), slices.Index(levels, b.Level)), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Object, b.Object))
	})
	out := advisorResult{Total: len(found), Findings: []finding{}}
	alike := map[string]int{}
	for _, f := range found {
		if alike[f.Code]++; alike[f.Code] <= maxAlike && len(out.Findings) < maxFindings {
			out.Findings = append(out.Findings, f)
		}
	}
	return &mcp.Result{Structured: out, Untrusted: true, Summary: tally(found, len(out.Findings))}, nil
}

// tally counts the findings by level.
func tally(found []finding, shown int) string {
	if len(found) == 0 {
		return "Nothing to find fault with."
	}
	counts := map[string]int{}
	for _, f := range found {
		counts[f.Level]++
	}
	var parts []string
	for _, l := range levels {
		if counts[l] > 0 {
			parts = append(parts, fmt.Sprintf("%d × %s", counts[l], l))
		}
	}
	text := strings.Join(parts, ", ") + "."
	if shown < len(found) {
		text += fmt.Sprintf(" %d are shown; there are more like them.", shown)
	}
	return text
}

// ask returns what an advisor finds about things that the caller sees; administrators see everything.
func (s *service) ask(ctx context.Context, tx pgx.Tx, a advisor, v *view, admin bool) ([]finding, error) {
	callers := []string{}
	for _, role := range []string{s.Roles.Anon, s.Roles.Authenticated} {
		if role != "" {
			callers = append(callers, role)
		}
	}
	rows, err := tx.Query(ctx, advised+a.query, once, s.ExposedSchemas, callers)
	if err != nil {
		return nil, err
	}
	seen := map[uint32]bool{0: true}
	for _, f := range v.functions("") {
		seen[f.OID] = true
	}
	var out []finding
	var about uint32
	f := finding{}
	var level string
	_, err = pgx.ForEachRow(rows, []any{&about, &f.Object, &f.Message, &f.Remedy, &level}, func() error {
		if !admin && !seen[about] && !v.sees(v.RelationByOID(about)) {
			return nil
		}
		f.Level, f.Kind, f.Code = cmp.Or(level, a.level), a.kind, a.code
		f.Message, f.Remedy = cut(f.Message, 600), cut(f.Remedy, 600)
		out = append(out, f)
		return nil
	})
	return out, err
}

// advised begins the advisors' queries. The parameters are $1 the exposed schemas and $2 the roles of requests without a
// service key. Relations are those of the exposed schemas that belong to no extension, reached those among them on which
// one of the roles has privileges, which may says in words.
const advised = `
with callers as materialized (
  select oid, quote_ident(rolname) as name from pg_roles where rolname = any ($2::text[])
), relations as materialized (
  select c.*, c.oid::regclass::text as name
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = any ($1::text[]) and c.relkind in ('r', 'p', 'v', 'm', 'f')
    and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
), reached as materialized (
  select r.oid, string_agg(x.name || ' may ' || x.may, ', ' order by x.name) as may, bool_or(x.changes) as changes, bool_or(x.reads) as reads
  from relations r
  cross join lateral (
    select a.name, concat_ws('/', case when p.s then 'select' end, case when p.i then 'insert' end, case when p.u then 'update' end, case when p.d then 'delete' end) as may,
      p.i or p.u or p.d as changes, p.s as reads
    from callers a
    cross join lateral (
      select has_table_privilege(a.oid, r.oid, 'select') or has_any_column_privilege(a.oid, r.oid, 'select') as s,
        has_table_privilege(a.oid, r.oid, 'insert') or has_any_column_privilege(a.oid, r.oid, 'insert') as i,
        has_table_privilege(a.oid, r.oid, 'update') or has_any_column_privilege(a.oid, r.oid, 'update') as u,
        has_table_privilege(a.oid, r.oid, 'delete') as d
    ) p
    where has_schema_privilege(a.oid, r.relnamespace, 'usage') and (p.s or p.i or p.u or p.d)
  ) x
  group by r.oid
)`
