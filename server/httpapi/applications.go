package httpapi

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/boughdb/bough/gen/api"
	"github.com/boughdb/bough/server/audit"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
)

var errNoOAuth = fault.New(fault.NotFound, "not_found", "OAuth is switched off (mcp.enabled, mcp.oauth.enabled)")

// ListApplications lists what the caller has let in.
func (a *API) ListApplications(ctx context.Context, _ api.ListApplicationsRequestObject) (api.ListApplicationsResponseObject, error) {
	out := api.ApplicationList{Applications: []api.Application{}}
	if a.OAuth == nil {
		return api.ListApplications200JSONResponse(out), nil
	}
	grants, err := a.OAuth.Grants(ctx, auth.FromContext(ctx))
	if err != nil {
		return nil, err
	}
	for _, g := range grants {
		out.Applications = append(out.Applications, api.Application{
			ID: g.ID, ClientID: g.ClientID, ClientName: g.Client.Name, ClientURI: optional(g.Client.URI), Scopes: g.Scopes,
			CreatedAt: g.CreatedAt.UTC(), LastUsedAt: utc(g.LastUsedAt),
		})
	}
	return api.ListApplications200JSONResponse(out), nil
}

// RevokeApplication shuts an application out.
func (a *API) RevokeApplication(ctx context.Context, r api.RevokeApplicationRequestObject) (api.RevokeApplicationResponseObject, error) {
	if a.OAuth == nil {
		return nil, errNoOAuth
	}
	if err := a.OAuth.RevokeGrant(ctx, auth.FromContext(ctx), r.GrantID); err != nil {
		return nil, err
	}
	return api.RevokeApplication204Response{}, nil
}

// ListOAuthClients lists the clients.
func (a *API) ListOAuthClients(ctx context.Context, r api.ListOAuthClientsRequestObject) (api.ListOAuthClientsResponseObject, error) {
	if a.OAuth == nil {
		return nil, errNoOAuth
	}
	clients, total, err := a.OAuth.Clients(ctx, auth.FromContext(ctx), value(r.Params.Limit), value(r.Params.Offset))
	if err != nil {
		return nil, err
	}
	out := api.OAuthClientList{Clients: []api.OAuthClient{}, Total: int(total)}
	for _, k := range clients {
		out.Clients = append(out.Clients, api.OAuthClient{
			ClientID: k.ID, ClientName: k.Name, Kind: api.OAuthClientKind(k.Kind), RedirectURIs: k.RedirectURIs, ClientURI: optional(k.URI),
			Scope: optional(k.Scope), Grants: k.Grants, CreatedAt: k.CreatedAt.UTC(), LastUsedAt: utc(k.LastUsedAt),
		})
	}
	return api.ListOAuthClients200JSONResponse(out), nil
}

// RevokeOAuthClient removes a client with its grants.
func (a *API) RevokeOAuthClient(ctx context.Context, r api.RevokeOAuthClientRequestObject) (api.RevokeOAuthClientResponseObject, error) {
	if a.OAuth == nil {
		return nil, errNoOAuth
	}
	if err := a.OAuth.RevokeClient(ctx, auth.FromContext(ctx), r.ClientID); err != nil {
		return nil, err
	}
	return api.RevokeOAuthClient204Response{}, nil
}

// ListAudit lists what applications and assistants did.
func (a *API) ListAudit(ctx context.Context, r api.ListAuditRequestObject) (api.ListAuditResponseObject, error) {
	filter := audit.Filter{UserID: r.Params.UserID, Action: value(r.Params.Action), ClientID: value(r.Params.ClientID)}
	for name, text := range map[string]string{"action": filter.Action, "client_id": filter.ClientID} {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return nil, fault.Validation("%s must be UTF-8 without the character U+0000", name)
		}
	}
	if r.Params.Area != nil {
		filter.Area = audit.Area(*r.Params.Area)
	}
	entries, total, err := a.Audit.List(ctx, auth.FromContext(ctx), filter, value(r.Params.Limit), value(r.Params.Offset))
	if err != nil {
		return nil, err
	}
	out := api.AuditList{Entries: []api.AuditEntry{}, Total: int(total)}
	for _, e := range entries {
		entry := api.AuditEntry{
			ID: strconv.FormatInt(e.ID, 10), At: e.At.UTC(), Area: api.AuditArea(e.Area), Action: e.Action, Outcome: e.Outcome, UserID: e.UserID, KeyID: e.KeyID,
			ClientID: e.ClientID, ClientName: e.ClientName, Branch: e.Branch, DurationMs: e.DurationMs, IP: e.IP, RequestID: e.RequestID,
		}
		if err := json.Unmarshal(e.Details, &entry.Details); err != nil {
			return nil, err
		}
		out.Entries = append(out.Entries, entry)
	}
	return api.ListAudit200JSONResponse(out), nil
}

// optional leaves an empty text out of an answer.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
