package server

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"
	"golang.org/x/net/idna"

	"github.com/boughdb/bough/server/oauth/redirect"
)

// MCPConfig are the settings of the MCP server and of its OAuth.
type MCPConfig struct {
	Enabled          bool
	BasePath         string
	AllowedOrigins   []string
	RateLimit        int
	MaxQueries       int
	AllowMigrateMain bool
	OAuth            struct {
		Enabled             bool
		Registration        bool
		ClientDocuments     bool
		TokenExpiry         time.Duration
		RefreshTokenExpiry  time.Duration
		RefreshReuseWindow  time.Duration
		AllowedRedirectURIs []string
	}
}

func (c *MCPConfig) settings(f *pflag.FlagSet) {
	f.BoolVar(&c.Enabled, "mcp.enabled", true, "serve the Model Context Protocol to assistants")
	f.StringVar(&c.BasePath, "mcp.base-path", "/mcp", "path of the MCP server; OAuth's are below it")
	f.StringSliceVar(&c.AllowedOrigins, "mcp.allowed-origins", nil, "origins besides the server's own and loopback whose pages may use the MCP server, such as https://inspector.example")
	f.IntVar(&c.RateLimit, "mcp.rate-limit", 600, "MCP requests a minute for each caller and server process; 0 for no limit")
	f.IntVar(&c.MaxQueries, "mcp.max-queries", 3, "SQL queries that one caller may run at the same time in one server process; 0 for no limit")
	f.BoolVar(&c.AllowMigrateMain, "mcp.allow-migrate-main", false, "let administrators' assistants change the schema of main, not only of branches")
	o := &c.OAuth
	f.BoolVar(&o.Enabled, "mcp.oauth.enabled", true, "let users allow MCP clients by OAuth 2.1")
	f.BoolVar(&o.Registration, "mcp.oauth.dcr-enabled", true, "let clients register themselves (RFC 7591)")
	f.BoolVar(&o.ClientDocuments, "mcp.oauth.client-id-documents", true, "let clients identify themselves by the https URL of a metadata document, which the server then fetches")
	f.Var(durationVar(&o.TokenExpiry, "1h"), "mcp.oauth.token-expiry", "how long an access token is good for")
	f.Var(durationVar(&o.RefreshTokenExpiry, "168h"), "mcp.oauth.refresh-token-expiry", "how long a client stays allowed without a refresh")
	f.Var(zeroDuration{durationValue{&o.RefreshReuseWindow}}, "mcp.oauth.refresh-reuse-window", "how long a refresh token that was used gives another pair, for clients that use one in parallel; 0 keeps to the letter")
	f.StringSliceVar(&o.AllowedRedirectURIs, "mcp.oauth.allowed-redirect-uris", redirect.Defaults(), "where clients may have users sent back to; * is one part of a host, a port or a path")
	f.Lookup("mcp.oauth.allowed-redirect-uris").DefValue = "well-known clients and loopback" // too long for a help text
}

// zeroDuration is a duration that may be nothing.
type zeroDuration struct{ durationValue }

// Set implements pflag.Value.
func (v zeroDuration) Set(s string) error {
	if s == "0" || s == "0s" {
		*v.d = 0
		return nil
	}
	return v.durationValue.Set(s)
}

var basePathForm = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+$`)

// takenPaths begin the paths of everything else.
var takenPaths = []string{"/api", "/rest", "/openapi.json", "/docs", "/healthz", "/readyz", "/metrics", "/.well-known"}

func (c *MCPConfig) check(public string) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !basePathForm.MatchString(c.BasePath) || strings.Contains(c.BasePath+"/", "/./") || strings.Contains(c.BasePath+"/", "/../") {
		bad("mcp.base-path: %q must be a path like /mcp, without a slash at the end", c.BasePath)
	}
	for _, taken := range takenPaths {
		if c.BasePath == taken || strings.HasPrefix(c.BasePath, taken+"/") {
			bad("mcp.base-path: %s serves something else", taken)
		}
	}
	if c.RateLimit < 0 {
		bad("mcp.rate-limit: must not be negative")
	}
	if c.MaxQueries < 0 {
		bad("mcp.max-queries: must not be negative")
	}
	for _, origin := range c.AllowedOrigins {
		u, err := url.Parse(origin)
		if origin != "*" && (err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil) {
			bad("mcp.allowed-origins: %q must be an origin like https://app.example, or *", origin)
		}
	}
	o := c.OAuth
	if o.TokenExpiry < 10*time.Second || o.TokenExpiry > 24*time.Hour {
		bad("mcp.oauth.token-expiry: must be 10 seconds to 24 hours")
	}
	if o.RefreshTokenExpiry < o.TokenExpiry {
		bad("mcp.oauth.refresh-token-expiry: must not be shorter than mcp.oauth.token-expiry")
	}
	if o.RefreshReuseWindow < 0 || o.RefreshReuseWindow > 5*time.Minute {
		bad("mcp.oauth.refresh-reuse-window: must be 0 to 5 minutes")
	}
	for _, entry := range o.AllowedRedirectURIs {
		if _, err := redirect.ParsePattern(entry); err != nil {
			bad("mcp.oauth.allowed-redirect-uris: %w", err)
		}
	}
	if c.Enabled && o.Enabled {
		if err := checkIssuer(public); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// checkIssuer says what is wrong with the URL that tokens, metadata and redirects are bound to. A path would make clients
// look for the metadata where this server does not have it (RFC 8414, section 3.1), and they compare the URL letter by
// letter with what their own library made of it.
func checkIssuer(public string) error {
	u, err := url.Parse(public)
	switch {
	case public == "" || err != nil || u.Host == "": // the default, or said already
		return nil
	case strings.Trim(u.Path, "/") != "":
		return fmt.Errorf("public-base-url: %q has a path, with which OAuth's metadata would not be found; serve Bough at the root of a host, or set mcp.oauth.enabled=false", public)
	}
	usual, err := usualOrigin(u)
	if err != nil {
		return fmt.Errorf("public-base-url: %q %w", public, err)
	}
	if strings.TrimSuffix(public, "/") != usual {
		return fmt.Errorf("public-base-url: %q must be written %q, as browsers and OAuth clients write it", public, usual)
	}
	return nil
}

// usualOrigin returns scheme, host and port of a URL as browsers write them (WHATWG URL, section 4.5).
func usualOrigin(u *url.URL) (string, error) {
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname()), u.Port()
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.String()
		if addr.Is6() {
			host = "[" + host + "]"
		}
	} else if strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) {
		// Of others the rules are not asked: names with an underscore are against them, and in use within networks.
		if host, err = idna.Lookup.ToASCII(host); err != nil {
			return "", errors.New("has a host that is neither a name nor an address")
		}
	}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return "", errors.New("has a port that is not a number from 1 to 65535")
		}
		port = strconv.FormatUint(n, 10)
	}
	if port == "" || scheme == "https" && port == "443" || scheme == "http" && port == "80" {
		return scheme + "://" + host, nil
	}
	return scheme + "://" + host + ":" + port, nil
}
