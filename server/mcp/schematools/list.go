package schematools

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/mcp"
)

type listArgs struct {
	Schema string `json:"schema,omitempty" jsonschema:"default the first exposed one"`
	Search string `json:"search,omitempty" jsonschema:"text in names or comments"`
	Limit  int    `json:"limit,omitempty" schema:"default=100,min=1,max=500"`
	Cursor string `json:"cursor,omitempty" jsonschema:"next_cursor"`
}

type listResult struct {
	Schema     string      `json:"schema"`
	Tables     []listEntry `json:"tables"`
	Total      int         `json:"total"`
	NextCursor string      `json:"next_cursor,omitempty"`
}

type listEntry struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Rows    *int64 `json:"rows,omitempty"`
	RLS     string `json:"rls,omitempty"`
	Comment string `json:"comment,omitempty"`
}

// maxComment bounds the comments in lists.
const maxComment = 200

func (s *service) listTables(ctx context.Context, c *mcp.Call, in listArgs) (*mcp.Result, error) {
	v, err := s.view(ctx, c)
	if err != nil {
		return nil, err
	}
	schema, err := v.schemaNamed(in.Schema)
	if err != nil {
		return nil, err
	}
	after, err := readCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	found := v.relations(schema)
	if search := strings.ToLower(in.Search); search != "" {
		found = slices.DeleteFunc(found, func(r *introspect.Relation) bool {
			return !strings.Contains(strings.ToLower(r.Name), search) && !strings.Contains(strings.ToLower(r.Comment), search)
		})
	}
	slices.SortFunc(found, func(a, b *introspect.Relation) int { return cmp.Compare(a.Name, b.Name) })
	out := listResult{Schema: schema, Total: len(found), Tables: []listEntry{}}
	page := slices.DeleteFunc(found, func(r *introspect.Relation) bool { return r.Name <= after })
	if limit := in.Limit; len(page) > limit {
		page = page[:limit]
		out.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(page[limit-1].Name))
	}
	var estimates map[uint32]int64
	err = s.inspect(ctx, c.Database, func(tx pgx.Tx) error {
		estimates, err = rowsOf(ctx, tx, page)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, r := range page {
		e := listEntry{Name: r.Name, Kind: kinds[r.Kind], Comment: cut(r.Comment, maxComment)}
		if n, ok := estimates[r.OID]; ok {
			e.Rows = &n
		}
		if isTable(r) {
			e.RLS = onOff(r.RowSecurity)
		}
		out.Tables = append(out.Tables, e)
	}
	summary := fmt.Sprintf("%d of %d tables and views of schema %s that you may use.", len(page), out.Total, schema)
	if out.NextCursor != "" {
		summary += " Go on with cursor, or narrow by search."
	}
	return &mcp.Result{Structured: out, Summary: summary, Untrusted: true}, nil
}

func readCursor(cursor string) (string, error) {
	name, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", fault.Field("cursor", "must be the next_cursor of an earlier answer")
	}
	return string(name), nil
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
