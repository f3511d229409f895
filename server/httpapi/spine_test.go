package httpapi_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/boughdb/bough/gen/api"
	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	resp, body := call(t, s, "GET", "/healthz", "")
	diff(t, "healthz", `200 {"status":"ok"}`, resp.Status[:3]+" "+strings.TrimSpace(body))
	resp, body = call(t, s, "GET", "/readyz", "")
	if resp.StatusCode != 200 {
		t.Fatalf("readyz: %d %s", resp.StatusCode, body)
	}
	s.Exec(t, s.Control, "update bough_schema_version set version = 0")
	resp, body = call(t, s, "GET", "/readyz", "")
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || !strings.Contains(body, `"migrations":"failed"`) {
		t.Errorf("readyz with a schema that does not fit: %d %s", resp.StatusCode, body)
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for given, keep := range map[string]bool{"abc-1.2_3": true, "": false, strings.Repeat("x", 129): false, "a b": false, `a"b`: false} {
		resp, _ := call(t, s, "GET", "/healthz", "", "X-Request-Id", given)
		got := resp.Header.Get("X-Request-Id")
		if keep && got != given || !keep && (got == given || len(got) != 32) {
			t.Errorf("X-Request-Id %q came back as %q", given, got)
		}
	}
}

func TestUnencryptedHTTP2(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get(s.URL + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	diff(t, "protocol", 2, resp.ProtoMajor)
}

// A stranger's body is not read: she is refused by her headers.
func TestStrangersAreRefusedBeforeTheBody(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The body never comes.
	_, err = io.WriteString(conn, "POST /api/v1/admin/branches HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 500000\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 12)
	if _, err := io.ReadFull(conn, line); err != nil {
		t.Fatal(err)
	}
	diff(t, "answer", "HTTP/1.1 401", string(line))
}

// The values of an enum in the contract are those of the database, since one is turned into the other by name.
func TestEnumsOfContractAndDatabaseAgree(t *testing.T) {
	t.Parallel()
	spec, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"BranchStatus":   names(db.AllBranchStatusValues()),
		"BranchType":     names(db.AllBranchTypeValues()),
		"DataCloneMode":  names(db.AllDataCloneModeValues()),
		"AccessLevel":    names(db.AllAccessLevelValues()),
		"BranchAction":   names(db.AllBranchActionValues()),
		"KeyType":        names(db.AllKeyTypeValues()),
		"DeliveryStatus": names(db.AllDeliveryStatusValues()),
	} {
		var got []string
		for _, v := range spec.Components.Schemas[name].Value.Enum {
			got = append(got, v.(string))
		}
		slices.Sort(got)
		slices.Sort(want)
		diff(t, name, want, got)
	}
}

func names[T ~string](in []T) (out []string) {
	for _, v := range in {
		out = append(out, string(v))
	}
	return out
}

// The examples that API reviewers read are valid.
func TestExamplesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../gen/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := openapi3.NewLoader().LoadFromData(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := spec.Validate(context.Background(), openapi3.EnableExamplesValidation()); err != nil {
		t.Error(err)
	}
	for path, item := range spec.Paths.Map() {
		for method, op := range item.Operations() {
			if op.OperationID == "" || op.Summary == "" || op.Responses.Default() == nil {
				t.Errorf("%s %s lacks an operationId, a summary or a default answer", method, path)
			}
		}
	}
}

func TestErrorsHaveOneShape(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for _, path := range []string{"/", "/api", "/api/v1/admin/branches/x/y/z", "/openapi.json/x"} {
		resp, body := call(t, s, "GET", path, "")
		wantError(t, resp, body, 404, "not_found")
		var fields map[string]any
		if err := json.Unmarshal([]byte(body), &fields); err != nil {
			t.Fatal(err)
		}
		diff(t, "content type", "application/json; charset=utf-8", resp.Header.Get("Content-Type"))
	}
}

// Pages of other origins may read answers only where that is configured.
func TestOtherOrigins(t *testing.T) {
	t.Parallel()
	const origin = "https://app.example"
	preflight := func(s *servertest.Server, from string) *http.Response {
		resp, _ := call(t, s, "OPTIONS", "/rest/v1/notes", "", "Origin", from, "Access-Control-Request-Method", "PATCH", "Access-Control-Request-Headers", "authorization,content-profile,prefer")
		return resp
	}
	closed := servertest.Start(t)
	if resp := preflight(closed, origin); resp.Header.Get("Access-Control-Allow-Origin") != "" || resp.StatusCode != 401 {
		t.Errorf("status %d, allowed %q by default", resp.StatusCode, resp.Header.Get("Access-Control-Allow-Origin"))
	}
	open := servertest.Start(t, func(c *server.Config) { c.CORS.Origins = []string{origin} })
	resp := preflight(open, origin)
	if resp.StatusCode != 204 || resp.Header.Get("Access-Control-Allow-Origin") != origin || !strings.Contains(resp.Header.Get("Access-Control-Allow-Methods"), "PATCH") ||
		!strings.Contains(resp.Header.Get("Access-Control-Allow-Headers"), "prefer") || resp.Header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("status %d, %v", resp.StatusCode, resp.Header)
	}
	if resp := preflight(open, "https://evil.example"); resp.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("another origin is allowed")
	}
	resp, _ = call(t, open, "GET", "/rest/v1/nowhere", "", "Origin", origin, "X-Service-Key", servertest.ServiceKey)
	if resp.StatusCode != 404 || resp.Header.Get("Access-Control-Allow-Origin") != origin || !strings.Contains(resp.Header.Get("Access-Control-Expose-Headers"), "Content-Range") {
		t.Errorf("status %d, %v", resp.StatusCode, resp.Header)
	}
}
