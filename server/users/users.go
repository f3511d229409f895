// Package users keeps the people who sign in: accounts and passwords, sessions with their refresh tokens, links that are
// sent by mail, and what administrators do with accounts. Access tokens are made and verified by package auth; here is
// decided who gets one.
package users

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/mail"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"golang.org/x/text/unicode/norm"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
	boughmail "github.com/boughdb/bough/server/mail"
	"github.com/boughdb/bough/server/password"
	"github.com/boughdb/bough/server/ratelimit"
)

// User is an account's row.
type User = db.User

// Errors that callers see.
var (
	ErrInvalidLogin         = fault.New(fault.Unauthorized, "invalid_credentials", "the e-mail address or the password is wrong")
	ErrSignUpClosed         = fault.New(fault.Forbidden, "signup_disabled", "nobody can sign up here; ask an administrator for an account")
	ErrEmailExists          = fault.New(fault.Conflict, "email_exists", "there is an account with this e-mail address")
	ErrNotConfirmed         = fault.New(fault.Forbidden, "email_not_confirmed", "the e-mail address is not confirmed; follow the link in the mail that was sent to it")
	ErrDisabled             = fault.New(fault.Forbidden, "user_banned", "the account is disabled")
	ErrNotFound             = fault.New(fault.NotFound, "not_found", "there is no such user")
	ErrSessionNotFound      = fault.New(fault.NotFound, "not_found", "there is no such session")
	ErrRefreshTokenNotFound = fault.New(fault.Unauthorized, "refresh_token_not_found", "the refresh token is not known; sign in again")
	ErrRefreshTokenUsed     = fault.New(fault.Unauthorized, "refresh_token_already_used", "the refresh token was used before")
	ErrSessionEnded         = fault.New(fault.Unauthorized, "session_expired", "the session has ended; sign in again")
	ErrLinkExpired          = fault.New(fault.Unauthorized, "otp_expired", "the link or code is not valid any more; ask for a new one")
	ErrProofNeeded          = fault.New(fault.Forbidden, "current_password_required", "another password or address needs current_password, or a session by magic link of the last 15 minutes")
	ErrNotWritable          = fault.New(fault.Forbidden, "field_not_writable", "the field is written by administrators only")
	ErrWeakPassword         = password.ErrWeak
	ErrSamePassword         = &fault.Error{Kind: fault.Invalid, Status: 422, Code: "same_password", Message: "the new password is the one of before"}
	ErrRedirect             = fault.New(fault.Invalid, "redirect_not_allowed", "redirect_to is not one of the URLs in auth.redirect_urls")
	ErrVerifier             = fault.New(fault.Invalid, "code_verifier_required", "the link was asked for with code_challenge: send the code_verifier that it was made from")
)

// NotWritable is ErrNotWritable for the field.
func NotWritable(field string) error {
	e := ErrNotWritable.Msgf("%s is written by administrators only", field)
	e.Fields = map[string]string{field: "is written by administrators only"}
	return e
}

// Config are the settings of the service.
type Config struct {
	SignUp              bool
	RequireVerification bool
	RefreshLifetime     time.Duration
	PasswordMinLength   int
	RedirectURLs        []string
	RateLimit           bool
	BaseURL             string // where links in mails lead
}

// Service keeps users.
type Service struct {
	pool   *pgxpool.Pool
	signer *auth.Signer
	tokens *auth.Tokens
	hasher *password.Hasher
	mailer boughmail.Sender
	cfg    Config
	log    *slog.Logger
	limits *ratelimit.Limiter
	// changed is called when a user was changed or deleted by an administrator.
	changed func()
	jobs    *river.Client[pgx.Tx]
}

// New returns the service. SetJobs must be called before it is used.
func New(pool *pgxpool.Pool, signer *auth.Signer, tokens *auth.Tokens, hasher *password.Hasher, mailer boughmail.Sender, cfg Config, log *slog.Logger) *Service {
	return &Service{pool: pool, signer: signer, tokens: tokens, hasher: hasher, mailer: mailer, cfg: cfg, log: log, limits: ratelimit.New(pool, cfg.RateLimit), changed: func() {}}
}

// OnChange has f called when a user was changed or deleted by an administrator, before whoever did it is told: what this
// process remembers of credentials may not hold any more. Other processes hear of it by notification.
func (s *Service) OnChange(f func()) { s.changed = f }

// SetJobs gives the service the queue that its mails go through.
func (s *Service) SetJobs(jobs *river.Client[pgx.Tx]) { s.jobs = jobs }

// Client is where a request comes from.
type Client struct {
	IP        string
	UserAgent string
}

// Network is what attempts are counted by: the address, or of IPv6 the network that a household has.
func (c Client) Network() string {
	addr, err := netip.ParseAddr(c.IP)
	if err != nil {
		return "unknown"
	}
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return "unknown"
	}
	return prefix.String()
}

func (c Client) program() string {
	agent := strings.ReplaceAll(strings.ToValidUTF8(c.UserAgent, "�"), "\x00", "")
	if len(agent) > 200 {
		agent = strings.ToValidUTF8(agent[:200], "")
	}
	return agent
}

// normalize returns the one form of an address that stands for all its spellings.
func normalize(email string) (string, error) {
	email = strings.ToLower(norm.NFC.String(strings.TrimSpace(email)))
	parsed, err := mail.ParseAddress(email)
	if err != nil || parsed.Address != email || len(email) > 254 || strings.ContainsAny(email, " \"()<>,;:\\") {
		return "", fault.Field("email", "must be an e-mail address")
	}
	return email, nil
}

const maxMetadata = 4 << 10

// metadataJSON returns metadata as it is stored.
func metadataJSON(name string, m map[string]any) (json.RawMessage, error) {
	if m == nil {
		return json.RawMessage("{}"), nil
	}
	data, err := json.Marshal(m)
	switch {
	case err != nil:
		return nil, fault.Field(name, "must be a JSON object")
	case len(data) > maxMetadata:
		return nil, fault.Field(name, "must be at most %d bytes of JSON; it is %d", maxMetadata, len(data))
	case strings.Contains(string(data), `\u0000`):
		return nil, fault.Field(name, `must not contain \u0000`)
	}
	return data, nil
}

// mergeMetadata puts changes over what is stored; null removes an entry.
func mergeMetadata(name string, stored json.RawMessage, changes map[string]any) (json.RawMessage, error) {
	merged := map[string]any{}
	if err := json.Unmarshal(stored, &merged); err != nil {
		return nil, err
	}
	for key, v := range changes {
		if v == nil {
			delete(merged, key)
			continue
		}
		merged[key] = v
	}
	return metadataJSON(name, merged)
}

// Prefixes of the secrets, so that one is not taken for another and scanners of leaked secrets know them.
const (
	refreshPrefix = "bough_rt_"
	linkPrefix    = "bough_ml_"
)

// newSecret returns a secret of 256 random bits, and the hash by which it is stored.
func newSecret(prefix string) (secret string, hash []byte) {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails (crypto/rand)
	secret = prefix + base64.RawURLEncoding.EncodeToString(random)
	return secret, hashOf(secret)
}

// newCode returns six random digits.
func newCode() (string, error) {
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%06d", n), nil
}

func hashOf(secret string) []byte {
	hash := sha256.Sum256([]byte(secret))
	return hash[:]
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

func none(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// taken reports whether err says that another user has the address.
func taken(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.ConstraintName == "users_email_key"
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// inTx runs f in a transaction of the control database.
func (s *Service) inTx(ctx context.Context, f func(tx pgx.Tx, q *db.Queries) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return f(tx, db.New(tx)) })
}

// Sweep removes what is not needed any more.
func (s *Service) Sweep(ctx context.Context) error {
	q := db.New(s.pool)
	return errors.Join(
		q.SweepRates(ctx), q.SweepMailTokens(ctx), q.SweepSessions(ctx), q.SweepRevocations(ctx),
		q.SweepRefreshTokens(ctx, s.cfg.RefreshLifetime.Seconds()),
	)
}
