package repohost

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/fault"
)

// event is what a delivery says of a pull request.
type event struct {
	action   string
	number   int32
	state    db.PullRequestState
	reopened bool
	pushed   bool
	fork     bool
	draft    bool
	url      string
	baseRef  string
	headSHA  string
	at       time.Time // when the repository host changed the pull request
}

// Events and actions that may change a branch. Edits and drafts count, since they may bring a pull request under the
// configuration's conditions.
var (
	pullRequestEvents = map[Provider][]string{
		db.RepohostProviderGithub: {"pull_request"},
		db.RepohostProviderGitea:  {"pull_request", "pull_request_sync"},
		db.RepohostProviderGitlab: {"Merge Request Hook", "System Hook"},
	}
	actions = map[Provider][]string{
		db.RepohostProviderGithub: {"opened", "reopened", "synchronize", "closed", "edited", "ready_for_review", "converted_to_draft"},
		db.RepohostProviderGitea:  {"opened", "reopened", "synchronized", "closed", "edited", "ready_for_review", "converted_to_draft"},
		db.RepohostProviderGitlab: {"open", "reopen", "update", "close", "merge"},
	}
)

// repositoryOf reads the name of the repository, and nothing else, out of a payload that is not verified yet.
func repositoryOf(provider Provider, payload []byte) string {
	var p struct {
		Repository struct {
			FullName string `json:"full_name"`
		} `json:"repository"`
		Project struct {
			Path string `json:"path_with_namespace"`
		} `json:"project"`
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return ""
	}
	name := p.Repository.FullName
	if provider == db.RepohostProviderGitlab {
		name = p.Project.Path
	}
	if len(name) > maxRepository || strings.ContainsRune(name, 0) {
		return ""
	}
	return name
}

// gitHubPayload is a pull request event of GitHub, Gitea or Forgejo.
type gitHubPayload struct {
	Action      string `json:"action"`
	PullRequest *struct {
		Number    int64  `json:"number"`
		State     string `json:"state"`
		Merged    bool   `json:"merged"`
		Draft     bool   `json:"draft"`
		URL       string `json:"html_url"`
		UpdatedAt string `json:"updated_at"`
		Base      struct {
			Ref string `json:"ref"`
		} `json:"base"`
		Head struct {
			SHA  string `json:"sha"`
			Repo *struct {
				FullName string `json:"full_name"`
			} `json:"repo"` // null when the fork was deleted
		} `json:"head"`
	} `json:"pull_request"`
	Repository struct {
		FullName string `json:"full_name"`
	} `json:"repository"`
}

// gitLabPayload is a merge request event of GitLab.
type gitLabPayload struct {
	Kind       string `json:"object_kind"`
	Attributes *struct {
		Number          int64  `json:"iid"`
		State           string `json:"state"`
		Action          string `json:"action"`
		OldRevision     string `json:"oldrev"` // there when commits were pushed
		Draft           bool   `json:"draft"`
		WorkInProgress  bool   `json:"work_in_progress"`
		URL             string `json:"url"`
		UpdatedAt       string `json:"updated_at"`
		TargetBranch    string `json:"target_branch"`
		SourceProjectID int64  `json:"source_project_id"`
		TargetProjectID int64  `json:"target_project_id"`
		LastCommit      struct {
			ID string `json:"id"`
		} `json:"last_commit"`
	} `json:"object_attributes"`
}

// read returns what a verified payload says of a pull request. ignored says why it changes no branch.
func read(d dialect, payload []byte) (e event, ignored string, err error) {
	if !slices.Contains(pullRequestEvents[d.provider], d.event) {
		return e, fmt.Sprintf("the event %q changes no branch", d.event), nil
	}
	if d.provider == db.RepohostProviderGitlab {
		e, ignored, err = readGitLab(payload)
	} else {
		e, ignored, err = readGitHub(payload)
	}
	if err != nil || ignored != "" {
		return e, ignored, err
	}
	e.action = clean(e.action)
	switch {
	case len(e.action) > maxHeader:
		return e, "", fault.Validation("the payload's action is longer than %d bytes", maxHeader)
	case !slices.Contains(actions[d.provider], e.action):
		return e, fmt.Sprintf("the action %q of a pull request changes no branch", e.action), nil
	case e.number < 1:
		return e, "", fault.Validation("the payload's pull request has no number from 1 to %d", int32(maxNumber))
	case e.at.IsZero():
		return e, "", fault.Validation("the payload does not say when the pull request was updated (updated_at)")
	}
	return e, "", nil
}

const maxNumber = 1<<31 - 1

func readGitHub(payload []byte) (e event, ignored string, err error) {
	var p gitHubPayload
	if err := json.Unmarshal(payload, &p); err != nil {
		return e, "", fault.Validation("the payload is not that of a pull request: %s", clean(err.Error()))
	}
	if p.PullRequest == nil {
		return e, "", fault.Validation("the payload has no pull_request")
	}
	pr := p.PullRequest
	e = event{
		action: p.Action, number: number(pr.Number), state: db.PullRequestStateOpen, reopened: p.Action == "reopened",
		pushed: p.Action == "synchronize" || p.Action == "synchronized", draft: pr.Draft, url: webURL(pr.URL),
		baseRef: refName(pr.Base.Ref), headSHA: commit(pr.Head.SHA), at: instant(pr.UpdatedAt),
		fork: pr.Head.Repo == nil || !strings.EqualFold(pr.Head.Repo.FullName, p.Repository.FullName),
	}
	switch {
	case pr.Merged:
		e.state = db.PullRequestStateMerged
	case pr.State == "closed" || p.Action == "closed":
		e.state = db.PullRequestStateClosed
	}
	return e, "", nil
}

func readGitLab(payload []byte) (e event, ignored string, err error) {
	var p gitLabPayload
	if err := json.Unmarshal(payload, &p); err != nil {
		return e, "", fault.Validation("the payload is not that of a merge request: %s", clean(err.Error()))
	}
	if p.Kind != "merge_request" {
		return e, fmt.Sprintf("the event %q changes no branch", clean(p.Kind)), nil
	}
	if p.Attributes == nil {
		return e, "", fault.Validation("the payload has no object_attributes")
	}
	mr := p.Attributes
	e = event{
		action: mr.Action, number: number(mr.Number), reopened: mr.Action == "reopen", pushed: mr.Action == "update" && mr.OldRevision != "",
		draft: mr.Draft || mr.WorkInProgress, url: webURL(mr.URL), baseRef: refName(mr.TargetBranch), headSHA: commit(mr.LastCommit.ID),
		at: instant(mr.UpdatedAt), fork: mr.SourceProjectID == 0 || mr.SourceProjectID != mr.TargetProjectID,
	}
	switch mr.State {
	case "opened":
		e.state = db.PullRequestStateOpen
	case "closed":
		e.state = db.PullRequestStateClosed
	case "merged":
		e.state = db.PullRequestStateMerged
	default: // locked, for the moment of a merge
		return e, fmt.Sprintf("the state %q of a merge request changes no branch", clean(mr.State)), nil
	}
	return e, "", nil
}

// number is a pull request's number, 0 where it cannot be one.
func number(n int64) int32 {
	if n < 1 || n > maxNumber {
		return 0
	}
	return int32(n)
}

// instant reads the ways in which repository hosts write times; the zero time is none.
func instant(s string) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05 MST", "2006-01-02 15:04:05 -0700"} {
		if t, err := time.Parse(layout, s); err == nil && t.Year() > 1 && t.Year() < 9999 {
			return t.UTC().Truncate(time.Microsecond)
		}
	}
	return time.Time{}
}

var commitForm = regexp.MustCompile(`^[0-9a-f]{40,64}$`)

// commit is a commit's hash, "" where it has not the form of one.
func commit(s string) string {
	if !commitForm.MatchString(s) {
		return ""
	}
	return s
}

// refName is the name of a branch of the repository, "" for what is longer than any is.
func refName(s string) string {
	if len(s) > 1000 {
		return ""
	}
	return clean(s)
}

// webURL is a link that may be shown, "" where it is none.
func webURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || len(s) > 2000 || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return clean(s)
}

// outdated says why an event changes nothing of what is known of a pull request, "" when it does. What was merged stays
// merged. Else the later event counts; of two at the same second the one that opened a pull request came before the one
// that closed it, unless it opened it again.
func outdated(known PullRequest, e event) string {
	switch {
	case known.Version == 0:
		return ""
	case known.State == db.PullRequestStateMerged:
		return "the pull request was merged before"
	case e.state == db.PullRequestStateMerged:
		return ""
	case e.at.Before(known.EventAt):
		return "a later event of the pull request came before this one"
	case e.at.Equal(known.EventAt) && known.State == db.PullRequestStateClosed && e.state == db.PullRequestStateOpen && !e.reopened:
		return "the pull request was closed at the same moment"
	}
	return ""
}
