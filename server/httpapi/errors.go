package httpapi

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/gen/api"
	"github.com/boughdb/bough/server/diskspace"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/rows"
)

var (
	errNoRoute  = fault.New(fault.NotFound, "not_found", "there is nothing at this path")
	errNoMethod = fault.New(fault.MethodNotAllowed, "method_not_allowed", "the method is not served here")
	errTooLarge = fault.New(fault.TooLarge, "too_large", "the body is too large")
	errTimeout  = fault.New(fault.Unavailable, "timeout", "this took too long and was given up").Retry(5 * time.Second)
	errFullDisk = diskspace.ErrInsufficient.Msgf("the disk that holds the database is full")
	errNoText   = fault.Validation("a text of the request is not UTF-8, or has a zero byte in it")
	errDatabase = fault.New(fault.Unavailable, "unavailable", "the database cannot be reached at the moment").Retry(time.Second)
)

var statuses = map[fault.Kind]int{
	fault.Invalid: http.StatusBadRequest, fault.Unauthorized: http.StatusUnauthorized, fault.Forbidden: http.StatusForbidden,
	fault.NotFound: http.StatusNotFound, fault.MethodNotAllowed: http.StatusMethodNotAllowed,
	fault.NotAcceptable: http.StatusNotAcceptable, fault.Timeout: http.StatusRequestTimeout, fault.Conflict: http.StatusConflict,
	fault.TooLarge: http.StatusRequestEntityTooLarge, fault.UnsupportedMediaType: http.StatusUnsupportedMediaType,
	fault.RateLimited: http.StatusTooManyRequests, fault.Unavailable: http.StatusServiceUnavailable,
	fault.MultipleChoices: http.StatusMultipleChoices, fault.PreconditionFailed: http.StatusPreconditionFailed,
	fault.RangeNotSatisfiable: http.StatusRequestedRangeNotSatisfiable, fault.Internal: http.StatusInternalServerError,
	fault.InsufficientStorage: http.StatusInsufficientStorage,
}

// writeError answers with an error and ends the request. What is not meant for callers is logged, once, and answered
// as "internal error".
func (a *API) writeError(c *gin.Context, err error) {
	c.Abort()
	f := a.faultOf(c, err)
	if f == nil {
		return
	}
	status := f.Status
	if status == 0 {
		status = statuses[f.Kind]
	}
	if status == 0 {
		status = http.StatusInternalServerError
	}
	for name, value := range f.Headers {
		c.Header(name, value)
	}
	switch status {
	case http.StatusUnauthorized:
		challenge := `Bearer realm="bough"`
		if c.GetHeader("Authorization") != "" { // RFC 6750, section 3.1
			challenge += `, error="invalid_token"`
		}
		c.Header("WWW-Authenticate", challenge)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		after := max(f.RetryAfter, time.Second)
		c.Header("Retry-After", strconv.Itoa(int((after+time.Second-1)/time.Second)))
	}
	a.answer(c, status, f)
}

// faultOf finds what to tell the caller; nil when there is nobody to tell.
func (a *API) faultOf(c *gin.Context, err error) *fault.Error {
	var f *fault.Error
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &f):
		if f.Kind == fault.Internal {
			a.logError(c, err)
		}
		return f
	case errors.As(err, &tooLarge):
		return errTooLarge.Msgf("the body is larger than %s", size(tooLarge.Limit))
	case errors.Is(c.Request.Context().Err(), context.DeadlineExceeded):
		a.logError(c, err)
		return errTimeout
	case c.Request.Context().Err() != nil:
		return nil // the client is gone; err says no more
	}
	if told := Fault(err); told != nil {
		if told.Kind != fault.Invalid {
			a.logError(c, err)
		}
		return told
	}
	a.logError(c, err)
	return &fault.Error{Code: "internal_error", Message: "internal error"}
}

// Fault returns what a caller may know of an error that is not meant for callers; nil for nothing.
func Fault(err error) *fault.Error {
	var e *pgconn.PgError
	switch {
	case fullDisk(err):
		return errFullDisk
	case lostDatabase(err):
		return errDatabase
	case errors.As(err, &e) && e.Code == "22021": // character_not_in_repertoire
		return errNoText
	}
	return nil
}

// fullDisk reports whether an error says that PostgreSQL found its disk full.
func fullDisk(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == "53100"
}

// lostDatabase reports whether an error says that a database cannot be reached, or not any more: it restarts, it has no
// connection to spare, or it was dropped with its branch. Asking again may help.
func lostDatabase(err error) bool {
	var connect *pgconn.ConnectError
	var server *pgconn.PgError
	var network net.Error
	switch {
	case errors.As(err, &connect), errors.As(err, &network), errors.Is(err, rows.ErrLost), errors.Is(err, io.ErrUnexpectedEOF):
		return true
	case errors.As(err, &server):
		return strings.HasPrefix(server.Code, "57P") || strings.HasPrefix(server.Code, "08") || strings.HasPrefix(server.Code, "53")
	}
	return false
}

func (a *API) logError(c *gin.Context, err error) {
	a.Log.Error("a request failed", "error", err, "request_id", c.GetString(requestIDKey), "route", c.FullPath())
}

func (a *API) answer(c *gin.Context, status int, f *fault.Error) {
	if d := dialectOf(c); d != nil {
		c.JSON(status, tableError(c, d, f))
		return
	}
	body := api.Error{Error: f.Message, Code: f.Code, RequestID: c.GetString(requestIDKey)}
	if f.Details != "" {
		body.Details = &f.Details
	}
	if f.Hint != "" {
		body.Hint = &f.Hint
	}
	body.Fields = f.Fields
	for _, reason := range f.Reasons {
		body.Reasons = append(body.Reasons, api.ErrorReasons(reason))
	}
	c.JSON(status, body)
}

// size writes a limit of bytes.
func size(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return strconv.FormatInt(n>>20, 10) + " MiB"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}
