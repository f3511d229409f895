package httpapi_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/servertest"
)

// recorder keeps what the audit log is to have.
type recorder struct {
	mu   sync.Mutex
	want map[string]onRecord // by request id
}

// onRecord is a call as the audit log has it.
type onRecord struct {
	Action, Outcome, Code, Client string
	Branch                        string // of calls that worked on one
	User, Key                     bool
}

func (r *recorder) add(tool, args string, a assistant, got toolAnswer) {
	if r == nil {
		return
	}
	e := onRecord{Action: tool, Outcome: "ok", Client: "Acceptance"}
	switch {
	case got.refusal != "":
		e.Outcome, e.Code = "denied", got.refusal
	case got.code != 0:
		e.Outcome = "denied"
	case got.failed:
		e.Outcome = "error"
		if _, code, ok := strings.Cut(got.text, "\nCode: "); ok {
			e.Code, _, _ = strings.Cut(code, "\n")
		}
	}
	if e.Outcome == "ok" && !strings.Contains(tool, "branch") {
		e.Branch = "main"
		if strings.Contains(args, `"branch": "lab"`) {
			e.Branch = "lab"
		}
	}
	e.Key = a.headers[0] != "Authorization"
	e.User = a.headers[0] != "X-Service-Key"
	r.mu.Lock()
	defer r.mu.Unlock()
	r.want[got.header.Get("X-Request-Id")] = e
}

// check compares the audit log with the calls that were made.
func (r *recorder) check(t *testing.T, s *servertest.Server) {
	t.Helper()
	area, limit := client.AuditAreaMCP, int32(100)
	got := map[string]onRecord{}
	for offset := int32(0); ; offset += limit {
		list := must[*client.ListAuditResponse](t, 200)(s.Service(t).ListAuditWithResponse(t.Context(), &client.ListAuditParams{Area: &area, Limit: &limit, Offset: &offset})).JSON200
		for _, e := range list.Entries {
			entry := onRecord{Action: e.Action, Outcome: e.Outcome, User: e.UserID != nil, Key: e.KeyID != nil}
			entry.Code, _ = e.Details["code"].(string)
			if e.Branch != nil && e.Outcome == "ok" {
				entry.Branch = *e.Branch
			}
			if e.ClientName != nil {
				entry.Client = *e.ClientName
			}
			if e.RequestID == nil || e.DurationMs == nil || e.Area != area {
				t.Errorf("an entry lacks something: %+v", e)
				continue
			}
			if _, twice := got[*e.RequestID]; twice {
				t.Errorf("two entries for one call: %+v", e)
			}
			got[*e.RequestID] = entry
		}
		if len(list.Entries) < int(limit) {
			break
		}
	}
	diff(t, "the audit log", r.want, got)
}
