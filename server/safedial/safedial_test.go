package safedial_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/safedial"
)

// use is what a client with the given options takes an address for; "" is one that it connects to.
func use(opts safedial.Options, addr string) string {
	err := opts.Check(netip.MustParseAddr(addr))
	var refused *safedial.RefusedError
	if errors.As(err, &refused) {
		return refused.Use
	}
	return ""
}

func TestCheck(t *testing.T) {
	t.Parallel()
	// What the zero value, AllowLoopback and AllowPrivate say of an address.
	type verdicts [3]string
	same := func(use string) verdicts { return verdicts{use, use, use} }
	loopback := verdicts{"loopback", "", "loopback"}
	private := verdicts{"private", "private", ""}
	for addr, want := range map[string]verdicts{
		"1.1.1.1": same(""), "93.184.215.14": same(""), "2606:4700:4700::1111": same(""), "2a00:1450:4001:80b::200e": same(""),
		"172.15.255.255": same(""), "172.32.0.0": same(""), "100.63.255.255": same(""), "100.128.0.0": same(""),
		"11.0.0.0": same(""), "192.167.255.255": same(""), "223.255.255.255": same(""), "169.253.255.255": same(""),
		"127.0.0.1": loopback, "127.255.255.254": loopback, "::1": loopback, "::ffff:127.0.0.1": loopback, "64:ff9b::7f00:1": loopback,
		"10.0.0.1": private, "172.16.0.1": private, "172.31.255.255": private, "192.168.1.1": private, "100.64.0.1": private,
		"100.127.255.255": private, "fc00::1": private, "fd12:3456::1": private, "::ffff:10.1.2.3": private, "64:ff9b::c0a8:101": private,
		"169.254.169.254": same("link-local"), "::ffff:169.254.169.254": same("link-local"), "64:ff9b::a9fe:a9fe": same("link-local"),
		"fe80::1": same("link-local"), "fe80::1%eth0": same("link-local"), "febf::1": same("link-local"),
		"fd00:ec2::254": same("cloud metadata"), "100.100.100.200": same("cloud metadata"), "168.63.129.16": same("cloud metadata"),
		"fd20:ce::254": same("cloud metadata"), "fd00:c1::a9fe:a9fe": same("cloud metadata"), "::ffff:100.100.100.200": same("cloud metadata"),
		"224.0.0.1": same("multicast"), "239.255.255.255": same("multicast"), "ff02::1": same("multicast"),
		"0.0.0.0": same("special-use"), "0.1.2.3": same("special-use"), "::": same("special-use"), "::ffff:0.0.0.0": same("special-use"),
		"255.255.255.255": same("special-use"), "240.0.0.1": same("special-use"), "192.0.0.192": same("special-use"),
		"192.0.2.1": same("special-use"), "198.18.0.1": same("special-use"), "198.19.255.255": same("special-use"),
		"198.51.100.1": same("special-use"), "203.0.113.1": same("special-use"), "192.88.99.1": same("special-use"),
		"::127.0.0.1": same("special-use"), "::ffff:0:127.0.0.1": same("special-use"), "64:ff9b:1::a00:1": same("special-use"),
		"2001::1": same("special-use"), "2001:db8::1": same("special-use"), "2002:7f00:1::": same("special-use"), "3fff::1": same("special-use"),
		"100::1": same("special-use"), "fec0::1": same("special-use"), "5f00::1": same("special-use"), "4000::1": same("special-use"),
	} {
		got := verdicts{
			use(safedial.Options{}, addr), use(safedial.Options{AllowLoopback: true}, addr), use(safedial.Options{AllowPrivate: true}, addr),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", addr, diff)
		}
	}
	if err := (safedial.Options{AllowLoopback: true, AllowPrivate: true}).Check(netip.Addr{}); err == nil {
		t.Error("no address is not refused")
	}
}

func get(t *testing.T, opts safedial.Options, url string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := safedial.Client(opts)
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res, string(body), err
}

// A name is refused for the address that it resolves to, and nothing is sent there.
func TestClientRefusesTheResolvedAddress(t *testing.T) {
	t.Parallel()
	var requests int
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests++ }))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "127.1"} {
		_, _, err := get(t, safedial.Options{AllowPrivate: true}, "http://"+host+":"+port)
		var refused *safedial.RefusedError
		// 127.1 is a name to Go, and one that resolvers read as an address or not at all.
		if !errors.As(err, &refused) && host != "127.1" || err == nil {
			t.Errorf("%s: %v, want a refusal", host, err)
		}
	}
	if requests > 0 {
		t.Errorf("%d requests arrived", requests)
	}
	if _, _, err := get(t, safedial.Options{AllowLoopback: true}, server.URL); err != nil {
		t.Error(err)
	}
	if requests != 1 {
		t.Errorf("%d requests arrived with loopback allowed, want 1", requests)
	}
}

func TestClientDoesNotFollowRedirects(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/latest/meta-data", http.StatusFound))
	t.Cleanup(server.Close)
	res, _, err := get(t, safedial.Options{AllowLoopback: true}, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusFound {
		t.Errorf("status %d, want the redirect itself", res.StatusCode)
	}
}

func TestClientUsesNoProxy(t *testing.T) {
	proxied := false
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied = true }))
	t.Cleanup(proxy.Close)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	// The address is special, so that no test leaves the machine.
	if _, _, err := get(t, safedial.Options{}, "http://192.0.2.1"); err == nil || proxied {
		t.Errorf("through the proxy: %v, error %v", proxied, err)
	}
}

func TestClientBoundsBodies(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 1000))
	}))
	t.Cleanup(server.Close)
	for limit, want := range map[int64]error{1000: nil, 1001: nil, 999: safedial.ErrBodyTooLarge, 1: safedial.ErrBodyTooLarge} {
		_, body, err := get(t, safedial.Options{AllowLoopback: true, MaxBody: limit}, server.URL)
		if !errors.Is(err, want) || int64(len(body)) != min(limit, 1000) {
			t.Errorf("limit %d: %d bytes, %v, want %v", limit, len(body), err, want)
		}
	}
}

func TestClientEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begun")
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	_, body, err := get(t, safedial.Options{AllowLoopback: true, Timeout: 100 * time.Millisecond}, server.URL)
	if body != "begun" || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%q, %v; want the beginning and the timeout", body, err)
	}
}

func TestClientTrustsTheGivenRoots(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	if _, _, err := get(t, safedial.Options{AllowLoopback: true}, server.URL); err == nil {
		t.Error("a certificate of nobody is trusted")
	}
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	if _, _, err := get(t, safedial.Options{AllowLoopback: true, RootCAs: roots}, server.URL); err != nil {
		t.Error(err)
	}
}
