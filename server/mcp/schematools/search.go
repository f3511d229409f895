package schematools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/mcp"
)

type searchArgs struct {
	Query string `json:"query" jsonschema:"words that must all occur" schema:"max=200"`
	Limit int    `json:"limit,omitempty" schema:"default=20,min=1,max=100"`
}

type searchResult struct {
	Matches []match `json:"matches"`
	Total   int     `json:"total"`
}

type match struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Table   string `json:"table,omitempty"`
	Type    string `json:"type,omitempty"`
	Comment string `json:"comment,omitempty"`

	score int
}

func (s *service) search(ctx context.Context, c *mcp.Call, in searchArgs) (*mcp.Result, error) {
	v, err := s.view(ctx, c)
	if err != nil {
		return nil, err
	}
	words := strings.Fields(strings.ToLower(in.Query))
	if len(words) == 0 {
		return nil, fault.Field("query", "must have at least one word")
	}
	found := v.search(words)
	out := searchResult{Total: len(found), Matches: found[:min(len(found), in.Limit)]}
	return &mcp.Result{
		Structured: out, Untrusted: true,
		Summary: fmt.Sprintf("%d of %d matches for %q.", len(out.Matches), out.Total, cut(in.Query, 100)),
	}, nil
}

// search returns what has all the words in its name, its comment or its table's name, the best matches first.
func (v *view) search(words []string) []match {
	found := []match{}
	add := func(m match, name, comment, more string) {
		if m.score = score(words, strings.ToLower(name), strings.ToLower(comment), strings.ToLower(more)); m.score > 0 {
			m.Comment = cut(comment, maxComment)
			found = append(found, m)
		}
	}
	for _, r := range v.relations("") {
		name := v.short(r)
		add(match{Kind: "table", Name: name, Type: kinds[r.Kind]}, r.Name, r.Comment, r.Schema)
		for _, col := range r.Columns {
			if v.seesColumn(col) {
				add(match{Kind: "column", Name: col.Name, Table: name, Type: col.TypeSQL}, col.Name, col.Comment, r.Name)
			}
		}
	}
	for _, f := range v.functions("") {
		add(match{Kind: "function", Name: v.qualify(f.Schema, f.Name) + "(" + arguments(f) + ")", Type: returns(f)}, f.Name, f.Comment, f.Schema)
	}
	slices.SortStableFunc(found, func(a, b match) int { return cmp.Compare(b.score, a.score) })
	return found
}

// score is 0 unless all words occur, and one of them in the name or the comment itself. A name that is a word counts most,
// then one that begins with it, has it, and last a comment.
func score(words []string, name, comment, more string) int {
	total, own := 0, false
	for _, w := range words {
		n := 0
		switch {
		case name == w:
			n = 100
		case strings.HasPrefix(name, w):
			n = 40
		case strings.Contains(name, w):
			n = 25
		case strings.Contains(comment, w):
			n = 10
		}
		own = own || n > 0
		if n == 0 && strings.Contains(more, w) {
			n = 5
		}
		if n == 0 {
			return 0
		}
		total += n
	}
	if !own {
		return 0
	}
	return total
}

// arguments are those of a function, as in its declaration.
func arguments(f *introspect.Function) string {
	parts := make([]string, len(f.Args))
	for i, a := range f.Args {
		parts[i] = strings.TrimSpace(a.Name + " " + a.Type.SQL)
	}
	return strings.Join(parts, ", ")
}

func returns(f *introspect.Function) string {
	switch {
	case f.Procedure:
		return "procedure"
	case f.Returns == nil:
		return ""
	case f.ReturnsSet:
		return "setof " + f.Returns.SQL
	}
	return f.Returns.SQL
}
