package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// era is how a request is served.
type era int

const (
	// Requests of the revisions since 2026-07-28.
	stateless era = iota
	// The same, from clients that want to hear how it goes, as events before the answer.
	streaming
	// Requests of older revisions without a handshake, which those do not have, but simple clients do.
	bare
	// Older revisions as they are: initialize, and what belongs to a session.
	stateful
)

// era finds how messages are served. A client that opens with initialize is of the older ones, even if it names a newer
// revision: it is told the one to go on with.
func (s *Server) era(r *http.Request, messages []message) era {
	for i := range messages {
		switch {
		case messages[i].version != "" && messages[i].progress:
			return streaming
		case messages[i].version != "":
			return stateless
		}
	}
	switch {
	case len(messages) == 1 && messages[0].method == "initialize":
		return stateful
	case r.Header.Get("Mcp-Protocol-Version") >= statelessVersion:
		return stateless
	case r.Header.Get("Mcp-Session-Id") != "":
		return stateful
	}
	return bare
}

// dispatch gives a message to the library.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request, c *caller, to era, body []byte, messages []message) {
	r = s.forLibrary(r, c)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Accept", "application/json, text/event-stream") // simple clients say less, and take what they asked for
	if to == stateful && messages[0].method == "initialize" {
		r.Header.Del("Mcp-Protocol-Version") // what is agreed on is in the message
		if s.sessions.full(s.sdk.Sessions()) {
			(&refusal{status: http.StatusServiceUnavailable, code: "temporarily_unavailable", description: "there are too many sessions"}).write(w)
			return
		}
	}
	if to != stateful {
		r.Header.Del("Mcp-Session-Id")
		r.Header.Del("Last-Event-Id")
	}
	if to == stateful || to == streaming || messages[0].method == "subscriptions/listen" {
		unlimited(w)
	}
	answer := &answer{ResponseWriter: w, id: messages[0].id}
	s.handlers[to].ServeHTTP(answer, r)
	answer.finish()
}

// stream serves the methods that belong to a session: GET opens its stream, DELETE ends it.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, c *caller) {
	known := r.Method == http.MethodGet || r.Method == http.MethodDelete
	if !known || r.Header.Get("Mcp-Session-Id") == "" || r.Header.Get("Mcp-Protocol-Version") >= statelessVersion {
		allow := "POST"
		if !known {
			allow = allowedMethods
		}
		w.Header().Set("Allow", allow)
		(&refusal{status: http.StatusMethodNotAllowed, code: "method_not_allowed",
			description: r.Method + " is served for sessions only, and only by GET and DELETE"}).write(w)
		return
	}
	r = s.forLibrary(r, c)
	if r.Header.Get("Accept") == "" {
		r.Header.Set("Accept", "text/event-stream")
	}
	unlimited(w)
	answer := &answer{ResponseWriter: w}
	s.handlers[stateful].ServeHTTP(answer, r)
	answer.finish()
}

// forLibrary is the request as the library gets it: without the credentials, with who it is from.
func (s *Server) forLibrary(r *http.Request, c *caller) *http.Request {
	r = r.Clone(context.WithValue(r.Context(), callerKey{}, c))
	for _, name := range []string{"Authorization", "X-Service-Key", "X-Client-Key", "Cookie"} {
		r.Header.Del(name)
	}
	r.Header.Set("Authorization", "Bearer verified")
	return r
}

// unlimited lifts the server's time limits from a stream, which stays open as long as the client likes.
func unlimited(w http.ResponseWriter) {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{}) // where it cannot be lifted, clients open the stream again
	_ = control.SetReadDeadline(time.Time{})
	w.Header().Set("X-Accel-Buffering", "no") // else a proxy keeps what is to be heard at once
}

// answer turns refusals that the library writes as plain text into JSON-RPC errors.
type answer struct {
	http.ResponseWriter
	id     json.RawMessage
	status int
	text   bytes.Buffer
}

func (a *answer) WriteHeader(status int) {
	if status >= 400 && strings.HasPrefix(a.Header().Get("Content-Type"), "text/plain") {
		a.status = status
		return
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if a.status != 0 {
		return a.text.Write(b)
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap lets streams be flushed.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) finish() {
	if a.status == 0 {
		return
	}
	text := strings.TrimSpace(a.text.String())
	switch {
	case a.status == http.StatusNotFound || strings.Contains(text, "session user mismatch"):
		// Somebody else's session is as good as none. The client is to begin a new one.
		a.status, text = http.StatusNotFound, "there is no such session: begin with initialize"
	case a.status == http.StatusMethodNotAllowed:
		text = "the method is not served here"
	}
	code := int64(jsonrpc.CodeInvalidRequest)
	if a.status >= 500 {
		code, text = jsonrpc.CodeInternalError, "internal error"
	}
	(&rpcError{a.status, code, text, a.id}).write(a.ResponseWriter)
}
