package document_test

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/boughdb/bough/server/oauth/document"
	"github.com/boughdb/bough/server/safedial"
)

func TestIsURL(t *testing.T) {
	t.Parallel()
	for clientID, want := range map[string]bool{
		"https://claude.ai/oauth/claude-code-client-metadata": true,
		"https://vscode.dev/oauth/client-metadata.json":       true,
		"https://example.com:8443/client.json":                true,
		"https://example.com/client.json?v=1":                 true,
		"https://example.com/c/":                              true,
		"https://[2606:4700::1111]/client.json":               true,
		"https://example.com/" + strings.Repeat("x", 492):     true,
		"https://example.com/" + strings.Repeat("x", 493):     false,
		"":                                     false,
		"mcp_0123456789":                       false,
		"https://example.com":                  false,
		"https://example.com/":                 false,
		"https://example.com?x=/client.json":   false,
		"https://example.com/?x=1":             false,
		"https:///client.json":                 false,
		"http://example.com/client.json":       false,
		"http://localhost/client.json":         false,
		"HTTPS://example.com/client.json":      false,
		"com.example.app:/client.json":         false,
		"https://Example.com/client.json":      false,
		"https://example.com./client.json":     false,
		"https://user@example.com/client.json": false,
		"https://example.com@evil.example/x":   false,
		"https://example.com/client.json#":     false,
		"https://example.com/a/../client.json": false,
		"https://example.com/%2e%2e/x":         false,
		"https://example.com//client.json":     false,
		"https://example.com:0/client.json":    false,
		"https://example.com:/client.json":     false,
		"https://example.com\\client.json":     false,
		"https://example.com/client json":      false,
		"https://exämple.com/client.json":      false,
		"https://127.1/client.json":            false,
		"https://0x7f.1/client.json":           false,
		"https://[::ffff:127.0.0.1]/x":         false,
		"https://0.0.0.0/client.json":          false,
		"https://*.example.com/client.json":    false,
	} {
		if got := document.IsURL(clientID); got != want {
			t.Errorf("%s: %v, want %v", clientID, got, want)
		}
		if want {
			continue
		}
		doc, err := document.Fetch(t.Context(), &http.Client{Transport: transport(func(*http.Request) {
			t.Errorf("%s is asked for", clientID)
		})}, clientID)
		refused(t, doc, err, document.ErrInvalid, "not the URL of a metadata document")
	}
}

// good serves a good document, should anybody get that far.
func good(w http.ResponseWriter, r *http.Request) { answer(w, members(r, nil)) }

// The certificate of the test host is good for example.com and all names below it; the case of loopback shows that
// nothing but the address stands in the way of the others.
func TestFetchConnectsToThePublicInternetOnly(t *testing.T) {
	t.Parallel()
	for name, addrs := range map[string]string{
		"v4.example.com": "127.0.0.1", "v6.example.com": "::1", "mapped.example.com": "::ffff:127.0.0.1", "private.example.com": "10.0.0.1 192.168.1.1",
		"metadata.example.com": "169.254.169.254", "mapped-metadata.example.com": "::ffff:169.254.169.254", "nat64.example.com": "64:ff9b::7f00:1",
		"unspecified.example.com": "0.0.0.0", "unique-local.example.com": "fd00:ec2::254", "cgnat.example.com": "100.64.0.1", "several.example.com": "10.0.0.1 127.0.0.1 ::1",
	} {
		names.set(name, addrs)
		h := setup(t, good)
		h.opts.AllowLoopback = false
		doc, err := h.fetch(t, h.named(name))
		refused(t, doc, err, document.ErrInvalid, "not on the public internet")
		var cause *safedial.RefusedError
		if !errors.As(err, &cause) || h.requests.Load() != 0 {
			t.Errorf("%s: %v after %d requests, want a refused address", name, err, h.requests.Load())
		}
	}
	for _, clientID := range []string{"https://127.0.0.1/x", "https://[::1]/x", "https://localhost/x", "https://169.254.169.254/latest/meta-data", "https://10.0.0.1/x"} {
		doc, err := document.Fetch(t.Context(), safedial.Client(safedial.Options{}), clientID)
		refused(t, doc, err, document.ErrInvalid, "not on the public internet")
	}
	names.set("allowed.example.com", "127.0.0.1")
	h := setup(t, good)
	doc, err := h.fetch(t, h.named("allowed.example.com"))
	if err != nil || doc.ClientID != h.named("allowed.example.com") {
		t.Errorf("%v, %v", doc, err)
	}
}

// A name that had a public address when somebody looked has another when it is dialled. The address that is dialled is
// the one that is checked.
func TestFetchIsNotRebound(t *testing.T) {
	t.Parallel()
	const name, public = "rebound.example.com", "1.1.1.1"
	names.set(name, public, "127.0.0.1")
	addrs, err := net.DefaultResolver.LookupNetIP(t.Context(), "ip4", name)
	if err != nil || len(addrs) != 1 || addrs[0] != netip.MustParseAddr(public) || (safedial.Options{}).Check(addrs[0]) != nil {
		t.Fatalf("the first answer is %v, %v, want one that is allowed", addrs, err)
	}
	h := setup(t, good)
	h.opts.AllowLoopback = false
	doc, err := h.fetch(t, h.named(name))
	refused(t, doc, err, document.ErrInvalid, "not on the public internet")
	var cause *safedial.RefusedError
	if !errors.As(err, &cause) || cause.Addr != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("%v, want 127.0.0.1 refused", err)
	}
	if n := h.requests.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

// No certificate, no document: who has the name is all that a client id proves.
func TestFetchWantsACertificateOfTheName(t *testing.T) {
	t.Parallel()
	names.set("other.example.org", "127.0.0.1")
	h := setup(t, good)
	doc, err := h.fetch(t, h.named("other.example.org"))
	refused(t, doc, err, document.ErrUnreachable, "cannot be reached")
	h.opts.RootCAs = nil
	doc, err = h.fetch(t)
	refused(t, doc, err, document.ErrUnreachable, "cannot be reached")
	names.set("nobody.example.com")
	doc, err = h.fetch(t, h.named("nobody.example.com"))
	refused(t, doc, err, document.ErrUnreachable, "cannot be reached")
	if n := h.requests.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}
