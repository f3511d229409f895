package redirect

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// Pattern is an entry of mcp.oauth.allowed_redirect_uris: a redirect URI in which an asterisk can stand for
//
//   - the port (http://localhost:*): any, or none;
//   - the left-most label of an https host (https://*.example.com/callback): exactly one label, below a domain that
//     somebody has registered;
//   - one or more characters of a segment of the path (cursor://anysphere.cursor-mcp/oauth/*/callback), once a segment.
//
// Everything else is compared as it is written. Only a loopback host with any port and without a path, as in
// http://localhost:*, stands for all that is on that host. The zero value matches nothing.
type Pattern struct {
	parts
	anyLabel bool // one label stands before the host
	anyPort  bool
	anyPath  bool // and any query
}

// What an asterisk cannot do. ParsePattern says which entry does.
var (
	errScheme  = errors.New("* cannot stand for a scheme; begin with one, such as https://")
	errHost    = errors.New("in a host, * stands for the whole left-most label, as in https://*.example.com/callback, and for nothing more")
	errAppHost = errors.New("* can stand for a label only in the hosts of https")
	errPort    = errors.New("* stands for a whole port, as in http://localhost:*, and only with https or http")
	errPath    = errors.New("* can stand once in a segment of the path, for characters of that segment; there is no **")
	errQuery   = errors.New("* cannot stand in a query")
)

// ParsePattern reads an entry of the allowed list. It refuses entries that no redirect URI can match and those that
// would allow more than one would think, such as https://*.com.
func ParsePattern(entry string) (Pattern, error) {
	p, err := parsePattern(entry)
	if err != nil {
		return Pattern{}, fmt.Errorf("allowed redirect URI %q: %w", entry, err)
	}
	return p, nil
}

func parsePattern(entry string) (Pattern, error) {
	// A URI of the kind that the pattern matches has x in place of its asterisks. It has to be one that could be
	// registered.
	if err := checkText(strings.ReplaceAll(entry, "*", "x")); err != nil {
		return Pattern{}, err
	}
	if scheme, _, _ := strings.Cut(entry, ":"); strings.Contains(scheme, "*") {
		return Pattern{}, errScheme
	}
	var p Pattern
	var err error
	if p.parts, err = split(entry); err != nil {
		return Pattern{}, err
	}
	p.host, p.anyLabel = strings.CutPrefix(p.host, "*.")
	if p.anyPort = p.port == "*"; p.anyPort {
		p.port = ""
	}
	if err := p.checkAsterisks(); err != nil {
		return Pattern{}, err
	}
	example := p.parts
	example.path = strings.ReplaceAll(p.path, "*", "x")
	if p.anyLabel {
		example.host = "x." + p.host
	}
	if err := example.check(); err != nil {
		return Pattern{}, err
	}
	loopback := (&URI{parts: example}).Loopback()
	p.anyPath = loopback && p.anyPort && p.path == "" && p.query == ""
	return p, nil
}

// checkAsterisks looks at those that are left once the whole labels and ports are taken out.
func (p Pattern) checkAsterisks() error {
	switch {
	case strings.Contains(p.host, "*"), p.anyLabel && p.host == "":
		return errHost
	case p.anyLabel && p.scheme != "https":
		return errAppHost
	case strings.Contains(p.port, "*"), p.anyPort && !p.web():
		return errPort
	case strings.Contains(p.query, "*"):
		return errQuery
	}
	for segment := range strings.SplitSeq(p.path, "/") {
		if strings.Count(segment, "*") > 1 {
			return errPath
		}
	}
	if !p.anyLabel {
		return nil
	}
	// Below a public suffix, such as com or github.io, each label belongs to somebody else.
	if suffix, _ := publicsuffix.PublicSuffix("x." + p.host); len(suffix) >= len(p.host) {
		return fmt.Errorf("anyone can have a name directly below %s; name a domain below it, as in https://*.example.%[1]s", p.host)
	}
	return nil
}

// Match reports whether the entry allows a redirect URI.
func (p Pattern) Match(uri *URI) bool {
	if uri.scheme != p.scheme || uri.authority != p.authority || !p.anyPort && uri.port != p.port {
		return false
	}
	host := uri.host
	if p.anyLabel {
		_, host, _ = strings.Cut(host, ".")
	}
	if host != p.host {
		return false
	}
	return p.anyPath || uri.query == p.query && matchPath(p.path, uri.path)
}

func matchPath(pattern, path string) bool {
	patterns, segments := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(patterns) != len(segments) {
		return false
	}
	for i, segment := range segments {
		before, after, asterisk := strings.Cut(patterns[i], "*")
		if !asterisk {
			if segment != patterns[i] {
				return false
			}
			continue
		}
		// Longer than both together: the asterisk stands for one character at least.
		if len(segment) <= len(before)+len(after) || !strings.HasPrefix(segment, before) || !strings.HasSuffix(segment, after) {
			return false
		}
	}
	return true
}
