package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/postgres"
)

// request is one transaction of a client, the wait for a connection included.
type request struct {
	began, ended time.Time
	failed       bool
}

// clients write to main through the pools, as requests to Bough do, until they are stopped.
type clients struct {
	wg        sync.WaitGroup
	stopping  atomic.Bool
	committed atomic.Int64
	mu        sync.Mutex
	requests  []request
	firstErr  error
}

func startClients(ctx context.Context, pools *postgres.Pools, main *dataset, workers int) *clients {
	c := &clients{}
	for range workers {
		c.wg.Go(func() {
			var own []request
			for !c.stopping.Load() && ctx.Err() == nil {
				r := request{began: time.Now()}
				err := transfer(ctx, pools, main)
				r.ended, r.failed = time.Now(), err != nil
				if err == nil {
					c.committed.Add(1)
				} else {
					c.fail(err)
				}
				own = append(own, r)
			}
			c.mu.Lock()
			c.requests = append(c.requests, own...)
			c.mu.Unlock()
		})
	}
	return c
}

func (c *clients) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.firstErr == nil {
		c.firstErr = err
	}
}

// stop waits until the requests at work are done and returns all there were.
func (c *clients) stop() []request {
	c.stopping.Store(true)
	c.wg.Wait()
	return c.requests
}

// transfer is the transaction of pgbench's "tpcb-like".
func transfer(ctx context.Context, pools *postgres.Pools, main *dataset) error {
	conn, err := pools.Acquire(ctx, main.name)
	if err != nil {
		return err
	}
	defer conn.Release()
	aid, bid, tid := 1+rand.IntN(main.accounts), 1+rand.IntN(main.branches), 1+rand.IntN(main.tellers())
	delta := rand.IntN(10001) - 5000
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "update pgbench_accounts set abalance = abalance + $1 where aid = $2", delta, aid); err != nil {
			return err
		}
		var balance int
		if err := tx.QueryRow(ctx, "select abalance from pgbench_accounts where aid = $1", aid).Scan(&balance); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "update pgbench_tellers set tbalance = tbalance + $1 where tid = $2", delta, tid); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "update pgbench_branches set bbalance = bbalance + $1 where bid = $2", delta, bid); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			insert into pgbench_history (tid, bid, aid, delta, mtime) values ($1, $2, $3, $4, current_timestamp)`, tid, bid, aid, delta)
		return err
	})
}

// traffic is what clients saw in a span of time.
type traffic struct {
	Longest  time.Duration // longest of the requests that were at work in it
	Gap      time.Duration // longest time in which no request finished, if it touches the span
	Requests int           // finished in it
	Failed   int           // of all that were at work in it
	Rate     float64       // successful ones a second
}

// observe looks at the requests that were at work between two moments.
func observe(requests []request, from, to time.Time) traffic {
	var t traffic
	var ends []time.Time
	good := 0
	for _, r := range requests {
		if !r.failed {
			ends = append(ends, r.ended)
		}
		if r.ended.Before(from) || r.began.After(to) {
			continue
		}
		t.Longest = max(t.Longest, r.ended.Sub(r.began))
		if r.failed {
			t.Failed++
		}
		if r.ended.After(to) {
			continue
		}
		t.Requests++
		if !r.failed {
			good++
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	for i := 1; i < len(ends); i++ {
		if ends[i].After(from) && ends[i-1].Before(to) {
			t.Gap = max(t.Gap, ends[i].Sub(ends[i-1]))
		}
	}
	if span := to.Sub(from); span > 0 {
		t.Rate = float64(good) / span.Seconds()
	}
	return t
}

// sums are what must agree in every copy of main: the transactions move the same amount in all four tables.
type sums struct {
	Accounts, Tellers, Branches, History int64
	AccountRows, HistoryRows             int64
}

func readSums(ctx context.Context, url string) (s sums, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return s, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, `
		select a.sum, (select coalesce(sum(tbalance), 0) from pgbench_tellers),
			(select coalesce(sum(bbalance), 0) from pgbench_branches), h.sum, a.count, h.count
		from (select coalesce(sum(abalance), 0) as sum, count(*) as count from pgbench_accounts) a,
			(select coalesce(sum(delta), 0) as sum, count(*) as count from pgbench_history) h`).Scan(
		&s.Accounts, &s.Tellers, &s.Branches, &s.History, &s.AccountRows, &s.HistoryRows)
	return s, err
}

// check returns an error unless the copy is main as it was at one moment, with at least the transactions that were
// confirmed before the copy began and at most all there are.
func (s sums) check(accounts int, confirmed, all int64) error {
	switch {
	case s.AccountRows != int64(accounts):
		return fmt.Errorf("the copy has %d accounts, not %d", s.AccountRows, accounts)
	case s.Accounts != s.Tellers || s.Accounts != s.Branches || s.Accounts != s.History:
		return fmt.Errorf("the copy is of no single moment: accounts %d, tellers %d, branches %d, history %d",
			s.Accounts, s.Tellers, s.Branches, s.History)
	case s.HistoryRows < confirmed:
		return fmt.Errorf("the copy has %d transactions, but %d were confirmed before", s.HistoryRows, confirmed)
	case s.HistoryRows > all:
		return fmt.Errorf("the copy has %d transactions, but there were only %d", s.HistoryRows, all)
	}
	return nil
}
