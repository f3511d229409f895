package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/servertest"
)

const hostToken = "token-of-the-host-0123456789"

// reporting configures a repository to report to the host.
func reporting(t *testing.T, s *servertest.Server, repository, url string) client.RepohostConfig {
	t.Helper()
	return configure(t, s, repository, func(r *client.PutRepohostConfigRequest) {
		r.APIURL, r.APIToken = rawJSON(url), rawJSON(hostToken)
	})
}

// said waits until the one comment at a pull request mentions something, and returns it.
func said(t *testing.T, h *servertest.GitHost, pull, mentions string) servertest.HostComment {
	t.Helper()
	var comments []servertest.HostComment
	eventually(t, "the comment about "+mentions, func() bool {
		comments = h.Comments(pull)
		return len(comments) > 0 && strings.Contains(comments[len(comments)-1].Body, mentions)
	})
	if len(comments) != 1 {
		t.Errorf("%d comments at %s", len(comments), pull)
	}
	return comments[0]
}

// The state of the branch is shown at the pull request, in the form of each API: a status that goes from pending to its
// end, and one comment that is kept up to date.
func TestBranchesAreReported(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	h := servertest.NewGitHost(t, hostToken)
	cfg := reporting(t, s, gitHubRepo, h.URL)
	reporting(t, s, giteaRepo, h.URL+"/api/v1/")
	reporting(t, s, gitLabRepo, h.URL+"/api/v4")
	check := func(comment servertest.HostComment, slug string) {
		t.Helper()
		for _, secret := range []string{hookSecret, hostToken, "postgres", "127.0.0.1", "branch_pr"} {
			if strings.Contains(comment.Body, secret) {
				t.Errorf("the comment has %q: %s", secret, comment.Body)
			}
		}
		if !strings.Contains(comment.Body, "X-Branch: "+slug) {
			t.Errorf("the comment does not say how to use it: %s", comment.Body)
		}
	}
	eventuallyStatus := func(want string) {
		t.Helper()
		eventually(t, want, func() bool {
			statuses := h.Statuses()
			return len(statuses) > 0 && statuses[len(statuses)-1] == want
		})
	}

	gitHub(t, s, "accepted", payload(t, "github_opened"))
	eventuallyStatus("ec26c3e success bough/pr-2: The database branch is ready")
	comment := said(t, h, gitHubRepo+"#2", "**ready**")
	check(comment, "pr-2")
	if !strings.HasPrefix(comment.Body, "<!-- bough:"+cfg.ID.String()+" -->") {
		t.Errorf("the comment has no marker: %s", comment.Body)
	}
	gitHub(t, s, "accepted", merged(t))
	if last := said(t, h, gitHubRepo+"#2", "was **deleted**"); last.ID != comment.ID {
		t.Error("another comment was made")
	}

	gitea := func(name string) {
		body := payload(t, "gitea_"+name)
		deliver(t, s, "accepted", body, "X-Gitea-Event", "pull_request", "X-Gitea-Delivery", name, "X-Gitea-Signature", signed(hookSecret, body))
	}
	gitea("opened")
	eventuallyStatus("2eba238 success bough/pr-1: The database branch is ready")
	check(said(t, h, giteaRepo+"#1", "**ready**"), "pr-1")
	gitea("closed")
	said(t, h, giteaRepo+"#1", "is kept until")
	gitea("reopened")
	said(t, h, giteaRepo+"#1", "**ready**")
	gitea("merged")
	said(t, h, giteaRepo+"#1", "was **deleted**")

	gitLab := func(name string) {
		body := payload(t, "gitlab_"+name)
		deliver(t, s, "accepted", body, "X-Gitlab-Event", "Merge Request Hook", "X-Gitlab-Event-UUID", name, "X-Gitlab-Token", hookSecret)
	}
	eventually(t, "the end of the other pr-1", func() bool { return branchOf(t, s, "pr-1") == nil })
	gitLab("create")
	eventuallyStatus("c4c7922 success bough/pr-1: The database branch is ready")
	check(said(t, h, gitLabRepo+"#1", "**ready**"), "pr-1")
	gitLab("merge")
	said(t, h, gitLabRepo+"#1", "was **deleted**")

	for _, status := range h.Statuses() {
		if !strings.Contains(status, " success ") && !strings.Contains(status, " pending ") {
			t.Errorf("status %s", status)
		}
	}
	worked(t, s)
	if got := must[*client.GetRepohostConfigResponse](t, 200)(s.Service(t).GetRepohostConfigWithResponse(t.Context(), gitHubRepo)).JSON200; got.LastReportError != nil {
		t.Errorf("last_report_error %s", *got.LastReportError)
	}
}

// Reports are tried again, comments of others are left alone, and one that was deleted is made again.
func TestReportsOutliveFailures(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	h := servertest.NewGitHost(t, hostToken)
	cfg := reporting(t, s, gitHubRepo, h.URL)
	pull4 := gitHubRepo + "#4"
	for range 130 { // more than a page
		h.Comment(pull4, "a remark")
	}
	h.Comment(pull4, "<!-- bough:"+cfg.ID.String()+" -->\nof somebody who copied the marker")
	h.Fail(1)
	gitHub(t, s, "accepted", pull(t, "opened", 4, 1, nil))
	lastError := func() string {
		cfg := must[*client.GetRepohostConfigResponse](t, 200)(s.Service(t).GetRepohostConfigWithResponse(t.Context(), gitHubRepo)).JSON200
		return value(cfg.LastReportError)
	}
	eventually(t, "the error to be told", func() bool { return strings.Contains(lastError(), "502") })
	mine := func() (comments []servertest.HostComment) {
		for _, c := range h.Comments(pull4) {
			if !c.Foreign {
				comments = append(comments, c)
			}
		}
		return comments
	}
	eventually(t, "the report", func() bool {
		comments := mine()
		return len(comments) == 1 && strings.Contains(comments[0].Body, "**ready**") && lastError() == ""
	})
	h.Delete(pull4)
	gitHub(t, s, "accepted", pull(t, "closed", 4, 2, nil))
	eventually(t, "another comment", func() bool { c := mine(); return len(c) == 1 && strings.Contains(c[0].Body, "kept until") })
	// The branch goes when its time is over, which is looked at then.
	s.Exec(t, s.Control, "update branches set expires_at = now() where slug = 'pr-4'")
	eventually(t, "the end of the branch", func() bool { return branchOf(t, s, "pr-4") == nil })
	s.Exec(t, s.Control, "update repohost_pull_requests set report_at = now() where report_at is not null")
	eventually(t, "a word about it", func() bool { c := mine(); return len(c) == 1 && strings.Contains(c[0].Body, "was **deleted**") })
	// No news, no report.
	worked(t, s)
	before := h.Requests()
	gitHub(t, s, "accepted", pull(t, "edited", 4, 3, map[string]any{"pull_request.state": "closed"}))
	worked(t, s)
	if after := h.Requests(); after != before {
		t.Errorf("%d requests without news", after-before)
	}
}

// The token goes to the host of api_url only, and into no message.
func TestTokensStayWithTheirHost(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	var leaked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leaked.Add(1) }))
	t.Cleanup(elsewhere.Close)
	h := servertest.NewGitHost(t, hostToken)
	h.Respond(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	reporting(t, s, gitHubRepo, h.URL)
	gitHub(t, s, "accepted", pull(t, "opened", 4, 1, nil))
	lastError := func() string {
		cfg := must[*client.GetRepohostConfigResponse](t, 200)(s.Service(t).GetRepohostConfigWithResponse(t.Context(), gitHubRepo)).JSON200
		return value(cfg.LastReportError)
	}
	eventually(t, "the refusal", func() bool { return strings.Contains(lastError(), "redirect") })
	if n := leaked.Load(); n != 0 {
		t.Errorf("%d requests went to another host", n)
	}
	ready(t, s, "pr-4") // the branch does not wait for reports

	// A host that repeats the token in its refusal.
	other := servertest.NewGitHost(t, "another token")
	other.Token = "x"
	other.Respond(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"message": "Bad credentials: ` + hostToken + `"}`))
	})
	reporting(t, s, gitHubRepo, other.URL)
	gitHub(t, s, "accepted", pull(t, "synchronize", 4, 2, map[string]any{"pull_request.head.sha": strings.Repeat("a", 40)}))
	eventually(t, "the refusal", func() bool { return strings.Contains(lastError(), "401") })
	jobs := servertest.Value[string](t, s.Control, "select coalesce(string_agg(j::text, ' '), '') from river_job j")
	rows := servertest.Value[string](t, s.Control, "select string_agg(p::text, ' ') || (select string_agg(c::text, ' ') from repohost_configs c) from repohost_pull_requests p")
	for _, text := range []string{lastError(), jobs, rows} {
		if strings.Contains(text, hostToken) || strings.Contains(text, hookSecret) {
			t.Errorf("a secret is in %s", text)
		}
	}
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
