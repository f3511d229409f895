package readsql

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/fault"
)

// Errors of statements.
var (
	errNotSelect = fault.New(fault.Invalid, "validation_error", "only one SELECT, VALUES, TABLE or WITH … SELECT is run").
			WithHint("nothing can be changed, locked or configured here; records are written by the operations for records")
	errRefused = fault.New(fault.Forbidden, "access_denied", "the statement uses something that is not allowed here")
	errSecret  = errRefused.WithHint("name the columns that you need instead of *")
	errScope   = fault.New(fault.Forbidden, "access_denied", "the scope execute:rpc is needed")
	errUnknown = fault.New(fault.Forbidden, "access_denied", "the statement uses a feature that cannot be checked").
			WithHint("write the statement without it")
	errTimeout = fault.New(fault.Unavailable, "57014", "the statement took too long and was given up").
			WithHint("ask for less, by conditions and limit; an index may help").Retry(5 * time.Second)
	errCrowded = fault.New(fault.RateLimited, "rate_limited", "too many SQL statements run at the same time").
			WithHint("run them one after the other").Retry(time.Second)
	errTooMuch = fault.New(fault.Invalid, "53400", "the statement needs more than it may use").
			WithHint("ask for less, by conditions and limit")
	errNoTemp = fault.New(fault.Unavailable, "unavailable", "SQL statements cannot be checked in this database, so none are run")
	errTooBig = fault.New(fault.Invalid, "too_large", "the first row of the result is too large").
			WithHint("select fewer columns, or parts of them")
)

// explained turns an error of PostgreSQL about the caller's statement into one for her. Others stay as they are, also
// those about statements of this package, which are wrapped.
func explained(err error) error {
	if e, ok := err.(*pgconn.PgError); ok {
		return shown(e)
	}
	return err
}

// shown is an error of PostgreSQL as the caller sees it.
func shown(e *pgconn.PgError) *fault.Error {
	switch e.Code {
	case "57014":
		return errTimeout
	case "53200": // the limit of the process
		return errTooMuch.Msgf("the statement needs more memory than it may use")
	case "53400": // temp_file_limit and the like
		return errTooMuch.Msgf("%s", e.Message)
	}
	f := &fault.Error{Kind: kindOf(e.Code), Code: e.Code, Message: e.Message, Details: e.Detail, Hint: e.Hint}
	if f.Kind == fault.Unavailable {
		f.RetryAfter = time.Second
	}
	return f
}

func kindOf(code string) fault.Kind {
	switch code {
	case "42501":
		return fault.Forbidden
	case "40001", "40P01", "55P03", "57P01", "57P02", "57P03":
		return fault.Unavailable
	}
	switch code[:min(2, len(code))] {
	case "08", "53":
		if code == "53100" { // disk_full
			return fault.InsufficientStorage
		}
		return fault.Unavailable
	case "25", "38", "39", "55", "57", "58", "F0", "HV", "XX":
		return fault.Internal
	}
	return fault.Invalid
}

// placed is explained for an error in the text of the statement itself: it says where.
func placed(err error, sql string) error {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return err
	}
	f := shown(e)
	if e.Position > 0 {
		where := *f
		where.Details = strings.TrimPrefix(f.Details+"; "+position(sql, int(e.Position)), "; ")
		return &where
	}
	return f
}

// position describes a place in a statement, which PostgreSQL counts in characters from one.
func position(sql string, at int) string {
	line, column, i := 1, 1, 0
	for offset, c := range sql {
		if i++; i == at {
			rest, _, _ := strings.Cut(sql[offset:], "\n")
			if r := []rune(rest); len(r) > 40 {
				rest = string(r[:40]) + "…"
			}
			return fmt.Sprintf("line %d, column %d, at: %s", line, column, rest)
		}
		if column++; c == '\n' {
			line, column = line+1, 1
		}
	}
	return "at the end of the statement"
}
