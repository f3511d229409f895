package mcp

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A tool's question reaches the person in both eras, and her answer the tool, once.
func TestQuestions(t *testing.T) {
	t.Parallel()
	for _, revision := range revisions {
		for _, c := range []struct {
			name, action, want string
			changes            int64
		}{
			{"accepted", "accept", "accepted", 1}, {"declined", "decline", "declined", 0},
			{"put away", "cancel", "declined", 0}, {"unable", "", "unable", 1},
		} {
			t.Run(revision+" "+c.name, func(t *testing.T) {
				t.Parallel()
				s, b, records := newTools(t)
				var asked []string
				var answer func(string) string
				if c.action != "" {
					answer = func(question string) string { asked = append(asked, question); return c.action }
				}
				client := connect(t, listen(t, s), revision, writer, answer)
				r, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "change", Arguments: map[string]any{"id": 7, "branch": "feature"}})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(map[string]any{"answer": c.want}, r.StructuredContent); diff != "" {
					t.Errorf("(-want +got):\n%s\n%s", diff, textOfResult(r))
				}
				if n := b.changed.Load(); n != c.changes {
					t.Errorf("%d changes, want %d", n, c.changes)
				}
				if c.action != "" && (len(asked) != 1 || asked[0] != "Change 7 on feature?") {
					t.Errorf("asked %q", asked)
				}
				events := records.all()
				if last := events[len(events)-1]; last.Outcome != Succeeded || last.Client != "tester" || last.Branch != "feature" {
					t.Errorf("recorded %+v", events)
				}
			})
		}
	}
}

// ask calls the tool "change" until it asks, and returns the state.
func ask(tb testing.TB, s *Server, token, args string) string {
	tb.Helper()
	got := change(tb, s, token, "", args, "")
	var out struct {
		Result struct {
			ResultType, RequestState string
			InputRequests            map[string]struct{ Method string }
		}
	}
	if err := json.Unmarshal([]byte(got.body), &out); err != nil || out.Result.ResultType != "input_required" || out.Result.InputRequests["confirm"].Method != "elicitation/create" {
		tb.Fatalf("%v: got %s", err, got.body)
	}
	return out.Result.RequestState
}

// change calls the tool as a client does that can ask; more goes into the parameters.
func change(tb testing.TB, s *Server, token, query, args, more string) answered {
	tb.Helper()
	meta := strings.Replace(modernMeta, `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{}}`, 1)
	return request{token: token, query: query, header: modern("tools/call", "change"), body: callBody("change", args+","+meta+more)}.to(tb, s)
}

// An answer counts for the call that asked, from the caller who was asked, for a while. Else nothing is changed.
func TestAnswersAreBoundToTheirQuestion(t *testing.T) {
	t.Parallel()
	s, b, _ := newTools(t)
	const args = `{"id":7,"text":"x","branch":"feature"}`
	state := ask(t, s, writer, args)
	accept := func(state string) string {
		encoded, _ := json.Marshal(state)
		return `,"inputResponses":{"confirm":{"action":"accept","content":{}}},"requestState":` + string(encoded)
	}
	c := &caller{principal: callers[writer]}
	given, err := s.cfg.Tools[2].read(json.RawMessage(args))
	if err != nil {
		t.Fatal(err)
	}
	expired := s.state(c, s.cfg.Tools[2], given, "Change 7 on feature?", time.Now().Add(-time.Second))
	flipped := []byte(state)
	flipped[3] ^= 1
	const notOurs = "requestState is not the one of this call"
	for _, c := range []struct{ name, token, query, args, more, want string }{
		{"tampered", writer, "", args, accept(string(flipped)), notOurs},
		{"cut", writer, "", args, accept(state[:len(state)-4]), notOurs},
		{"garbage", writer, "", args, accept("x"), notOurs},
		{"without state", writer, "", args, `,"inputResponses":{"confirm":{"action":"accept","content":{}}}`, notOurs},
		{"of another caller", admin, "", args, accept(state), notOurs},
		{"for another id", writer, "", strings.Replace(args, "7", "8", 1), accept(state), notOurs},
		{"for another branch", writer, "", strings.Replace(args, "feature", "main", 1), accept(state), notOurs},
		{"at another address", writer, "?branch=feature", args, accept(state), notOurs},
		{"expired", writer, "", args, accept(expired), "confirmation_expired"},
		{"without answer", writer, "", args, `,"requestState":"` + state + `"`, "inputResponses has no answer"},
		{"with another answer", writer, "", args, strings.Replace(accept(state), "confirm", "other", 1), "inputResponses has no answer"},
	} {
		got := change(t, s, c.token, c.query, c.args, c.more)
		if !strings.Contains(got.body, c.want) {
			t.Errorf("%s: got %s, want %s", c.name, got.body, c.want)
		}
	}
	b.asked.Store(" All 5000 of them?")
	if got := change(t, s, writer, "", args, accept(state)); !strings.Contains(got.body, "confirmation_outdated") {
		t.Errorf("another question: got %s", got.body)
	}
	b.asked.Store("")
	if n := b.changed.Load(); n != 0 {
		t.Fatalf("%d changes", n)
	}
	// The same arguments in another order are the same; another process with the same key knows the state.
	cfg, again, _ := toolConfig(t)
	replica, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got := change(t, replica, writer, "", `{"branch":"feature", "text":"x", "id":7.0}`, accept(state)); !strings.Contains(got.body, `"answer":"accepted"`) {
		t.Errorf("got %s", got.body)
	}
	if n := again.changed.Load(); n != 1 {
		t.Errorf("%d changes", n)
	}
}

// A client that can show addresses but no forms cannot be asked.
func TestWhoCanAsk(t *testing.T) {
	t.Parallel()
	form, url := &sdk.FormElicitationCapabilities{}, &sdk.URLElicitationCapabilities{}
	for i, c := range []struct {
		has  *sdk.ClientCapabilities
		want bool
	}{
		{nil, false},
		{&sdk.ClientCapabilities{}, false},
		{&sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{}}, true},
		{&sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{Form: form}}, true},
		{&sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{Form: form, URL: url}}, true},
		{&sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{URL: url}}, false},
	} {
		if got := canAsk(c.has); got != c.want {
			t.Errorf("%d: got %v", i, got)
		}
	}
}
