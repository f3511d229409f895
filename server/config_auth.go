package server

import (
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/pflag"

	"github.com/boughdb/bough/server/auth"
	boughmail "github.com/boughdb/bough/server/mail"
	"github.com/boughdb/bough/server/password"
	"github.com/boughdb/bough/server/users"
)

// AuthConfig are the settings of users and their sessions.
type AuthConfig struct {
	AnonymousAccess      bool
	SignUp               bool
	RequireVerification  bool
	AccessTokenLifetime  time.Duration
	RefreshTokenLifetime time.Duration
	RedirectURLs         []string
	PasswordMinLength    int
	HashMemory           uint32
	HashIterations       uint32
	HashParallelism      uint8
	HashWorkers          int
	MaxClientKeys        int
	RateLimit            bool
	EncryptionKey        string
	SigningKeyMaxAge     time.Duration
	ExternalIssuer       string
	ExternalJWKSURL      string
	ExternalAudience     string
}

// MailConfig are the settings of outgoing mail.
type MailConfig struct {
	From      string
	OutboxDir string
	Host      string
	Port      int
	Username  string
	Password  string
	TLS       string
}

func (c *AuthConfig) settings(f *pflag.FlagSet) {
	f.BoolVar(&c.SignUp, "auth.sign-up", true, "let anybody sign up")
	f.BoolVar(&c.RequireVerification, "auth.require-email-verification", false, "make a user only when the address is confirmed by a link in a mail")
	f.Var(durationVar(&c.AccessTokenLifetime, "15m"), "auth.access-token-lifetime", "how long an access token is good for")
	f.Var(durationVar(&c.RefreshTokenLifetime, "30d"), "auth.refresh-token-lifetime", "how long a session goes on without a refresh")
	f.StringSliceVar(&c.RedirectURLs, "auth.redirect-urls", nil, "URLs that links in mails may lead on to; https://app.example.com/* is all below")
	f.IntVar(&c.PasswordMinLength, "auth.password-min-length", 8, "least characters of a password")
	f.Uint32Var(&c.HashMemory, "auth.argon2-memory", 19456, "KiB of memory to hash a password (argon2id); old hashes are renewed at sign-in")
	f.Uint32Var(&c.HashIterations, "auth.argon2-iterations", 2, "iterations to hash a password")
	f.Uint8Var(&c.HashParallelism, "auth.argon2-parallelism", 1, "lanes to hash a password")
	f.IntVar(&c.HashWorkers, "auth.hash-workers", 0, "passwords hashed at a time; 64 more wait, the rest is refused; 0 is one for each processor")
	f.IntVar(&c.MaxClientKeys, "auth.max-client-keys-per-user", 50, "most client keys that a user may have; administrators and service keys are not bound")
	f.BoolVar(&c.RateLimit, "auth.rate-limit", true, "limit attempts for each address and network")
	f.StringVar(&c.EncryptionKey, "auth.encryption-key", "", "secret of at least 32 characters to encrypt private signing keys and the secrets of repositories and webhooks in the control database with; empty stores the former readable, and the latter with a key in the data directory")
	f.Var(durationVar(&c.SigningKeyMaxAge, "90d"), "auth.signing-key-max-age", "age at which the signing key is rotated")
	f.StringVar(&c.ExternalIssuer, "auth.external-issuer", "", "another issuer (iss) whose access tokens are accepted as users'")
	f.StringVar(&c.ExternalJWKSURL, "auth.external-jwks-url", "", "where the other issuer publishes its keys")
	f.StringVar(&c.ExternalAudience, "auth.external-audience", "", "the audience (aud) that the other issuer's tokens must name")
}

func (c *MailConfig) settings(f *pflag.FlagSet) {
	f.StringVar(&c.From, "mail.from", "Bough <bough@localhost>", "sender of mails")
	f.StringVar(&c.OutboxDir, "mail.outbox-dir", "", "directory for mails when there is no mail.smtp-host (default <data-dir>/mail)")
	f.StringVar(&c.Host, "mail.smtp-host", "", "SMTP server that mails are sent through")
	f.IntVar(&c.Port, "mail.smtp-port", 587, "port of the SMTP server")
	f.StringVar(&c.Username, "mail.smtp-username", "", "user at the SMTP server")
	f.StringVar(&c.Password, "mail.smtp-password", "", "password at the SMTP server; best set by BOUGH_MAIL_SMTP_PASSWORD")
	f.StringVar(&c.TLS, "mail.smtp-tls", string(boughmail.StartTLS), "starttls, tls (from the first byte) or none")
}

// check says what does not make sense.
func (c *AuthConfig) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.AccessTokenLifetime < 10*time.Second || c.AccessTokenLifetime > 24*time.Hour {
		bad("auth.access-token-lifetime: must be 10 seconds to 24 hours")
	}
	if c.RefreshTokenLifetime < c.AccessTokenLifetime {
		bad("auth.refresh-token-lifetime: must not be shorter than auth.access-token-lifetime")
	}
	for _, entry := range c.RedirectURLs {
		if err := users.CheckRedirectEntry(entry); err != nil {
			bad("auth.redirect-urls: %w", err)
		}
	}
	if c.PasswordMinLength < 8 || c.PasswordMinLength > 64 {
		bad("auth.password-min-length: must be 8 to 64")
	}
	if err := password.CheckParams(c.hashParams()); err != nil {
		bad("auth.argon2: %w", err)
	}
	if c.HashWorkers < 0 {
		bad("auth.hash-workers: must not be negative")
	}
	if c.MaxClientKeys < 0 {
		bad("auth.max-client-keys-per-user: must not be negative")
	}
	if n := len(c.EncryptionKey); n > 0 && n < auth.MinEncryptionKey {
		bad("auth.encryption-key: must have at least %d characters", auth.MinEncryptionKey)
	}
	if c.SigningKeyMaxAge < time.Hour {
		bad("auth.signing-key-max-age: must be at least 1 hour")
	}
	switch given := []string{c.ExternalIssuer, c.ExternalJWKSURL, c.ExternalAudience}; {
	case given[0] == "" && given[1] == "" && given[2] == "":
	case given[0] == "" || given[1] == "" || given[2] == "":
		bad("auth.external-issuer, auth.external-jwks-url and auth.external-audience are set together or not at all")
	default:
		u, err := url.Parse(c.ExternalJWKSURL)
		if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
			bad("auth.external-jwks-url: %q must be an https URL", c.ExternalJWKSURL)
		}
	}
	return errors.Join(errs...)
}

func isLoopback(host string) bool { return host == "localhost" || host == "127.0.0.1" || host == "::1" }

func (c *MailConfig) check() error {
	var errs []error
	if _, err := mail.ParseAddress(c.From); err != nil {
		errs = append(errs, fmt.Errorf("mail.from: %q is not an address", c.From))
	}
	if c.Port < 1 || c.Port > 65535 {
		errs = append(errs, fmt.Errorf("mail.smtp-port: must be 1 to 65535"))
	}
	switch boughmail.TLS(c.TLS) {
	case boughmail.StartTLS, boughmail.Implicit, boughmail.NoTLS:
	default:
		errs = append(errs, fmt.Errorf("mail.smtp-tls: %q is not one of starttls, tls, none", c.TLS))
	}
	return errors.Join(errs...)
}

func (c *AuthConfig) hashParams() password.Params {
	return password.Params{MemoryKiB: c.HashMemory, Iterations: c.HashIterations, Parallelism: c.HashParallelism}
}

// hashQueue is how many passwords may wait to be hashed.
const hashQueue = 64

func (c *AuthConfig) hasher() *password.Hasher {
	workers := c.HashWorkers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	return password.NewHasher(c.hashParams(), workers, hashQueue)
}

func (c *AuthConfig) outside() *auth.Outside {
	if c.ExternalIssuer == "" {
		return nil
	}
	return &auth.Outside{Issuer: c.ExternalIssuer, JWKSURL: c.ExternalJWKSURL, Audience: c.ExternalAudience}
}

// outboxDir is where mails go without an SMTP server.
func (c *Config) outboxDir() string {
	if c.Mail.OutboxDir != "" {
		return c.Mail.OutboxDir
	}
	return filepath.Join(c.DataDir, "mail")
}
