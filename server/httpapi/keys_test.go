package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lestrrat-go/jwx/v2/jwa"
	"github.com/lestrrat-go/jwx/v2/jwk"
	"github.com/lestrrat-go/jwx/v2/jwt"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/servertest"
)

func scopes(s ...client.Scope) []client.Scope { return s }

func TestServiceKeys(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	c := s.Service(t)
	made := must[*client.CreateKeyResponse](t, 201)(c.CreateKeyWithResponse(t.Context(), client.CreateKeyRequest{Type: client.KeyTypeService, Name: " backend "}))
	diff(t, "cache", "no-store", made.HTTPResponse.Header.Get("Cache-Control"))
	key := made.JSON201.Key
	if !strings.HasPrefix(key, "bough_sk_") || len(key) != len("bough_sk_")+43 {
		t.Errorf("key %q", key)
	}
	other := s.Client(t, client.WithServiceKey(key))
	must[*client.ListBranchesResponse](t, 200)(other.ListBranchesWithResponse(t.Context(), nil))

	list := must[*client.ListKeysResponse](t, 200)(c.ListKeysWithResponse(t.Context(), nil)).JSON200
	diff(t, "total", 2, list.Total)
	diff(t, "newest", "backend", list.Keys[0].Name)
	if list.Keys[0].LastUsedAt == nil {
		t.Error("last_used_at is null after use")
	}
	if strings.Contains(string(must[*client.ListKeysResponse](t, 200)(c.ListKeysWithResponse(t.Context(), nil)).Body), key) {
		t.Error("the list shows a key")
	}
	diff(t, "keys in clear in the database", int64(0), servertest.Value[int64](t, s.Control, "select count(*) from api_keys where api_keys::text like '%' || $1 || '%'", key))

	must[*client.RevokeKeyResponse](t, 204)(c.RevokeKeyWithResponse(t.Context(), made.JSON201.ID))
	must[*client.ListBranchesResponse](t, 401)(other.ListBranchesWithResponse(t.Context(), nil))
	must[*client.RevokeKeyResponse](t, 204)(c.RevokeKeyWithResponse(t.Context(), made.JSON201.ID))
	must[*client.RevokeKeyResponse](t, 404)(c.RevokeKeyWithResponse(t.Context(), uuid.New()))
}

func TestRevocationReachesOtherProcesses(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	first := s.Service(t)
	made := must[*client.CreateKeyResponse](t, 201)(first.CreateKeyWithResponse(t.Context(), client.CreateKeyRequest{Type: client.KeyTypeService, Name: "k"})).JSON201
	s.Run(t) // URL is now the second process
	second := s.Client(t, client.WithServiceKey(made.Key))
	must[*client.ListBranchesResponse](t, 200)(second.ListBranchesWithResponse(t.Context(), nil))
	must[*client.RevokeKeyResponse](t, 204)(first.RevokeKeyWithResponse(t.Context(), made.ID))
	eventually(t, "the revocation in the second process", func() bool {
		r, err := second.ListBranchesWithResponse(t.Context(), nil)
		return err == nil && r.StatusCode() == 401
	})
}

func TestClientKeysActAsTheirUserWithinScopes(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	service, id := s.Service(t), uuid.New()
	user := s.User(t, id)
	make := func(c *client.ClientWithResponses, status int, body client.CreateKeyRequest) *client.CreatedKey {
		t.Helper()
		return must[*client.CreateKeyResponse](t, status)(c.CreateKeyWithResponse(t.Context(), body)).JSON201
	}
	read := make(user, 201, client.CreateKeyRequest{Type: client.KeyTypeClient, Name: "r", Scopes: scopes(client.ScopeReadBranches)})
	diff(t, "user", &id, read.UserID)
	must[*client.GrantBranchAccessResponse](t, 200)(service.GrantBranchAccessWithResponse(t.Context(), "main", id, client.GrantAccessRequest{Level: client.AccessLevelRead}))
	reader := s.Client(t, client.WithClientKey(read.Key))
	must[*client.GetBranchResponse](t, 200)(reader.GetBranchWithResponse(t.Context(), "main"))
	refused := must[*client.CreateBranchResponse](t, 403)(reader.CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{}, client.CreateBranchRequest{Name: "a"}))
	if !strings.Contains(refused.JSON403.Error, "write:branches") {
		t.Errorf("the refusal does not name the scope: %s", refused.JSON403.Error)
	}
	tables := make(user, 201, client.CreateKeyRequest{Type: client.KeyTypeClient, Name: "t", Scopes: scopes(client.ScopeReadTables)})
	must[*client.ListBranchesResponse](t, 403)(s.Client(t, client.WithClientKey(tables.Key)).ListBranchesWithResponse(t.Context(), nil))

	make(reader, 403, client.CreateKeyRequest{Type: client.KeyTypeClient, Name: "more", Scopes: scopes(client.ScopeWriteBranches)})
	make(user, 403, client.CreateKeyRequest{Type: client.KeyTypeService, Name: "s"})
	make(user, 400, client.CreateKeyRequest{Type: client.KeyTypeClient, Name: "none"})
	make(service, 400, client.CreateKeyRequest{Type: client.KeyTypeService, Name: "s", Scopes: scopes(client.ScopeReadTables)})
	make(service, 400, client.CreateKeyRequest{Type: client.KeyTypeClient, Name: "whose", Scopes: scopes(client.ScopeReadTables)})
	someone := uuid.New()
	make(user, 403, client.CreateKeyRequest{Type: client.KeyTypeClient, Name: "theirs", Scopes: scopes(client.ScopeReadTables), UserID: &someone})
	theirs := make(service, 201, client.CreateKeyRequest{Type: client.KeyTypeClient, Name: "theirs", Scopes: scopes(client.ScopeReadTables), UserID: &someone})
	diff(t, "own keys", 2, must[*client.ListKeysResponse](t, 200)(user.ListKeysWithResponse(t.Context(), nil)).JSON200.Total)
	must[*client.RevokeKeyResponse](t, 404)(user.RevokeKeyWithResponse(t.Context(), theirs.ID))
	must[*client.RevokeKeyResponse](t, 403)(reader.RevokeKeyWithResponse(t.Context(), tables.ID))
	must[*client.RevokeKeyResponse](t, 204)(reader.RevokeKeyWithResponse(t.Context(), read.ID))

	// A key is one kind of credential and does not pass as another.
	must[*client.ListBranchesResponse](t, 401)(s.Client(t, client.WithServiceKey(tables.Key)).ListBranchesWithResponse(t.Context(), nil))
	must[*client.ListBranchesResponse](t, 401)(s.Client(t, client.WithClientKey(servertest.ServiceKey)).ListBranchesWithResponse(t.Context(), nil))
	// As a bearer token both are taken for what they are.
	must[*client.ListBranchesResponse](t, 200)(s.Client(t, client.WithBearerAuth(servertest.ServiceKey)).ListBranchesWithResponse(t.Context(), nil))
}

func TestExpiredKeyIsRefused(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	expiry := "1h"
	made := must[*client.CreateKeyResponse](t, 201)(s.Service(t).CreateKeyWithResponse(t.Context(),
		client.CreateKeyRequest{Type: client.KeyTypeService, Name: "k", ExpiresIn: &expiry})).JSON201
	c := s.Client(t, client.WithServiceKey(made.Key))
	must[*client.ListBranchesResponse](t, 200)(c.ListBranchesWithResponse(t.Context(), nil))
	s.Exec(t, s.Control, "update api_keys set expires_at = now() - interval '1 second' where id = $1", made.ID)
	eventually(t, "the refusal", func() bool {
		r, err := c.ListBranchesWithResponse(t.Context(), nil)
		return err == nil && r.StatusCode() == 401
	})
}

func TestAccessTokens(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	user := uuid.New()
	build := func(change func(*jwt.Builder)) jwt.Token {
		b := jwt.NewBuilder().Issuer(s.URL).Audience([]string{auth.Audience}).Subject(user.String()).
			IssuedAt(time.Now()).Expiration(time.Now().Add(time.Hour))
		if change != nil {
			change(b)
		}
		token, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	unpublished := servertest.NewKey(t)
	known := s.SigningKey(t)
	kid := known.KeyID()
	impostor := servertest.NewKey(t)
	if err := impostor.Set(jwk.KeyIDKey, kid); err != nil {
		t.Fatal(err)
	}
	public, err := known.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	pem, err := jwk.EncodePEM(public)
	if err != nil {
		t.Fatal(err)
	}
	// The oldest trick: the public key as the secret of a symmetric signature.
	secret, err := jwk.FromRaw(pem)
	if err != nil {
		t.Fatal(err)
	}
	if err := secret.Set(jwk.KeyIDKey, kid); err != nil {
		t.Fatal(err)
	}
	none, err := jwt.Sign(build(nil), jwt.WithInsecureNoSignature())
	if err != nil {
		t.Fatal(err)
	}
	sign := func(token jwt.Token) string { return servertest.Sign(t, token, jwa.ES256, known, auth.TokenType) }
	valid := sign(build(nil))
	eternal := build(nil)
	if err := eternal.Remove(jwt.ExpirationKey); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		token string
		want  int
	}{
		"valid":               {valid, 200},
		"expired":             {sign(build(func(b *jwt.Builder) { b.Expiration(time.Now().Add(-time.Minute)) })), 401},
		"not yet valid":       {sign(build(func(b *jwt.Builder) { b.NotBefore(time.Now().Add(time.Hour)) })), 401},
		"no expiry":           {sign(eternal), 401},
		"wrong issuer":        {sign(build(func(b *jwt.Builder) { b.Issuer("https://elsewhere.example") })), 401},
		"wrong audience":      {sign(build(func(b *jwt.Builder) { b.Audience([]string{"other"}) })), 401},
		"no subject":          {sign(build(func(b *jwt.Builder) { b.Subject("") })), 401},
		"subject no uuid":     {sign(build(func(b *jwt.Builder) { b.Subject("root") })), 401},
		"role of the service": {sign(build(func(b *jwt.Builder) { b.Claim("role", "service_role") })), 401},
		"wrong type":          {servertest.Sign(t, build(nil), jwa.ES256, known, "JWT"), 401},
		"unpublished key":     {servertest.Sign(t, build(nil), jwa.ES256, unpublished, auth.TokenType), 401},
		"impostor's key":      {servertest.Sign(t, build(nil), jwa.ES256, impostor, auth.TokenType), 401},
		"HS256 by public key": {servertest.Sign(t, build(nil), jwa.HS256, secret, auth.TokenType), 401},
		"alg none":            {string(none), 401},
		"signature cut":       {valid[:len(valid)-8], 401},
		"payload changed":     {strings.Replace(valid, ".", ".x", 1), 401},
		"nonsense":            {"a.b.c", 401},
		"long nonsense":       {strings.Repeat("a", 20<<10), 401},
		"OAuth token":         {"mcp_at_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 401},
	} {
		t.Run(name, func(t *testing.T) {
			resp, body := call(t, s, "GET", "/api/v1/admin/branches", "", "Authorization", "Bearer "+tc.token)
			if resp.StatusCode != tc.want {
				t.Fatalf("status %d, want %d: %s", resp.StatusCode, tc.want, body)
			}
			if tc.want == 401 {
				wantError(t, resp, body, 401, "unauthorized")
				if h := resp.Header.Get("WWW-Authenticate"); !strings.Contains(h, `error="invalid_token"`) {
					t.Errorf("WWW-Authenticate: %q", h)
				}
			}
		})
	}
	s.Exec(t, s.Control, "update signing_keys set retired_at = now()")
	eventually(t, "the refusal of tokens of a retired key", func() bool {
		resp, _ := call(t, s, "GET", "/api/v1/admin/branches", "", "Authorization", "Bearer "+valid)
		return resp.StatusCode == 401
	})
}
