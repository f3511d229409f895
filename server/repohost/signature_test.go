package repohost

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/boughdb/bough/gen/db"
)

// The vector of GitHub's documentation ("Validating webhook deliveries").
const (
	vectorSecret = "It's a Secret to Everybody"
	vectorBody   = "Hello, World!"
	vectorSum    = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
)

var testTime = time.Unix(1_790_000_000, 0)

func header(pairs ...string) Headers {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h.Values
}

func hexOf(secret, body string) string { return hex.EncodeToString(sum([]byte(secret), []byte(body))) }

// standard returns the headers of Standard Webhooks.
func standard(key, body string, at time.Time, more ...string) Headers {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := sum([]byte(key), []byte("msg_1."+seconds+"."+body))
	return header(append([]string{"webhook-id", "msg_1", "webhook-timestamp", seconds, "webhook-signature", "v1," + base64.StdEncoding.EncodeToString(mac)}, more...)...)
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	const secret, previous, body = vectorSecret, "the one before", vectorBody
	gitHub, gitea, gitLab := db.RepohostProviderGithub, db.RepohostProviderGitea, db.RepohostProviderGitlab
	right := "sha256=" + vectorSum
	signingToken := signingTokenPrefix + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	mac := sha1.Sum([]byte(body))
	for _, test := range []struct {
		name     string
		provider Provider
		headers  Headers
		body     string
		secrets  []string
		refused  string // what the reason mentions; "" is accepted
	}{
		{name: "GitHub's vector", provider: gitHub, headers: header("X-Hub-Signature-256", right)},
		{name: "upper-case digits", provider: gitHub, headers: header("X-Hub-Signature-256", "sha256="+strings.ToUpper(vectorSum))},
		{name: "SHA-1 beside it", provider: gitHub, headers: header("X-Hub-Signature-256", right, "X-Hub-Signature", "sha1=00")},
		{name: "the secret before", provider: gitHub, headers: header("X-Hub-Signature-256", "sha256="+hexOf(previous, body))},
		{name: "another body", provider: gitHub, headers: header("X-Hub-Signature-256", right), body: vectorBody + "\n", refused: "another body"},
		{name: "another secret", provider: gitHub, headers: header("X-Hub-Signature-256", "sha256="+hexOf("x", body)), refused: "another secret"},
		{name: "no configuration", provider: gitHub, headers: header("X-Hub-Signature-256", right), secrets: []string{}, refused: "no configuration"},
		{name: "signed with nothing", provider: gitHub, headers: header("X-Hub-Signature-256", "sha256="+hexOf("", body)), secrets: []string{}, refused: "no configuration"},
		{name: "none", provider: gitHub, headers: header(), refused: "no signature"},
		{name: "SHA-1 alone", provider: gitHub, headers: header("X-Hub-Signature", "sha1="+hex.EncodeToString(mac[:])), refused: "SHA-1 alone"},
		{name: "SHA-1 in its place", provider: gitHub, headers: header("X-Hub-Signature-256", "sha1="+hex.EncodeToString(mac[:])), refused: "begin with sha256="},
		{name: "twice, both right", provider: gitHub, headers: header("X-Hub-Signature-256", right, "X-Hub-Signature-256", right), refused: "several"},
		{name: "twice, one right", provider: gitHub, headers: header("X-Hub-Signature-256", "sha256=00", "X-Hub-Signature-256", right), refused: "several"},
		{name: "no digits", provider: gitHub, headers: header("X-Hub-Signature-256", "sha256="), refused: "no SHA-256"},
		{name: "too few digits", provider: gitHub, headers: header("X-Hub-Signature-256", right[:len(right)-2]), refused: "no SHA-256"},
		{name: "not digits", provider: gitHub, headers: header("X-Hub-Signature-256", "sha256="+strings.Repeat("zz", 32)), refused: "no SHA-256"},
		{name: "bare digits of GitHub", provider: gitHub, headers: header("X-Hub-Signature-256", vectorSum), refused: "begin with"},
		{name: "empty", provider: gitHub, headers: header("X-Hub-Signature-256", ""), refused: "empty"},
		{name: "a token at GitHub", provider: gitHub, headers: header("X-Hub-Signature-256", right, "X-Gitlab-Token", secret), refused: "another kind"},
		{name: "Gitea's at GitHub", provider: gitHub, headers: header("X-Gitea-Signature", vectorSum), refused: "another kind"},

		{name: "Gitea", provider: gitea, headers: header("X-Gitea-Signature", vectorSum)},
		{name: "Forgejo with all it sends", provider: gitea, headers: header("X-Gitea-Signature", vectorSum, "X-Forgejo-Signature", vectorSum, "X-Gogs-Signature", vectorSum, "X-Hub-Signature", "sha1=1", "X-Hub-Signature-256", right)},
		{name: "one of several wrong", provider: gitea, headers: header("X-Gitea-Signature", vectorSum, "X-Hub-Signature-256", "sha256="+hexOf("x", body)), refused: "X-Hub-Signature-256"},
		{name: "prefix at Gitea", provider: gitea, headers: header("X-Gitea-Signature", right), refused: "no SHA-256"},
		{name: "Gitea without a secret", provider: gitea, headers: header("X-Gitea-Signature", ""), refused: "empty"},

		{name: "GitLab's token", provider: gitLab, headers: header("X-Gitlab-Token", secret)},
		{name: "the token before", provider: gitLab, headers: header("X-Gitlab-Token", previous)},
		{name: "another token", provider: gitLab, headers: header("X-Gitlab-Token", secret+"x"), refused: "another secret"},
		{name: "no token", provider: gitLab, headers: header(), refused: "neither"},
		{name: "the token of nobody", provider: gitLab, headers: header("X-Gitlab-Token", ""), secrets: []string{}, refused: "no"},
		{name: "GitLab's signature", provider: gitLab, headers: standard(secret, body, testTime)},
		{name: "with a signing token", provider: gitLab, headers: standard("0123456789abcdef0123456789abcdef", body, testTime), secrets: []string{signingToken}},
		{name: "signing token taken literally", provider: gitLab, headers: standard(signingToken, body, testTime), secrets: []string{signingToken}, refused: "another secret"},
		{name: "beside another token", provider: gitLab, headers: standard(secret, body, testTime, "X-Gitlab-Token", "of the webhook's own")},
		{name: "wrong beside a right token", provider: gitLab, headers: standard("x", body, testTime, "X-Gitlab-Token", secret), refused: "webhook-signature"},
		{name: "four minutes old", provider: gitLab, headers: standard(secret, body, testTime.Add(-4*time.Minute))},
		{name: "six minutes old", provider: gitLab, headers: standard(secret, body, testTime.Add(-6*time.Minute)), refused: "five minutes"},
		{name: "six minutes ahead", provider: gitLab, headers: standard(secret, body, testTime.Add(6*time.Minute)), refused: "five minutes"},
		{name: "no time", provider: gitLab, headers: header("webhook-id", "1", "webhook-signature", "v1,AAAA"), refused: "webhook-timestamp"},
		{name: "a time of words", provider: gitLab, headers: header("webhook-id", "1", "webhook-timestamp", "now", "webhook-signature", "v1,AAAA"), refused: "no time"},
		{name: "the end of time", provider: gitLab, headers: header("webhook-id", "1", "webhook-timestamp", "9223372036854775807", "webhook-signature", "v1,AAAA"), refused: "no time"},
		{name: "another version", provider: gitLab, headers: header("webhook-id", "1", "webhook-timestamp", "1790000000", "webhook-signature", "v2,AAAA"), refused: "another secret"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.body == "" {
				test.body = body
			}
			if test.secrets == nil {
				test.secrets = []string{secret, previous}
			}
			got := verify(test.provider, test.headers, []byte(test.body), test.secrets, testTime)
			if test.refused == "" && got != "" || test.refused != "" && !strings.Contains(got, test.refused) || test.refused != "" && got == "" {
				t.Errorf("refused because %q, want %q", got, test.refused)
			}
		})
	}
}

// One of several signatures in a header of Standard Webhooks is enough, as they are sent while a secret changes.
func TestOneOfSeveralStandardSignaturesIsEnough(t *testing.T) {
	t.Parallel()
	seconds := strconv.FormatInt(testTime.Unix(), 10)
	right := base64.StdEncoding.EncodeToString(sum([]byte(vectorSecret), []byte("a."+seconds+"."), []byte(vectorBody)))
	headers := header("webhook-id", "a", "webhook-timestamp", seconds, "webhook-signature", "v1,AAAA v1,"+right+" v9,xx")
	if reason := verify(db.RepohostProviderGitlab, headers, []byte(vectorBody), []string{vectorSecret}, testTime); reason != "" {
		t.Error(reason)
	}
}

func TestDialects(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		headers Headers
		want    dialect
		err     string
	}{
		{"GitHub", header("X-GitHub-Event", "pull_request", "X-GitHub-Delivery", "a"), dialect{db.RepohostProviderGithub, "pull_request", "a"}, ""},
		{"Gitea", header("X-GitHub-Event", "x", "X-GitHub-Delivery", "x", "X-Gogs-Event", "x", "X-Gitea-Event", "pull_request", "X-Gitea-Delivery", "b"), dialect{db.RepohostProviderGitea, "pull_request", "b"}, ""},
		{"Forgejo", header("X-GitHub-Event", "x", "X-Gitea-Event", "x", "X-Forgejo-Event", "pull_request", "X-Forgejo-Delivery", "c", "X-Gitea-Delivery", "d"), dialect{db.RepohostProviderGitea, "pull_request", "c"}, ""},
		{"GitLab", header("X-Gitlab-Event", "Merge Request Hook", "X-Gitlab-Event-UUID", "e", "Idempotency-Key", "f"), dialect{db.RepohostProviderGitlab, "Merge Request Hook", "f"}, ""},
		{"no id", header("X-GitHub-Event", "ping"), dialect{db.RepohostProviderGithub, "ping", ""}, ""},
		{"control characters", header("X-GitHub-Event", "a\tb", "X-GitHub-Delivery", "\xff"), dialect{db.RepohostProviderGithub, "a�b", "�"}, ""},
		{"none", header("X-Event", "x"), dialect{}, "none of the headers"},
		{"two hosts", header("X-Gitlab-Event", "x", "X-GitHub-Event", "y"), dialect{}, "several kinds"},
		{"twice", header("X-GitHub-Event", "x", "X-GitHub-Event", "y"), dialect{}, "comes 2 times"},
		{"long", header("X-GitHub-Event", strings.Repeat("x", 201)), dialect{}, "longer than"},
		{"two ids", header("X-GitHub-Event", "x", "X-GitHub-Delivery", "1", "X-GitHub-Delivery", "2"), dialect{}, "comes 2 times"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := dialectOf(test.headers)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

// Whatever is sent, only a signature that was made with the secret is accepted.
func FuzzVerify(f *testing.F) {
	f.Add("sha256="+vectorSum, "msg", "1790000000", "v1,AAAA", []byte(vectorBody))
	f.Add("", "", "", "v1,,v1 ,", []byte{})
	f.Fuzz(func(t *testing.T, signature, id, at, list string, body []byte) {
		headers := header("X-Hub-Signature-256", signature)
		reason := verify(db.RepohostProviderGithub, headers, body, []string{vectorSecret}, testTime)
		if right := strings.EqualFold(signature, "sha256="+hexOf(vectorSecret, string(body))) && strings.HasPrefix(signature, "sha256="); right != (reason == "") {
			t.Errorf("%q for %q: %q", signature, body, reason)
		}
		if reason := verify(db.RepohostProviderGithub, headers, body, nil, testTime); reason == "" {
			t.Errorf("%q is accepted without a secret", signature)
		}
		headers = header("webhook-id", id, "webhook-timestamp", at, "webhook-signature", list)
		if reason := verify(db.RepohostProviderGitlab, headers, body, []string{vectorSecret}, testTime); reason == "" {
			want := "v1," + base64.StdEncoding.EncodeToString(sum([]byte(vectorSecret), []byte(fmt.Sprintf("%s.%s.", id, at)), body))
			if !strings.Contains(list, want) {
				t.Errorf("%q is accepted", list)
			}
		}
	})
}
