package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/gen/client"
)

func testConfig(repository string) client.RepohostConfig {
	return client.RepohostConfig{
		ID: testID(600), Repository: repository, AutoCreateOnPR: true, AutoDeleteOnMerge: true, AutoDeleteOnClose: true, CloseGrace: "24h",
		DefaultDataCloneMode: client.DataCloneModeSchemaOnly, DefaultBranchType: client.BranchTypePreview, BaseBranches: []string{},
		MaxBranches: 20, ExpiresIn: new("30d"), HasWebhookSecret: true, WebhookPath: "/api/v1/webhooks/repohost/" + testID(600).String(),
		CreatedAt: testNow.Add(-time.Hour), UpdatedAt: testNow,
	}
}

func (s *fakeServer) serveRepohost(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/v1/admin/branches/repohost/configs", func(w http.ResponseWriter, _ *http.Request) {
		silent, failing := testConfig("group/sub/project"), testConfig("acme/a-rather-long-name-of-a-repository")
		silent.HasWebhookSecret, silent.AutoCreateOnPR, silent.AutoDeleteOnMerge, silent.AutoDeleteOnClose = false, false, false, false
		failing.HasAPIToken, failing.LastReportError, failing.LastDeliveryAt = true, new("POST … was answered with 401"), new(testNow.Add(-time.Minute))
		reply(w, http.StatusOK, client.RepohostConfigList{Configs: []client.RepohostConfig{failing, testConfig("acme/shop"), silent}, Total: 3})
	})
	mux.HandleFunc("POST /api/v1/admin/branches/repohost/configs", func(w http.ResponseWriter, r *http.Request) {
		s.body, _ = io.ReadAll(r.Body)
		var request client.PutRepohostConfigRequest
		_ = json.Unmarshal(s.body, &request)
		cfg := testConfig(request.Repository)
		cfg.ResetOnPush = value(request.ResetOnPush)
		cfg.BaseBranches = value(request.BaseBranches)
		if string(request.ExpiresIn) == "null" {
			cfg.ExpiresIn = nil
		}
		if string(request.WebhookSecret) == "null" {
			cfg.HasWebhookSecret = false
		} else if request.WebhookSecret != nil {
			cfg.HasPreviousSecret, cfg.PreviousSecretUntil = true, new(testNow.Add(24*time.Hour))
		}
		reply(w, http.StatusOK, cfg)
	})
	mux.HandleFunc("DELETE /api/v1/admin/branches/repohost/configs/{repository}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("repository") != "acme/shop" {
			fail(w, http.StatusNotFound, "not_found", "there is no configuration for the repository")
			return
		}
		noContent(w, r)
	})
	mux.HandleFunc("GET /api/v1/admin/branches/repohost/deliveries", func(w http.ResponseWriter, r *http.Request) {
		all := []client.RepohostDelivery{
			{ID: testID(1), Repository: "acme/shop", Event: "pull_request", Action: new("opened"), RepohostPRNumber: new(int32(7)), Status: client.RepohostDeliveryStatusFailed, Reason: new("there are already 50 branches, the most this server allows"), ReceivedAt: testNow.Add(-time.Minute)},
			{ID: testID(2), Repository: "acme/shop", Event: "pull_request", Action: new("closed"), RepohostPRNumber: new(int32(12)), Status: client.RepohostDeliveryStatusDone, Branch: new("pr-12"), ReceivedAt: testNow.Add(-time.Hour)},
			{ID: testID(3), Repository: "acme/shop", Event: "ping", Status: client.RepohostDeliveryStatusIgnored, Reason: new("a ping"), ReceivedAt: testNow.Add(-2 * time.Hour)},
		}
		if r.URL.Query().Get("status") == "failed" {
			all = all[:1]
		}
		reply(w, http.StatusOK, client.RepohostDeliveryList{Deliveries: slicePage(all, r.URL.Query()), Total: len(all)})
	})
}

// Only what a flag says is sent, and secrets come from files, from standard input or from a question.
func TestRepohostSetSendsWhatWasSaid(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args, stdin string
		terminal    bool
		want        string
	}{
		{args: "", want: `{"repository":"acme/shop"}`},
		{args: "--webhook-secret-file " + file, want: `{"repository":"acme/shop","webhook_secret":"from a file"}`},
		{args: "--webhook-secret-file -", stdin: "from a pipe\r\n", want: `{"repository":"acme/shop","webhook_secret":"from a pipe"}`},
		{args: "--webhook-secret-file -", terminal: true, want: `{"repository":"acme/shop","webhook_secret":"typed"}`},
		{args: "--webhook-secret none --api-token-file none", want: `{"api_token":null,"repository":"acme/shop","webhook_secret":null}`},
		{args: "--api-token-file " + file + " --provider github", want: `{"api_token":"from a file","provider":"github","repository":"acme/shop"}`},
		{args: "--provider none --api-url none --expires-in none", want: `{"api_url":null,"expires_in":null,"provider":null,"repository":"acme/shop"}`},
		{args: "--auto-create-on-pr=false --max-branches 3 --clone-data full_clone --type persistent", want: `{"auto_create_on_pr":false,"default_branch_type":"persistent","default_data_clone_mode":"full_clone","max_branches":3,"repository":"acme/shop"}`},
		{args: "--base-branches=", want: `{"base_branches":[],"repository":"acme/shop"}`},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.stdin, w.stdinIsTerminal = test.stdin, test.terminal
			w.readSecret = func() ([]byte, error) {
				if !test.terminal {
					return nil, errors.New("no terminal")
				}
				return []byte("typed"), nil
			}
			out := w.ok(t, append([]string{"repohost", "set", "acme/shop"}, strings.Fields(test.args)...)...)
			var sent, want map[string]any
			if err := errors.Join(json.Unmarshal(w.server.body, &sent), json.Unmarshal([]byte(test.want), &want)); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, sent); d != "" {
				t.Errorf("request (-want +got):\n%s", d)
			}
			if !strings.HasSuffix(out, "\n"+w.server.URL+"/api/v1/webhooks/repohost/"+testID(600).String()+"\n") {
				t.Errorf("the webhook's URL is not alone on the last line:\n%s", out)
			}
		})
	}
	w := setup(t)
	w.stdin = "\n"
	if got := w.run(t, "repohost", "set", "acme/shop", "--webhook-secret-file", "-"); got.code != exitFailed || !strings.Contains(got.stderr, "empty") {
		t.Errorf("an empty secret: %d %s", got.code, got.stderr)
	}
}
