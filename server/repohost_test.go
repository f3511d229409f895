package server_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/servertest"
)

const (
	hookSecret = "hook-secret-of-the-test"
	hostToken  = "host-token-of-the-test"
	hookRepo   = "Codertocat/Hello-World"
)

// repohostEvent is a recorded delivery of GitHub's, with another time and state.
func repohostEvent(t *testing.T, name string, second int, merged bool) []byte {
	t.Helper()
	data, err := os.ReadFile("repohost/testdata/github_" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	pr := root["pull_request"].(map[string]any)
	pr["merged"], pr["updated_at"] = merged, fmt.Sprintf("2026-01-01T00:00:%02dZ", second)
	data, err = json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// send sends a delivery signed with the secret; status 0 is no answer.
func (p *process) send(t *testing.T, secret string, body []byte) (status int) {
	t.Helper()
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/api/v1/webhooks/repohost", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "X-Github-Event": {"pull_request"},
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))},
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

func (p *process) follow(t *testing.T, host *servertest.GitHost) {
	t.Helper()
	quote := func(s string) json.RawMessage { data, _ := json.Marshal(s); return data }
	answer, err := p.client(t).PutRepohostConfigWithResponse(t.Context(), client.PutRepohostConfigRequest{
		Repository: hookRepo, WebhookSecret: quote(hookSecret), APIURL: quote(host.URL), APIToken: quote(hostToken),
		ResetOnPush: new(true), CloseGrace: new("0"),
	})
	if err != nil || answer.JSON201 == nil {
		t.Fatalf("%v: %s", err, answer.Body)
	}
}

// Killed at any step of what a delivery leads to, the work is finished by the next process: one branch, one comment.
func TestKilledWorkForPullRequestsIsFinished(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"recorded", "created", "reconciled", "commented", "reset", "deleted"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			i := newInstallation(t)
			args := append(i.args, "--data-dir", t.TempDir())
			host := servertest.NewGitHost(t, hostToken)
			branches := func() int {
				return servertest.Value[int](t, i.s.Control, "select count(*)::int from branches where not is_main")
			}
			readyOn := func(p *process) {
				t.Helper()
				eventually(t, "the branch", func() bool {
					got, err := p.client(t).GetBranchWithResponse(t.Context(), "pr-2")
					return err == nil && got.JSON200 != nil && got.JSON200.Status == client.BranchStatusReady
				})
			}
			p := start(t, args, nil)
			p.follow(t, host)
			event := repohostEvent(t, "opened", 1, false)
			if point == "reset" || point == "deleted" {
				if status := p.send(t, hookSecret, event); status != http.StatusAccepted {
					t.Fatalf("status %d", status)
				}
				readyOn(p)
				event = repohostEvent(t, "synchronize", 2, false)
				if point == "deleted" {
					event = repohostEvent(t, "closed", 2, true)
				}
			}
			p.stop(t)
			faulty := start(t, args, []string{"BOUGH_FAULT_POINT=repohost:" + point})
			faulty.send(t, hookSecret, event)
			faulty.waitDead(t)

			p = start(t, args, nil)
			// The repository host may send it again; it was recorded before the process died.
			if status := p.send(t, hookSecret, event); status != http.StatusOK {
				t.Errorf("sent again: %d, want the answer to a repetition", status)
			}
			mentions := "**ready**"
			switch point {
			case "deleted":
				mentions = "was **deleted**"
				eventually(t, "the removal", func() bool {
					got, err := p.client(t).GetBranchWithResponse(t.Context(), "pr-2")
					return err == nil && got.StatusCode() == http.StatusNotFound
				})
			case "reset":
				eventually(t, "the reset", func() bool {
					got, err := p.client(t).GetBranchWithResponse(t.Context(), "pr-2")
					return err == nil && got.JSON200 != nil && got.JSON200.ResetAt != nil && got.JSON200.Status == client.BranchStatusReady
				})
			default:
				readyOn(p)
			}
			eventually(t, "the report", func() bool {
				comments := host.Comments(hookRepo + "#2")
				return len(comments) > 0 && strings.Contains(comments[0].Body, mentions)
			})
			if comments := host.Comments(hookRepo + "#2"); len(comments) != 1 {
				t.Errorf("%d comments", len(comments))
			}
			if n := branches(); n != 1 {
				t.Errorf("%d branches were made", n)
			}
			eventually(t, "the end of the work", func() bool {
				return servertest.Value[int](t, i.s.Control, "select count(*)::int from repohost_pull_requests where version > done_version") == 0 &&
					servertest.Value[int](t, i.s.Control, "select count(*)::int from repohost_deliveries where status = 'accepted'") == 0
			})
		})
	}
}

// Neither the log, at its most talkative, nor the control database has a secret, whatever was sent and refused.
func TestSecretsOfRepositoriesAreNowhere(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	dir := t.TempDir()
	host := servertest.NewGitHost(t, "another token") // so that every report is refused
	p := start(t, append(i.args, "--data-dir", dir, "--log.level", "debug"), nil)
	p.follow(t, host)
	p.send(t, "wrong", repohostEvent(t, "opened", 1, false))
	p.send(t, hookSecret, repohostEvent(t, "opened", 2, false))
	p.send(t, hookSecret, []byte("["))
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/api/v1/webhooks/repohost", strings.NewReader(`{"project":{"path_with_namespace":"`+hookRepo+`"},"secret":"`+hookSecret+`"}`))
	req.Header = http.Header{"Content-Type": {"application/json"}, "X-Gitlab-Event": {"Push Hook"}, "X-Gitlab-Token": {hookSecret}}
	if resp, err := http.DefaultClient.Do(req); err != nil {
		t.Error(err)
	} else {
		resp.Body.Close()
	}
	eventually(t, "the refusal of a report", func() bool {
		return servertest.Value[int](t, i.s.Control, "select count(*)::int from repohost_configs where last_report_error like '%401%'") == 1
	})
	if code := p.stop(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	logs := p.log.String()
	if !strings.Contains(logs, "made with another secret") || !strings.Contains(logs, "another secret") {
		t.Errorf("the log does not say why deliveries were refused:\n%s", logs)
	}
	// A server that has another key says so, and refuses.
	p = start(t, append(i.args, "--data-dir", t.TempDir()), nil)
	if status := p.send(t, hookSecret, repohostEvent(t, "closed", 3, true)); status != http.StatusUnauthorized {
		t.Errorf("without the key: %d", status)
	}
	eventually(t, "a word in the log of what to do", func() bool { return strings.Contains(p.log.String(), "set webhook_secret again") })
	p.stop(t)
	logs += p.log.String()
	// One that gets auth.encryption-key encrypts them anew, and needs the file no more.
	key := "--auth.encryption-key=0123456789abcdef0123456789abcdef"
	p = start(t, append(i.args, "--data-dir", dir, key), nil)
	p.stop(t)
	if err := os.Remove(filepath.Join(dir, "keys", "secrets.key")); err != nil {
		t.Error(err)
	}
	p = start(t, append(i.args, "--data-dir", dir, key), nil)
	if status := p.send(t, hookSecret, repohostEvent(t, "closed", 4, true)); status != http.StatusAccepted {
		t.Errorf("with auth.encryption-key: %d", status)
	}
	text := logs + p.log.String()
	for _, table := range []string{"repohost_configs", "repohost_deliveries", "repohost_pull_requests", "river_job", "branches", "branch_activity"} {
		text += servertest.Value[string](t, i.s.Control, "select coalesce(string_agg(r::text, ' '), '') from "+table+" r")
	}
	for _, secret := range []string{hookSecret, hostToken, hex.EncodeToString([]byte(hookSecret)), hex.EncodeToString([]byte(hostToken))} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is there", secret)
		}
	}
}
