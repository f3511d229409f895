package openapi_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/boughdb/bough/server/openapi"
)

func get(t *testing.T, h http.Handler, target string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestDocsPageFindsItsFilesHere(t *testing.T) {
	t.Parallel()
	h := openapi.Docs()
	page := get(t, h, "/docs?branch=demo")
	body, err := io.ReadAll(page.Body)
	if err != nil {
		t.Fatal(err)
	}
	if page.StatusCode != http.StatusOK || page.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("%d %v", page.StatusCode, page.Header)
	}
	policy := page.Header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("policy %s", policy)
	}
	if inline := regexp.MustCompile(`<script(?:>| [^>]*>)[^<]|<style| on[a-z]+=| style=`).Find(body); inline != nil {
		t.Errorf("the page has something inline: %s", inline)
	}
	links := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllSubmatch(body, -1)
	if len(links) < 5 {
		t.Fatalf("only %d links", len(links))
	}
	base := &url.URL{Path: "/docs"}
	for _, link := range links {
		target := string(link[1])
		if target == "openapi.json" || strings.HasPrefix(target, "data:") {
			continue
		}
		u, err := base.Parse(target)
		if err != nil || u.Host != "" {
			t.Errorf("%s leads elsewhere", target)
			continue
		}
		file := get(t, h, u.String(), "Accept-Encoding", "gzip, br")
		if file.StatusCode != http.StatusOK || !strings.Contains(file.Header.Get("Cache-Control"), "immutable") || file.Header.Get("ETag") == "" {
			t.Errorf("%s: %d %v", target, file.StatusCode, file.Header)
		}
		want := map[bool]string{true: "text/css; charset=utf-8", false: "text/javascript; charset=utf-8"}[strings.HasSuffix(target, ".css")]
		if got := file.Header.Get("Content-Type"); got != want {
			t.Errorf("%s is %s", target, got)
		}
		plain, err := io.ReadAll(get(t, h, u.String()).Body)
		if err != nil {
			t.Fatal(err)
		}
		if file.Header.Get("Content-Encoding") == "gzip" {
			zipped, err := gzip.NewReader(file.Body)
			if err != nil {
				t.Fatal(err)
			}
			unzipped, err := io.ReadAll(zipped)
			if err != nil || string(unzipped) != string(plain) {
				t.Errorf("%s differs by encoding (%v)", target, err)
			}
		}
		again := get(t, h, u.String(), "Accept-Encoding", "gzip", "If-None-Match", file.Header.Get("ETag"))
		if again.StatusCode != http.StatusNotModified {
			t.Errorf("%s again: %d", target, again.StatusCode)
		}
		if refused := get(t, h, u.String(), "Accept-Encoding", "gzip;q=0"); refused.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s is compressed for a client that refuses it", target)
		}
	}
}

func TestDocsServesNothingElse(t *testing.T) {
	t.Parallel()
	h := openapi.Docs()
	for _, target := range []string{"/docs/x", "/docs/index.html", "/docs/README.md", "/docs/page.js", "/docs/../docs.go", "/docsx"} {
		if got := get(t, h, target).StatusCode; got != http.StatusNotFound {
			t.Errorf("%s: %d", target, got)
		}
	}
	if got := get(t, h, "/docs/?branch=a"); got.StatusCode != http.StatusPermanentRedirect || got.Header.Get("Location") != "../docs?branch=a" {
		t.Errorf("/docs/: %d to %s", got.StatusCode, got.Header.Get("Location"))
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/docs", http.NoBody))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %v", w.Code, w.Header())
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/docs", http.NoBody))
	if w.Code != http.StatusOK || w.Body.Len() != 0 || w.Header().Get("Content-Length") == "" {
		t.Errorf("HEAD: %d, %d bytes", w.Code, w.Body.Len())
	}
}
