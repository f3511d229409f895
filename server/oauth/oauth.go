package oauth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/oauth/redirect"
	"github.com/boughdb/bough/server/ratelimit"
	"github.com/boughdb/bough/server/users"
)

// Client is an application's row.
type Client = db.OAuthClient

// Where is where a request comes from.
type Where = users.Client

// Channel is the notification that tells processes what to forget: a grant's id, or an access token's SHA-256 in
// hexadecimal digits.
const Channel = "bough_oauth"

// How long what a browser waits for is good.
const (
	requestLifetime = 15 * time.Minute
	codeLifetime    = 10 * time.Minute
	browserLifetime = 12 * time.Hour
)

// Config are the settings of the service.
type Config struct {
	// Issuer is the public URL of the server: scheme, host and perhaps port, without a path.
	Issuer string
	// BasePath is where the MCP endpoint is.
	BasePath string
	// Registration lets applications register themselves.
	Registration bool
	// ClientDocuments lets applications be known by the URL of their metadata document.
	ClientDocuments bool
	// TokenLifetime and RefreshLifetime are how long access and refresh tokens are good.
	TokenLifetime, RefreshLifetime time.Duration
	// RefreshReuseWindow is for how long a refresh token that was used is exchanged once more, 0 for never. It is for
	// installations where the windows of an application share one token and do not share what they get for it.
	RefreshReuseWindow time.Duration
	// RedirectURIs are the patterns of where users may be sent back to, as package redirect reads them.
	RedirectURIs []string
	// RateLimit bounds how often a network may ask.
	RateLimit bool
	// Documents fetches clients' metadata documents. It must not reach addresses of the server's own network.
	Documents *http.Client
}

// Resource is the URL of the MCP endpoint: the one resource that tokens are issued for.
func (c Config) Resource() string { return c.Issuer + c.BasePath }

// Service is the authorization server.
type Service struct {
	pool      *pgxpool.Pool
	accounts  *users.Service
	cfg       Config
	log       *slog.Logger
	limits    *ratelimit.Limiter
	redirects []redirect.Pattern
	issuer    *url.URL
	offered   map[string]bool // scopes that lead to something; nil for all
	cache     tokenCache
}

// New returns the service. The error is about the configuration.
func New(pool *pgxpool.Pool, accounts *users.Service, cfg Config, log *slog.Logger) (*Service, error) {
	issuer, err := url.Parse(cfg.Issuer)
	switch {
	case err != nil, issuer.Host == "", issuer.Scheme != "https" && issuer.Scheme != "http",
		issuer.User != nil, issuer.Path != "", strings.ContainsAny(cfg.Issuer, "?#"):
		return nil, fmt.Errorf("the public URL must have the form https://host, without a path, for OAuth; it is %q", cfg.Issuer)
	case cfg.TokenLifetime <= 0 || cfg.RefreshLifetime <= 0:
		return nil, errors.New("the lifetimes of OAuth's tokens must be positive")
	case cfg.RefreshReuseWindow < 0:
		return nil, errors.New("the window for the reuse of refresh tokens must not be negative")
	case cfg.ClientDocuments && cfg.Documents == nil:
		return nil, errors.New("client metadata documents need something to fetch them with")
	}
	s := &Service{
		pool: pool, accounts: accounts, cfg: cfg, log: log, limits: ratelimit.New(pool, cfg.RateLimit), issuer: issuer,
	}
	for _, entry := range cfg.RedirectURIs {
		pattern, err := redirect.ParsePattern(entry)
		if err != nil {
			return nil, fmt.Errorf("allowed redirect URI: %w", err)
		}
		s.redirects = append(s.redirects, pattern)
	}
	return s, nil
}

// allowedRedirect reports whether users may be sent to the URI.
func (s *Service) allowedRedirect(uri *redirect.URI) bool {
	for _, pattern := range s.redirects {
		if pattern.Match(uri) {
			return true
		}
	}
	return false
}

// inTx runs f in a transaction of the control database.
func (s *Service) inTx(ctx context.Context, f func(q *db.Queries) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return f(db.New(tx)) })
}

func none(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }
