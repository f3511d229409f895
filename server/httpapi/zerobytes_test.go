package httpapi_test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/boughdb/bough/gen/api"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

// PostgreSQL has no text with a zero byte: wherever one comes, the client is told.
func TestZeroBytesAreTheClientsMistake(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(cfg *server.Config) { cfg.Auth.AnonymousAccess = true })
	s.Exec(t, s.Main, bookshelf)
	spec, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	send := func(method, path, contentType, body string, headers ...string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if contentType != "" {
			req.Header.Set("Content-Type", contentType)
		}
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode < 400 || resp.StatusCode >= 500 {
			t.Errorf("%s %s %s: status %d", method, path, body, resp.StatusCode)
		}
	}
	sent := 0
	for _, path := range slices.Sorted(maps.Keys(spec.Paths.Map())) {
		item := spec.Paths.Value(path)
		for method, op := range item.Operations() {
			target := strings.NewReplacer("{table}", "book", "{function}", "f", "{id}", "0191d9a0-5f0e-7c5e-9a52-100000000800", "{", "", "}", "").Replace(path)
			for _, p := range slices.Concat(item.Parameters, op.Parameters) {
				switch name := p.Value.Name; p.Value.In {
				case openapi3.ParameterInQuery:
					for _, value := range []string{"%00", "a%00b", "%ff"} {
						send(method, target+"?"+url.QueryEscape(name)+"="+value, "application/json", "{}", serviceKey()...)
						sent++
					}
				case openapi3.ParameterInPath:
					send(method, strings.Replace(path, "{"+name+"}", "%00", 1), "application/json", "{}", serviceKey()...)
					sent++
				}
			}
			if op.RequestBody == nil {
				continue
			}
			for mediaType, media := range op.RequestBody.Value.Content {
				if media.Schema == nil || media.Schema.Value == nil {
					continue
				}
				for name := range media.Schema.Value.Properties {
					switch mediaType {
					case "application/json":
						send(method, target, mediaType, `{"`+name+`": "a\u0000b"}`, serviceKey()...)
					case "application/x-www-form-urlencoded":
						send(method, target, mediaType, url.QueryEscape(name)+"=a%00b")
					default:
						continue
					}
					sent++
				}
			}
		}
	}
	if sent < 100 {
		t.Errorf("only %d requests were sent", sent)
	}
	for _, body := range []string{`{"title": "\u0000"}`, `{"ti\u0000tle": "x"}`, `[{"title": "a\u0000"}]`} {
		send("POST", "/api/v1/tables/book", "application/json", body, serviceKey()...)
		send("POST", "/rest/v1/book", "application/json", body, serviceKey()...)
		send("POST", "/api/v1/tables", "application/json", `[{"method": "POST", "table": "book", "body": `+body+`}]`, serviceKey()...)
	}
	send("GET", "/api/v1/tables/book", "", "", append(serviceKey(), "X-Branch", "a%00b")...)
	send("GET", "/rest/v1/book", "", "", append(serviceKey(), "Prefer", "timezone=a%00b, handling=strict")...)
}
