package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

// The people of the tests of the MCP server, besides Ada: Eve, whose rows are nobody else's business, and an administrator.
const (
	eve  = "eve@example.com"
	root = "root@example.com"
)

// evesSecret is in Eve's rows, on main and on branches, and must not be in any answer to Ada.
const evesSecret = "nobody-but-eve-reads-this"

// modern is the revision of MCP that the tests speak where they do not say otherwise.
const modern = "2026-07-28"

// withMCP lets tests ask as fast as they can.
func withMCP(c *server.Config) { c.Auth.RateLimit, c.MCP.RateLimit = false, 0 }

// assistant is a program that uses the MCP server with one credential.
type assistant struct {
	address string   // where the MCP server is, with a query that narrows it or without
	headers []string // the credential, in pairs of header and value
	asks    bool     // it can show a question to a person
	forAda  bool     // it is Ada's: what is Eve's must not reach it
	record  *recorder
}

// at is the assistant with another query at its address.
func (a assistant) at(query string) assistant {
	a.address, _, _ = strings.Cut(a.address, "?")
	a.address += query
	return a
}

// toolAnswer is what a request was answered with.
type toolAnswer struct {
	status  int
	header  http.Header
	body    string
	refusal string // error of a body that is no JSON-RPC

	result     map[string]any // of JSON-RPC; nil for an error
	code       float64        // of JSON-RPC's error
	message    string         // of JSON-RPC's error
	failed     bool           // the tool says that it could not do it
	text       string         // what the model reads
	structured any
}

// send sends a request of the modern revision. params is a JSON object, changed by the revision's own members.
func (a assistant) send(t *testing.T, method, name string, params map[string]any) toolAnswer {
	t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	able := map[string]any{}
	if a.asks {
		able["elicitation"] = map[string]any{}
	}
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion": modern, "io.modelcontextprotocol/clientCapabilities": able,
		"io.modelcontextprotocol/clientInfo": map[string]any{"name": "Acceptance", "version": "1"},
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	headers := append([]string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", modern, "Mcp-Method", method}, a.headers...)
	if name != "" {
		headers = append(headers, "Mcp-Name", name)
	}
	resp, text := send(t, http.MethodPost, a.address, string(body), headers...)
	got := toolAnswer{status: resp.StatusCode, header: resp.Header, body: text}
	got.read(t)
	if a.forAda && strings.Contains(text, evesSecret) {
		t.Errorf("%s %s: Ada's assistant got what is Eve's: %s", method, body, text)
	}
	return got
}

// read takes the answer's body apart.
func (g *toolAnswer) read(t *testing.T) {
	t.Helper()
	var body struct {
		Result map[string]any `json:"result"`
		Error  any            `json:"error"`
	}
	if err := json.Unmarshal([]byte(g.body), &body); err != nil {
		t.Fatalf("the answer %d is no JSON: %s", g.status, g.body)
	}
	switch e := body.Error.(type) {
	case string:
		g.refusal = e
	case map[string]any:
		g.code, _ = e["code"].(float64)
		g.message, _ = e["message"].(string)
	}
	g.result = body.Result
	g.failed, _ = g.result["isError"].(bool)
	g.structured = g.result["structuredContent"]
	content, _ := g.result["content"].([]any)
	for _, c := range content {
		text, _ := c.(map[string]any)["text"].(string)
		g.text += text
	}
}

// call calls a tool. args is a JSON object.
func (a assistant) call(t *testing.T, tool, args string) toolAnswer {
	t.Helper()
	got := a.send(t, "tools/call", tool, map[string]any{"name": tool, "arguments": json.RawMessage(args)})
	a.record.add(tool, args, a, got)
	return got
}

// works calls a tool that is to do what it was asked.
func (a assistant) works(t *testing.T, tool, args string) toolAnswer {
	t.Helper()
	got := a.call(t, tool, args)
	if got.status != http.StatusOK || got.result == nil || got.failed {
		t.Fatalf("%s %s was answered %d %s", tool, args, got.status, got.body)
	}
	return got
}

// fails calls a tool that is to say what is wrong, in words that have the given ones.
func (a assistant) fails(t *testing.T, tool, args, says string) toolAnswer {
	t.Helper()
	got := a.call(t, tool, args)
	if got.status != http.StatusOK || !got.failed || !strings.Contains(got.text, says) {
		t.Errorf("%s %s was answered %d %s; it should have failed and said %q", tool, args, got.status, got.body, says)
	}
	return got
}

// tools are the names of the tools that the list shows.
func (a assistant) tools(t *testing.T) (names []string) {
	t.Helper()
	got := a.send(t, "tools/list", "", nil)
	if got.status != http.StatusOK || got.result == nil {
		t.Fatalf("tools/list was answered %d %s", got.status, got.body)
	}
	for _, tool := range got.result["tools"].([]any) {
		names = append(names, tool.(map[string]any)["name"].(string))
	}
	return names
}

// wantsScopes checks that an answer is the challenge of a token that lacks scopes (RFC 6750, section 3.1).
func (g toolAnswer) wantsScopes(t *testing.T, metadata string, scopes ...string) {
	t.Helper()
	challenge := g.header.Get("WWW-Authenticate")
	if g.status != http.StatusForbidden || g.refusal != "insufficient_scope" {
		t.Errorf("answered %d %s, not 403 insufficient_scope", g.status, g.body)
	}
	for _, part := range []string{`error="insufficient_scope"`, `scope="` + strings.Join(scopes, " ") + `"`, `resource_metadata="` + metadata + `"`} {
		if !strings.HasPrefix(challenge, "Bearer ") || !strings.Contains(challenge, part) {
			t.Errorf("the challenge %q lacks %s", challenge, part)
		}
	}
}

// service is an assistant with the service key.
func service(s *servertest.Server) assistant {
	return assistant{address: s.URL + "/mcp", headers: serviceKey()}
}

// withAccess is an assistant with an access token.
func withAccess(s *servertest.Server, token string) assistant {
	return assistant{address: s.URL + "/mcp", headers: []string{"Authorization", "Bearer " + token}}
}

// allowed is an assistant whom a user allowed the scopes.
func allowed(t *testing.T, s *servertest.Server, a app, email string, scopes ...string) assistant {
	t.Helper()
	return withAccess(s, connected(t, s, a, email, scopes...).Access)
}

// clientKey makes a client key of a user and returns an assistant with it.
func clientKey(t *testing.T, s *servertest.Server, user uuid.UUID, scopes ...string) assistant {
	t.Helper()
	body := client.CreateKeyRequest{Type: client.KeyTypeClient, Name: "of a test", UserID: &user}
	for _, scope := range scopes {
		body.Scopes = append(body.Scopes, client.Scope(scope))
	}
	made := must[*client.CreateKeyResponse](t, 201)(s.Service(t).CreateKeyWithResponse(t.Context(), body)).JSON201
	return assistant{address: s.URL + "/mcp", headers: []string{"X-Client-Key", made.Key}}
}

// within says where a JSON value lacks what is wanted: objects may have more members than are wanted, lists not. "" is
// nowhere. A wanted text that ends in … is the beginning of one; a wanted null is a member that is not there, too.
func within(want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%v is no object like %v", got, want)
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if lack := within(want[key], object[key]); lack != "" {
				return key + ": " + lack
			}
		}
		return ""
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Sprintf("%v is no list like %v", got, want)
		}
		for i := range want {
			if lack := within(want[i], list[i]); lack != "" {
				return fmt.Sprintf("%d: %s", i, lack)
			}
		}
		return ""
	case string:
		if begin, ok := strings.CutSuffix(want, "…"); ok {
			if text, ok := got.(string); ok && strings.HasPrefix(text, begin) {
				return ""
			}
		}
	}
	if want != got {
		return fmt.Sprintf("got %v, want %v", got, want)
	}
	return ""
}

// metadataOf is where a server says who guards its MCP server (RFC 9728).
func metadataOf(s *servertest.Server, path string) string {
	return s.URL + "/.well-known/oauth-protected-resource" + path
}
