package branching

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
)

// ErrNotReady is the error of a request to a branch whose database cannot be used at the moment.
var ErrNotReady = fault.New(fault.Unavailable, "branch_not_ready", "the branch is not ready")

// Route is where a request's data is.
type Route struct {
	BranchID uuid.UUID // of main too
	Slug     string
	Database string
	Main     bool
}

// How long what was looked up is trusted. Changes are told at once by notification; this bounds what a lost one can do.
const (
	routeTTL = 30 * time.Second
	// Branches that are not ready soon are, and the answer should not lag behind what a list of branches says. A name
	// that is unknown is remembered just long enough that guessing does not reach the database each time.
	notReadyTTL = 100 * time.Millisecond
	unknownTTL  = time.Second
)

// notRef is what no reference has in it. A slug is of lower-case ASCII letters, digits and hyphens; other forms than the
// usual one of a uuid are taken as well.
var notRef = regexp.MustCompile(`[^A-Za-z0-9{}:-]|.{64}`)

// Most references and grants that are remembered; beyond it, all are forgotten.
const maxRoutes = 10_000

// routes remembers where references lead, and the access of users.
type routes struct {
	mu sync.RWMutex
	// generation counts what was told to be forgotten: what was looked up before may be out of date.
	generation uint64
	places     map[string]place // by reference
	levels     map[grantee]heldLevel
}

// place is a branch as requests see it; id zero stands for none.
type place struct {
	Route
	status  db.BranchStatus
	code    string // of the error that the branch is in
	creator string
	until   time.Time
}

type grantee struct{ branch, user uuid.UUID }

type heldLevel struct {
	level Level
	until time.Time
}

func newRoutes() *routes {
	return &routes{places: map[string]place{}, levels: map[grantee]heldLevel{}}
}

// Route finds the branch that ref, a slug or an id, names for a request that reads or writes its data; "" and "main" are
// main, where everybody goes and row-level security alone decides. Other branches need read or write access. The error is
// ErrNotFound for a branch that there is not or that the caller may not read, and ErrNotReady while it has no database to
// use.
func (s *Service) Route(ctx context.Context, p *auth.Principal, ref string, write bool) (Route, error) {
	if ref == "" || ref == mainSlug {
		return s.main, nil
	}
	if err := s.enabled(); err != nil {
		return Route{}, err
	}
	at, err := s.place(ctx, ref)
	if err != nil {
		return Route{}, err
	}
	if at.Main {
		return s.main, nil
	}
	if at.BranchID == uuid.Nil {
		return Route{}, notFound(ref[:min(len(ref), 100)])
	}
	level, err := s.routeLevel(ctx, p, at)
	if err != nil {
		return Route{}, err
	}
	need := db.AccessLevelRead
	if write {
		need = db.AccessLevelWrite
	}
	switch {
	case level == "":
		return Route{}, notFound(ref)
	case rank[level] < rank[need]:
		return Route{}, auth.ErrDenied.Msgf("this needs %s access to branch %q", need, at.Slug)
	case at.status != db.BranchStatusReady:
		return Route{}, notReady(at)
	}
	return at.Route, nil
}

// notReady says why a branch cannot be used and, where that is known to pass, when to try again.
func notReady(at place) error {
	switch at.status {
	case db.BranchStatusCreating:
		return ErrNotReady.Msgf("branch %q is still being created", at.Slug).Retry(time.Second)
	case db.BranchStatusResetting:
		return ErrNotReady.Msgf("branch %q is being reset", at.Slug).Retry(time.Second)
	case db.BranchStatusDeleting:
		return ErrNotReady.Msgf("branch %q is being deleted", at.Slug)
	}
	if at.code == codeMissing {
		return ErrNotReady.Msgf("the database of branch %q does not exist any more (%s)", at.Slug, at.code).WithHint("reset the branch to create it again, or delete the branch; error_message of the branch says why")
	}
	return ErrNotReady.Msgf("branch %q is in status %s", at.Slug, at.status).WithHint("reset the branch, or delete it and create it again")
}

// place looks a reference up, in the cache first.
func (s *Service) place(ctx context.Context, ref string) (place, error) {
	now := time.Now()
	s.routes.mu.RLock()
	at, ok := s.routes.places[ref]
	generation := s.routes.generation
	s.routes.mu.RUnlock()
	if ok && now.Before(at.until) {
		return at, nil
	}
	if notRef.MatchString(ref) {
		return place{}, nil
	}
	at = place{until: now.Add(unknownTTL)}
	b, err := s.find(ctx, db.New(s.pool), ref)
	switch {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return place{}, err
	default:
		at = place{
			Route:  Route{BranchID: b.ID, Slug: b.Slug, Database: b.DatabaseName, Main: b.IsMain},
			status: b.Status, code: orEmpty(b.ErrorCode), creator: b.CreatedBy, until: now.Add(routeTTL),
		}
		if b.Status != db.BranchStatusReady {
			at.until = now.Add(notReadyTTL)
		}
	}
	s.routes.mu.Lock()
	defer s.routes.mu.Unlock()
	if s.routes.generation == generation {
		if len(s.routes.places) >= maxRoutes {
			clear(s.routes.places)
		}
		s.routes.places[strings.Clone(ref)] = at // a part of a request's header otherwise
	}
	return at, nil
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// routeLevel is the caller's access to a branch other than main, "" for none.
func (s *Service) routeLevel(ctx context.Context, p *auth.Principal, at place) (Level, error) {
	if p.Admin {
		return db.AccessLevelAdmin, nil
	}
	now := time.Now()
	key := grantee{at.BranchID, p.ID}
	s.routes.mu.RLock()
	held, ok := s.routes.levels[key]
	generation := s.routes.generation
	s.routes.mu.RUnlock()
	if ok && now.Before(held.until) {
		return held.level, nil
	}
	var level Level
	if at.creator == p.Actor() {
		level = db.AccessLevelAdmin
	} else {
		var err error
		level, err = db.New(s.pool).GetAccessLevel(ctx, db.GetAccessLevelParams{BranchID: at.BranchID, UserID: p.ID})
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return "", fmt.Errorf("reading access: %w", err)
		}
	}
	s.routes.mu.Lock()
	defer s.routes.mu.Unlock()
	if s.routes.generation == generation {
		if len(s.routes.levels) >= maxRoutes {
			clear(s.routes.levels)
		}
		s.routes.levels[key] = heldLevel{level, now.Add(routeTTL)}
	}
	return level, nil
}

// ForgetRoute drops what is remembered of a branch; the zero id drops everything. References that led nowhere are
// dropped in any case: the branch may be theirs.
func (s *Service) ForgetRoute(id uuid.UUID) {
	s.routes.mu.Lock()
	defer s.routes.mu.Unlock()
	s.routes.generation++
	if id == uuid.Nil {
		clear(s.routes.places)
		clear(s.routes.levels)
		return
	}
	for ref, at := range s.routes.places {
		if at.BranchID == id || at.BranchID == uuid.Nil {
			delete(s.routes.places, ref)
		}
	}
	for key := range s.routes.levels {
		if key.branch == id {
			delete(s.routes.levels, key)
		}
	}
}

// Notified takes in the payload of a notification on Channel and returns the database that may be another from now on,
// "" where none is.
func (s *Service) Notified(payload string) (database string) {
	text, database, _ := strings.Cut(payload, " ")
	id, err := uuid.Parse(text)
	if err != nil {
		id = uuid.Nil
	}
	s.ForgetRoute(id)
	return database
}

// Channel is where the control database tells of changes of branches.
const Channel = "bough_branches"
