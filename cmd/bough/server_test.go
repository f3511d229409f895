package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/client"
)

const testServiceKey = "bough_sk_test"

// fakeServer answers as the contract says, from memory.
type fakeServer struct {
	*httptest.Server
	mu         sync.Mutex
	branches   []client.Branch
	keys       []client.Key
	deliveries map[string]client.Delivery
	// polls is how often a branch is asked for before it becomes ready.
	polls int
	// replace answers instead of the usual handler where it returns true.
	replace  func(w http.ResponseWriter, r *http.Request) bool
	requests []string
	headers  []http.Header
	dsn      string
	body     []byte // of the last request to set a repository
}

func newFakeServer(t *testing.T) *fakeServer {
	t.Helper()
	s := &fakeServer{dsn: "postgresql://bough:s%2Fecret@127.0.0.1:54321/branch_demo?sslmode=disable"}
	s.branches = []client.Branch{
		testBranch(1, "demo", "demo", client.BranchStatusReady, 3*time.Minute),
		testBranch(2, "Größere Änderung am Schema der Bestellungen", "grossere-anderung-am-schema-der-bestellungen-k3v9xq", client.BranchStatusCreating, 30*time.Second),
		testBranch(3, "日本語のブランチ 🚀", "ri-ben-yu-4kq2zd", client.BranchStatusError, 50*time.Hour),
		testBranch(0, "main", "main", client.BranchStatusReady, 400*24*time.Hour),
	}
	s.branches[1].Phase = new("waiting_for_parent")
	s.branches[1].ExpiresAt = nil
	s.branches[2].ErrorMessage = new("seed file 02_orders.sql: relation \"orders\" does not exist, \x1b[31mred\x1b[0m")
	s.branches[2].ParentBranchID = &s.branches[0].ID
	s.branches[3].ExpiresAt, s.branches[3].Type = nil, client.BranchTypePersistent

	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/admin/branches", s.list)
	mux.HandleFunc("POST /api/v1/admin/branches", s.create)
	mux.HandleFunc("GET /api/v1/admin/branches/stats/pools", s.pools)
	mux.HandleFunc("GET /api/v1/admin/branches/{id}", s.get)
	mux.HandleFunc("PATCH /api/v1/admin/branches/{id}", s.patch)
	mux.HandleFunc("DELETE /api/v1/admin/branches/{id}", s.remove)
	mux.HandleFunc("POST /api/v1/admin/branches/{id}/reset", s.reset)
	mux.HandleFunc("GET /api/v1/admin/branches/{id}/activity", s.activity)
	mux.HandleFunc("GET /api/v1/admin/branches/{id}/connection", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, client.BranchConnection{URL: s.dsn})
	})
	mux.HandleFunc("GET /api/v1/admin/branches/{id}/access", s.access)
	mux.HandleFunc("PUT /api/v1/admin/branches/{id}/access/{user}", s.grant)
	mux.HandleFunc("DELETE /api/v1/admin/branches/{id}/access/{user}", noContent)
	mux.HandleFunc("GET /api/v1/admin/keys", s.listKeys)
	mux.HandleFunc("POST /api/v1/admin/keys", s.createKey)
	mux.HandleFunc("DELETE /api/v1/admin/keys/{id}", noContent)
	mux.HandleFunc("GET /api/v1/admin/users", s.listUsers)
	mux.HandleFunc("POST /api/v1/admin/users", s.createUser)
	mux.HandleFunc("GET /api/v1/admin/users/{id}", s.getUser)
	mux.HandleFunc("PATCH /api/v1/admin/users/{id}", s.patchUser)
	mux.HandleFunc("DELETE /api/v1/admin/users/{id}", noContent)
	mux.HandleFunc("POST /api/v1/admin/signing-keys/rotate", s.rotateKeys)
	s.serveWebhooks(mux)
	s.serveRepohost(mux)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
		s.headers = append(s.headers, r.Header)
		switch {
		case s.replace != nil && s.replace(w, r):
		case r.Header.Get("X-Service-Key") != testServiceKey:
			fail(w, http.StatusUnauthorized, "unauthorized", "credentials are missing")
		default:
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// requested returns the requests so far and forgets them.
func (s *fakeServer) requested() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.requests
	s.requests = nil
	return all
}

func testID(n int) uuid.UUID {
	return uuid.MustParse("0191d9a0-5f0e-7c5e-9a52-" + strconv.Itoa(100000000000+n))
}

func testBranch(n int, name, slug string, status client.BranchStatus, age time.Duration) client.Branch {
	created := testNow.Add(-age)
	return client.Branch{
		ID: testID(n), Name: name, Slug: slug, DatabaseName: "branch_" + strconv.Itoa(n), Status: status,
		Type: client.BranchTypePreview, DataCloneMode: client.DataCloneModeSchemaOnly, CreatedBy: testID(900).String(),
		CreatedAt: created, UpdatedAt: created, ExpiresAt: new(testNow.Add(6*24*time.Hour + time.Hour)),
	}
}

func (s *fakeServer) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	list := client.BranchList{Branches: []client.BranchListEntry{}}
	for _, b := range s.branches {
		if status := query.Get("status"); status != "" && status != string(b.Status) {
			continue
		}
		list.Branches = append(list.Branches, client.BranchListEntry{
			ID: b.ID, Name: b.Name, Slug: b.Slug, Status: b.Status, Type: b.Type, CreatedAt: b.CreatedAt,
		})
	}
	list.Total = len(list.Branches)
	list.Branches = slicePage(list.Branches, query)
	reply(w, http.StatusOK, list)
}

func slicePage[T any](all []T, query map[string][]string) []T {
	number := func(name string, otherwise int) int {
		if v := query[name]; len(v) > 0 {
			n, _ := strconv.Atoi(v[0])
			return n
		}
		return otherwise
	}
	limit, offset := min(number("limit", 50), 100), number("offset", 0)
	offset = min(offset, len(all))
	return all[offset:min(offset+limit, len(all))]
}

func (s *fakeServer) find(w http.ResponseWriter, r *http.Request) *client.Branch {
	id := r.PathValue("id")
	for i, b := range s.branches {
		if b.Slug == id || b.ID.String() == id {
			return &s.branches[i]
		}
	}
	fail(w, http.StatusNotFound, "branch_not_found", "there is no branch \""+id+"\"")
	return nil
}

func (s *fakeServer) get(w http.ResponseWriter, r *http.Request) {
	b := s.find(w, r)
	if b == nil {
		return
	}
	if b.Status == client.BranchStatusCreating || b.Status == client.BranchStatusResetting {
		switch s.polls--; {
		case s.polls > 0:
			b.Phase = new("cloning")
		case s.polls == 0:
			if b.Status == client.BranchStatusResetting {
				b.ResetAt = &testNow
			}
			b.Status, b.Phase = client.BranchStatusReady, nil
		}
	}
	reply(w, http.StatusOK, *b)
}

func (s *fakeServer) create(w http.ResponseWriter, r *http.Request) {
	var request client.CreateBranchRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		fail(w, http.StatusBadRequest, "validation_error", err.Error())
		return
	}
	for _, b := range s.branches {
		if b.Name == request.Name {
			fail(w, http.StatusConflict, "branch_exists", "there is already a branch \""+request.Name+"\"")
			return
		}
	}
	b := testBranch(50, request.Name, strings.ToLower(request.Name), client.BranchStatusCreating, 0)
	b.DataCloneMode, b.Type, b.ParentBranchID = *request.DataCloneMode, *request.Type, request.ParentBranchID
	b.Phase = new("queued")
	if request.ExpiresIn == nil {
		b.ExpiresAt = nil
	}
	s.branches = append(s.branches, b)
	reply(w, http.StatusCreated, client.CreatedBranch{
		ID: b.ID, Name: b.Name, Slug: b.Slug, DatabaseName: b.DatabaseName, Status: b.Status, Type: b.Type,
		DataCloneMode: b.DataCloneMode, CreatedAt: b.CreatedAt, ExpiresAt: b.ExpiresAt,
	})
}

func (s *fakeServer) patch(w http.ResponseWriter, r *http.Request) {
	b := s.find(w, r)
	if b == nil {
		return
	}
	var request client.UpdateBranchRequest
	_ = json.NewDecoder(r.Body).Decode(&request)
	if request.Name != nil {
		b.Name = *request.Name
	}
	if request.Type != nil {
		b.Type = *request.Type
	}
	if value(request.ExpiresIn) == "never" {
		b.ExpiresAt = nil
	}
	reply(w, http.StatusOK, *b)
}

func (s *fakeServer) remove(w http.ResponseWriter, r *http.Request) {
	b := s.find(w, r)
	switch {
	case b == nil:
	case b.Slug == "main":
		fail(w, http.StatusForbidden, "cannot_delete_main", "main cannot be deleted")
	case b.ID == testID(1) && r.URL.Query().Get("children") == "":
		fail(w, http.StatusConflict, "has_children", "\"demo\" has a branch of its own")
	default:
		noContent(w, r)
	}
}

func (s *fakeServer) reset(w http.ResponseWriter, r *http.Request) {
	b := s.find(w, r)
	if b == nil {
		return
	}
	status := http.StatusOK
	if s.polls > 0 {
		status, b.Status, b.Phase = http.StatusAccepted, client.BranchStatusResetting, new("cloning")
	}
	reply(w, status, client.ResetBranch{ID: b.ID, Status: b.Status, UpdatedAt: testNow})
}

func (s *fakeServer) activity(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, client.ActivityList{Activity: []client.ActivityEntry{
		{ID: "3", Action: client.BranchActionExpired, Status: client.ActivityEntryStatusSuccess, Details: map[string]any{}, CreatedAt: testNow.Add(-time.Minute)},
		{
			ID: "2", Action: client.BranchActionFailed, Status: client.ActivityEntryStatusFailure, UserID: testID(900).String(),
			Details: map[string]any{"error": "connection\nlost", "attempt": 2}, DurationMs: new(int64(81234)), CreatedAt: testNow.Add(-3 * time.Hour),
		},
		{
			ID: "1", Action: client.BranchActionCreated, Status: client.ActivityEntryStatusSuccess, UserID: testID(900).String(),
			Details: map[string]any{"data_clone_mode": "schema_only"}, DurationMs: new(int64(412)), CreatedAt: testNow.Add(-4 * time.Hour),
		},
	}})
}

func (s *fakeServer) pools(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, client.PoolStatsResponse{Pools: map[string]client.PoolStats{
		"demo": {MaxConns: 5}, "main": {TotalConns: 4, IdleConns: 3, AcquiredConns: 1, MaxConns: 20, Waited: 12}, "alpha": {MaxConns: 5},
	}})
}

func (s *fakeServer) access(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, client.AccessList{Access: []client.AccessGrant{
		{UserID: testID(901), Level: client.AccessLevelWrite, GrantedBy: testID(900).String(), CreatedAt: testNow.Add(-26 * time.Hour)},
	}})
}

func (s *fakeServer) grant(w http.ResponseWriter, r *http.Request) {
	var request client.GrantAccessRequest
	_ = json.NewDecoder(r.Body).Decode(&request)
	reply(w, http.StatusOK, client.AccessGrant{UserID: uuid.MustParse(r.PathValue("user")), Level: request.Level, GrantedBy: "x", CreatedAt: testNow})
}

func (s *fakeServer) listKeys(w http.ResponseWriter, r *http.Request) {
	reply(w, http.StatusOK, client.KeyList{Keys: slicePage(s.keys, r.URL.Query()), Total: len(s.keys)})
}

func (s *fakeServer) createKey(w http.ResponseWriter, r *http.Request) {
	var request client.CreateKeyRequest
	_ = json.NewDecoder(r.Body).Decode(&request)
	reply(w, http.StatusCreated, client.CreatedKey{
		ID: testID(70), Type: request.Type, Name: request.Name, Key: "bough_sk_fresh", Scopes: request.Scopes, UserID: request.UserID, CreatedAt: testNow,
	})
}

func noContent(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func fail(w http.ResponseWriter, status int, code, message string) {
	reply(w, status, client.Error{Error: message, Code: code, RequestID: "6a0b"})
}
