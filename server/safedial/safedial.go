// Package safedial makes HTTP clients for URLs that came from elsewhere: a webhook's target, a client's metadata
// document. They do not let a caller use the server to reach what only the server can: its own machine, its network,
// the metadata service of its cloud.
//
// The address is checked when a connection is made, after the name was resolved, so that a name which resolves to
// another address the second time gains nothing. Redirects are returned and not followed, proxies of the environment
// are not used (a proxy would resolve the name itself), and bodies have a limit.
package safedial

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// Options say what a client may do. The zero value allows addresses of the public internet only.
type Options struct {
	// AllowLoopback permits 127.0.0.0/8 and ::1.
	AllowLoopback bool
	// AllowPrivate permits networks of a site's own: RFC 1918, RFC 6598 (shared address space) and fc00::/7. Loopback,
	// link-local and metadata addresses are not among them.
	AllowPrivate bool
	// Setting names what allows more, for the words of CheckURL; "" is nothing.
	Setting string
	// Timeout is for a whole exchange, the answer's body included; 0 is DefaultTimeout.
	Timeout time.Duration
	// MaxBody is how many bytes of an answer may be read before ErrBodyTooLarge; 0 is DefaultMaxBody.
	MaxBody int64
	// RootCAs are whom the client trusts to name servers; nil is the system's list.
	RootCAs *x509.CertPool
}

// What Options mean where they say nothing.
const (
	DefaultTimeout = 15 * time.Second
	DefaultMaxBody = 1 << 20
)

// ErrBodyTooLarge is what reading an answer ends with when it has more than MaxBody bytes.
var ErrBodyTooLarge = errors.New("the answer is larger than allowed")

// RefusedError says that a connection was not made because of its address. It is found in the client's error by
// errors.As.
type RefusedError struct {
	Addr netip.Addr // invalid where the address could not be read
	Use  string     // what the address is for, such as "loopback"
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("connections to %s are refused: it is a %s address", e.Addr, e.Use)
}

// Client returns a client that connects only to what the options allow. It is safe for concurrent use and keeps
// connections, so one is enough for one purpose.
func Client(opts Options) *http.Client {
	if opts.Timeout <= 0 {
		opts.Timeout = DefaultTimeout
	}
	if opts.MaxBody <= 0 {
		opts.MaxBody = DefaultMaxBody
	}
	dialer := &net.Dialer{Timeout: opts.Timeout, KeepAlive: 30 * time.Second, Control: opts.control}
	transport := &http.Transport{
		Proxy: nil,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, addr)
		},
		ForceAttemptHTTP2: true, TLSHandshakeTimeout: opts.Timeout, MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConns: 64, MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second,
		// Nothing is to be unpacked that its sender did not send.
		DisableCompression: true,
	}
	if opts.RootCAs != nil {
		transport.TLSClientConfig = tlsConfig(opts.RootCAs)
	}
	return &http.Client{
		Transport:     limited{transport, opts.MaxBody},
		Timeout:       opts.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// control is called between the resolution of a name and the connection, with the address itself.
func (o Options) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return &RefusedError{Use: "unknown"}
	}
	return o.Check(to.Addr())
}

// Check returns a *RefusedError when the options do not allow connections to an address. It is for early answers, as
// when a URL with a literal address is saved; the client checks by itself.
func (o Options) Check(addr netip.Addr) error {
	switch use := useOf(addr); {
	case use == "", use == useLoopback && o.AllowLoopback, use == usePrivate && o.AllowPrivate:
		return nil
	default:
		return &RefusedError{Addr: addr, Use: use}
	}
}

// limited bounds the bodies of answers.
type limited struct {
	next *http.Transport
	max  int64
}

func (l limited) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := l.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	res.Body = &limitedBody{res.Body, l.max}
	return res, nil
}

// CloseIdleConnections is what http.Client looks for.
func (l limited) CloseIdleConnections() { l.next.CloseIdleConnections() }

type limitedBody struct {
	io.ReadCloser
	left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrBodyTooLarge
	}
	// One byte more than allowed tells a body that ends there from one that goes on.
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n - 1, ErrBodyTooLarge
	}
	return n, err
}
