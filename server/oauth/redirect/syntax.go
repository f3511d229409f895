package redirect

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// parts are the components of a URI, as they are written. Two URIs with equal parts differ in nothing.
type parts struct {
	scheme    string
	authority bool // whether a // follows the scheme
	host      string
	port      string // "" for none
	path      string
	query     string // "" for none
}

// web reports whether the URI is one of http or https.
func (p parts) web() bool { return p.scheme == "https" || p.scheme == "http" }

// checkText refuses what stands nowhere in a URI (RFC 3986), and what browsers remove or rewrite: spaces, tabs, line
// ends, backslashes, letters that look like others. The asterisk would be a wildcard in the eyes of some.
func checkText(raw string) error {
	if raw == "" {
		return invalid("is empty")
	}
	if len(raw) > MaxLength {
		return invalid("has more than %d characters", MaxLength)
	}
	for i := range len(raw) {
		switch c := raw[i]; {
		case c == '#':
			return invalid("has a fragment, which begins with #")
		case c == '*':
			return invalid("has an asterisk, which is for the patterns of the allowed list")
		case c == '\\':
			return invalid("has a backslash")
		case c <= ' ' || c == 0x7f:
			return invalid("has a space or a control character")
		case c >= utf8.RuneSelf:
			return invalid("has characters outside of ASCII; write hosts in punycode and the rest percent-encoded")
		case strings.IndexByte(`"<>^{|}`+"`", c) >= 0:
			return invalid("has one of the characters that must be percent-encoded, such as < or |")
		}
	}
	return nil
}

// split takes a URI apart. The parts have not been checked, but what is between them has.
func split(raw string) (parts, error) {
	var p parts
	scheme, rest, found := strings.Cut(raw, ":")
	if !found || !validScheme(scheme) {
		return p, invalid("must be absolute and begin with a scheme in lower case, such as https:")
	}
	p.scheme = scheme
	rest, query, found := strings.Cut(rest, "?")
	if found && query == "" {
		return p, invalid("ends in a question mark")
	}
	p.query = query
	authority, found := strings.CutPrefix(rest, "//")
	if !found {
		p.path = rest
		return p, nil
	}
	p.authority = true
	if i := strings.IndexByte(authority, '/'); i >= 0 {
		authority, p.path = authority[:i], authority[i:]
	}
	// What stands before an @ is a user, who is often a host in disguise: https://good.example@evil.example.
	if strings.Contains(authority, "@") {
		return p, invalid("has a user name before its host")
	}
	end := strings.LastIndexByte(authority, ']') + 1 // an IPv6 address has colons of its own
	host, port, found := strings.Cut(authority[end:], ":")
	if found && port == "" {
		return p, invalid("has a colon without a port")
	}
	p.host, p.port = authority[:end]+host, port
	return p, nil
}

func validScheme(scheme string) bool {
	for i, c := range []byte(scheme) {
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return scheme != ""
}

// check says what is wrong with the parts, each and together.
func (p parts) check() error {
	switch {
	case p.web():
		if !p.authority || p.host == "" {
			return invalid("has no host")
		}
		if err := checkHost(p.host); err != nil {
			return err
		}
		if p.scheme == "http" && !slices.Contains(loopbackHosts, p.host) {
			return invalid("must use https; http is for localhost, 127.0.0.1 and [::1] only")
		}
	case !appScheme(p.scheme):
		return invalid("has the scheme %s, but must have https, http on loopback, or an app's own such as com.example.app", p.scheme)
	case !p.authority && !strings.HasPrefix(p.path, "/"), p.host == "" && p.path == "":
		return invalid("must go on with a path after its scheme, as in com.example.app:/callback")
	default:
		if err := checkAppHost(p.host); err != nil {
			return err
		}
	}
	if err := checkPort(p.port); err != nil {
		return err
	}
	if err := checkPath(p.path); err != nil {
		return err
	}
	return checkQuery(p.query)
}

// checkPath refuses paths that some parsers shorten: with dot segments, also those that hide behind path parameters
// (..;) or percent-encoding, with empty segments, and with characters that are encoded for no reason.
func checkPath(path string) error {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, segment := range segments {
		name, _, _ := strings.Cut(segment, ";")
		switch {
		case name == "." || name == "..":
			return invalid("has dot segments in its path")
		case segment == "" && i < len(segments)-1:
			return invalid("has two slashes in a row in its path")
		case strings.ContainsAny(segment, "[]"):
			return invalid("has brackets in its path, which must be percent-encoded")
		}
	}
	return checkEncoding(path, func(c byte) bool {
		return c == '/' || c == '\\' || c == '%' || c == '.' || c == '-' || c == '_' || c == '~' ||
			c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	})
}

// responseParameters are what an authorization response adds to the query. A URI that has one of them already would
// let a client find two, and take the one that was not meant.
var responseParameters = []string{"code", "error", "error_description", "error_uri", "iss", "state"}

func checkQuery(query string) error {
	if strings.ContainsAny(query, "[]") {
		return invalid("has brackets in its query, which must be percent-encoded")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return invalid("has a query that is not of the form name=value&name=value")
	}
	for _, name := range responseParameters {
		if values.Has(name) {
			return invalid("has the parameter %s, which is added to it with the answer", name)
		}
	}
	return checkEncoding(query, func(byte) bool { return false })
}

// checkEncoding refuses percent-encoding that is malformed or stands for a needless byte, and text that is not UTF-8
// or cannot be seen.
func checkEncoding(s string, needless func(c byte) bool) error {
	text, err := url.PathUnescape(s)
	if err != nil {
		return invalid("has a percent sign that two hexadecimal digits do not follow")
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return invalid("has percent-encoded bytes that are not printable text")
	}
	for i := range len(s) {
		if s[i] != '%' {
			continue
		}
		if c, err := url.PathUnescape(s[i : i+3]); err != nil || needless(c[0]) {
			return invalid("has letters, digits, dots, slashes or percent signs that are percent-encoded in its path")
		}
	}
	return nil
}
