package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gin-gonic/gin"

	"github.com/boughdb/bough/gen/api"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/openapi"
	"github.com/boughdb/bough/server/tables"
)

// registerDocuments routes the live document and the page that shows it.
func (a *API) registerDocuments(engine *gin.Engine) {
	engine.GET("/openapi.json", limitTime, a.serveDocument)
	engine.HEAD("/openapi.json", limitTime, a.serveDocument)
	docs := gin.WrapH(openapi.Docs())
	for _, path := range []string{"/docs", "/docs/*file"} {
		engine.GET(path, docs)
		engine.HEAD(path, docs)
	}
}

// documents are the OpenAPI documents of the databases that were asked for.
type documents struct {
	mu    sync.Mutex
	known map[documentKey]document
}

type documentKey struct {
	database, version string
	role              int
}

type document struct {
	data []byte
	etag string
}

// A server keeps so many documents.
const maxDocuments = 32

func (a *API) serveDocument(c *gin.Context) {
	if c.Request.URL.RawQuery != "" {
		a.writeError(c, fault.Validation("this document has no query parameters; X-Branch names a branch"))
		return
	}
	doc, err := a.findDocument(c)
	if err != nil {
		a.writeError(c, err)
		return
	}
	c.Header("ETag", doc.etag)
	c.Writer.Header().Add("Vary", "X-Branch")
	cache := "no-cache" // always ask: the schema may have changed
	if auth.FromContext(c.Request.Context()) != nil {
		cache = "private, no-cache"
	}
	c.Header("Cache-Control", cache)
	if tables.TagMatches(c.GetHeader("If-None-Match"), doc.etag) {
		c.Status(http.StatusNotModified)
		return
	}
	c.Data(http.StatusOK, "application/json", doc.data)
}

func (a *API) findDocument(c *gin.Context) (document, error) {
	ctx := c.Request.Context()
	if len(a.credentials(c.Request)) > 0 {
		p, err := a.principal(c.Request)
		if err != nil {
			return document{}, err
		}
		ctx = auth.NewContext(ctx, p)
		c.Request = c.Request.WithContext(ctx)
	} else if a.PrivateDocument {
		return document{}, auth.ErrMissingCredentials
	}
	if a.PrivateDocument || c.GetHeader("X-Branch") != "" {
		if err := maySeeSchema(auth.FromContext(ctx)); err != nil {
			return document{}, err
		}
	}
	database, err := a.branch(c, false)
	if err != nil {
		return document{}, err
	}
	return a.document(ctx, auth.FromContext(ctx), database)
}

// Document returns the description of what is served of a database, as the caller gets it at /openapi.json.
func (a *API) Document(ctx context.Context, p *auth.Principal, database string) ([]byte, error) {
	doc, err := a.document(ctx, p, database)
	return doc.data, err
}

func (a *API) document(ctx context.Context, p *auth.Principal, database string) (document, error) {
	schema, err := a.Schemas.Get(ctx, database)
	if err != nil {
		return document{}, err
	}
	role := introspect.Owner
	if a.PrivateDocument {
		name, err := a.Tables.Role(p)
		if err != nil {
			return document{}, err
		}
		role = schema.Role(name)
	}
	key := documentKey{database, schema.Version, role}
	d := &a.documents
	d.mu.Lock()
	defer d.mu.Unlock()
	if doc, ok := d.known[key]; ok {
		return doc, nil
	}
	fixed, err := api.GetSpec()
	if err != nil {
		return document{}, fmt.Errorf("reading the contract: %w", err)
	}
	a.placeMCP(fixed)
	data, err := openapi.Extend(fixed, schema, openapi.Options{Role: role, BaseURL: a.PublicURL, Anonymous: a.AnonymousAccess})
	if err != nil {
		return document{}, fmt.Errorf("describing the tables: %w", err)
	}
	if d.known == nil {
		d.known = map[documentKey]document{}
	}
	for old := range d.known {
		// An older version of the same schema is of no more use.
		if old.database == database && old.role == role || len(d.known) >= maxDocuments {
			delete(d.known, old)
		}
	}
	doc := document{data, openapi.ETag(data)}
	d.known[key] = doc
	return doc, nil
}

// specMCPPath is where the contract has the MCP server.
const specMCPPath = "/mcp"

// placeMCP puts the paths of the MCP server and of OAuth where they are served, and leaves out what is switched off.
func (a *API) placeMCP(spec *openapi3.T) {
	for path, item := range spec.Paths.Map() {
		operations := item.Operations()
		var tags []string
		for _, op := range operations {
			tags = op.Tags
		}
		switch {
		case slices.Contains(tags, "oauth") && a.OAuth == nil, slices.Contains(tags, "mcp") && a.MCP == nil:
			spec.Paths.Delete(path)
		case a.MCPPath != specMCPPath && (path == specMCPPath || strings.HasPrefix(path, specMCPPath+"/") || path == resourceMetadataPath+specMCPPath):
			spec.Paths.Delete(path)
			spec.Paths.Set(strings.Replace(path, specMCPPath, a.MCPPath, 1), item)
		}
	}
}

// maySeeSchema returns an error where the caller's scopes include neither the schema nor the records, which show it.
func maySeeSchema(p *auth.Principal) error {
	if p == nil || p.Require(auth.ReadTables) == nil {
		return nil
	}
	return p.Require(auth.ReadSchema)
}

// ListTables lists the tables that the caller may use.
func (a *API) ListTables(ctx context.Context, r api.ListTablesRequestObject) (api.ListTablesResponseObject, error) {
	p := auth.FromContext(ctx)
	if err := maySeeSchema(p); err != nil {
		return nil, err
	}
	ref := ""
	if r.Params.XBranch != nil {
		ref = *r.Params.XBranch
	}
	route, err := a.Branches.Route(ctx, p, ref, false)
	if err != nil {
		return nil, err
	}
	schema, err := a.Schemas.Get(ctx, route.Database)
	if err != nil {
		return nil, err
	}
	name, err := a.Tables.Role(p)
	if err != nil {
		return nil, err
	}
	role := schema.Role(name)
	list := api.TableList{Tables: []api.TableInfo{}}
	for _, rel := range schema.Relations {
		if info, ok := tableInfo(rel, role); ok {
			list.Tables = append(list.Tables, info)
		}
	}
	return api.ListTables200JSONResponse(list), nil
}

func tableInfo(rel *introspect.Relation, role int) (api.TableInfo, bool) {
	info := api.TableInfo{
		Schema: rel.Schema, Name: rel.Name, Path: "/api/v1/tables/" + url.PathEscape(rel.Plural), Kind: kinds[byte(rel.Kind)],
		Columns: []api.ColumnInfo{}, PrimaryKey: []string{}, Operations: []api.TableInfoOperations{},
	}
	for _, op := range []struct {
		allowed   bool
		privilege introspect.Privilege
		name      api.TableInfoOperations
	}{
		{true, introspect.Select, api.TableInfoOperationsSelect}, {rel.Insertable, introspect.Insert, api.TableInfoOperationsInsert},
		{rel.Updatable, introspect.Update, api.TableInfoOperationsUpdate}, {rel.Deletable, introspect.Delete, api.TableInfoOperationsDelete},
	} {
		may := rel.Grants.Can(role, op.privilege)
		for _, col := range rel.Columns {
			may = may || col.Grants.Can(role, op.privilege)
		}
		if op.allowed && may {
			info.Operations = append(info.Operations, op.name)
		}
	}
	if rel.Comment != "" {
		info.Comment = &rel.Comment
	}
	for _, col := range rel.Columns {
		column := api.ColumnInfo{Name: col.Name, Type: col.TypeSQL, Nullable: !col.NotNull, HasDefault: col.HasDefault, Generated: col.Generated}
		if col.Comment != "" {
			column.Comment = &col.Comment
		}
		info.Columns = append(info.Columns, column)
	}
	for _, col := range rel.PrimaryKey {
		info.PrimaryKey = append(info.PrimaryKey, col.Name)
	}
	return info, len(info.Operations) > 0
}

var kinds = map[byte]api.TableInfoKind{
	'r': api.TableInfoKindTable, 'p': api.TableInfoKindPartitionedTable, 'v': api.TableInfoKindView,
	'm': api.TableInfoKindMaterializedView, 'f': api.TableInfoKindForeignTable,
}
