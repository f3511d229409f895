package httpapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/gin-gonic/gin"

	"github.com/boughdb/bough/gen/api"
	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/users"
)

// RequestPasswordReset sends a link to set a new password with.
func (a *API) RequestPasswordReset(ctx context.Context, r api.RequestPasswordResetRequestObject) (api.RequestPasswordResetResponseObject, error) {
	if err := a.Users.RequestPasswordReset(ctx, r.Body.Email, r.Body.RedirectTo, clientOf(ctx)); err != nil {
		return nil, err
	}
	return api.RequestPasswordReset202JSONResponse(mailSent), nil
}

// OpenPasswordReset shows the page that asks for the new password.
func (a *API) OpenPasswordReset(ctx context.Context, r api.OpenPasswordResetRequestObject) (api.OpenPasswordResetResponseObject, error) {
	noSniff(ctx)
	link, err := a.Users.Look(ctx, r.Params.Token, clientOf(ctx))
	if err == nil && link.Purpose != db.MailPurposeReset {
		err = users.ErrLinkExpired
	}
	if err != nil {
		if expired := a.expiredPage(ctx, err); expired != nil {
			return api.OpenPasswordReset401TextHTMLResponse{LinkExpiredTextHTMLResponse: *expired}, nil
		}
		return nil, err
	}
	body, policy, err := page(passwordPage(r.Params.Token, fmt.Sprintf("For the account with the address %s. All its sessions end.", link.Email)), "")
	return api.OpenPasswordReset200TextHTMLResponse{PasswordPageTextHTMLResponse: api.PasswordPageTextHTMLResponse{
		Body: body, ContentLength: int64(body.Len()),
		Headers: api.PasswordPageResponseHeaders{CacheControl: noStore, ReferrerPolicy: "no-referrer", ContentSecurityPolicy: policy},
	}}, err
}

func passwordPage(token, text string) linkContent {
	return linkContent{Title: "Set a new password", Text: text, Token: token, Action: "confirm", Button: "Set the password", Password: true}
}

// ConfirmPasswordReset sets the password: for a program with the new session, for the page's form with a page.
func (a *API) ConfirmPasswordReset(ctx context.Context, r api.ConfirmPasswordResetRequestObject) (api.ConfirmPasswordResetResponseObject, error) {
	headers := api.ConfirmPasswordReset200ResponseHeaders{CacheControl: noStore, ReferrerPolicy: "no-referrer"}
	if r.JSONBody != nil {
		proof := users.Proof{Token: value(r.JSONBody.Token), Email: value(r.JSONBody.Email), Code: value(r.JSONBody.Code)}
		session, err := a.Users.ConfirmPasswordReset(ctx, proof, r.JSONBody.Password, clientOf(ctx))
		if err != nil {
			return nil, err
		}
		body, err := sessionOf(session)
		return api.ConfirmPasswordReset200JSONResponse{Body: body, Headers: headers}, err
	}
	if err := ownForm(ctx); err != nil {
		return nil, err
	}
	noSniff(ctx)
	// The browser has no use for the session: where it goes on, the user signs in.
	err := a.Users.ResetPassword(ctx, users.Proof{Token: r.FormdataBody.Token}, r.FormdataBody.Password, clientOf(ctx))
	if expired := a.expiredPage(ctx, err); expired != nil {
		return api.ConfirmPasswordReset401TextHTMLResponse{LinkExpiredTextHTMLResponse: *expired}, nil
	}
	if errors.Is(err, users.ErrWeakPassword) || errors.Is(err, users.ErrSamePassword) {
		return a.passwordAgain(ctx, r.FormdataBody.Token, err)
	}
	if err != nil {
		return nil, err
	}
	body, policy, err := page(linkContent{Title: "Done", Text: "Your password was changed. You can sign in with it now."}, "")
	if err != nil {
		return nil, err
	}
	headers.ContentSecurityPolicy = &policy
	return api.ConfirmPasswordReset200TextHTMLResponse{Body: body, ContentLength: int64(body.Len()), Headers: headers}, nil
}

// passwordAgain shows the form again, with what was wrong.
func (a *API) passwordAgain(ctx context.Context, token string, refused error) (api.ConfirmPasswordResetResponseObject, error) {
	content := passwordPage(token, "Please choose another one.")
	var f *fault.Error
	if errors.As(refused, &f) {
		content.Problem = f.Message
	}
	body, policy, err := page(content, "")
	if err != nil {
		return nil, err
	}
	if c, ok := ctx.(*gin.Context); ok {
		pageHeaders(c, policy)
	}
	return api.ConfirmPasswordReset400TextHTMLResponse{Body: body, ContentLength: int64(body.Len())}, nil
}
