package rows

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// defaultStatements bounds a connection's prepared statements: every one is held in the server's process, too.
const defaultStatements = 256

// SetCacheSize bounds the number of statements that stay prepared on a connection; at least one does. The default is 256.
func SetCacheSize(conn *pgconn.PgConn, statements int) error {
	st, err := stateOf(conn)
	if err != nil {
		return err
	}
	st.cache.limit = max(statements, 1)
	for len(st.cache.entries) > st.cache.limit {
		st.cache.drop(st.cache.newest.prev)
	}
	return nil
}

// cacheKey tells statements apart. Plans depend on the role where row-level security does: statements that different
// roles share would be planned again at every change of role.
type cacheKey struct{ role, sql string }

// prepared is a statement that the server holds under a name.
type prepared struct {
	key  cacheKey
	name string
	// serial is that of the transaction in which the statement was last run: it holds the locks that keep the statement
	// valid until its end.
	serial     uint64
	prev, next *prepared // a ring in the order of use
}

// cache holds the prepared statements of a connection, the least recently used going first.
//
// A statement's name is a digest of what it says: behind a pooler, the server's session may be another than the one that
// the statement was prepared in, and a name that means one thing in all sessions can be missing there, but can never run
// something else.
type cache struct {
	limit   int
	entries map[cacheKey]*prepared
	newest  *prepared
	closing []string // names of statements to close at the next opportunity
}

// use marks a statement as the most recently used.
func (c *cache) use(p *prepared) {
	if p != c.newest {
		c.unlink(p)
		c.link(p)
	}
}

// add makes room for a statement that is named for its text and the schema that it was compiled against. The caller has
// it closed, in case that the server holds one of this name, and parsed.
func (c *cache) add(key cacheKey, schema, text string) *prepared {
	if len(c.entries) >= c.limit {
		c.drop(c.newest.prev)
	}
	p := &prepared{key: key, name: statementName(schema, key.role, text)}
	c.closing = slices.DeleteFunc(c.closing, func(name string) bool { return name == p.name })
	c.entries[key] = p
	c.link(p)
	return p
}

// statementName is a digest of 128 bits, of which no two statements have the same.
func statementName(schema, role, text string) string {
	h := sha256.New()
	for _, part := range []string{schema, role, text} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return "bough_" + hex.EncodeToString(h.Sum(nil)[:16])
}

// drop removes a statement, and has the server's copy closed with the next pipeline: nothing in the present one is kept
// from using it. If it is added again before, it is closed then and there.
func (c *cache) drop(p *prepared) {
	if c.remove(p) {
		c.close(p.name)
	}
}

// close has a statement closed with the next pipeline.
func (c *cache) close(name string) {
	if !slices.Contains(c.closing, name) {
		c.closing = append(c.closing, name)
	}
}

// remove removes a statement. It reports false if it had been removed before.
func (c *cache) remove(p *prepared) bool {
	if c.entries[p.key] != p {
		return false
	}
	delete(c.entries, p.key)
	c.unlink(p)
	return true
}

func (c *cache) link(p *prepared) {
	if c.newest == nil {
		p.prev, p.next = p, p
	} else {
		p.next, p.prev = c.newest, c.newest.prev
		p.prev.next, p.next.prev = p, p
	}
	c.newest = p
}

func (c *cache) unlink(p *prepared) {
	switch {
	case p.next == p:
		c.newest = nil
	case c.newest == p:
		c.newest = p.next
	}
	p.prev.next, p.next.prev = p.next, p.prev
}

// text is what the server is given to parse. The role in the comment is for poolers that share statements of the same
// text between sessions, and for those who read pg_stat_activity. It stands at the end to leave the positions in error
// messages alone.
func (k cacheKey) text() string {
	if k.role == "" || k.role == settingsRole {
		return k.sql
	}
	return k.sql + " /* " + strings.NewReplacer("*", "_", "\x00", "_").Replace(k.role) + " */"
}
