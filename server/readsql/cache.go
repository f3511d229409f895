package readsql

import (
	"container/list"
	"regexp"
	"strings"
	"sync"
	"time"
)

// key is what a verdict holds for.
type key struct {
	database, version, role, sql string
	unbound                      bool
}

// cache keeps the verdicts on the statements that were used last.
type cache struct {
	size int
	ttl  time.Duration
	now  func() time.Time

	mu      sync.Mutex
	entries map[key]*list.Element
	order   *list.List // of *cached, the one used last in front
}

type cached struct {
	key     key
	verdict *verdict
	until   time.Time
}

func newCache(size int, ttl time.Duration) *cache {
	return &cache{size: size, ttl: ttl, now: time.Now, entries: map[key]*list.Element{}, order: list.New()}
}

// get returns a verdict; nil where there is none, or none of late.
func (c *cache) get(k key) *verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[k]
	if e == nil {
		return nil
	}
	if v := e.Value.(*cached); c.now().Before(v.until) {
		c.order.MoveToFront(e)
		return v.verdict
	}
	c.remove(e)
	return nil
}

func (c *cache) put(k key, v *verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[k]; e != nil {
		c.remove(e)
	}
	c.entries[k] = c.order.PushFront(&cached{k, v, c.now().Add(c.ttl)})
	if c.order.Len() > c.size {
		c.remove(c.order.Back())
	}
}

func (c *cache) remove(e *list.Element) {
	c.order.Remove(e)
	delete(c.entries, e.Value.(*cached).key)
}

// moments are the words that a date or time type reads as a moment, and what may hide one: PostgreSQL reads literals when
// it analyses a statement, so that date 'today' is a certain day from then on.
var moments = regexp.MustCompile(`(?i)now|today|tomorrow|yesterday|\\|u&`)

// dated reports whether what a statement means may depend on when it was analysed.
func dated(sql string) bool {
	return moments.MatchString(strings.ReplaceAll(sql, "now()", ""))
}
