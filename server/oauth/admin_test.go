package oauth_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/oauth"
)

func TestClients(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	one, two := w.register(), w.register()
	tokens := w.connect("ada@example.com", one)
	w.connect("ada@example.com", one)
	w.approve("ada@example.com", query(two)) // the code is not redeemed
	list, total, err := w.b.Clients(t.Context(), admin, 10, 0)
	check(t, err)
	got := map[string]int64{}
	for _, client := range list {
		got[client.ID] = client.Grants
		if client.LastUsedAt == nil {
			t.Errorf("client %s was never used", client.ID)
		}
	}
	if diff := cmp.Diff(map[string]int64{one.ID: 2, two.ID: 0}, got); diff != "" || total != 2 {
		t.Errorf("total %d (-want +got):\n%s", total, diff)
	}
	if list, total, err := w.b.Clients(t.Context(), admin, 1, 1); err != nil || len(list) != 1 || list[0].ID != one.ID || total != 2 {
		t.Errorf("the second page: %v, %d, %v", list, total, err)
	}
	if !w.alive(tokens) {
		t.Fatal("the token is dead")
	}
	check(t, w.a.RevokeClient(t.Context(), admin, one.ID))
	if _, err := w.a.Verify(t.Context(), tokens.AccessToken); err == nil {
		t.Error("the token of a removed client is accepted")
	}
	_, err = w.a.Token(t.Context(), refreshing(one, tokens.RefreshToken), here)
	wantCode(t, err, "invalid_client", 401)
	if err := w.a.RevokeClient(t.Context(), admin, one.ID); !errors.Is(err, oauth.ErrClientNotFound) {
		t.Errorf("removed again: %v", err)
	}
	if actions := w.actions(); actions[len(actions)-1] != "client_revoked" {
		t.Errorf("audit %v", actions)
	}
}

func TestOnlyAdministratorsManageClients(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	client := w.register()
	for name, p := range map[string]*auth.Principal{
		"a user":                         {ID: uuid.New(), Role: "authenticated"},
		"an administrator's client key":  {ID: uuid.New(), KeyID: uuid.New(), Admin: true, Scopes: []string{"read:tables"}},
		"an administrator's application": {ID: uuid.New(), ClientID: client.ID, Admin: true, Scopes: []string{}},
	} {
		if _, _, err := w.a.Clients(t.Context(), p, 10, 0); !errors.Is(err, auth.ErrDenied) {
			t.Errorf("%s lists clients: %v", name, err)
		}
		if err := w.a.RevokeClient(t.Context(), p, client.ID); !errors.Is(err, auth.ErrDenied) {
			t.Errorf("%s removes a client: %v", name, err)
		}
	}
}

func TestConnectedApplications(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	ada, eve := w.user("ada@example.com", db.UserRoleAuthenticated), w.user("eve@example.com", db.UserRoleAuthenticated)
	client := w.register()
	tokens := w.connect(ada.Email, client)
	w.approve(ada.Email, query(client)) // the code is not redeemed
	own := &auth.Principal{ID: ada.ID, Role: "authenticated"}
	grants, err := w.a.Grants(t.Context(), own)
	check(t, err)
	if len(grants) != 1 || grants[0].Client.ID != client.ID || !cmp.Equal(grants[0].Scopes, []string{"read:tables", "write:tables"}) || grants[0].LastUsedAt == nil {
		t.Fatalf("%+v", grants)
	}
	stranger := &auth.Principal{ID: eve.ID, Role: "authenticated"}
	if found, err := w.a.Grants(t.Context(), stranger); err != nil || found == nil || len(found) != 0 {
		t.Errorf("a stranger sees %v, %v", found, err)
	}
	if err := w.a.RevokeGrant(t.Context(), stranger, grants[0].ID); !errors.Is(err, oauth.ErrGrantNotFound) {
		t.Errorf("a stranger disconnects: %v", err)
	}
	for name, p := range map[string]*auth.Principal{
		"her client key":  {ID: ada.ID, KeyID: uuid.New(), Scopes: []string{"read:tables"}},
		"the application": {ID: ada.ID, ClientID: client.ID, Scopes: []string{"read:tables"}},
	} {
		if _, err := w.a.Grants(t.Context(), p); !errors.Is(err, auth.ErrDenied) {
			t.Errorf("%s lists: %v", name, err)
		}
		if err := w.a.RevokeGrant(t.Context(), p, grants[0].ID); !errors.Is(err, auth.ErrDenied) {
			t.Errorf("%s disconnects: %v", name, err)
		}
	}
	if !w.alive(tokens) {
		t.Fatal("the token is dead")
	}
	check(t, w.a.RevokeGrant(t.Context(), own, grants[0].ID))
	if _, err := w.a.Verify(t.Context(), tokens.AccessToken); err == nil {
		t.Error("the access token is accepted by the process that revoked it")
	}
	if err := w.a.RevokeGrant(t.Context(), own, grants[0].ID); !errors.Is(err, oauth.ErrGrantNotFound) {
		t.Errorf("disconnected again: %v", err)
	}
	another := w.connect(ada.Email, client)
	p, err := w.a.Verify(t.Context(), another.AccessToken)
	check(t, err)
	check(t, w.a.RevokeGrant(t.Context(), admin, p.GrantID))
	if found, err := w.a.Grants(t.Context(), own); err != nil || len(found) != 0 {
		t.Errorf("connected is %v, %v", found, err)
	}
}

// What the log keeps outlives whom it tells of.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	user := w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	w.connect(user.Email, client)
	q := db.New(w.pool)
	ip, details := "192.0.2.1", []byte(`{"tool":"list_tables"}`)
	check(t, q.InsertAudit(t.Context(), db.InsertAuditParams{Area: "mcp", Action: "tools/call", Outcome: "ok", UserID: &user.ID, ClientID: &client.ID, IP: &ip, Details: details}))
	check(t, q.InsertAudit(t.Context(), db.InsertAuditParams{Area: "mcp", Action: "tools/list", Outcome: "denied"}))
	check(t, w.users.Delete(t.Context(), admin, user.ID))
	check(t, w.a.RevokeClient(t.Context(), admin, client.ID))
	area, action := "mcp", "grant"
	for name, c := range map[string]struct {
		params db.ListAuditParams
		want   []string
	}{
		"all":          {db.ListAuditParams{}, []string{"client_revoked", "tools/list", "tools/call", "grant", "client_registered"}},
		"of an area":   {db.ListAuditParams{Area: &area}, []string{"tools/list", "tools/call"}},
		"of an action": {db.ListAuditParams{Action: &action}, []string{"grant"}},
		"of a user":    {db.ListAuditParams{UserID: &user.ID}, []string{"tools/call", "grant"}},
		"of a client":  {db.ListAuditParams{ClientID: &client.ID}, []string{"client_revoked", "tools/call", "grant", "client_registered"}},
		"a page":       {db.ListAuditParams{SkipRows: 1, MaxRows: 2}, []string{"tools/list", "tools/call"}},
	} {
		if c.params.MaxRows == 0 {
			c.params.MaxRows = 100
		}
		rows, err := q.ListAudit(t.Context(), c.params)
		check(t, err)
		got := []string{}
		for _, row := range rows {
			got = append(got, row.Action)
			if row.ClientID != nil && (row.ClientName == nil || *row.ClientName != client.Name) {
				t.Errorf("%s: %s names the client %v", name, row.Action, row.ClientName)
			}
			if row.Action == "tools/call" && (*row.IP != ip || string(row.Details) != `{"tool": "list_tables"}`) {
				t.Errorf("%s: %+v", name, row)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	n, err := q.CountAudit(t.Context(), db.CountAuditParams{Area: &area})
	if err != nil || n != 2 {
		t.Errorf("%d rows, %v", n, err)
	}
}

// That a record need not wait for the disk holds for the record alone.
func TestInsertAuditLeavesTheConnectionAsItWas(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	conn, err := w.pool.Acquire(t.Context())
	check(t, err)
	defer conn.Release()
	_, err = conn.Exec(t.Context(), "set synchronous_commit = 'on'")
	check(t, err)
	check(t, db.New(conn).InsertAudit(t.Context(), db.InsertAuditParams{Area: "mcp", Action: "tools/list", Outcome: "ok"}))
	var level string
	check(t, conn.QueryRow(t.Context(), "show synchronous_commit").Scan(&level))
	if level != "on" {
		t.Errorf("the connection is left with synchronous_commit = %s", level)
	}
}
