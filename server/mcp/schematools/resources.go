package schematools

import (
	"context"
	"encoding/json"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/mcp"
)

const (
	tableTemplate  = "db://{schema}/{table}"
	branchTemplate = "branch://{slug}"
	jsonType       = "application/json"
)

// Resources returns the documents with fixed addresses.
func Resources(d Deps) []mcp.Resource {
	s := &service{d}
	scopes := []string{auth.ReadSchema}
	return []mcp.Resource{
		{
			URI: "db://overview", Name: "overview", Title: "Database overview", MIMEType: jsonType, Feature: mcp.Schema, Scopes: scopes,
			Description: "Schemas, the largest tables, extensions and your role, as get_database_overview tells.",
			Read: func(ctx context.Context, c *mcp.Call) (string, error) {
				result, err := s.overview(ctx, c, overviewArgs{})
				if err != nil {
					return "", err
				}
				return text(result.Structured)
			},
		},
		{
			URI: "openapi://document", Name: "openapi", Title: "OpenAPI document", MIMEType: jsonType, Feature: mcp.Schema, Scopes: scopes,
			Description: "The REST API with the tables and functions that you may use. It may be long.",
			Read: func(ctx context.Context, c *mcp.Call) (string, error) {
				data, err := s.Document(ctx, c)
				return string(data), err
			},
		},
	}
}

// Templates returns the documents of tables and branches.
func Templates(d Deps) []mcp.Template {
	s := &service{d}
	return []mcp.Template{
		{
			URITemplate: tableTemplate, Name: "table", Title: "Table", MIMEType: jsonType, Feature: mcp.Schema, Scopes: []string{auth.ReadSchema},
			Description: "Columns, keys, constraints, indexes and policies of a table or view, as describe_table tells.",
			Read: func(ctx context.Context, c *mcp.Call, _ string, variables map[string]string) (string, error) {
				d, err := s.describe(ctx, c, variables["schema"]+"."+variables["table"])
				if err != nil {
					return "", err
				}
				return text(d)
			},
		},
		{
			URITemplate: branchTemplate, Name: "branch", Title: "Branch", MIMEType: jsonType, Feature: mcp.Branches, Scopes: []string{auth.ReadBranches},
			Description: "Status, parent, expiry and last activity of a branch, as get_branch tells.",
			Read: func(ctx context.Context, c *mcp.Call, _ string, variables map[string]string) (string, error) {
				b, err := s.showBranch(ctx, c, variables["slug"])
				if err != nil {
					return "", err
				}
				return text(b)
			},
		},
	}
}

func text(v any) (string, error) {
	data, err := json.Marshal(v)
	return string(data), err
}
