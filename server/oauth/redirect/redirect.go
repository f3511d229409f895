// Package redirect decides where an OAuth client may have its authorization codes sent: which redirect URIs a client
// can register at all, which of them an operator's list allows, and when the URI of a request is the registered one.
//
// A redirect URI is compared byte by byte and is later read by a browser, by an operating system and by the client, each
// with a parser of its own. So nothing is normalised here. A URI that two of these parsers could read in two ways is
// refused instead, and what is left has one meaning for all.
//
// Who registers clients, and what becomes of one whose URIs are refused, is for package oauth.
package redirect

import (
	"slices"
	"strings"

	"github.com/boughdb/bough/server/fault"
)

// MaxLength is the number of characters that a redirect URI or an entry of the allow list can have.
const MaxLength = 2048

// ErrInvalid is what Parse returns for a URI that no client may register; its message says why. The message does not
// repeat the URI and has only characters that an error_description of RFC 6749 can have.
var ErrInvalid = fault.New(fault.Invalid, "invalid_redirect_uri", "the redirect URI is not allowed")

// URI is a redirect URI that a client may register. Parse makes it.
type URI struct {
	raw string
	parts
}

// Parse reads a redirect URI. It has to be absolute: https, http with a loopback host, or an app's own scheme (RFC 8252,
// section 7.1), without user, fragment, dot segments, or anything else that parsers disagree about. It returns
// ErrInvalid, with a message that says what is wrong, for all others.
func Parse(raw string) (*URI, error) {
	if err := checkText(raw); err != nil {
		return nil, err
	}
	p, err := split(raw)
	if err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	return &URI{raw, p}, nil
}

// String returns the URI as it was given to Parse.
func (u *URI) String() string { return u.raw }

// Loopback reports whether the URI leads to a program on the computer of the person who signs in, which any program
// there can pretend to be: http or https with localhost, 127.0.0.1 or [::1].
func (u *URI) Loopback() bool { return u.web() && slices.Contains(loopbackHosts, u.host) }

// Host returns what people are shown as the receiver of a code: the host, in punycode where it is not ASCII, or the
// scheme and the name in it where the URI is an app's own, as in cursor://anysphere.cursor-mcp.
func (u *URI) Host() string {
	switch {
	case u.web():
		return u.host
	case u.host != "":
		return u.scheme + "://" + u.host
	default:
		return u.scheme + ":"
	}
}

// Same reports whether the redirect URI of an authorization request is the registered one: the same bytes, or on
// loopback the same but for the port. RFC 8252, section 7.3, asks this for the addresses; programs that listen on a port
// of the moment register the name localhost as well.
func Same(registered, requested *URI) bool {
	if registered.raw == requested.raw {
		return true
	}
	a, b := registered.parts, requested.parts
	a.port, b.port = "", ""
	return registered.Loopback() && a == b
}

// invalid returns an ErrInvalid with a message.
func invalid(format string, args ...any) error {
	return ErrInvalid.Msgf("the redirect URI "+format, args...)
}

// loopbackHosts are the hosts for which http is good enough. Other spellings of them are not read alike everywhere.
var loopbackHosts = []string{"localhost", "127.0.0.1", "[::1]"}

// appSchemes are the private-use schemes without a dot. RFC 8252 wants one, to keep schemes apart, but well-known
// programs have none. A name is added when a program is known to use it, so that schemes of the operating system or the
// browser never come to be allowed.
var appSchemes = []string{
	"antigravity", "chatgpt", "cherrystudio", "claude", "code-oss", "codex", "cursor", "cursor-nightly", "goose", "grokbot", "jetbrains",
	"kiro", "lmstudio", "opencode", "positron", "raycast", "trae", "void", "vscode", "vscode-insiders", "vscodium", "warp",
	"windsurf", "windsurf-next", "zed",
}

// appScheme reports whether a scheme is an app's own.
func appScheme(scheme string) bool {
	if slices.Contains(appSchemes, scheme) {
		return true
	}
	labels := strings.Split(scheme, ".")
	return len(labels) > 1 && !slices.Contains(labels, "")
}
