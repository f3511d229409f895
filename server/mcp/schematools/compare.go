package schematools

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/branching"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/mcp"
	"github.com/boughdb/bough/server/mcp/schematools/schematext"
)

type compareArgs struct {
	Branch string `json:"branch" jsonschema:"slug or id"`
	Base   string `json:"base,omitempty" jsonschema:"the branch to compare with" schema:"default=main"`
}

type compareResult struct {
	Branch    string `json:"branch"`
	Base      string `json:"base"`
	Identical bool   `json:"identical"`
	changes
}

// changes are the differences of two schemas.
type changes struct {
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Changed []string `json:"changed"`
	Diff    string   `json:"diff"`
	Left    int      `json:"left_out,omitempty"`
}

// Bounds of what is told of differences.
const (
	maxDiff  = 32 << 10
	maxNames = 100
)

func changesOf(d schematext.Difference) changes {
	c := changes{Added: names(d.Added), Removed: names(d.Removed), Changed: names(d.Changed)}
	c.Diff, c.Left = d.Text(maxDiff)
	return c
}

func names(list []schematext.Change) []string {
	out := []string{}
	for i, c := range list {
		if i == maxNames {
			return append(out, fmt.Sprintf("… and %d more", len(list)-i))
		}
		out = append(out, cut(c.String(), 120))
	}
	return out
}

// tell sums the changes up.
func tell(d schematext.Difference) string {
	return fmt.Sprintf("%d added, %d removed, %d changed", len(d.Added), len(d.Removed), len(d.Changed))
}

func (s *service) compareBranches(ctx context.Context, c *mcp.Call, in compareArgs) (*mcp.Result, error) {
	branch, err := s.lookUp(ctx, c, in.Branch)
	if err != nil {
		return nil, err
	}
	route, err := s.Branches.Route(ctx, c.Principal, branch.Slug, false)
	if err != nil {
		return nil, err
	}
	base, err := s.base(ctx, c.Principal, in.Base)
	if err != nil {
		return nil, err
	}
	if base.Database == route.Database {
		return nil, fault.Field("base", "must be another branch than %q", route.Slug)
	}
	from, err := s.schemaText(ctx, c.Principal, base.Database)
	if err != nil {
		return nil, err
	}
	to, err := s.schemaText(ctx, c.Principal, route.Database)
	if err != nil {
		return nil, err
	}
	d := schematext.Compare(from, to)
	out := compareResult{Branch: route.Slug, Base: base.Slug, Identical: d.Empty(), changes: changesOf(d)}
	summary := fmt.Sprintf("Objects of branch %s, compared with %s: %s.", out.Branch, out.Base, tell(d))
	switch {
	case out.Identical:
		summary = fmt.Sprintf("The schemas of %s and %s are the same.", out.Branch, out.Base)
	case out.Left > 0:
		summary += fmt.Sprintf(" The lines of %d objects did not fit.", out.Left)
	}
	return &mcp.Result{Structured: out, Summary: summary, Untrusted: true}, nil
}

// base finds the branch to compare with. Main is open to everybody, as it is to requests for its data.
func (s *service) base(ctx context.Context, p *auth.Principal, ref string) (branching.Route, error) {
	if ref != mainSlug {
		if _, err := s.Branches.Get(ctx, p, ref); err != nil {
			return branching.Route{}, err
		}
	}
	return s.Branches.Route(ctx, p, ref, false)
}

// schemaText reads a database's schema as text: all of it for administrators, what their role sees for others.
func (s *service) schemaText(ctx context.Context, p *auth.Principal, database string) (objects []schematext.Object, err error) {
	options := schematext.Options{Grantees: s.Roles.All()}
	if !p.Admin {
		if options.Viewer, err = s.roleOf(p); err != nil {
			return nil, err
		}
	}
	err = s.inspect(ctx, database, func(tx pgx.Tx) error {
		objects, err = schematext.Read(ctx, tx, options)
		return err
	})
	return objects, err
}
