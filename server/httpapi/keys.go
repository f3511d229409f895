package httpapi

import (
	"context"
	"time"

	"github.com/boughdb/bough/gen/api"
	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
)

// CreateKey makes an API key.
func (a *API) CreateKey(ctx context.Context, r api.CreateKeyRequestObject) (api.CreateKeyResponseObject, error) {
	row, key, err := a.Keys.Create(ctx, auth.FromContext(ctx), auth.CreateParams{
		Type: db.KeyType(r.Body.Type), Name: r.Body.Name, Scopes: texts(r.Body.Scopes), UserID: r.Body.UserID, ExpiresIn: value(r.Body.ExpiresIn),
	})
	if err != nil {
		return nil, err
	}
	return api.CreateKey201JSONResponse{
		Body: api.CreatedKey{
			ID: row.ID, Type: api.KeyType(row.Type), Name: row.Name, Key: key, Scopes: scopes(row.Scopes), UserID: row.UserID,
			CreatedAt: row.CreatedAt.UTC(), ExpiresAt: utc(row.ExpiresAt),
		},
		Headers: api.CreateKey201ResponseHeaders{CacheControl: "no-store"},
	}, nil
}

// ListKeys lists the keys that the caller may see.
func (a *API) ListKeys(ctx context.Context, r api.ListKeysRequestObject) (api.ListKeysResponseObject, error) {
	keys, total, err := a.Keys.List(ctx, auth.FromContext(ctx), enum[db.KeyType](r.Params.Type), value(r.Params.Limit), value(r.Params.Offset))
	if err != nil {
		return nil, err
	}
	out := api.KeyList{Keys: []api.Key{}, Total: int(total)}
	for _, k := range keys {
		out.Keys = append(out.Keys, api.Key{
			ID: k.ID, Type: api.KeyType(k.Type), Name: k.Name, Prefix: k.Prefix, Scopes: scopes(k.Scopes), UserID: k.UserID,
			CreatedAt: k.CreatedAt.UTC(), ExpiresAt: utc(k.ExpiresAt), LastUsedAt: utc(k.LastUsedAt), RevokedAt: utc(k.RevokedAt),
		})
	}
	return api.ListKeys200JSONResponse(out), nil
}

// RevokeKey ends a key.
func (a *API) RevokeKey(ctx context.Context, r api.RevokeKeyRequestObject) (api.RevokeKeyResponseObject, error) {
	if err := a.Keys.Revoke(ctx, auth.FromContext(ctx), r.KeyID); err != nil {
		return nil, err
	}
	return api.RevokeKey204Response{}, nil
}

func scopes(in []string) []api.Scope {
	out := make([]api.Scope, len(in))
	for i, s := range in {
		out[i] = api.Scope(s)
	}
	return out
}

func texts[T ~string](in []T) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = string(s)
	}
	return out
}

// value is what p points to, or the zero value.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// enum turns an optional enum of the contract into one of the database; a test compares their values.
func enum[To, From ~string](p *From) *To {
	if p == nil {
		return nil
	}
	to := To(*p)
	return &to
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
