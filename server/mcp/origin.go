package mcp

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const (
	allowedMethods = "GET, POST, DELETE"
	exposedHeaders = "WWW-Authenticate, Mcp-Session-Id, Retry-After, X-Request-Id"
	// What the transport has, and what callers show who they are with.
	allowedHeaders = "mcp-protocol-version, mcp-method, mcp-name, mcp-session-id, authorization, x-service-key, x-client-key, " +
		"content-type, accept, last-event-id, traceparent"
)

// origin answers for pages: it lets those of allowed origins read what is answered, refusals too, and refuses the others.
// It reports whether the request goes on. Programs that are no pages send no Origin.
func (s *Server) origin(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Add("Vary", "Origin")
	origins := r.Header.Values("Origin")
	if len(origins) > 0 {
		if len(origins) > 1 || !s.allows(origins[0]) {
			(&refusal{status: http.StatusForbidden, code: "access_denied",
				description: "pages of this origin may not call the server; its operator can allow the origin"}).write(w)
			return false
		}
		h.Set("Access-Control-Allow-Origin", origins[0])
		h.Set("Access-Control-Expose-Headers", exposedHeaders)
	}
	if r.Method != http.MethodOptions {
		return true
	}
	h.Set("Allow", allowedMethods+", OPTIONS")
	if len(origins) > 0 && r.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", allowedMethods)
		h.Set("Access-Control-Allow-Headers", preflightHeaders(r))
		h.Set("Access-Control-Max-Age", "600")
		h.Add("Vary", "Access-Control-Request-Headers")
	}
	w.WriteHeader(http.StatusNoContent)
	return false
}

// preflightHeaders are the allowed headers, with those of the asked ones that repeat a tool's arguments (Mcp-Param-…).
func preflightHeaders(r *http.Request) string {
	allowed := allowedHeaders
	for _, line := range r.Header.Values("Access-Control-Request-Headers") {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.ToLower(strings.TrimSpace(name))
			if strings.HasPrefix(name, "mcp-param-") && isToken(name) && len(allowed) < 4096 {
				allowed += ", " + name
			}
		}
	}
	return allowed
}

func isToken(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') })
}

// allows reports whether pages of the origin may call. An opaque origin ("null": a file, a sandbox) is nobody's. That the
// origin is the host of the request says nothing: a page whose name was bound to this address anew says the same.
func (s *Server) allows(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Scheme == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return false
	}
	if slices.Contains(s.cfg.AllowedOrigins, "*") || slices.Contains(s.origins, strings.ToLower(origin)) {
		return true
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// originOf is the origin of an address, "" for none.
func originOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}
