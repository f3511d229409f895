package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/boughdb/bough/gen/client"
)

const (
	requestTimeout = 90 * time.Second // a reset answers within 30 seconds
	maxBody        = 64 << 20
	maxRetries     = 3
	maxRetryAfter  = 5 * time.Second
)

// api is the server that a command talks to.
type api struct {
	*client.Client
	target target
}

// connect returns the server that flags, environment and profile name.
func (c *cli) connect() (*api, error) {
	t, err := c.target()
	if err != nil {
		return nil, err
	}
	return c.api(t)
}

// api returns the server with the credential of the target, a session's included.
func (c *cli) api(t target) (*api, error) {
	if t.credential.kind != session {
		return newAPI(t)
	}
	web := newHTTPClient()
	web.Transport = &signedIn{web.Transport, c, t.credential.value}
	return newAPI(t, client.WithHTTPClient(web))
}

func newAPI(t target, more ...client.ClientOption) (*api, error) {
	options := []client.ClientOption{
		client.WithHTTPClient(newHTTPClient()),
		client.WithRequestEditorFn(func(_ context.Context, req *http.Request) error {
			req.Header.Set("User-Agent", "bough/"+programVersion())
			req.Header.Set("Accept", "application/json")
			return nil
		}),
	}
	switch t.credential.kind {
	case serviceKey:
		options = append(options, client.WithServiceKey(t.credential.value))
	case clientKey:
		options = append(options, client.WithClientKey(t.credential.value))
	case token:
		options = append(options, client.WithBearerAuth(t.credential.value))
	}
	generated, err := client.NewClient(t.baseURL, append(options, more...)...)
	if err != nil {
		return nil, err
	}
	return &api{Client: generated, target: t}, nil
}

func newHTTPClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	return &http.Client{
		Timeout:   requestTimeout,
		Transport: retrying{transport},
		// A redirect would carry the key's header to wherever it points.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// retrying repeats a GET that the server asks to repeat soon.
type retrying struct{ http.RoundTripper }

func (t retrying) RoundTrip(req *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		resp, err := t.RoundTripper.RoundTrip(req)
		if err != nil || req.Method != http.MethodGet || resp.StatusCode != http.StatusServiceUnavailable || try == maxRetries {
			return resp, err
		}
		seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		wait := time.Duration(seconds) * time.Second
		if err != nil || wait < 0 || wait > maxRetryAfter {
			return resp, nil //nolint:nilerr // the answer says all there is to say
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody))
		_ = resp.Body.Close()
		if err := sleep(req.Context(), wait); err != nil {
			return nil, err
		}
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answer is what the server said to a request that it granted.
type answer struct {
	status int
	body   []byte
}

// read takes the outcome of a generated method, such as read(api.GetPoolStats(ctx)). A refusal is an *apiError.
func read(resp *http.Response, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return answer{}, fmt.Errorf("reading the server's answer: %w", err)
	}
	if resp.StatusCode/100 == 2 {
		return answer{resp.StatusCode, body}, nil
	}
	refused := &apiError{status: resp.StatusCode}
	if json.Unmarshal(body, &refused.body) == nil && refused.body.Error != "" {
		return answer{}, refused
	}
	refused.body = client.Error{Error: "the server answered " + resp.Status, RequestID: resp.Header.Get("X-Request-Id")}
	if location := resp.Header.Get("Location"); location != "" {
		refused.body.Error += ", a redirect to " + location
	} else if resp.StatusCode == http.StatusNotFound {
		refused.body.Error += "; is it a Bough server?"
	}
	return answer{}, refused
}

// readAs is read for an answer with a JSON body of type T.
func readAs[T any](resp *http.Response, err error) (T, answer, error) {
	var v T
	got, err := read(resp, err)
	if err != nil {
		return v, got, err
	}
	if err := json.Unmarshal(got.body, &v); err != nil {
		if !strings.Contains(resp.Header.Get("Content-Type"), "json") {
			err = errors.New("it is no JSON; is that a Bough server?")
		}
		return v, got, fmt.Errorf("reading the answer of %s: %w", resp.Request.URL.Host, err)
	}
	return v, got, nil
}
