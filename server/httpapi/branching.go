package httpapi

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/boughdb/bough/gen/api"
	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/branching"
)

// How long a reset or a removal may take before it is answered as under way.
const operationWait = 30 * time.Second

// The longest wait that Prefer can ask for.
const maxPreferWait = 60 * time.Second

// CreateBranch records a branch and its job; with Prefer: wait it waits for the end.
func (a *API) CreateBranch(ctx context.Context, r api.CreateBranchRequestObject) (api.CreateBranchResponseObject, error) {
	params := branching.CreateParams{
		Name: r.Body.Name, ParentID: r.Body.ParentBranchID, ExpiresIn: value(r.Body.ExpiresIn),
		Mode: db.DataCloneModeSchemaOnly, Type: db.BranchTypePreview,
		RepohostRepo: r.Body.RepohostRepo, RepohostPRURL: r.Body.RepohostPRURL, IdempotencyKey: value(r.Params.IdempotencyKey),
	}
	if r.Body.DataCloneMode != nil {
		params.Mode = db.DataCloneMode(*r.Body.DataCloneMode)
	}
	if r.Body.Type != nil {
		params.Type = db.BranchType(*r.Body.Type)
	}
	if r.Body.RepohostPRNumber != nil {
		n := int32(*r.Body.RepohostPRNumber)
		params.RepohostPRNumber = &n
	}
	b, err := a.Branches.Create(ctx, auth.FromContext(ctx), params)
	if err != nil {
		return nil, err
	}
	if wait := preferredWait(value(r.Params.Prefer)); wait > 0 {
		if b, err = a.Branches.Wait(ctx, b.ID, wait); err != nil {
			return nil, err
		}
	}
	return api.CreateBranch201JSONResponse{
		Body: api.CreatedBranch{
			ID: b.ID, Name: b.Name, Slug: b.Slug, DatabaseName: b.DatabaseName, Status: api.BranchStatus(b.Status),
			Type: api.BranchType(b.Type), DataCloneMode: api.DataCloneMode(b.DataCloneMode), CreatedAt: b.CreatedAt.UTC(), ExpiresAt: utc(b.ExpiresAt),
		},
		Headers: api.CreateBranch201ResponseHeaders{Location: "/api/v1/admin/branches/" + b.ID.String()},
	}, nil
}

// preferredWait reads Prefer: wait=<seconds> (RFC 7240, section 4.3). A preference that makes no sense is none.
func preferredWait(prefer string) time.Duration {
	for _, part := range strings.Split(prefer, ",") {
		name, seconds, _ := strings.Cut(strings.TrimSpace(part), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(seconds), `"`), 10, 16)
		if err != nil {
			return 0
		}
		return min(time.Duration(n)*time.Second, maxPreferWait)
	}
	return 0
}

// ListBranches lists the branches that the caller may read.
func (a *API) ListBranches(ctx context.Context, r api.ListBranchesRequestObject) (api.ListBranchesResponseObject, error) {
	branches, total, err := a.Branches.List(ctx, auth.FromContext(ctx), branching.ListParams{
		Status: enum[db.BranchStatus](r.Params.Status), Type: enum[db.BranchType](r.Params.Type), CreatedBy: r.Params.CreatedBy,
		Limit: value(r.Params.Limit), Offset: value(r.Params.Offset),
	})
	if err != nil {
		return nil, err
	}
	out := api.BranchList{Branches: []api.BranchListEntry{}, Total: int(total)}
	for _, b := range branches {
		out.Branches = append(out.Branches, api.BranchListEntry{
			ID: b.ID, Name: b.Name, Slug: b.Slug, Status: api.BranchStatus(b.Status), Type: api.BranchType(b.Type), CreatedAt: b.CreatedAt.UTC(),
		})
	}
	return api.ListBranches200JSONResponse(out), nil
}

// GetBranch returns one branch.
func (a *API) GetBranch(ctx context.Context, r api.GetBranchRequestObject) (api.GetBranchResponseObject, error) {
	b, err := a.Branches.Get(ctx, auth.FromContext(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	return api.GetBranch200JSONResponse(branch(b)), nil
}

func branch(b branching.Branch) api.Branch {
	out := api.Branch{
		ID: b.ID, Name: b.Name, Slug: b.Slug, DatabaseName: b.DatabaseName, Status: api.BranchStatus(b.Status), Type: api.BranchType(b.Type),
		DataCloneMode: api.DataCloneMode(b.DataCloneMode), ParentBranchID: b.ParentID, CreatedBy: b.CreatedBy,
		CreatedAt: b.CreatedAt.UTC(), UpdatedAt: b.UpdatedAt.UTC(), ExpiresAt: utc(b.ExpiresAt), ResetAt: utc(b.ResetAt),
		Phase: b.Phase, ErrorMessage: b.ErrorMessage, ErrorCode: b.ErrorCode, RepohostRepo: b.RepohostRepo, RepohostPRURL: b.RepohostPRURL,
	}
	if b.RepohostPRNumber != nil {
		n := int(*b.RepohostPRNumber)
		out.RepohostPRNumber = &n
	}
	return out
}

// UpdateBranch changes a branch's name, type or expiry.
func (a *API) UpdateBranch(ctx context.Context, r api.UpdateBranchRequestObject) (api.UpdateBranchResponseObject, error) {
	b, err := a.Branches.Update(ctx, auth.FromContext(ctx), r.ID, branching.UpdateParams{
		Name: r.Body.Name, Type: enum[db.BranchType](r.Body.Type), ExpiresIn: r.Body.ExpiresIn,
	})
	if err != nil {
		return nil, err
	}
	return api.UpdateBranch200JSONResponse(branch(b)), nil
}

// DeleteBranch deletes a branch and waits for its database to be gone.
func (a *API) DeleteBranch(ctx context.Context, r api.DeleteBranchRequestObject) (api.DeleteBranchResponseObject, error) {
	children := branching.Children(value(r.Params.Children))
	if err := a.Branches.Delete(ctx, auth.FromContext(ctx), r.ID, children, operationWait); err != nil {
		return nil, err
	}
	return api.DeleteBranch204Response{}, nil
}

// ResetBranch brings a branch back to its parent's state.
func (a *API) ResetBranch(ctx context.Context, r api.ResetBranchRequestObject) (api.ResetBranchResponseObject, error) {
	b, err := a.Branches.Reset(ctx, auth.FromContext(ctx), r.ID, operationWait)
	if err != nil {
		return nil, err
	}
	out := api.ResetBranch{ID: b.ID, Status: api.BranchStatus(b.Status), UpdatedAt: b.UpdatedAt.UTC()}
	if out.Status != api.BranchStatusReady {
		return api.ResetBranch202JSONResponse(out), nil
	}
	return api.ResetBranch200JSONResponse(out), nil
}

// ListBranchActivity lists what happened to a branch.
func (a *API) ListBranchActivity(ctx context.Context, r api.ListBranchActivityRequestObject) (api.ListBranchActivityResponseObject, error) {
	entries, err := a.Branches.Activity(ctx, auth.FromContext(ctx), r.ID, value(r.Params.Limit))
	if err != nil {
		return nil, err
	}
	out := api.ActivityList{Activity: []api.ActivityEntry{}}
	for _, e := range entries {
		entry := api.ActivityEntry{
			ID: e.ID.String(), Action: api.BranchAction(e.Action), UserID: e.UserID, CreatedAt: e.CreatedAt.UTC(),
			Status: api.ActivityEntryStatus(e.Status), DurationMs: e.DurationMs,
		}
		if err := json.Unmarshal(e.Details, &entry.Details); err != nil {
			return nil, err
		}
		out.Activity = append(out.Activity, entry)
	}
	return api.ListBranchActivity200JSONResponse(out), nil
}

// GetPoolStats returns this process's connection pools.
func (a *API) GetPoolStats(ctx context.Context, _ api.GetPoolStatsRequestObject) (api.GetPoolStatsResponseObject, error) {
	stats, err := a.Branches.PoolStats(ctx, auth.FromContext(ctx))
	if err != nil {
		return nil, err
	}
	out := api.PoolStatsResponse{Pools: map[string]api.PoolStats{}}
	for slug, s := range stats {
		out.Pools[slug] = api.PoolStats{
			TotalConns: int(s.Total), IdleConns: int(s.Idle), AcquiredConns: int(s.Acquired), MaxConns: int(s.Max), Waited: s.Waited,
		}
	}
	return api.GetPoolStats200JSONResponse(out), nil
}

// GetBranchConnection returns how to connect to a branch's database.
func (a *API) GetBranchConnection(ctx context.Context, r api.GetBranchConnectionRequestObject) (api.GetBranchConnectionResponseObject, error) {
	url, err := a.Branches.Connection(ctx, auth.FromContext(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	return api.GetBranchConnection200JSONResponse{
		Body: api.BranchConnection{URL: url}, Headers: api.GetBranchConnection200ResponseHeaders{CacheControl: "no-store"},
	}, nil
}

// RotateBranchCredentials gives a branch's database role a new password.
func (a *API) RotateBranchCredentials(ctx context.Context, r api.RotateBranchCredentialsRequestObject) (api.RotateBranchCredentialsResponseObject, error) {
	url, err := a.Branches.RotateCredentials(ctx, auth.FromContext(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	return api.RotateBranchCredentials200JSONResponse{
		Body: api.BranchConnection{URL: url}, Headers: api.RotateBranchCredentials200ResponseHeaders{CacheControl: "no-store"},
	}, nil
}

// ListBranchAccess lists the grants on a branch.
func (a *API) ListBranchAccess(ctx context.Context, r api.ListBranchAccessRequestObject) (api.ListBranchAccessResponseObject, error) {
	grants, err := a.Branches.Access(ctx, auth.FromContext(ctx), r.ID)
	if err != nil {
		return nil, err
	}
	out := api.AccessList{Access: []api.AccessGrant{}}
	for _, g := range grants {
		out.Access = append(out.Access, grant(g))
	}
	return api.ListBranchAccess200JSONResponse(out), nil
}

// GrantBranchAccess gives a user access to a branch.
func (a *API) GrantBranchAccess(ctx context.Context, r api.GrantBranchAccessRequestObject) (api.GrantBranchAccessResponseObject, error) {
	g, err := a.Branches.Grant(ctx, auth.FromContext(ctx), r.ID, r.UserID, branching.Level(r.Body.Level))
	if err != nil {
		return nil, err
	}
	return api.GrantBranchAccess200JSONResponse(grant(g)), nil
}

// RevokeBranchAccess takes a user's grant away.
func (a *API) RevokeBranchAccess(ctx context.Context, r api.RevokeBranchAccessRequestObject) (api.RevokeBranchAccessResponseObject, error) {
	if err := a.Branches.Revoke(ctx, auth.FromContext(ctx), r.ID, r.UserID); err != nil {
		return nil, err
	}
	return api.RevokeBranchAccess204Response{}, nil
}

func grant(g branching.Grant) api.AccessGrant {
	return api.AccessGrant{UserID: g.UserID, Level: api.AccessLevel(g.Level), GrantedBy: g.GrantedBy, CreatedAt: g.CreatedAt.UTC()}
}
