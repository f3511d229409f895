package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/gen/client"
)

func TestOutputs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		golden string
		args   string
	}{
		{"branch_list", "branch list"},
		{"branch_list_json", "branch list -o json --status error"},
		{"branch_list_yaml", "branch list -o yaml --status error"},
		{"branch_list_limit", "branch list --limit 1"},
		{"branch_get", "branch get ri-ben-yu-4kq2zd"},
		{"branch_get_main", "branch get main"},
		{"branch_get_yaml", "branch get ri-ben-yu-4kq2zd -o yaml"},
		{"branch_update", "branch update demo --type persistent --expires-in never"},
		{"branch_status_ready", "branch status demo"},
		{"branch_status_creating", "branch status grossere-anderung-am-schema-der-bestellungen-k3v9xq"},
		{"branch_status_error", "branch status ri-ben-yu-4kq2zd"},
		{"branch_activity", "branch activity demo"},
		{"branch_stats", "branch stats"},
		{"branch_stats_json", "branch stats -o json"},
		{"branch_access_list", "branch access list demo"},
		{"branch_access_grant", "branch access grant demo 0191d9a0-5f0e-7c5e-9a52-100000000901 --level write"},
		{"branch_access_revoke", "branch access revoke demo 0191d9a0-5f0e-7c5e-9a52-100000000901"},
		{"branch_create_no_wait", "branch create fresh --no-wait --expires-in 7d"},
		{"branch_delete", "branch delete demo --force --children orphan"},
		{"branch_reset", "branch reset demo --force"},
		{"keys_list", "keys list"},
		{"keys_create", "keys create --type service --name backend"},
		{"keys_revoke", "keys revoke 0191d9a0-5f0e-7c5e-9a52-100000000070"},
		{"keys_rotate", "keys rotate"},
		{"users_list", "users list"},
		{"users_list_json", "users list --role admin -o json"},
		{"users_create", "users create new@example.com --role admin"},
		{"users_set_role", "users set-role ada@example.com admin"},
		{"users_disable", "users disable 0191d9a0-5f0e-7c5e-9a52-100000000900"},
		{"users_delete", "users delete ada@example.com --force"},
		{"webhooks_list", "webhooks list"},
		{"webhooks_list_json", "webhooks list --limit 1 -o json"},
		{"webhooks_create", "webhooks create https://example.com/hook --events branch.ready,branch.deleted --description CI"},
		{"webhooks_update", "webhooks update 0191d9a0-5f0e-7c5e-9a52-100000000800 --disable"},
		{"webhooks_delete", "webhooks delete 0191d9a0-5f0e-7c5e-9a52-100000000800 --force"},
		{"webhooks_test", "webhooks test 0191d9a0-5f0e-7c5e-9a52-100000000800"},
		{"webhooks_rotate_secret", "webhooks rotate-secret 0191d9a0-5f0e-7c5e-9a52-100000000800"},
		{"webhooks_deliveries", "webhooks deliveries 0191d9a0-5f0e-7c5e-9a52-100000000800"},
		{"webhooks_deliveries_failed", "webhooks deliveries --status failed --event branch.ready"},
		{"webhooks_redeliver", "webhooks redeliver 0191d9a0-5f0e-7c5e-9a52-100000000810 -o yaml"},
		{"repohost_list", "repohost list"},
		{"repohost_delete", "repohost delete acme/shop --force"},
		{"repohost_deliveries", "repohost deliveries acme/shop"},
		{"repohost_deliveries_json", "repohost deliveries --status failed --limit 1 -o json"},
		{"connect", "connect demo"},
	} {
		t.Run(test.golden, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.server.keys = testKeys()
			got := w.run(t, strings.Fields(test.args)...)
			if got.code != exitOK {
				t.Errorf("exit code %d", got.code)
			}
			if !strings.Contains(test.args, "-o ") {
				for line := range strings.Lines(got.stdout) {
					if width := textWidth(strings.TrimSuffix(line, "\n")); width > 80 {
						t.Errorf("%d columns: %s", width, line)
					}
				}
			}
			golden(t, "output/"+test.golden, "$ bough "+test.args+"\n"+got.stdout+"--- stderr\n"+got.stderr)
		})
	}
}

func testKeys() []client.Key {
	return []client.Key{
		{ID: testID(71), Type: client.KeyTypeClient, Name: "nightly report", Prefix: "bough_ck_Zk3q", Scopes: []client.Scope{client.ScopeReadBranches}, UserID: new(testID(900)), CreatedAt: testNow, ExpiresAt: new(testNow.Add(48 * time.Hour)), LastUsedAt: new(testNow.Add(-time.Hour))},
		{ID: testID(72), Type: client.KeyTypeService, Name: "old backend of the shop with a long name", Prefix: "bough_sk_aaaa", Scopes: []client.Scope{}, CreatedAt: testNow, RevokedAt: &testNow},
	}
}

func TestJSONIsWhatTheServerAnswered(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const body = `{"zeta":1.50,"name":"a\/b <>& \u001b[31m ` + "\u202e" + `","alpha":[],"id":"x"}`
	w.server.replace = func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(strings.Replace(body, `"x"`, `"0191d9a0-5f0e-7c5e-9a52-100000000001"`, 1)))
		return true
	}
	want := "{\n  \"zeta\": 1.50,\n  \"name\": \"a\\/b <>& \\u001b[31m \\u202e\",\n  \"alpha\": [],\n  \"id\": \"0191d9a0-5f0e-7c5e-9a52-100000000001\"\n}\n"
	if diff := cmp.Diff(want, w.ok(t, "branch", "get", "x", "-o", "json")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantYAML := "zeta: 1.50\nname: \"a/b <>& \\u001b[31m \\u202e\"\nalpha: []\nid: 0191d9a0-5f0e-7c5e-9a52-100000000001\n"
	got := w.ok(t, "branch", "get", "x", "-o", "yaml")
	if diff := cmp.Diff(wantYAML, strings.ReplaceAll(got, `\e`, `\u001b`)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestListReadsAllPages(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.server.branches = nil
	for i := range 230 {
		w.server.branches = append(w.server.branches, testBranch(i, fmt.Sprint("b", i), fmt.Sprint("b", i), client.BranchStatusReady, time.Hour))
	}
	for _, test := range []struct {
		args     string
		first, n int
		requests int
	}{
		{"", 0, 230, 3},
		{"--limit 150", 0, 150, 2},
		{"--limit 7 --offset 5", 5, 7, 1},
		{"--offset 220", 220, 10, 1},
		{"--offset 500", 0, 0, 1},
		{"--limit 200 --offset 200", 200, 30, 1},
	} {
		w.server.requested()
		var list client.BranchList
		if err := json.Unmarshal([]byte(w.ok(t, append([]string{"branch", "list", "-o", "json"}, strings.Fields(test.args)...)...)), &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Branches) != test.n || list.Total != 230 || test.n > 0 && list.Branches[0].ID != testID(test.first) {
			t.Errorf("%q: %d branches of %d", test.args, len(list.Branches), list.Total)
		}
		if n := len(w.server.requested()); n != test.requests {
			t.Errorf("%q: %d requests, want %d", test.args, n, test.requests)
		}
	}
}

func TestBranchIsFoundByIDSlugAndName(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, ref := range []string{"ri-ben-yu-4kq2zd", testID(3).String(), "日本語のブランチ 🚀"} {
		if got := w.ok(t, "branch", "get", ref, "-o", "json"); !strings.Contains(got, testID(3).String()) {
			t.Errorf("%q: %s", ref, got)
		}
	}
	for _, ref := range []string{"nosuch", "..", ".", "a/b", "?x"} {
		w.server.requested()
		got := w.run(t, "branch", "delete", ref, "--force")
		if got.code != exitFailed || !strings.Contains(got.stderr, "branch_not_found") {
			t.Errorf("%q: exit code %d, stderr %s", ref, got.code, got.stderr)
		}
		for _, request := range w.server.requested() {
			if strings.HasPrefix(request, "DELETE") {
				t.Errorf("%q: %s", ref, request)
			}
		}
	}
}

func TestCreateWaits(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.server.polls = 2
	got := w.run(t, "branch", "create", "fresh", "--from", "日本語のブランチ 🚀", "--clone-data", "full_clone", "-o", "json")
	var b client.Branch
	if err := json.Unmarshal([]byte(got.stdout), &b); err != nil {
		t.Fatalf("%v, stderr: %s", err, got.stderr)
	}
	if b.Status != client.BranchStatusReady || b.DataCloneMode != client.DataCloneModeFullClone || value(b.ParentBranchID) != testID(3) {
		t.Errorf("made %+v", b)
	}
	if diff := cmp.Diff("fresh: cloning\nBranch \"fresh\" is ready after 0s.\n", got.stderr); diff != "" {
		t.Errorf("stderr (-want +got):\n%s", diff)
	}
}

func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.server.polls = 2
	w.stderrIsTerminal = true
	got := w.run(t, "branch", "create", "fresh")
	// Nothing of the moving line stays.
	want := "\r\x1b[K⠙ fresh: cloning, 0s\r\x1b[KBranch \"fresh\" is ready after 0s.\n"
	if got.code != exitOK || !strings.HasSuffix(got.stderr, want) {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
	w.env["NO_COLOR"] = "1"
	if got := w.run(t, "branch", "get", "nosuch"); strings.Contains(got.stderr, "\x1b") {
		t.Errorf("stderr %q", got.stderr)
	}
}

func TestCreateFailsWithTheBranch(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.server.replace = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			w.server.branches[4].Status, w.server.branches[4].ErrorMessage = client.BranchStatusError, new("disk full")
		}
		return false
	}
	got := w.run(t, "branch", "create", "fresh")
	if got.code != exitFailed || got.stdout != "" {
		t.Errorf("exit code %d, stdout %q", got.code, got.stdout)
	}
	golden(t, "output/branch_create_error", got.stderr)
}

func TestCreateIfNotExists(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if got := w.run(t, "branch", "create", "demo"); got.code != exitFailed || !strings.Contains(got.stderr, "(branch_exists, request 6a0b)") {
		t.Errorf("exit code %d, stderr %s", got.code, got.stderr)
	}
	got := w.run(t, "branch", "create", "demo", "--if-not-exists", "-o", "json")
	if got.code != exitOK || !strings.Contains(got.stdout, testID(1).String()) || !strings.Contains(got.stderr, `There is a branch "demo" already.`) {
		t.Errorf("exit code %d, stdout %s, stderr %s", got.code, got.stdout, got.stderr)
	}
}

func TestInterruptStopsWaitingOnly(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.server.polls = 1000
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.server.replace = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			cancel()
		}
		return false
	}
	var stdout, stderr bytes.Buffer
	code := run(ctx, w.cli, []string{"branch", "create", "fresh"}, strings.NewReader(""), &stdout, &stderr)
	want := "Stopped waiting; the creation of \"fresh\" goes on. See \"bough branch status fresh\".\n"
	if code != exitInterrupted || !strings.HasSuffix(stderr.String(), want) {
		t.Errorf("exit code %d, stderr %s", code, stderr.String())
	}
}

func TestResetWaits(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.server.polls = 2
	got := w.run(t, "branch", "reset", "demo", "--force")
	if got.code != exitOK || !strings.Contains(got.stderr, `Branch "demo" is ready after`) {
		t.Errorf("exit code %d, stderr %s", got.code, got.stderr)
	}
}

func TestResetThatFailedLaterIsAnError(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.server.replace = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			// The branch stays ready and is never reset.
			reply(rw, http.StatusAccepted, client.ResetBranch{ID: testID(1), Status: client.BranchStatusResetting, UpdatedAt: testNow})
			return true
		}
		return false
	}
	got := w.run(t, "branch", "reset", "demo", "--force")
	if got.code != exitFailed || !strings.Contains(got.stderr, "could not be reset and is as it was") {
		t.Errorf("exit code %d, stderr %s", got.code, got.stderr)
	}
}

func TestConfirmation(t *testing.T) {
	t.Parallel()
	const del, reset = "delete", "reset"
	for _, test := range []struct {
		name     string
		verb     string
		terminal bool
		answer   string
		code     int
		changed  bool
		want     string
	}{
		{"no terminal", del, false, "y\n", exitUsage, false, "say --force"},
		{"no terminal", reset, false, "y\n", exitUsage, false, "say --force"},
		{"yes", del, true, "y\n", exitOK, true, `Delete branch "日本語のブランチ 🚀" and its database branch_3? Its parent "demo" stays as it is. [y/N] `},
		{"yes", reset, true, "YES\n", exitOK, true, `Reset branch "日本語のブランチ 🚀"? Its database branch_3 is replaced by a new copy (schema_only) of "demo"; all changes made in it are lost. [y/N] `},
		{"enter", del, true, "\n", exitFailed, false, "nothing was changed"},
		{"no", reset, true, "n\n", exitFailed, false, "nothing was changed"},
		{"end of input", del, true, "", exitFailed, false, "nothing was changed"},
	} {
		t.Run(test.verb+" "+test.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.stdinIsTerminal, w.stdin = test.terminal, test.answer
			got := w.run(t, "branch", test.verb, "ri-ben-yu-4kq2zd")
			if got.code != test.code || !strings.Contains(got.stderr, test.want) {
				t.Errorf("exit code %d, want %d; stderr:\n%s", got.code, test.code, got.stderr)
			}
			changed := false
			for _, request := range w.server.requested() {
				changed = changed || !strings.HasPrefix(request, "GET ")
			}
			if changed != test.changed {
				t.Errorf("changed: %t, want %t", changed, test.changed)
			}
		})
	}
}
