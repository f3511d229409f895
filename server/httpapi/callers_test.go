package httpapi_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/api"
	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/servertest"
)

// Who may use an operation, of those whose credential it takes. Of operations on a branch, the branch is the user's.
type audience int

const (
	everybody audience = iota + 1 // whoever has one
	owner                         // the user, administrators, service keys
	operators                     // administrators and service keys
	users                         // signed-in people; a service key is nobody
	strangers                     // everybody, and credentials are not looked at
)

// decision says who may use an operation, and with which scope. Without scopes it is for unrestricted credentials: no
// client key may use it, whoever it belongs to. An operation without a decision fails the test.
type decision struct {
	who    audience
	scopes []string
	self   bool // a client key may use it for itself, whatever its scopes
	path   map[string]string
	query  string
	body   string
	header []string
}

const (
	readBranches, writeBranches = "read:branches", "write:branches"
	readTables, writeTables     = "read:tables", "write:tables"
	readSchema, executeRPC      = "read:schema", "execute:rpc"
)

// decisions are by operationId. {branch} stands for a branch that belongs to the user.
var decisions = map[string]decision{
	// Branches.
	"createBranch":            {who: owner, scopes: []string{writeBranches}, body: `{"name":"child","parent_branch_id":"{branch}"}`},
	"listBranches":            {who: everybody, scopes: []string{readBranches}},
	"getPoolStats":            {who: everybody, scopes: []string{readBranches}},
	"getBranch":               {who: owner, scopes: []string{readBranches}},
	"updateBranch":            {who: owner, scopes: []string{writeBranches}, body: `{"expires_in":"7d"}`},
	"deleteBranch":            {who: owner, scopes: []string{writeBranches}, query: "children=orphan"},
	"resetBranch":             {who: owner, scopes: []string{writeBranches}},
	"listBranchActivity":      {who: owner, scopes: []string{readBranches}},
	"getBranchConnection":     {who: owner},
	"rotateBranchCredentials": {who: owner},
	"listBranchAccess":        {who: owner, scopes: []string{readBranches}},
	"grantBranchAccess":       {who: owner, body: `{"level":"read"}`},
	"revokeBranchAccess":      {who: owner},
	// Repositories.
	"listRepohostConfigs":       {who: operators},
	"putRepohostConfig":         {who: operators, body: `{"repository":"a/b","webhook_secret":"0123456789abcdef0123456789abcdef"}`},
	"getRepohostConfig":         {who: operators, path: map[string]string{"repository": "a%2Fb"}},
	"deleteRepohostConfig":      {who: operators, path: map[string]string{"repository": "a%2Fb"}},
	"listRepohostDeliveries":    {who: operators},
	"receiveRepohostWebhook":    {who: strangers},
	"receiveRepohostWebhookFor": {who: strangers},
	// Keys and users.
	"createKey":            {who: everybody, body: `{"type":"client","name":"another","scopes":["read:tables"]}`},
	"listKeys":             {who: everybody, self: true},
	"revokeKey":            {who: everybody},
	"signUp":               {who: strangers, body: `{}`},
	"signIn":               {who: strangers, body: `{}`},
	"signOut":              {who: users, query: "scope=others"},
	"refreshSession":       {who: strangers, body: `{}`},
	"getCurrentUser":       {who: users},
	"updateCurrentUser":    {who: users, body: `{"user_metadata":{"a":1}}`},
	"listSessions":         {who: users},
	"revokeSession":        {who: users},
	"requestMagicLink":     {who: strangers, body: `{}`},
	"openMagicLink":        {who: strangers},
	"verifyMagicLink":      {who: strangers, body: `{}`},
	"exchangeCode":         {who: strangers, body: `{}`},
	"requestPasswordReset": {who: strangers, body: `{}`},
	"openPasswordReset":    {who: strangers},
	"confirmPasswordReset": {who: strangers, body: `{}`},
	"getJWKS":              {who: strangers},
	"listUsers":            {who: operators},
	"createUser":           {who: operators, body: `{"email":"made@example.com"}`},
	"getUser":              {who: operators},
	"updateUser":           {who: operators, body: `{"user_metadata":{}}`},
	"deleteUser":           {who: operators},
	"rotateSigningKeys":    {who: operators},
	// Applications.
	"listApplications":           {who: users},
	"revokeApplication":          {who: everybody},
	"listOAuthClients":           {who: operators},
	"revokeOAuthClient":          {who: operators, path: map[string]string{"client_id": "mcp_none"}},
	"listAudit":                  {who: operators},
	"getAuthorizationServer":     {who: strangers},
	"getProtectedResource":       {who: strangers},
	"getProtectedResourceOfPath": {who: strangers},
	"registerClient":             {who: strangers, body: `{}`},
	"authorize":                  {who: strangers},
	"showAuthorization":          {who: strangers},
	"answerAuthorization":        {who: strangers},
	"issueToken":                 {who: strangers},
	"revokeToken":                {who: strangers},
	// The MCP server has a matrix of its own for its tools.
	"callMCP": {who: everybody, scopes: every, body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		header: []string{"Accept", "application/json, text/event-stream"}},
	"listenMCP":     {who: everybody, scopes: every},
	"endMCPSession": {who: everybody, scopes: every},
	// Webhooks.
	"createWebhook":         {who: operators, body: `{"url":"https://hooks.example.com/","events":["*"]}`},
	"listWebhooks":          {who: operators},
	"getWebhook":            {who: operators},
	"updateWebhook":         {who: operators, body: `{"enabled":false}`},
	"deleteWebhook":         {who: operators},
	"testWebhook":           {who: operators},
	"rotateWebhookSecret":   {who: operators, body: `{}`},
	"listWebhookDeliveries": {who: operators},
	"listDeliveries":        {who: operators},
	"redeliver":             {who: operators},
	// Data.
	"listTables":           {who: everybody, scopes: []string{readTables, readSchema}},
	"runBatch":             {who: everybody, scopes: []string{writeTables}, body: `[{"method":"DELETE","table":"notes","query":{"id":-1}}]`},
	"listRecords":          {who: everybody, scopes: []string{readTables}},
	"createRecords":        {who: everybody, scopes: []string{writeTables}, body: `{"text":"x"}`},
	"updateRecords":        {who: everybody, scopes: []string{writeTables}, query: "id=eq.-1", body: `{"text":"x"}`},
	"deleteRecords":        {who: everybody, scopes: []string{writeTables}, query: "id=eq.-1"},
	"getRecord":            {who: everybody, scopes: []string{readTables}},
	"replaceRecord":        {who: everybody, scopes: []string{writeTables}, body: `{"text":"x"}`},
	"updateRecord":         {who: everybody, scopes: []string{writeTables}, body: `{"text":"x"}`},
	"deleteRecord":         {who: everybody, scopes: []string{writeTables}},
	"callFunctionReadOnly": {who: everybody, scopes: []string{executeRPC}, query: "n=2"},
	"callFunction":         {who: everybody, scopes: []string{executeRPC}, body: `{"n":2}`},
	"tableOptions":         {who: everybody, scopes: []string{readTables}},
	"recordOptions":        {who: everybody, scopes: []string{readTables}},
	"functionOptions":      {who: everybody, scopes: []string{executeRPC}},
	"restOptions":          {who: everybody, scopes: []string{readTables}},
	"restFunctionOptions":  {who: everybody, scopes: []string{executeRPC}},
	"restList":             {who: everybody, scopes: []string{readTables}},
	"restInsert":           {who: everybody, scopes: []string{writeTables}, body: `{"text":"x"}`},
	"restUpdate":           {who: everybody, scopes: []string{writeTables}, query: "id=eq.-1", body: `{"text":"x"}`},
	"restUpsert":           {who: everybody, scopes: []string{writeTables}, query: "id=eq.7", body: `{"id":7,"text":"x"}`},
	"restDelete":           {who: everybody, scopes: []string{writeTables}, query: "id=eq.-1"},
	"restCallReadOnly":     {who: everybody, scopes: []string{executeRPC}, query: "n=2"},
	"restCall":             {who: everybody, scopes: []string{executeRPC}, body: `{"n":2}`},
	"getOpenAPI":           {who: everybody, scopes: every}, // main's is for everybody
	"getDocs":              {who: strangers},
	"getHealth":            {who: strangers},
	"getReadiness":         {who: strangers},
}

// every are all scopes that there are.
var every = []string{
	readTables, writeTables, "execute:functions", executeRPC, "read:storage", "write:storage", "execute:jobs", "read:vectors", readSchema,
	readBranches, writeBranches, "write:schema",
}

// party is a kind of caller.
type party struct {
	name   string
	scheme string // as the contract names it; "" for none
	header []string
	role   string // user, other, admin or service
	scopes []string
}

// permitted tells whether the contract and the decision let the party use the operation.
func permitted(d decision, security *openapi3.SecurityRequirements, p party) bool {
	accepts := func(name string) bool {
		return security != nil && slices.ContainsFunc(*security, func(r openapi3.SecurityRequirement) bool { _, ok := r[name]; return ok })
	}
	switch {
	case d.who == strangers:
		return true
	case p.scheme == "":
		return optional(security)
	case !accepts(p.scheme):
		return false
	case p.scopes != nil && !d.self && !slices.ContainsFunc(p.scopes, func(scope string) bool { return slices.Contains(d.scopes, scope) }):
		return false
	}
	switch d.who {
	case owner:
		return p.role != "other"
	case operators:
		return p.role == "admin" || p.role == "service"
	case users:
		return p.role != "service"
	}
	return true
}

// optional reports whether an operation takes credentials and can do without.
func optional(security *openapi3.SecurityRequirements) bool {
	return security != nil && slices.ContainsFunc(*security, func(r openapi3.SecurityRequirement) bool { return len(r) == 0 })
}

// cast is a server with callers of every kind.
type cast struct {
	*servertest.Server
	parties []party
	branch  func(t *testing.T) string // makes a branch that belongs to the user
}

func assemble(t *testing.T) *cast {
	t.Helper()
	s := servertest.Start(t, unlimited, withMCP, maxKeys(1000))
	s.Exec(t, s.Main, `create table notes (id int generated by default as identity primary key, text text);
		grant all on notes to authenticated; grant usage on all sequences in schema public to authenticated;
		create function twice(n int) returns int stable language sql as 'select 2 * n'`)
	c := &cast{Server: s, parties: []party{{name: "nobody"}}}
	add := func(p party) { c.parties = append(c.parties, p) }
	bearer := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	ids := map[string]uuid.UUID{}
	for _, role := range []string{"user", "other", "admin"} {
		email := role + "@example.com"
		signUp(t, s, email)
		if role == "admin" {
			makeAdmin(t, s, email)
		}
		session := signIn(t, s, email, pass)
		ids[role] = session.User.ID
		add(party{role, "BearerAuth", bearer(session.AccessToken), role, nil})
	}
	add(party{"service key", "ServiceKey", []string{"X-Service-Key", servertest.ServiceKey}, "service", nil})
	s.Exec(t, s.Control, `insert into oauth_clients (id, kind, name, redirect_uris) values ('mcp_test', 'registered', 'Test', '{}')`)
	for _, role := range []string{"user", "admin"} {
		id := ids[role]
		for _, scope := range every {
			key := must[*client.CreateKeyResponse](t, 201)(s.Service(t).CreateKeyWithResponse(t.Context(), client.CreateKeyRequest{
				Type: client.KeyTypeClient, Name: scope, UserID: &id, Scopes: scopes(client.Scope(scope)),
			})).JSON201.Key
			add(party{role + "'s key with " + scope, "ClientKey", []string{"X-Client-Key", key}, role, []string{scope}})
			add(party{role + "'s MCP token with " + scope, "MCPToken", bearer(c.mcpToken(t, id, scope)), role, []string{scope}})
		}
	}
	// A reset copies the parent once more.
	must[*client.GrantBranchAccessResponse](t, 200)(s.Service(t).GrantBranchAccessWithResponse(t.Context(), "main", ids["user"], client.GrantAccessRequest{Level: client.AccessLevelRead}))
	made := 0
	c.branch = func(t *testing.T) string {
		t.Helper()
		made++
		b := create(t, s.Service(t), client.CreateBranchRequest{Name: fmt.Sprintf("branch %d", made)})
		s.Exec(t, s.Control, "update branches set created_by = $2 where id = $1", b.ID, ids["user"].String())
		return b.ID.String()
	}
	return c
}

// mcpToken makes an access token as the authorization server would.
func (c *cast) mcpToken(t *testing.T, user uuid.UUID, scope string) string {
	t.Helper()
	random := make([]byte, 32)
	_, _ = rand.Read(random)
	token := "mcp_at_" + base64.RawURLEncoding.EncodeToString(random)
	hash := sha256.Sum256([]byte(token))
	c.Exec(t, c.Control, `
		with g as (
			insert into oauth_grants (id, client_id, user_id, scopes, resource, expires_at, last_used_at)
			values (gen_random_uuid(), 'mcp_test', $1, array[$2], $3, now() + interval '1 hour', now()) returning id)
		insert into oauth_tokens (hash, kind, grant_id, generation, scopes, expires_at)
		select $4, 'access', id, 0, array[$2], now() + interval '1 hour' from g`, user, scope, c.URL+"/mcp", hash[:])
	return token
}

// placeholders are what path parameters get, unless the decision says otherwise. What is looked up after the caller was
// let in need not be there.
func placeholder(name, branch string) string {
	switch name {
	case "id":
		return branch
	case "table":
		return "notes"
	case "function":
		return "twice"
	}
	return uuid.NewString()
}

// target is an address that the operation can be asked at.
func (d decision) target(path string, params openapi3.Parameters, branch string) string {
	target := path
	for _, param := range params {
		if param.Value.In != openapi3.ParameterInPath {
			continue
		}
		value := d.path[param.Value.Name]
		if value == "" {
			value = placeholder(param.Value.Name, branch)
		}
		if param.Value.Name == "id" && strings.Contains(path, "{table}") {
			value = "7"
		}
		target = strings.Replace(target, "{"+param.Value.Name+"}", value, 1)
	}
	if d.query != "" {
		target += "?" + d.query
	}
	return target
}

// Every operation of the contract, for every kind of caller: who may not is refused, and who may is not.
func TestEveryOperationForEveryCaller(t *testing.T) {
	t.Parallel()
	spec, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	c := assemble(t)
	lasting, seen := c.branch(t), map[string]bool{}
	web := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	requests := 0
	for _, path := range slices.Sorted(maps.Keys(spec.Paths.Map())) {
		item := spec.Paths.Map()[path]
		for method, op := range item.Operations() {
			id := strings.ToLower(op.OperationID[:1]) + op.OperationID[1:] // the generator has them in Go's form
			d, ok := decisions[id]
			if !ok {
				t.Errorf("nobody has decided who may use %s (%s %s)", id, method, path)
				continue
			}
			seen[id] = true
			if open := op.Security == nil || len(*op.Security) == 0; open != (d.who == strangers) {
				t.Errorf("%s: the contract takes credentials: %v; the decision says something else", id, !open)
			}
			for _, p := range c.parties {
				want := permitted(d, op.Security, p)
				branch := lasting
				if want && id == "deleteBranch" {
					branch = c.branch(t)
				}
				target := d.target(path, slices.Concat(item.Parameters, op.Parameters), branch)
				body := strings.ReplaceAll(d.body, "{branch}", branch)
				req, err := http.NewRequestWithContext(t.Context(), method, c.URL+target, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if body != "" {
					req.Header.Set("Content-Type", "application/json")
				}
				for i := 0; i+1 < len(p.header); i += 2 {
					req.Header.Set(p.header[i], p.header[i+1])
				}
				for i := 0; i+1 < len(d.header); i += 2 {
					req.Header.Set(d.header[i], d.header[i+1])
				}
				requests++
				resp, err := web.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil {
					t.Fatal(err)
				}
				if got := letIn(resp, answer); got != want || resp.StatusCode >= 500 {
					t.Errorf("%s by %s: %d %.200s; let in %v, want %v", id, p.name, resp.StatusCode, answer, got, want)
				}
				if op.Security != nil && len(*op.Security) > 0 {
					checkCaching(t, id+" by "+p.name, resp.Header, p.scheme != "")
				}
				if !want && p.scheme == "" && resp.StatusCode != http.StatusUnauthorized {
					t.Errorf("%s without credentials: %d", id, resp.StatusCode)
				}
			}
		}
	}
	for id := range decisions {
		if !seen[id] {
			t.Errorf("%s is decided and not in the contract", id)
		}
	}
	t.Logf("%d requests by %d callers", requests, len(c.parties))
}

// checkCaching checks that an answer says that it depends on credentials, and that one to somebody is for nobody else.
func checkCaching(t *testing.T, name string, h http.Header, credentials bool) {
	t.Helper()
	varies := strings.ToLower(strings.Join(h.Values("Vary"), ", ")) + ", "
	for _, header := range []string{"authorization, ", "x-service-key, ", "x-client-key, "} {
		if !strings.Contains(varies, header) {
			t.Errorf("%s: Vary is %q", name, varies)
		}
	}
	cache := strings.Join(h.Values("Cache-Control"), ", ")
	// The library of the MCP server says no-cache of its streams, and answers to POST are not kept anyway.
	kept := !strings.Contains(cache, "private") && !strings.Contains(cache, "no-store") && cache != "no-cache, no-transform"
	if credentials && (kept || strings.Contains(cache, "public")) {
		t.Errorf("%s: Cache-Control is %q", name, cache)
	}
}

// letIn tells from an answer whether the caller was let in: whatever came of it then is another matter.
func letIn(resp *http.Response, answer []byte) bool {
	var e struct{ Code, Error any }
	_ = json.Unmarshal(answer, &e) // some answers are pages, or have no body
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return e.Code != "unauthorized" && e.Code != "access_denied" && e.Error != "invalid_token" && e.Error != "insufficient_scope" && e.Code != nil
	case http.StatusNotFound:
		return e.Code != "branch_not_found"
	}
	return true
}
