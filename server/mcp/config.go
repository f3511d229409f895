package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/yosida95/uritemplate/v3"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
)

// Config is what a server needs.
type Config struct {
	Tools       []Tool
	Resources   []Resource
	Templates   []Template
	Prompts     []Prompt
	Completions []Completion
	// Instructions are told to each assistant when it connects.
	Instructions string
	// Version is the program's.
	Version string

	// Authenticate returns the caller that a request's credential stands for. A *fault.Error of the kind Unauthorized is
	// answered with 401 and a challenge.
	Authenticate func(*http.Request) (*auth.Principal, error)
	// Route finds the branch that a slug or an id names, "" and "main" being main, and its database; access is checked.
	Route func(ctx context.Context, p *auth.Principal, branch string, write bool) (slug, database string, err error)
	// Audit is told of each call of a tool when it is over, refused ones too. It must not take long; nil for nobody.
	Audit func(ctx context.Context, e Event)
	// Fault finds what a caller may know of an error that is not meant for callers, such as a lost connection to a
	// database; nil, or a nil result, for nothing.
	Fault func(error) *fault.Error

	// ResourceURL is where clients reach the server, with its path: {public_base_url}/mcp. Pages of its origin may call.
	ResourceURL string
	// ResourceMetadataURL is where the metadata of RFC 9728 is; "" leaves it out of challenges.
	ResourceMetadataURL string
	// DefaultScopes are the ones that a client without credentials is told to ask for.
	DefaultScopes []string
	// AllowedOrigins are the origins besides the own one and loopback ones whose pages may call; "*" is any.
	AllowedOrigins []string
	RateLimit      RateLimit
	// StateKey signs what clients carry between a question and its answer: at least 32 bytes, the same for all processes
	// that serve one address.
	StateKey []byte
	Log      *slog.Logger
}

// RateLimit bounds the requests of each caller to one process. The zero value is no limit.
type RateLimit struct {
	PerMinute int
	Burst     int // how many may come at once; 0 is PerMinute
}

// Event is a call of a tool, for records.
type Event struct {
	Principal *auth.Principal
	// Client is the name that the caller's program gives itself; "" for none.
	Client, Tool string
	// Branch is the slug of the branch that the tool worked on; "" where it did not come to that or works on none.
	Branch    string
	Outcome   Outcome
	Code      string // of the error, such as validation_error or a SQLSTATE; "" for none
	Duration  time.Duration
	RequestID string
}

// Outcome is how a call ended.
type Outcome string

// The outcomes.
const (
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"  // the tool could not do what was asked
	Refused   Outcome = "refused" // the caller may not, or the tool is not offered at this address
	Asked     Outcome = "asked"   // the person was asked, and the call is to come again
)

var (
	toolName   = regexp.MustCompile(`^[a-z_]{1,64}$`)
	promptName = regexp.MustCompile(`^[a-z_]{1,64}$`)
)

// Scopes are those that tools, resources and prompts need: what a token can have that is of use.
func (cfg *Config) Scopes() []string {
	var scopes []string
	for _, t := range cfg.Tools {
		scopes = append(scopes, t.Scopes...)
	}
	for _, r := range cfg.Resources {
		scopes = append(scopes, r.Scopes...)
	}
	for _, t := range cfg.Templates {
		scopes = append(scopes, t.Scopes...)
	}
	for _, p := range cfg.Prompts {
		scopes = append(scopes, p.Scopes...)
	}
	slices.Sort(scopes)
	return slices.Compact(scopes)
}

// check finds what the program got wrong.
func (cfg *Config) check() error {
	var errs []error
	seen := map[string]bool{}
	thing := func(kind, name string, f Feature, scopes []string, complete bool) {
		if seen[kind+name] {
			errs = append(errs, fmt.Errorf("there are two of the %s %q", kind, name))
		}
		seen[kind+name] = true
		if !complete || len(scopes) == 0 || !slices.Contains(features, f) {
			errs = append(errs, fmt.Errorf("the %s %q lacks its function, its description, its feature or its scopes", kind, name))
		}
	}
	for _, t := range cfg.Tools {
		thing("tool", t.Name, t.Feature, t.Scopes, t.run != nil && t.Description != "")
		if !toolName.MatchString(t.Name) {
			errs = append(errs, fmt.Errorf("the tool name %q is not of the form %s", t.Name, toolName))
		}
	}
	for _, r := range cfg.Resources {
		thing("resource", r.URI, r.Feature, r.Scopes, r.Read != nil && r.Name != "")
	}
	for _, t := range cfg.Templates {
		thing("template", t.URITemplate, t.Feature, t.Scopes, t.Read != nil && t.Name != "")
		if _, err := uritemplate.New(t.URITemplate); err != nil {
			errs = append(errs, fmt.Errorf("the template %q: %w", t.URITemplate, err))
		}
	}
	for _, p := range cfg.Prompts {
		thing("prompt", p.Name, p.Feature, p.Scopes, p.Render != nil)
		if !promptName.MatchString(p.Name) {
			errs = append(errs, fmt.Errorf("the prompt name %q is not of the form %s", p.Name, promptName))
		}
	}
	for _, c := range cfg.Completions {
		if !seen["prompt"+c.Ref] && !seen["template"+c.Ref] || c.Complete == nil {
			errs = append(errs, fmt.Errorf("there is nothing to complete %q of %q with or for", c.Argument, c.Ref))
		}
	}
	if cfg.Authenticate == nil || cfg.Route == nil || cfg.Log == nil {
		errs = append(errs, errors.New("it lacks Authenticate, Route or Log"))
	}
	if len(cfg.StateKey) < 32 {
		errs = append(errs, errors.New("its StateKey has less than 32 bytes"))
	}
	return errors.Join(errs...)
}
