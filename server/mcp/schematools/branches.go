package schematools

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/branching"
	"github.com/boughdb/bough/server/mcp"
)

func (s *service) branchTools() []mcp.Tool {
	read, write := []string{auth.ReadBranches}, []string{auth.WriteBranches}
	return []mcp.Tool{
		mcp.NewTool[listBranchesArgs, listBranchesResult](mcp.Tool{
			Name: "list_branches", Title: "List branches", Feature: mcp.Branches, Scopes: read, ReadOnly: true, Idempotent: true,
			Description: "The branches that you may read, newest first: copies of the database main, to try things on.",
		}, s.listBranches),
		mcp.NewTool[branchArgs, getBranchResult](mcp.Tool{
			Name: "get_branch", Title: "Show a branch", Feature: mcp.Branches, Scopes: read, ReadOnly: true, Idempotent: true,
			Description: "One branch: its status, parent, expiry and last activity.",
		}, s.getBranch),
		mcp.NewTool[compareArgs, compareResult](mcp.Tool{
			Name: "compare_branch_schema", Title: "Compare schemas", Feature: mcp.Branches, Scopes: []string{auth.ReadBranches, auth.ReadSchema}, ReadOnly: true, Idempotent: true,
			Description: "How the schema of a branch differs from a base: added, removed and changed objects with their lines (- base, + branch).",
		}, s.compareBranches),
		mcp.NewTool[createArgs, stateResult](mcp.Tool{
			Name: "create_branch", Title: "Create a branch", Feature: mcp.Branches, Scopes: write,
			Description: "Makes a branch and waits up to 30 seconds until it is ready. schema_only copies no rows, full_clone all of them; seed_data loads the server's seed files.",
		}, s.createBranch),
		mcp.NewTool[confirmArgs, stateResult](mcp.Tool{
			Name: "reset_branch", Title: "Reset a branch", Feature: mcp.Branches, Scopes: write, Destructive: true,
			Description: "Brings a branch back to the state of its parent; everything that was done on it is lost. Ask the person first.",
		}, s.resetBranch),
		mcp.NewTool[confirmArgs, deleteResult](mcp.Tool{
			Name: "delete_branch", Title: "Delete a branch", Feature: mcp.Branches, Scopes: write, Destructive: true, Idempotent: true,
			Description: "Removes a branch and its data for good. Ask the person first.",
		}, s.deleteBranch),
		mcp.NewTool[migrateArgs, migrateResult](mcp.Tool{
			Name: "apply_migration", Title: "Apply a migration", Feature: mcp.Branches, Scopes: []string{auth.WriteSchema}, Destructive: true, Branched: true,
			Description: "Runs SQL statements on a branch in one transaction, all or none, and shows what changed in the schema. Main is refused unless the server allows it. No begin, commit or rollback.",
		}, s.applyMigration),
	}
}

// waitFor is how long tools wait for a branch.
const waitFor = 30 * time.Second

type listBranchesArgs struct {
	Status string `json:"status,omitempty" schema:"enum=creating|ready|resetting|deleting|error"`
	Type   string `json:"type,omitempty" schema:"enum=preview|persistent"`
	Limit  int    `json:"limit,omitempty" schema:"default=50,min=1,max=100"`
}

type listBranchesResult struct {
	Branches []branch `json:"branches"`
	Total    int64    `json:"total"`
}

// branch is a branch as assistants see it. Connection data is no part of it.
type branch struct {
	Slug      string `json:"slug"`
	Name      string `json:"name"`
	Status    string `json:"status"`
	Phase     string `json:"phase,omitempty"` // of the operation under way
	Error     string `json:"error,omitempty"`
	Type      string `json:"type"`
	CloneMode string `json:"data_clone_mode"`
	Parent    string `json:"parent,omitempty"` // where the caller may read it
	CreatedAt string `json:"created_at"`
	ExpiresAt string `json:"expires_at,omitempty"`
	ResetAt   string `json:"reset_at,omitempty"`
}

func (s *service) listBranches(ctx context.Context, c *mcp.Call, in listBranchesArgs) (*mcp.Result, error) {
	params := branching.ListParams{Limit: int32(in.Limit)}
	if in.Status != "" {
		status := db.BranchStatus(in.Status)
		params.Status = &status
	}
	if in.Type != "" {
		typ := db.BranchType(in.Type)
		params.Type = &typ
	}
	list, total, err := s.Branches.List(ctx, c.Principal, params)
	if err != nil {
		return nil, err
	}
	out := listBranchesResult{Branches: []branch{}, Total: total}
	slugs := map[string]string{}
	for _, b := range list {
		slugs[b.ID.String()] = b.Slug
	}
	for _, b := range list {
		e := toBranch(b)
		if b.ParentID != nil {
			e.Parent = slugs[b.ParentID.String()]
		}
		out.Branches = append(out.Branches, e)
	}
	return &mcp.Result{Structured: out, Untrusted: true, Summary: fmt.Sprintf("%d of %d branches.", len(list), total)}, nil
}

func toBranch(b branching.Branch) branch {
	e := branch{
		Slug: b.Slug, Name: b.Name, Status: string(b.Status), Type: string(b.Type), CloneMode: string(b.DataCloneMode),
		CreatedAt: stamp(b.CreatedAt),
	}
	if b.Phase != nil {
		e.Phase = *b.Phase
	}
	if b.ErrorMessage != nil {
		e.Error = *b.ErrorMessage
	}
	if b.ExpiresAt != nil {
		e.ExpiresAt = stamp(*b.ExpiresAt)
	}
	if b.ResetAt != nil {
		e.ResetAt = stamp(*b.ResetAt)
	}
	if b.ParentID == nil && !b.IsMain {
		e.Parent = mainSlug
	}
	return e
}

const mainSlug = "main"

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// asBranch is a branch with its parent's name.
func (s *service) asBranch(ctx context.Context, p *auth.Principal, b branching.Branch) branch {
	e := toBranch(b)
	if b.ParentID != nil {
		// A parent that the caller may not read, or that is gone, stays unnamed.
		if parent, err := s.Branches.Find(ctx, p, b.ParentID.String(), db.AccessLevelRead); err == nil {
			e.Parent = parent.Slug
		}
	}
	return e
}

type branchArgs struct {
	Branch string `json:"branch" jsonschema:"slug or id"`
}

type getBranchResult struct {
	branch
	Activity []activity `json:"activity"`
}

type activity struct {
	At         string          `json:"at"`
	Action     string          `json:"action"`
	Status     string          `json:"status"`
	DurationMS int64           `json:"duration_ms,omitempty"`
	Details    json.RawMessage `json:"details,omitempty" schema:"of=object"`
}

// maxActivity entries are shown of a branch.
const maxActivity = 10

func (s *service) getBranch(ctx context.Context, c *mcp.Call, in branchArgs) (*mcp.Result, error) {
	out, err := s.showBranch(ctx, c, in.Branch)
	if err != nil {
		return nil, err
	}
	return &mcp.Result{Structured: out, Untrusted: true, Summary: fmt.Sprintf("Branch %s is %s.", out.Slug, out.Status)}, nil
}

func (s *service) showBranch(ctx context.Context, c *mcp.Call, ref string) (*getBranchResult, error) {
	b, err := s.lookUp(ctx, c, ref)
	if err != nil {
		return nil, err
	}
	entries, err := s.Branches.Activity(ctx, c.Principal, b.ID.String(), maxActivity)
	if err != nil {
		return nil, err
	}
	out := &getBranchResult{branch: s.asBranch(ctx, c.Principal, b), Activity: []activity{}}
	for _, a := range entries {
		e := activity{At: stamp(a.CreatedAt), Action: string(a.Action), Status: string(a.Status)}
		if a.DurationMs != nil {
			e.DurationMS = *a.DurationMs
		}
		if len(a.Details) > 2 && len(a.Details) < 2000 { // not {}
			e.Details = a.Details
		}
		out.Activity = append(out.Activity, e)
	}
	return out, nil
}

// lookUp finds a branch that the caller may read. Documents are read over connections that may be for one branch alone;
// the calls of tools have been held against that.
func (s *service) lookUp(ctx context.Context, c *mcp.Call, ref string) (branching.Branch, error) {
	b, err := s.Branches.Get(ctx, c.Principal, ref)
	if err != nil {
		return b, err
	}
	if only := fixedBranch(c); only != "" && b.Slug != only {
		return b, auth.ErrDenied.Msgf("this connection is for branch %q alone", only)
	}
	return b, nil
}

// fixedBranch is the only branch that a document's connection is for, "" where it is for all.
func fixedBranch(c *mcp.Call) string {
	if c.Branch == mainSlug {
		return "" // what every call has that names none
	}
	return c.Branch
}
