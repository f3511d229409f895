// Package tables serves the records of a database: it reads, creates, changes and deletes them and calls functions, as
// the caller's database role. A request is parsed by package query, compiled by package compile against the catalog that
// package introspect keeps, and run by package rows in one round trip. What is left for this package is what a request
// means: the two dialects, preferences, keys, pages, entity tags, and batches.
package tables

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/limits"
	"github.com/boughdb/bough/server/postgres"
)

// Dialect is a set of defaults: what a request means that does not say so. Everything else is common to both mounts.
type Dialect struct {
	// Representation makes writes return the records unless asked not to.
	Representation bool
	// SingleObject makes one posted object answer with an object instead of an array of one.
	SingleObject bool
	// MissingDefault gives columns that a record leaves out their defaults, also where other records of the body have them.
	MissingDefault bool
	// RequireFilter refuses writes to all rows that do not say that they mean it.
	RequireFilter bool
	// PluralNames lets a path name a relation by its plural.
	PluralNames bool
	// RecordPaths are the paths of single records.
	RecordPaths bool
	// BareErrors are PostgREST's: code, message, details and hint, and nothing else.
	BareErrors bool
}

// The dialects of /api/v1/tables and of /rest/v1.
var (
	Bough     = Dialect{Representation: true, SingleObject: true, MissingDefault: true, RequireFilter: true, PluralNames: true, RecordPaths: true}
	PostgREST = Dialect{BareErrors: true}
)

// Config are the settings of the tables API.
type Config struct {
	// Schemas are the exposed schemas; the first is the default.
	Schemas []string
	// Explain allows clients to ask for plans (application/vnd.pgrst.plan).
	Explain bool
	// MaxRows bounds the rows of one answer; 0 for no bound.
	MaxRows int64
	// MaxBody bounds the bytes of a request's body.
	MaxBody int64
	// MaxColumns bounds the items of select, those of embedded relations included; 0 for no bound.
	MaxColumns int
	// MaxHeld bounds the bytes of an answer that is held in memory until it is whole, as those of writes are; 0 for no bound.
	MaxHeld int
	// Memory bounds the memory of large records and answers of all requests together; nil for no bound.
	Memory *limits.Budget
	// StatementTimeout bounds each statement; 0 for none.
	StatementTimeout time.Duration
	// Roles are the database roles that requests run as.
	Roles postgres.DataRoles
	// Unnamed does without prepared statements: a pooler gives each transaction another session.
	Unnamed bool
	// TextForm are settings of each request on which the form of values depends; nil where the sessions have them.
	TextForm map[string]string
}

// Service serves the records of main and the branches.
type Service struct {
	cfg     Config
	schemas *introspect.Cache
	acquire func(ctx context.Context, database string) (*postgres.Conn, error)
	log     *slog.Logger

	textForm []string // the names in Config.TextForm, in one order
}

// New returns the service. acquire opens a connection to a database.
func New(cfg Config, schemas *introspect.Cache, acquire func(ctx context.Context, database string) (*postgres.Conn, error), log *slog.Logger) *Service {
	return &Service{cfg: cfg, schemas: schemas, acquire: acquire, log: log, textForm: slices.Sorted(maps.Keys(cfg.TextForm))}
}

// MaxBody is the most bytes that a request's body may have.
func (s *Service) MaxBody() int64 { return s.cfg.MaxBody }

// The methods of a Call: what it does.
const (
	methodGet    = "GET"
	methodHead   = "HEAD"
	methodPost   = "POST"
	methodPut    = "PUT"
	methodPatch  = "PATCH"
	methodDelete = "DELETE"
)

// Call is a request for records or for a function's result.
type Call struct {
	Dialect   *Dialect
	Principal *auth.Principal // nil for a request without credentials
	Database  string
	// Client is the address of a caller without credentials.
	Client string
	// Method is GET, HEAD, POST, PUT, PATCH or DELETE.
	Method string
	// Path is the request's path, as in request.path and in links to other pages.
	Path string
	// Table or Function is what the path names.
	Table, Function string
	// Key are the parts of a record's key, decoded; nil where the path names no record. RawKey is the undivided one.
	Key    []string
	RawKey string
	Query  string // raw
	// Headers is a JSON object of all headers but credentials, by lower-case name, for request.headers.
	Headers string
	Prefer  []string
	Accept, ContentType, Range, IfMatch, IfNoneMatch,
	AcceptProfile, ContentProfile string
	Body io.Reader // nil for none
}

// Outcome is how a request went well: the HTTP status of its answer.
type Outcome int

// The outcomes.
const (
	OK          Outcome = 200
	Created     Outcome = 201
	NoContent   Outcome = 204
	Partial     Outcome = 206
	NotModified Outcome = 304
)

// Head is what an answer begins with.
type Head struct {
	Outcome      Outcome
	ContentType  string
	ContentRange string
	ETag         string
	Location     string
	Link         string
	Applied      string // Preference-Applied
	Profile      string // Content-Profile
	// Length is the body's length in bytes; -1 while that is not known.
	Length int

	empty bool // there is nothing to return
}

// Answer takes an answer: first its head, once, then the body is written to what Begin returned. Where that waits for a
// client, it has a method Abort, which makes the Write at work fail.
type Answer interface {
	Begin(h *Head) (io.Writer, error)
}

// Serve answers a request. An error that errors.Is finds to be rows.ErrAborted comes after a part of the body has been
// sent: the connection to the client must be broken, so that the answer does not look complete. After any other error
// nothing has been sent.
func (s *Service) Serve(ctx context.Context, c *Call, a Answer) error {
	r, err := s.request(ctx, c)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		err := r.serve(ctx, a)
		if !r.begun && attempt < maxAttempts && lostRace(err) {
			continue
		}
		// The catalog says what is not, or not what is: it may have changed a moment ago.
		if err == nil || r.begun || attempt == maxAttempts || !r.outdated(err) {
			return explain(c, err)
		}
		fresh, failed := s.schemas.RefreshUnlessFresh(ctx, c.Database, r.schema)
		if failed != nil || fresh == r.schema {
			return explain(c, err)
		}
		r.schema = fresh
	}
}

// lostRace reports whether PostgreSQL rolled the statements back for the sake of others, as it does to end a deadlock.
// They are done again: nothing has come of them.
func lostRace(err error) bool {
	switch sqlState(err) {
	case "40P01", "40001":
		return true
	}
	return false
}

// maxAttempts is how often a request is tried while the schema changes under it, or others win.
const maxAttempts = 4

// outdated reports whether an error may come from a catalog that is out of date.
func (r *request) outdated(err error) bool {
	var f *fault.Error
	if errors.As(err, &f) {
		switch f.Code {
		case "42703", "42P01", "PGRST200", "PGRST202", "PGRST204", "PGRST205", "PGRST118":
			return true
		}
		return false
	}
	switch sqlState(err) {
	case "42703", "42P01", "42804", "42883", "42704", "0A000", "42P10":
		return true
	}
	return false
}

// caller is what a caller is, in the words of postgres.DataRoles.
func caller(p *auth.Principal) string {
	switch {
	case p == nil:
		return auth.RoleAnon
	case p.Service:
		return auth.RoleService
	}
	return auth.RoleAuthenticated
}

// Role is the database role that a caller's requests run as, "" for the connection's own; nil is a caller without
// credentials.
func (s *Service) Role(p *auth.Principal) (string, error) { return s.cfg.Roles.Session(caller(p)) }

// Identity is the caller's database role, and the claims that row-level security policies see, as JSON.
func (s *Service) Identity(p *auth.Principal) (role, claims string, err error) {
	role, err = s.Role(p)
	switch {
	case err != nil:
		return "", "", err
	case p == nil || p.Service:
		return role, `{"role":` + quoteJSON(caller(p)) + `}`, nil
	case p.ClaimsJSON == "":
		claims = `{"role":` + quoteJSON(caller(p)) + `,"sub":"` + p.ID.String() + `"`
		if p.Scopes != nil {
			claims += `,"scope":` + quoteJSON(strings.Join(p.Scopes, " "))
		}
		return role, claims + "}", nil
	}
	return role, p.ClaimsJSON, nil
}

func quoteJSON(s string) string {
	data, _ := json.Marshal(s) // a string always has JSON
	return string(data)
}
