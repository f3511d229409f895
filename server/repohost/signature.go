package repohost

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/boughdb/bough/gen/db"
)

// signingTokenPrefix begins a secret that is base64 of a key (Standard Webhooks).
const signingTokenPrefix = "whsec_"

// maxAge is how far the time of a signature that has one may be from now.
const maxAge = 5 * time.Minute

// stranger is the secret of repositories that there are not: their deliveries take the time of the others.
var stranger = func() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return string(b)
}()

// signatureHeaders are all headers that say who sends. A delivery has only ones of its own dialect, each once.
var signatureHeaders = []struct {
	name     string
	provider []Provider
	prefix   string // before the hexadecimal digits
}{
	{"X-Hub-Signature-256", []Provider{db.RepohostProviderGithub, db.RepohostProviderGitea}, "sha256="},
	{"X-Forgejo-Signature", []Provider{db.RepohostProviderGitea}, ""},
	{"X-Gitea-Signature", []Provider{db.RepohostProviderGitea}, ""},
	{"X-Gogs-Signature", []Provider{db.RepohostProviderGitea}, ""},
	{"webhook-signature", []Provider{db.RepohostProviderGitlab}, ""},
	{"X-Gitlab-Token", []Provider{db.RepohostProviderGitlab}, ""},
}

// verify checks a delivery's signature, and returns why it is refused, "" when it is right. It takes the same time
// whether there are secrets or not. The reason is for the log, never for the sender.
func verify(provider Provider, headers Headers, body []byte, secrets []string, now time.Time) (reason string) {
	known := len(secrets) > 0
	if !known {
		secrets = []string{stranger}
	}
	found := map[string]string{}
	for _, h := range signatureHeaders {
		values := headers(h.name)
		if len(values) == 0 {
			continue
		}
		mine := false
		for _, p := range h.provider {
			mine = mine || p == provider
		}
		switch {
		case !mine:
			reason = "it has the signature of another kind of repository host, " + h.name
		case len(values) > 1:
			reason = "it has several signatures " + h.name
		case values[0] == "":
			reason = "its " + h.name + " is empty; the webhook has no secret"
		}
		found[h.name] = values[0]
	}
	var checked string
	if provider == db.RepohostProviderGitlab {
		checked = verifyGitLab(headers, found, body, secrets, now)
	} else {
		checked = verifyHex(headers, found, body, secrets)
	}
	switch {
	case reason != "":
		return reason
	case !known:
		return "there is no configuration with a secret for it"
	}
	return checked
}

// verifyHex checks the HMAC-SHA256 that GitHub, Gitea and Forgejo send. Of several headers every one must be right.
func verifyHex(headers Headers, found map[string]string, body []byte, secrets []string) (reason string) {
	sums := make([][]byte, len(secrets))
	for i, secret := range secrets {
		sums[i] = sum([]byte(secret), body)
	}
	if len(found) == 0 {
		if len(headers("X-Hub-Signature")) > 0 {
			return "it is signed with SHA-1 alone"
		}
		return "it has no signature; the webhook has no secret"
	}
	for _, h := range signatureHeaders {
		value, ok := found[h.name]
		if !ok {
			continue
		}
		digits, ok := strings.CutPrefix(value, h.prefix)
		if !ok {
			return "its " + h.name + " does not begin with " + h.prefix
		}
		got, err := hex.DecodeString(digits)
		if err != nil || len(got) != sha256.Size {
			return "its " + h.name + " is no SHA-256 in hexadecimal digits"
		}
		if !equalsOne(got, sums) {
			return "its " + h.name + " is made with another secret, or of another body"
		}
	}
	return ""
}

// verifyGitLab checks GitLab's signature, or where there is none its token. The signature counts when both are there:
// the token is then one of the webhook's that this server need not know.
func verifyGitLab(headers Headers, found map[string]string, body []byte, secrets []string, now time.Time) (reason string) {
	if list, ok := found["webhook-signature"]; ok {
		return verifyStandard(headers, list, body, secrets, now)
	}
	token, ok := found["X-Gitlab-Token"]
	if !ok {
		return "it has neither webhook-signature nor X-Gitlab-Token; the webhook has no secret"
	}
	// Compared by their hashes, so that the time does not tell the length.
	got := sha256.Sum256([]byte(token))
	sums := make([][]byte, len(secrets))
	for i, secret := range secrets {
		hash := sha256.Sum256([]byte(secret))
		sums[i] = hash[:]
	}
	if !equalsOne(got[:], sums) {
		return "its X-Gitlab-Token is another secret"
	}
	return ""
}

// verifyStandard checks a signature of Standard Webhooks: base64 of the HMAC-SHA256 of id, time and body. The header may
// hold several, of which one must be right.
func verifyStandard(headers Headers, list string, body []byte, secrets []string, now time.Time) (reason string) {
	ids, times := headers("webhook-id"), headers("webhook-timestamp")
	if len(ids) != 1 || len(times) != 1 {
		return "it must have webhook-id and webhook-timestamp once"
	}
	seconds, err := strconv.ParseInt(times[0], 10, 64)
	if err != nil || seconds < 0 || seconds > 1<<40 {
		return "its webhook-timestamp is no time in seconds"
	}
	sums := make([][]byte, 0, len(secrets))
	for _, secret := range secrets {
		if key, ok := signingKey(secret); ok {
			sums = append(sums, sum(key, []byte(ids[0]+"."+times[0]+"."), body))
		}
	}
	right := false
	for _, entry := range strings.Fields(list) {
		version, encoded, _ := strings.Cut(entry, ",")
		got, err := base64.StdEncoding.DecodeString(encoded)
		if version == "v1" && err == nil && equalsOne(got, sums) {
			right = true
		}
	}
	switch age := now.Sub(time.Unix(seconds, 0)); {
	case !right:
		return "its webhook-signature is made with another secret, or of another body"
	case age > maxAge || age < -maxAge:
		return "its webhook-timestamp is more than five minutes from now; is this machine's clock right?"
	}
	return ""
}

// signingKey is the key that a secret stands for: what a signing token encodes, or the secret's own bytes.
func signingKey(secret string) ([]byte, bool) {
	encoded, ok := strings.CutPrefix(secret, signingTokenPrefix)
	if !ok {
		return []byte(secret), true
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	return key, err == nil && len(key) > 0
}

func sum(key []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// equalsOne compares with each, and with all of them whatever comes out.
func equalsOne(got []byte, wanted [][]byte) bool {
	equal := false
	for _, want := range wanted {
		if hmac.Equal(got, want) {
			equal = true
		}
	}
	return equal
}
