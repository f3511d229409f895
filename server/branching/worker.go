package branching

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/postgres"
)

// Queues of the jobs. Removals do not wait behind clones.
const (
	cloneQueue = "branch_clones"
	dropQueue  = "branch_drops"
)

const (
	// A worker says so often that it is at work, and is given up after so long without a word.
	heartbeat = time.Second
	leaseTime = 5 * time.Second
	// A clone is tried so often; a removal until it is done.
	cloneAttempts = 4
	dropAttempts  = 1000
)

// operationArgs is a job that finishes whatever operation a branch is in. The branch's row says which; a job that
// finds none has nothing to do, so a job too many does no harm.
type operationArgs struct {
	BranchID uuid.UUID `json:"branch_id"`
}

func (operationArgs) Kind() string { return "branch_operation" }

// Queues are the queues to be worked on.
func (s *Service) Queues() map[string]river.QueueConfig {
	return map[string]river.QueueConfig{
		cloneQueue: {MaxWorkers: max(1, s.cfg.Workers), FetchCooldown: 20 * time.Millisecond, FetchPollInterval: time.Second},
		dropQueue:  {MaxWorkers: 4, FetchCooldown: 20 * time.Millisecond, FetchPollInterval: time.Second},
	}
}

// AddWorker registers the worker of the branches' jobs.
func (s *Service) AddWorker(workers *river.Workers) { river.AddWorker(workers, &worker{service: s}) }

// enqueue inserts the job for the operation that a branch is in, in the transaction that began it.
func (s *Service) enqueue(ctx context.Context, tx pgx.Tx, b Branch) error {
	opts := &river.InsertOpts{Queue: cloneQueue, MaxAttempts: cloneAttempts}
	if b.Status == db.BranchStatusDeleting {
		opts = &river.InsertOpts{Queue: dropQueue, MaxAttempts: dropAttempts}
	}
	if _, err := s.jobs.InsertTx(ctx, tx, operationArgs{BranchID: b.ID}, opts); err != nil {
		return fmt.Errorf("queueing the work: %w", err)
	}
	return nil
}

type worker struct {
	river.WorkerDefaults[operationArgs]
	service *Service
}

// Timeout lifts River's limit of a minute: a clone takes as long as it takes, and is watched by its lease.
func (*worker) Timeout(*river.Job[operationArgs]) time.Duration { return -1 }

// NextRetry tries again soon; people are waiting.
func (*worker) NextRetry(job *river.Job[operationArgs]) time.Time {
	return time.Now().Add(retryWait(job.Attempt))
}

// retryWait is how long the queue waits after a try, of which the first is 1.
func retryWait(attempt int) time.Duration {
	return min(time.Second<<min(max(attempt-1, 0), 6), 30*time.Second)
}

func (w *worker) Work(ctx context.Context, job *river.Job[operationArgs]) error {
	err := w.service.work(ctx, job.Args.BranchID, job.Attempt, job.MaxAttempts)
	if err != nil && ctx.Err() != nil {
		// The server is stopping. The try does not count; the next server takes it up.
		return river.JobSnooze(0)
	}
	return err
}

// errorHandler logs what ended a try; River keeps the rest.
type errorHandler struct{ s *Service }

// ErrorHandler logs the errors of the branches' jobs.
func (s *Service) ErrorHandler() river.ErrorHandler { return errorHandler{s} }

func (h errorHandler) HandleError(_ context.Context, job *rivertype.JobRow, err error) *river.ErrorHandlerResult {
	h.s.log.Warn("a branch operation failed and is tried again", "job", job.ID, "attempt", job.Attempt, "args", string(job.EncodedArgs), "error", err)
	return nil
}

func (h errorHandler) HandlePanic(_ context.Context, job *rivertype.JobRow, value any, trace string) *river.ErrorHandlerResult {
	h.s.log.Error("a branch operation panicked", "job", job.ID, "args", string(job.EncodedArgs), "panic", value, "trace", trace)
	return nil
}

// errSuperseded ends an operation whose branch went on to something else: it is being deleted.
var errSuperseded = errors.New("the branch is in another operation by now")

// errLostLock ends an operation whose lock may be another's.
var errLostLock = errors.New("the operation's lock was lost")

// work finishes the operation that a branch is in. Only one worker of all processes does so at a time. An error means
// that it is worth another try; on the last one there is no error but the branch's own.
func (s *Service) work(ctx context.Context, id uuid.UUID, attempt, attempts int) error {
	lock, err := postgres.AcquireLock(ctx, s.pool, "bough.branch."+id.String())
	if err != nil {
		return err
	}
	defer lock.Release()
	b, err := db.New(s.pool).GetBranchByID(ctx, id)
	if err != nil {
		return err
	}
	run := map[db.BranchStatus]func(context.Context, Branch) error{
		db.BranchStatusCreating: s.runClone, db.BranchStatusResetting: s.runClone, db.BranchStatusDeleting: s.runDelete,
	}[b.Status]
	if run == nil || b.DeletedAt != nil {
		return nil
	}
	opCtx, stop := s.keepLease(ctx, lock, b)
	err = run(opCtx, b)
	cause := context.Cause(opCtx)
	stop()
	switch {
	case err == nil, errors.Is(err, errSuperseded), errors.Is(cause, errSuperseded):
		return nil
	case ctx.Err() != nil, errors.Is(cause, errLostLock):
		return err
	case b.Status == db.BranchStatusDeleting:
		return err
	case attempt < attempts && !permanent(err):
		// The next try is the queue's affair until it is due. A process that is killed before has the next one take it up a
		// moment later; a queue that is late then does so in vain.
		until := retryWait(attempt) + leaseTime
		if _, leaseErr := db.New(s.pool).KeepLease(ctx, db.KeepLeaseParams{ID: id, Status: b.Status, Seconds: until.Seconds()}); leaseErr != nil {
			return errors.Join(err, leaseErr)
		}
		faultPoint(b, "waiting")
		return err
	}
	return s.fail(ctx, b, err)
}

// keepLease says again and again that the operation is being worked on. The context it returns ends when the branch
// goes on to another status, or the lock is lost.
func (s *Service) keepLease(ctx context.Context, lock *postgres.Lock, b Branch) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		q := db.New(lock.Conn())
		for {
			n, err := q.KeepLease(ctx, db.KeepLeaseParams{ID: b.ID, Status: b.Status, Seconds: leaseTime.Seconds()})
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				cancel(errors.Join(errLostLock, err))
				return
			case n == 0:
				cancel(errSuperseded)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(heartbeat):
			}
		}
	}()
	return ctx, func() { cancel(context.Canceled); <-done }
}
