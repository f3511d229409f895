// Package fault has the one error type that callers of the API may see. Every other error is internal: it is logged
// and shown as "internal error".
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Kind says what sort of refusal an error is; package httpapi gives each kind its HTTP status.
type Kind int

// The kinds, by the status they are answered with.
const (
	Invalid              Kind = iota + 1 // 400
	Unauthorized                         // 401
	Forbidden                            // 403
	NotFound                             // 404
	MethodNotAllowed                     // 405
	NotAcceptable                        // 406
	Timeout                              // 408
	Conflict                             // 409
	TooLarge                             // 413
	UnsupportedMediaType                 // 415
	RateLimited                          // 429
	Unavailable                          // 503
	MultipleChoices                      // 300
	PreconditionFailed                   // 412
	RangeNotSatisfiable                  // 416
	InsufficientStorage                  // 507
	Internal                             // 500, for errors of the user's own database that she should see
)

// Error is an error that is meant for the caller.
type Error struct {
	Kind    Kind
	Code    string // stable identifier, such as branch_not_found
	Message string // for people: what was wrong and, where it helps, what would be right
	Details string // the particulars of this case; may be empty
	Hint    string // what to do about it; may be empty
	// Fields says what is wrong with which field; nil where it is no field's fault.
	Fields map[string]string
	// Reasons are the identifiers of all that is wrong, where a code has more than one; nil for most.
	Reasons []string
	// RetryAfter is when to try again, for RateLimited and Unavailable; 0 where nothing is known.
	RetryAfter time.Duration
	// Headers are further headers of the answer, by name; nil for none.
	Headers map[string]string
	// Status overrides the HTTP status of the kind: a function of the user's database may raise any (PTxyz). 0 for none.
	Status int
}

// New returns an error for callers.
func New(kind Kind, code, message string) *Error {
	return &Error{Kind: kind, Code: code, Message: message}
}

// Validation returns a validation_error with a formatted message.
func Validation(format string, args ...any) *Error {
	return &Error{Kind: Invalid, Code: "validation_error", Message: fmt.Sprintf(format, args...)}
}

// Field returns a validation_error about one field; the problem is put after its name.
func Field(name, problem string, args ...any) *Error {
	problem = fmt.Sprintf(problem, args...)
	e := Validation("%s %s", name, problem)
	e.Fields = map[string]string{name: problem}
	return e
}

func (e *Error) Error() string { return e.Message }

// Is makes errors.Is match by kind and code, so that a declared error finds its variants with another message.
func (e *Error) Is(target error) bool {
	var t *Error
	return errors.As(target, &t) && t.Kind == e.Kind && t.Code == e.Code
}

// Msgf returns a copy of the error with another message.
func (e *Error) Msgf(format string, args ...any) *Error {
	c := *e
	c.Message = fmt.Sprintf(format, args...)
	return &c
}

// WithHint returns a copy of the error that says what to do.
func (e *Error) WithHint(hint string) *Error {
	c := *e
	c.Hint = hint
	return &c
}

// Because returns a copy of the error with its reasons.
func (e *Error) Because(reasons ...string) *Error {
	c := *e
	c.Reasons = reasons
	return &c
}

// Retry returns a copy of the error that says when to try again.
func (e *Error) Retry(after time.Duration) *Error {
	c := *e
	c.RetryAfter = after
	return &c
}
