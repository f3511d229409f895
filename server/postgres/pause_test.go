package postgres_test

import (
	"testing"
	"time"

	"github.com/boughdb/bough/server/postgres"
)

// A copy that takes longer than was expected is given up at the limit: the requests that were held are served while the
// clone goes on in another way.
func TestCloneGivesUpALongPause(t *testing.T) {
	t.Parallel()
	for name, schemaOnly := range map[string]bool{"full clone": false, "schema image": true} {
		for _, policy := range []postgres.SessionPolicy{postgres.CopyAround, postgres.Refuse, postgres.Terminate} {
			t.Run(name+" "+string(policy), func(t *testing.T) {
				t.Parallel()
				f := setup(t, sessions(policy), func(c *postgres.ClusterConfig) { c.MaxPause = 50 * time.Millisecond })
				execute(t, f.url, "create table t1 (id int)", "insert into t1 values (1)")
				f.Expect(postgres.StrategyWALLog, 1e-15, 1e-12)
				// The copy takes as long as this lock on main is held: longer than the whole test.
				slow := connect(t, f.in("postgres"))
				if _, err := slow.Exec(t.Context(), "begin; comment on database "+quote(f.Main())+" is 'slow'"); err != nil {
					t.Fatal(err)
				}
				type outcome struct {
					res postgres.CloneResult
					err error
				}
				cloned, served := make(chan outcome, 1), make(chan error, 1)
				r := f.request(t, "clone")
				r.SchemaOnly = schemaOnly
				go func() {
					for !f.Pools.Held(f.Main()) {
						select {
						case <-t.Context().Done():
							return
						case <-time.After(10 * time.Microsecond):
						}
					}
					conn, err := f.Pools.Acquire(t.Context(), f.Main())
					if err == nil {
						_, err = conn.Exec(t.Context(), "select 1")
						conn.Release()
					}
					served <- err
				}()
				go func() {
					res, err := f.Clone(t.Context(), r)
					cloned <- outcome{res, err}
				}()
				select {
				case err := <-served:
					if err != nil {
						t.Errorf("a request that was held: %v", err)
					}
				case o := <-cloned:
					t.Errorf("the clone ended first: %+v, %v", o.res, o.err)
					cloned <- o
				}
				o := <-cloned
				if o.err != nil {
					t.Fatal(o.err)
				}
				if !schemaOnly && o.res.Strategy != postgres.StrategyCopy || schemaOnly && o.res.Copier != "builtin" || o.res.Pause == 0 {
					t.Errorf("result: %+v", o.res)
				}
				if n := query[int](t, f.in(r.Target), "select count(*) from t1"); (n == 0) != schemaOnly {
					t.Errorf("%d rows", n)
				}
			})
		}
	}
}

// A request at work does not make others wait beyond the limit either.
func TestClonePauseIncludesRequestsAtWork(t *testing.T) {
	t.Parallel()
	f := setup(t, sessions(postgres.Refuse), func(c *postgres.ClusterConfig) { c.MaxPause, c.Drain = time.Second, time.Hour })
	busy, err := f.Pools.Acquire(t.Context(), f.Main())
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Release()
	if _, res := f.clone(t, "clone"); res.Strategy != postgres.StrategyCopy || res.Pause == 0 {
		t.Errorf("result: %+v", res)
	}
}

func TestEstimateCountsFilesAndBytes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const mb, gb = 1 << 20, 1 << 30
	for _, s := range []postgres.Strategy{postgres.StrategyReflink, postgres.StrategyFileCopy, postgres.StrategyWALLog} {
		few, many := f.Estimate(s, gb, 300), f.Estimate(s, gb, 10_000)
		if many-few < 500*time.Millisecond {
			t.Errorf("%s: %s for few files, %s for many", s, few, many)
		}
	}
	if small, large := f.Estimate(postgres.StrategyFileCopy, mb, 300), f.Estimate(postgres.StrategyFileCopy, 10*gb, 300); large < 10*small {
		t.Errorf("%s for 1 MB, %s for 10 GB", small, large)
	}
	// Many small files say how long a file takes, a large one how long a byte.
	large := f.Estimate(postgres.StrategyFileCopy, 100*gb, 1)
	for range 5 {
		f.Measure(postgres.StrategyFileCopy, mb, 10_000, 30*time.Second)
	}
	if got := f.Estimate(postgres.StrategyFileCopy, mb, 10_000); got < 29*time.Second || got > 31*time.Second {
		t.Errorf("%s after 30 s were measured", got)
	}
	if got := f.Estimate(postgres.StrategyFileCopy, 100*gb, 1); got > large*11/10 {
		t.Errorf("%s for one large file, %s before many small ones were measured", got, large)
	}
	f.Measure(postgres.StrategyFileCopy, 100*gb, 1, 2*large)
	if got := f.Estimate(postgres.StrategyFileCopy, 100*gb, 1); got < large*19/10 || got > large*21/10 {
		t.Errorf("%s, want %s", got, 2*large)
	}
}
