package repohost

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/postgres"
)

// Queues of the jobs. A repository host that is slow does not hold up branches.
const (
	workQueue   = "repohost"
	reportQueue = "repohost_reports"
)

const (
	workAttempts   = 1000 // until it is done
	reportAttempts = 8    // about a quarter of an hour
)

// Kinds of the jobs.
const (
	WorkKind   = "repohost_pull_request"
	ReportKind = "repohost_report"
)

// workArgs is a job that brings the branches of a pull request into line with its row. One too many does no harm.
type workArgs struct {
	PullRequestID uuid.UUID `json:"pull_request_id"`
}

func (workArgs) Kind() string { return WorkKind }

// reportArgs is a job that tells the repository host how things are.
type reportArgs struct {
	PullRequestID uuid.UUID `json:"pull_request_id"`
}

func (reportArgs) Kind() string { return ReportKind }

// Queues are the queues to be worked on. Few jobs at a time: each holds a session of the control database for its lock.
func (s *Service) Queues() map[string]river.QueueConfig {
	return map[string]river.QueueConfig{
		workQueue:   {MaxWorkers: 2, FetchCooldown: 20 * time.Millisecond, FetchPollInterval: time.Second},
		reportQueue: {MaxWorkers: 2, FetchCooldown: 50 * time.Millisecond, FetchPollInterval: time.Second},
	}
}

// AddWorker registers the workers of the jobs.
func (s *Service) AddWorker(workers *river.Workers) {
	river.AddWorker(workers, &worker{s: s})
	river.AddWorker(workers, &reporter{s: s})
}

func (s *Service) enqueue(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
	if _, err := s.jobs.InsertTx(ctx, tx, workArgs{id}, &river.InsertOpts{Queue: workQueue, MaxAttempts: workAttempts}); err != nil {
		return fmt.Errorf("queueing the work for a pull request: %w", err)
	}
	return nil
}

func (s *Service) enqueueReport(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
	if _, err := s.jobs.InsertTx(ctx, tx, reportArgs{id}, &river.InsertOpts{Queue: reportQueue, MaxAttempts: reportAttempts}); err != nil {
		return fmt.Errorf("queueing a report: %w", err)
	}
	return nil
}

type worker struct {
	river.WorkerDefaults[workArgs]
	s *Service
}

// The longest pause before the next try, and how long after the last word of a worker it is thought to be dead. That it
// is not does no harm: its lock keeps another one waiting.
const (
	maxPause  = 30 * time.Second
	workLease = 10 * time.Second
)

// NextRetry tries again soon: mostly it is a branch in the middle of something else that is waited for.
func (*worker) NextRetry(job *river.Job[workArgs]) time.Time {
	return time.Now().Add(min(time.Second<<min(job.Attempt-1, 6), maxPause))
}

func (w *worker) Work(ctx context.Context, job *river.Job[workArgs]) error {
	err := w.s.work(ctx, job.Args.PullRequestID)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return river.JobSnooze(0) // the server is stopping; the next one takes it up
	}
	if err != nil {
		// The next try is the queue's affair for so long. That the time of the job is over must not keep it from being noted.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		lease := db.KeepPullRequestLeaseParams{ID: job.Args.PullRequestID, Seconds: (maxPause + workLease).Seconds()}
		err = errors.Join(err, db.New(w.s.pool).KeepPullRequestLease(ctx, lease))
	}
	return storable(err)
}

// storable makes an error fit for the queue, which stores it as JSON that must not have the character 0.
func storable(err error) error {
	if err != nil && strings.ContainsRune(err.Error(), 0) {
		return errors.New(strings.ReplaceAll(err.Error(), "\x00", "�"))
	}
	return err
}

// work does what is due for a pull request. Only one worker of all processes does so at a time.
func (s *Service) work(ctx context.Context, id uuid.UUID) error {
	lock, err := postgres.AcquireLock(ctx, s.pool, "bough.pull_request."+id.String())
	if err != nil {
		return err
	}
	defer lock.Release()
	q := db.New(s.pool)
	row, err := q.GetPullRequest(ctx, id)
	if none(err) {
		return nil // its configuration was deleted
	}
	if err != nil {
		return fmt.Errorf("reading a pull request: %w", err)
	}
	cfg, pr := row.RepohostConfig, row.RepohostPullRequest
	if pr.Version == pr.DoneVersion {
		return nil
	}
	if err := q.KeepPullRequestLease(ctx, db.KeepPullRequestLeaseParams{ID: id, Seconds: workLease.Seconds()}); err != nil {
		return fmt.Errorf("keeping the lease of a pull request: %w", err)
	}
	done, err := s.reconcile(ctx, cfg, pr)
	if err != nil {
		return fmt.Errorf("%s #%d: %w", cfg.Repository, pr.Number, err)
	}
	faultPoint("reconciled")
	if done.Problem != nil && (pr.Problem == nil || *pr.Problem != *done.Problem) {
		s.log.Warn("a pull request cannot have its branch", "repository", cfg.Repository, "number", pr.Number, "reason", *done.Problem)
	}
	return s.finish(ctx, cfg, pr, done)
}

// finish records that the work is done, and asks for a report of it.
func (s *Service) finish(ctx context.Context, cfg Config, pr PullRequest, done db.FinishPullRequestParams) error {
	done.ID, done.Version, done.Report = pr.ID, pr.Version, cfg.APIToken != nil
	return s.inTx(ctx, func(tx pgx.Tx, q *db.Queries) error {
		if err := q.FinishPullRequest(ctx, done); err != nil {
			return fmt.Errorf("recording the work for a pull request: %w", err)
		}
		status := db.RepohostDeliveryStatusDone
		if done.Problem != nil {
			status = db.RepohostDeliveryStatusFailed
		}
		err := q.FinishRepohostDeliveries(ctx, db.FinishRepohostDeliveriesParams{
			PullRequestID: pr.ID, Version: pr.Version, Status: status, Reason: done.Problem,
		})
		if err != nil {
			return fmt.Errorf("recording the end of deliveries: %w", err)
		}
		if !done.Report {
			return nil
		}
		return s.enqueueReport(ctx, tx, pr.ID)
	})
}

// Maintain takes up work whose process died, asks again for branches that there was no room for, and forgets what is
// old, until ctx ends. Every process may run it; the database decides who does what.
func (s *Service) Maintain(ctx context.Context) {
	const (
		tick   = time.Second
		sweeps = time.Hour
	)
	var swept time.Time
	for {
		if err := s.takeUp(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("taking up the work for pull requests", "error", err)
		}
		if time.Since(swept) > sweeps {
			if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
				s.log.Error("sweeping deliveries", "error", err)
			}
			swept = time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(tick):
		}
	}
}

func (s *Service) takeUp(ctx context.Context) error {
	return s.inTx(ctx, func(tx pgx.Tx, q *db.Queries) error {
		due, err := q.ClaimDuePullRequests(ctx)
		if err != nil {
			return err
		}
		again, err := q.AskAgain(ctx, nil)
		if err != nil {
			return err
		}
		for _, id := range append(due, again...) {
			if err := s.enqueue(ctx, tx, id); err != nil {
				return err
			}
		}
		reports, err := q.ClaimDueReports(ctx)
		if err != nil {
			return err
		}
		for _, id := range reports {
			if err := s.enqueueReport(ctx, tx, id); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Service) sweep(ctx context.Context) error {
	q := db.New(s.pool)
	_, deliveries := q.SweepRepohostDeliveries(ctx)
	_, pullRequests := q.SweepPullRequests(ctx)
	return errors.Join(deliveries, pullRequests, q.DropOldRepohostSecrets(ctx))
}
