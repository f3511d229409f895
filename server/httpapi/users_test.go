package httpapi_test

import (
	"encoding/base64"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/servertest"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func jwkDecode(part string) ([]byte, error) { return base64.RawURLEncoding.DecodeString(part) }

func createUser(t *testing.T, c *client.ClientWithResponses, body client.CreateUserRequest) *client.AdminUser {
	t.Helper()
	return must[*client.CreateUserResponse](t, 201)(c.CreateUserWithResponse(t.Context(), body)).JSON201
}

func TestAdministratorsManageUsers(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	service := s.Service(t)
	admin, password := client.UserRoleAdmin, "staple battery horse"
	root := createUser(t, service, client.CreateUserRequest{Email: "root@example.com", Password: &password, Role: &admin, AppMetadata: &client.Metadata{"team": "a"}})
	diff(t, "made by an administrator", []any{true, true, admin, (*string)(nil)}, []any{root.EmailVerified, root.HasPassword, root.Role, root.NewEmail})
	c := bearer(t, s, signIn(t, s, "root@example.com", password))
	must[*client.CreateUserResponse](t, 409)(c.CreateUserWithResponse(t.Context(), client.CreateUserRequest{Email: "ROOT@example.com"}))
	user := createUser(t, c, client.CreateUserRequest{Email: ada})
	diff(t, "without a password", false, user.HasPassword)

	list := must[*client.ListUsersResponse](t, 200)(c.ListUsersWithResponse(t.Context(), nil)).JSON200
	diff(t, "users", []any{2, ada}, []any{list.Total, list.Users[0].Email})
	email := "Root@example.com"
	list = must[*client.ListUsersResponse](t, 200)(c.ListUsersWithResponse(t.Context(), &client.ListUsersParams{Email: &email})).JSON200
	diff(t, "by address", []any{1, root.ID}, []any{list.Total, list.Users[0].ID})
	list = must[*client.ListUsersResponse](t, 200)(c.ListUsersWithResponse(t.Context(), &client.ListUsersParams{Role: &admin})).JSON200
	diff(t, "by role", 1, list.Total)
	must[*client.GetUserResponse](t, 404)(c.GetUserWithResponse(t.Context(), uuid.New()))
	diff(t, "one", ada, must[*client.GetUserResponse](t, 200)(c.GetUserWithResponse(t.Context(), user.ID)).JSON200.Email)

	update := func(want int, id uuid.UUID, body client.UpdateUserRequest) *client.UpdateUserResponse {
		t.Helper()
		return must[*client.UpdateUserResponse](t, want)(c.UpdateUserWithResponse(t.Context(), id, body))
	}
	p := pass
	update(200, user.ID, client.UpdateUserRequest{Password: &p, AppMetadata: &client.Metadata{"plan": "gold"}, UserMetadata: &client.Metadata{"x": 1.0}})
	update(404, uuid.New(), client.UpdateUserRequest{Role: &admin})
	update(409, user.ID, client.UpdateUserRequest{Email: &email})
	weak := "12345678"
	diff(t, "weak password", "weak_password", update(400, user.ID, client.UpdateUserRequest{Password: &weak}).JSON400.Code)

	// Another address: whoever had the old one is out.
	moved, back := "moved@example.com", ada
	before := signIn(t, s, ada, pass)
	update(200, user.ID, client.UpdateUserRequest{Email: &moved})
	diff(t, "a session after another address", 401, status(t, bearer(t, s, before)))
	update(200, user.ID, client.UpdateUserRequest{Email: &back})

	// Disabled: nothing works any more, at once; enabled again, a new sign-in does.
	session := signIn(t, s, ada, pass)
	key := must[*client.CreateKeyResponse](t, 201)(bearer(t, s, session).CreateKeyWithResponse(t.Context(),
		client.CreateKeyRequest{Type: client.KeyTypeClient, Name: "k", Scopes: scopes(client.ScopeReadBranches)})).JSON201.Key
	byKey := s.Client(t, client.WithClientKey(key))
	must[*client.ListBranchesResponse](t, 200)(byKey.ListBranchesWithResponse(t.Context(), nil))
	yes, no := true, false
	if update(200, user.ID, client.UpdateUserRequest{Disabled: &yes}).JSON200.DisabledAt == nil {
		t.Error("disabled_at is null")
	}
	diff(t, "access token of a disabled user", 401, status(t, bearer(t, s, session)))
	diff(t, "token without a session", 401, status(t, s.User(t, user.ID)))
	diff(t, "refresh of a disabled user", 401, refresh(t, s, session.RefreshToken).StatusCode())
	refused := must[*client.SignInResponse](t, 403)(s.Client(t).SignInWithResponse(t.Context(), client.SignInRequest{Email: ada, Password: pass}))
	diff(t, "sign-in of a disabled user", "user_banned", refused.JSON403.Code)
	must[*client.SignInResponse](t, 401)(s.Client(t).SignInWithResponse(t.Context(), client.SignInRequest{Email: ada, Password: "wrong horse battery"}))
	eventually(t, "the refusal of her key", func() bool {
		r, err := byKey.ListBranchesWithResponse(t.Context(), nil)
		return err == nil && r.StatusCode() == 401
	})
	update(200, user.ID, client.UpdateUserRequest{Disabled: &no})
	diff(t, "the session of before", 401, status(t, bearer(t, s, session)))
	session = signIn(t, s, ada, pass)
	diff(t, "a new session", 200, status(t, bearer(t, s, session)))
	eventually(t, "her key", func() bool {
		r, err := byKey.ListBranchesWithResponse(t.Context(), nil)
		return err == nil && r.StatusCode() == 200
	})

	must[*client.DeleteUserResponse](t, 204)(c.DeleteUserWithResponse(t.Context(), user.ID))
	must[*client.DeleteUserResponse](t, 404)(c.DeleteUserWithResponse(t.Context(), user.ID))
	diff(t, "token of a deleted user", 401, status(t, bearer(t, s, session)))
	diff(t, "refresh of a deleted user", "refresh_token_not_found", refresh(t, s, session.RefreshToken).JSON401.Code)
	eventually(t, "the end of her key", func() bool {
		r, err := byKey.ListBranchesWithResponse(t.Context(), nil)
		return err == nil && r.StatusCode() == 401
	})
	signUp(t, s, ada) // the address is free again
}

func TestAdministratorsKeysActAsAdministrators(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	service := s.Service(t)
	session := signUp(t, s, ada)
	key := must[*client.CreateKeyResponse](t, 201)(bearer(t, s, session).CreateKeyWithResponse(t.Context(),
		client.CreateKeyRequest{Type: client.KeyTypeClient, Name: "k", Scopes: scopes(client.ScopeReadBranches, client.ScopeWriteBranches)})).JSON201
	c := s.Client(t, client.WithClientKey(key.Key))
	getMain := func() int {
		r, err := c.GetBranchWithResponse(t.Context(), "main")
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode()
	}
	if got := getMain(); got == 200 {
		t.Fatal("a user's key reads main without a grant")
	}
	admin, plain := client.UserRoleAdmin, client.UserRoleAuthenticated
	must[*client.UpdateUserResponse](t, 200)(service.UpdateUserWithResponse(t.Context(), session.User.ID, client.UpdateUserRequest{Role: &admin}))
	eventually(t, "the administrator's key", func() bool { return getMain() == 200 })
	diff(t, "the session of before the new role", 401, status(t, bearer(t, s, session)))
	if now := signIn(t, s, ada, pass); now.User.Role != admin {
		t.Errorf("role %s", now.User.Role)
	} else {
		must[*client.ListUsersResponse](t, 200)(bearer(t, s, now).ListUsersWithResponse(t.Context(), nil))
	}
	// Its scopes still bind it: no users, no keys but itself.
	must[*client.ListUsersResponse](t, 401)(c.ListUsersWithResponse(t.Context(), nil))
	diff(t, "keys that it sees", 1, must[*client.ListKeysResponse](t, 200)(c.ListKeysWithResponse(t.Context(), nil)).JSON200.Total)
	must[*client.CreateKeyResponse](t, 403)(c.CreateKeyWithResponse(t.Context(), client.CreateKeyRequest{Type: client.KeyTypeService, Name: "s"}))
	service2 := must[*client.CreateKeyResponse](t, 201)(service.CreateKeyWithResponse(t.Context(), client.CreateKeyRequest{Type: client.KeyTypeService, Name: "s"})).JSON201
	must[*client.RevokeKeyResponse](t, 403)(c.RevokeKeyWithResponse(t.Context(), service2.ID))
	must[*client.UpdateUserResponse](t, 200)(service.UpdateUserWithResponse(t.Context(), session.User.ID, client.UpdateUserRequest{Role: &plain}))
	eventually(t, "the end of her rights", func() bool { return getMain() != 200 })
}

func TestEnumsOfUsersAgree(t *testing.T) {
	t.Parallel()
	var want, got []string
	for _, r := range db.AllUserRoleValues() {
		want = append(want, string(r))
		if !client.UserRole(r).Valid() {
			t.Errorf("%s is no role of the contract", r)
		}
	}
	for _, m := range db.AllSignInMethodValues() {
		if !client.SessionEntryMethod(m).Valid() {
			t.Errorf("%s is no method of the contract", m)
		}
	}
	got = []string{string(client.UserRoleAuthenticated), string(client.UserRoleAdmin)}
	diff(t, "roles", strings.Join(want, " "), strings.Join(got, " "))
}

func TestConcurrentSignUpsMakeOneUser(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	codes := make(chan int, 10)
	for range 10 {
		go func() {
			r, err := s.Client(t).SignUpWithResponse(t.Context(), client.SignUpRequest{Email: ada, Password: pass})
			if err != nil {
				codes <- 0
				return
			}
			codes <- r.StatusCode()
		}()
	}
	count := map[int]int{}
	for range 10 {
		count[<-codes]++
	}
	diff(t, "answers", map[int]int{201: 1, 409: 9}, count)
}
