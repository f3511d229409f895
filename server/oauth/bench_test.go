package oauth_test

import (
	"testing"

	"github.com/boughdb/bough/gen/db"
)

// BenchmarkVerify is the price of an access token: looked up (cold) and remembered (warm).
//
// pgbench with the statement of VerifyOAuthToken, and the hash of one token, says what the look-up costs without this
// package: pgbench -n -M prepared -c 1 -f verify.sql.
func BenchmarkVerify(b *testing.B) {
	w := setup(b, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	tokens := w.connect("ada@example.com", w.register())
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			w.a.Notified("")
			if _, err := w.a.Verify(b.Context(), tokens.AccessToken); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("warm", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := w.a.Verify(b.Context(), tokens.AccessToken); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkToken is the price of the next pair of tokens.
//
// pgbench with the same statements says what of it is the database's: begin; LockOAuthRefreshToken, RotateOAuthToken and
// IssueOAuthTokens with random hashes; commit. RotateOAuthToken needs a token that is not rotated: begin with an update
// that takes rotated_at back.
func BenchmarkToken(b *testing.B) {
	w := setup(b, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	tokens := w.connect("ada@example.com", client)
	for b.Loop() {
		var err error
		if tokens, err = w.a.Token(b.Context(), refreshing(client, tokens.RefreshToken), here); err != nil {
			b.Fatal(err)
		}
	}
}
