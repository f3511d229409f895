package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The first revision of MCP without sessions, and the last one with batches.
const (
	statelessVersion = "2026-07-28"
	batchVersion     = "2025-03-26"
)

// message is what the guard needs to know of one JSON-RPC message.
type message struct {
	raw      json.RawMessage
	id       json.RawMessage // nil for a notification
	method   string          // "" for a response
	version  string          // the revision that the message says it is of; "" where it says none
	client   string          // the name that the program gives itself in it; "" where it gives none
	name     string          // params.name, of a tool or prompt
	uri      string          // params.uri, of a resource
	response bool
	progress bool // whether the client wants to hear how it goes

	params, meta map[string]json.RawMessage // meta is params._meta; nil where they are no objects
}

// rpcError is an answer to a request that is no message.
type rpcError struct {
	status  int
	code    int64
	message string
	id      json.RawMessage // nil is null
}

func (e *rpcError) write(w http.ResponseWriter) {
	id := e.id
	if id == nil {
		id = json.RawMessage("null")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Del("Content-Length")
	w.WriteHeader(e.status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": e.code, "message": e.message},
	})
}

func invalid(id json.RawMessage, format string, args ...any) *rpcError {
	return &rpcError{http.StatusBadRequest, jsonrpc.CodeInvalidRequest, fmt.Sprintf(format, args...), id}
}

// parse reads a body: one message, or the several ones of a batch.
func parse(body []byte) (messages []message, batch bool, wrong *rpcError) {
	body = bytes.TrimSpace(body)
	if !json.Valid(body) {
		return nil, false, &rpcError{http.StatusBadRequest, jsonrpc.CodeParseError, "the body is no JSON", nil}
	}
	if body[0] != '[' {
		m, wrong := parseOne(body)
		return []message{m}, false, wrong
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(body, &parts); err != nil || len(parts) == 0 {
		return nil, true, invalid(nil, "a batch has at least one message")
	}
	for _, part := range parts {
		m, wrong := parseOne(part)
		if wrong != nil {
			return nil, true, wrong
		}
		if m.method == "initialize" {
			return nil, true, invalid(m.id, "initialize cannot be part of a batch")
		}
		m.raw = part
		messages = append(messages, m)
	}
	return messages, true, nil
}

// parseOne reads one message. Keys are looked up in a map, since a struct's pointer cannot tell null from nothing, and a
// struct's field has any case.
func parseOne(body []byte) (m message, wrong *rpcError) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return m, invalid(nil, "a message is a JSON object")
	}
	id, hasID := fields["id"]
	if hasID {
		if !validID(id) {
			return m, invalid(nil, "id must be a text or an integer")
		}
		m.id = id
	}
	if text(fields["jsonrpc"]) != "2.0" {
		return m, invalid(m.id, `jsonrpc must be "2.0"`)
	}
	_, isResult := fields["result"]
	_, isError := fields["error"]
	if method, ok := fields["method"]; ok {
		if m.method = text(method); m.method == "" {
			return m, invalid(m.id, "method must be a text")
		}
		if isResult || isError {
			return m, invalid(m.id, "a message is a request or a response, not both")
		}
	} else {
		if m.response = isResult != isError; !m.response {
			return m, invalid(m.id, "method is missing")
		}
		if !hasID {
			return m, invalid(nil, "a response has the id of its request")
		}
		return m, nil
	}
	return m, m.readParams(fields["params"])
}

func (m *message) readParams(raw json.RawMessage) *rpcError {
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, &m.params); err != nil || m.params == nil {
		return &rpcError{http.StatusBadRequest, jsonrpc.CodeInvalidParams, "params must be an object", m.id}
	}
	m.name, m.uri = text(m.params["name"]), text(m.params["uri"])
	if json.Unmarshal(m.params["_meta"], &m.meta) == nil {
		m.version = text(m.meta[sdk.MetaKeyProtocolVersion])
		_, m.progress = m.meta["progressToken"]
		var client struct{ Name string }
		_ = json.Unmarshal(m.meta[sdk.MetaKeyClientInfo], &client)
		m.client = client.Name
	}
	return nil
}

// text is a JSON text's value, "" for anything else.
func text(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// validID reports whether an id is one that MCP has: null and fractions are none.
func validID(raw json.RawMessage) bool {
	if raw[0] == '"' {
		return true
	}
	var n json.Number
	if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') || json.Unmarshal(raw, &n) != nil {
		return false
	}
	_, err := n.Int64()
	return err == nil
}

// methods are the requests and notifications of all revisions that are served, by what they are.
var methods = map[string]bool{ // true for requests
	"initialize": true, "ping": true, "server/discover": true, "completion/complete": true,
	"tools/list": true, "tools/call": true, "prompts/list": true, "prompts/get": true,
	"resources/list": true, "resources/templates/list": true, "resources/read": true,
	"resources/subscribe": true, "resources/unsubscribe": true, "subscriptions/listen": true, "logging/setLevel": true,
	"notifications/cancelled": false, "notifications/initialized": false, "notifications/progress": false,
	"notifications/roots/list_changed": false,
}

// judge finds messages that the library has no JSON-RPC answer for. Ignored ones are notifications that nobody knows: they
// are taken and forgotten.
func (m *message) judge(stateless bool) (ignored bool, wrong *rpcError) {
	if m.response {
		return false, nil
	}
	request, known := methods[m.method]
	switch {
	case !known && m.id == nil:
		return true, nil
	case !known:
		status := http.StatusOK
		if stateless {
			status = http.StatusNotFound
		}
		return false, &rpcError{status, jsonrpc.CodeMethodNotFound, fmt.Sprintf("there is no method %q", shorten(m.method)), m.id}
	case request && m.id == nil:
		return false, invalid(nil, "%s is a request and needs an id", m.method)
	case !request && m.id != nil:
		return false, invalid(m.id, "%s is a notification and has no id", strings.TrimSpace(m.method))
	}
	return false, nil
}
