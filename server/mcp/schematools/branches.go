package schematools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/branching"
	"github.com/boughdb/bough/server/fault"
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
	Details    json.RawMessage `json:"details,omitempty"`
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

type createArgs struct {
	Name      string `json:"name" jsonschema:"the slug is made of it"`
	From      string `json:"from,omitempty" jsonschema:"branch to copy; default main"`
	CloneMode string `json:"data_clone_mode,omitempty" schema:"enum=schema_only|full_clone|seed_data,default=schema_only"`
	Type      string `json:"type,omitempty" schema:"enum=preview|persistent,default=preview"`
	ExpiresIn string `json:"expires_in,omitempty" jsonschema:"30m, 24h, 7d, …, never; default 24h, persistent ones never"`
}

// stateResult is what has become of a branch.
type stateResult struct {
	Branch    string `json:"branch"`
	Status    string `json:"status"`
	Ready     bool   `json:"ready"`
	ExpiresAt string `json:"expires_at,omitempty"`
}

func stateOf(b branching.Branch) stateResult {
	e := toBranch(b)
	return stateResult{Branch: e.Slug, Status: e.Status, Ready: b.Status == db.BranchStatusReady, ExpiresAt: e.ExpiresAt}
}

func (s *service) createBranch(ctx context.Context, c *mcp.Call, in createArgs) (*mcp.Result, error) {
	params := branching.CreateParams{
		Name: in.Name, Mode: db.DataCloneMode(in.CloneMode), Type: db.BranchType(in.Type),
	}
	switch {
	case in.ExpiresIn == "never":
	case in.ExpiresIn != "":
		params.ExpiresIn = in.ExpiresIn
	case params.Type == db.BranchTypePreview:
		params.ExpiresIn = "24h"
	}
	// What may be copied from main the service knows: users may copy its schema who may not read it otherwise.
	if in.From != "" && in.From != mainSlug {
		parent, err := s.Branches.Get(ctx, c.Principal, in.From)
		if err != nil {
			return nil, err
		}
		if !parent.IsMain {
			params.ParentID = &parent.ID
		}
	}
	b, err := s.Branches.Create(ctx, c.Principal, params)
	if err != nil {
		return nil, err
	}
	if b, err = s.Branches.Wait(ctx, b.ID, waitFor); err != nil {
		return nil, err
	}
	out := stateOf(b)
	var summary string
	switch b.Status {
	case db.BranchStatusReady:
		summary = fmt.Sprintf("Branch %s is ready. Give branch: %q to other tools to work on it.", b.Slug, b.Slug)
	case db.BranchStatusError:
		summary = fmt.Sprintf("Branch %s could not be made: %s. reset_branch tries again, delete_branch removes it.", b.Slug, cut(toBranch(b).Error, 500))
	default:
		summary = fmt.Sprintf("Branch %s is still being made. Ask get_branch until it is ready.", b.Slug)
	}
	return &mcp.Result{Structured: out, Untrusted: true, Summary: summary}, nil
}

type confirmArgs struct {
	Branch  string `json:"branch" jsonschema:"slug"`
	Confirm string `json:"confirm,omitempty" jsonschema:"the slug once more, when the person has agreed"`
}

func (s *service) resetBranch(ctx context.Context, c *mcp.Call, in confirmArgs) (*mcp.Result, error) {
	b, err := s.toChange(ctx, c, in.Branch, branching.ErrResetMain)
	if err != nil {
		return nil, err
	}
	if err := confirm(c, in.Confirm, b.Slug, fmt.Sprintf("Reset branch %q? Everything that was done on it since it was made is lost.", b.Slug)); err != nil {
		return nil, err
	}
	if b, err = s.Branches.Reset(ctx, c.Principal, b.ID.String(), waitFor); err != nil {
		return nil, err
	}
	out := stateOf(b)
	summary := fmt.Sprintf("Branch %s is as its parent is.", b.Slug)
	if !out.Ready {
		summary = fmt.Sprintf("Branch %s is still being reset. Ask get_branch until it is ready.", b.Slug)
	}
	return &mcp.Result{Structured: out, Untrusted: true, Summary: summary}, nil
}

type deleteResult struct {
	Branch  string `json:"branch"`
	Deleted bool   `json:"deleted"`
}

func (s *service) deleteBranch(ctx context.Context, c *mcp.Call, in confirmArgs) (*mcp.Result, error) {
	b, err := s.toChange(ctx, c, in.Branch, branching.ErrDeleteMain)
	if err != nil {
		return nil, err
	}
	if err := confirm(c, in.Confirm, b.Slug, fmt.Sprintf("Delete branch %q and its data for good?", b.Slug)); err != nil {
		return nil, err
	}
	err = s.Branches.Delete(ctx, c.Principal, b.ID.String(), "", waitFor)
	var refused *fault.Error
	if errors.Is(err, branching.ErrHasChildren) && errors.As(err, &refused) {
		return nil, refused.WithHint("delete those first; list_branches names the parent of each")
	}
	if err != nil {
		return nil, err
	}
	return &mcp.Result{
		Structured: deleteResult{Branch: b.Slug, Deleted: true},
		Summary:    fmt.Sprintf("Branch %s is deleted; its name is free.", b.Slug),
	}, nil
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

// toChange finds a branch that the caller may change, and refuses main.
func (s *service) toChange(ctx context.Context, c *mcp.Call, ref string, main error) (branching.Branch, error) {
	if ref == mainSlug {
		return branching.Branch{}, main
	}
	b, err := s.lookUp(ctx, c, ref)
	if err != nil {
		return b, err
	}
	if b.IsMain {
		return b, main
	}
	return s.Branches.Find(ctx, c.Principal, ref, db.AccessLevelAdmin)
}

// confirm lets a destructive tool go on when the person has agreed: by repeating the name, or by answering the question
// where the caller's program can ask it.
func confirm(c *mcp.Call, given, want, question string) error {
	if given == want {
		return nil
	}
	if given != "" {
		return fault.Field("confirm", "must be %q, the name of what is to be changed", want)
	}
	answer, err := c.Confirm(question)
	switch {
	case err != nil:
		return err
	case answer == mcp.Accepted:
		return nil
	case answer == mcp.Declined:
		return auth.ErrDenied.Msgf("the person declined; nothing was changed")
	}
	return fault.Field("confirm", "is missing").WithHint(fmt.Sprintf("ask the person, and then call again with confirm: %q", want))
}
