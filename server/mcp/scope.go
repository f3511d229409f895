package mcp

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/yosida95/uritemplate/v3"

	"github.com/boughdb/bough/server/auth"
)

// adminScopes are of use to administrators only, whatever a token says.
var adminScopes = []string{auth.WriteBranches, "write:schema"}

// operation is what a caller may be allowed to do: to call a tool, to read a document, to get a prompt.
type operation struct {
	kind     string // "tool", "resource" or "prompt", for messages
	name     string
	feature  Feature
	scopes   []string
	readOnly bool
	admin    bool                  // for administrators only, whatever the scopes say
	template *uritemplate.Template // nil for what is no template
}

// permits reports whether the caller may; scopes nil is a caller who is not narrowed.
func (o *operation) permits(p *auth.Principal) bool {
	return (p.Admin || !o.admin) && !slices.ContainsFunc(o.scopes, func(scope string) bool { return !holds(p, scope) })
}

func holds(p *auth.Principal, scope string) bool {
	if slices.Contains(adminScopes, scope) && !p.Admin {
		return false
	}
	return p.Scopes == nil || slices.Contains(p.Scopes, scope)
}

// visible reports whether lists show the operation.
func (c *caller) visible(o *operation) bool {
	return o != nil && c.narrow.offers(o.feature, o.readOnly) && o.permits(c.principal)
}

// operation finds what a message asks to do; nil for what everybody may, and for what there is not.
func (s *Server) operation(m *message) *operation {
	switch m.method {
	case "tools/call":
		return s.tools[m.name]
	case "prompts/get":
		return s.prompts[m.name]
	case "resources/read", "resources/subscribe":
		return s.document(m.uri)
	}
	return nil
}

// document finds the resource or the template that an address is of, as the library does: the resource first, then the
// templates in their order.
func (s *Server) document(uri string) *operation {
	if o := s.resources[uri]; o != nil {
		return o
	}
	for _, o := range s.templates {
		if o.template.Regexp().MatchString(uri) {
			return o
		}
	}
	return nil
}

// forbid is the refusal of messages that the caller has not the scopes for; nil if it has them. It names all scopes of
// all that was asked, so that a client asks for them once. To ask for more is of no use to somebody who is no
// administrator where that is what is missing.
func (s *Server) forbid(c *caller, messages []message) *refusal {
	var lacking *operation
	var scopes []string
	admin := false
	for i := range messages {
		o := s.operation(&messages[i])
		if o == nil || o.permits(c.principal) {
			continue
		}
		if lacking == nil {
			lacking = o
		}
		admin = admin || o.admin
		for _, scope := range o.scopes {
			if !slices.Contains(scopes, scope) {
				scopes = append(scopes, scope)
			}
		}
	}
	if lacking == nil {
		return nil
	}
	f := &refusal{status: http.StatusForbidden, code: "insufficient_scope"}
	if !c.principal.Admin && (admin || slices.ContainsFunc(scopes, func(scope string) bool { return slices.Contains(adminScopes, scope) })) {
		f.code = "access_denied"
		f.description = fmt.Sprintf("the %s %s is for administrators", lacking.kind, lacking.name)
		return f
	}
	f.description = fmt.Sprintf("the %s %s needs %s", lacking.kind, lacking.name, strings.Join(scopes, " "))
	f.challenge = s.challenge(f.code, f.description, scopes)
	return f
}
