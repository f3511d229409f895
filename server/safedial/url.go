package safedial

import (
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// CheckURL says what is wrong with a URL that requests are to be sent to, as the rest of a sentence about it; "" is
// nothing. It tells early what would be refused at every request, and refuses plain http beyond this machine, unless
// private networks are allowed. The address that a name resolves to is looked at when a connection is made.
func (o Options) CheckURL(raw string) (problem string) {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Opaque != "" {
		return "must be an absolute URL, such as https://example.com/path"
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	addr, addrErr := netip.ParseAddr(host)
	local := host == "localhost" || strings.HasSuffix(host, ".localhost") || addrErr == nil && addr.Unmap().IsLoopback()
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return "must begin with https://"
	case u.Port() != "" && !isPort(u.Port()):
		return "must have a port from 1 to 65535, or none"
	case u.User != nil:
		return "must not contain a user name or password, since it is shown again"
	case u.Fragment != "":
		return "must not have a fragment (#), which is never sent"
	case local && !o.AllowLoopback:
		return "leads to the server's own machine" + o.allowedBy(", which the setting ", " must allow")
	case u.Scheme == "http" && !local && !o.AllowPrivate:
		return "must begin with https://" + o.allowedBy(" (http is for this machine, or for all with the setting ", ")")
	case addrErr != nil:
		return ""
	}
	var refused *RefusedError
	if !errors.As(o.Check(addr), &refused) {
		return ""
	}
	problem = "must not lead to " + addr.String() + ", a " + refused.Use + " address"
	if refused.Use == usePrivate {
		problem += o.allowedBy(", which the setting ", " must allow")
	}
	return problem
}

func isPort(digits string) bool {
	n, err := strconv.ParseUint(digits, 10, 16)
	return err == nil && n > 0
}

func (o Options) allowedBy(before, after string) string {
	if o.Setting == "" {
		return ""
	}
	return before + o.Setting + after
}
