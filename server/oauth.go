package server

import (
	"context"
	"net/netip"
	"net/url"
	"time"

	"github.com/boughdb/bough/server/audit"
	"github.com/boughdb/bough/server/oauth"
	"github.com/boughdb/bough/server/safedial"
)

// documentTimeout bounds how long a client's metadata document may take to come.
const documentTimeout = 5 * time.Second

func (s *server) oauthConfig() oauth.Config {
	o := s.cfg.MCP.OAuth
	return oauth.Config{
		Issuer: s.cfg.BaseURL(), BasePath: s.cfg.MCP.BasePath, Registration: o.Registration, ClientDocuments: o.ClientDocuments,
		TokenLifetime: o.TokenExpiry, RefreshLifetime: o.RefreshTokenExpiry, RefreshReuseWindow: o.RefreshReuseWindow,
		RedirectURIs: o.AllowedRedirectURIs, RateLimit: s.cfg.Auth.RateLimit, Documents: safedial.Client(safedial.Options{Timeout: documentTimeout}),
	}
}

// newOAuth makes the service that lets users allow MCP clients, unless it is switched off.
func (s *server) newOAuth() error {
	if !s.cfg.MCP.Enabled || !s.cfg.MCP.OAuth.Enabled {
		return nil
	}
	switch u, err := url.Parse(s.cfg.BaseURL()); {
	case err != nil:
	case s.cfg.PublicBaseURL == "" && isEverywhere(u.Hostname()):
		s.log.Warn("OAuth does not work, since nobody can reach the URL that it tells clients", "url", s.cfg.BaseURL(),
			"advice", "set public-base-url to the https URL under which clients reach the server, or mcp.oauth.enabled=false")
	case u.Scheme != "https" && !isLoopback(u.Hostname()):
		s.log.Warn("OAuth's tokens can be read on the way, since public-base-url is not https", "url", s.cfg.BaseURL(),
			"advice", "put a proxy with TLS in front and set public-base-url to its https URL")
	}
	var err error
	s.oauth, err = oauth.New(s.planes.Control, s.users, s.oauthConfig(), s.log)
	return err
}

// isEverywhere reports whether a host stands for all addresses of the machine: a server can listen there, and a client
// cannot connect.
func isEverywhere(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || err == nil && addr.IsUnspecified()
}

// oauthNotified forgets tokens that the cache may not answer for any more.
func (s *server) oauthNotified(payload string) {
	if s.oauth != nil {
		s.oauth.Notified(payload)
	}
}

// sweepOAuth removes what is over, from the audit log too.
func (s *server) sweepOAuth(ctx context.Context) {
	if err := audit.New(s.planes.Control).Sweep(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("sweeping", "error", err)
	}
	if s.oauth == nil {
		return
	}
	if err := s.oauth.Sweep(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("sweeping OAuth's codes and tokens", "error", err)
	}
}
