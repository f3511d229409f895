package httpapi

import (
	"errors"
	"io"
	"os"

	"github.com/gin-gonic/gin"

	"github.com/boughdb/bough/server/fault"
)

var (
	errBodyBroken = fault.New(fault.Invalid, "validation_error", "the body cannot be read to its end")
	errBodySlow   = fault.New(fault.Timeout, "timeout", "the body did not come in time")
)

// clientBody is a request's body of which it is the client's fault when it cannot be read: it ends too early, or is
// chunked in another way than HTTP has it. Nothing of that is for the log of errors.
type clientBody struct{ io.ReadCloser }

// Read implements io.Reader. Its errors are faults, and still the errors that they were.
func (b clientBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil, err == io.EOF: //nolint:errorlint // the end must stay what it is, and nothing but the end
		return n, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, &bodyError{errBodySlow, err}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return n, &bodyError{errBodyBroken.Msgf("the body ends too early"), err}
	}
	return n, &bodyError{errBodyBroken.Msgf("the body cannot be read to its end: %s", err), err}
}

// bodyError is what a client hears of an error of its body.
type bodyError struct {
	told  *fault.Error
	cause error
}

func (e *bodyError) Error() string   { return e.told.Error() }
func (e *bodyError) Unwrap() []error { return []error{e.told, e.cause} }

// blameClient makes errors of the body the client's. It is done to a copy of the request: the server looks at its own for
// whether a body that nobody read is worth reading before the answer, and reads one that it does not know.
func blameClient(c *gin.Context) {
	if c.Request.ContentLength == 0 {
		return
	}
	c.Request = c.Request.WithContext(c.Request.Context())
	c.Request.Body = clientBody{c.Request.Body}
}
