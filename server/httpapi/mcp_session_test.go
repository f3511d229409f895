package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/boughdb/bough/server/servertest"
)

// legacyRevision is the last one of MCP with sessions.
const legacyRevision = "2025-11-25"

// legacySession is a session of a client of an older revision.
type legacySession struct {
	assistant
	id string
}

func (s *legacySession) post(t *testing.T, body string) (*http.Response, string) {
	t.Helper()
	headers := append([]string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}, s.headers...)
	if s.id != "" {
		headers = append(headers, "Mcp-Session-Id", s.id, "Mcp-Protocol-Version", legacyRevision)
	}
	// Answers within sessions are streams, which the contract says no more of.
	resp, text := past(t, http.MethodPost, s.address, body, headers...)
	if _, data, ok := strings.Cut(text, "\ndata: "); ok && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		text, _, _ = strings.Cut(data, "\n")
	}
	return resp, text
}

// beginSession shakes hands.
func beginSession(t *testing.T, a assistant) *legacySession {
	t.Helper()
	s := &legacySession{assistant: a}
	resp, body := s.post(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+legacyRevision+`","capabilities":{},"clientInfo":{"name":"Acceptance","version":"1"}}}`)
	s.id = resp.Header.Get("Mcp-Session-Id")
	if resp.StatusCode != http.StatusOK || s.id == "" {
		t.Fatalf("initialize was answered %d %s", resp.StatusCode, body)
	}
	if resp, body = s.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); resp.StatusCode != http.StatusAccepted {
		t.Fatalf("the end of the handshake was answered %d %s", resp.StatusCode, body)
	}
	return s
}

// list asks for the tools.
func (s *legacySession) list(t *testing.T) (status int, body string) {
	t.Helper()
	resp, body := s.post(t, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	return resp.StatusCode, body
}

func (s *legacySession) wantTools(t *testing.T, want []string) {
	t.Helper()
	status, body := s.list(t)
	var answer struct {
		Result struct {
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK {
		t.Fatalf("tools/list was answered %d %s", status, body)
	}
	var got []string
	for _, tool := range answer.Result.Tools {
		got = append(got, tool.Name)
	}
	diff(t, "tools of a session", want, got)
}

// A session is its user's, not its token's: it goes on with the next token, with what that one may do, and with nobody
// else's.
func TestMCPSessions(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, withMCP)
	signUp(t, s, ada)
	signUp(t, s, eve)
	editor := registerApp(t, s, "My editor")
	first := connected(t, s, editor, ada, "read:schema")
	open := beginSession(t, withAccess(s, first.Access))
	open.wantTools(t, toolsOf(false, "read:schema"))

	next := issued(t, s.URL, editor.renewal(first.Refresh))
	open.assistant = withAccess(s, next.Access)
	open.wantTools(t, toolsOf(false, "read:schema"))
	more := connected(t, s, editor, ada, "read:tables")
	open.assistant = withAccess(s, more.Access)
	open.wantTools(t, toolsOf(false, "read:tables"))

	for name, other := range map[string]assistant{
		"another user": allowed(t, s, editor, eve, "read:tables"), "the service": service(s), "a key of the user's": clientKey(t, s, userID(t, s, ada), "read:tables"),
	} {
		theirs := legacySession{assistant: other, id: open.id}
		if status, body := theirs.list(t); status != http.StatusNotFound {
			t.Errorf("%s used a session that is not theirs: %d %s", name, status, body)
		}
		resp, _ := send(t, http.MethodDelete, other.address, "", append([]string{"Mcp-Session-Id", open.id}, other.headers...)...)
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s ended a session that is not theirs: %d", name, resp.StatusCode)
		}
	}
	open.wantTools(t, toolsOf(false, "read:tables"))
	resp, _ := send(t, http.MethodDelete, open.address, "", append([]string{"Mcp-Session-Id", open.id}, open.headers...)...)
	if resp.StatusCode != http.StatusNoContent {
		t.Errorf("ending a session was answered %d", resp.StatusCode)
	}
	if status, body := open.list(t); status != http.StatusNotFound {
		t.Errorf("a session that has ended: %d %s", status, body)
	}
}
