package readsql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/fault"
)

// verdict is what is known of a statement that may run.
type verdict struct {
	// body is the statement as PostgreSQL writes it from the tree that was judged. Its names mean the same as in the tree
	// as long as path is the search_path.
	body, path string
	params     []param
	columns    []Column
	// execute names a function of the exposed schemas that the statement calls; "" for none.
	execute string
	// guarded is true where row-level security or a view may keep rows from the caller.
	guarded bool
	// fences are views whose rows must be filtered by the view before anything of the statement sees them.
	fences []fence
}

// check has PostgreSQL analyse a statement, and judges it. Nothing of the statement runs, and nothing of the check stays.
func (s *session) check(ctx context.Context, q *Query, schemas []string) (*verdict, error) {
	if strings.ContainsRune(q.SQL, 0) {
		return nil, fault.Validation("the statement has a zero byte in it")
	}
	defer s.end(ctx)
	if _, err := s.run(ctx, statement{sql: "begin read write"}, s.settings()); err != nil {
		var e *pgconn.PgError
		if errors.As(err, &e) && e.Code == "0A000" {
			return nil, errNoTemp.Msgf("SQL statements cannot be checked on a standby, so none are run")
		}
		return nil, fmt.Errorf("setting up a transaction: %w", err)
	}
	v := &verdict{}
	var err error
	if v.path, err = s.searchPath(ctx, q.Caller.Role, schemas); err != nil {
		return nil, err
	}
	types, err := s.describe(ctx, q, v)
	if err != nil {
		return nil, err
	}
	_, err = s.query(ctx, "create function pg_temp.bough_check("+strings.Join(types, ", ")+") returns void language sql begin atomic "+q.SQL+"\n; end")
	if err != nil {
		return nil, uncreated(err)
	}
	made, err := s.query(ctx, `select p.oid, p.prosqlbody::text, pg_get_function_sqlbody(p.oid)
		from pg_proc p where p.proname = 'bough_check' and p.pronamespace = pg_my_temp_schema()`)
	if err != nil {
		return nil, fmt.Errorf("reading the tree of a statement: %w", err)
	}
	if len(made) != 1 {
		return nil, errNotSelect
	}
	oid, tree, body := made[0][0], made[0][1], made[0][2]
	parsed, err := parseTree(tree)
	if err != nil {
		return nil, err
	}
	refs, err := walk(parsed)
	if err != nil {
		return nil, err
	}
	if err := s.judge(ctx, v, oid, refs, schemas, q.Caller.Unbound); err != nil {
		return nil, err
	}
	if len(v.fences) > 0 {
		// With no schema in the path, all names are qualified.
		qualified, err := s.query(ctx, `select pg_get_function_sqlbody($1::oid) from set_config('search_path', '', true) offset 0`, oid)
		if err != nil {
			return nil, fmt.Errorf("writing a statement: %w", err)
		}
		if body, err = fenced(qualified[0][0], v.fences); err != nil {
			return nil, err
		}
	}
	body, begins := strings.CutPrefix(strings.TrimSpace(body), "BEGIN ATOMIC\n")
	body, ends := strings.CutSuffix(body, ";\nEND")
	if !begins || !ends {
		return nil, errors.New("PostgreSQL writes the body of a function in an unknown form")
	}
	v.body = body
	return v, nil
}

// searchPath makes and sets the path by which names are found: the exposed schemas, then the session's own. PostgreSQL
// skips schemas that a role may not use, so only those are in it that both the caller and Bough may: names mean the same
// for both. The temporary schema, which PostgreSQL would look into first, comes last.
func (s *session) searchPath(ctx context.Context, role string, schemas []string) (string, error) {
	rows, err := s.query(ctx, `
		select set_config('search_path', coalesce(string_agg(quote_ident(n.nspname), ', ' order by p.place) || ', ', '') || 'pg_temp', true),
			has_database_privilege(current_database(), 'temporary'), quote_ident(current_database()), quote_ident(current_user)
		from (select name, min(place) as place from unnest(array(select * from json_array_elements_text($1::json)) || current_schemas(false)) with ordinality p (name, place) group by 1) p
		join pg_namespace n on n.nspname = p.name::name
		where n.nspname !~ '^pg_' and has_schema_privilege(n.oid, 'usage') and has_schema_privilege(coalesce(nullif($2, ''), current_user)::name, n.oid, 'usage')`,
		jsonList(schemas), role)
	switch {
	case err != nil:
		return "", fmt.Errorf("making the search path: %w", err)
	case rows[0][1] != "t":
		return "", errNoTemp.WithHint(fmt.Sprintf("the operator can allow it: grant temporary on database %s to %s", rows[0][2], rows[0][3]))
	}
	return rows[0][0], nil
}

// describe has PostgreSQL parse the statement as the caller, who so learns what is wrong with it in words about her own
// text, and finds out its parameters and columns. It returns the types of the parameters as SQL.
func (s *session) describe(ctx context.Context, q *Query, v *verdict) ([]string, error) {
	if _, err := s.query(ctx, "savepoint own"); err != nil {
		return nil, fmt.Errorf("setting a savepoint: %w", err)
	}
	if err := s.take(ctx, q.Caller.Role); err != nil {
		return nil, err
	}
	d, err := s.conn.Prepare(ctx, "", q.SQL, nil)
	if err != nil {
		var e *pgconn.PgError
		if errors.As(err, &e) && e.Code == "42601" && strings.Contains(e.Message, "multiple commands") {
			return nil, errNotSelect
		}
		return nil, placed(err, q.SQL)
	}
	if _, err := s.query(ctx, "rollback to savepoint own"); err != nil { // to the connection's own role
		return nil, fmt.Errorf("returning to a savepoint: %w", err)
	}
	v.columns = make([]Column, len(d.Fields))
	oids, mods := make([]string, 0, len(d.Fields)+len(d.ParamOIDs)), make([]string, 0, len(d.Fields)+len(d.ParamOIDs))
	for _, oid := range d.ParamOIDs {
		oids, mods = append(oids, strconv.FormatUint(uint64(oid), 10)), append(mods, "-1")
	}
	for i := range d.Fields {
		v.columns[i].Name = d.Fields[i].Name
		oids = append(oids, strconv.FormatUint(uint64(d.Fields[i].DataTypeOID), 10))
		mods = append(mods, strconv.Itoa(int(d.Fields[i].TypeModifier)))
	}
	rows, err := s.query(ctx, `
		select format_type(o.oid, nullif(o.mod, -1)), t.typcategory, coalesce(e.typdelim, ',')
		from unnest($1::oid[], $2::int[]) with ordinality o (oid, mod, place)
		join pg_type t on t.oid = o.oid left join pg_type e on e.oid = t.typelem
		order by o.place`, arrayOf(oids), arrayOf(mods))
	if err != nil {
		return nil, fmt.Errorf("reading the types of a statement: %w", err)
	}
	if len(rows) != len(oids) {
		return nil, errors.New("the types of a statement are not in the catalog")
	}
	types := make([]string, len(d.ParamOIDs))
	for i, row := range rows {
		if i < len(types) {
			types[i] = row[0]
			v.params = append(v.params, param{oid: d.ParamOIDs[i], name: row[0], array: row[1] == "A", delimiter: row[2]})
		} else {
			v.columns[i-len(types)].Type = row[0]
		}
	}
	return types, nil
}

func arrayOf(items []string) string { return "{" + strings.Join(items, ",") + "}" }

// uncreated explains why a statement that was parsed before is not the body of a function: it is none that only reads.
// Errors of that are of class 0A or 42; others come from the server's state.
func uncreated(err error) error {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code {
	case "0A000", "42601", "42P13", "42P03":
		return errNotSelect
	}
	return explained(err)
}
