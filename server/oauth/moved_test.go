package oauth_test

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/oauth"
)

// When the MCP server gets another URL, what was allowed before is refused in a way that has clients ask their users
// again: new tokens of the old grant would be refused in turn, and clients would refresh for ever.
func TestGrantsOfAnotherURLAreNotRenewed(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	tokens := w.connect("ada@example.com", client)
	code := w.approve("ada@example.com", query(client))
	moved := w.process(oauth.Config{
		Issuer: issuer, BasePath: "/ai/mcp", TokenLifetime: time.Hour, RefreshLifetime: 168 * time.Hour,
	}, slog.New(slog.DiscardHandler))

	if _, err := moved.Verify(t.Context(), tokens.AccessToken); err == nil {
		t.Error("an access token for another URL is accepted")
	}
	_, err := moved.Token(t.Context(), refreshing(client, tokens.RefreshToken), here)
	wantCode(t, err, "invalid_grant", http.StatusBadRequest)
	_, err = moved.Token(t.Context(), redemption(client, code), here)
	wantCode(t, err, "invalid_grant", http.StatusBadRequest)

	// Nothing was spent or ended by it: back at the old URL all goes on.
	if tokens = w.renew(client, tokens.RefreshToken); !w.alive(tokens) {
		t.Error("tokens that were renewed at their own URL do not work")
	}
	_, err = w.a.Token(t.Context(), redemption(client, code), here)
	check(t, err)
}
