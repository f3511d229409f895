package oauth

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/db"
)

// entry is what the audit log keeps of something.
type entry struct {
	action       string
	denied       bool      // something was refused, not done
	user         uuid.UUID // whose grant it is; zero for nobody's
	client, name string
	ip           string
	details      map[string]any
}

// record writes an entry in the transaction of what it tells of.
func record(ctx context.Context, q *db.Queries, e entry) error {
	details, err := json.Marshal(e.details)
	if err != nil {
		return err
	}
	params := db.RecordAuditParams{
		Area: "oauth", Action: e.action, Outcome: "ok", ClientID: &e.client, ClientName: &e.name, Details: details,
	}
	if e.ip != "" {
		params.IP = &e.ip
	}
	if e.denied {
		params.Outcome = "denied"
	}
	if e.details == nil {
		params.Details = json.RawMessage("{}")
	}
	if e.user != uuid.Nil {
		params.UserID = &e.user
	}
	if err := q.RecordAudit(ctx, params); err != nil {
		return fmt.Errorf("recording %s: %w", e.action, err)
	}
	return nil
}
