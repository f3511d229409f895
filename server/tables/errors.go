package tables

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/rows"
)

// sqlState is the SQLSTATE of a PostgreSQL error; "" for others.
func sqlState(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// explain turns an error of the user's statement into one for the caller. Others stay as they are.
func explain(c *Call, err error) error {
	var e *pgconn.PgError
	var connect *pgconn.ConnectError
	if err == nil || errors.Is(err, rows.ErrAborted) || errors.As(err, &connect) || !errors.As(err, &e) {
		return err
	}
	if e.Code == "PGRST" {
		return raised(e)
	}
	f := &fault.Error{Kind: kindOf(c, e), Code: e.Code, Message: e.Message, Details: e.Detail, Hint: e.Hint}
	// Violated constraints show the row, or another row's key.
	if class := e.Code[:2]; (class == "23" || class == "44") && c.readable() != nil {
		f.Details = ""
	}
	switch {
	case e.Code[:2] == "PT": // RAISE with SQLSTATE 'PTxyz' asks for a status
		if status, err := strconv.Atoi(e.Code[2:]); err == nil && status >= 200 && status <= 599 {
			f.Status = status
		}
	case e.Code == "2D000":
		f.Kind = fault.Invalid
		f.Message = "a procedure or function tried to end the transaction: " + e.Message
		f.Hint = "a request is one transaction, with its role and its claims; COMMIT and ROLLBACK are not allowed in what it calls"
	case e.Code == "57014":
		f.Message = "the statement took too long and was given up"
		f.Hint = "ask for less, by filters, limit or select; an index may help"
	case f.Kind == fault.Unavailable:
		f.RetryAfter = time.Second
	case (e.Code == "22007" || e.Code == "22008") && strings.Contains(c.Query, "+") && f.Hint == "":
		f.Hint = "a plus sign in a query string is a space: encode it as %2B"
	case strings.HasPrefix(e.Code, "22") && strings.Contains(c.Query, "eq.") && f.Hint == "" && strings.Contains(e.Message, `"eq.`):
		f.Hint = "write {column}.eq=value or {column}=eq.value, not both"
	}
	return f
}

// raised reads what RAISE … USING ERRCODE 'PGRST' carries: the body in the message, status and headers in the detail.
func raised(e *pgconn.PgError) *fault.Error {
	var body struct{ Code, Message, Details, Hint *string }
	var detail struct {
		Status  *int
		Headers map[string]string
	}
	unparsed := *errRaised
	switch err := json.Unmarshal([]byte(e.Message), &body); {
	case err != nil || body.Code == nil || body.Message == nil:
		unparsed.Details, unparsed.Hint = "Invalid JSON value for MESSAGE: '"+e.Message+"'", "MESSAGE must be a JSON object with obligatory keys: 'code', 'message' and optional keys: 'details', 'hint'."
		return &unparsed
	case json.Unmarshal([]byte(e.Detail), &detail) != nil || detail.Status == nil || detail.Headers == nil || *detail.Status < 200 || *detail.Status > 599:
		unparsed.Details, unparsed.Hint = "Invalid JSON value for DETAIL: '"+e.Detail+"'", "DETAIL must be a JSON object with obligatory keys: 'status', 'headers' and optional key: 'status_text'."
		return &unparsed
	}
	f := &fault.Error{Kind: fault.Invalid, Status: *detail.Status, Code: *body.Code, Message: *body.Message}
	if body.Details != nil {
		f.Details = *body.Details
	}
	if body.Hint != nil {
		f.Hint = *body.Hint
	}
	f.Headers = map[string]string{}
	for name, value := range detail.Headers {
		if !safeHeader(name, value) {
			unparsed.Details = "DETAIL has a header that cannot be sent: '" + name + "'"
			return &unparsed
		}
		f.Headers[name] = value
	}
	return f
}

// safeHeader reports whether a header of the database's making may be sent. The body's framing is not its business.
func safeHeader(name, value string) bool {
	switch strings.ToLower(name) {
	case "content-length", "transfer-encoding", "connection", "trailer", "upgrade", "":
		return false
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`()<>@,;:\"/[]?={}`, c) >= 0 { // RFC 9110, section 5.6.2
			return false
		}
	}
	return !strings.ContainsAny(value, "\r\n\x00")
}

// errRaised is an internal error that is told: the database's own function is wrong.
var errRaised = fault.New(fault.Internal, "PGRST121", `Could not parse JSON in the "RAISE SQLSTATE 'PGRST'" error`)

// kindOf gives a SQLSTATE its kind (PostgreSQL, appendix A). What the statement's author did wrong is Invalid; what is
// wrong in the database itself is Internal, and still told: it is the user's own database.
func kindOf(c *Call, e *pgconn.PgError) fault.Kind {
	switch e.Code {
	case "23503", "23505":
		return fault.Conflict
	case "25006":
		return fault.MethodNotAllowed
	case "42501":
		if c.Principal == nil {
			return fault.Unauthorized
		}
		return fault.Forbidden
	case "42P01", "42883":
		return fault.NotFound
	case "P0001":
		return fault.Invalid
	case "21000":
		// A query of the database's own gave more rows than it may. PostgREST says so of an upsert, too, whose body has a
		// key twice; what the extension safeupdate refuses is the client's mistake everywhere.
		if strings.Contains(e.Message, "requires a WHERE clause") || !c.Dialect.BareErrors && c.Method == methodPost && c.Function == "" {
			return fault.Invalid
		}
		return fault.Internal
	case "42P17":
		return fault.Internal // an infinite recursion of policies, or a wrong definition of an object
	case "40001", "40P01", "55P03", "57014", "57P01", "57P02", "57P03":
		return fault.Unavailable
	case "53400":
		return fault.Internal
	case "55000":
		// A write can ask for what cannot be, such as an upsert by a deferrable key.
		if c.Method != methodGet && c.Method != methodHead && c.Function == "" {
			return fault.Invalid
		}
	case "55006":
		return fault.Unavailable
	}
	switch e.Code[:2] {
	case "08", "53":
		if e.Code == "53100" { // disk_full
			return fault.InsufficientStorage
		}
		return fault.Unavailable
	case "25", "2D", "38", "39", "3B", "54", "55", "57", "58", "F0", "HV", "P0", "XX":
		return fault.Internal
	}
	return fault.Invalid
}

// Errors of requests.
var (
	errSchema     = fault.New(fault.NotAcceptable, "PGRST106", "the schema is not exposed")
	errBody       = fault.New(fault.Invalid, "PGRST102", "the body cannot be read")
	errMediaType  = fault.New(fault.UnsupportedMediaType, "unsupported_media_type", "the body has a media type that is not read here")
	errAffected   = fault.New(fault.Invalid, "PGRST124", "the write affects another number of rows than the preferences allow")
	errRange      = fault.New(fault.RangeNotSatisfiable, "PGRST103", "Requested range not satisfiable")
	errNoRecord   = fault.New(fault.NotFound, "not_found", "there is no such record")
	errNoTable    = fault.New(fault.NotFound, "PGRST205", "there is no such table")
	errUnfiltered = fault.New(fault.Invalid, "validation_error", "a write without a filter would change every record; it is refused").
			WithHint("add a filter, such as id.eq=1, or say that you mean every record: @all=true")
	errUnfit = fault.New(fault.Conflict, "conflict", "the patch does not fit the record: a test in it fails, or what it is to replace or remove is not there").
			WithHint("read the record again, and make the patch anew")
	errPrecondition = fault.New(fault.PreconditionFailed, "precondition_failed", "the record has changed since it was read")
	errTooLarge     = fault.New(fault.Invalid, "too_large", "the answer is too large").
			WithHint("ask for fewer or smaller columns by select, or for fewer records by filters and limit")
	errNoMemory = fault.New(fault.Unavailable, "unavailable", "there is no memory left for large answers at the moment").Retry(time.Second)
	errNoKey    = fault.New(fault.Invalid, "validation_error", "the relation has no primary key, so its records have no paths").
			WithHint("use filters instead")
)
