package pgcopy

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Options say what [Copy] copies and how.
type Options struct {
	// Source is the database to copy. The role owns it and what is in it, or
	// is a superuser; with an Owner, it may read all of it.
	Source *pgx.ConnConfig

	// Target is the database to copy into. It is empty, made from template0,
	// and on the same server.
	Target *pgx.ConnConfig

	// SchemaOnly leaves out all rows and large objects. Sequences are at their
	// start; materialised views that hold rows in the source are refreshed on
	// the empty tables.
	SchemaOnly bool

	// Jobs is the number of connections, to each of the databases, that copy
	// rows and build indexes at the same time. Zero means 2.
	Jobs int

	// PGDump is the path of a pg_dump of at least the server's major version.
	// If it is empty, the built-in schema reader is used.
	PGDump string

	// Owner, if not empty, is to own everything in the target, whoever owns it
	// in the source. The target's sessions run as this role. Privileges of
	// objects yet to be made are copied if they are this role's.
	Owner string

	// Grant executes the statements that set privileges of members of extensions
	// and of the system's objects, which Owner may not. Without it, and with an
	// Owner, they are not copied.
	Grant func(ctx context.Context, statements []string) error

	// Prepared are schemas and extensions that the target has already, or will
	// have when it is copied, named as in LeaveOut.
	Prepared []string

	// LeaveOut are objects that are neither copied nor compared, as kind and
	// identity with a space between: "event trigger audit". Nothing but each
	// other may depend on them. [PermissionError] and [Check] list them so.
	// With PGDump they can be event triggers, functions, publications and
	// extensions, but not tables, which pg_dump locks.
	LeaveOut []string

	// InSnapshot, if not nil, is called with a session in the source that sees
	// the moment that is copied, within its transaction.
	InSnapshot func(ctx context.Context, conn *pgx.Conn) error

	// Progress, if not nil, is called when a phase begins and while rows are
	// copied, by one goroutine at a time.
	Progress func(Progress)
}

// Phase is a part of the work of [Copy].
type Phase string

// The phases in their order. PhaseRows is left out if only the schema is copied.
const (
	PhaseSchema  Phase = "schema"  // reading the schema, creating types, tables and views
	PhaseRows    Phase = "rows"    // rows, large objects and sequences
	PhaseIndexes Phase = "indexes" // indexes, constraints, triggers, policies and the rest
	PhaseRefresh Phase = "refresh" // materialised views and planner statistics
	PhaseVerify  Phase = "verify"  // comparing the two databases
)

// Progress is how far a copy has come.
type Progress struct {
	Phase      Phase
	Tables     int   // tables whose rows are copied
	AllTables  int   // tables to copy rows of
	Rows       int64 // rows copied
	Bytes      int64 // bytes of these rows, as they were sent, and of large objects
	SourceSize int64 // size of the tables on disk; Bytes ends near it, not at it
}

// Result is what a copy has done.
type Result struct {
	Tables   int           // tables whose rows were copied
	Rows     int64         // rows in them
	Bytes    int64         // bytes of these rows, as they were sent, and of large objects
	Schema   string        // what wrote the schema: "pg_dump" or "builtin"
	Duration time.Duration // time it took
}

// UnsupportedError says that the source has objects that the built-in schema
// reader cannot recreate. Nothing was copied.
type UnsupportedError struct {
	Objects []string // what they are, as "operator class app.by_length for btree"
}

func (e *UnsupportedError) Error() string {
	list := e.Objects
	more := ""
	if len(list) > 10 {
		list, more = list[:10], ", …"
	}
	return "the database has objects that the built-in schema reader cannot copy: " + strings.Join(list, ", ") + more
}

// sourceChangedError is the failure of a copy that ran into a change of the
// source's schema.
type sourceChangedError struct{ err error }

func (e *sourceChangedError) Error() string {
	return "the schema of the source is being changed, try again: " + e.err.Error()
}

func (e *sourceChangedError) Unwrap() error { return e.err }

// Retryable reports whether a copy that failed with err may succeed if tried
// again, into a new target, since it met a change of the source's schema or a
// lock held for long by somebody else.
func Retryable(err error) bool {
	var changed *sourceChangedError
	if errors.As(err, &changed) {
		return true
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case "55P03", "40001", "40P01": // lock_not_available, serialization_failure, deadlock_detected
		return true
	}
	return false
}
