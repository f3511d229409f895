package repohost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/safedial"
)

const (
	requestTimeout = 8 * time.Second
	maxAnswer      = 16 << 20
	pageSize       = 100
	maxPages       = 20
)

// Where reports go when a configuration names the provider and no address.
var defaultAPI = map[Provider]string{
	db.RepohostProviderGithub: "https://api.github.com",
	db.RepohostProviderGitlab: "https://gitlab.com/api/v4",
}

// apiBase is where a configuration reports to, "" for nowhere.
func apiBase(cfg Config) string {
	switch {
	case cfg.APIURL != nil:
		return *cfg.APIURL
	case cfg.Provider != nil:
		return defaultAPI[*cfg.Provider]
	}
	return ""
}

// newWebClient returns the client for reports. A redirect could take the token elsewhere, or turn a POST into a GET: it
// is followed only within the same host, and only when the request stays what it was.
func newWebClient(targets safedial.Options) *http.Client {
	targets.Timeout, targets.MaxBody = requestTimeout, maxAnswer
	web := safedial.Client(targets)
	web.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		first := via[0]
		if len(via) > 3 || req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host || req.Method != first.Method {
			return http.ErrUseLastResponse
		}
		return nil
	}
	return web
}

// host speaks to a repository host about one pull request.
type host struct {
	provider   Provider
	base       string
	repository string
	number     int32
	token      string
	web        *http.Client
}

func newHost(cfg Config, pr PullRequest, token string, web *http.Client) *host {
	provider := pr.Provider
	if cfg.Provider != nil {
		provider = *cfg.Provider
	}
	return &host{provider: provider, base: apiBase(cfg), repository: cfg.Repository, number: pr.Number, token: token, web: web}
}

// gitLabState are GitLab's words for marks.
var gitLabState = map[mark]string{markPending: "pending", markSuccess: "success", markFailure: "failed"}

// setStatus marks a commit. The description has at most 140 characters, GitHub's limit.
func (h *host) setStatus(ctx context.Context, sha, name string, m mark, description string) error {
	if h.provider == db.RepohostProviderGitlab {
		err := h.call(ctx, http.MethodPost, h.project()+"/statuses/"+sha, map[string]any{"state": gitLabState[m], "name": name, "description": description}, nil)
		var refusal *refusal
		if errors.As(err, &refusal) && refusal.status == http.StatusBadRequest && strings.Contains(refusal.message, "Cannot transition status") {
			return nil // it has this status
		}
		return err
	}
	return h.call(ctx, http.MethodPost, h.repo()+"/statuses/"+sha, map[string]any{"state": m, "context": name, "description": description}, nil)
}

type comment struct {
	ID   int64  `json:"id"`
	Body string `json:"body"`
}

// findComment returns the comment that begins with the marker, nil where there is none.
func (h *host) findComment(ctx context.Context, marker string) (*int64, error) {
	var before int64
	for page := 1; page <= maxPages; page++ {
		var comments []comment
		query := url.Values{"per_page": {strconv.Itoa(pageSize)}, "page": {strconv.Itoa(page)}}
		if h.provider == db.RepohostProviderGitlab {
			query.Set("sort", "asc")
		}
		if err := h.call(ctx, http.MethodGet, h.comments()+"?"+query.Encode(), nil, &comments); err != nil {
			return nil, err
		}
		for _, c := range comments {
			if strings.HasPrefix(c.Body, marker) {
				return &c.ID, nil
			}
		}
		// Gitea has no pages here, and answers with all comments again.
		if len(comments) < pageSize || comments[0].ID == before {
			return nil, nil
		}
		before = comments[0].ID
	}
	return nil, nil
}

func (h *host) createComment(ctx context.Context, body string) (int64, error) {
	var made comment
	if err := h.call(ctx, http.MethodPost, h.comments(), map[string]any{"body": body}, &made); err != nil {
		return 0, err
	}
	if made.ID == 0 {
		return 0, errors.New("the repository host did not say which comment it made")
	}
	return made.ID, nil
}

func (h *host) updateComment(ctx context.Context, id int64, body string) error {
	if h.provider == db.RepohostProviderGitlab {
		return h.call(ctx, http.MethodPut, h.comments()+"/"+strconv.FormatInt(id, 10), map[string]any{"body": body}, nil)
	}
	return h.call(ctx, http.MethodPatch, h.repo()+"/issues/comments/"+strconv.FormatInt(id, 10), map[string]any{"body": body}, nil)
}

// Paths of the APIs. The name of the repository was checked when it was set.
func (h *host) repo() string    { return "/repos/" + h.repository }
func (h *host) project() string { return "/projects/" + url.PathEscape(h.repository) }

func (h *host) comments() string {
	if h.provider == db.RepohostProviderGitlab {
		return fmt.Sprintf("%s/merge_requests/%d/notes", h.project(), h.number)
	}
	return fmt.Sprintf("%s/issues/%d/comments", h.repo(), h.number)
}

// refusal is an answer of a repository host that is no success.
type refusal struct {
	method, path, message string
	status                int
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("%s %s was answered with %d %s", r.method, r.path, r.status, http.StatusText(r.status))
	if r.message != "" {
		text += ": " + r.message
	}
	return text
}

// refused reports whether the repository host says that there is no such thing, or that it is not ours.
func refused(err error) bool {
	var r *refusal
	return errors.As(err, &r) && (r.status == http.StatusNotFound || r.status == http.StatusForbidden || r.status == http.StatusGone)
}

// call sends a request and reads the answer into out, where that is not nil. The token is in no error.
func (h *host) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, h.base+path, body)
	if err != nil {
		return errors.New("the address of the API cannot be used")
	}
	req.Header.Set("User-Agent", "bough")
	req.Header.Set("Accept", "application/json")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	switch h.provider {
	case db.RepohostProviderGithub:
		req.Header.Set("Accept", "application/vnd.github+json")
		req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
		req.Header.Set("Authorization", "Bearer "+h.token)
	case db.RepohostProviderGitea:
		req.Header.Set("Authorization", "token "+h.token)
	case db.RepohostProviderGitlab:
		req.Header.Set("PRIVATE-TOKEN", h.token)
	}
	resp, err := h.web.Do(req)
	if err != nil {
		var urlErr *url.Error
		if errors.As(err, &urlErr) {
			err = urlErr.Err // without the address, which is told by its path
		}
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return fmt.Errorf("reading the answer to %s %s: %w", method, path, err)
	case resp.StatusCode/100 != 2:
		return &refusal{method, path, h.messageOf(resp, data), resp.StatusCode}
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("the answer to %s %s is not what the API gives; is api_url right?", method, path)
	}
	return nil
}

// messageOf is what a repository host says of a refusal, shortened, and without the token should it repeat that.
func (h *host) messageOf(resp *http.Response, data []byte) string {
	if resp.StatusCode/100 == 3 {
		return "a redirect, which is not followed to another host; api_url must be where the API is"
	}
	var body struct {
		Message any `json:"message"` // a text, or an object of them at GitLab
		Error   any `json:"error"`
	}
	if json.Unmarshal(data, &body) != nil {
		return ""
	}
	said := body.Message
	if said == nil {
		said = body.Error
	}
	if said == nil {
		return ""
	}
	text := strings.ReplaceAll(clean(fmt.Sprint(said)), h.token, "…")
	if runes := []rune(text); len(runes) > 200 {
		text = string(runes[:200]) + "…"
	}
	return text
}
