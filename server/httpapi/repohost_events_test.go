package httpapi_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

// What pull requests do to branches reaches webhooks like what people do.
func TestBranchesOfPullRequestsAreTold(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	cfg := configure(t, s, gitHubRepo, func(r *client.PutRepohostConfigRequest) { r.ResetOnPush = new(true) })
	r := servertest.NewReceiver(t, nil)
	hook(t, s.Service(t), r.URL)
	want := []string{}
	send := func(action string, changes map[string]any, events ...string) {
		t.Helper()
		gitHub(t, s, "accepted", pull(t, action, 4, len(want)+1, changes))
		worked(t, s)
		want = append(want, events...)
		eventually(t, "the events of "+action, func() bool { return len(r.Messages()) >= len(want) })
	}
	send("opened", nil, "branch.created", "branch.ready")
	send("closed", nil, "branch.updated")
	send("reopened", nil, "branch.updated")
	send("synchronize", nil, "branch.reset")
	send("closed", map[string]any{"pull_request.merged": true}, "branch.deleted")
	diff(t, "events", want, r.Types())
	for _, m := range r.Messages() {
		diff(t, "whose branch is told of by "+m.Type, []any{gitHubRepo, 4.0, cfg.ID.String(), "pr-4"},
			[]any{m.Data["repohost_repo"], m.Data["repohost_pr_number"], m.Data["actor"], m.Data["slug"]})
		if m.Type != "branch.updated" {
			continue
		}
		diff(t, "changed", any([]any{"expires_at"}), m.Data["changed"])
		if _, err := time.Parse(time.RFC3339, m.Data["expires_at"].(string)); err != nil {
			t.Error(err)
		}
	}
}

// Gitea signs the payload of a form and not the form, so that one signature fits many bodies, and the headers that say
// whose delivery it is are not signed at all.
func TestPayloadsInAnotherDressAreDuplicates(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	configure(t, s, gitHubRepo, func(r *client.PutRepohostConfigRequest) { r.ResetOnPush = new(true) })
	gitHub(t, s, "accepted", pull(t, "opened", 4, 1, nil))
	worked(t, s)
	ready(t, s, "pr-4")
	body := alter(t, pull(t, "synchronize", 4, 2, nil), map[string]any{"action": "synchronized"})
	gitea := func(contentType string) []string {
		return []string{"X-Gitea-Event", "pull_request", "X-Gitea-Signature", signed(hookSecret, body), "Content-Type", contentType}
	}
	form := "payload=" + url.QueryEscape(string(body))
	deliver(t, s, "accepted", []byte(form), gitea("application/x-www-form-urlencoded")...)
	worked(t, s)
	eventually(t, "the reset", func() bool { return branchOf(t, s, "pr-4").ResetAt != nil })
	at := *ready(t, s, "pr-4").ResetAt
	deliver(t, s, "duplicate", []byte("x=1&"+form), gitea("application/x-www-form-urlencoded")...)
	deliver(t, s, "duplicate", []byte(form+"&payload=other"), gitea("application/x-www-form-urlencoded")...)
	deliver(t, s, "duplicate", body, gitea("application/json")...)
	deliver(t, s, "duplicate", body, fromGitHub(body, "another")...)
	worked(t, s)
	if got := ready(t, s, "pr-4"); !got.ResetAt.Equal(at) {
		t.Errorf("it was reset again at %s, after %s", got.ResetAt, at)
	}
}

// A delivery that may still count is not forgotten, since it could then be sent again.
func TestDeliveriesOfOpenPullRequestsAreKept(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	configure(t, s, gitHubRepo, nil)
	push := pull(t, "synchronize", 4, 1, nil)
	gitHub(t, s, "accepted", push)
	gitHub(t, s, "accepted", pull(t, "closed", 5, 1, nil))
	gitHub(t, s, "ignored", pull(t, "labeled", 6, 1, nil))
	worked(t, s)
	s.Exec(t, s.Control, "update repohost_deliveries set received_at = received_at - interval '31 days'")
	s.Run(t) // another process sweeps when it starts
	eventually(t, "the sweep", func() bool {
		return servertest.Value[int](t, s.Control, "select count(*)::int from repohost_deliveries") == 1
	})
	gitHub(t, s, "duplicate", push)
}

// A token leads no report into the network of a server that others reach, whatever name stands in api_url.
func TestReportsToPrivateTargetsAreRefused(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(cfg *server.Config) { cfg.PublicBaseURL = "https://bough.example.com" })
	h := servertest.NewGitHost(t, hostToken)
	reporting(t, s, gitHubRepo, "https://rebinding.example.com")
	s.Exec(t, s.Control, "update repohost_configs set api_url = $1", h.URL)
	gitHub(t, s, "accepted", pull(t, "opened", 4, 1, nil))
	eventually(t, "the refusal", func() bool {
		cfg := must[*client.GetRepohostConfigResponse](t, 200)(s.Service(t).GetRepohostConfigWithResponse(t.Context(), gitHubRepo)).JSON200
		return strings.Contains(value(cfg.LastReportError), "are refused: it is a loopback address")
	})
	diff(t, "requests", 0, h.Requests())
	ready(t, s, "pr-4")
}
