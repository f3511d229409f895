package schematools

import (
	"context"
	"slices"
	"strings"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/branching"
	"github.com/boughdb/bough/server/mcp"
)

// maxValues bounds what a completion suggests.
const maxValues = 100

// Completions returns what suggests values for the arguments of the prompts and the variables of the templates.
func Completions(d Deps) []mcp.Completion {
	s := &service{d}
	return []mcp.Completion{
		{Ref: tableTemplate, Argument: "schema", Complete: s.completeSchema},
		{Ref: tableTemplate, Argument: "table", Complete: s.completeTable},
		{Ref: branchTemplate, Argument: "slug", Complete: s.completeBranch},
		{Ref: promptExplore, Argument: "focus", Complete: s.completeTable},
		{Ref: promptReview, Argument: "table", Complete: s.completeTable},
		{Ref: promptMigrate, Argument: "branch", Complete: s.completeBranch},
		{Ref: promptTune, Argument: "function", Complete: s.completeFunction},
	}
}

func (s *service) completeSchema(_ context.Context, _ *mcp.Call, _, prefix string, _ map[string]string) ([]string, error) {
	return matching(s.ExposedSchemas, prefix), nil
}

// completeTable suggests the tables of the schema that is known already, else those of all, qualified where they need it.
func (s *service) completeTable(ctx context.Context, c *mcp.Call, _, prefix string, known map[string]string) ([]string, error) {
	v, err := s.view(ctx, c)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, r := range v.relations(known["schema"]) {
		if known["schema"] != "" {
			names = append(names, r.Name)
		} else {
			names = append(names, v.short(r))
		}
	}
	return matching(names, prefix), nil
}

func (s *service) completeFunction(ctx context.Context, c *mcp.Call, _, prefix string, _ map[string]string) ([]string, error) {
	v, err := s.view(ctx, c)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range v.functions("") {
		names = append(names, v.qualify(f.Schema, f.Name))
	}
	return matching(names, prefix), nil
}

func (s *service) completeBranch(ctx context.Context, c *mcp.Call, _, prefix string, _ map[string]string) ([]string, error) {
	if only := fixedBranch(c); only != "" {
		return matching([]string{only}, prefix), nil
	}
	ready := db.BranchStatusReady
	list, _, err := s.Branches.List(ctx, c.Principal, branching.ListParams{Status: &ready, Limit: 100})
	if err != nil {
		return nil, err
	}
	names := []string{mainSlug}
	for _, b := range list {
		names = append(names, b.Slug)
	}
	return matching(names, prefix), nil
}

// matching are the names that begin with the prefix, in order, each once.
func matching(names []string, prefix string) []string {
	var found []string
	for _, name := range names {
		if strings.HasPrefix(strings.ToLower(name), strings.ToLower(prefix)) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	return found[:min(len(found), maxValues)]
}
