package users

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/db"
)

// ending is what ended in a transaction, to be passed to finish when it is committed.
type ending struct {
	sessions []uuid.UUID
	// credentials tells that keys or grants ended, which other parts of this process may remember.
	credentials bool
}

// finish makes this process refuse at once what ended; the others hear of it by notification.
func (s *Service) finish(e ending) {
	s.revoke(e.sessions)
	if e.credentials {
		s.changed()
	}
}

// proofReason is why grants ended, in their rows and in the audit log.
const proofReason = "address_proved"

// endBefore ends everything that was given out in the name of a user whose mailbox nobody had shown to have until now.
// Anybody can sign up with somebody else's address; what they got for it must not outlive the moment in which the owner
// comes. That is: sessions with their tokens, client keys, OAuth grants with their codes and tokens, and mails on their
// way. The password is for the caller to replace. The user's row must be locked, so that whoever creates a key or a grant
// at the same time is either before this, or sees that their session has ended.
func (s *Service) endBefore(ctx context.Context, q *db.Queries, user User) (ending, error) {
	sessions, err := s.end(ctx, q, db.EndSessionsParams{UserID: user.ID})
	if err != nil {
		return ending{}, err
	}
	keys, err := q.RevokeUserKeys(ctx, user.ID)
	if err != nil {
		return ending{}, fmt.Errorf("revoking a user's keys: %w", err)
	}
	grants, err := q.RevokeUserOAuthGrants(ctx, db.RevokeUserOAuthGrantsParams{UserID: &user.ID, Reason: proofReason})
	if err != nil {
		return ending{}, fmt.Errorf("revoking a user's grants: %w", err)
	}
	if err := q.CancelAllMailTokens(ctx, db.CancelAllMailTokensParams{UserID: user.ID, Email: user.Email}); err != nil {
		return ending{}, fmt.Errorf("cancelling mails: %w", err)
	}
	return ending{sessions, keys > 0 || grants > 0}, nil
}
