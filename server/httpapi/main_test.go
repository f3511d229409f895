package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/servertest"
)

func TestMain(m *testing.M) {
	// A test's server closes the idle connections of the default transport when it ends, also those that another test is
	// about to use.
	http.DefaultClient.Transport = http.DefaultTransport.(*http.Transport).Clone()
	pgtest.Main(m)
}

// call sends a raw request, as a client that is not ours would, and returns status and body.
func call(t *testing.T, s *servertest.Server, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := (&http.Client{Transport: servertest.Contract(t)}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(data)
}

// wantError checks that an answer is an error in the product's shape, with the status and code.
func wantError(t *testing.T, resp *http.Response, body string, status int, code string) client.Error {
	t.Helper()
	var e client.Error
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("answer %d is no error body: %s", resp.StatusCode, body)
	}
	if resp.StatusCode != status || e.Code != code {
		t.Errorf("got %d %s (%s), want %d %s", resp.StatusCode, e.Code, e.Error, status, code)
	}
	if e.Error == "" || e.RequestID == "" || e.RequestID != resp.Header.Get("X-Request-Id") {
		t.Errorf("error body %s with X-Request-Id %q lacks something", body, resp.Header.Get("X-Request-Id"))
	}
	return e
}

// must fails the test unless the request was answered with the status, and returns what it was answered with.
func must[T interface{ StatusCode() int }](t *testing.T, want int) func(T, error) T {
	return func(answer T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode() != want {
			data, _ := json.Marshal(answer)
			t.Fatalf("status %d, want %d: %s", answer.StatusCode(), want, data)
		}
		return answer
	}
}

// create makes a branch and waits until it is ready.
func create(t *testing.T, c *client.ClientWithResponses, body client.CreateBranchRequest) *client.CreatedBranch {
	t.Helper()
	wait := "wait=60"
	answer := must[*client.CreateBranchResponse](t, 201)(c.CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{Prefer: &wait}, body))
	if answer.JSON201.Status != client.BranchStatusReady {
		b, _ := c.GetBranchWithResponse(t.Context(), answer.JSON201.ID.String())
		t.Fatalf("branch %s is %s: %s", body.Name, answer.JSON201.Status, b.Body)
	}
	return answer.JSON201
}

func full(name string) client.CreateBranchRequest {
	mode := client.DataCloneModeFullClone
	return client.CreateBranchRequest{Name: name, DataCloneMode: &mode}
}

// database is the connection URL of a branch.
func database(t *testing.T, c *client.ClientWithResponses, branch string) string {
	t.Helper()
	return must[*client.GetBranchConnectionResponse](t, 200)(c.GetBranchConnectionWithResponse(t.Context(), branch)).JSON200.URL
}

// eventually waits until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !cond() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s did not come about", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func diff[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// noContext is a test whose context has not ended, for use in its cleanup.
type noContext struct{ *testing.T }

func (noContext) Context() context.Context { return context.Background() }

// findNPM returns where npm is, from which published clients come; the test is left out where it is not.
func findNPM(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("fetches published clients and runs them")
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed, and the clients come from there")
	}
	return npm
}
