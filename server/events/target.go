package events

import (
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/safedial"
)

// checkTarget says what is wrong with the URL of a webhook. It refuses early what would be refused at every try; the
// address that a name resolves to is looked at when a connection is made.
func (s *Service) checkTarget(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Opaque != "" {
		return fault.Field("url", "must be an absolute URL, such as https://example.com/hook")
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	addr, addrErr := netip.ParseAddr(host)
	local := host == "localhost" || strings.HasSuffix(host, ".localhost") || addrErr == nil && addr.Unmap().IsLoopback()
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return fault.Field("url", "must begin with https://")
	case u.User != nil:
		return fault.Field("url", "must not contain a user name or password: everybody who may see the webhook sees it")
	case u.Fragment != "":
		return fault.Field("url", "must not have a fragment (#), which is never sent")
	case local && !s.dial.AllowLoopback:
		return fault.Field("url", "leads to the server's own machine, which the setting events.allow_private_targets must allow")
	case u.Scheme == "http" && !local && !s.cfg.AllowPrivate:
		return fault.Field("url", "must begin with https:// (http is for this machine, or for all with the setting events.allow_private_targets)")
	case addrErr == nil:
		var refused *safedial.RefusedError
		if errors.As(s.dial.Check(addr), &refused) {
			return fault.Field("url", "must not lead to %s, a %s address", addr, refused.Use)
		}
	}
	return nil
}

// checkTypes says what is wrong with a subscription; which types there are is the contract's affair.
func checkTypes(types []string) error {
	if len(types) == 0 {
		return fault.Field("events", `must name a type of event, or "*" for all`)
	}
	if len(types) > 1 && slices.Contains(types, allTypes) {
		return fault.Field("events", `must be either ["*"] or types of events`)
	}
	return nil
}
