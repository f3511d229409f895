package httpapi

import (
	"context"

	"github.com/boughdb/bough/gen/api"
	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/users"
)

// ListUsers lists users for administrators.
func (a *API) ListUsers(ctx context.Context, r api.ListUsersRequestObject) (api.ListUsersResponseObject, error) {
	found, total, err := a.Users.List(ctx, auth.FromContext(ctx), r.Params.Email, enum[db.UserRole](r.Params.Role), value(r.Params.Limit), value(r.Params.Offset))
	if err != nil {
		return nil, err
	}
	out := api.UserList{Users: []api.AdminUser{}, Total: int(total)}
	for _, u := range found {
		user, err := adminUserOf(u)
		if err != nil {
			return nil, err
		}
		out.Users = append(out.Users, user)
	}
	return api.ListUsers200JSONResponse(out), nil
}

// CreateUser makes a user.
func (a *API) CreateUser(ctx context.Context, r api.CreateUserRequestObject) (api.CreateUserResponseObject, error) {
	user, err := a.Users.Create(ctx, auth.FromContext(ctx), users.Change{
		Email: &r.Body.Email, Password: r.Body.Password, Role: enum[db.UserRole](r.Body.Role), EmailVerified: r.Body.EmailVerified,
		UserMetadata: value(r.Body.UserMetadata), AppMetadata: value(r.Body.AppMetadata),
	})
	if err != nil {
		return nil, err
	}
	out, err := adminUserOf(user)
	return api.CreateUser201JSONResponse(out), err
}

// GetUser returns a user.
func (a *API) GetUser(ctx context.Context, r api.GetUserRequestObject) (api.GetUserResponseObject, error) {
	user, err := a.Users.Get(ctx, auth.FromContext(ctx), r.UserID)
	if err != nil {
		return nil, err
	}
	out, err := adminUserOf(user)
	return api.GetUser200JSONResponse(out), err
}

// UpdateUser changes a user.
func (a *API) UpdateUser(ctx context.Context, r api.UpdateUserRequestObject) (api.UpdateUserResponseObject, error) {
	user, err := a.Users.Update(ctx, auth.FromContext(ctx), r.UserID, users.Change{
		Email: r.Body.Email, Password: r.Body.Password, Role: enum[db.UserRole](r.Body.Role), EmailVerified: r.Body.EmailVerified,
		Disabled: r.Body.Disabled, UserMetadata: value(r.Body.UserMetadata), AppMetadata: value(r.Body.AppMetadata),
	})
	if err != nil {
		return nil, err
	}
	out, err := adminUserOf(user)
	return api.UpdateUser200JSONResponse(out), err
}

// DeleteUser removes a user.
func (a *API) DeleteUser(ctx context.Context, r api.DeleteUserRequestObject) (api.DeleteUserResponseObject, error) {
	if err := a.Users.Delete(ctx, auth.FromContext(ctx), r.UserID); err != nil {
		return nil, err
	}
	return api.DeleteUser204Response{}, nil
}

// RotateSigningKeys changes the key that access tokens are signed with.
func (a *API) RotateSigningKeys(ctx context.Context, r api.RotateSigningKeysRequestObject) (api.RotateSigningKeysResponseObject, error) {
	keys, err := a.Users.RotateKeys(ctx, auth.FromContext(ctx), value(r.Params.Immediately))
	if err != nil {
		return nil, err
	}
	out := api.SigningKeyList{Keys: []api.SigningKey{}}
	for _, k := range keys {
		out.Keys = append(out.Keys, api.SigningKey{Kid: k.Kid, CreatedAt: k.CreatedAt.UTC(), ActivatesAt: utc(k.ActivatesAt), RetiredAt: utc(k.RetiredAt)})
	}
	return api.RotateSigningKeys200JSONResponse(out), nil
}

func adminUserOf(u users.User) (api.AdminUser, error) {
	user, err := userOf(u)
	return api.AdminUser{
		ID: user.ID, Email: user.Email, EmailVerified: user.EmailVerified, NewEmail: user.NewEmail, Role: user.Role,
		UserMetadata: user.UserMetadata, AppMetadata: user.AppMetadata, CreatedAt: user.CreatedAt, UpdatedAt: user.UpdatedAt,
		LastSignInAt: user.LastSignInAt, DisabledAt: utc(u.DisabledAt), HasPassword: u.PasswordHash != nil,
	}, err
}
