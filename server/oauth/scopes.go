package oauth

import (
	"slices"
	"strings"

	"github.com/boughdb/bough/server/auth"
)

// Scope is something that a user may allow a client.
type Scope struct {
	Name        string
	Title       string // in a few plain words, for people
	Description string
	Write       bool // lets the client change something
	Admin       bool // only administrators can allow it
}

// scopes are in the order in which people read them.
var scopes = []Scope{
	{Name: auth.ReadTables, Title: "Read your data", Description: "Query database tables"},
	{Name: auth.WriteTables, Title: "Change your data", Description: "Insert, update, delete records", Write: true},
	{Name: auth.ExecuteFunctions, Title: "Call functions", Description: "Invoke edge functions", Write: true},
	{Name: auth.ExecuteRPC, Title: "Call database procedures", Description: "Execute RPC procedures", Write: true},
	{Name: auth.ReadStorage, Title: "Read your files", Description: "List and download files"},
	{Name: auth.WriteStorage, Title: "Change your files", Description: "Upload and delete files", Write: true},
	{Name: auth.ExecuteJobs, Title: "Run jobs", Description: "Submit and monitor jobs", Write: true},
	{Name: auth.ReadVectors, Title: "Search by similarity", Description: "Vector similarity search"},
	{Name: auth.ReadSchema, Title: "See how the database is built", Description: "Access database schema"},
	{Name: auth.ReadBranches, Title: "See branches", Description: "List branches and compare them"},
	{Name: auth.WriteBranches, Title: "Create, reset and delete branches", Description: "Make copies of the database to work on, and remove them", Write: true, Admin: true},
	{Name: auth.WriteSchema, Title: "Change how the database is built", Description: "Apply migrations to branches", Write: true, Admin: true},
}

// defaultScopes is how many of the scopes, from the first, a request gets that names none.
const defaultScopes = 9

// Scopes returns all scopes that there are.
func Scopes() []Scope { return slices.Clone(scopes) }

// Offer says which scopes lead to something at present. Users are asked for no others, and grants have no others: what is
// built later is not to be open to applications whose users were never asked about it. Without it, all are offered. It
// must be called before the service is used.
func (s *Service) Offer(names []string) {
	s.offered = map[string]bool{}
	for _, name := range names {
		s.offered[name] = true
	}
}

// offers returns those of the scopes that lead to something.
func (s *Service) offers(names []string) []string {
	if s.offered == nil {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !s.offered[name] })
}

// DefaultScopes returns the names of the scopes that are asked for by a request, and a client, that names none.
func (s *Service) DefaultScopes() []string { return s.offers(scopeNames(scopes[:defaultScopes])) }

func scopeNames(of []Scope) []string {
	names := make([]string, len(of))
	for i, scope := range of {
		names[i] = scope.Name
	}
	return names
}

// Scopes of OpenID Connect mean nothing here. Clients ask for them by habit: refresh tokens are issued without, and there
// are no id tokens.
var ignoredScopes = []string{"offline_access", "openid", "profile", "email"}

const maxScope = 2 << 10

// parseScopes reads a scope parameter (RFC 6749, section 3.3): names with one space between. Each is returned once, in the
// order of Scopes; those without meaning are left out.
func parseScopes(text string) ([]string, *Error) {
	if len(text) > maxScope {
		return nil, ErrInvalidScope.say("scope must have at most %d characters", maxScope)
	}
	asked := map[string]bool{}
	if text != "" {
		for name := range strings.SplitSeq(text, " ") {
			if !isScopeToken(name) {
				return nil, ErrInvalidScope.say("scope must be names with one space between them")
			}
			if slices.Contains(ignoredScopes, name) {
				continue
			}
			if !slices.ContainsFunc(scopes, func(s Scope) bool { return s.Name == name }) {
				return nil, ErrInvalidScope.say("there is no scope %s", name)
			}
			asked[name] = true
		}
	}
	return inOrder(asked), nil
}

// knownScopes returns the scopes of a text that there are, and leaves out whatever else is in it.
func knownScopes(text string) []string {
	asked := map[string]bool{}
	for _, name := range strings.Fields(text) {
		asked[name] = true
	}
	return inOrder(asked)
}

func inOrder(asked map[string]bool) []string {
	names := []string{}
	for _, scope := range scopes {
		if asked[scope.Name] {
			names = append(names, scope.Name)
		}
	}
	return names
}

// isScopeToken reports whether the text has one character or more, all of which may be in a scope's name.
func isScopeToken(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '"' || r == '\\'
	}) < 0
}

// permitted returns those of the scopes that a user may allow, or have allowed, at present.
func permitted(names []string, admin bool) []string {
	may := map[string]bool{}
	for _, scope := range scopes {
		may[scope.Name] = (admin || !scope.Admin) && slices.Contains(names, scope.Name)
	}
	return inOrder(may)
}

// described returns the scopes of these names.
func described(names []string) []Scope {
	found := make([]Scope, 0, len(names))
	for _, scope := range scopes {
		if slices.Contains(names, scope.Name) {
			found = append(found, scope)
		}
	}
	return found
}
