package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/audit"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/httpapi"
	"github.com/boughdb/bough/server/mcp"
	"github.com/boughdb/bough/server/mcp/datatools"
	"github.com/boughdb/bough/server/mcp/schematools"
	"github.com/boughdb/bough/server/readsql"
)

// newMCP makes the MCP server, unless it is switched off. It finds callers by the API, and is served by it.
func (s *server) newMCP(ctx context.Context, api *httpapi.API) error {
	if !s.cfg.MCP.Enabled {
		return nil
	}
	stateKey, err := db.New(s.planes.Control).GetMCPStateKey(ctx)
	if err != nil {
		return fmt.Errorf("reading the key of MCP's states: %w", err)
	}
	acquire, roles, exposed := s.planes.Data.Pools.Acquire, s.planes.Data.DataRoles(), s.cfg.API.Schemas
	schema := schematools.Deps{
		Branches: s.branches, Schemas: s.schemas, Acquire: acquire, Session: s.planes.Data.Session, EngineSession: s.planes.Data.EngineSession,
		Roles: roles, ExposedSchemas: exposed,
		AllowMigrateMain: s.cfg.MCP.AllowMigrateMain, Migrated: s.migrated,
		Document: func(ctx context.Context, c *mcp.Call) ([]byte, error) {
			return api.Document(ctx, c.Principal, c.Database)
		},
	}
	sql := readsql.New(acquire, readsql.Config{Schemas: exposed, PerCaller: s.cfg.MCP.MaxQueries, Total: max(int(s.cfg.Pool.Main)/2, 1), Version: func(ctx context.Context, database string) (string, error) {
		schema, err := s.schemas.Get(ctx, database)
		if err != nil {
			return "", err
		}
		return schema.Version, nil
	}})
	tools := schematools.Tools(schema)
	tools = append(tools, datatools.Tools(datatools.Deps{Tables: s.tables, SQL: sql, Schemas: s.schemas, Exposed: exposed, MaxRows: s.cfg.API.MaxRows})...)
	cfg := mcp.Config{
		Tools: tools, Resources: schematools.Resources(schema), Templates: schematools.Templates(schema), Prompts: schematools.Prompts(schema),
		Completions: schematools.Completions(schema), Instructions: schematools.Instructions, Version: s.cfg.Version,
		Authenticate: api.MCPPrincipal, Fault: httpapi.Fault, Audit: s.auditMCP(audit.New(s.planes.Control)),
		Route: func(ctx context.Context, p *auth.Principal, branch string, write bool) (string, string, error) {
			route, err := s.branches.Route(ctx, p, branch, write)
			return route.Slug, route.Database, err
		},
		ResourceURL: s.oauthConfig().Resource(), AllowedOrigins: s.cfg.MCP.AllowedOrigins,
		RateLimit: mcp.RateLimit{PerMinute: s.cfg.MCP.RateLimit}, StateKey: stateKey, Log: s.log,
	}
	if s.oauth != nil {
		s.oauth.Offer(cfg.Scopes())
		cfg.DefaultScopes = s.oauth.DefaultScopes()
		cfg.ResourceMetadataURL = s.cfg.BaseURL() + "/.well-known/oauth-protected-resource" + s.cfg.MCP.BasePath
	}
	if s.mcp, err = mcp.New(cfg); err != nil {
		return err
	}
	api.MCP = s.mcp
	return nil
}

// auditMCP puts calls of tools on record.
func (s *server) auditMCP(log *audit.Log) func(context.Context, mcp.Event) {
	outcomes := map[mcp.Outcome]string{mcp.Succeeded: audit.OK, mcp.Asked: audit.OK, mcp.Refused: audit.Denied, mcp.Failed: audit.Failed}
	return func(ctx context.Context, e mcp.Event) {
		details := map[string]any{}
		if e.Code != "" {
			details["code"] = e.Code
		}
		if e.Outcome == mcp.Asked {
			details["asked"] = true
		}
		// A full disk must not be filled by what is said about requests: the process's log has it then.
		if s.planes.CheckRoom() != nil {
			s.log.Warn("a call of an MCP tool, which is not in the audit log since the disk is almost full", "tool", e.Tool,
				"outcome", outcomes[e.Outcome], "principal", actor(e.Principal), "client", e.Client, "branch", e.Branch, "request_id", e.RequestID, "details", details)
			return
		}
		// What was done is on record although the client has gone.
		err := log.Record(context.WithoutCancel(ctx), audit.Action{
			Area: audit.MCP, Name: e.Tool, Outcome: outcomes[e.Outcome], Principal: e.Principal, ClientName: e.Client, Branch: e.Branch,
			RequestID: e.RequestID, DurationMs: float64(e.Duration.Microseconds()) / 1000, Details: details,
		})
		if err != nil {
			s.log.Error("a call of an MCP tool is not on record", "tool", e.Tool, "error", err, "request_id", e.RequestID)
		}
	}
}

func actor(p *auth.Principal) string {
	if p == nil {
		return ""
	}
	return p.Actor()
}

// migrated puts a migration into the branch's activity.
func (s *server) migrated(ctx context.Context, c *mcp.Call, m schematools.Migration) {
	sum := sha256.Sum256([]byte(m.SQL))
	err := s.branches.Migrated(context.WithoutCancel(ctx), c.Principal, c.Branch, m.Took, map[string]any{
		"name": m.Name, "sha256": hex.EncodeToString(sum[:]), "changed": m.Changed,
	})
	if err != nil {
		s.log.Error("a migration is not in the branch's activity", "branch", c.Branch, "name", m.Name, "error", err)
	}
}
