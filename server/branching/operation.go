package branching

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/diskspace"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/pgcopy"
	"github.com/boughdb/bough/server/postgres"
)

// runClone makes the database of a branch that is being created or reset. The parent is cloned into a database of its
// own, which takes the branch's name only when it is complete; whatever is found of an earlier try is thrown away,
// except a swap that was done and only not yet recorded.
func (s *Service) runClone(ctx context.Context, b Branch) error {
	began := time.Now()
	op := b.ID.String()
	generation := b.Generation + 1
	current, err := s.engine.Lookup(ctx, b.DatabaseName)
	if err != nil {
		return err
	}
	if current != nil && !owns(current, b) {
		return permanentError{fmt.Errorf("database %q exists and is not this branch's", b.DatabaseName)}
	}
	if current != nil && current.Marker.Complete && current.Marker.Generation == generation {
		return s.finish(ctx, b, generation, postgres.CloneResult{}, nil, time.Since(began))
	}
	request := postgres.CloneRequest{
		Target: freshName(b.DatabaseName), Branch: b.ID, Generation: generation,
		SchemaOnly: b.DataCloneMode != db.DataCloneModeFullClone,
		Progress:   func(phase string) { s.phase(ctx, b, phase) },
		Step:       func(step string) { faultPoint(b, step) },
	}
	result, err := s.cloneParent(ctx, b, &request)
	if err != nil {
		return err
	}
	faultPoint(b, "cloned")
	var seeded []seedFile
	if b.DataCloneMode == db.DataCloneModeSeedData {
		s.phase(ctx, b, "seeding")
		err := s.engine.GuardSpace(ctx, "the seeding", func(ctx context.Context) error {
			seeded, err = s.seed(ctx, b.ID, request.Target)
			return err
		})
		if err != nil {
			return err
		}
		faultPoint(b, "seeded")
	}
	if err := s.engine.Complete(ctx, request); err != nil {
		return err
	}
	faultPoint(b, "completed")
	s.phase(ctx, b, "swapping")
	// A branch of this branch that is being made right now is let finish.
	lock, err := s.lockSource(ctx, b.ID)
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := s.engine.Drop(ctx, oldName(b.DatabaseName), op); err != nil {
		return err
	}
	if err := s.engine.Swap(ctx, b.DatabaseName, request.Target, oldName(b.DatabaseName), op); err != nil {
		return err
	}
	faultPoint(b, "swapped")
	return s.finish(ctx, b, generation, result, seeded, time.Since(began))
}

// owns reports whether a database was made for the branch. The name alone is no proof.
func owns(d *postgres.Database, b Branch) bool { return d.Marked && d.Marker.Branch == b.ID }

// lockSource makes clones of one database take turns, and keeps it from being swapped meanwhile.
func (s *Service) lockSource(ctx context.Context, id uuid.UUID) (*postgres.Lock, error) {
	return postgres.AcquireLock(ctx, s.pool, "bough.source."+id.String())
}

// cloneParent clones the parent's database into the request's target.
func (s *Service) cloneParent(ctx context.Context, b Branch, request *postgres.CloneRequest) (postgres.CloneResult, error) {
	parentID := s.mainID
	if b.ParentID != nil {
		parentID = *b.ParentID
	}
	s.phase(ctx, b, "waiting_for_parent")
	lock, err := s.lockSource(ctx, parentID)
	if err != nil {
		return postgres.CloneResult{}, err
	}
	defer lock.Release()
	parent, err := db.New(s.pool).GetBranchByID(ctx, parentID)
	if err != nil {
		return postgres.CloneResult{}, err
	}
	switch {
	case parent.DeletedAt != nil || parent.Status == db.BranchStatusDeleting:
		return postgres.CloneResult{}, permanentError{errors.New("the parent was deleted")}
	case parent.Status != db.BranchStatusReady && parent.Status != db.BranchStatusResetting:
		return postgres.CloneResult{}, fmt.Errorf("the parent %q is not ready", parent.Slug)
	}
	request.Source, request.SourceBranch = parent.DatabaseName, parent.ID
	// A target from an earlier try is dropped by the engine; it must be ours.
	if left, err := s.engine.Lookup(ctx, request.Target); err != nil {
		return postgres.CloneResult{}, err
	} else if left != nil && left.Marked && left.Marker.Branch != b.ID {
		return postgres.CloneResult{}, permanentError{fmt.Errorf("database %q exists and is not this branch's", request.Target)}
	}
	faultPoint(b, "cloning")
	return s.engine.Clone(ctx, *request)
}

// finish ends a creation or a reset that went well.
func (s *Service) finish(ctx context.Context, b Branch, generation int32, r postgres.CloneResult, seeded []seedFile, took time.Duration) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		done, err := q.FinishClone(ctx, db.FinishCloneParams{ID: b.ID, Status: b.Status, Generation: generation})
		if errors.Is(err, pgx.ErrNoRows) {
			return errSuperseded
		}
		if err != nil {
			return err
		}
		details := map[string]any{}
		if r.Strategy != "" {
			details["strategy"] = r.Strategy
			details["bytes"] = r.Size
			details["pause_ms"] = r.Pause.Milliseconds()
		}
		if r.Copier != "" {
			details["copier"] = r.Copier
		}
		if r.Strategy == postgres.StrategyImage {
			details["image_reused"] = r.Reused
		}
		if len(r.Warnings) > 0 {
			details["warnings"] = r.Warnings
		}
		entry := func(action db.BranchAction, took time.Duration, details map[string]any) error {
			return record(ctx, q, b.ID, action, b.OperationBy, db.ActivityStatusSuccess, took, details)
		}
		if b.Status == db.BranchStatusResetting {
			if err := entry(db.BranchActionReset, took, details); err != nil {
				return err
			}
			return s.tell(ctx, tx, eventReset, done, b.OperationBy, occasion{})
		}
		if err := entry(db.BranchActionCloned, r.Duration, details); err != nil {
			return err
		}
		if seeded != nil {
			if err := entry(db.BranchActionSeeded, 0, map[string]any{"files": seeded}); err != nil {
				return err
			}
		}
		if err := entry(db.BranchActionReady, took, nil); err != nil {
			return err
		}
		return s.tell(ctx, tx, eventReady, done, b.OperationBy, occasion{})
	})
	if err != nil {
		return err
	}
	faultPoint(b, "finished")
	// The branch is ready; what is left of the old state goes now, or when the sweep finds it.
	if err := s.engine.Drop(ctx, oldName(b.DatabaseName), b.ID.String()); err != nil {
		s.log.Warn("dropping the state before a reset; the sweep will try again", "branch", b.Slug, "error", err)
	}
	return nil
}

// fail ends a creation or a reset that came to nothing. A branch that still has its database stays usable.
func (s *Service) fail(ctx context.Context, b Branch, reason error) error {
	usable := false
	if b.Status == db.BranchStatusResetting {
		current, err := s.engine.Lookup(ctx, b.DatabaseName)
		if err != nil {
			return errors.Join(reason, err)
		}
		usable = current != nil && owns(current, b) && current.Marker.Complete
	}
	if err := s.engine.Drop(ctx, freshName(b.DatabaseName), b.ID.String()); err != nil {
		s.log.Warn("dropping an unfinished database; the sweep will try again", "branch", b.Slug, "error", err)
	}
	s.log.Error("a branch operation failed", "branch", b.Slug, "operation", b.Status, "error", reason)
	message, code := publicReason(reason), errorCode(reason)
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		failed, err := q.FailClone(ctx, db.FailCloneParams{ID: b.ID, Status: b.Status, Usable: usable, ErrorMessage: message, ErrorCode: code})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		action, operation := db.BranchActionFailed, "create"
		if b.Status == db.BranchStatusResetting {
			action, operation = db.BranchActionResetFailed, "reset"
		}
		details := map[string]any{"error": message}
		if code != nil {
			details["code"] = *code
		}
		if err := record(ctx, q, b.ID, action, b.OperationBy, db.ActivityStatusFailure, 0, details); err != nil {
			return err
		}
		return s.tell(ctx, tx, eventFailed, failed, b.OperationBy, occasion{Operation: operation, Error: message})
	})
}

// publicReason is what people who may see the branch are told of an error. Messages of PostgreSQL about the clone are
// what they need; a connection string is never in one.
func publicReason(err error) string {
	text := err.Error()
	if runes := []rune(text); len(runes) > 1000 {
		text = string(runes[:1000]) + "…"
	}
	return strings.ToValidUTF8(text, "?")
}

// errorCode is the identifier of an error that has one for callers, nil for others.
func errorCode(err error) *string {
	var f *fault.Error
	if errors.As(err, &f) {
		return &f.Code
	}
	return nil
}

// runDelete drops all databases of a branch.
func (s *Service) runDelete(ctx context.Context, b Branch) error {
	began := time.Now()
	op := b.ID.String()
	if err := s.engine.Abandon(ctx, op); err != nil {
		return err
	}
	lock, err := s.lockSource(ctx, b.ID)
	if err != nil {
		return err
	}
	defer lock.Release()
	faultPoint(b, "dropping")
	for _, name := range []string{freshName(b.DatabaseName), oldName(b.DatabaseName), b.DatabaseName} {
		d, err := s.engine.Lookup(ctx, name)
		if err != nil {
			return err
		}
		// One without a marker is left from a clone that died before it could mark it; the row names it.
		if d == nil || d.Marked && !owns(d, b) {
			continue
		}
		if !d.Marked && name == b.DatabaseName && b.Generation == 0 {
			continue // never made: it is somebody else's
		}
		if err := s.engine.Drop(ctx, name, op); err != nil {
			return err
		}
	}
	if err := s.engine.DropImage(ctx, b.ID); err != nil {
		return err
	}
	if err := s.engine.DropLogin(ctx, b.ID); err != nil {
		return err
	}
	faultPoint(b, "dropped")
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		deleted, err := q.FinishDelete(ctx, b.ID)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := record(ctx, q, b.ID, db.BranchActionDeleted, b.OperationBy, db.ActivityStatusSuccess, time.Since(began), nil); err != nil {
			return err
		}
		reason := "requested"
		if b.OperationBy == "" { // nobody asked: its time was over
			reason = "expired"
		}
		return s.tell(ctx, tx, eventDeleted, deleted, b.OperationBy, occasion{Reason: reason})
	})
}

// phase tells what an operation is doing; that nobody is told is no reason to stop.
func (s *Service) phase(ctx context.Context, b Branch, phase string) {
	if _, err := db.New(s.pool).SetPhase(ctx, db.SetPhaseParams{ID: b.ID, Status: b.Status, Phase: &phase}); err != nil && ctx.Err() == nil {
		s.log.Warn("noting the phase of an operation", "branch", b.Slug, "phase", phase, "error", err)
	}
}

// seedFile is a seed file that was run.
type seedFile struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// seed runs the seed files in the order of their names, each in one transaction, as the branch's login.
func (s *Service) seed(ctx context.Context, branch uuid.UUID, database string) ([]seedFile, error) {
	names, err := filepath.Glob(filepath.Join(s.cfg.SeedPath, "*.sql"))
	if err != nil {
		return nil, permanentError{err}
	}
	sort.Strings(names)
	url, err := s.engine.LoginURL(ctx, branch, database)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	done := []seedFile{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return done, permanentError{fmt.Errorf("seed file: %w", err)}
		}
		// Several statements in one message are one transaction, unless the file says otherwise.
		if _, err := conn.PgConn().Exec(ctx, string(text)).ReadAll(); err != nil {
			return done, seedError(filepath.Base(name), string(text), err)
		}
		sum := sha256.Sum256(text)
		done = append(done, seedFile{filepath.Base(name), hex.EncodeToString(sum[:])})
	}
	return done, nil
}

// seedError says in which file and line a seed went wrong.
func seedError(name, text string, err error) error {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return err
	}
	where := name
	if at := int(pgErr.Position); at > 0 {
		runes := []rune(text)
		where = fmt.Sprintf("%s, line %d", name, 1+strings.Count(string(runes[:min(at-1, len(runes))]), "\n"))
	}
	return permanentError{fmt.Errorf("seed file %s: %w", where, err)}
}

// permanentError marks an error that another try will not mend.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

func permanent(err error) bool {
	var marked permanentError
	var unsupported *pgcopy.UnsupportedError
	var unportable *postgres.UnportableError
	var denied *pgcopy.PermissionError
	var mismatch *pgcopy.MismatchError
	if pgcopy.Retryable(err) {
		return false
	}
	if errors.As(err, &marked) || errors.Is(err, diskspace.ErrInsufficient) || errors.As(err, &unsupported) || errors.As(err, &unportable) ||
		errors.As(err, &denied) || errors.As(err, &mismatch) || errors.Is(err, postgres.ErrSourceInUse) {
		return true
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		switch pgErr.Code[:2] {
		case "42", "0A", "22", "23", "53": // no privilege or wrong SQL, not supported, bad data, constraint, disk full
			return pgErr.Code != "53300" // too_many_connections passes
		}
	}
	return false
}
