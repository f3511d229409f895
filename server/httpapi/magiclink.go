package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/boughdb/bough/gen/api"
	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/users"
)

//go:embed pages/link.html
var linkPageText string

//go:embed pages/page.css
var pageStyle string

var linkPage = template.Must(template.New("link").Parse(linkPageText))

// linkContent is what the page of a link shows: a button that posts the token, or what came of it.
type linkContent struct {
	Title, Text string
	Problem     string // what was wrong with what was sent before; "" for nothing
	Token       string // posted by the button; "" for no button
	Action      string // where the button posts it
	Button      string
	Redirect    string // posted with the token; "" for none
	Password    bool   // whether it asks for a password
	Code        string // to be pasted into a program; "" for none
	Style       template.CSS
}

// page renders a page. Its policy lets it show itself and post its form, to this server and on to where the link leads.
func page(content linkContent, redirect string) (body *bytes.Buffer, policy string, err error) {
	content.Style = template.CSS(pageStyle) //nolint:gosec // a file of this program
	body = &bytes.Buffer{}
	if err := linkPage.Execute(body, content); err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256([]byte(pageStyle))
	form := "'none'"
	if content.Token != "" {
		form = "'self'"
		if u, err := url.Parse(redirect); err == nil && redirect != "" {
			// Browsers hold the redirect that answers a form against the policy, too.
			form += " " + u.Scheme + ":"
			if u.Host != "" {
				form += "//" + u.Host
			}
		}
	}
	policy = fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; form-action %s; frame-ancestors 'none'; base-uri 'none'",
		base64.StdEncoding.EncodeToString(sum[:]), form)
	return body, policy, nil
}

var linkTexts = map[db.MailPurpose]linkContent{
	db.MailPurposeMagicLink:   {Title: "Sign in", Text: "Sign in as %s?", Button: "Sign in"},
	db.MailPurposeSignUp:      {Title: "Confirm your address", Text: "Sign up with the address %s?", Button: "Confirm"},
	db.MailPurposeChangeEmail: {Title: "Confirm your new address", Text: "Use the address %s for your account from now on?", Button: "Confirm"},
}

// RequestMagicLink sends a link to sign in with.
func (a *API) RequestMagicLink(ctx context.Context, r api.RequestMagicLinkRequestObject) (api.RequestMagicLinkResponseObject, error) {
	if (r.Body.CodeChallenge == nil) != (r.Body.CodeChallengeMethod == nil) {
		return nil, fault.Validation("code_challenge and code_challenge_method come together")
	}
	err := a.Users.RequestMagicLink(ctx, users.MagicLinkParams{
		Email: r.Body.Email, RedirectTo: r.Body.RedirectTo, CreateUser: value(r.Body.CreateUser), CodeChallenge: r.Body.CodeChallenge,
	}, clientOf(ctx))
	if err != nil {
		return nil, err
	}
	return api.RequestMagicLink202JSONResponse(mailSent), nil
}

// OpenMagicLink answers a program with the session, and a browser with a page that asks first.
func (a *API) OpenMagicLink(ctx context.Context, r api.OpenMagicLinkRequestObject) (api.OpenMagicLinkResponseObject, error) {
	if wantsJSON(ctx) {
		body, err := a.verify(ctx, users.Proof{Token: r.Params.Token}, "")
		return api.OpenMagicLink200JSONResponse{Body: body, Headers: api.OpenMagicLink200ResponseHeaders{CacheControl: noStore, ReferrerPolicy: "no-referrer"}}, err
	}
	noSniff(ctx)
	link, err := a.Users.Look(ctx, r.Params.Token, clientOf(ctx))
	content, ok := linkTexts[link.Purpose]
	if err == nil && !ok {
		err = users.ErrLinkExpired
	}
	if err == nil && r.Params.RedirectTo != nil {
		link.RedirectTo = *r.Params.RedirectTo
		err = a.Users.CheckRedirect(link.RedirectTo)
	}
	if err != nil {
		if expired := a.expiredPage(ctx, err); expired != nil {
			return api.OpenMagicLink401TextHTMLResponse{LinkExpiredTextHTMLResponse: *expired}, nil
		}
		return nil, err
	}
	content.Text = fmt.Sprintf(content.Text, link.Email)
	content.Token, content.Action, content.Redirect = r.Params.Token, "verify", value(r.Params.RedirectTo)
	body, policy, err := page(content, link.RedirectTo)
	if err != nil {
		return nil, err
	}
	return api.OpenMagicLink200TextHTMLResponse{
		Body: body, ContentLength: int64(body.Len()),
		Headers: api.OpenMagicLink200ResponseHeaders{CacheControl: noStore, ReferrerPolicy: "no-referrer", ContentSecurityPolicy: &policy},
	}, nil
}

// VerifyMagicLink redeems a token: for a program with the session, for the page's form with a code to take away.
func (a *API) VerifyMagicLink(ctx context.Context, r api.VerifyMagicLinkRequestObject) (api.VerifyMagicLinkResponseObject, error) {
	headers := api.VerifyMagicLink200ResponseHeaders{CacheControl: noStore, ReferrerPolicy: "no-referrer"}
	if r.JSONBody != nil {
		proof := users.Proof{Token: value(r.JSONBody.Token), Email: value(r.JSONBody.Email), Code: value(r.JSONBody.Code)}
		body, err := a.verify(ctx, proof, value(r.JSONBody.CodeVerifier))
		return api.VerifyMagicLink200JSONResponse{Body: body, Headers: headers}, err
	}
	if err := ownForm(ctx); err != nil {
		return nil, err
	}
	noSniff(ctx)
	redirect, code, err := a.Users.Exchange(ctx, r.FormdataBody.Token, r.FormdataBody.RedirectTo, clientOf(ctx))
	if err != nil {
		if expired := a.expiredPage(ctx, err); expired != nil {
			return api.VerifyMagicLink401TextHTMLResponse{LinkExpiredTextHTMLResponse: *expired}, nil
		}
		return nil, err
	}
	if redirect != "" {
		return api.VerifyMagicLink303Response{Headers: api.VerifyMagicLink303ResponseHeaders{Location: redirect, CacheControl: noStore, ReferrerPolicy: "no-referrer"}}, nil
	}
	body, policy, err := page(linkContent{
		Title: "Done", Text: "Your address is confirmed. If a program asked you to come here, paste this code into it; it works once, for five minutes.", Code: code,
	}, "")
	if err != nil {
		return nil, err
	}
	headers.ContentSecurityPolicy = &policy
	return api.VerifyMagicLink200TextHTMLResponse{Body: body, ContentLength: int64(body.Len()), Headers: headers}, nil
}

// ExchangeCode gives an application the session for the code that a browser came with.
func (a *API) ExchangeCode(ctx context.Context, r api.ExchangeCodeRequestObject) (api.ExchangeCodeResponseObject, error) {
	session, err := a.Users.RedeemCode(ctx, r.Body.AuthCode, value(r.Body.CodeVerifier), clientOf(ctx))
	if err != nil {
		return nil, err
	}
	answer, err := newSession(session)
	return api.ExchangeCode200JSONResponse{NewSessionJSONResponse: answer}, err
}

// ownForm returns an error for a form that a page of another site posts: it would sign the browser in as somebody of
// that site's choice. Browsers say where a request comes from; Origin tells nothing, since pages without a referrer have
// none.
func ownForm(ctx context.Context) error {
	c, ok := ctx.(*gin.Context)
	if !ok {
		return nil
	}
	switch c.GetHeader("Sec-Fetch-Site") {
	case "cross-site", "same-site":
	default:
		origin := c.GetHeader("Origin")
		if u, err := url.Parse(origin); origin == "" || origin == "null" || err == nil && u.Host == c.Request.Host {
			return nil
		}
	}
	return fault.New(fault.Forbidden, "access_denied", "the form is posted by this server's own page only")
}

func (a *API) verify(ctx context.Context, proof users.Proof, verifier string) (api.Session, error) {
	session, err := a.Users.Verify(ctx, proof, verifier, clientOf(ctx))
	if err != nil {
		return api.Session{}, err
	}
	return sessionOf(session)
}

// expiredPage is the page for a browser with a link that does not work any more; nil for any other error.
func (a *API) expiredPage(ctx context.Context, err error) *api.LinkExpiredTextHTMLResponse {
	c, ok := ctx.(*gin.Context)
	if !ok || !errors.Is(err, users.ErrLinkExpired) {
		return nil
	}
	body, policy, err := page(linkContent{Title: "This link does not work", Text: "It was used before, or is too old. Ask for a new one."}, "")
	if err != nil {
		a.logError(c, err)
		return nil
	}
	pageHeaders(c, policy)
	return &api.LinkExpiredTextHTMLResponse{
		Body: body, ContentLength: int64(body.Len()), Headers: api.LinkExpiredResponseHeaders{WWWAuthenticate: `Bearer realm="bough"`},
	}
}

// pageHeaders are those of a page with a secret, where the contract does not have them.
func pageHeaders(c *gin.Context, policy string) {
	c.Header("Cache-Control", noStore)
	c.Header("Content-Security-Policy", policy)
	c.Header("Referrer-Policy", "no-referrer")
}

// noSniff keeps browsers from taking a page for something else.
func noSniff(ctx context.Context) {
	if c, ok := ctx.(*gin.Context); ok {
		c.Header("X-Content-Type-Options", "nosniff")
	}
}

// wantsJSON reports whether the Accept header names JSON, and not HTML before it.
func wantsJSON(ctx context.Context) bool {
	c, ok := ctx.(*gin.Context)
	if !ok {
		return false
	}
	json, html := quality(c.Request, "application/json"), quality(c.Request, "text/html")
	return json > html
}

// quality is how much a media type is asked for by name (RFC 9110, section 12.5.1): a program that takes everything does
// not ask for JSON.
func quality(r *http.Request, want string) float64 {
	best := 0.0
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		mediaType, params, err := mime.ParseMediaType(part)
		if err != nil || mediaType != want {
			continue
		}
		q := 1.0
		if text, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				q = 0
			}
		}
		best = max(best, q)
	}
	return best
}
