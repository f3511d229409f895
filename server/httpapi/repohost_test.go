package httpapi_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

const (
	hookSecret = "hook secret of the test"
	gitHubRepo = "Codertocat/Hello-World"
	giteaRepo  = "jcitizen/my-repo"
	gitLabRepo = "gitlab-org/hello-world"
)

func rawJSON(s string) json.RawMessage {
	if s == "" {
		return json.RawMessage("null")
	}
	data, _ := json.Marshal(s)
	return data
}

// configure makes or changes the configuration of a repository.
func configure(t *testing.T, s *servertest.Server, repository string, change func(*client.PutRepohostConfigRequest)) client.RepohostConfig {
	t.Helper()
	request := client.PutRepohostConfigRequest{Repository: repository, WebhookSecret: rawJSON(hookSecret)}
	if change != nil {
		change(&request)
	}
	answer, err := s.Service(t).PutRepohostConfigWithResponse(t.Context(), request)
	switch {
	case err != nil:
		t.Fatal(err)
	case answer.JSON201 != nil:
		return *answer.JSON201
	case answer.JSON200 != nil:
		return *answer.JSON200
	}
	t.Fatalf("configuring %s: %s", repository, answer.Body)
	return client.RepohostConfig{}
}

func payload(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("../repohost/testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// alter returns a payload derived from a recorded one: with fields changed, their paths written with dots.
func alter(t *testing.T, body []byte, changes map[string]any) []byte {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(body, &root); err != nil {
		t.Fatal(err)
	}
	for path, v := range changes {
		at, parts := root, strings.Split(path, ".")
		for _, part := range parts[:len(parts)-1] {
			at = at[part].(map[string]any)
		}
		at[parts[len(parts)-1]] = v
	}
	data, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// merged is GitHub's recorded closing turned into a merge, of which it recorded none.
func merged(t *testing.T) []byte {
	return alter(t, payload(t, "github_closed"), map[string]any{
		"pull_request.merged": true, "pull_request.merged_at": "2019-05-15T15:21:18Z", "pull_request.updated_at": "2019-05-15T15:21:18Z",
		"pull_request.merge_commit_sha": "78a76ee6b4992a6baf64c59fc4c44c7323d60438",
	})
}

func signed(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// hookAnswer is the answer to a delivery.
type hookAnswer struct {
	Status      string    `json:"status"`
	DeliveryID  uuid.UUID `json:"delivery_id"`
	Reason      string    `json:"reason"`
	FirstStatus string    `json:"first_status"`
	Number      int       `json:"repohost_pr_number"`
}

const hookPath = "/api/v1/webhooks/repohost"

// deliver sends a delivery that is in order and checks the status of the answer.
func deliver(t *testing.T, s *servertest.Server, want string, body []byte, headers ...string) hookAnswer {
	t.Helper()
	resp, text := call(t, s, "POST", hookPath, string(body), headers...)
	var answer hookAnswer
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	status := 200
	if want == "accepted" {
		status = 202
	}
	if resp.StatusCode != status || answer.Status != want {
		t.Fatalf("answered with %d %s, want %d %s", resp.StatusCode, text, status, want)
	}
	return answer
}

func fromGitHub(body []byte, id string) []string {
	return []string{"X-GitHub-Event", "pull_request", "X-GitHub-Delivery", id, "X-Hub-Signature-256", "sha256=" + signed(hookSecret, body)}
}

func gitHub(t *testing.T, s *servertest.Server, want string, body []byte) hookAnswer {
	t.Helper()
	return deliver(t, s, want, body, fromGitHub(body, uuid.NewString())...)
}

// branchOf returns a branch, nil where there is none.
func branchOf(t *testing.T, s *servertest.Server, slug string) *client.Branch {
	t.Helper()
	got, err := s.Service(t).GetBranchWithResponse(t.Context(), slug)
	if err != nil {
		t.Fatal(err)
	}
	return got.JSON200
}

func ready(t *testing.T, s *servertest.Server, slug string) *client.Branch {
	t.Helper()
	var b *client.Branch
	eventually(t, "branch "+slug, func() bool {
		b = branchOf(t, s, slug)
		if b != nil && b.Status == client.BranchStatusError {
			t.Fatalf("%s: %s", slug, *b.ErrorMessage)
		}
		return b != nil && b.Status == client.BranchStatusReady
	})
	return b
}

func isGone(t *testing.T, s *servertest.Server, b *client.Branch) {
	t.Helper()
	eventually(t, "the end of "+b.Slug, func() bool {
		return branchOf(t, s, b.ID.String()) == nil &&
			servertest.Value[int](t, s.Main, "select count(*)::int from pg_database where datname = $1", b.DatabaseName) == 0
	})
}

// settled waits until the work of all deliveries is done, and returns how it ended.
func worked(t *testing.T, s *servertest.Server) []client.RepohostDelivery {
	t.Helper()
	var list *client.RepohostDeliveryList
	eventually(t, "the work of the deliveries", func() bool {
		list = must[*client.ListRepohostDeliveriesResponse](t, 200)(s.Service(t).ListRepohostDeliveriesWithResponse(t.Context(), nil)).JSON200
		for _, d := range list.Deliveries {
			if d.Status == client.RepohostDeliveryStatusAccepted {
				return false
			}
		}
		return true
	})
	return list.Deliveries
}

// countBranches counts the branches that there ever were, but main.
func countBranches(t *testing.T, s *servertest.Server) int {
	t.Helper()
	return servertest.Value[int](t, s.Control, "select count(*)::int from branches where not is_main")
}

func TestBranchesFollowRecordedPullRequests(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Exec(t, s.Main, "create table t (id int primary key)")
	cfg := configure(t, s, gitHubRepo, nil)
	configure(t, s, giteaRepo, nil)
	configure(t, s, gitLabRepo, nil)

	gitHub(t, s, "accepted", payload(t, "github_opened"))
	b := ready(t, s, "pr-2")
	diff(t, "GitHub's branch", []any{gitHubRepo, 2, "https://github.com/Codertocat/Hello-World/pull/2", cfg.ID.String(), client.DataCloneModeSchemaOnly},
		[]any{*b.RepohostRepo, *b.RepohostPRNumber, *b.RepohostPRURL, b.CreatedBy, b.DataCloneMode})
	if left := time.Until(*b.ExpiresAt); left < 29*24*time.Hour || left > 30*24*time.Hour {
		t.Errorf("it lives for %s", left)
	}
	gitHub(t, s, "accepted", payload(t, "github_synchronize"))
	gitHub(t, s, "accepted", merged(t))
	isGone(t, s, b)
	if answer := gitHub(t, s, "ignored", payload(t, "github_reopened")); !strings.Contains(answer.Reason, "merged") {
		t.Errorf("reopening what was merged: %+v", answer)
	}

	gitea := func(name string) {
		body := payload(t, "gitea_"+name)
		sum := signed(hookSecret, body)
		deliver(t, s, "accepted", body, "X-GitHub-Event", "pull_request", "X-Gitea-Event", "pull_request", "X-Gitea-Delivery", name,
			"X-Gitea-Signature", sum, "X-Gogs-Signature", sum, "X-Hub-Signature", "sha1=0", "X-Hub-Signature-256", "sha256="+sum)
	}
	gitea("opened")
	b = ready(t, s, "pr-1")
	gitea("synchronized")
	gitea("closed")
	eventually(t, "the grace", func() bool { return time.Until(*branchOf(t, s, "pr-1").ExpiresAt) < 25*time.Hour })
	gitea("reopened")
	eventually(t, "the end of the grace", func() bool { return time.Until(*branchOf(t, s, "pr-1").ExpiresAt) > 29*24*time.Hour })
	gitea("merged")
	isGone(t, s, b)

	gitLab := func(name string, standard bool) {
		body := payload(t, "gitlab_"+name)
		headers := []string{"X-Gitlab-Event", "Merge Request Hook", "X-Gitlab-Event-UUID", name, "X-Gitlab-Token", hookSecret}
		if standard {
			at := strconv.FormatInt(time.Now().Unix(), 10)
			mac := hmac.New(sha256.New, []byte(hookSecret))
			fmt.Fprintf(mac, "%s.%s.%s", name, at, body)
			headers = []string{"X-Gitlab-Event", "Merge Request Hook", "webhook-id", name, "webhook-timestamp", at,
				"webhook-signature", "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))}
		}
		deliver(t, s, "accepted", body, headers...)
	}
	gitLab("create", false)
	b = ready(t, s, "pr-1")
	gitLab("close", true)
	gitLab("reopen", false)
	gitLab("merge", true)
	isGone(t, s, b)

	for _, d := range worked(t, s) {
		if d.Status == client.RepohostDeliveryStatusFailed {
			t.Errorf("%s %s: %s", d.Repository, *d.Action, *d.Reason)
		}
	}
	if n := countBranches(t, s); n != 3 {
		t.Errorf("there were %d branches, want 3", n)
	}
	number := func(status client.RepohostDeliveryStatus, repository string) int {
		return must[*client.ListRepohostDeliveriesResponse](t, 200)(s.Service(t).ListRepohostDeliveriesWithResponse(t.Context(),
			&client.ListRepohostDeliveriesParams{Status: &status, Repository: &repository})).JSON200.Total
	}
	diff(t, "deliveries", []int{3, 1, 5, 0}, []int{
		number(client.RepohostDeliveryStatusDone, gitHubRepo), number(client.RepohostDeliveryStatusIgnored, strings.ToLower(gitHubRepo)),
		number(client.RepohostDeliveryStatusDone, giteaRepo), number(client.RepohostDeliveryStatusFailed, gitLabRepo),
	})
}

// However the deliveries of a pull request are shuffled, repeated and sent at once, they lead to the same end.
func TestDeliveriesOutOfOrderTwiceAndAtOnce(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	configure(t, s, gitHubRepo, nil)
	opened, push, end := payload(t, "github_opened"), payload(t, "github_synchronize"), merged(t)
	// The end comes first: it is remembered, and nothing is made.
	gitHub(t, s, "accepted", end)
	gitHub(t, s, "ignored", opened)
	gitHub(t, s, "ignored", push)
	worked(t, s)
	if n := countBranches(t, s); n != 0 {
		t.Fatalf("%d branches were made after the merge", n)
	}

	numbered := func(body []byte, n int, at string) []byte {
		return alter(t, body, map[string]any{"pull_request.number": n, "number": n, "pull_request.updated_at": at})
	}
	// A closing that is older than what is known.
	gitHub(t, s, "accepted", numbered(payload(t, "github_reopened"), 3, "2026-01-02T00:00:02Z"))
	gitHub(t, s, "ignored", numbered(payload(t, "github_closed"), 3, "2026-01-02T00:00:01Z"))
	ready(t, s, "pr-3")

	// Many at once, each twice: one branch for each pull request that stays open, none for the others.
	var wg sync.WaitGroup
	for n := 10; n < 14; n++ {
		bodies := [][]byte{
			numbered(opened, n, "2026-01-01T00:00:00Z"), numbered(push, n, "2026-01-01T00:00:01Z"), numbered(push, n, "2026-01-01T00:00:02Z"),
		}
		if n%2 == 0 {
			bodies = append(bodies, numbered(end, n, "2026-01-01T00:00:03Z"))
		}
		for i, body := range bodies {
			for range 2 {
				wg.Go(func() {
					resp, text := call(t, s, "POST", hookPath, string(body), fromGitHub(body, fmt.Sprint(n, "-", i))...)
					if resp.StatusCode != 202 && resp.StatusCode != 200 {
						t.Errorf("answered with %d %s", resp.StatusCode, text)
					}
				})
			}
		}
	}
	wg.Wait()
	worked(t, s)
	for n := 10; n < 14; n++ {
		slug := fmt.Sprintf("pr-%d", n)
		if n%2 == 1 {
			ready(t, s, slug)
		} else {
			eventually(t, "the end of "+slug, func() bool { return branchOf(t, s, slug) == nil })
		}
		if made := servertest.Value[int](t, s.Control, "select count(*)::int from branches where slug = $1", slug); n%2 == 1 && made != 1 {
			t.Errorf("%s was made %d times", slug, made)
		}
	}
}

func TestRepeatedDeliveriesDoNothing(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	configure(t, s, gitHubRepo, nil)
	configure(t, s, giteaRepo, nil)
	body := payload(t, "github_opened")
	first := deliver(t, s, "accepted", body, fromGitHub(body, "id-1")...)
	ready(t, s, "pr-2")
	worked(t, s)
	for name, headers := range map[string][]string{"the same id": fromGitHub(body, "id-1"), "another id": fromGitHub(body, "id-2"), "no id": fromGitHub(body, "")} {
		again := deliver(t, s, "duplicate", body, headers...)
		if again.DeliveryID != first.DeliveryID || again.FirstStatus != "done" || again.Number != 2 {
			t.Errorf("with %s: %+v, first %+v", name, again, first)
		}
	}
	// The id is not signed: another body under it is a repetition, too, but only for this repository.
	deliver(t, s, "duplicate", merged(t), fromGitHub(merged(t), "id-1")...)
	other := payload(t, "gitea_opened")
	deliver(t, s, "accepted", other, "X-Gitea-Event", "pull_request", "X-Gitea-Delivery", "id-1", "X-Gitea-Signature", signed(hookSecret, other))
	// A branch that was deleted by hand does not come back by a replay.
	must[*client.DeleteBranchResponse](t, 204)(s.Service(t).DeleteBranchWithResponse(t.Context(), "pr-2", nil))
	deliver(t, s, "duplicate", body, fromGitHub(body, "id-3")...)
	time.Sleep(300 * time.Millisecond)
	if b := branchOf(t, s, "pr-2"); b != nil {
		t.Errorf("it came back: %+v", b)
	}
	gitHub(t, s, "accepted", payload(t, "github_synchronize")) // but by a push it does
	ready(t, s, "pr-2")
}

// Every delivery that is not signed as it must be gets the same answer, whether the repository is known or not.
func TestUnsignedDeliveriesAreRefusedAlike(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	cfg := configure(t, s, gitHubRepo, nil)
	gitea := client.RepohostProviderGitea
	only := configure(t, s, "only/gitea", func(r *client.PutRepohostConfigRequest) { r.Provider = rawJSON(string(gitea)) })
	silent := configure(t, s, "no/secret", func(r *client.PutRepohostConfigRequest) { r.WebhookSecret = nil })
	body := payload(t, "github_opened")
	in := func(repository string) []byte {
		return alter(t, body, map[string]any{"repository.full_name": repository})
	}
	right := "sha256=" + signed(hookSecret, body)
	old := strconv.FormatInt(time.Now().Add(-time.Hour).Unix(), 10)
	mac := hmac.New(sha256.New, []byte(hookSecret))
	mr := alter(t, payload(t, "gitlab_create"), map[string]any{"project.path_with_namespace": gitHubRepo})
	fmt.Fprintf(mac, "1.%s.%s", old, mr)
	var want string
	for _, test := range []struct {
		name, path string
		body       []byte
		headers    []string
	}{
		{"no signature", "", body, []string{"X-GitHub-Event", "pull_request"}},
		{"another secret", "", body, []string{"X-GitHub-Event", "pull_request", "X-Hub-Signature-256", "sha256=" + signed("x", body)}},
		{"SHA-1 alone", "", body, []string{"X-GitHub-Event", "pull_request", "X-Hub-Signature", "sha1=f9dd1f6a6a4b4e3c5c4e7d3f3b6b0f2c7d1e6a90"}},
		{"another body", "", append([]byte(" "), body...), []string{"X-GitHub-Event", "pull_request", "X-Hub-Signature-256", right}},
		{"two kinds of signatures", "", body, []string{"X-GitHub-Event", "pull_request", "X-Hub-Signature-256", right, "X-Gitlab-Token", hookSecret}},
		{"unknown repository", "", in("un/known"), []string{"X-GitHub-Event", "pull_request", "X-Hub-Signature-256", "sha256=" + signed(hookSecret, in("un/known"))}},
		{"no repository", "", []byte("{}"), []string{"X-GitHub-Event", "ping", "X-Hub-Signature-256", "sha256=" + signed(hookSecret, []byte("{}"))}},
		{"no JSON", "", []byte("["), []string{"X-GitHub-Event", "ping", "X-Hub-Signature-256", "sha256=" + signed(hookSecret, []byte("["))}},
		{"a configuration without a secret", "", in("no/secret"), []string{"X-GitHub-Event", "pull_request", "X-Hub-Signature-256", "sha256=" + signed("", in("no/secret"))}},
		{"its own address", "/" + silent.ID.String(), body, []string{"X-GitHub-Event", "pull_request", "X-Hub-Signature-256", right}},
		{"another kind of host", "", in("only/gitea"), []string{"X-GitHub-Event", "pull_request", "X-Hub-Signature-256", "sha256=" + signed(hookSecret, in("only/gitea"))}},
		{"at its address", "/" + only.ID.String(), body, []string{"X-GitHub-Event", "pull_request", "X-Hub-Signature-256", right}},
		{"unknown address", "/" + uuid.NewString(), body, []string{"X-GitHub-Event", "pull_request", "X-Hub-Signature-256", right}},
		{"an address of no form", "/github", body, []string{"X-GitHub-Event", "pull_request", "X-Hub-Signature-256", right}},
		{"an old signature", "", mr, []string{"X-Gitlab-Event", "Merge Request Hook", "webhook-id", "1", "webhook-timestamp", old, "webhook-signature", "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))}},
		{"another token", "", mr, []string{"X-Gitlab-Event", "Merge Request Hook", "X-Gitlab-Token", hookSecret + "."}},
	} {
		resp, text := call(t, s, "POST", hookPath+test.path, string(test.body), test.headers...)
		e := wantError(t, resp, text, 401, "unauthorized")
		got := strings.ReplaceAll(text, e.RequestID, "")
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("%s: %s, others: %s", test.name, got, want)
		}
	}
	// Two signatures in one header each.
	req, _ := http.NewRequestWithContext(t.Context(), "POST", s.URL+hookPath, strings.NewReader(string(body)))
	req.Header = http.Header{"Content-Type": {"application/json"}, "X-Github-Event": {"pull_request"}, "X-Hub-Signature-256": {right, right}}
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != 401 {
		t.Errorf("two signatures: %v, %v", resp, err)
	}
	resp.Body.Close()
	if n := countBranches(t, s) + servertest.Value[int](t, s.Control, "select count(*)::int from repohost_deliveries"); n != 0 {
		t.Errorf("%d traces of what was refused", n)
	}
	// And the right one passes, at both addresses.
	gitHub(t, s, "accepted", body)
	ping := payload(t, "github_ping")
	resp, text := call(t, s, "POST", hookPath+"/"+cfg.ID.String(), string(ping), "X-GitHub-Event", "ping", "X-GitHub-Delivery", "p", "X-Hub-Signature-256", "sha256="+signed(hookSecret, ping))
	if resp.StatusCode != 200 || !strings.Contains(text, `"pong"`) {
		t.Errorf("ping: %d %s", resp.StatusCode, text)
	}
	worked(t, s)
}

func TestDeliveriesOfOtherForms(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	cfg := configure(t, s, gitHubRepo, nil)
	configure(t, s, giteaRepo, nil)
	own := hookPath + "/" + cfg.ID.String()
	body := payload(t, "github_opened")
	sign := func(body, event string, more ...string) []string {
		return append([]string{"X-GitHub-Event", event, "X-GitHub-Delivery", uuid.NewString(), "X-Hub-Signature-256", "sha256=" + signed(hookSecret, []byte(body))}, more...)
	}
	push := string(alter(t, payload(t, "github_push"), map[string]any{"repository.full_name": gitHubRepo}))
	elsewhere := string(payload(t, "github_push"))
	elsewhere = strings.ReplaceAll(elsewhere, gitHubRepo, "some/where")
	for _, test := range []struct {
		name, path, body string
		headers          []string
		status           int
		mentions         string
	}{
		{"unknown event", hookPath, push, sign(push, "push"), 200, `"ignored"`},
		{"another repository", own, elsewhere, sign(elsewhere, "push"), 200, "another repository"},
		{"a body that is no payload", own, "[1]", sign("[1]", "pull_request"), 200, "another repository"},
		{"no pull request", hookPath, `{"repository":{"full_name":"Codertocat/Hello-World"}}`, sign(`{"repository":{"full_name":"Codertocat/Hello-World"}}`, "pull_request"), 400, "no pull_request"},
		{"no event", hookPath, string(body), []string{"X-Hub-Signature-256", "x"}, 400, "X-GitHub-Event"},
		{"two events", hookPath, string(body), []string{"X-GitHub-Event", "ping", "X-Gitlab-Event", "x"}, 400, "several kinds"},
		{"no JSON by its type", hookPath, string(body), sign(string(body), "pull_request", "Content-Type", "text/plain"), 415, "application/json"},
		{"no type", hookPath, string(body), sign(string(body), "pull_request", "Content-Type", ""), 415, "application/json"},
		{"a query", hookPath + "?secret=x", string(body), sign(string(body), "pull_request"), 400, "no query parameters"},
	} {
		resp, text := call(t, s, "POST", test.path, test.body, test.headers...)
		if resp.StatusCode != test.status || !strings.Contains(text, test.mentions) {
			t.Errorf("%s: %d %s", test.name, resp.StatusCode, text)
		}
	}
	resp, text := call(t, s, "GET", hookPath, "")
	wantError(t, resp, text, 405, "method_not_allowed")

	// GitHub's other content type, of which the form is signed, and Gitea's, of which the payload is.
	form := "payload=" + strings.NewReplacer("%", "%25", "+", "%2B", "&", "%26", ";", "%3B").Replace(string(body))
	resp, text = call(t, s, "POST", hookPath, form, sign(form, "pull_request", "Content-Type", "application/x-www-form-urlencoded")...)
	if resp.StatusCode != 202 {
		t.Errorf("a form of GitHub: %d %s", resp.StatusCode, text)
	}
	ready(t, s, "pr-2")
	inner := payload(t, "gitea_opened")
	form = "payload=" + strings.NewReplacer("%", "%25", "+", "%2B", "&", "%26", ";", "%3B").Replace(string(inner))
	resp, text = call(t, s, "POST", hookPath, form, "X-Gitea-Event", "pull_request", "X-Gitea-Signature", signed(hookSecret, inner), "Content-Type", "application/x-www-form-urlencoded")
	if resp.StatusCode != 202 {
		t.Errorf("a form of Gitea: %d %s", resp.StatusCode, text)
	}
	ready(t, s, "pr-1")
}

func TestLargeDeliveries(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	configure(t, s, gitHubRepo, nil)
	large := alter(t, payload(t, "github_opened"), map[string]any{"pull_request.body": strings.Repeat("x", 5<<20)})
	gitHub(t, s, "accepted", large)
	ready(t, s, "pr-2")
	huge := strings.Repeat(" ", 25<<20) + "{}"
	resp, text := call(t, s, "POST", hookPath, huge, fromGitHub([]byte(huge), "huge")...)
	e := wantError(t, resp, text, 413, "too_large")
	if !strings.Contains(e.Error, "25 MiB") {
		t.Errorf("the limit is not named: %s", e.Error)
	}
	// Without a length, too.
	req, _ := http.NewRequestWithContext(t.Context(), "POST", s.URL+hookPath, struct{ *strings.Reader }{strings.NewReader(huge)})
	req.ContentLength = -1
	req.Header = http.Header{"Content-Type": {"application/json"}, "X-Github-Event": {"ping"}}
	if resp, err := http.DefaultClient.Do(req); err != nil {
		t.Error(err)
	} else if resp.Body.Close(); resp.StatusCode != 413 {
		t.Errorf("a stream of more than 25 MB: %d", resp.StatusCode)
	}
	deep := strings.Repeat("[", 1<<20)
	resp, text = call(t, s, "POST", hookPath, deep, fromGitHub([]byte(deep), "deep")...)
	wantError(t, resp, text, 401, "unauthorized")
}

// A body that breaks off is the sender's fault, and nobody else's.
func TestDeliveriesThatBreakOff(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nX-GitHub-Event: ping\r\nContent-Length: 100\r\n\r\n{", hookPath)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") || !strings.Contains(string(answer), "ends too early") {
		t.Errorf("%v: %s", err, answer)
	}
}

func TestDeliveriesAreLimited(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	configure(t, s, gitHubRepo, nil)
	configure(t, s, giteaRepo, nil)
	body := payload(t, "github_push")
	limited := false
	for i := range 400 {
		resp, text := call(t, s, "POST", hookPath, string(body), "X-GitHub-Event", "push", "X-GitHub-Delivery", fmt.Sprint(i), "X-Hub-Signature-256", "sha256="+signed(hookSecret, body))
		if limited = resp.StatusCode == 429; limited {
			wantError(t, resp, text, 429, "rate_limited")
			if resp.Header.Get("Retry-After") == "" || i < 300 {
				t.Errorf("after %d deliveries: %v", i, resp.Header)
			}
			break
		}
	}
	if !limited {
		t.Error("400 deliveries at once are not too many")
	}
	other := payload(t, "gitea_opened") // another repository is not held up
	deliver(t, s, "accepted", other, "X-Gitea-Event", "pull_request", "X-Gitea-Signature", signed(hookSecret, other))
	worked(t, s)
}

func disabled(cfg *server.Config) { cfg.Branching.Enabled = false }

func TestRepohostNeedsBranching(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, disabled)
	body := payload(t, "github_opened")
	resp, text := call(t, s, "POST", hookPath, string(body), fromGitHub(body, "1")...)
	wantError(t, resp, text, 503, "branching_disabled")
	resp, text = call(t, s, "GET", "/api/v1/admin/branches/repohost/configs", "", "X-Service-Key", servertest.ServiceKey)
	wantError(t, resp, text, 503, "branching_disabled")
}
