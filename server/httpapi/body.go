package httpapi

import (
	"errors"
	"io"

	"github.com/boughdb/bough/server/fault"
)

var errBodyBroken = fault.New(fault.Invalid, "validation_error", "the body cannot be read to its end")

// brokenBody is the error of a body that cannot be read to its end: it ends too early, or is chunked in another way than
// HTTP has it. That is the client's fault, and nothing for the log of errors.
func brokenBody(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &bodyError{errBodyBroken.Msgf("the body ends too early"), err}
	}
	return &bodyError{errBodyBroken.Msgf("the body cannot be read to its end: %s", err), err}
}

// bodyError is what a client hears of an error of its body.
type bodyError struct {
	told  *fault.Error
	cause error
}

func (e *bodyError) Error() string   { return e.told.Error() }
func (e *bodyError) Unwrap() []error { return []error{e.told, e.cause} }
