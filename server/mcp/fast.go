package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Deepest nesting of a message that the library reads.
const maxDepth = 1000

// fast answers what is asked most, calls of tools and lists of them without a session, past the library: that makes a
// session for each such request and reads its message over and over, which takes longer than the query of most calls.
// Served so is only what is plain: what is wrong, rare or unknown goes to the library, whose answers are the measure.
// Who may call, how a call ends and what is recorded are decided by the same middleware and the same handlers. A tool whose
// arguments are repeated in headers (x-mcp-header) is none for it, since only the library compares those.
type fast struct {
	call     sdk.MethodHandler
	tools    map[string]sdk.ToolHandler
	listed   []listedTool // in the order of lists
	versions []string     // the revisions that the library has
	results  map[era]resultHead
	lists    map[era][]byte // the results of tools/list as far as its tools
}

type listedTool struct {
	name       string
	definition json.RawMessage
}

// resultHead is what all results of an era begin with.
type resultHead struct {
	ResultType string          `json:"resultType,omitempty"`
	Meta       json.RawMessage `json:"_meta,omitempty"`
}

func (s *Server) newFast(self *sdk.Implementation) *fast {
	f := &fast{tools: map[string]sdk.ToolHandler{}, versions: sdk.SupportedProtocolVersions(), lists: map[era][]byte{}}
	f.results = map[era]resultHead{
		bare: {}, stateless: {ResultType: "complete", Meta: unescaped(map[string]any{sdk.MetaKeyServerInfo: self})},
	}
	for to, head := range f.results {
		list := struct {
			resultHead
			sdk.Cacheable
		}{resultHead: head}
		cacheable(context.Background(), &sdk.ListToolsRequest{}, &list.Cacheable)
		f.lists[to] = append(bytes.TrimSuffix(unescaped(list), []byte("}")), `,"tools":[`...)
	}
	f.call = s.receive(func(ctx context.Context, _ string, req sdk.Request) (sdk.Result, error) {
		call, ok := req.(*sdk.CallToolRequest)
		if !ok {
			return nil, fmt.Errorf("%T is no call of a tool", req)
		}
		return f.tools[call.Params.Name](ctx, call)
	})
	return f
}

// list adds a tool to the lists.
func (f *fast) list(t *sdk.Tool) {
	f.listed = append(f.listed, listedTool{t.Name, unescaped(t)})
	slices.SortFunc(f.listed, func(a, b listedTool) int { return strings.Compare(a.name, b.name) })
}

// takes reports whether a request is plain enough, and returns what its message has as _meta.
func (f *fast) takes(r *http.Request, to era, body []byte, messages []message) (meta sdk.Meta, ok bool) {
	m := &messages[0]
	batch := m.raw != nil
	if batch || !utf8.Valid(body) || bytes.Count(body, []byte("{"))+bytes.Count(body, []byte("[")) > maxDepth {
		return nil, false
	}
	var known []string
	switch {
	case m.method == "tools/list":
		known = []string{"_meta"}
	case m.method == "tools/call" && f.tools[m.name] != nil:
		known = []string{"_meta", "name", "arguments"}
	default:
		return nil, false
	}
	for key := range m.params {
		if !slices.Contains(known, key) {
			return nil, false
		}
	}
	version := r.Header.Get("Mcp-Protocol-Version")
	switch to {
	case bare:
		_, hasMeta := m.params["_meta"]
		return nil, !hasMeta && (version == "" || slices.Contains(f.versions, version))
	case stateless:
		if version != statelessVersion || m.version != version || r.Header.Get("Mcp-Method") != m.method ||
			m.method == "tools/call" && r.Header.Get("Mcp-Name") != m.name {
			return nil, false
		}
		return m.plainMeta()
	}
	return nil, false
}

// plainMeta is the _meta of a message, in which its program must say what it can do; ok is false where something is wrong
// with it. What the program says of itself goes on as it was read here: else the library reads it each time it is asked.
func (m *message) plainMeta() (meta sdk.Meta, ok bool) {
	if json.Unmarshal(m.params["_meta"], &meta) != nil {
		return nil, false
	}
	var can *sdk.ClientCapabilities
	if json.Unmarshal(m.meta[sdk.MetaKeyClientCapabilities], &can) != nil || can == nil {
		return nil, false
	}
	if raw, has := m.meta[sdk.MetaKeyClientInfo]; has {
		var client *sdk.Implementation
		if json.Unmarshal(raw, &client) != nil || client == nil {
			return nil, false
		}
		meta[sdk.MetaKeyClientInfo] = client
	}
	return meta, true
}

// quick serves a request if it is plain enough, and reports whether it did.
func (s *Server) quick(w http.ResponseWriter, r *http.Request, c *caller, to era, body []byte, messages []message) bool {
	if s.fast == nil { // as in tests that compare
		return false
	}
	meta, ok := s.fast.takes(r, to, body, messages)
	if !ok {
		return false
	}
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	m := &messages[0]
	if m.method == "tools/list" {
		s.writeTools(w, c, to, m)
		return true
	}
	ctx := r.Context()
	if to == bare {
		ctx = context.WithoutCancel(ctx) // before 2026-07-28, a client that goes away does not mean to cancel
	}
	result, err := s.fast.call(ctx, m.method, &sdk.CallToolRequest{
		Params: &sdk.CallToolParamsRaw{Meta: meta, Name: m.name, Arguments: m.params["arguments"]},
		Extra:  &sdk.RequestExtra{TokenInfo: c.token()},
	})
	var answer json.RawMessage
	if err == nil {
		answer, err = s.fast.answer(to, m.id, result)
	}
	if err != nil {
		s.writeError(w, c, to, m, err)
		return true
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // the client is gone
	return true
}

// writeTools writes the list of the tools that the caller may have.
func (s *Server) writeTools(w http.ResponseWriter, c *caller, to era, m *message) {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"jsonrpc":"2.0","id":%s,"result":%s`, m.id, s.fast.lists[to])
	separator := ""
	for _, t := range s.fast.listed {
		if c.visible(s.tools[t.name]) {
			b.WriteString(separator)
			b.Write(t.definition)
			separator = ","
		}
	}
	b.WriteString("]}}")
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b.Bytes()) // the client is gone
}

// answer writes the result of a call.
func (f *fast) answer(to era, id json.RawMessage, result sdk.Result) (json.RawMessage, error) {
	r, ok := result.(*sdk.CallToolResult)
	if !ok {
		return nil, fmt.Errorf("%T is no result of a call", result)
	}
	head := f.results[to]
	if r.InputRequests != nil && head.ResultType != "" {
		head.ResultType = "input_required"
	}
	type callResult struct {
		resultHead
		Content           []sdk.Content       `json:"content"`
		StructuredContent any                 `json:"structuredContent,omitempty"`
		IsError           bool                `json:"isError,omitempty"`
		InputRequests     sdk.InputRequestMap `json:"inputRequests,omitempty"`
		RequestState      string              `json:"requestState,omitempty"`
	}
	return encode(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  callResult      `json:"result"`
	}{"2.0", id, callResult{head, r.Content, r.StructuredContent, r.IsError, r.InputRequests, r.RequestState}})
}

// writeError answers with a JSON-RPC error. Since 2026-07-28 the status says that the request was wrong, too.
func (s *Server) writeError(w http.ResponseWriter, c *caller, to era, m *message, err error) {
	var rpc *jsonrpc.Error
	if !errors.As(err, &rpc) {
		s.log(c, m.method, err)
		rpc = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: hidden(c)}
	}
	status := http.StatusOK
	if to == stateless && rpc.Code == jsonrpc.CodeInvalidParams {
		status = http.StatusBadRequest
	}
	(&rpcError{status, rpc.Code, rpc.Message, m.id}).write(w)
}

// unescaped is the JSON of what the program is made of.
func unescaped(v any) json.RawMessage {
	b, err := encode(v)
	if err != nil {
		panic(err) // there is nothing in it that cannot be written
	}
	return b
}
