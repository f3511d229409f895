package branching

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
)

// Events of branches that others are told of.
const (
	eventCreated  = "branch.created"
	eventReady    = "branch.ready"
	eventFailed   = "branch.failed"
	eventReset    = "branch.reset"
	eventUpdated  = "branch.updated"
	eventExpiring = "branch.expiring"
	eventDeleted  = "branch.deleted"
)

// Publisher hands on an event with what it is about, in the transaction of the change that it tells of.
type Publisher func(ctx context.Context, tx pgx.Tx, event string, data any) error

// SetPublisher gives the service somebody to tell of what happens to branches. Without one nobody is told.
func (s *Service) SetPublisher(p Publisher) { s.publish = p }

// told is what an event says of a branch: what the API says, without the way to its database.
type told struct {
	ID               uuid.UUID        `json:"id"`
	Name             string           `json:"name"`
	Slug             string           `json:"slug"`
	Status           db.BranchStatus  `json:"status"`
	Type             db.BranchType    `json:"type"`
	DataCloneMode    db.DataCloneMode `json:"data_clone_mode"`
	ParentBranchID   *uuid.UUID       `json:"parent_branch_id"`
	CreatedBy        string           `json:"created_by"`
	CreatedAt        time.Time        `json:"created_at"`
	UpdatedAt        time.Time        `json:"updated_at"`
	ExpiresAt        *time.Time       `json:"expires_at"`
	ResetAt          *time.Time       `json:"reset_at"`
	ErrorMessage     *string          `json:"error_message"`
	ErrorCode        *string          `json:"error_code"`
	RepohostRepo     *string          `json:"repohost_repo,omitempty"`
	RepohostPRNumber *int32           `json:"repohost_pr_number,omitempty"`
	RepohostPRURL    *string          `json:"repohost_pr_url,omitempty"`
	// Actor is the user, service key or repository configuration that asked for it; nil when nobody did.
	Actor *string `json:"actor"`
	occasion
}

// occasion is what only some events say.
type occasion struct {
	Reason    string   `json:"reason,omitempty"`    // of branch.deleted: requested or expired
	Operation string   `json:"operation,omitempty"` // of branch.failed: create or reset, none where the database was lost
	Error     string   `json:"error,omitempty"`     // of branch.failed
	Changed   []string `json:"changed,omitempty"`   // of branch.updated: the names of the fields
}

// tell publishes an event about a branch.
func (s *Service) tell(ctx context.Context, tx pgx.Tx, event string, b Branch, actor string, more occasion) error {
	if s.publish == nil {
		return nil
	}
	data := told{
		ID: b.ID, Name: b.Name, Slug: b.Slug, Status: b.Status, Type: b.Type, DataCloneMode: b.DataCloneMode, ParentBranchID: b.ParentID,
		CreatedBy: b.CreatedBy, CreatedAt: b.CreatedAt.UTC(), UpdatedAt: b.UpdatedAt.UTC(), ExpiresAt: utc(b.ExpiresAt), ResetAt: utc(b.ResetAt),
		ErrorMessage: b.ErrorMessage, ErrorCode: b.ErrorCode, RepohostRepo: b.RepohostRepo, RepohostPRNumber: b.RepohostPRNumber, RepohostPRURL: b.RepohostPRURL,
		occasion: more,
	}
	if actor != "" {
		data.Actor = &actor
	}
	if err := s.publish(ctx, tx, event, data); err != nil {
		return fmt.Errorf("publishing %s: %w", event, err)
	}
	return nil
}

// announceExpiries tells of branches whose time is almost over, once for each expiry that a branch is given.
func (s *Service) announceExpiries(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		expiring, err := db.New(tx).ClaimExpiring(ctx, s.cfg.ExpiringNotice.Seconds())
		if err != nil {
			return err
		}
		for _, b := range expiring {
			if err := s.tell(ctx, tx, eventExpiring, b, "", occasion{}); err != nil {
				return err
			}
		}
		return nil
	})
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
