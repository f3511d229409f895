package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// What the guard lets through, the library can read, and reads alike.
func FuzzParse(f *testing.F) {
	for _, body := range []string{
		listTools, initialize, callBody("echo", `{"text":"a"}`), "[" + listTools + "]", `{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":null,"method":"x"}`, `{"jsonrpc":"2.0","id":1e2,"method":"x"}`, `{"jsonrpc":"2.0","method":"a","method":"b"}`, "[[]]", "{", "",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","Name":"b","name":"c"}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		messages, batch, wrong := parse(body)
		if wrong != nil {
			if wrong.status != 400 || wrong.message == "" || wrong.id != nil && !json.Valid(wrong.id) {
				t.Errorf("%q is refused with %+v", body, wrong)
			}
			return
		}
		if len(messages) == 0 || !batch && len(messages) != 1 {
			t.Fatalf("%q: %d messages", body, len(messages))
		}
		for _, m := range messages {
			raw := []byte(m.raw)
			if !batch {
				raw = body
			}
			decoded, err := jsonrpc.DecodeMessage(raw)
			if err != nil {
				continue // refused there
			}
			request, ok := decoded.(*jsonrpc.Request)
			if ok == m.response {
				t.Fatalf("%q: read as %T", raw, decoded)
			}
			if ok && request.Method != m.method {
				t.Errorf("%q: the method is %q here and %q there", raw, m.method, request.Method)
			}
			if ok && request.IsCall() != (m.id != nil) {
				t.Errorf("%q: a call there, none here, or the other way round", raw)
			}
		}
	})
}

// Times of a request without the network.
func BenchmarkServer(b *testing.B) {
	s, _, _ := newTools(b)
	meta := "," + modernMeta
	for name, r := range map[string]request{
		"list/bare":    {token: reader, body: listTools},
		"list/today":   {token: reader, header: modern("tools/list", ""), body: strings.Replace(listTools, `"tools/list"`, `"tools/list","params":{`+modernMeta+`}`, 1)},
		"call/bare":    {token: reader, body: callBody("rows", "{}")},
		"call/today":   {token: reader, header: modern("tools/call", "rows"), body: callBody("rows", "{}"+meta)},
		"refuse/scope": {token: nothing, body: callBody("rows", "{}")},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			want := 200
			if strings.HasPrefix(name, "refuse") {
				want = 403
			}
			for b.Loop() {
				if got := r.to(b, s); got.status != want {
					b.Fatal(got.status, got.body)
				}
			}
		})
	}
}
