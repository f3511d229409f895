package pgcopy

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// dumped creates the schema from what pg_dump has written.
type dumped struct {
	pre, post, triggers []string // statements
}

var (
	// The session has its own settings, and not all of a newer pg_dump's are
	// known to an older server.
	setting = regexp.MustCompile(`^(SET (statement_timeout|lock_timeout|idle_in_transaction_session_timeout|transaction_timeout|client_encoding|` +
		`standard_conforming_strings|check_function_bodies|xmloption|client_min_messages|row_security) |SELECT pg_catalog\.set_config\('search_path')`)
	// Materialised views are refreshed in the end, passwords for other
	// servers are not copied.
	leftOut          = regexp.MustCompile(`^(REFRESH MATERIALIZED VIEW|CREATE USER MAPPING) `)
	eventTrigger     = regexp.MustCompile(`^(CREATE|ALTER|COMMENT ON) EVENT TRIGGER `)
	extensionComment = regexp.MustCompile(`^COMMENT ON EXTENSION (` + identifier + `) IS `)
	extension        = regexp.MustCompile(`^CREATE EXTENSION IF NOT EXISTS (` + identifier + `) `)
	createSchema     = regexp.MustCompile(`^CREATE SCHEMA (` + identifier + `)$`)
	sessionRole      = regexp.MustCompile(`^SET SESSION AUTHORIZATION (.*)$`)
	tablespace       = regexp.MustCompile(`^SET default_tablespace = (.*)$`)
	createIndex      = regexp.MustCompile(`^CREATE (?:UNIQUE )?INDEX ` + identifier + ` ON (?:ONLY )?(` + qualified + `) USING `)
	addKey           = regexp.MustCompile(`^ALTER TABLE (?:ONLY )?(` + qualified + `)\s+ADD CONSTRAINT ` + identifier + ` (?:PRIMARY KEY|UNIQUE|EXCLUDE) `)
	addForeignKey    = regexp.MustCompile(`^ALTER TABLE (?:ONLY )?(` + qualified + `)\s+ADD CONSTRAINT ` + identifier + ` FOREIGN KEY \(.*\) REFERENCES (` + qualified + `)\(`)
	columnOption     = regexp.MustCompile(`^(ALTER (?:FOREIGN TABLE|TABLE|MATERIALIZED VIEW) (?:ONLY )?` + qualified + ` ALTER COLUMN ` + identifier + ` SET) \((.*)\)$`)
	follower         = regexp.MustCompile(`^(ALTER INDEX |COMMENT ON (INDEX|CONSTRAINT) |ALTER TABLE (ONLY )?` + qualified + `\s+(CLUSTER ON|REPLICA IDENTITY) )`)
)

const (
	identifier = `(?:"(?:[^"]|"")+"|[^\s"(.;]+)`
	qualified  = identifier + `\.` + identifier
)

// newDumped sorts out the statements of the two sections of a dump. leaveOut
// are the objects to do without, prepared those that the target has.
func newDumped(pre, post string, cat *catalog, leaveOut, prepared []string) *dumped {
	extensions, schemas := map[string]string{}, map[string][]string{}
	for _, it := range cat.items {
		switch it.kind {
		case "extension":
			extensions[it.identity] = it.create[0]
		case "schema":
			schemas[it.identity] = it.after
		}
	}
	d := &dumped{}
	unwanted := about(leaveOut)
	for i, script := range []string{pre, post} {
		for _, statement := range splitScript(script) {
			if slices.ContainsFunc([]*regexp.Regexp{extension, extensionComment, createSchema}, func(r *regexp.Regexp) bool {
				m := r.FindStringSubmatch(statement)
				return m != nil && slices.Contains(prepared, preparedKind(r)+m[1])
			}) {
				continue
			}
			if m := extension.FindStringSubmatch(statement); m != nil && extensions[m[1]] != "" {
				statement = extensions[m[1]] // with the version
			}
			// Only superusers may change the session's user, and a role
			// will do.
			if m := sessionRole.FindStringSubmatch(statement); m != nil {
				statement = "SET ROLE " + m[1]
			} else if statement == "RESET SESSION AUTHORIZATION" {
				statement = "RESET ROLE"
			}
			statement = usersOptions(statement)
			switch {
			case statement == "":
			case setting.MatchString(statement) || leftOut.MatchString(statement):
			case len(leaveOut) > 0 && unwanted.MatchString(statement):
			case eventTrigger.MatchString(statement):
				d.triggers = append(d.triggers, statement)
			case i == 0:
				d.pre = append(d.pre, statement)
				// pg_dump gives privileges last, but to own an object in
				// a schema a role needs one. Giving it twice does no harm.
				if m := createSchema.FindStringSubmatch(statement); m != nil {
					d.pre = append(d.pre, schemas[m[1]]...)
				}
			default:
				d.post = append(d.post, statement)
			}
		}
	}
	return d
}

func (d *dumped) before(ctx context.Context, conn *pgx.Conn) error {
	return runInOrder(ctx, conn, plainSteps(d.pre))
}

func (d *dumped) last(ctx context.Context, conn *pgx.Conn) error {
	return runInOrder(ctx, conn, plainSteps(d.triggers))
}

// after keeps pg_dump's order, except that what it has put in a row of indexes
// and keys, or of foreign keys, is created in parallel, and followed by what
// was said about these indexes in between.
func (d *dumped) after(ctx context.Context, conns []*pgx.Conn) error {
	const (
		plain = iota
		index
		foreign
	)
	kind := plain // of the row
	var parallel, follow []step
	flush := func() error {
		if err := runParallel(ctx, conns, parallel); err != nil {
			return err
		}
		err := runInOrder(ctx, conns[0], follow)
		parallel, follow = nil, nil
		return err
	}
	space := "''"
	for _, statement := range d.post {
		if m := tablespace.FindStringSubmatch(statement); m != nil {
			space = m[1]
			continue
		}
		s := step{name: title(statement), statements: []string{statement}}
		if space != "''" {
			s.statements = []string{"SET default_tablespace = " + space, statement, "SET default_tablespace = ''"}
		}
		is := plain
		if m := createIndex.FindStringSubmatch(statement); m != nil {
			is, s.tables, s.shared = index, m[1:], true
		} else if m := addKey.FindStringSubmatch(statement); m != nil {
			is, s.tables = index, m[1:]
		} else if m := addForeignKey.FindStringSubmatch(statement); m != nil {
			is, s.tables = foreign, m[1:]
		} else if follower.MatchString(statement) {
			follow = append(follow, s)
			continue
		}
		if is != kind {
			if err := flush(); err != nil {
				return err
			}
			kind = is
		}
		if is == plain {
			follow = append(follow, s)
		} else {
			parallel = append(parallel, s)
		}
	}
	return flush()
}

// usersOptions removes from a statement that sets options of a column those that
// are the server's own. A pg_dump older than the server's patch release takes
// them for the user's. It returns "" if nothing is left.
func usersOptions(statement string) string {
	m := columnOption.FindStringSubmatch(statement)
	if m == nil || !strings.Contains(m[2], "pg_") {
		return statement
	}
	options := slices.DeleteFunc(strings.Split(m[2], ", "), func(o string) bool { return strings.HasPrefix(o, "pg_") })
	if len(options) == 0 {
		return ""
	}
	return m[1] + " (" + strings.Join(options, ", ") + ")"
}

// about matches the statements about objects, as kind and identity. The kinds
// are those that pg_dump calls by the same name, in capitals.
func about(objects []string) *regexp.Regexp {
	names := make([]string, len(objects))
	for i, o := range objects {
		at := strings.IndexFunc(o, func(r rune) bool { return r == '.' || r == '"' })
		if at < 0 {
			at = len(o)
		}
		at = strings.LastIndexByte(o[:at], ' ') + 1
		names[i] = strings.ToUpper(o[:at]) + `(?:IF NOT EXISTS )?` + regexp.QuoteMeta(o[at:])
	}
	return regexp.MustCompile(`^(CREATE|ALTER|COMMENT ON|(GRANT|REVOKE) \w+ ON) (` + strings.Join(names, "|") + `)(\s|$)`)
}

// preparedKind is the kind of object that the expression finds.
func preparedKind(r *regexp.Regexp) string {
	if r == createSchema {
		return "schema "
	}
	return "extension "
}

// plainSteps makes each statement a step.
func plainSteps(statements []string) []step {
	steps := make([]step, len(statements))
	for i, s := range statements {
		steps[i] = step{name: title(s), statements: statements[i : i+1]}
	}
	return steps
}

// title is the beginning of a statement, to name it by.
func title(statement string) string {
	words := strings.Fields(statement)
	n := slices.IndexFunc(words, func(w string) bool { return w == "AS" || strings.HasSuffix(w, "(") })
	if n < 0 || n > 8 {
		n = min(len(words), 8)
	}
	return strings.Join(words[:n], " ")
}
