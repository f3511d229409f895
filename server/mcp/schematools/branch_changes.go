package schematools

import (
	"context"
	"errors"
	"fmt"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/branching"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/mcp"
)

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
	return &mcp.Result{Structured: out, Summary: summary}, nil
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
	return &mcp.Result{Structured: out, Summary: summary}, nil
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
