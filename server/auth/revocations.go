package auth

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/db"
)

// LoadRevocations reads which sessions and users have ended although their access tokens have not expired. It is called
// at the start, whenever notifications may have been missed, and from time to time.
func (t *Tokens) LoadRevocations(ctx context.Context) error {
	began := time.Now()
	rows, err := db.New(t.pool).ListRevocations(ctx)
	if err != nil {
		return fmt.Errorf("reading the sessions that have ended: %w", err)
	}
	loaded := make(map[uuid.UUID]time.Time, len(rows))
	for _, row := range rows {
		loaded[row.ID] = row.Until
	}
	t.known.Lock()
	defer t.known.Unlock()
	// What was revoked here while the rows were read is not in them; it is kept until the next time.
	for id, until := range t.revoked {
		if _, ok := loaded[id]; !ok && until.After(began) && t.fresh[id].After(began.Add(-revocationGrace)) {
			loaded[id] = until
		}
	}
	t.revoked = loaded
	for id, at := range t.fresh {
		if at.Before(began.Add(-revocationGrace)) {
			delete(t.fresh, id)
		}
	}
	return nil
}

// A revocation that is not in the rows that were read may still be on its way into them for so long.
const revocationGrace = 10 * time.Second

// Revoke makes the access tokens of a session or a user refused until the time. A time that has passed accepts them again.
func (t *Tokens) Revoke(id uuid.UUID, until time.Time) {
	t.known.Lock()
	defer t.known.Unlock()
	if !until.After(time.Now()) {
		delete(t.revoked, id)
		delete(t.fresh, id)
		return
	}
	t.revoked[id] = until
	t.fresh[id] = time.Now()
}

// Notified takes the notification of a revocation: an id and a Unix time, 0 for one that was taken back.
func (t *Tokens) Notified(payload string) {
	text, seconds, _ := strings.Cut(payload, " ")
	id, err := uuid.Parse(text)
	if err != nil {
		return
	}
	until, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return
	}
	t.Revoke(id, time.Unix(until, 0))
}

func (t *Tokens) isRevoked(id uuid.UUID, now time.Time) bool {
	if id == uuid.Nil {
		return false
	}
	t.known.Lock()
	defer t.known.Unlock()
	return t.revoked[id].After(now)
}
