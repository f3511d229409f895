package httpapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/oauth"
)

//go:embed pages/authorize.html
var authorizePageText string

var authorizePage = template.Must(template.New("authorize").Parse(authorizePageText))

// The steps of the page that asks the user.
const (
	stepSignIn  = "sign-in"
	stepCode    = "code"
	stepConsent = "consent"
)

// authorizeContent is what the page shows: a step of a request, or without one what was wrong.
type authorizeContent struct {
	Title    string
	Text     []string
	Problem  string // what was wrong with what was posted before; "" for nothing
	Step     string
	Request  *oauth.Request
	Document bool   // the client has a metadata document
	Action   string // where the form posts
	CSRF     string
	Email    string
	Choices  []oauth.Scope
	Style    template.CSS
}

func (a *API) registerAuthorize(group *gin.RouterGroup) {
	group.GET("/authorize", a.authorize)
	group.GET("/authorize/:request", a.showAuthorization)
	group.POST("/authorize/:request", a.answerAuthorization)
}

// browserCookie is the name of the cookie that a browser is known by. With TLS its prefix keeps other hosts of the same
// domain, and anybody on the way, from setting it (RFC 6265bis, section 4.1.3).
func (a *API) browserCookie() (name string, secure bool) {
	if strings.HasPrefix(a.OAuthConfig.Issuer, "https://") {
		return "__Host-bough_oauth", true
	}
	return "bough_oauth", false
}

func (a *API) browser(c *gin.Context) string {
	name, _ := a.browserCookie()
	cookie, err := c.Request.Cookie(name)
	if err != nil {
		return ""
	}
	return cookie.Value
}

func (a *API) setBrowser(c *gin.Context, browser string) {
	name, secure := a.browserCookie()
	//nolint:gosec // Secure wherever there is TLS; a browser would not take it back without
	http.SetCookie(c.Writer, &http.Cookie{Name: name, Value: browser, Path: "/", HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode})
}

// authorize takes an authorization request and sends the browser on to the page that asks the user.
func (a *API) authorize(c *gin.Context) {
	// What cannot be read is not left out: the application would miss its state, or be sent where it did not ask.
	query, err := url.ParseQuery(c.Request.URL.RawQuery)
	for name, values := range query {
		if isNoText(name) || slices.ContainsFunc(values, isNoText) {
			err = errNotQuery
		}
	}
	if err != nil {
		a.authorizeError(c, errNotQuery)
		return
	}
	browser := a.browser(c)
	if !oauth.IsBrowser(browser) {
		browser = oauth.NewBrowser()
		a.setBrowser(c, browser)
	}
	request, err := a.OAuth.Begin(c.Request.Context(), query, browser, clientOf(c))
	if err != nil {
		a.authorizeError(c, err)
		return
	}
	redirectTo(c, a.MCPPath+"/oauth/authorize/"+request.ID.String())
}

var errNotQuery = &oauth.PageError{
	Title: "The request is not valid", Message: "The application that sent you here sent parameters that are not encoded as they should be.",
	Status: http.StatusBadRequest,
}

// redirectTo sends the browser on by GET, whatever it came with (RFC 9700, section 4.12).
func redirectTo(c *gin.Context, location string) {
	c.Header("Location", location)
	c.Header("Referrer-Policy", "no-referrer")
	c.Status(http.StatusSeeOther)
}

// showAuthorization shows the step that the request is at.
func (a *API) showAuthorization(c *gin.Context) {
	request, err := a.pendingRequest(c)
	if err != nil {
		a.authorizeError(c, err)
		return
	}
	a.showStep(c, http.StatusOK, request, authorizeContent{})
}

var errNoRequest = &oauth.PageError{
	Title: "There is no such request", Message: "It may have been answered, or given up. Start again from the application.", Status: http.StatusNotFound,
}

func (a *API) pendingRequest(c *gin.Context) (*oauth.Request, error) {
	id, err := uuid.Parse(c.Param("request"))
	if err != nil {
		return nil, errNoRequest
	}
	return a.OAuth.Request(c.Request.Context(), id, a.browser(c))
}

// answerAuthorization does what a form asks for.
func (a *API) answerAuthorization(c *gin.Context) {
	err := ownForm(c)
	var values map[string][]string
	if err == nil {
		values, err = form(c, "scope")
	}
	var request *oauth.Request
	if err == nil {
		request, err = a.pendingRequest(c)
	}
	get := func(name string) string {
		if all := values[name]; len(all) > 0 {
			return all[0]
		}
		return ""
	}
	if err == nil {
		err = a.OAuth.CheckCSRF(a.browser(c), request.ID, get("csrf"))
	}
	if err != nil {
		a.authorizeError(c, err)
		return
	}
	a.step(c, request, get, values["scope"])
}

// step takes the step that a form names.
func (a *API) step(c *gin.Context, request *oauth.Request, get func(string) string, scopes []string) {
	ctx, browser, where := c.Request.Context(), a.browser(c), clientOf(c)
	var location, fresh string
	var err error
	again := authorizeContent{Email: strings.TrimSpace(get("email"))}
	switch get("action") {
	case "sign-in":
		if again.Email == "" || get("password") == "" {
			err = fault.Validation("Enter your e-mail address and your password.")
			break
		}
		fresh, err = a.OAuth.SignIn(ctx, request.ID, browser, again.Email, get("password"), where)
	case "send-code":
		if again.Email == "" {
			err = fault.Validation("Enter your e-mail address.")
			break
		}
		if err = a.OAuth.SendCode(ctx, request.ID, browser, again.Email, where); err == nil {
			again.Step = stepCode
			a.showStep(c, http.StatusOK, request, again)
			return
		}
	case "code":
		again.Step = stepCode
		if again.Email == "" || strings.TrimSpace(get("code")) == "" {
			err = fault.Validation("Enter the six digits from the mail.")
			break
		}
		fresh, err = a.OAuth.SignInWithCode(ctx, request.ID, browser, again.Email, strings.TrimSpace(get("code")), where)
	case "sign-out":
		if err = a.OAuth.SignOut(ctx, browser); err == nil {
			fresh = browser
		}
	case "deny":
		location, err = a.OAuth.Deny(ctx, request.ID, browser)
	case "allow":
		if request.User == nil {
			a.showStep(c, http.StatusUnauthorized, request, authorizeContent{Problem: "You are signed out. Sign in again."})
			return
		}
		if len(scopes) == 0 {
			a.showStep(c, http.StatusBadRequest, request, authorizeContent{Problem: "Nothing is ticked. Tick what you want to allow, or choose “Do not allow”."})
			return
		}
		location, err = a.OAuth.Approve(ctx, request.ID, browser, scopes, where)
	default:
		err = fault.Validation("Use one of the buttons.")
	}
	switch {
	case err != nil:
		a.stepFailed(c, request, again, err)
	case location != "":
		redirectTo(c, location)
	default:
		if fresh != browser {
			a.setBrowser(c, fresh)
		}
		redirectTo(c, a.MCPPath+"/oauth/authorize/"+request.ID.String())
	}
}

// stepFailed shows the step again with what was wrong, when that was the user's mistake.
func (a *API) stepFailed(c *gin.Context, request *oauth.Request, again authorizeContent, err error) {
	var f *fault.Error
	var page *oauth.PageError
	var redirect *oauth.RedirectError
	if errors.As(err, &page) || errors.As(err, &redirect) || !errors.As(err, &f) || f.Kind == fault.Internal {
		a.authorizeError(c, err)
		return
	}
	status := f.Status
	if status == 0 {
		status = statuses[f.Kind]
	}
	if f.RetryAfter > 0 {
		c.Header("Retry-After", strconv.Itoa(int(math.Ceil(max(f.RetryAfter, time.Second).Seconds()))))
	}
	again.Problem = strings.ToUpper(f.Message[:1]) + f.Message[1:]
	if !strings.HasSuffix(again.Problem, ".") {
		again.Problem += "."
	}
	a.showStep(c, status, request, again)
}

// showStep shows the page: to somebody who has not signed in the step of that, else the question.
func (a *API) showStep(c *gin.Context, status int, request *oauth.Request, content authorizeContent) {
	content.Request, content.Document = request, request.Client.Kind == db.OAuthClientKindDocument
	content.Action = a.MCPPath + "/oauth/authorize/" + request.ID.String()
	content.CSRF = a.OAuth.CSRF(a.browser(c), request.ID)
	// Cancelling and the answer to the question lead to the client, and from there who knows where: browsers would hold
	// that against the policy, too.
	policy := ""
	switch {
	case content.Step == stepCode:
		policy = "'self'"
		content.Title = "Look into your mail"
		content.Text = []string{"If there is an account with the address " + content.Email + ", a mail with a code is on its way. Keep this page open."}
	case request.User == nil:
		content.Step, content.Title = stepSignIn, "Sign in to Bough"
		content.Text = []string{"An application asks to use Bough at " + a.OAuthConfig.Issuer + " for you. Sign in to decide."}
	default:
		content.Step, content.Title = stepConsent, "Let this application use Bough for you?"
		content.Choices = request.Scopes
		if len(content.Choices) == 0 {
			content.Problem = "What it asks for only an administrator can allow."
		}
	}
	a.authorizationPage(c, status, content, policy)
}

// authorizationPage writes the page. It shows itself and nothing else, in no frame. It may be in a window that a client's
// page opened and waits for: a Cross-Origin-Opener-Policy would take the window from it, as if the user had closed it.
func (a *API) authorizationPage(c *gin.Context, status int, content authorizeContent, formAction string) {
	content.Style = template.CSS(pageStyle) //nolint:gosec // a file of this program
	var body bytes.Buffer
	if err := authorizePage.Execute(&body, content); err != nil {
		a.writeError(c, err)
		return
	}
	sum := sha256.Sum256([]byte(pageStyle))
	policy := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; frame-ancestors 'none'; base-uri 'none'"
	if formAction != "" {
		policy += "; form-action " + formAction
	}
	pageHeaders(c, policy)
	noSniff(c)
	c.Header("X-Frame-Options", "DENY")
	c.Data(status, "text/html; charset=utf-8", body.Bytes())
}

// authorizeError sends the browser back to the client with an error, or shows what was wrong where it must not be sent
// there (RFC 6749, section 4.1.2.1).
func (a *API) authorizeError(c *gin.Context, err error) {
	c.Abort()
	var redirect *oauth.RedirectError
	var page *oauth.PageError
	var problem *oauth.Error
	switch {
	case errors.As(err, &redirect):
		redirectTo(c, redirect.Location)
		return
	case errors.As(err, &page):
	case errors.As(err, &problem):
		page = &oauth.PageError{Title: "This does not work", Message: problem.Description, Status: problem.Status}
	default:
		f := a.faultOf(c, err)
		if f == nil {
			return
		}
		page = &oauth.PageError{Title: "This does not work", Message: f.Message, Status: statuses[f.Kind]}
		if page.Status == 0 {
			page.Status, page.Message = http.StatusInternalServerError, "Something went wrong here. The log has more under the request id "+c.GetString(requestIDKey)+"."
		}
		page.RetryAfter = f.RetryAfter
	}
	if page.RetryAfter > 0 {
		c.Header("Retry-After", strconv.Itoa(int(math.Ceil(page.RetryAfter.Seconds()))))
	}
	a.authorizationPage(c, page.Status, authorizeContent{Title: page.Title, Text: []string{page.Message}}, "'none'")
}
