// Package audit keeps the record of what applications and assistants did: it adds entries and lists them. What is worth an
// entry is decided where it happens.
package audit

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
)

// Area is the part of the server that an entry is from.
type Area string

// The areas.
const (
	OAuth Area = "oauth"
	MCP   Area = "mcp"
)

// Outcomes of what was done.
const (
	OK     = "ok"
	Denied = "denied"
	Failed = "error"
)

// Entry is an entry of the log.
type Entry = db.AuditEntry

// Log is the record in the control database.
type Log struct{ pool *pgxpool.Pool }

// New returns the log.
func New(pool *pgxpool.Pool) *Log { return &Log{pool} }

// Action is something that a caller did.
type Action struct {
	Area                                             Area
	Name, Outcome                                    string
	Principal                                        *auth.Principal
	ClientID, ClientName, Branch, Address, RequestID string // "" where there is none
	// DurationMs is how long it took, in milliseconds.
	DurationMs float64
	Details    map[string]any
}

// Record adds an entry. It is on record for everybody at once, and on the disk a moment later.
func (l *Log) Record(ctx context.Context, a Action) error {
	details := []byte("{}")
	if len(a.Details) > 0 {
		var err error
		if details, err = json.Marshal(a.Details); err != nil {
			return fmt.Errorf("writing the details of an entry: %w", err)
		}
	}
	params := db.InsertAuditParams{
		Area: string(a.Area), Action: a.Name, Outcome: a.Outcome, ClientID: optional(a.ClientID), ClientName: optional(a.ClientName),
		Branch: optional(a.Branch), IP: optional(a.Address), RequestID: optional(a.RequestID), DurationMs: &a.DurationMs, Details: details,
	}
	if p := a.Principal; p != nil {
		if !p.Service {
			params.UserID = &p.ID
		}
		if p.KeyID != uuid.Nil {
			params.KeyID = &p.KeyID
		}
		if p.ClientID != "" {
			params.ClientID = &p.ClientID
		}
	}
	if err := db.New(l.pool).InsertAudit(ctx, params); err != nil {
		return fmt.Errorf("recording %s: %w", a.Name, err)
	}
	return nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Sweep removes what is older than 90 days, a part at a time.
func (l *Log) Sweep(ctx context.Context) error {
	if _, err := db.New(l.pool).SweepAudit(ctx); err != nil {
		return fmt.Errorf("sweeping the audit log: %w", err)
	}
	return nil
}

// Filter chooses entries; what is zero chooses all.
type Filter struct {
	Area             Area
	Action, ClientID string
	UserID           *uuid.UUID
}

// List returns entries, newest first, and how many there are in all.
func (l *Log) List(ctx context.Context, p *auth.Principal, f Filter, limit, offset int32) ([]Entry, int64, error) {
	if !p.Unbound() {
		return nil, 0, auth.ErrDenied.Msgf("the audit log is for administrators and service keys")
	}
	q := db.New(l.pool)
	area, action, client := optional(string(f.Area)), optional(f.Action), optional(f.ClientID)
	entries, err := q.ListAudit(ctx, db.ListAuditParams{Area: area, Action: action, ClientID: client, UserID: f.UserID, MaxRows: limit, SkipRows: offset})
	if err != nil {
		return nil, 0, fmt.Errorf("listing the audit log: %w", err)
	}
	total, err := q.CountAudit(ctx, db.CountAuditParams{Area: area, Action: action, ClientID: client, UserID: f.UserID})
	return entries, total, err
}
