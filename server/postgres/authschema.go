package postgres

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// authVersion counts the changes of what follows; a database with a lower one is brought up to date.
const authVersion = 2

const createAuth = "create schema auth"

// authFunction is a function without arguments in schema auth.
type authFunction struct {
	name, comment, definition string
}

// claims is the request's claims. A setting that was made for a transaction only is empty, not null, for the rest of
// the session.
const claims = "nullif(current_setting('request.jwt.claims', true), '')::jsonb"

// The functions for policies, one expression each, so that the planner can put it in their place. The bodies are parsed
// when they are made: no search_path changes what they mean.
var authFunctions = []authFunction{
	{"jwt", "The claims of the caller's token, null where there is none.",
		"returns jsonb language sql stable parallel safe return " + claims},
	{"uid", "The id of the signed-in user, null where there is none. In policies: (select auth.uid()).",
		"returns uuid language sql stable parallel safe return substring(" + claims +
			" ->> 'sub' from '^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$')::uuid"},
	{"role", "The role of the caller, as the token names it.",
		"returns text language sql stable parallel safe return " + claims + " ->> 'role'"},
	// Some issuers send the claim as a string. An address that nobody has shown to be theirs is nobody's.
	{"email", "The mail address of the signed-in user, null unless it is verified (claim email_verified).",
		"returns text language sql stable parallel safe return case when " + claims + " ->> 'email_verified' = 'true'" +
			" then " + claims + " ->> 'email' end"},
	{"scopes", "What the caller's token is limited to, null where it is not.",
		// RFC 8693, section 4.2: one string, separated by spaces. Some issuers send a list.
		"returns text[] language sql stable parallel safe return case jsonb_typeof(" + claims + " -> 'scope')" +
			" when 'string' then string_to_array(nullif(" + claims + " ->> 'scope', ''), ' ')" +
			" when 'array' then (select array_agg(s) from jsonb_array_elements_text(" + claims + " -> 'scope') s) end"},
}

// notifyFunction tells of changes of the schema. Whatever happens in it, the statement that it is called for goes on.
// Temporary objects are nobody's business, and refreshing a view changes its rows only.
var notifyFunction = authFunction{"bough_notify_ddl", "Tells Bough that the schema has changed.", `returns event_trigger language plpgsql as $$
begin
    if tg_event = 'sql_drop' then
        if not exists (select from pg_catalog.pg_event_trigger_dropped_objects() o where o.original and not o.is_temporary) then
            return;
        end if;
    elsif not exists (
        select from pg_catalog.pg_event_trigger_ddl_commands() c
        where c.schema_name is distinct from 'pg_temp' and c.command_tag <> 'REFRESH MATERIALIZED VIEW')
    then
        return;
    end if;
    perform pg_catalog.pg_notify('` + DDLChannel + `', '');
exception when others then
    perform pg_catalog.pg_notify('` + DDLChannel + `', '');
end $$`}

// ddlTriggers are the event triggers by name.
var ddlTriggers = map[string]string{"bough_ddl_end": "ddl_command_end", "bough_ddl_drop": "sql_drop"}

// ddlTriggerNames are their names in order.
var ddlTriggerNames = []string{"bough_ddl_drop", "bough_ddl_end"}

// notOfCopies is what a copy from a snapshot does without, as package pgcopy names it. It belongs to a superuser, as
// whom few may copy, and is made anew in the copy where that is allowed.
var notOfCopies = []string{"event trigger bough_ddl_drop", "event trigger bough_ddl_end", "function auth.bough_notify_ddl()"}

// mark stands at the end of the comments, to tell Bough's objects and their version.
func mark(comment string) string { return fmt.Sprintf("%s [bough %d]", comment, authVersion) }

var marked = regexp.MustCompile(`\[bough (\d+)\]$`)

// statements create the function, or bring it up to date.
func (f authFunction) statements() []string {
	return []string{
		"create or replace function auth." + f.name + "()\n" + f.definition,
		"comment on function auth." + f.name + "() is " + literal(mark(f.comment)),
	}
}

// authState is what a database has of schema auth.
type authState struct {
	schema    bool
	functions map[string]foundFunction
	triggers  map[string]bool // whether the event trigger is on
}

type foundFunction struct {
	ours    bool
	version int
	super   bool // belongs to a superuser
}

// readAuth looks at the schema auth and the event triggers.
func readAuth(ctx context.Context, q querier) (authState, error) {
	s := authState{functions: map[string]foundFunction{}, triggers: map[string]bool{}}
	names := []string{notifyFunction.name}
	for _, f := range authFunctions {
		names = append(names, f.name)
	}
	err := q.QueryRow(ctx, "select exists (select from pg_namespace where nspname = 'auth')").Scan(&s.schema)
	if err != nil {
		return s, err
	}
	rows, err := q.Query(ctx, `
		select p.proname, coalesce(obj_description(p.oid, 'pg_proc'), ''), (select rolsuper from pg_roles r where r.oid = p.proowner)
		from pg_proc p join pg_namespace n on n.oid = p.pronamespace
		where n.nspname = 'auth' and p.pronargs = 0 and p.proname = any ($1)`, names)
	if err != nil {
		return s, err
	}
	var name, comment string
	var super bool
	_, err = pgx.ForEachRow(rows, []any{&name, &comment, &super}, func() error {
		f := foundFunction{super: super}
		if m := marked.FindStringSubmatch(comment); m != nil {
			f.ours = true
			f.version, _ = strconv.Atoi(m[1]) // digits
		}
		s.functions[name] = f
		return nil
	})
	if err != nil {
		return s, err
	}
	rows, err = q.Query(ctx, "select evtname, evtenabled in ('O', 'A') from pg_event_trigger where evtname = any ($1)", ddlTriggerNames)
	if err != nil {
		return s, err
	}
	var on bool
	_, err = pgx.ForEachRow(rows, []any{&name, &on}, func() error {
		s.triggers[name] = on
		return nil
	})
	return s, err
}

// notifies reports whether changes of the schema are told.
func (s authState) notifies() bool {
	for name := range ddlTriggers {
		if !s.triggers[name] {
			return false
		}
	}
	return true
}

// authSchema are the statements that create the schema. owner, if not empty, is to own it.
func authSchema(owner string) []string {
	return giveTo(owner, []string{
		createAuth,
		"grant usage on schema auth to public",
		"comment on schema auth is " + literal(mark("Who makes the request, for policies.")),
	}, "schema auth")
}

// giveTo adds the statement that gives an object to an owner, if there is one to give it to.
func giveTo(owner string, statements []string, what string) []string {
	if owner == "" {
		return statements
	}
	return append(statements, "alter "+what+" owner to "+ident(owner))
}

func (s authState) outdated(f authFunction) bool {
	have, ok := s.functions[f.name]
	return !ok || have.ours && have.version < authVersion
}

// repair returns the statements that make what is missing of the schema and the functions for policies, those together
// that need each other. What somebody else has made under the same name is left alone. owner, if not empty, is to own
// it: the copies of its databases are its own too.
func (s authState) repair(owner string) (groups [][]string) {
	if !s.schema {
		groups = append(groups, authSchema(owner))
	}
	for _, f := range authFunctions {
		if s.outdated(f) {
			groups = append(groups, giveTo(owner, f.statements(), "function auth."+f.name+"()"))
		}
	}
	return groups
}

// repairNotify returns the statements that make the event triggers and their function. The function is called in every
// role's statements, a superuser's included, so that whoever could replace it would have their powers: one that is not a
// superuser's makes way, with the triggers that call it.
func (s authState) repairNotify() (statements []string) {
	have, exists := s.functions[notifyFunction.name]
	replace := exists && !have.super
	if replace {
		statements = append(statements, "drop function auth."+notifyFunction.name+"() cascade")
	}
	if replace || s.outdated(notifyFunction) {
		statements = append(statements, notifyFunction.statements()...)
	}
	for _, name := range ddlTriggerNames {
		if _, ok := s.triggers[name]; replace || !ok {
			statements = append(statements, fmt.Sprintf("create event trigger %s on %s execute function auth.%s()", name, ddlTriggers[name], notifyFunction.name))
		}
	}
	return statements
}
