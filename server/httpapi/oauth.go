package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/boughdb/bough/server/oauth"
)

// maxForm bounds the body of a request to the OAuth endpoints.
const maxForm = 64 << 10

// Where OAuth's metadata is (RFC 8414, section 3; RFC 9728, section 3).
const (
	serverMetadataPath   = "/.well-known/oauth-authorization-server"
	resourceMetadataPath = "/.well-known/oauth-protected-resource"
)

// registerOAuth routes OAuth's endpoints: their paths follow a setting, their bodies are forms, and their errors are those
// of RFC 6749.
func (a *API) registerOAuth(engine *gin.Engine) {
	if a.OAuth == nil {
		return
	}
	for path, document := range map[string]gin.HandlerFunc{
		serverMetadataPath: a.authorizationServer, resourceMetadataPath: a.protectedResource, resourceMetadataPath + a.MCPPath: a.protectedResource,
	} {
		engine.GET(path, document)
		engine.HEAD(path, document)
	}
	group := engine.Group(a.MCPPath+"/oauth", limitTime, func(c *gin.Context) {
		c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, maxForm)
		c.Header("Cache-Control", noStore)
		c.Header("Pragma", "no-cache") // RFC 6749, section 5.1
	})
	group.POST("/register", a.registerClient)
	group.POST("/token", a.issueToken)
	group.POST("/revoke", a.revokeToken)
	a.registerAuthorize(group)
}

// crossOriginPaths are those whose answers pages of any origin may read: there is nothing in them that a cookie opens.
func (a *API) crossOriginPaths() []string {
	if a.OAuth == nil {
		return nil
	}
	return []string{
		serverMetadataPath, resourceMetadataPath, resourceMetadataPath + a.MCPPath,
		a.MCPPath + "/oauth/register", a.MCPPath + "/oauth/token", a.MCPPath + "/oauth/revoke",
	}
}

// serverMetadata is RFC 8414's.
type serverMetadata struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	RegistrationEndpoint  string   `json:"registration_endpoint,omitempty"`
	RevocationEndpoint    string   `json:"revocation_endpoint"`
	Scopes                []string `json:"scopes_supported"`
	ResponseTypes         []string `json:"response_types_supported"`
	ResponseModes         []string `json:"response_modes_supported"`
	GrantTypes            []string `json:"grant_types_supported"`
	TokenAuthMethods      []string `json:"token_endpoint_auth_methods_supported"`
	RevocationAuthMethods []string `json:"revocation_endpoint_auth_methods_supported"`
	ChallengeMethods      []string `json:"code_challenge_methods_supported"`
	IssParameter          bool     `json:"authorization_response_iss_parameter_supported"`
	ClientDocuments       bool     `json:"client_id_metadata_document_supported"`
	ProtectedResources    []string `json:"protected_resources"`
}

func (a *API) authorizationServer(c *gin.Context) {
	cfg := a.OAuthConfig
	below := cfg.Resource() + "/oauth/"
	none := []string{"none"}
	answer := serverMetadata{
		Issuer: cfg.Issuer, AuthorizationEndpoint: below + "authorize", TokenEndpoint: below + "token", RevocationEndpoint: below + "revoke",
		ResponseTypes: []string{"code"}, ResponseModes: []string{"query"}, GrantTypes: []string{"authorization_code", "refresh_token"},
		TokenAuthMethods: none, RevocationAuthMethods: none, ChallengeMethods: []string{"S256"}, IssParameter: true,
		ClientDocuments: cfg.ClientDocuments, ProtectedResources: []string{cfg.Resource()},
	}
	if cfg.Registration {
		answer.RegistrationEndpoint = below + "register"
	}
	for _, scope := range oauth.Scopes() { // all that requests may name; the resource says which of them lead to something
		answer.Scopes = append(answer.Scopes, scope.Name)
	}
	c.Header("Cache-Control", "public, max-age=300")
	c.JSON(http.StatusOK, answer)
}

// resourceMetadata is RFC 9728's.
type resourceMetadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	Scopes               []string `json:"scopes_supported"`
	BearerMethods        []string `json:"bearer_methods_supported"`
	Name                 string   `json:"resource_name"`
}

func (a *API) protectedResource(c *gin.Context) {
	cfg := a.OAuthConfig
	c.Header("Cache-Control", "public, max-age=300")
	c.JSON(http.StatusOK, resourceMetadata{cfg.Resource(), []string{cfg.Issuer}, a.OAuth.DefaultScopes(), []string{"header"}, "Bough"})
}

func invalidRequest(description string) *oauth.Error {
	return &oauth.Error{Code: "invalid_request", Description: description, Status: http.StatusBadRequest}
}

// oauthError is the body of an error.
type oauthError struct {
	Error       string `json:"error"`
	Description string `json:"error_description,omitempty"`
}

// writeOAuthError answers with an error in the form of RFC 6749, section 5.2.
func (a *API) writeOAuthError(c *gin.Context, err error) {
	c.Abort()
	var problem *oauth.Error
	if !errors.As(err, &problem) {
		f := a.faultOf(c, err)
		if f == nil {
			return
		}
		problem = &oauth.Error{Code: "server_error", Description: f.Message, Status: statuses[f.Kind], RetryAfter: f.RetryAfter}
		switch problem.Status {
		case 0, http.StatusInternalServerError:
			problem.Status = http.StatusInternalServerError
		case http.StatusServiceUnavailable, http.StatusTooManyRequests:
			problem.Code = "temporarily_unavailable"
		case http.StatusInsufficientStorage:
			problem.Code = f.Code
		default:
			problem.Code = "invalid_request"
		}
	}
	switch problem.Status {
	case http.StatusUnauthorized:
		// A client that tried the header is answered in its scheme (RFC 6749, section 5.2).
		c.Header("WWW-Authenticate", `Basic realm="bough"`)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		c.Header("Retry-After", strconv.Itoa(int(math.Ceil(max(problem.RetryAfter, time.Second).Seconds()))))
	}
	c.JSON(problem.Status, oauthError{problem.Code, problem.Description})
}

func (a *API) registerClient(c *gin.Context) {
	if !a.OAuthConfig.Registration {
		a.writeOAuthError(c, oauth.ErrRegistrationNotSupported)
		return
	}
	if a.Room != nil {
		if err := a.Room(); err != nil {
			a.writeOAuthError(c, err)
			return
		}
	}
	if media, _, _ := mime.ParseMediaType(c.GetHeader("Content-Type")); media != "application/json" {
		a.writeOAuthError(c, &oauth.Error{Code: "invalid_client_metadata", Description: "the body must be application/json", Status: http.StatusBadRequest})
		return
	}
	data, err := io.ReadAll(c.Request.Body)
	if err != nil {
		a.writeOAuthError(c, err)
		return
	}
	var body struct {
		ClientName      string   `json:"client_name"`
		RedirectURIs    []string `json:"redirect_uris"`
		Scope           string   `json:"scope"`
		ClientURI       string   `json:"client_uri"`
		LogoURI         string   `json:"logo_uri"`
		SoftwareID      string   `json:"software_id"`
		SoftwareVersion string   `json:"software_version"`
		GrantTypes      []string `json:"grant_types"`
		ResponseTypes   []string `json:"response_types"`
	}
	if err := json.Unmarshal(data, &body); err != nil {
		a.writeOAuthError(c, &oauth.Error{
			Code: "invalid_client_metadata", Description: "the body is not a JSON object whose members have the types of RFC 7591", Status: http.StatusBadRequest,
		})
		return
	}
	client, err := a.OAuth.Register(c.Request.Context(), oauth.Registration(body), clientOf(c))
	if err != nil {
		a.writeOAuthError(c, err)
		return
	}
	c.JSON(http.StatusCreated, registered(client))
}

// registeredClient is what a registration answers (RFC 7591, section 3.2.1).
type registeredClient struct {
	ClientID        string   `json:"client_id"`
	ClientName      string   `json:"client_name"`
	RedirectURIs    []string `json:"redirect_uris"`
	IssuedAt        int64    `json:"client_id_issued_at"`
	Scope           string   `json:"scope,omitempty"`
	ClientURI       string   `json:"client_uri,omitempty"`
	LogoURI         string   `json:"logo_uri,omitempty"`
	SoftwareID      string   `json:"software_id,omitempty"`
	SoftwareVersion string   `json:"software_version,omitempty"`
	AuthMethod      string   `json:"token_endpoint_auth_method"`
	GrantTypes      []string `json:"grant_types"`
	ResponseTypes   []string `json:"response_types"`
}

func registered(k oauth.Client) registeredClient {
	return registeredClient{
		ClientID: k.ID, ClientName: k.Name, RedirectURIs: k.RedirectURIs, IssuedAt: k.CreatedAt.Unix(), Scope: k.Scope, ClientURI: k.URI,
		LogoURI: k.LogoURI, SoftwareID: k.SoftwareID, SoftwareVersion: k.SoftwareVersion,
		// Whatever it asked for: it has no secret to authenticate with.
		AuthMethod: "none", GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
	}
}

// form reads a body of parameters (RFC 6749, section 3.2): each at most once, an empty one as if it were not there. many
// may come more than once.
func form(c *gin.Context, many ...string) (url.Values, error) {
	if media, _, _ := mime.ParseMediaType(c.GetHeader("Content-Type")); media != "application/x-www-form-urlencoded" {
		return nil, invalidRequest("the body must be application/x-www-form-urlencoded")
	}
	if c.Request.URL.RawQuery != "" {
		return nil, invalidRequest("parameters belong in the body, not in the URL")
	}
	data, err := io.ReadAll(c.Request.Body)
	if err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(string(data))
	if err != nil {
		return nil, invalidRequest("the body is not a form")
	}
	repeat := map[string]bool{}
	for _, name := range many {
		repeat[name] = true
	}
	for name, all := range values {
		if isNoText(name) || slices.ContainsFunc(all, isNoText) {
			return nil, invalidRequest("a parameter is not UTF-8 text, or has a zero byte in it")
		}
		if len(all) > 1 && !repeat[name] {
			return nil, invalidRequest("a parameter is there more than once")
		}
	}
	return values, nil
}

func (a *API) issueToken(c *gin.Context) {
	values, err := form(c, "resource") // RFC 8707, section 2
	if err == nil && c.GetHeader("Authorization") != "" {
		err = &oauth.Error{Code: "invalid_client", Description: "clients have no secret here; send client_id in the body and no Authorization header", Status: http.StatusUnauthorized}
	}
	if err != nil {
		a.writeOAuthError(c, err)
		return
	}
	tokens, err := a.OAuth.Token(c.Request.Context(), oauth.TokenRequest{
		GrantType: values.Get("grant_type"), Code: values.Get("code"), RedirectURI: values.Get("redirect_uri"), ClientID: values.Get("client_id"),
		CodeVerifier: values.Get("code_verifier"), RefreshToken: values.Get("refresh_token"), Scope: values.Get("scope"), Resource: values["resource"],
	}, clientOf(c))
	if err != nil {
		a.writeOAuthError(c, err)
		return
	}
	c.JSON(http.StatusOK, tokens)
}

func (a *API) revokeToken(c *gin.Context) {
	values, err := form(c)
	if err == nil && values.Get("token") == "" {
		err = invalidRequest("token is missing")
	}
	if err == nil {
		err = a.OAuth.Revoke(c.Request.Context(), values.Get("token"), values.Get("token_type_hint"), values.Get("client_id"), clientOf(c))
	}
	if err != nil {
		a.writeOAuthError(c, err)
		return
	}
	c.Status(http.StatusOK)
}
