package servertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"sync"
	"testing"
)

// GitHost is a stand-in for the APIs of GitHub, Gitea and GitLab: it takes the requests that these take, in their forms
// alone, and remembers what it was told. A request in another form fails the test.
type GitHost struct {
	URL   string
	Token string

	t        testing.TB
	mu       sync.Mutex
	statuses []string
	comments map[string][]HostComment // by pull request
	next     int64
	failures int
	requests int
	respond  http.HandlerFunc
}

// HostComment is a comment at a pull request.
type HostComment struct {
	ID      int64
	Body    string
	Edits   int
	Foreign bool // somebody else's, which the token may not change
}

// NewGitHost starts a stand-in that lets the token in.
func NewGitHost(t testing.TB, token string) *GitHost {
	t.Helper()
	h := &GitHost{t: t, Token: token, comments: map[string][]HostComment{}, next: 100}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	h.URL = server.URL
	return h
}

// Fail lets the next n requests fail with a status of 502.
func (h *GitHost) Fail(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures = n
}

// Respond answers all requests from now on; nil ends that.
func (h *GitHost) Respond(f http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.respond = f
}

// Statuses returns the commits' statuses in the order in which they were set: commit, state, context, description.
func (h *GitHost) Statuses() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{}, h.statuses...)
}

// Comments returns the comments at a pull request, such as acme/shop#7.
func (h *GitHost) Comments(pull string) []HostComment {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]HostComment{}, h.comments[pull]...)
}

// Requests returns how many requests there were.
func (h *GitHost) Requests() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.requests
}

// Comment adds a comment of somebody else.
func (h *GitHost) Comment(pull, body string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	h.comments[pull] = append(h.comments[pull], HostComment{ID: h.next, Body: body, Foreign: true})
}

// Delete removes all comments at a pull request.
func (h *GitHost) Delete(pull string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.comments[pull] = nil
}

// api is one of the forms that the stand-in knows.
type hostAPI struct {
	name                      string
	token                     func(r *http.Request) string
	status, list, one, update string // patterns of method and escaped path; update is the method
	states                    map[string]bool
}

var hostAPIs = []hostAPI{
	{
		name: "github", update: "PATCH", token: func(r *http.Request) string {
			if r.Header.Get("Accept") != "application/vnd.github+json" || r.Header.Get("X-GitHub-Api-Version") != "2022-11-28" {
				return ""
			}
			return cut(r.Header.Get("Authorization"), "Bearer ")
		},
		status: `^/repos/([^/]+/[^/]+)/statuses/([0-9a-f]{40})$`, list: `^/repos/([^/]+/[^/]+)/issues/(\d+)/comments$`, one: `^/repos/([^/]+/[^/]+)/issues/comments/(\d+)$`,
		states: map[string]bool{"pending": true, "success": true, "failure": true, "error": true},
	},
	{
		name: "gitea", update: "PATCH", token: func(r *http.Request) string { return cut(r.Header.Get("Authorization"), "token ") },
		status: `^/api/v1/repos/([^/]+/[^/]+)/statuses/([0-9a-f]{40})$`, list: `^/api/v1/repos/([^/]+/[^/]+)/issues/(\d+)/comments$`, one: `^/api/v1/repos/([^/]+/[^/]+)/issues/comments/(\d+)$`,
		states: map[string]bool{"pending": true, "success": true, "failure": true, "error": true, "warning": true},
	},
	{
		name: "gitlab", update: "PUT", token: func(r *http.Request) string { return r.Header.Get("PRIVATE-TOKEN") },
		status: `^/api/v4/projects/([^/]+)/statuses/([0-9a-f]{40})$`, list: `^/api/v4/projects/([^/]+)/merge_requests/(\d+)/notes$`, one: `^/api/v4/projects/([^/]+)/merge_requests/\d+/notes/(\d+)$`,
		states: map[string]bool{"pending": true, "running": true, "success": true, "failed": true, "canceled": true},
	},
}

func cut(s, prefix string) string {
	if len(s) < len(prefix) || s[:len(prefix)] != prefix {
		return ""
	}
	return s[len(prefix):]
}

func (h *GitHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests++
	if h.respond != nil {
		h.respond(w, r)
		return
	}
	if h.failures > 0 {
		h.failures--
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	path := r.URL.EscapedPath()
	for _, api := range hostAPIs {
		for pattern, serve := range map[string]func(http.ResponseWriter, *http.Request, hostAPI, []string){api.status: h.setStatus, api.list: h.onComments, api.one: h.onComment} {
			parts := regexp.MustCompile(pattern).FindStringSubmatch(path)
			if parts == nil {
				continue
			}
			if api.token(r) != h.Token {
				// What hosts say may hold anything, the token included.
				write(w, http.StatusUnauthorized, map[string]any{"message": "Bad credentials: " + h.Token})
				return
			}
			if r.Method != http.MethodGet && r.Header.Get("Content-Type") != "application/json" {
				h.t.Errorf("%s %s has the content type %q", r.Method, path, r.Header.Get("Content-Type"))
			}
			serve(w, r, api, parts)
			return
		}
	}
	h.t.Errorf("no API of a repository host has %s %s", r.Method, path)
	w.WriteHeader(http.StatusNotFound)
}

func (h *GitHost) setStatus(w http.ResponseWriter, r *http.Request, api hostAPI, parts []string) {
	var body struct{ State, Context, Name, Description string }
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	err := dec.Decode(&body)
	name := body.Context
	if api.name == "gitlab" {
		name = body.Name
	}
	if err != nil || r.Method != http.MethodPost || !api.states[body.State] || name == "" || len(body.Description) > 140 {
		h.t.Errorf("%s %s: %+v, %v", r.Method, r.URL, body, err)
	}
	h.statuses = append(h.statuses, fmt.Sprintf("%s %s %s: %s", parts[2][:7], body.State, name, body.Description))
	write(w, http.StatusCreated, map[string]any{"id": 1, "state": body.State})
}

func (h *GitHost) onComments(w http.ResponseWriter, r *http.Request, api hostAPI, parts []string) {
	pull := project(api, parts[1]) + "#" + parts[2]
	if r.Method == http.MethodGet {
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
		all := h.comments[pull]
		if api.name != "gitea" { // which has no pages here
			all = all[min((max(page, 1)-1)*size, len(all)):min(max(page, 1)*size, len(all))]
		}
		out := []map[string]any{}
		for _, c := range all {
			out = append(out, map[string]any{"id": c.ID, "body": c.Body, "user": map[string]any{"login": "x"}})
		}
		write(w, http.StatusOK, out)
		return
	}
	body := h.bodyOf(r, http.MethodPost)
	h.next++
	h.comments[pull] = append(h.comments[pull], HostComment{ID: h.next, Body: body})
	write(w, http.StatusCreated, map[string]any{"id": h.next, "body": body})
}

func (h *GitHost) onComment(w http.ResponseWriter, r *http.Request, api hostAPI, parts []string) {
	body := h.bodyOf(r, api.update)
	for _, comments := range h.comments {
		for i, c := range comments {
			if strconv.FormatInt(c.ID, 10) != parts[2] {
				continue
			}
			if c.Foreign {
				write(w, http.StatusForbidden, map[string]any{"message": "Must have admin rights"})
				return
			}
			comments[i].Body = body
			comments[i].Edits++
			write(w, http.StatusOK, map[string]any{"id": c.ID, "body": body})
			return
		}
	}
	write(w, http.StatusNotFound, map[string]any{"message": "Not Found"})
}

func (h *GitHost) bodyOf(r *http.Request, method string) string {
	var body struct{ Body string }
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil || r.Method != method || body.Body == "" {
		h.t.Errorf("%s %s: %+v, %v", r.Method, r.URL, body, err)
	}
	return body.Body
}

// project is the name of the repository, which GitLab has as one escaped part of the path.
func project(api hostAPI, name string) string {
	if api.name == "gitlab" {
		return regexp.MustCompile(`%2F`).ReplaceAllString(name, "/")
	}
	return name
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
