// Package branching owns branches: who may see and change them, what becomes of them, and the record of it. The
// databases themselves are made, swapped and dropped by an Engine; the work is done by durable jobs, so that a
// process that dies leaves nothing behind that another does not finish.
package branching

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/postgres"
)

// The nouns of the area.
type (
	Branch   = db.Branch
	Activity = db.BranchActivity
	Grant    = db.BranchAccess
	Level    = db.AccessLevel
)

// What callers may be told.
var (
	ErrDisabled       = fault.New(fault.Unavailable, "branching_disabled", "branching is not enabled on this server")
	ErrNotFound       = fault.New(fault.NotFound, "branch_not_found", "there is no such branch")
	ErrExists         = fault.New(fault.Conflict, "branch_exists", "there is already a branch with this name")
	ErrBusy           = fault.New(fault.Conflict, "branch_busy", "another operation holds the branch")
	ErrHasChildren    = fault.New(fault.Conflict, "has_children", "the branch has branches of its own").WithHint("add ?children=orphan or ?children=cascade")
	ErrDeleteMain     = fault.New(fault.Forbidden, "cannot_delete_main", "main cannot be deleted")
	ErrResetMain      = fault.New(fault.Forbidden, "cannot_reset_main", "main cannot be reset")
	ErrUpdateMain     = fault.New(fault.Forbidden, "cannot_update_main", "main cannot be changed")
	ErrMaxBranches    = fault.New(fault.Forbidden, "max_branches_reached", "the number of branches is at its limit")
	ErrResetFailed    = fault.New(fault.Conflict, "reset_failed", "the parent could not be cloned; the branch is as it was")
	ErrKeyReused      = fault.New(fault.Conflict, "idempotency_key_reused", "the Idempotency-Key came with another request before")
	ErrGrantNotFound  = fault.New(fault.NotFound, "not_found", "the user has no grant on the branch")
	errNeedsConnector = auth.ErrDenied.Msgf("connection strings of main are for administrators and service keys")
	errNarrowed       = auth.ErrDenied.Msgf("client keys and tokens with scopes get no connection strings").WithHint("sign in, or use a service key")
	errSharedLogin    = auth.ErrDenied.Msgf("connection strings are for administrators and service keys: the server has no logins that reach one branch only")
)

// Engine makes, swaps and drops databases. *postgres.Cluster is one; tests have another that fails where they want.
type Engine interface {
	Main() string
	Isolated() bool
	LoginURL(ctx context.Context, branch uuid.UUID, database string) (string, error)
	RotateLogin(ctx context.Context, branch uuid.UUID, database string) (string, error)
	DropLogin(ctx context.Context, branch uuid.UUID) error
	Clone(ctx context.Context, r postgres.CloneRequest) (postgres.CloneResult, error)
	CheckRoom(ctx context.Context, database string, schemaOnly bool) error
	GuardSpace(ctx context.Context, what string, do func(ctx context.Context) error) error
	Complete(ctx context.Context, r postgres.CloneRequest) error
	Swap(ctx context.Context, current, fresh, old, op string) error
	Drop(ctx context.Context, database, op string) error
	DropImage(ctx context.Context, branch uuid.UUID) error
	SweepImages(ctx context.Context, live func(branch uuid.UUID) (bool, error)) error
	Abandon(ctx context.Context, op string) error
	Lookup(ctx context.Context, database string) (*postgres.Database, error)
	Databases(ctx context.Context) ([]postgres.Database, error)
	PoolStats(database string) postgres.PoolStats
}

// Config are the settings of branching.
type Config struct {
	Enabled     bool
	MaxBranches int
	MaxPerUser  int
	MaxExpiry   time.Duration
	OpenToUsers bool   // every signed-in user may make schema-only branches of main
	SeedPath    string // directory of the *.sql files for seed_data
	Workers     int    // clones at a time
	// ExpiringNotice is how long before its end a branch's expiry is announced.
	ExpiringNotice time.Duration
}

// Service is the branching of one installation.
type Service struct {
	pool   *pgxpool.Pool
	engine Engine
	cfg    Config
	log    *slog.Logger
	jobs   *river.Client[pgx.Tx]
	// publish is nil where nobody is told of what happens.
	publish Publisher
	mainID  uuid.UUID
	main    Route
	routes  *routes
	// strange are databases that Maintain has already warned of.
	strange map[string]bool
	gone    chan string // names of databases that requests did not find
}

// New returns the service and makes main's row. SetJobs must follow before branches are changed.
func New(ctx context.Context, pool *pgxpool.Pool, engine Engine, cfg Config, log *slog.Logger) (*Service, error) {
	main, err := db.New(pool).EnsureMain(ctx, db.EnsureMainParams{ID: uuid.Must(uuid.NewV7()), DatabaseName: engine.Main()})
	if err != nil {
		return nil, fmt.Errorf("recording main: %w", err)
	}
	return &Service{
		pool: pool, engine: engine, cfg: cfg, log: log, mainID: main.ID, strange: map[string]bool{}, gone: make(chan string, 16), routes: newRoutes(),
		main: Route{BranchID: main.ID, Slug: mainSlug, Database: main.DatabaseName, Main: true},
	}, nil
}

// SetJobs gives the service the queue that its work goes into.
func (s *Service) SetJobs(jobs *river.Client[pgx.Tx]) { s.jobs = jobs }

func (s *Service) enabled() error {
	if !s.cfg.Enabled {
		return ErrDisabled
	}
	return nil
}

// find looks a branch up by id or slug, removed ones not. An id wins over a slug; no slug looks like an id.
func (s *Service) find(ctx context.Context, q *db.Queries, ref string) (Branch, error) {
	var b Branch
	id, err := uuid.Parse(ref)
	if err == nil {
		b, err = q.GetBranchByID(ctx, id)
	} else {
		b, err = q.GetBranchBySlug(ctx, ref)
	}
	if errors.Is(err, pgx.ErrNoRows) || err == nil && b.DeletedAt != nil {
		return Branch{}, notFound(ref)
	}
	if err != nil {
		return Branch{}, fmt.Errorf("looking up a branch: %w", err)
	}
	return b, nil
}

func notFound(ref string) error { return ErrNotFound.Msgf("there is no branch %q", ref) }

// Find returns a branch that the caller has at least the given access to. One that she may not read at all is
// ErrNotFound, so that its existence stays hidden; main's existence is no secret.
func (s *Service) Find(ctx context.Context, p *auth.Principal, ref string, need Level) (Branch, error) {
	q := db.New(s.pool)
	b, err := s.find(ctx, q, ref)
	if err != nil {
		return Branch{}, err
	}
	return b, s.authorize(ctx, q, p, b, need, ref)
}

func (s *Service) authorize(ctx context.Context, q *db.Queries, p *auth.Principal, b Branch, need Level, ref string) error {
	level, err := s.level(ctx, q, p, b)
	if err != nil {
		return err
	}
	switch {
	case rank[level] >= rank[need]:
		return nil
	case level == "" && !b.IsMain:
		return notFound(ref)
	}
	return auth.ErrDenied.Msgf("this needs %s access to branch %q", need, b.Slug)
}

var rank = map[Level]int{db.AccessLevelRead: 1, db.AccessLevelWrite: 2, db.AccessLevelAdmin: 3}

// level is the caller's access to a branch, "" for none.
func (s *Service) level(ctx context.Context, q *db.Queries, p *auth.Principal, b Branch) (Level, error) {
	if p.Admin || !b.IsMain && b.CreatedBy == p.Actor() {
		return db.AccessLevelAdmin, nil
	}
	level, err := q.GetAccessLevel(ctx, db.GetAccessLevelParams{BranchID: b.ID, UserID: p.ID})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading access: %w", err)
	}
	return level, nil
}

// record writes an activity entry.
func record(ctx context.Context, q *db.Queries, branch uuid.UUID, action db.BranchAction, actor string, status db.ActivityStatus, took time.Duration, details map[string]any) error {
	if details == nil {
		details = map[string]any{}
	}
	data, err := json.Marshal(details)
	if err != nil {
		return err
	}
	var ms *int64
	if took > 0 {
		n := took.Milliseconds()
		ms = &n
	}
	err = q.InsertActivity(ctx, db.InsertActivityParams{
		ID: uuid.Must(uuid.NewV7()), BranchID: branch, Action: action, UserID: actor, Details: data, Status: status, DurationMs: ms,
	})
	if err != nil {
		return fmt.Errorf("recording %s: %w", action, err)
	}
	return nil
}

// violated reports whether err is a violation of one of the named constraints.
func violated(err error, constraints ...string) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	for _, c := range constraints {
		if pgErr.ConstraintName == c {
			return true
		}
	}
	return false
}

// busy says what holds a branch.
func busy(b Branch) error {
	doing := map[db.BranchStatus]string{
		db.BranchStatusCreating: "still being created", db.BranchStatusResetting: "being reset", db.BranchStatusDeleting: "being deleted",
		db.BranchStatusError: "in status error",
	}[b.Status]
	if doing == "" {
		return ErrBusy
	}
	return ErrBusy.Msgf("branch %q is %s", b.Slug, strings.TrimSpace(doing)).Retry(time.Second)
}
