package repohost

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/branching"
	"github.com/boughdb/bough/server/postgres"
)

type reporter struct {
	river.WorkerDefaults[reportArgs]
	s *Service
}

// Pauses of a report: until a branch that is in the middle of something is looked at again, and after a failure.
const (
	lookAgain        = 2 * time.Second
	reportLease      = 20 * time.Second // longer than all requests of a report may take
	firstReportPause = 5 * time.Second
	maxReportPause   = 5 * time.Minute
)

func reportPause(attempt int) time.Duration {
	return min(firstReportPause<<min(attempt-1, 10), maxReportPause)
}

// NextRetry gives the repository host time to recover.
func (*reporter) NextRetry(job *river.Job[reportArgs]) time.Time {
	return time.Now().Add(reportPause(job.Attempt))
}

// Timeout bounds a report; each of its requests has a limit of its own.
func (*reporter) Timeout(*river.Job[reportArgs]) time.Duration { return reportLease - 2*time.Second }

func (w *reporter) Work(ctx context.Context, job *river.Job[reportArgs]) error {
	moving, err := w.s.report(ctx, job.Args.PullRequestID, job.Attempt, job.MaxAttempts)
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		return river.JobSnooze(0) // the server is stopping; the next one takes it up
	case err != nil:
		return storable(err)
	case moving:
		return river.JobSnooze(lookAgain)
	}
	return nil
}

// report tells the repository host how the branch of a pull request is, where that is news. moving says that the branch
// is in the middle of something, so that there will be news soon.
func (s *Service) report(ctx context.Context, id uuid.UUID, attempt, most int) (moving bool, err error) {
	lock, err := postgres.AcquireLock(ctx, s.pool, "bough.report."+id.String())
	if err != nil {
		return false, err
	}
	defer lock.Release()
	q := db.New(s.pool)
	row, err := q.GetPullRequest(ctx, id)
	if none(err) || err == nil && row.RepohostPullRequest.ReportAt == nil {
		return false, nil // another job did it
	}
	if err != nil {
		return false, fmt.Errorf("reading a pull request: %w", err)
	}
	cfg, pr := row.RepohostConfig, row.RepohostPullRequest
	seen, err := q.KeepReportLease(ctx, db.KeepReportLeaseParams{ID: id, Seconds: reportLease.Seconds()})
	if err != nil {
		return false, fmt.Errorf("keeping the lease of a report: %w", err)
	}
	end := db.FinishReportParams{ID: id, SeenReportAt: seen, Reported: pr.Reported}
	branches, err := s.branches.OfPullRequest(ctx, cfg.Repository, pr.Number)
	if err != nil {
		return false, err
	}
	news := newsOf(pr, branches)
	if news.silent || cfg.APIToken == nil {
		return false, q.FinishReport(ctx, end)
	}
	if text := news.key(pr); text != pr.Reported {
		if err := s.tell(ctx, cfg, pr, news); err != nil {
			return false, s.reportFailed(ctx, cfg, pr, end, attempt, most, err)
		}
		if err := q.SetRepohostReportError(ctx, db.SetRepohostReportErrorParams{ID: cfg.ID}); err != nil {
			return false, err
		}
		end.Reported = text
	}
	switch {
	case news.moving:
		// This job looks again; the lease is for the case that it cannot.
		end.Again, end.Seconds = true, (reportLease + lookAgain).Seconds()
	case news.until != nil:
		end.Again, end.Seconds = true, max(time.Until(*news.until), 0).Seconds()+15
	}
	return news.moving, q.FinishReport(ctx, end)
}

// reportFailed notes why a report did not get through, where people will look for it.
func (s *Service) reportFailed(ctx context.Context, cfg Config, pr PullRequest, end db.FinishReportParams, attempt, most int, reason error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return reason // the server is stopping
	}
	// That the time of the job is over must not keep it from being noted.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	q := db.New(s.pool)
	message := strings.ReplaceAll(reason.Error(), "\x00", "�")
	if err := q.SetRepohostReportError(ctx, db.SetRepohostReportErrorParams{ID: cfg.ID, LastReportError: &message}); err != nil {
		return errors.Join(reason, err)
	}
	if attempt < most {
		// The next try is the queue's affair for so long.
		lease := reportPause(attempt) + reportLease
		_, err := q.KeepReportLease(ctx, db.KeepReportLeaseParams{ID: pr.ID, Seconds: lease.Seconds()})
		return fmt.Errorf("reporting to %s #%d: %w", cfg.Repository, pr.Number, errors.Join(reason, err))
	}
	s.log.Error("a report to a repository host is given up until there is news", "repository", cfg.Repository, "number", pr.Number, "error", reason)
	return q.FinishReport(ctx, end)
}

// Marks of a commit's status. Each repository host has words of its own for them.
type mark string

const (
	markPending mark = "pending"
	markSuccess mark = "success"
	markFailure mark = "failure"
	markNone    mark = "" // none is set
)

// news is how things are with the branch of a pull request. Who reads it may be anybody, so it has no credentials, no
// address and no words of PostgreSQL.
type news struct {
	silent  bool // nothing was reported and nothing is to be
	slug    string
	mark    mark
	status  string // of the commit, in a few words
	comment string // Markdown
	moving  bool
	until   *time.Time // when it will be otherwise by itself
}

// key tells news from what was reported before.
func (n news) key(pr PullRequest) string {
	return strings.Join([]string{pr.HeadSHA, string(n.mark), n.slug, n.status, n.comment}, "\n")
}

func newsOf(pr PullRequest, branches []branching.Branch) news {
	n := news{slug: fmt.Sprintf("pr-%d", pr.Number)}
	if pr.BranchSlug != nil {
		n.slug = *pr.BranchSlug
	}
	if len(branches) == 0 {
		return withoutBranch(pr, n)
	}
	b := branches[0]
	n.slug, n.until = b.Slug, b.ExpiresAt
	switch b.Status {
	case db.BranchStatusReady:
		n.mark, n.status, n.comment = markSuccess, "The database branch is ready", fmt.Sprintf("The database branch `%s` is **ready**.%s", b.Slug, usage(b.Slug))
	case db.BranchStatusError:
		n.mark, n.status = markFailure, "The database branch could not be made"
		n.comment = fmt.Sprintf("The database branch `%s` **could not be made**. `bough branch get %s` says why.", b.Slug, b.Slug)
	case db.BranchStatusCreating, db.BranchStatusResetting, db.BranchStatusDeleting:
		n.mark, n.status, n.moving = markPending, "The database branch is being made", true
		n.comment = fmt.Sprintf("The database branch `%s` is **being made**.", b.Slug)
		if b.Status == db.BranchStatusResetting {
			n.status, n.comment = "The database branch is being reset", fmt.Sprintf("The database branch `%s` is **being reset**.", b.Slug)
		}
	}
	if pr.State != db.PullRequestStateOpen && !n.moving {
		n.mark = markNone // the commit's status is history now
		n.comment = fmt.Sprintf("The database branch `%s` is still there.", b.Slug)
		if b.ExpiresAt != nil {
			n.comment = fmt.Sprintf("The database branch `%s` is kept until %s.", b.Slug, b.ExpiresAt.UTC().Format("2006-01-02 15:04 UTC"))
		}
	}
	return n
}

// withoutBranch is the news of a pull request that has no branch, or none any more.
func withoutBranch(pr PullRequest, n news) news {
	switch {
	case pr.State == db.PullRequestStateOpen && pr.Problem != nil:
		n.mark, n.status = markFailure, "There is no database branch"
		n.comment = "There is **no database branch** for this pull request. `bough repohost deliveries` says why."
	case pr.Reported == "" || pr.BranchSlug == nil:
		n.silent = true
	default:
		n.comment = fmt.Sprintf("The database branch `%s` was **deleted**.", n.slug)
	}
	return n
}

func usage(slug string) string {
	return fmt.Sprintf(`

| | |
| --- | --- |
| HTTP | requests with the header %[2]sX-Branch: %[1]s%[2]s |
| SQL | %[2]sbough sql --branch %[1]s%[2]s |
| a connection string | %[2]sbough connect %[1]s%[2]s |`, slug, "`")
}

// marker begins the one comment of a configuration at each pull request, by which it is found again.
func marker(cfg Config) string { return "<!-- bough:" + cfg.ID.String() + " -->" }

// tell sends news: the commit's status, and the comment, which is made once and then kept up to date.
func (s *Service) tell(ctx context.Context, cfg Config, pr PullRequest, n news) error {
	token, err := s.vault.Open(cfg.APIToken, tokenName(cfg.ID))
	if err != nil {
		return err
	}
	h := newHost(cfg, pr, token, s.web)
	if n.mark != markNone && pr.HeadSHA != "" {
		if err := h.setStatus(ctx, pr.HeadSHA, "bough/"+n.slug, n.mark, n.status); err != nil {
			return err
		}
	}
	body := marker(cfg) + "\n" + n.comment + "\n"
	known := pr.CommentID
	if known == nil {
		// One that was made just before the process died is not known.
		if known, err = h.findComment(ctx, marker(cfg)); err != nil {
			return err
		}
	}
	if known != nil {
		err := h.updateComment(ctx, *known, body)
		if err == nil {
			return s.keepComment(ctx, pr, *known)
		}
		// Somebody deleted it, or it is somebody else's with the same marker.
		if !refused(err) {
			return err
		}
	}
	made, err := h.createComment(ctx, body)
	if err != nil {
		return err
	}
	faultPoint("commented")
	return s.keepComment(ctx, pr, made)
}

func (s *Service) keepComment(ctx context.Context, pr PullRequest, comment int64) error {
	if pr.CommentID != nil && *pr.CommentID == comment {
		return nil
	}
	return db.New(s.pool).SetCommentID(ctx, db.SetCommentIDParams{ID: pr.ID, CommentID: &comment})
}
