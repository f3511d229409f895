package httpapi

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/boughdb/bough/server/auth"
)

// checkHost refuses requests to a server on loopback that name a host which is not this one's. A page on the web can bind
// its own name to a loopback address (DNS rebinding): the browser then sends the page's requests here, as if they were
// for the page's own server, with whatever the machine lets local programs do.
func (a *API) checkHost(c *gin.Context) {
	if a.AllowedHosts == nil || a.hostAllowed(c.Request.Host) {
		return
	}
	switch c.FullPath() {
	case "/healthz", "/readyz": // probes have names of their own for what they look at, and the answers tell nothing
		return
	}
	a.writeError(c, auth.ErrDenied.Msgf("the server is not known as %q", HostOf(c.Request.Host)).
		WithHint("use a loopback address; the operator can set public_base_url to the URL that clients use, or name the host in allowed_hosts"))
}

// hostAllowed reports whether a Host header names this server. Browsers always send one; what has none is no browser.
func (a *API) hostAllowed(header string) bool {
	host := HostOf(header)
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") { // RFC 6761, section 6.3
		return true
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.Unmap().IsLoopback() {
		return true
	}
	return slices.Contains(a.AllowedHosts, host)
}

// HostOf is the host of a Host header or a URL's authority in its usual spelling: without the port, in lower case.
func HostOf(authority string) string {
	host := authority
	if h, _, err := net.SplitHostPort(authority); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
