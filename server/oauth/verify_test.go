package oauth_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/oauth"
	"github.com/boughdb/bough/server/users"
)

func TestVerify(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	user := w.user("ada@example.com", db.UserRoleAuthenticated)
	_, err := w.users.Update(t.Context(), admin, user.ID, users.Change{AppMetadata: map[string]any{"team": "red"}})
	check(t, err)
	client := w.register()
	tokens := w.connect(user.Email, client)
	p, err := w.a.Verify(t.Context(), tokens.AccessToken)
	check(t, err)
	want := &auth.Principal{
		ID: user.ID, Role: "authenticated", Scopes: []string{"read:tables", "write:tables"}, ClientID: client.ID,
		Claims: map[string]any{
			"iss": issuer, "aud": issuer + "/mcp", "sub": user.ID.String(), "role": "authenticated", "email": user.Email, "email_verified": true,
			"scope": "read:tables write:tables", "client_id": client.ID,
			"app_metadata": map[string]any{"team": "red"}, "user_metadata": map[string]any{},
		},
	}
	if diff := cmp.Diff(want, p, cmpopts.IgnoreFields(auth.Principal{}, "GrantID", "ClaimsJSON")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var claims map[string]any
	check(t, json.Unmarshal([]byte(p.ClaimsJSON), &claims))
	if diff := cmp.Diff(p.Claims, claims); diff != "" || p.GrantID == uuid.Nil {
		t.Errorf("as JSON (-want +got):\n%s", diff)
	}
	check(t, p.Require("read:tables"))
	if err := p.Require("read:schema"); err == nil || err.Error() != "the access token lacks the scope read:schema" {
		t.Errorf("without the scope: %v", err)
	}
	if p.Unbound() {
		t.Error("the caller is not narrowed")
	}
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	tokens := w.connect("ada@example.com", client)
	for _, token := range []string{
		"", "x", "mcp_at_", tokens.RefreshToken, tokens.AccessToken + "A", tokens.AccessToken[:49], "MCP_AT_" + tokens.AccessToken[7:],
		"mcp_at_" + oauth.NewBrowser(), "mcp_at_" + tokens.RefreshToken[7:], " " + tokens.AccessToken, tokens.AccessToken + "\x00",
	} {
		if _, err := w.a.Verify(t.Context(), token); !errors.Is(err, auth.ErrInvalidCredentials) {
			t.Errorf("%q: %v", token, err)
		}
	}
	for name, sql := range map[string]string{
		"expired":               "update oauth_tokens set expires_at = now() - interval '1 second' where kind = 'access'",
		"for another resource":  "update oauth_grants set resource = 'https://other.example.com/mcp'",
		"of a revoked grant":    "update oauth_grants set revoked_at = now()",
		"of a disabled account": "update users set disabled_at = now() where email = 'ada@example.com'",
	} {
		other := w.connect("ada@example.com", client)
		w.exec(sql)
		if _, err := w.a.Verify(t.Context(), other.AccessToken); !errors.Is(err, auth.ErrInvalidCredentials) {
			t.Errorf("%s: %v", name, err)
		}
		w.exec("update users set disabled_at = null")
	}
}

// What a process remembers of a token ends with the token, also when no notification tells of it.
func TestVerifyRemembersNoLongerThanTheTokenLives(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	tokens := w.connect("ada@example.com", w.register())
	w.exec("update oauth_tokens set expires_at = now() + interval '1 second' where kind = 'access'")
	if !w.alive(tokens) {
		t.Fatal("the token is dead")
	}
	w.eventually("the token has expired", func() bool { _, err := w.a.Verify(t.Context(), tokens.AccessToken); return err != nil })
}

// A process that remembers a token forgets it at once when another changes what it stands for.
func TestVerifyHearsOfChanges(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world, user users.User, client oauth.Client, grant uuid.UUID){
		"the grant is revoked": func(w *world, user users.User, _ oauth.Client, grant uuid.UUID) {
			check(w.t, w.a.RevokeGrant(w.t.Context(), &auth.Principal{ID: user.ID}, grant))
		},
		"the client is removed": func(w *world, _ users.User, client oauth.Client, _ uuid.UUID) {
			check(w.t, w.a.RevokeClient(w.t.Context(), admin, client.ID))
		},
		"the user is disabled": func(w *world, user users.User, _ oauth.Client, _ uuid.UUID) {
			disabled := true
			_, err := w.users.Update(w.t.Context(), admin, user.ID, users.Change{Disabled: &disabled})
			check(w.t, err)
		},
		"the user is deleted": func(w *world, user users.User, _ oauth.Client, _ uuid.UUID) {
			check(w.t, w.users.Delete(w.t.Context(), admin, user.ID))
		},
		"the row is deleted": func(w *world, _ users.User, _ oauth.Client, grant uuid.UUID) {
			w.exec("delete from oauth_grants where id = $1", grant)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, nil)
			user := w.user("ada@example.com", db.UserRoleAuthenticated)
			client := w.register()
			tokens := w.connect(user.Email, client)
			other := w.user("eve@example.com", db.UserRoleAuthenticated)
			bystander := w.connect(other.Email, w.register())
			if !w.alive(tokens) || !w.alive(bystander) {
				t.Fatal("the tokens are dead")
			}
			p, err := w.b.Verify(t.Context(), tokens.AccessToken)
			check(t, err)
			change(w, user, client, p.GrantID)
			w.eventually("the process that was not asked refuses the token", func() bool {
				_, err := w.b.Verify(t.Context(), tokens.AccessToken)
				return err != nil
			})
			if !w.alive(bystander) {
				t.Error("somebody else's token ended, too")
			}
		})
	}
}

// The process that ends a token refuses it at once, whether it is notified or not.
func TestVerifyRefusesAtOnceWhatThisProcessEnded(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	user := w.user("ada@example.com", db.UserRoleAuthenticated)
	deaf, err := oauth.New(w.pool, w.users, oauth.Config{Issuer: issuer, BasePath: "/mcp", TokenLifetime: time.Hour, RefreshLifetime: time.Hour}, slog.New(slog.DiscardHandler))
	check(t, err)
	for name, end := range map[string]func(client oauth.Client, code string, tokens *oauth.TokenResponse, grant uuid.UUID) error{
		"access token revoked": func(client oauth.Client, _ string, tokens *oauth.TokenResponse, _ uuid.UUID) error {
			return deaf.Revoke(t.Context(), tokens.AccessToken, "", client.ID, here)
		},
		"refresh token revoked": func(client oauth.Client, _ string, tokens *oauth.TokenResponse, _ uuid.UUID) error {
			return deaf.Revoke(t.Context(), tokens.RefreshToken, "", client.ID, here)
		},
		"grant revoked": func(_ oauth.Client, _ string, _ *oauth.TokenResponse, grant uuid.UUID) error {
			return deaf.RevokeGrant(t.Context(), &auth.Principal{ID: user.ID}, grant)
		},
		"client removed": func(client oauth.Client, _ string, _ *oauth.TokenResponse, _ uuid.UUID) error {
			return deaf.RevokeClient(t.Context(), admin, client.ID)
		},
		"code used again": func(client oauth.Client, code string, _ *oauth.TokenResponse, _ uuid.UUID) error {
			_, err := deaf.Token(t.Context(), redemption(client, code), here)
			wantCode(t, err, "invalid_grant", 400)
			return nil
		},
		"refresh token used again": func(client oauth.Client, _ string, tokens *oauth.TokenResponse, _ uuid.UUID) error {
			w.renew(client, w.renew(client, tokens.RefreshToken).RefreshToken)
			_, err := deaf.Token(t.Context(), refreshing(client, tokens.RefreshToken), here)
			wantCode(t, err, "invalid_grant", 400)
			return nil
		},
	} {
		client := w.register()
		code := w.approve(user.Email, query(client))
		tokens, err := w.a.Token(t.Context(), redemption(client, code), here)
		check(t, err)
		p, err := deaf.Verify(t.Context(), tokens.AccessToken)
		check(t, err)
		check(t, end(client, code, tokens, p.GrantID))
		if _, err := deaf.Verify(t.Context(), tokens.AccessToken); !errors.Is(err, auth.ErrInvalidCredentials) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// It remembers at all: what it is not told of, it does not see.
	tokens := w.connect(user.Email, w.register())
	_, err = deaf.Verify(t.Context(), tokens.AccessToken)
	check(t, err)
	w.exec("delete from oauth_grants")
	_, err = deaf.Verify(t.Context(), tokens.AccessToken)
	check(t, err)
}

func TestVerifyHearsOfAnotherAddress(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	user := w.user("ada@example.com", db.UserRoleAuthenticated)
	tokens := w.connect(user.Email, w.register())
	if !w.alive(tokens) {
		t.Fatal("the token is dead")
	}
	email := "lovelace@example.com"
	_, err := w.users.Update(t.Context(), admin, user.ID, users.Change{Email: &email})
	check(t, err)
	w.eventually("policies see the new address", func() bool {
		p, err := w.b.Verify(t.Context(), tokens.AccessToken)
		check(t, err)
		return p.Claims["email"] == email
	})
}

func TestNotifiedTakesAnything(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	tokens := w.connect("ada@example.com", w.register())
	for _, payload := range []string{"", "x", uuid.NewString(), "{" + uuid.NewString() + "}", string(slices.Repeat([]byte("z"), 64)), string(slices.Repeat([]byte("0"), 64))} {
		w.a.Notified(payload)
	}
	if !w.alive(tokens) {
		t.Error("a token was lost")
	}
}
