package branching_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/branching"
	"github.com/boughdb/bough/server/postgres"
)

// emptyEngine has no database but main.
type emptyEngine struct{ noEngine }

func (emptyEngine) Lookup(context.Context, string) (*postgres.Database, error) { return nil, nil }
func (emptyEngine) CheckRoom(context.Context, string, bool) error              { return nil }

// However many ask at once, a pull request gets one branch, and a repository no more than it may have.
func TestPullRequestsGetOneBranchEach(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	s, err := branching.New(t.Context(), c.pool, emptyEngine{}, branching.Config{Enabled: true, MaxBranches: 50, MaxPerUser: 10}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := river.NewClient(riverpgxv5.New(c.pool), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s.SetJobs(jobs)
	p := &auth.Principal{Service: true, Admin: true, ID: uuid.New()}
	create := func(number int32, name string) (branching.Branch, error) {
		repository := "acme/shop"
		return s.CreateForPullRequest(t.Context(), p, branching.CreateParams{
			Name: name, Mode: db.DataCloneModeSchemaOnly, Type: db.BranchTypePreview, RepohostRepo: &repository, RepohostPRNumber: &number,
		}, 2)
	}
	var mu sync.Mutex
	made := map[uuid.UUID]bool{}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			b, err := create(1, fmt.Sprintf("any-%d", i)) // the names are free: it is the pull request that has one
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			made[b.ID] = true
		})
	}
	wg.Wait()
	if len(made) != 1 {
		t.Errorf("%d branches of one pull request", len(made))
	}
	if _, err := create(2, "two"); err != nil {
		t.Error(err)
	}
	if _, err := create(3, "three"); !errors.Is(err, branching.ErrMaxOfRepository) {
		t.Errorf("a third branch of the repository: %v", err)
	}
	branches, err := s.OfPullRequest(t.Context(), "ACME/Shop", 1)
	if err != nil || len(branches) != 1 {
		t.Errorf("branches of the first: %v, %v", branches, err)
	}
}
