// Package repohost makes branches follow pull requests. It keeps a configuration for each repository, takes the
// deliveries of GitHub, Gitea, Forgejo and GitLab, and reports back to them.
//
// A delivery does three things, in one transaction: it is recorded, so that it counts once; what it says of the pull
// request is written into the pull request's row, unless something newer is there already; and a job is queued. The job
// brings the branches into line with the row, not with the delivery. So late, reordered and repeated deliveries, jobs
// too many and processes that die all lead to the same end. The branches themselves are package branching's.
package repohost

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/branching"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/ratelimit"
	"github.com/boughdb/bough/server/safedial"
)

// The nouns of the area.
type (
	Config      = db.RepohostConfig
	Provider    = db.RepohostProvider
	PullRequest = db.RepohostPullRequest
	Record      = db.RepohostDelivery
)

// What callers may be told.
var (
	ErrNotFound = fault.New(fault.NotFound, "not_found", "there is no configuration for the repository")
	// ErrRefused is the one answer to everything that is wrong with who sends a delivery, so that nobody learns from it
	// which repositories there are.
	ErrRefused = fault.New(fault.Unauthorized, "unauthorized", "the delivery is not signed as it must be").
			WithHint("the repository needs a configuration whose webhook_secret is the secret of the webhook; the server's log says more")
	ErrRateLimited = fault.New(fault.RateLimited, "rate_limited", "too many deliveries of the repository")
)

// Service is the part of one installation that follows pull requests.
type Service struct {
	pool     *pgxpool.Pool
	branches *branching.Service
	vault    *auth.Vault
	log      *slog.Logger
	jobs     *river.Client[pgx.Tx]
	limits   *ratelimit.Limiter
	targets  safedial.Options
	web      *http.Client
}

// New returns the service. SetJobs must be called before it is used. targets says where reports may go.
func New(pool *pgxpool.Pool, branches *branching.Service, vault *auth.Vault, targets safedial.Options, log *slog.Logger) *Service {
	return &Service{pool: pool, branches: branches, vault: vault, log: log, limits: ratelimit.New(pool, true), targets: targets, web: newWebClient(targets)}
}

// SetJobs gives the service the queue that its work goes into.
func (s *Service) SetJobs(jobs *river.Client[pgx.Tx]) { s.jobs = jobs }

// principal is who does a configuration's work: it may do everything with branches, and its id is in their records.
func principal(cfg Config) *auth.Principal {
	return &auth.Principal{Service: true, Admin: true, ID: cfg.ID, Role: auth.RoleService}
}

// mayManage lets administrators and service keys in.
func (s *Service) mayManage(p *auth.Principal) error {
	if err := s.branches.Enabled(); err != nil {
		return err
	}
	if !p.Unbound() {
		return auth.ErrDenied.Msgf("configurations of repositories are for administrators and service keys")
	}
	return nil
}

// A repository may send so many deliveries at once, and then one in each interval. It is generous, since repository
// hosts do not send a refused delivery again.
var deliveryRate = ratelimit.Limit{Name: "delivery of a repository", Burst: 300, Every: 200 * time.Millisecond}

func (s *Service) takeRate(ctx context.Context, cfg Config) error {
	err := s.limits.Take(ctx, deliveryRate, cfg.ID.String())
	var limited *fault.Error
	if !errors.As(err, &limited) {
		return err
	}
	wait := limited.RetryAfter
	return ErrRateLimited.Msgf("too many deliveries of the repository; try again in %d seconds", int(wait.Seconds())).Retry(wait)
}

// inTx runs f in a transaction of the control database.
func (s *Service) inTx(ctx context.Context, f func(tx pgx.Tx, q *db.Queries) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return f(tx, db.New(tx)) })
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

func none(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
