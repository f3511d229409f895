package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/ratelimit"
)

// Error is an answer of an endpoint that applications call, in the form of RFC 6749, section 5.2.
type Error struct {
	Code        string
	Description string // plain ASCII, without quotes and backslashes
	Status      int
	RetryAfter  time.Duration // when to try again; 0 where nothing is known
}

func (e *Error) Error() string { return e.Code + ": " + e.Description }

// Is makes errors.Is match by code.
func (e *Error) Is(target error) bool {
	var t *Error
	return errors.As(target, &t) && t.Code == e.Code
}

// Errors by which errors.Is recognises what the endpoints refuse.
var (
	ErrInvalidRequest           = &Error{Code: "invalid_request", Status: http.StatusBadRequest}
	ErrInvalidClient            = &Error{Code: "invalid_client", Status: http.StatusUnauthorized}
	ErrInvalidGrant             = &Error{Code: "invalid_grant", Status: http.StatusBadRequest}
	ErrInvalidScope             = &Error{Code: "invalid_scope", Status: http.StatusBadRequest}
	ErrInvalidTarget            = &Error{Code: "invalid_target", Status: http.StatusBadRequest}
	ErrUnsupportedGrantType     = &Error{Code: "unsupported_grant_type", Status: http.StatusBadRequest}
	ErrInvalidRedirectURI       = &Error{Code: "invalid_redirect_uri", Status: http.StatusBadRequest}
	ErrInvalidClientMetadata    = &Error{Code: "invalid_client_metadata", Status: http.StatusBadRequest}
	ErrRegistrationNotSupported = &Error{
		Code: "registration_not_supported", Description: "clients cannot register themselves here; ask the administrator", Status: http.StatusForbidden,
	}
	ErrTooManyRequests = &Error{Code: "too_many_requests", Status: http.StatusTooManyRequests}
)

// say returns a copy of the error with its description.
func (e *Error) say(format string, args ...any) *Error {
	c := *e
	c.Description = ascii(fmt.Sprintf(format, args...))
	return &c
}

// PageError is what a user reads in her browser where she cannot be sent back to the application, or need not be.
type PageError struct {
	Title, Message string
	Status         int
	RetryAfter     time.Duration // when to try again; 0 where nothing is known
}

func (e *PageError) Error() string { return e.Title + ": " + e.Message }

func pageError(status int, title, format string, args ...any) *PageError {
	return &PageError{Title: title, Message: fmt.Sprintf(format, args...), Status: status}
}

// RedirectError is a refusal that the application learns of: the browser goes to Location (RFC 6749, section 4.1.2.1).
type RedirectError struct {
	Location          string
	Code, Description string
}

func (e *RedirectError) Error() string { return e.Code + ": " + e.Description }

// limited turns the error of a limit into the endpoints' own.
func limited(err error) error {
	var f *fault.Error
	if !errors.Is(err, ratelimit.ErrLimited) || !errors.As(err, &f) {
		return err
	}
	e := ErrTooManyRequests.say("%s", f.Message)
	e.RetryAfter = f.RetryAfter
	return e
}

// limitedPage is limited for a user's browser.
func limitedPage(err error) error {
	var f *fault.Error
	if !errors.Is(err, ratelimit.ErrLimited) || !errors.As(err, &f) {
		return err
	}
	e := pageError(http.StatusTooManyRequests, "Too many requests", "There were too many requests from your network. Wait a little and try again.")
	e.RetryAfter = f.RetryAfter
	return e
}

const maxDescription = 300

// ascii returns a text of the characters that RFC 6749 allows in error_description.
func ascii(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '"' || r == '\\':
			return '\''
		case r < ' ' || r > '~':
			return '?'
		}
		return r
	}, text)
	if len(text) > maxDescription {
		text = text[:maxDescription-3] + "..."
	}
	return text
}
