package oauth_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/oauth"
)

func TestRevokeAnAccessToken(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	first := w.connect("ada@example.com", client)
	second := w.renew(client, first.RefreshToken)
	if !w.alive(first) || !w.alive(second) {
		t.Fatal("the tokens are dead")
	}
	check(t, w.a.Revoke(t.Context(), first.AccessToken, "refresh_token", client.ID, here)) // the hint is wrong
	if _, err := w.a.Verify(t.Context(), first.AccessToken); err == nil {
		t.Error("the process that revoked it still accepts the token")
	}
	w.eventually("the other process refuses the token", func() bool { _, err := w.b.Verify(t.Context(), first.AccessToken); return err != nil })
	if !w.alive(second) {
		t.Error("another access token ended, too")
	}
	w.renew(client, second.RefreshToken)
	check(t, w.a.Revoke(t.Context(), first.AccessToken, "", client.ID, here)) // again
	if diff := cmp.Diff([]string{"client_registered", "grant", "revoke"}, w.actions()); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
}

func TestRevokeARefreshToken(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	for name, c := range map[string]struct {
		client string
		old    bool
	}{"the newest": {client.ID, false}, "one that was used": {client.ID, true}, "without saying who": {"", false}} {
		first := w.connect("ada@example.com", client)
		second := w.renew(client, first.RefreshToken)
		bystander := w.connect("ada@example.com", client)
		if !w.alive(first) || !w.alive(second) || !w.alive(bystander) {
			t.Fatalf("%s: the tokens are dead", name)
		}
		token := second.RefreshToken
		if c.old {
			token = first.RefreshToken
		}
		check(t, w.a.Revoke(t.Context(), token, "", c.client, here))
		if _, err := w.a.Verify(t.Context(), second.AccessToken); err == nil {
			t.Errorf("%s: the process that revoked it still accepts an access token", name)
		}
		w.eventually("the other process refuses the access tokens", func() bool {
			_, errFirst := w.b.Verify(t.Context(), first.AccessToken)
			_, errSecond := w.b.Verify(t.Context(), second.AccessToken)
			return errFirst != nil && errSecond != nil
		})
		_, err := w.b.Token(t.Context(), refreshing(client, second.RefreshToken), here)
		wantCode(t, err, "invalid_grant", 400)
		if !w.alive(bystander) {
			t.Errorf("%s: another grant of the same client ended", name)
		}
	}
}

func TestRevokeLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client, other := w.register(), w.register()
	tokens := w.connect("ada@example.com", client)
	for _, token := range []string{tokens.AccessToken, tokens.RefreshToken, "mcp_at_" + oauth.NewBrowser(), "x", "\x00", "mcp_ac_x"} {
		check(t, w.a.Revoke(t.Context(), token, "", other.ID, here))
	}
	if !w.alive(tokens) {
		t.Error("another client revoked the token")
	}
	w.renew(client, tokens.RefreshToken)
	wantCode(t, w.a.Revoke(t.Context(), "", "", client.ID, here), "invalid_request", 400)
	wantCode(t, w.a.Revoke(t.Context(), tokens.AccessToken, "", "mcp_unknownunknownunknown", here), "invalid_client", 401)
}
