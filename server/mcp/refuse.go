package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/boughdb/bough/server/fault"
)

// refusal is an answer to a request that does not come to be read as a message. Its body is that of RFC 6749, section 5.2:
// clients take a body that looks like JSON-RPC for the answer to what they asked.
type refusal struct {
	status      int
	code        string
	description string
	challenge   string        // WWW-Authenticate
	retryAfter  time.Duration // with 429 and 503
}

func badRequest(format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, code: "invalid_request", description: fmt.Sprintf(format, args...)}
}

func (f *refusal) write(w http.ResponseWriter) {
	h := w.Header()
	if f.challenge != "" {
		h.Set("WWW-Authenticate", f.challenge)
	}
	if f.status == http.StatusTooManyRequests || f.status == http.StatusServiceUnavailable {
		after := max(f.retryAfter, time.Second)
		h.Set("Retry-After", strconv.Itoa(int((after+time.Second-1)/time.Second)))
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(f.status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": f.code, "error_description": f.description})
}

// challenge is a WWW-Authenticate header (RFC 6750 section 3, RFC 9728 section 5.1). Code and description are "" where no
// credential came: RFC 6750, section 3.1.
func (s *Server) challenge(code, description string, scopes []string) string {
	parts := []string{`Bearer realm="bough"`}
	add := func(key, value string) {
		if value != "" {
			parts = append(parts, key+`="`+quotable(value)+`"`)
		}
	}
	add("error", code)
	add("error_description", description)
	add("resource_metadata", s.cfg.ResourceMetadataURL)
	add("scope", strings.Join(scopes, " "))
	return strings.Join(parts, ", ")
}

// quotable leaves out what a quoted parameter of a challenge cannot have: RFC 6750, section 3.
func quotable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '"':
			return '\''
		case r == '\\' || r < ' ' || r > '~':
			return -1
		}
		return r
	}, text)
}

// wanted are the scopes that a client is told to ask for: those of the features that the address names, else the usual
// ones.
func (s *Server) wanted(r *http.Request) []string {
	n, refused := narrow(r.URL.RawQuery)
	if refused != nil || n.features == nil {
		return s.cfg.DefaultScopes
	}
	var scopes []string
	for _, t := range s.cfg.Tools {
		if !n.offers(t.Feature, t.ReadOnly) {
			continue
		}
		for _, scope := range t.Scopes {
			if !slices.Contains(scopes, scope) {
				scopes = append(scopes, scope)
			}
		}
	}
	return scopes
}

// unauthorized is the refusal of a request without a credential that counts.
func (s *Server) unauthorized(r *http.Request, description string) *refusal {
	f := &refusal{status: http.StatusUnauthorized, code: "unauthorized", description: description}
	code, text := "", ""
	if hasCredential(r) {
		f.code, code, text = "invalid_token", "invalid_token", description
	}
	f.challenge = s.challenge(code, text, s.wanted(r))
	return f
}

func hasCredential(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" || r.Header.Get("X-Service-Key") != "" || r.Header.Get("X-Client-Key") != "" ||
		hasToken(r.URL.Query())
}

// refusalOf turns an error of Authenticate into an answer; nil when the client is gone.
func (s *Server) refusalOf(r *http.Request, requestID string, err error) *refusal {
	var f *fault.Error
	if !errors.As(err, &f) && s.cfg.Fault != nil {
		f = s.cfg.Fault(err)
	}
	switch {
	case f == nil && r.Context().Err() != nil:
		return nil
	case f == nil:
		s.cfg.Log.Error("a caller could not be verified", "error", err, "request_id", requestID)
		return &refusal{status: http.StatusInternalServerError, code: "server_error", description: "internal error (request id " + requestID + ")"}
	}
	description := f.Message
	if f.Hint != "" {
		description += "; " + f.Hint
	}
	switch f.Kind {
	case fault.Unauthorized:
		return s.unauthorized(r, description)
	case fault.Forbidden:
		return &refusal{status: http.StatusForbidden, code: "access_denied", description: description}
	case fault.RateLimited:
		return &refusal{status: http.StatusTooManyRequests, code: f.Code, description: description, retryAfter: f.RetryAfter}
	case fault.Unavailable:
		return &refusal{status: http.StatusServiceUnavailable, code: "temporarily_unavailable", description: description, retryAfter: f.RetryAfter}
	}
	return badRequest("%s", description)
}
