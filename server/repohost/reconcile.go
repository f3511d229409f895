package repohost

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/branching"
	"github.com/boughdb/bough/server/duration"
	"github.com/boughdb/bough/server/fault"
)

// reconcile brings the branches of a pull request into line with its row. It may be done again at any point: what is
// done already stays. An error is worth another try; what only people can mend is a problem in the outcome.
func (s *Service) reconcile(ctx context.Context, cfg Config, pr PullRequest) (db.FinishPullRequestParams, error) {
	done := db.FinishPullRequestParams{PushDone: pr.PushVersion, GraceUntil: pr.GraceUntil}
	branches, err := s.branches.OfPullRequest(ctx, cfg.Repository, pr.Number)
	if err != nil {
		return done, err
	}
	if len(branches) > 0 {
		done.BranchSlug = &branches[0].Slug
	}
	switch pr.State {
	case db.PullRequestStateOpen:
		err = s.reconcileOpen(ctx, cfg, pr, branches, &done)
	case db.PullRequestStateClosed:
		err = s.reconcileClosed(ctx, cfg, pr, branches, &done)
	case db.PullRequestStateMerged:
		if cfg.AutoDeleteOnMerge {
			err = s.remove(ctx, cfg, branches)
		}
	}
	var f *fault.Error
	if errors.As(err, &f) && !passing(f) {
		done.Problem = &f.Message
		err = nil
	}
	return done, err
}

// passing reports whether a refusal passes by itself soon: a branch is in the middle of something else.
func passing(f *fault.Error) bool {
	return errors.Is(f, branching.ErrBusy) || f.Kind == fault.Unavailable || f.Kind == fault.RateLimited || f.Kind == fault.Internal
}

// reconcileOpen sees to it that an open pull request has its branch. Branches that people made for it are theirs to keep
// up; while there is one, there is no need of another.
func (s *Service) reconcileOpen(ctx context.Context, cfg Config, pr PullRequest, branches []branching.Branch, done *db.FinishPullRequestParams) error {
	if len(branches) == 0 {
		done.GraceUntil = nil
		if !wanted(cfg, pr) {
			return nil
		}
		b, err := s.create(ctx, cfg, pr)
		if err != nil {
			return err
		}
		faultPoint("created")
		done.BranchSlug = &b.Slug
		return nil
	}
	for _, b := range branches {
		if !own(cfg, b) {
			continue
		}
		if err := s.extend(ctx, cfg, pr, b); err != nil {
			return err
		}
		// A branch that is being made or reset this moment gets main's state of now in any case.
		failed := b.Status == db.BranchStatusError
		pushed := cfg.ResetOnPush && pr.PushVersion > pr.PushDone && b.Status == db.BranchStatusReady
		if !failed && !pushed {
			continue
		}
		if _, err := s.branches.Reset(ctx, principal(cfg), b.ID.String(), 0); err != nil && !errors.Is(err, branching.ErrResetFailed) {
			return err
		}
		faultPoint("reset")
	}
	done.GraceUntil = nil
	return nil
}

// wanted reports whether a pull request is one of those that a branch is made for.
func wanted(cfg Config, pr PullRequest) bool {
	switch {
	case !cfg.AutoCreateOnPR, pr.Fork && !cfg.AllowForks, pr.Draft && cfg.IgnoreDrafts:
		return false
	case len(cfg.BaseBranches) == 0:
		return true
	}
	for _, pattern := range cfg.BaseBranches {
		if matches(pattern, pr.BaseRef) {
			return true
		}
	}
	return false
}

// matches reports whether a name fits a pattern in which * stands for any characters.
func matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

// own reports whether a branch was made for the configuration and not by somebody.
func own(cfg Config, b branching.Branch) bool { return b.CreatedBy == cfg.ID.String() }

// create makes the branch of a pull request. Rows of main are nothing that code from a fork should see.
func (s *Service) create(ctx context.Context, cfg Config, pr PullRequest) (b branching.Branch, err error) {
	params := branching.CreateParams{
		Mode: cfg.DefaultDataCloneMode, Type: cfg.DefaultBranchType, RepohostRepo: &cfg.Repository, RepohostPRNumber: &pr.Number,
	}
	if pr.Fork && params.Mode == db.DataCloneModeFullClone {
		params.Mode = db.DataCloneModeSchemaOnly
	}
	if cfg.ExpiresIn != nil {
		params.ExpiresIn = duration.Format(s.lifetime(*cfg.ExpiresIn))
	}
	if pr.URL != "" {
		params.RepohostPRURL = &pr.URL
	}
	for _, params.Name = range branchNames(cfg.Repository, pr.Number) {
		b, err = s.branches.CreateForPullRequest(ctx, principal(cfg), params, cfg.MaxBranches)
		if !errors.Is(err, branching.ErrExists) {
			return b, err
		}
	}
	return b, err
}

const maxBranchName = 100

// branchNames are the names that a pull request's branch may have: the short one, and for when another repository's pull
// request has that, one with the repository in it.
func branchNames(repository string, number int32) []string {
	short := fmt.Sprintf("pr-%d", number)
	long := strings.ReplaceAll(repository, "/", "-") + "-" + short
	if len(long) > maxBranchName { // the end tells repositories apart better than the beginning
		long = strings.TrimLeft(long[len(long)-maxBranchName:], "-_.")
	}
	return []string{short, long}
}

// extend lets a branch live on after its pull request was heard of. It takes back the end that closing gave, and never
// shortens what somebody gave.
func (s *Service) extend(ctx context.Context, cfg Config, pr PullRequest, b branching.Branch) error {
	if b.ExpiresAt == nil {
		return nil
	}
	var until *time.Time
	if cfg.ExpiresIn != nil {
		at := time.Now().Add(s.lifetime(*cfg.ExpiresIn)).UTC()
		until = &at
	}
	const slack = time.Minute // of a job that is done again
	reopened := pr.GraceUntil != nil && b.ExpiresAt.Equal(*pr.GraceUntil)
	if !reopened && (until == nil || until.Before(b.ExpiresAt.Add(slack))) {
		return nil
	}
	return gone(s.branches.SetExpiry(ctx, principal(cfg), b.ID, until))
}

// lifetime is a duration that was checked when it was set, but not longer than the server now lets branches live.
func (s *Service) lifetime(text string) time.Duration {
	d, err := duration.Parse(text)
	if err != nil {
		return 0 // as close_grace may be
	}
	return min(d, s.branches.MaxExpiry())
}

// reconcileClosed lets the branch that was made for a pull request end after the grace. Those that people made stay: only
// a merge says that the work is over.
func (s *Service) reconcileClosed(ctx context.Context, cfg Config, pr PullRequest, branches []branching.Branch, done *db.FinishPullRequestParams) error {
	if !cfg.AutoDeleteOnClose || pr.ClosedAt == nil {
		return nil
	}
	var mine []branching.Branch
	for _, b := range branches {
		if own(cfg, b) {
			mine = append(mine, b)
		}
	}
	grace := s.lifetime(cfg.CloseGrace)
	if grace == 0 {
		return s.remove(ctx, cfg, mine)
	}
	until := pr.ClosedAt.Add(grace).UTC()
	for _, b := range mine {
		if b.ExpiresAt != nil && !b.ExpiresAt.After(until) {
			continue
		}
		if err := gone(s.branches.SetExpiry(ctx, principal(cfg), b.ID, &until)); err != nil {
			return err
		}
	}
	done.GraceUntil = &until
	return nil
}

// remove begins to delete branches. What was made from them goes to their parent.
func (s *Service) remove(ctx context.Context, cfg Config, branches []branching.Branch) error {
	for _, b := range branches {
		if err := gone(s.branches.Delete(ctx, principal(cfg), b.ID.String(), branching.OrphanChildren, 0)); err != nil {
			return err
		}
		faultPoint("deleted")
	}
	return nil
}

// gone lets the error pass that somebody else removed the branch this moment.
func gone(err error) error {
	if errors.Is(err, branching.ErrNotFound) {
		return nil
	}
	return err
}
