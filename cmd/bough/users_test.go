package main

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/client"
)

func testUsers() []client.AdminUser {
	return []client.AdminUser{
		{ID: testID(900), Email: "ada@example.com", EmailVerified: true, HasPassword: true, Role: client.UserRoleAuthenticated, CreatedAt: testNow.Add(-48 * time.Hour), UpdatedAt: testNow, LastSignInAt: new(testNow.Add(-time.Hour)), UserMetadata: client.Metadata{}, AppMetadata: client.Metadata{}},
		{ID: testID(901), Email: "the.administrator.of.everything@a-rather-long-name.example.com", EmailVerified: true, Role: client.UserRoleAdmin, CreatedAt: testNow.Add(-50 * time.Hour), UpdatedAt: testNow, UserMetadata: client.Metadata{}, AppMetadata: client.Metadata{}},
		{ID: testID(902), Email: "gone@example.com", Role: client.UserRoleAuthenticated, CreatedAt: testNow.Add(-60 * time.Hour), UpdatedAt: testNow, DisabledAt: &testNow, UserMetadata: client.Metadata{}, AppMetadata: client.Metadata{}},
	}
}

func (s *fakeServer) listUsers(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	list := client.UserList{Users: []client.AdminUser{}}
	for _, u := range testUsers() {
		if email, role := query.Get("email"), query.Get("role"); (email == "" || email == u.Email) && (role == "" || role == string(u.Role)) {
			list.Users = append(list.Users, u)
		}
	}
	list.Total = len(list.Users)
	list.Users = slicePage(list.Users, query)
	reply(w, http.StatusOK, list)
}

func (s *fakeServer) createUser(w http.ResponseWriter, r *http.Request) {
	var request client.CreateUserRequest
	_ = json.NewDecoder(r.Body).Decode(&request)
	reply(w, http.StatusCreated, client.AdminUser{ID: testID(903), Email: request.Email, Role: *request.Role, CreatedAt: testNow, UpdatedAt: testNow})
}

func (s *fakeServer) getUser(w http.ResponseWriter, r *http.Request) {
	for _, u := range testUsers() {
		if u.ID == uuid.MustParse(r.PathValue("id")) {
			reply(w, http.StatusOK, u)
			return
		}
	}
	fail(w, http.StatusNotFound, "not_found", "there is no such user")
}

func (s *fakeServer) patchUser(w http.ResponseWriter, r *http.Request) {
	var request client.UpdateUserRequest
	_ = json.NewDecoder(r.Body).Decode(&request)
	u := testUsers()[0]
	if request.Role != nil {
		u.Role = *request.Role
	}
	reply(w, http.StatusOK, u)
}

func (s *fakeServer) rotateKeys(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, client.SigningKeyList{Keys: []client.SigningKey{
		{Kid: "new-key", CreatedAt: testNow, ActivatesAt: new(testNow.Add(5 * time.Minute))},
		{Kid: "old-key", CreatedAt: testNow.Add(-time.Hour), ActivatesAt: new(testNow.Add(-time.Hour)), RetiredAt: new(testNow.Add(21 * time.Minute))},
		{Kid: "foreign-key", CreatedAt: testNow.Add(-time.Hour)},
	}})
}
