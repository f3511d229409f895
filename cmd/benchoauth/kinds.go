package main

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
)

// kind is something that is measured: over HTTP by the server, and as SQL by pgbench.
type kind struct {
	name    string
	flag    string                             // in names of files
	pgbench func(queries) (string, error)      // the script
	form    func(connection, n int) url.Values // the token request; nil where none is made
}

// The benchmark's client and what it has. Its secrets are hashes of where they belong, so that nobody has to keep them.
const (
	clientID    = "mcp_benchmarkbenchmarkbench"
	redirectURI = "http://localhost/callback"
	verifier    = "the-verifier-of-all-codes-of-the-benchmark-0"
	scope       = "read:tables read:schema"
)

// secret returns the n-th secret of a connection, with the prefix of its kind.
func secret(prefix string, connection, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", prefix, connection, n))
	return prefix + base64.RawURLEncoding.EncodeToString(sum[:])
}

// Prefixes of secrets, which tell of what kind they are.
const (
	accessPrefix  = "mcp_at_"
	refreshPrefix = "mcp_rt_"
	codePrefix    = "mcp_ac_"
)

// Rows of pgbench's side are found by expressions: a hash of what, whose and which, and an id of the same.
func hashOf(what string) string {
	return "sha256(convert_to('" + what + " ' || :client_id::text || ' ' || :n::text, 'UTF8'))"
}

func idOf(what string) string {
	return "md5('" + what + " ' || :client_id::text || ' ' || :n::text)::uuid"
}

// kinds are all of them.
func kinds() []kind {
	return []kind{
		{
			name: "redeem a code", flag: "redeem",
			form: func(connection, n int) url.Values {
				return url.Values{
					"grant_type": {"authorization_code"}, "client_id": {clientID}, "code": {secret(codePrefix, connection, n)}, "redirect_uri": {redirectURI},
					"code_verifier": {verifier},
				}
			},
			pgbench: func(q queries) (string, error) {
				return q.transaction(map[string]string{
					"hash": hashOf("code"), "grant_id": idOf("code"), "access_hash": hashOf("a"), "refresh_hash": hashOf("r"), "generation": "0", "parent": "null::bytea",
				}, "LockOAuthCode", "UseOAuthCode", "IssueOAuthTokens")
			},
		},
		{
			name: "refresh a token", flag: "refresh",
			form: func(connection, n int) url.Values {
				return url.Values{"grant_type": {"refresh_token"}, "client_id": {clientID}, "refresh_token": {secret(refreshPrefix, connection, n)}}
			},
			pgbench: func(q queries) (string, error) {
				return q.transaction(map[string]string{
					"hash": hashOf("refresh"), "grant_id": idOf("refresh"), "access_hash": hashOf("ra"), "refresh_hash": hashOf("rr"), "generation": "1", "parent": hashOf("refresh"),
				}, "LockOAuthRefreshToken", "RotateOAuthToken", "IssueOAuthTokens")
			},
		},
		{
			name: "check a token", flag: "check",
			pgbench: func(q queries) (string, error) {
				text, err := q.script("VerifyOAuthToken", map[string]string{"hash": hashOf("access")})
				return next + text, err
			},
		},
	}
}

// next goes on to the client's next row.
const next = "\\set n :n + 1\n"

// transaction is a script of an exchange: the statements of its transaction, and then the client's use, as the server
// notes it.
func (q queries) transaction(values map[string]string, names ...string) (string, error) {
	// pgbench takes whatever follows a colon for a variable, in a literal, too.
	scopes := "array[E'read\\x3atables', E'read\\x3aschema']"
	values["access_scopes"], values["refresh_scopes"] = scopes, scopes
	values["access_seconds"], values["refresh_seconds"] = "3600", "604800"
	values["id"] = "'" + clientID + "'"
	var b strings.Builder
	b.WriteString(next + "begin;\n")
	for _, name := range names {
		text, err := q.script(name, values)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	text, err := q.script("TouchOAuthClient", values)
	b.WriteString("commit;\n" + text)
	return b.String(), err
}
