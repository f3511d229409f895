package httpapi_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

// again calls a tool once more, with the answer to the question that the first call was answered with.
func (a assistant) again(t *testing.T, tool, args string, first toolAnswer, action string) toolAnswer {
	t.Helper()
	return a.send(t, "tools/call", tool, map[string]any{
		"name": tool, "arguments": json.RawMessage(args), "requestState": first.result["requestState"],
		"inputResponses": map[string]any{"confirm": map[string]any{"action": action, "content": map[string]any{}}},
	})
}

// A program that can show a question is told to before anything is deleted. What was answered counts for the call that was
// asked about, from the program that asked, and for nothing else.
func TestMCPAsksBeforeItDestroys(t *testing.T) {
	t.Parallel()
	w := newToolWorld(t)
	byKey := clientKey(t, w.s, w.ada, "write:tables")
	w.user.asks, byKey.asks = true, true
	three := `{"table": "notes", "filters": [{"column": "id", "op": "in", "value": [1, 2, 11]}]}`
	all := `{"table": "notes", "filters": [{"column": "id", "op": "gt", "value": 0}]}`
	var question toolAnswer
	w.unchanged(t, func() {
		question = w.user.call(t, "delete_records", three)
		asked, err := json.Marshal(question.result["inputRequests"])
		if err != nil || question.result["resultType"] != "input_required" || !strings.Contains(string(asked), "Delete 2 records of notes on branch main?") {
			t.Fatalf("asked %s, answered %s", asked, question.body)
		}
		if got := w.user.again(t, "delete_records", three, question, "decline"); !got.failed || !strings.Contains(got.text, "declined") {
			t.Errorf("a declined call was answered %s", got.body)
		}
		if got := w.user.again(t, "delete_records", three, question, "cancel"); !got.failed {
			t.Errorf("a call without an answer was answered %s", got.body)
		}
		for name, other := range map[string]func() toolAnswer{
			"other arguments": func() toolAnswer { return w.user.again(t, "delete_records", all, question, "accept") },
			"another tool": func() toolAnswer {
				return w.user.again(t, "update_records", strings.Replace(three, `"table"`, `"values": {"body": "x"}, "table"`, 1), question, "accept")
			},
			"another branch": func() toolAnswer {
				return w.user.at("?branch=lab").again(t, "delete_records", three, question, "accept")
			},
			"another program of hers": func() toolAnswer { return byKey.again(t, "delete_records", three, question, "accept") },
			"no state": func() toolAnswer {
				none := question
				none.result = maps.Clone(question.result)
				none.result["requestState"] = ""
				return w.user.again(t, "delete_records", three, none, "accept")
			},
		} {
			if got := other(); got.code == 0 && !got.failed {
				t.Errorf("the answer counts for %s: %s", name, got.body)
			}
		}
	})
	got := w.user.again(t, "delete_records", three, question, "accept")
	if lack := within(map[string]any{"affected": 2.0}, got.structured); lack != "" {
		t.Errorf("%s: %s", lack, got.body)
	}
	// An answer counts once where what it was about is done: the question would be another one now.
	w.unchanged(t, func() { w.user.again(t, "delete_records", three, question, "accept") })
	diff(t, "notes that are left", "3 4 11 12", one(t, w.main, "select string_agg(id::text, ' ' order by id) from notes"))
}
