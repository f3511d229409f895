package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// traffic is what the connections saw.
type traffic struct {
	took    time.Duration
	latency []time.Duration // sorted
}

func (t *traffic) rate() float64 { return float64(len(t.latency)) / t.took.Seconds() }

// quantile returns the latency that the share of all requests kept.
func (t *traffic) quantile(share float64) time.Duration {
	return t.latency[min(int(share*float64(len(t.latency))), len(t.latency)-1)]
}

// load has each connection do its share of a round, as fast as it can. Every failure is an error: what is refused costs
// something else than what is served.
func (b *bench) load(ctx context.Context, round int, do work) (traffic, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	share := b.requests / b.connections
	took := make([][]time.Duration, b.connections)
	var wg sync.WaitGroup
	began := time.Now()
	for c := range b.connections {
		wg.Go(func() {
			for n := round * share; n < (round+1)*share && ctx.Err() == nil; n++ {
				from := time.Now()
				if err := do(ctx, c, n); err != nil {
					cancel(err)
					return
				}
				took[c] = append(took[c], time.Since(from))
			}
		})
	}
	wg.Wait()
	t := traffic{took: time.Since(began), latency: slices.Concat(took...)}
	slices.Sort(t.latency)
	return t, context.Cause(ctx)
}

// client has one connection to the server, which it keeps.
type client struct{ http *http.Client }

func newClients(n int) []client {
	all := make([]client, n)
	for i := range all {
		all[i] = client{&http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1}}}
	}
	return all
}

func (c client) token(ctx context.Context, to string, form url.Values) error {
	return c.post(ctx, to, form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
}

func (c client) call(ctx context.Context, to, token string) error {
	return c.post(ctx, to, `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Authorization", "Bearer "+token)
}

func (c client) post(ctx context.Context, to, body string, headers ...string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || strings.Contains(string(text), `"error"`)) {
		err = fmt.Errorf("the answer is %d %.300s", resp.StatusCode, text)
	}
	return err
}
