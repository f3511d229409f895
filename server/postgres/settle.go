package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// settle carries over what belongs to the database itself and is not in it: settings and connection limit. It then takes
// out what would let a branch reach other databases. What the role may not do becomes a warning.
func (c *Cluster) settle(ctx context.Context, conn *pgx.Conn, r CloneRequest, src source, strategy Strategy) (warnings []string, err error) {
	statements, err := settings(ctx, conn, r)
	if err != nil {
		return nil, err
	}
	if src.connLimit >= 0 {
		statements = append(statements, fmt.Sprintf("alter database %s connection limit %d", ident(r.Target), src.connLimit))
	}
	warnings, err = carryOver(ctx, conn, statements)
	if err != nil {
		return warnings, err
	}
	more, err := c.cutUserMappings(ctx, r, strategy)
	return append(warnings, more...), err
}

// carryOver executes the statements. Those that the role may not execute become warnings.
func carryOver(ctx context.Context, conn *pgx.Conn, statements []string) (warnings []string, err error) {
	for _, stmt := range statements {
		if _, err := conn.Exec(ctx, stmt); hasCode(err, "42501") { // insufficient_privilege
			warnings = append(warnings, fmt.Sprintf("not carried over, since the role may not: %s", stmt))
		} else if err != nil {
			return warnings, fmt.Errorf("%s: %w", stmt, err)
		}
	}
	return warnings, nil
}

// settings returns the ALTER statements for the source's ALTER DATABASE … SET and ALTER ROLE … IN DATABASE … SET.
func settings(ctx context.Context, conn *pgx.Conn, r CloneRequest) ([]string, error) {
	rows, err := conn.Query(ctx, `
		select case when s.setrole = 0 then '' else pg_get_userbyid(s.setrole) end, unnest(s.setconfig)
		from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase
		where d.datname = $1
		order by 1`, r.Source)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var role, setting string
		if err := row.Scan(&role, &setting); err != nil {
			return "", err
		}
		name, value, _ := strings.Cut(setting, "=")
		subject := "alter database " + ident(r.Target)
		if role != "" {
			subject = "alter role " + ident(role) + " in database " + ident(r.Target)
		}
		return subject + " set " + quoteParameter(name) + " to " + settingValue(name, value), nil
	})
}

// Parameters whose value is a list of names, quoted one by one (GUC_LIST_QUOTE in PostgreSQL's guc_tables.c).
var listParameters = map[string]bool{
	"local_preload_libraries": true, "search_path": true, "session_preload_libraries": true,
	"shared_preload_libraries": true, "temp_tablespaces": true, "unix_socket_directories": true,
}

func settingValue(name, value string) string {
	if !listParameters[strings.ToLower(name)] {
		return literal(value)
	}
	items := splitNames(value)
	for i, item := range items {
		items[i] = literal(item)
	}
	if len(items) == 0 {
		return "''"
	}
	return strings.Join(items, ", ")
}

// splitNames splits a list of names as PostgreSQL stores it: separated by commas, quoted where needed. What is not
// quoted is in lower case, whatever it looks like (SplitIdentifierString in PostgreSQL's varlena.c).
func splitNames(list string) []string {
	var out []string
	var item strings.Builder
	quoted, seen := false, false
	for i := 0; i < len(list); i++ {
		switch ch := list[i]; {
		case ch == '"' && quoted && i+1 < len(list) && list[i+1] == '"':
			item.WriteByte('"')
			i++
		case ch == '"':
			quoted = !quoted
			seen = true
		case ch == ',' && !quoted:
			out = append(out, item.String())
			item.Reset()
			seen = true
		case strings.IndexByte(" \t\n\r\v\f", ch) >= 0 && !quoted:
		case ch >= 'A' && ch <= 'Z' && !quoted:
			item.WriteByte(ch - 'A' + 'a')
			seen = true
		default:
			item.WriteByte(ch)
			seen = true
		}
	}
	if seen {
		out = append(out, item.String())
	}
	return out
}

// quoteParameter quotes a parameter's name; the parts of a custom one (app.tenant) are names of their own.
func quoteParameter(name string) string {
	return pgx.Identifier(strings.Split(name, ".")).Sanitize()
}

// grants returns the statements that give the target the source's privileges, but for those of the roles that Bough logs
// in as. Without an ACL the defaults hold.
func (c *Cluster) grants(ctx context.Context, conn *pgx.Conn, r CloneRequest, src source) ([]string, error) {
	if !src.acl {
		return nil, nil
	}
	rows, err := conn.Query(ctx, `
		select case when a.grantee = 0 then '' else pg_get_userbyid(a.grantee) end, a.privilege_type, a.is_grantable
		from pg_database d, aclexplode(d.datacl) a
		where d.datname = $1 and a.grantee <> d.datdba and not starts_with(case when a.grantee = 0 then '' else pg_get_userbyid(a.grantee) end, $2)
		order by 1, 2`, r.Source, c.names.prefix)
	if err != nil {
		return nil, err
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var grantee, privilege string
		var grantable bool
		if err := row.Scan(&grantee, &privilege, &grantable); err != nil {
			return "", err
		}
		to := "public"
		if grantee != "" {
			to = ident(grantee)
		}
		stmt := "grant " + privilege + " on database " + ident(r.Target) + " to " + to
		if grantable {
			stmt += " with grant option"
		}
		return stmt, nil
	})
	return append([]string{"revoke all on database " + ident(r.Target) + " from public"}, out...), err
}

// cutUserMappings takes the passwords of foreign servers out of the copy, and says which. Copying from a snapshot has
// left them out already.
func (c *Cluster) cutUserMappings(ctx context.Context, r CloneRequest, strategy Strategy) (warnings []string, err error) {
	database := r.Target
	switch {
	case strategy == StrategyCopy || strategy == StrategyImage:
		database = r.Source
	case c.cfg.KeepUserMappings:
		return nil, nil
	}
	conn, err := c.connect(ctx, database, r.op())
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, `
		select srvname, case when umuser = 0 then '' else usename end from pg_user_mappings order by 1, 2`)
	if err != nil {
		return nil, err
	}
	type mapping struct{ Server, User string }
	mappings, err := pgx.CollectRows(rows, pgx.RowToStructByPos[mapping])
	if err != nil {
		return nil, err
	}
	reason := "so that the branch cannot reach it"
	if c.cfg.KeepUserMappings {
		reason = "since a copy from a snapshot cannot have it"
	}
	for _, m := range mappings {
		user := "public"
		if m.User != "" {
			user = ident(m.User)
		}
		if database == r.Target {
			if _, err := conn.Exec(ctx, "drop user mapping for "+user+" server "+ident(m.Server)); err != nil {
				return warnings, fmt.Errorf("taking out the user mapping for server %q: %w", m.Server, err)
			}
		}
		warnings = append(warnings, fmt.Sprintf("the user mapping of %s for foreign server %s was left out, %s", user, m.Server, reason))
	}
	return warnings, nil
}
