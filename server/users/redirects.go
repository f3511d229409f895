package users

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/boughdb/bough/server/fault"
)

// checkRedirect returns ErrRedirect unless the URL is on the list. An entry that ends in /* stands for all paths below.
func (s *Service) checkRedirect(raw *string) error {
	if raw == nil {
		return nil
	}
	u, err := parseRedirect(*raw)
	if err != nil {
		return ErrRedirect
	}
	for _, entry := range s.cfg.RedirectURLs {
		prefix, below := strings.CutSuffix(entry, "*")
		allowed, err := parseRedirect(prefix)
		if err != nil || allowed.Scheme != u.Scheme || allowed.Host != u.Host {
			continue
		}
		if u.Path == allowed.Path && !below && u.RawQuery == allowed.RawQuery || below && strings.HasPrefix(u.Path, allowed.Path) {
			return nil
		}
	}
	return ErrRedirect
}

// CheckRedirect returns ErrRedirect unless links may lead on to the URL.
func (s *Service) CheckRedirect(raw string) error { return s.checkRedirect(&raw) }

// CheckRedirectEntry says what is wrong with an entry of the list.
func CheckRedirectEntry(entry string) error {
	prefix, below := strings.CutSuffix(entry, "*")
	u, err := parseRedirect(prefix)
	if err != nil || strings.Contains(prefix, "*") || below && (!strings.HasSuffix(u.Path, "/") || u.RawQuery != "") {
		return fmt.Errorf("%q must be a URL, or one that ends in /* for all paths below it", entry)
	}
	return nil
}

// parseRedirect reads a URL in the one form that browsers and this program see the same way.
func parseRedirect(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme == "" || u.Opaque != "" || u.User != nil || u.Fragment != "" || strings.Contains(raw, "#"),
		strings.ContainsAny(raw, "\\ \t\r\n") || u.RawPath != "",
		(u.Scheme == "http" || u.Scheme == "https") && u.Host == "",
		u.Path != "" && path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") && u.Path != "/":
		return nil, fault.Validation("not a plain URL")
	}
	u.Host = strings.ToLower(u.Host)
	if u.Path == "" {
		u.Path = "/"
	}
	return u, nil
}
