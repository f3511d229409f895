package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"time"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
)

// Most bytes of a body.
const maxBody = 4 << 20

// caller is who a request is from, and what the address of the request lets her do. It belongs to one request, not to a
// session: a token may have other scopes, the address another query, than when the session began.
type caller struct {
	principal *auth.Principal
	narrow    narrowing
	requestID string
}

// identity is the same for all requests of one caller, whatever token she has at the time.
func identity(p *auth.Principal) string { return p.ID.String() + "/" + p.KeyID.String() }

// ServeHTTP is the guard: it lets through to the library what is well formed, from somebody who may. The order of its
// checks is that of the costs and of the answers: pages learn why they are refused, a client without a token learns where
// to get one, whatever else is wrong with its request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	requestID := w.Header().Get("X-Request-Id")
	if requestID == "" {
		b := make([]byte, 16)
		_, _ = rand.Read(b) // never fails (crypto/rand)
		requestID = hex.EncodeToString(b)
		w.Header().Set("X-Request-Id", requestID)
	}
	if s.closed.Load() {
		(&refusal{status: http.StatusServiceUnavailable, code: "temporarily_unavailable", description: "the server is shutting down"}).write(w)
		return
	}
	if r.ContentLength > maxBody {
		tooLarge().write(w)
		return
	}
	if !s.origin(w, r) {
		return
	}
	c, refused := s.admit(r, requestID)
	if refused != nil {
		refused.write(w)
		return
	}
	if c == nil {
		return // the client is gone
	}
	if wait, ok := s.limiter.take(identity(c.principal), 1); !ok {
		(&refusal{status: http.StatusTooManyRequests, code: "rate_limited", description: "too many requests; try again later", retryAfter: wait}).write(w)
		return
	}
	if c.narrow, refused = narrow(r.URL.RawQuery); refused != nil {
		refused.write(w)
		return
	}
	if r.Method == http.MethodPost {
		s.post(w, r, c)
		return
	}
	s.stream(w, r, c)
}

func tooLarge() *refusal {
	return &refusal{status: http.StatusRequestEntityTooLarge, code: "too_large", description: "the body is larger than 4 MiB"}
}

// admit finds out who calls.
func (s *Server) admit(r *http.Request, requestID string) (*caller, *refusal) {
	if hasToken(r.URL.Query()) {
		return nil, s.unauthorized(r, "credentials are not taken from the address; send them in a header")
	}
	p, err := s.cfg.Authenticate(r)
	if err != nil {
		return nil, s.refusalOf(r, requestID, err)
	}
	return &caller{principal: p, requestID: requestID}, nil
}

// post serves a message.
func (s *Server) post(w http.ResponseWriter, r *http.Request, c *caller) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		(&refusal{status: http.StatusUnsupportedMediaType, code: "unsupported_media_type", description: "the body must be application/json"}).write(w)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		var large *http.MaxBytesError
		var known *fault.Error
		switch {
		case errors.As(err, &large):
			tooLarge().write(w)
			return
		case errors.As(err, &known) && known.Kind == fault.Timeout:
			(&refusal{status: http.StatusRequestTimeout, code: known.Code, description: known.Message}).write(w)
			return
		case errors.As(err, &known) && known.Kind == fault.Unavailable:
			(&refusal{status: http.StatusServiceUnavailable, code: known.Code, description: known.Message, retryAfter: known.RetryAfter}).write(w)
			return
		}
		// The client is gone, or sent what is no body; then it hears of it.
		(&refusal{status: http.StatusBadRequest, code: "invalid_request", description: "the body cannot be read to its end"}).write(w)
		return
	}
	messages, batch, wrong := parse(body)
	if wrong != nil {
		wrong.write(w)
		return
	}
	version := r.Header.Get("Mcp-Protocol-Version")
	if batch && version != "" && version != batchVersion {
		invalid(nil, "there are no batches in %s: send one message", version).write(w)
		return
	}
	// The request costs as much as the messages it has.
	if wait, ok := s.limiter.take(identity(c.principal), len(messages)-1); !ok {
		(&refusal{status: http.StatusTooManyRequests, code: "rate_limited", description: "too many requests; try again later", retryAfter: wait}).write(w)
		return
	}
	to := s.era(r, messages)
	var served []message
	for i := range messages {
		ignored, wrong := messages[i].judge(to == stateless || to == streaming)
		switch {
		case wrong != nil:
			wrong.write(w)
			return
		case messages[i].response && to != stateful:
			invalid(nil, "there is no request that this could be the response to").write(w)
			return
		case !ignored:
			served = append(served, messages[i])
		}
	}
	if len(served) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if len(served) < len(messages) {
		body, messages = batchOf(served), served
	}
	if refused := s.forbid(c, messages); refused != nil {
		s.auditRefused(r.Context(), c, messages, refused)
		refused.write(w)
		return
	}
	if !s.quick(w, r, c, to, body, messages) {
		s.dispatch(w, r, c, to, body, messages)
	}
}

// batchOf writes messages of a batch as one again.
func batchOf(messages []message) []byte {
	parts := make([][]byte, len(messages))
	for i := range messages {
		parts[i] = messages[i].raw
	}
	return slices.Concat([]byte("["), bytes.Join(parts, []byte(",")), []byte("]"))
}

type callerKey struct{}

// handOver gives the caller to the library in the only form that reaches a session's handlers with each request: as what a
// bearer token stands for. The library's own check of the token is made to find ours.
func handOver(next http.Handler) http.Handler {
	verify := func(ctx context.Context, _ string, _ *http.Request) (*sdkauth.TokenInfo, error) {
		c, ok := ctx.Value(callerKey{}).(*caller)
		if !ok {
			return nil, sdkauth.ErrInvalidToken
		}
		return c.token(), nil
	}
	return sdkauth.RequireBearerToken(verify, nil)(next)
}

// token is the caller as the library hands her on.
func (c *caller) token() *sdkauth.TokenInfo {
	return &sdkauth.TokenInfo{UserID: identity(c.principal), Expiration: time.Now().Add(time.Hour), Extra: map[string]any{"caller": c}}
}
