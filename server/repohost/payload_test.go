package repohost

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/branching"
)

func recording(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// shown is what the tests of payloads look at.
type shown struct {
	Action, State, Base, SHA, URL, At string
	Number                            int32
	Pushed, Reopened, Fork, Draft     bool
}

func show(e event) shown {
	return shown{e.action, string(e.state), e.baseRef, e.headSHA, e.url, e.at.Format(time.RFC3339), e.number, e.pushed, e.reopened, e.fork, e.draft}
}

func TestRecordedPayloads(t *testing.T) {
	t.Parallel()
	gitHub := shown{State: "open", Base: "master", SHA: "ec26c3e57ca3a959ca5aad62de7213c562f8c821", URL: "https://github.com/Codertocat/Hello-World/pull/2", At: "2019-05-15T15:20:33Z", Number: 2}
	gitea := shown{State: "open", Base: "master", SHA: "2eba238e33607c1fa49253182e9fff42baafa1eb", URL: "https://try.gitea.io/jcitizen/my-repo/pulls/1", At: "2018-07-06T00:37:47Z", Number: 1}
	gitLab := shown{State: "open", Base: "master", SHA: "c4c79227ed610f1151f05bbc5be33b4f340d39c8", URL: "https://gitlab.com/gitlab-org/hello-world/merge_requests/1", At: "2017-12-10T17:01:11Z", Number: 1}
	but := func(s shown, change func(*shown)) shown { change(&s); return s }
	for name, want := range map[string]shown{
		"github_opened":      but(gitHub, func(s *shown) { s.Action = "opened" }),
		"github_synchronize": but(gitHub, func(s *shown) { s.Action, s.Pushed = "synchronize", true }),
		"github_reopened":    but(gitHub, func(s *shown) { s.Action, s.Reopened = "reopened", true }),
		"github_closed":      but(gitHub, func(s *shown) { s.Action, s.State, s.At = "closed", "closed", "2019-05-15T15:21:18Z" }),
		"gitea_opened":       but(gitea, func(s *shown) { s.Action = "opened" }),
		"gitea_synchronized": but(gitea, func(s *shown) { s.Action, s.Pushed = "synchronized", true }),
		"gitea_closed":       but(gitea, func(s *shown) { s.Action, s.State, s.At = "closed", "closed", "2018-07-06T01:34:08Z" }),
		"gitea_reopened":     but(gitea, func(s *shown) { s.Action, s.Reopened, s.At = "reopened", true, "2018-07-06T01:38:39Z" }),
		"gitea_merged":       but(gitea, func(s *shown) { s.Action, s.State, s.At = "closed", "merged", "2018-07-06T01:39:46Z" }),
		"gitlab_create":      but(gitLab, func(s *shown) { s.Action = "open" }),
		"gitlab_close":       but(gitLab, func(s *shown) { s.Action, s.State, s.At = "close", "closed", "2017-12-10T17:02:46Z" }),
		"gitlab_reopen":      but(gitLab, func(s *shown) { s.Action, s.Reopened, s.At = "reopen", true, "2017-12-10T17:03:25Z" }),
		"gitlab_merge":       but(gitLab, func(s *shown) { s.Action, s.State, s.At = "merge", "merged", "2017-12-10T17:08:07Z" }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider, _, _ := strings.Cut(name, "_")
			d := dialect{provider: Provider(provider), event: pullRequestEvents[Provider(provider)][0]}
			payload := recording(t, name)
			e, ignored, err := read(d, payload)
			if err != nil || ignored != "" {
				t.Fatalf("%v, ignored: %s", err, ignored)
			}
			if diff := cmp.Diff(want, show(e)); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
			repositories := map[string]string{"github": "Codertocat/Hello-World", "gitea": "jcitizen/my-repo", "gitlab": "gitlab-org/hello-world"}
			if got := repositoryOf(d.provider, payload); got != repositories[provider] {
				t.Errorf("repository %q", got)
			}
		})
	}
}

// alter returns a payload with one field changed, its path written with dots; nil removes it.
func alter(t testing.TB, payload []byte, changes map[string]any) []byte {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(payload, &root); err != nil {
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

func TestPayloadsOfOtherKinds(t *testing.T) {
	t.Parallel()
	pr := dialect{provider: db.RepohostProviderGithub, event: "pull_request"}
	mr := dialect{provider: db.RepohostProviderGitlab, event: "Merge Request Hook"}
	opened, create := recording(t, "github_opened"), recording(t, "gitlab_create")
	for _, test := range []struct {
		name    string
		dialect dialect
		payload []byte
		ignored string
		err     string
		fork    bool
		draft   bool
		pushed  bool
	}{
		{name: "fork", dialect: pr, payload: alter(t, opened, map[string]any{"pull_request.head.repo.full_name": "mallory/Hello-World"}), fork: true},
		{name: "deleted fork", dialect: pr, payload: alter(t, opened, map[string]any{"pull_request.head.repo": nil}), fork: true},
		{name: "name in other letters", dialect: pr, payload: alter(t, opened, map[string]any{"pull_request.head.repo.full_name": "codertocat/hello-world"})},
		{name: "draft", dialect: pr, payload: alter(t, opened, map[string]any{"pull_request.draft": true}), draft: true},
		{name: "fork at GitLab", dialect: mr, payload: alter(t, create, map[string]any{"object_attributes.source_project_id": 7}), fork: true},
		{name: "push at GitLab", dialect: mr, payload: alter(t, create, map[string]any{"object_attributes.action": "update", "object_attributes.oldrev": "c4c7"}), pushed: true},
		{name: "edit at GitLab", dialect: mr, payload: alter(t, create, map[string]any{"object_attributes.action": "update"})},
		{name: "system hook", dialect: dialect{provider: db.RepohostProviderGitlab, event: "System Hook"}, payload: create},
		{name: "work in progress", dialect: mr, payload: alter(t, create, map[string]any{"object_attributes.work_in_progress": true}), draft: true},
		{name: "labeled", dialect: pr, payload: alter(t, opened, map[string]any{"action": "labeled"}), ignored: `action "labeled"`},
		{name: "push", dialect: dialect{provider: db.RepohostProviderGithub, event: "push"}, payload: recording(t, "github_push"), ignored: `event "push"`},
		{name: "approved", dialect: mr, payload: alter(t, create, map[string]any{"object_attributes.action": "approved"}), ignored: `action "approved"`},
		{name: "locked", dialect: mr, payload: alter(t, create, map[string]any{"object_attributes.state": "locked"}), ignored: "locked"},
		{name: "another system hook", dialect: dialect{provider: db.RepohostProviderGitlab, event: "System Hook"}, payload: []byte(`{"object_kind":"push"}`), ignored: "push"},
		{name: "no JSON", dialect: pr, payload: []byte("payload=x"), err: "not that of a pull request"},
		{name: "other JSON", dialect: pr, payload: []byte(`{"action":"opened"}`), err: "no pull_request"},
		{name: "no attributes", dialect: mr, payload: []byte(`{"object_kind":"merge_request"}`), err: "no object_attributes"},
		{name: "number 0", dialect: pr, payload: alter(t, opened, map[string]any{"pull_request.number": 0}), err: "no number"},
		{name: "large number", dialect: pr, payload: alter(t, opened, map[string]any{"pull_request.number": 1 << 40}), err: "no number"},
		{name: "number of letters", dialect: pr, payload: alter(t, opened, map[string]any{"pull_request.number": "two"}), err: "not that of"},
		{name: "no time", dialect: pr, payload: alter(t, opened, map[string]any{"pull_request.updated_at": ""}), err: "updated_at"},
		{name: "the year 0", dialect: pr, payload: alter(t, opened, map[string]any{"pull_request.updated_at": "0000-01-01T00:00:00Z"}), err: "updated_at"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e, ignored, err := read(test.dialect, test.payload)
			switch {
			case test.err != "":
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want one with %q", err, test.err)
				}
			case err != nil:
				t.Error(err)
			case !strings.Contains(ignored, test.ignored) || ignored != "" && test.ignored == "":
				t.Errorf("ignored because %q, want %q", ignored, test.ignored)
			case e.fork != test.fork && test.ignored == "", e.draft != test.draft, e.pushed != test.pushed:
				t.Errorf("fork %v, draft %v, pushed %v", e.fork, e.draft, e.pushed)
			}
		})
	}
}

func TestDangerousFieldsAreDropped(t *testing.T) {
	t.Parallel()
	payload := alter(t, recording(t, "github_opened"), map[string]any{
		"pull_request.html_url": "javascript:alert(1)", "pull_request.head.sha": "../../../user", "pull_request.base.ref": "a\x00\x1b[31mb",
	})
	e, _, err := read(dialect{provider: db.RepohostProviderGithub, event: "pull_request"}, payload)
	if err != nil || e.url != "" || e.headSHA != "" || e.baseRef != "a��[31mb" {
		t.Errorf("url %q, commit %q, base %q, %v", e.url, e.headSHA, e.baseRef, err)
	}
}

func TestOutdatedEvents(t *testing.T) {
	t.Parallel()
	before, now, later := testTime.Add(-time.Second), testTime, testTime.Add(time.Second)
	for _, test := range []struct {
		name  string
		known PullRequest
		event event
		out   bool
	}{
		{"the first", PullRequest{}, event{at: before}, false},
		{"a later one", PullRequest{Version: 1, State: "open", EventAt: now}, event{state: "closed", at: later}, false},
		{"an earlier one", PullRequest{Version: 1, State: "closed", EventAt: now}, event{state: "open", at: before}, true},
		{"an earlier closing of one that was reopened", PullRequest{Version: 1, State: "open", EventAt: now}, event{state: "closed", at: before}, true},
		{"a push in the same second", PullRequest{Version: 1, State: "open", EventAt: now}, event{state: "open", at: now, pushed: true}, false},
		{"closed in the same second", PullRequest{Version: 1, State: "open", EventAt: now}, event{state: "closed", at: now}, false},
		{"opened in the second in which it was closed", PullRequest{Version: 1, State: "closed", EventAt: now}, event{state: "open", at: now}, true},
		{"reopened in the second in which it was closed", PullRequest{Version: 1, State: "closed", EventAt: now}, event{state: "open", at: now, reopened: true}, false},
		{"merged, though told late", PullRequest{Version: 1, State: "closed", EventAt: now}, event{state: "merged", at: before}, false},
		{"anything after a merge", PullRequest{Version: 1, State: "merged", EventAt: now}, event{state: "open", at: later, reopened: true}, true},
		{"merged twice", PullRequest{Version: 1, State: "merged", EventAt: now}, event{state: "merged", at: later}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if reason := outdated(test.known, test.event); (reason != "") != test.out {
				t.Errorf("outdated because %q", reason)
			}
		})
	}
}

func TestWantedPullRequests(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		cfg  Config
		pr   PullRequest
		want bool
	}{
		{"any", Config{AutoCreateOnPR: true}, PullRequest{BaseRef: "x"}, true},
		{"switched off", Config{}, PullRequest{}, false},
		{"fork", Config{AutoCreateOnPR: true}, PullRequest{Fork: true}, false},
		{"allowed fork", Config{AutoCreateOnPR: true, AllowForks: true}, PullRequest{Fork: true}, true},
		{"draft", Config{AutoCreateOnPR: true}, PullRequest{Draft: true}, true},
		{"ignored draft", Config{AutoCreateOnPR: true, IgnoreDrafts: true}, PullRequest{Draft: true}, false},
		{"base", Config{AutoCreateOnPR: true, BaseBranches: []string{"main"}}, PullRequest{BaseRef: "main"}, true},
		{"other base", Config{AutoCreateOnPR: true, BaseBranches: []string{"main"}}, PullRequest{BaseRef: "main2"}, false},
		{"pattern", Config{AutoCreateOnPR: true, BaseBranches: []string{"main", "release/*"}}, PullRequest{BaseRef: "release/1.0/rc"}, true},
	} {
		if got := wanted(test.cfg, test.pr); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
	for pattern, names := range map[string]map[string]bool{
		"*":   {"": true, "main": true},
		"a*b": {"ab": true, "axxb": true, "a": false, "ba": false, "abc": false},
		"a*a": {"a": false, "aa": true},
		"*x*": {"x": true, "axb": true, "ab": false}, "a*b*c": {"abc": true, "a-b-c": true, "acb": false, "abxbc": true},
	} {
		for name, want := range names {
			if got := matches(pattern, name); got != want {
				t.Errorf("%q fits %q: %v", name, pattern, got)
			}
		}
	}
}

func TestBranchNames(t *testing.T) {
	t.Parallel()
	for repository, want := range map[string][]string{
		"acme/shop":         {"pr-7", "acme-shop-pr-7"},
		"group/sub/project": {"pr-7", "group-sub-project-pr-7"},
	} {
		if got := branchNames(repository, 7); !slices.Equal(got, want) {
			t.Errorf("%s: %q", repository, got)
		}
	}
	for _, name := range branchNames(strings.Repeat("a", 90)+"/"+strings.Repeat("b", 90), maxNumber) {
		if len(name) > maxBranchName || !strings.HasSuffix(name, "-2147483647") {
			t.Errorf("%d characters: %s", len(name), name)
		}
	}
}

// What is told about a branch has no credentials, no address, and nothing of PostgreSQL's words.
func TestNews(t *testing.T) {
	t.Parallel()
	slug, reason := "pr-7", "the limit"
	until := testTime.Add(time.Hour)
	branch := func(status db.BranchStatus) []branching.Branch {
		return []branching.Branch{{Slug: "pr-7", Status: status, DatabaseName: "branch_pr_7_secret", ErrorMessage: new("relation users of main")}}
	}
	closing := branch(db.BranchStatusReady)
	closing[0].ExpiresAt = &until
	for _, test := range []struct {
		name     string
		pr       PullRequest
		branches []branching.Branch
		mark     mark
		mentions string
		silent   bool
	}{
		{"never had one", PullRequest{State: "open", Number: 7}, nil, markNone, "", true},
		{"being made", PullRequest{State: "open", Number: 7}, branch(db.BranchStatusCreating), markPending, "being made", false},
		{"being reset", PullRequest{State: "open", Number: 7}, branch(db.BranchStatusResetting), markPending, "being reset", false},
		{"ready", PullRequest{State: "open", Number: 7}, branch(db.BranchStatusReady), markSuccess, "`X-Branch: pr-7`", false},
		{"failed", PullRequest{State: "open", Number: 7}, branch(db.BranchStatusError), markFailure, "could not be made", false},
		{"no room", PullRequest{State: "open", Number: 7, Problem: &reason}, nil, markFailure, "no database branch", false},
		{"kept", PullRequest{State: "closed", Number: 7}, closing, markNone, "kept until", false},
		{"deleted", PullRequest{State: "merged", Number: 7, Reported: "x", BranchSlug: &slug}, nil, markNone, "was **deleted**", false},
		{"closed without ever", PullRequest{State: "closed", Number: 7}, nil, markNone, "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := newsOf(test.pr, test.branches)
			if n.silent != test.silent || n.mark != test.mark || !strings.Contains(n.comment, test.mentions) || len(n.status) > 140 {
				t.Errorf("%+v", n)
			}
			for _, word := range []string{"secret", "relation", "postgres", "the limit"} {
				if strings.Contains(n.comment+n.status, word) {
					t.Errorf("it has %q: %s", word, n.comment)
				}
			}
		})
	}
	if m := marker(Config{ID: uuid.Nil}); !strings.HasPrefix(m, "<!--") {
		t.Error(m)
	}
}

// A payload of any form is read or refused, and what comes out fits the database.
func FuzzPayload(f *testing.F) {
	for _, name := range []string{"github_ping", "gitea_merged", "gitlab_merge", "gitlab_create"} {
		f.Add(recording(f, name))
	}
	f.Add([]byte(`{"action":"opened","pull_request":{"number":1,"updated_at":"2019-05-15T15:20:33Z","base":{"ref":"\u0000"}},"repository":{"full_name":"a/b"}}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		for provider, events := range pullRequestEvents {
			if name := repositoryOf(provider, payload); len(name) > maxRepository || strings.ContainsRune(name, 0) {
				t.Errorf("repository %q", name)
			}
			e, ignored, err := read(dialect{provider: provider, event: events[0]}, payload)
			if err != nil || ignored != "" {
				continue
			}
			for _, text := range []string{e.action, e.baseRef, e.headSHA, e.url} {
				if strings.ContainsRune(text, 0) {
					t.Errorf("%q has a character that no text in the database may have", text)
				}
			}
			if e.number < 1 || e.at.IsZero() || e.state == "" {
				t.Errorf("%+v", e)
			}
		}
	})
}
