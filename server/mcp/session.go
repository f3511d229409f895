package mcp

import (
	"iter"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Sessions are what clients of the older revisions have.
const (
	sessionIdle = 30 * time.Minute
	// Most sessions of one caller; with one more, the oldest one ends. Clients that crash leave theirs behind.
	maxSessions = 20
	// Most sessions of all callers.
	maxAllSessions = 5000
)

// sessions knows whose the sessions are, oldest first.
type sessions struct {
	mu     sync.Mutex
	owned  map[string][]*sdk.ServerSession
	ending sync.WaitGroup
}

// add notes a session that began, and ends the caller's oldest one where it has too many. Live are those that there are.
func (s *sessions) add(owner string, began *sdk.ServerSession, live iter.Seq[*sdk.ServerSession]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetEnded(live)
	list := slices.Concat(s.owned[owner], []*sdk.ServerSession{began})
	for len(list) > maxSessions {
		oldest := list[0]
		list = list[1:]
		s.ending.Go(func() { _ = oldest.Close() }) // waits for what the session is doing
	}
	s.owned[owner] = list
}

// full reports whether there is no room for another session.
func (s *sessions) full(live iter.Seq[*sdk.ServerSession]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count() < maxAllSessions {
		return false
	}
	s.forgetEnded(live)
	return s.count() >= maxAllSessions
}

func (s *sessions) count() (n int) {
	for _, list := range s.owned {
		n += len(list)
	}
	return n
}

// forgetEnded forgets the sessions that are no more.
func (s *sessions) forgetEnded(live iter.Seq[*sdk.ServerSession]) {
	is := map[*sdk.ServerSession]bool{}
	for session := range live {
		is[session] = true
	}
	for owner, list := range s.owned {
		s.owned[owner] = slices.DeleteFunc(list, func(session *sdk.ServerSession) bool { return !is[session] })
		if len(s.owned[owner]) == 0 {
			delete(s.owned, owner)
		}
	}
}
