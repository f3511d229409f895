package httpapi_test

import (
	"testing"
	"time"

	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

// used sets back by so much when a refresh token was used; what a test cannot wait for.
func used(t *testing.T, s *servertest.Server, ago string) {
	t.Helper()
	s.Exec(t, s.Control, "update oauth_tokens set rotated_at = rotated_at - $1::interval where rotated_at is not null", ago)
}

func TestOAuthRefresh(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	signUp(t, s, ada)
	a := registerApp(t, s, "My editor")
	t.Run("gives another pair each time", func(t *testing.T) {
		t.Parallel()
		first := connected(t, s, a, ada)
		seen := map[string]bool{first.Access: true, first.Refresh: true}
		last := first
		for range 5 {
			next := issued(t, s.URL, a.renewal(last.Refresh))
			if seen[next.Access] || seen[next.Refresh] {
				t.Fatal("a token came twice")
			}
			seen[next.Access], seen[next.Refresh] = true, true
			diff(t, "scope", first.Scope, next.Scope)
			last = next
		}
		principalOf(t, s, first.Access) // an access token lives out its time
		principalOf(t, s, last.Access)
	})
	t.Run("narrows, for that token only", func(t *testing.T) {
		t.Parallel()
		first := connected(t, s, a, ada, "read:tables", "write:tables", "read:schema")
		narrow := issued(t, s.URL, a.renewal(first.Refresh, "scope", "read:schema read:tables"))
		diff(t, "scope", "read:tables read:schema", narrow.Scope)
		diff(t, "scopes", []string{"read:tables", "read:schema"}, principalOf(t, s, narrow.Access).Scopes)
		refused(t, s.URL, a.renewal(narrow.Refresh, "scope", "read:tables write:storage"), 400, "invalid_scope")
		all := issued(t, s.URL, a.renewal(narrow.Refresh)) // RFC 6749, section 6: the new refresh token has the scope of the old
		diff(t, "scope of the next", "read:tables write:tables read:schema", all.Scope)
	})
	t.Run("twice within a minute is refused and harms nobody", func(t *testing.T) {
		t.Parallel()
		own := registerApp(t, s, "asks twice")
		first := connected(t, s, own, ada)
		second := issued(t, s.URL, own.renewal(first.Refresh))
		refused(t, s.URL, own.renewal(first.Refresh), 400, "invalid_grant")
		refused(t, s.URL, own.renewal(first.Refresh), 400, "invalid_grant")
		principalOf(t, s, second.Access)
		issued(t, s.URL, own.renewal(second.Refresh))
	})
	t.Run("again when the next was used ends everything", func(t *testing.T) {
		t.Parallel()
		first := connected(t, s, a, ada)
		second := issued(t, s.URL, a.renewal(first.Refresh))
		third := issued(t, s.URL, a.renewal(second.Refresh))
		refused(t, s.URL, a.renewal(first.Refresh), 400, "invalid_grant")
		for _, token := range []string{first.Access, second.Access, third.Access} {
			wantDead(t, s, token)
		}
		refused(t, s.URL, a.renewal(third.Refresh), 400, "invalid_grant")
	})
}

// Reuse that is no haste: it ends the grant, and that grant alone.
func TestOAuthRefreshTokenIsReusedLater(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	signUp(t, s, ada)
	a := registerApp(t, s, "My editor")
	other := connected(t, s, a, ada)
	first := connected(t, s, a, ada)
	second := issued(t, s.URL, a.renewal(first.Refresh))
	used(t, s, "61 seconds")
	refused(t, s.URL, a.renewal(first.Refresh), 400, "invalid_grant")
	wantDead(t, s, second.Access)
	refused(t, s.URL, a.renewal(second.Refresh), 400, "invalid_grant")
	principalOf(t, s, other.Access)
	issued(t, s.URL, a.renewal(other.Refresh))

	entry := actions(t, s)
	var reuse int
	for _, e := range entry {
		if e.Action != "refresh_reuse" {
			continue
		}
		reuse++
		if e.Outcome != "denied" || e.UserID == nil || *e.UserID != userID(t, s, ada) || e.ClientID == nil || *e.ClientID != a.id ||
			e.ClientName == nil || *e.ClientName != "My editor" || e.Details["rule"] != "revoked" || e.Details["successor_used"] != false {
			t.Errorf("entry %+v", e)
		}
	}
	diff(t, "entries of reuse", 1, reuse)
}

// An operator may let applications whose windows share a token have a pair each.
func TestOAuthRefreshReuseWindow(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited, func(c *server.Config) { c.MCP.OAuth.RefreshReuseWindow = 30 * time.Second })
	signUp(t, s, ada)
	a := registerApp(t, s, "My editor")
	first := connected(t, s, a, ada)
	one := issued(t, s.URL, a.renewal(first.Refresh))
	two := issued(t, s.URL, a.renewal(first.Refresh))
	for _, got := range []tokens{one, two} {
		principalOf(t, s, got.Access)
		issued(t, s.URL, a.renewal(got.Refresh))
	}
	// Its successors were used: now it is reuse.
	refused(t, s.URL, a.renewal(first.Refresh), 400, "invalid_grant")
	wantDead(t, s, two.Access)

	first = connected(t, s, a, ada)
	one = issued(t, s.URL, a.renewal(first.Refresh))
	used(t, s, "31 seconds")
	refused(t, s.URL, a.renewal(first.Refresh), 400, "invalid_grant") // within the minute
	issued(t, s.URL, a.renewal(one.Refresh))
}
