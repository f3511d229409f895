package mcp

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The published clients of the protocol work, and its conformance suite finds nothing wrong, in the present revision and in
// the one before it, at one address. The suite sends no credentials: a proxy before the server adds them.
func TestPublishedPeers(t *testing.T) {
	t.Parallel()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed, and the peers come from there")
	}
	if testing.Short() {
		t.Skip("the peers take a while")
	}
	dir := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", "clients.mjs"} {
		data, err := os.ReadFile(filepath.Join("testdata", "peers", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tools, _, _ := newTools(t)
	env := append(os.Environ(), "BOUGH_URL="+listen(t, tools), "BOUGH_TOKEN="+admin)
	run := func(name string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = dir, env
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		return out.String(), err
	}
	if out, err := run(npm, "ci", "--no-audit", "--no-fund", "--prefer-offline"); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	node := nodeCommand(npm, run)

	t.Run("clients", func(t *testing.T) {
		t.Parallel()
		if out, err := run(node[0], append(node[1:len(node):len(node)], "clients.mjs")...); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			address := addingToken(t, listen(t, newFixture(t, testConfig(t)).Server))
			args := append(node[1:len(node):len(node)], filepath.Join(dir, "node_modules/@modelcontextprotocol/conformance/dist/index.js"),
				"server", "--url", address, "--requirements", revision, "--output-dir", t.TempDir())
			out, err := run(node[0], args...)
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			t.Log(out)
		})
	}
}

// nodeCommand is how to start Node.js 22 or later, which the suite needs: the installed one, or one from npm.
func nodeCommand(npm string, run func(string, ...string) (string, error)) []string {
	if out, err := run("node", "--version"); err == nil {
		major, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(out), "v"), ".")
		if n, err := strconv.Atoi(major); err == nil && n >= 22 {
			return []string{"node"}
		}
	}
	return []string{npm, "exec", "--yes", "--prefer-offline", "--package=node@22", "--", "node"}
}

// addingToken returns the address of a proxy that adds a credential. The Host of the requests stays as it is.
func addingToken(tb testing.TB, to string) string {
	tb.Helper()
	target, err := url.Parse(to)
	if err != nil {
		tb.Fatal(err)
	}
	// Not the default transport: other tests' servers close its idle connections when they end.
	transport := &http.Transport{}
	tb.Cleanup(transport.CloseIdleConnections)
	proxy := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
			r.Out.Header.Set("Authorization", "Bearer "+everything)
		},
	}
	h := httptest.NewServer(http.Handler(proxy))
	tb.Cleanup(h.Close)
	return h.URL + "/mcp"
}
