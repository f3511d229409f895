package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

const configsPath = "/api/v1/admin/branches/repohost/configs"

func TestRepohostConfigs(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	service := s.Service(t)
	made := must[*client.PutRepohostConfigResponse](t, 201)(service.PutRepohostConfigWithResponse(t.Context(),
		client.PutRepohostConfigRequest{Repository: "acme/shop", WebhookSecret: rawJSON(hookSecret)})).JSON201
	diff(t, "defaults", client.RepohostConfig{
		ID: made.ID, Repository: "acme/shop", AutoCreateOnPR: true, AutoDeleteOnMerge: true, AutoDeleteOnClose: true, CloseGrace: "24h",
		DefaultDataCloneMode: client.DataCloneModeSchemaOnly, DefaultBranchType: client.BranchTypePreview, BaseBranches: []string{}, MaxBranches: 20,
		ExpiresIn: new("30d"), HasWebhookSecret: true, WebhookPath: hookPath + "/" + made.ID.String(), CreatedAt: made.CreatedAt, UpdatedAt: made.UpdatedAt,
	}, *made)

	put := func(body string, status int) (*client.RepohostConfig, string) {
		t.Helper()
		resp, text := call(t, s, "POST", configsPath, body, "X-Service-Key", servertest.ServiceKey)
		if resp.StatusCode != status {
			t.Fatalf("%s: %d %s", body, resp.StatusCode, text)
		}
		for _, secret := range []string{hookSecret, "another secret", "a token of the host"} {
			if strings.Contains(text, secret) {
				t.Errorf("the answer has a secret: %s", text)
			}
		}
		var cfg client.RepohostConfig
		_ = json.Unmarshal([]byte(text), &cfg)
		return &cfg, text
	}
	// What is left out stays; a name in other letters is the same repository.
	cfg, _ := put(`{"repository": "ACME/shop", "auto_delete_on_merge": false, "close_grace": "0", "base_branches": ["main", "release/*"], "max_branches": 3,
		"provider": "github", "api_token": "a token of the host", "default_data_clone_mode": "full_clone", "default_branch_type": "persistent",
		"expires_in": null, "reset_on_push": true, "ignore_drafts": true, "allow_forks": true, "auto_create_on_pr": false, "auto_delete_on_close": false}`, 200)
	want := *made
	want.Repository, want.AutoDeleteOnMerge, want.CloseGrace, want.BaseBranches, want.MaxBranches = "ACME/shop", false, "0", []string{"main", "release/*"}, 3
	want.Provider, want.HasAPIToken, want.DefaultDataCloneMode, want.DefaultBranchType, want.ExpiresIn = new("github"), true, client.DataCloneModeFullClone, client.BranchTypePersistent, nil
	want.ResetOnPush, want.IgnoreDrafts, want.AllowForks, want.AutoCreateOnPR, want.AutoDeleteOnClose = true, true, true, false, false
	want.UpdatedAt = cfg.UpdatedAt
	diff(t, "changed", want, *cfg)
	cfg, _ = put(`{"repository": "acme/shop", "base_branches": [], "provider": "github"}`, 200)
	diff(t, "changed again", []any{[]string{}, true, true}, []any{cfg.BaseBranches, cfg.HasAPIToken, cfg.ResetOnPush})

	// A token goes only where it was meant for.
	_, text := put(`{"repository": "acme/shop", "api_url": "https://elsewhere.example/api/v3"}`, 400)
	if !strings.Contains(text, "sent again") {
		t.Error(text)
	}
	put(`{"repository": "acme/shop", "provider": null}`, 400)
	cfg, _ = put(`{"repository": "acme/shop", "api_url": "https://elsewhere.example/api/v3/", "api_token": "a token of the host"}`, 200)
	diff(t, "address", "https://elsewhere.example/api/v3", *cfg.APIURL)
	cfg, _ = put(`{"repository": "acme/shop", "api_url": null, "api_token": null, "provider": null}`, 200)
	diff(t, "without", []any{false, (*string)(nil), (*string)(nil)}, []any{cfg.HasAPIToken, cfg.APIURL, cfg.Provider})

	// GitLab's groups have more parts.
	put(`{"repository": "group/sub/project"}`, 201)
	list := must[*client.ListRepohostConfigsResponse](t, 200)(service.ListRepohostConfigsWithResponse(t.Context(), nil)).JSON200
	diff(t, "list", []any{2, "acme/shop", "group/sub/project", false}, []any{list.Total, list.Configs[0].Repository, list.Configs[1].Repository, list.Configs[1].HasWebhookSecret})
	limit := int32(1)
	list = must[*client.ListRepohostConfigsResponse](t, 200)(service.ListRepohostConfigsWithResponse(t.Context(), &client.ListRepohostConfigsParams{Limit: &limit, Offset: &limit})).JSON200
	diff(t, "page", []any{2, 1, "group/sub/project"}, []any{list.Total, len(list.Configs), list.Configs[0].Repository})
	must[*client.GetRepohostConfigResponse](t, 200)(service.GetRepohostConfigWithResponse(t.Context(), "group/sub/project"))
	resp, _ := call(t, s, "DELETE", configsPath+"/group%2Fsub%2Fproject", "", "X-Service-Key", servertest.ServiceKey)
	diff(t, "deleting", 204, resp.StatusCode)
	must[*client.DeleteRepohostConfigResponse](t, 204)(service.DeleteRepohostConfigWithResponse(t.Context(), "Acme/Shop"))
	must[*client.DeleteRepohostConfigResponse](t, 404)(service.DeleteRepohostConfigWithResponse(t.Context(), "acme/shop"))
	must[*client.GetRepohostConfigResponse](t, 404)(service.GetRepohostConfigWithResponse(t.Context(), "acme/shop"))
	list = must[*client.ListRepohostConfigsResponse](t, 200)(service.ListRepohostConfigsWithResponse(t.Context(), nil)).JSON200
	diff(t, "after it", []any{0, 0}, []any{list.Total, len(list.Configs)})
}

func TestInvalidRepohostConfigs(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(cfg *server.Config) { cfg.Branching.MaxExpiry = 7 * 24 * time.Hour })
	for body, mentions := range map[string]string{
		`{}`:                                            "repository",
		`{"repository":"shop"}`:                         "repository",
		`{"repository":"acme/../x"}`:                    "owner/repo",
		`{"repository":"acme/shop/"}`:                   "repository",
		`{"repository":"a/b","secret":"x"}`:             "secret",
		`{"repository":"a/b","webhook_secret":"short"}`: "at least 8",
		`{"repository":"a/b","webhook_secret":"ends in a line\n"}`:                     "white space",
		`{"repository":"a/b","webhook_secret":"whsec_no base64!"}`:                     "signing token",
		`{"repository":"a/b","provider":"bitbucket"}`:                                  "must be one of",
		`{"repository":"a/b","close_grace":"soon"}`:                                    "close_grace",
		`{"repository":"a/b","close_grace":"8d"}`:                                      "at most 1w",
		`{"repository":"a/b","expires_in":"never"}`:                                    "expires_in",
		`{"repository":"a/b","expires_in":"30d"}`:                                      "at most 1w",
		`{"repository":"a/b","max_branches":0}`:                                        "at least 1",
		`{"repository":"a/b","base_branches":["a\u0007b"]}`:                            "control characters",
		`{"repository":"a/b","default_data_clone_mode":"seed_data"}`:                   "branching.seed_path",
		`{"repository":"a/b","api_token":"x"}`:                                         "needs api_url",
		`{"repository":"a/b","api_token":"a\r\nb: c","provider":"github"}`:             "control characters",
		`{"repository":"a/b","api_token":"x","provider":"gitea"}`:                      "needs api_url",
		`{"repository":"a/b","api_url":"ftp://x"}`:                                     "must begin with https://",
		`{"repository":"a/b","api_url":"https://u:p@x/"}`:                              "user name",
		`{"repository":"a/b","api_url":"https://x/?a=b"}`:                              "query",
		`{"repository":"a/b","api_url":"https://169.254.169.254/latest"}`:              "link-local",
		`{"repository":"a/b","api_url":"http://gitea.example/api/v1"}`:                 "events.allow_private_targets",
		`{"repository":"a/b","auto_create_on_pr":null}`:                                "null",
		`{"repository":"a/b","webhook_secret":"12345678","webhook_secret":"12345678"}`: "twice",
	} {
		resp, text := call(t, s, "POST", configsPath, body, "X-Service-Key", servertest.ServiceKey)
		if e := wantError(t, resp, text, 400, "validation_error"); !strings.Contains(e.Error, mentions) {
			t.Errorf("%s: %s", body, e.Error)
		}
	}
	cfg := configure(t, s, "a/b", nil)
	diff(t, "the default fits the server", []any{"1w", "24h"}, []any{*cfg.ExpiresIn, cfg.CloseGrace})
}

func TestRepohostIsForAdministrators(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	put := client.PutRepohostConfigRequest{Repository: "acme/shop"}
	must[*client.PutRepohostConfigResponse](t, 401)(s.Client(t).PutRepohostConfigWithResponse(t.Context(), put))
	user := s.User(t, uuid.New())
	must[*client.PutRepohostConfigResponse](t, 403)(user.PutRepohostConfigWithResponse(t.Context(), put))
	must[*client.ListRepohostConfigsResponse](t, 403)(user.ListRepohostConfigsWithResponse(t.Context(), nil))
	must[*client.GetRepohostConfigResponse](t, 403)(user.GetRepohostConfigWithResponse(t.Context(), "acme/shop"))
	must[*client.DeleteRepohostConfigResponse](t, 403)(user.DeleteRepohostConfigWithResponse(t.Context(), "acme/shop"))
	must[*client.ListRepohostDeliveriesResponse](t, 403)(user.ListRepohostDeliveriesWithResponse(t.Context(), nil))
	must[*client.PutRepohostConfigResponse](t, 201)(s.Admin(t, uuid.New()).PutRepohostConfigWithResponse(t.Context(), put))
	// Not even an administrator's narrowed key.
	role := client.UserRoleAdmin
	admin := createUser(t, s.Service(t), client.CreateUserRequest{Email: "root@example.com", Role: &role})
	key := must[*client.CreateKeyResponse](t, 201)(s.Service(t).CreateKeyWithResponse(t.Context(), client.CreateKeyRequest{
		Type: client.KeyTypeClient, Name: "narrow", Scopes: []client.Scope{client.ScopeWriteBranches}, UserID: &admin.ID,
	})).JSON201.Key
	must[*client.PutRepohostConfigResponse](t, 403)(s.Client(t, client.WithClientKey(key)).PutRepohostConfigWithResponse(t.Context(), put))
}

// A secret that is changed is accepted beside the new one for a while, one that is taken away is not.
func TestSecretsRotate(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	configure(t, s, gitHubRepo, nil)
	secret := func(value string) client.RepohostConfig {
		return configure(t, s, gitHubRepo, func(r *client.PutRepohostConfigRequest) { r.WebhookSecret = rawJSON(value) })
	}
	n := 0
	status := func(secret string) int {
		n++
		body := alter(t, payload(t, "github_push"), map[string]any{"n": n})
		resp, _ := call(t, s, "POST", hookPath, string(body), "X-GitHub-Event", "push", "X-GitHub-Delivery", fmt.Sprint(n), "X-Hub-Signature-256", "sha256="+signed(secret, body))
		return resp.StatusCode
	}
	if cfg := secret(hookSecret); cfg.HasPreviousSecret {
		t.Error("the same secret again is no change")
	}
	cfg := secret("the second one")
	if left := time.Until(*cfg.PreviousSecretUntil); !cfg.HasPreviousSecret || left < 23*time.Hour || left > 24*time.Hour {
		t.Errorf("the first one goes on: %v, for %s", cfg.HasPreviousSecret, left)
	}
	diff(t, "first, second, other", []int{200, 200, 401}, []int{status(hookSecret), status("the second one"), status("x")})
	secret("the third one")
	diff(t, "after another change", []int{401, 200, 200}, []int{status(hookSecret), status("the second one"), status("the third one")})
	s.Exec(t, s.Control, "update repohost_configs set previous_secret_until = now()")
	diff(t, "after its time", []int{401, 200}, []int{status("the second one"), status("the third one")})
	secret("the fourth one")
	if cfg := secret(""); cfg.HasWebhookSecret || cfg.HasPreviousSecret {
		t.Errorf("taken away: %+v", cfg)
	}
	diff(t, "without one", []int{401, 401}, []int{status("the third one"), status("the fourth one")})

	// Stored encrypted, bound to its row, and by a server without the key not readable.
	secret(hookSecret)
	stored := servertest.Value[string](t, s.Control, "select encode(webhook_secret, 'escape') from repohost_configs")
	if strings.Contains(stored, "hook secret") {
		t.Errorf("stored readable: %s", stored)
	}
	configure(t, s, giteaRepo, func(r *client.PutRepohostConfigRequest) { r.WebhookSecret = rawJSON("another secret") })
	s.Exec(t, s.Control, "update repohost_configs set webhook_secret = (select webhook_secret from repohost_configs where repository = $1) where repository = $2", giteaRepo, gitHubRepo)
	diff(t, "with another row's secret", []int{401, 401}, []int{status("another secret"), status(hookSecret)})
}

// pull is GitHub's recorded pull request with another number, state and time.
func pull(t *testing.T, action string, n int, second int, changes map[string]any) []byte {
	t.Helper()
	name := map[string]string{"closed": "github_closed", "synchronize": "github_synchronize", "reopened": "github_reopened"}[action]
	if name == "" {
		name = "github_opened"
	}
	all := map[string]any{
		"action": action, "number": n, "pull_request.number": n, "pull_request.updated_at": time.Unix(1_790_000_000+int64(second), 0).UTC().Format(time.RFC3339),
	}
	for k, v := range changes {
		all[k] = v
	}
	return alter(t, payload(t, name), all)
}

func TestPullRequestsThatGetNoBranch(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Exec(t, s.Main, "create table t (id int primary key); insert into t values (1)")
	full := client.DataCloneModeFullClone
	configure(t, s, gitHubRepo, func(r *client.PutRepohostConfigRequest) {
		r.IgnoreDrafts, r.BaseBranches, r.DefaultDataCloneMode = new(true), &[]string{"main", "release/*"}, &full
	})
	open := func(n int, changes map[string]any) {
		t.Helper()
		gitHub(t, s, "accepted", pull(t, "opened", n, n, changes))
	}
	fork := map[string]any{"pull_request.base.ref": "main", "pull_request.head.repo.full_name": "mallory/Hello-World"}
	open(1, fork)
	open(2, map[string]any{"pull_request.base.ref": "main", "pull_request.draft": true})
	open(3, nil) // into master
	open(4, map[string]any{"pull_request.base.ref": "release/7"})
	ready(t, s, "pr-4")
	worked(t, s)
	if n := countBranches(t, s); n != 1 {
		t.Errorf("%d branches", n)
	}
	// A draft that is finished, and a pull request that goes elsewhere, get one.
	gitHub(t, s, "accepted", pull(t, "ready_for_review", 2, 10, map[string]any{"pull_request.base.ref": "main"}))
	gitHub(t, s, "accepted", pull(t, "edited", 3, 11, map[string]any{"pull_request.base.ref": "main"}))
	diff(t, "rows", client.DataCloneModeFullClone, ready(t, s, "pr-2").DataCloneMode)
	ready(t, s, "pr-3")
	// Forks, where they are allowed, never get rows.
	configure(t, s, gitHubRepo, func(r *client.PutRepohostConfigRequest) { r.AllowForks = new(true) })
	gitHub(t, s, "accepted", pull(t, "synchronize", 1, 12, fork))
	diff(t, "a fork's rows", client.DataCloneModeSchemaOnly, ready(t, s, "pr-1").DataCloneMode)
	if n := servertest.Value[int](t, database(t, s.Service(t), "pr-1"), "select count(*)::int from t"); n != 0 {
		t.Errorf("%d rows of main are in the branch of a fork", n)
	}
	configure(t, s, gitHubRepo, func(r *client.PutRepohostConfigRequest) { r.AutoCreateOnPR = new(false) })
	open(5, map[string]any{"pull_request.base.ref": "main"})
	worked(t, s)
	if b := branchOf(t, s, "pr-5"); b != nil {
		t.Errorf("made although that is switched off: %+v", b)
	}
}

func TestRepositoriesWithTheSameNumber(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	configure(t, s, giteaRepo, nil)
	configure(t, s, gitLabRepo, nil)
	gitea := func(name, want string) {
		body := payload(t, "gitea_"+name)
		deliver(t, s, want, body, "X-Gitea-Event", "pull_request", "X-Gitea-Delivery", name, "X-Gitea-Signature", signed(hookSecret, body))
	}
	gitLab := func(name string) {
		body := payload(t, "gitlab_"+name)
		deliver(t, s, "accepted", body, "X-Gitlab-Event", "Merge Request Hook", "X-Gitlab-Event-UUID", name, "X-Gitlab-Token", hookSecret)
	}
	gitea("opened", "accepted")
	short := ready(t, s, "pr-1")
	gitLab("create")
	long := ready(t, s, "gitlab-org-hello-world-pr-1")
	diff(t, "whose they are", []string{giteaRepo, gitLabRepo}, []string{*short.RepohostRepo, *long.RepohostRepo})
	gitea("merged", "accepted")
	isGone(t, s, short)
	ready(t, s, long.Slug)
	gitLab("merge")
	isGone(t, s, long)
}

func TestBranchesMadeByHandBelongToTheirPullRequest(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	configure(t, s, gitHubRepo, func(r *client.PutRepohostConfigRequest) { r.CloseGrace, r.ResetOnPush = new("0"), new(true) })
	number := 9
	b := create(t, s.Service(t), client.CreateBranchRequest{Name: "mine", RepohostRepo: new(strings.ToUpper(gitHubRepo)), RepohostPRNumber: &number})
	gitHub(t, s, "accepted", pull(t, "opened", 9, 1, nil))
	gitHub(t, s, "accepted", pull(t, "synchronize", 9, 2, nil))
	gitHub(t, s, "accepted", pull(t, "closed", 9, 3, nil)) // says nothing about what people made
	gitHub(t, s, "accepted", pull(t, "reopened", 9, 4, nil))
	deliveries := worked(t, s)
	got := ready(t, s, "mine")
	if got.ExpiresAt != nil || got.ResetAt != nil || branchOf(t, s, "pr-9") != nil || *deliveries[0].Branch != "mine" {
		t.Errorf("its branch: %+v; deliveries: %+v", got, deliveries[0])
	}
	gitHub(t, s, "accepted", pull(t, "closed", 9, 5, map[string]any{"pull_request.merged": true}))
	isGone(t, s, &client.Branch{ID: b.ID, Slug: b.Slug, DatabaseName: b.DatabaseName})
}

func TestClosingReopeningAndPushing(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Exec(t, s.Main, "create table t (id int primary key)")
	full := client.DataCloneModeFullClone
	configure(t, s, gitHubRepo, func(r *client.PutRepohostConfigRequest) {
		r.DefaultDataCloneMode, r.ResetOnPush, r.ExpiresIn, r.CloseGrace = &full, new(true), rawJSON(""), new("2h")
	})
	send := func(action string, second int) {
		t.Helper()
		gitHub(t, s, "accepted", pull(t, action, 4, second, nil))
		worked(t, s)
	}
	send("opened", 1)
	b := ready(t, s, "pr-4")
	if b.ExpiresAt != nil {
		t.Errorf("it ends at %s", b.ExpiresAt)
	}
	s.Exec(t, database(t, s.Service(t), "pr-4"), "insert into t values (1)")
	send("closed", 2)
	if left := time.Until(*ready(t, s, "pr-4").ExpiresAt); left < 119*time.Minute || left > 2*time.Hour {
		t.Errorf("it is kept for %s", left)
	}
	send("reopened", 3)
	got := ready(t, s, "pr-4")
	if got.ExpiresAt != nil || got.ID != b.ID || servertest.Value[int](t, database(t, s.Service(t), "pr-4"), "select count(*)::int from t") != 1 {
		t.Errorf("reopened: %+v", got)
	}
	// An end that somebody gave is not put off, nor taken back by a push.
	must[*client.UpdateBranchResponse](t, 200)(s.Service(t).UpdateBranchWithResponse(t.Context(), "pr-4", client.UpdateBranchRequest{ExpiresIn: new("3h")}))
	s.Exec(t, s.Main, "insert into t values (2), (3)")
	send("synchronize", 4)
	eventually(t, "the reset", func() bool { return branchOf(t, s, "pr-4").ResetAt != nil })
	got = ready(t, s, "pr-4")
	rows := servertest.Value[int](t, database(t, s.Service(t), "pr-4"), "select count(*)::int from t")
	if left := time.Until(*got.ExpiresAt); rows != 2 || left > 3*time.Hour || left < 2*time.Hour {
		t.Errorf("after a push: %d rows, ends in %s", rows, left)
	}
	// The grace goes by: the branch goes, and comes back, as main is then.
	send("closed", 5)
	s.Exec(t, s.Control, "update branches set expires_at = now() where slug = 'pr-4'")
	isGone(t, s, got)
	send("reopened", 6)
	if again := ready(t, s, "pr-4"); again.ID == b.ID {
		t.Error("it is the old one")
	}
	// Without a grace it goes at once, and without deleting it stays.
	configure(t, s, gitHubRepo, func(r *client.PutRepohostConfigRequest) { r.CloseGrace = new("0") })
	last := ready(t, s, "pr-4")
	send("closed", 7)
	isGone(t, s, last)
	configure(t, s, gitHubRepo, func(r *client.PutRepohostConfigRequest) {
		r.AutoDeleteOnClose, r.AutoDeleteOnMerge = new(false), new(false)
	})
	send("reopened", 8)
	ready(t, s, "pr-4")
	send("closed", 9)
	gitHub(t, s, "accepted", pull(t, "closed", 4, 10, map[string]any{"pull_request.merged": true}))
	worked(t, s)
	if got := ready(t, s, "pr-4"); got.ExpiresAt != nil {
		t.Errorf("it ends although that is switched off: %s", got.ExpiresAt)
	}
}

// A push puts the end of a branch off.
func TestPushesKeepABranch(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	configure(t, s, gitHubRepo, func(r *client.PutRepohostConfigRequest) { r.ExpiresIn = rawJSON("10d") })
	gitHub(t, s, "accepted", pull(t, "opened", 4, 1, nil))
	ready(t, s, "pr-4")
	s.Exec(t, s.Control, "update branches set expires_at = now() + interval '1 hour' where slug = 'pr-4'")
	gitHub(t, s, "accepted", pull(t, "synchronize", 4, 2, nil))
	worked(t, s)
	if left := time.Until(*branchOf(t, s, "pr-4").ExpiresAt); left < 9*24*time.Hour {
		t.Errorf("it ends in %s", left)
	}
}

// What cannot be made is told, and made when there is room.
func TestTooManyBranchesOfARepository(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	configure(t, s, gitHubRepo, func(r *client.PutRepohostConfigRequest) { r.MaxBranches = new(int32(2)) })
	for n := 1; n <= 3; n++ {
		gitHub(t, s, "accepted", pull(t, "opened", n, n, nil))
		worked(t, s)
	}
	third := pull(t, "opened", 3, 3, nil)
	deliveries := worked(t, s)
	if d := deliveries[0]; d.Status != client.RepohostDeliveryStatusFailed || !strings.Contains(*d.Reason, "already have 2 branches") {
		t.Errorf("the third: %+v", d)
	}
	if answer := gitHub(t, s, "duplicate", third); answer.FirstStatus != "failed" {
		t.Errorf("sent again: %+v", answer)
	}
	worked(t, s)
	gitHub(t, s, "accepted", pull(t, "closed", 1, 10, map[string]any{"pull_request.merged": true}))
	eventually(t, "room", func() bool { return branchOf(t, s, "pr-1") == nil })
	gitHub(t, s, "duplicate", third) // asks again for what had failed
	ready(t, s, "pr-3")
	if d := worked(t, s); d[1].Status != client.RepohostDeliveryStatusDone || d[1].Reason != nil {
		t.Errorf("the third at last: %+v", d[1])
	}
	// So does a change of the configuration.
	gitHub(t, s, "accepted", pull(t, "opened", 4, 11, nil))
	eventually(t, "its failure", func() bool { return worked(t, s)[0].Status == client.RepohostDeliveryStatusFailed })
	configure(t, s, gitHubRepo, func(r *client.PutRepohostConfigRequest) { r.MaxBranches = new(int32(3)) })
	ready(t, s, "pr-4")
	// And the time: a minute later it is tried again by itself.
	gitHub(t, s, "accepted", pull(t, "opened", 5, 12, nil))
	eventually(t, "its failure", func() bool { return worked(t, s)[0].Status == client.RepohostDeliveryStatusFailed })
	must[*client.DeleteBranchResponse](t, 204)(s.Service(t).DeleteBranchWithResponse(t.Context(), "pr-2", nil))
	s.Exec(t, s.Control, "update repohost_pull_requests set lease_until = now() - interval '2 minutes' where number = 5")
	ready(t, s, "pr-5")
}
