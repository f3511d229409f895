package oauth

import (
	"net/url"
	"strings"
)

const maxResource = 2 << 10

// checkResources returns an error unless each value of a resource parameter (RFC 8707) stands for the MCP endpoint. None
// stands for it, too: clients of before know no resources.
func (s *Service) checkResources(values []string) *Error {
	for _, value := range values {
		if value != "" && !s.isResource(value) {
			return ErrInvalidTarget.say("resource must be %s", s.cfg.Resource())
		}
	}
	return nil
}

// isResource reports whether the URL is one of those that clients use for the MCP endpoint: its own or the server's
// without a path, each with or without a slash at the end, with the host in any case and the port where it is the usual.
// A query is what a user put behind the endpoint's address to narrow it.
func (s *Service) isResource(value string) bool {
	if value == s.cfg.Resource() {
		return true
	}
	if len(value) > maxResource || strings.ContainsAny(value, "#\\@") || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return false
	}
	u, err := url.Parse(value)
	if err != nil || !strings.EqualFold(u.Scheme, s.issuer.Scheme) || u.Opaque != "" || u.User != nil || origin(u) != origin(s.issuer) {
		return false
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	return path == "" || path == strings.TrimSuffix(s.cfg.BasePath, "/")
}

// origin returns scheme, host and port in the form that they have in common with all that mean the same.
func origin(u *url.URL) string {
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}
