package httpapi_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

// replicas starts two server processes on the same databases, which the world knows by the first one's URL, and returns
// where the second one is.
func replicas(t *testing.T) (s *servertest.Server, second string) {
	t.Helper()
	s = servertest.Databases(t)
	s.Run(t, unlimited)
	first := s.URL
	s.Run(t, unlimited, func(c *server.Config) { c.PublicBaseURL = first })
	second, s.URL = s.URL, first
	return s, second
}

// together sends a token request many times at once, to the processes by turns, and returns how often it was served, with
// what, and what else was answered.
func together(t *testing.T, bases []string, times int, form url.Values) (served []tokens, other []string) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range times {
		wg.Go(func() {
			<-begin
			resp, body := ask(t, bases[i%len(bases)], "token", form)
			mu.Lock()
			defer mu.Unlock()
			if resp.StatusCode == http.StatusOK {
				served = append(served, tokensIn(t, body))
				return
			}
			wantOAuthError(t, resp, body, http.StatusBadRequest, "invalid_grant")
			other = append(other, body)
		})
	}
	close(begin)
	wg.Wait()
	return served, other
}

const crowd = 50

func TestOAuthCodeIsRedeemedOnce(t *testing.T) {
	t.Parallel()
	s, second := replicas(t)
	signUp(t, s, ada)
	a := registerApp(t, s, "My editor")
	v := newVisitor(t, s)
	for range 3 {
		code := v.code(a, ada)
		served, other := together(t, []string{s.URL, second}, crowd, a.redemption(code))
		if len(served) != 1 || len(other) != crowd-1 {
			t.Fatalf("a code was redeemed %d times and refused %d times", len(served), len(other))
		}
		// One of them may have been a thief, and nobody knows which: what the winner got has ended.
		wantDead(t, s, served[0].Access)
		refused(t, second, a.renewal(served[0].Refresh), 400, "invalid_grant")
	}
	diff(t, "tokens", int64(6), servertest.Value[int64](t, s.Control, "select count(*) from oauth_tokens"))
}

func TestOAuthRefreshTokenIsUsedOnce(t *testing.T) {
	t.Parallel()
	s, second := replicas(t)
	signUp(t, s, ada)
	a := registerApp(t, s, "My editor")
	last := connected(t, s, a, ada)
	for range 3 {
		served, other := together(t, []string{s.URL, second}, crowd, a.renewal(last.Refresh))
		if len(served) != 1 || len(other) != crowd-1 {
			t.Fatalf("a refresh token was used %d times and refused %d times", len(served), len(other))
		}
		// An application whose windows asked at once is not shut out for it.
		principalOf(t, s, served[0].Access)
		last = served[0]
	}
}

// Of many answers of one browser to one question, one counts.
func TestOAuthRequestIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	s, second := replicas(t)
	signUp(t, s, ada)
	a := registerApp(t, s, "My editor")
	v := newVisitor(t, s)
	p := v.signIn(v.begin(a), ada, pass)
	form, to := p.form(t)
	cookies := v.http.Jar.Cookies(p.url)
	var mu sync.Mutex
	var wg sync.WaitGroup
	var codes, denied, refused int
	for i := range crowd {
		wg.Go(func() {
			mine := url.Values{"action": {"allow"}, "csrf": form["csrf"], "scope": form["scope"]}
			if i%5 == 0 {
				mine.Set("action", "deny")
			}
			base := []string{s.URL, second}[i%2]
			resp, _ := send(t, http.MethodPost, base+to.Path, mine.Encode(), "Content-Type", formType, "Cookie", cookies[0].String())
			mu.Lock()
			defer mu.Unlock()
			switch location := resp.Header.Get("Location"); {
			case strings.Contains(location, "code="):
				codes++
			case strings.Contains(location, "error=access_denied"):
				denied++
			case location == "" && resp.StatusCode >= 400 && resp.StatusCode < 500:
				refused++
			default:
				t.Errorf("answered %d, location %s", resp.StatusCode, location)
			}
		})
	}
	wg.Wait()
	if codes+denied != 1 || refused != crowd-1 {
		t.Errorf("%d codes, %d times denied, %d times refused", codes, denied, refused)
	}
	diff(t, "grants", int64(codes), servertest.Value[int64](t, s.Control, "select count(*) from oauth_grants"))
}

// What one process ends the other does not take any more, although it knew it a moment ago. A page of one process is
// answered at the other.
func TestOAuthRevocationReachesOtherProcesses(t *testing.T) {
	t.Parallel()
	s, second := replicas(t)
	adas := bearer(t, &servertest.Server{URL: second}, signUp(t, s, ada))
	a := registerApp(t, s, "My editor")
	bases := []string{s.URL, second}
	for name, end := range map[string]func(tokens){
		"the token": func(got tokens) { revoke(t, second, "token", got.Access) },
		"the grant": func(got tokens) { revoke(t, second, "token", got.Refresh) },
		"a replayed code": func(got tokens) {
			issued(t, second, a.renewal(issued(t, second, a.renewal(got.Refresh)).Refresh))
			refused(t, second, a.renewal(got.Refresh), 400, "invalid_grant")
		},
		"by its user": func(tokens) {
			for _, grant := range must[*client.ListApplicationsResponse](t, 200)(adas.ListApplicationsWithResponse(t.Context())).JSON200.Applications {
				must[*client.RevokeApplicationResponse](t, 204)(adas.RevokeApplicationWithResponse(t.Context(), grant.ID))
			}
		},
	} {
		got := connected(t, s, a, ada)
		for _, base := range bases {
			if resp, body := mcpCall(t, base, got.Access); resp.StatusCode != http.StatusOK {
				t.Fatalf("a token was answered %d %s", resp.StatusCode, body)
			}
		}
		end(got)
		if resp, _ := mcpCall(t, second, got.Access); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: the process that ended it answered %d", name, resp.StatusCode)
		}
		eventually(t, name+": the end at the other process", func() bool {
			resp, _ := mcpCall(t, s.URL, got.Access)
			return resp.StatusCode == http.StatusUnauthorized
		})
	}
}
