package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/boughdb/bough/server/oauth/redirect"
)

// maxName is how many characters of a name people can be shown.
const maxName = 120

// read makes a Document of the body that its URL answered with.
func read(body []byte, clientID string) (*Document, error) {
	m, err := readMembers(body)
	if err != nil {
		return nil, err
	}
	// A secret in a public document is none, and a client that has one is another kind of client.
	for _, name := range []string{"client_secret", "client_secret_expires_at"} {
		if _, ok := m[name]; ok {
			return nil, invalid("must not have the member %s", name)
		}
	}
	doc := &Document{}
	for _, member := range []struct {
		name  string
		field *string
	}{
		{"client_id", &doc.ClientID}, {"client_name", &doc.ClientName}, {"client_uri", &doc.ClientURI}, {"logo_uri", &doc.LogoURI}, {"scope", &doc.Scope},
	} {
		if *member.field, err = m.text(member.name); err != nil {
			return nil, err
		}
	}
	if doc.ClientID != clientID {
		return nil, invalid("has another client_id than the URL that it was fetched from")
	}
	if err := m.checkMethod(); err != nil {
		return nil, err
	}
	if doc.RedirectURIs, err = m.redirectURIs(); err != nil {
		return nil, err
	}
	doc.ClientName = strings.TrimSpace(doc.ClientName)
	// Characters that cannot be seen or turn the text around make a name look like another.
	if utf8.RuneCountInString(doc.ClientName) > maxName || strings.ContainsFunc(doc.ClientName, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return nil, invalid("has a client_name that cannot be shown: at most %d printable characters", maxName)
	}
	// These become links and pictures. They are not needed, so that odd ones are left out rather than refused.
	for _, field := range []*string{&doc.ClientURI, &doc.LogoURI} {
		if _, err := redirect.Parse(*field); err != nil || !strings.HasPrefix(*field, "https://") {
			*field = ""
		}
	}
	return doc, nil
}

// members are those of a JSON object. Unlike the fields of a struct they are found by their exact name only.
type members map[string]json.RawMessage

func readMembers(body []byte) (members, error) {
	if !utf8.Valid(body) {
		return nil, invalid("is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	err := checkKeys(dec)
	var twice duplicateError
	if errors.As(err, &twice) {
		return nil, invalid("has a member twice")
	}
	if err == nil {
		if _, err = dec.Token(); errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil {
			err = errors.New("more than one value")
		}
	}
	var m members
	if err != nil || json.Unmarshal(body, &m) != nil || m == nil {
		return nil, invalid("is not a JSON object")
	}
	return m, nil
}

// duplicateError is a member that an object has twice. Parsers differ in which of the two counts.
type duplicateError string

func (e duplicateError) Error() string { return fmt.Sprintf("member %q is there twice", string(e)) }

// checkKeys reads one value and looks for duplicates in all of its objects.
func checkKeys(dec *json.Decoder) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	open, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for dec.More() {
		if open == '{' {
			key, err := dec.Token()
			if err != nil {
				return err
			}
			name, _ := key.(string)
			if seen[name] {
				return duplicateError(name)
			}
			seen[name] = true
		}
		if err := checkKeys(dec); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

// text returns a member that is a string, "" where there is none.
func (m members) text(name string) (string, error) {
	var s string
	if raw, ok := m[name]; ok && json.Unmarshal(raw, &s) != nil {
		return "", invalid("has a %s that is not a string", name)
	}
	return s, nil
}

// list returns a member that is an array of strings, nil where there is none.
func (m members) list(name string) ([]string, error) {
	var list []string
	if raw, ok := m[name]; ok && json.Unmarshal(raw, &list) != nil {
		return nil, invalid("has a %s that is not an array of strings", name)
	}
	return list, nil
}

// checkMethod wants a client that can do without authentication. ChatGPT prefers a signature and lists none among the
// methods that it supports (OpenID Connect Relying Party Metadata Choices 1.0).
func (m members) checkMethod() error {
	method, err := m.text("token_endpoint_auth_method")
	if err != nil {
		return err
	}
	supported, err := m.list("token_endpoint_auth_methods_supported")
	if err != nil {
		return err
	}
	if method == "none" || slices.Contains(supported, "none") || method == "" && len(supported) == 0 {
		return nil
	}
	return invalid("wants an authentication at the token endpoint; token_endpoint_auth_method must be none")
}

// redirectURIs returns those that a client may register. One that it may not have takes nothing from the others.
func (m members) redirectURIs() ([]string, error) {
	all, err := m.list("redirect_uris")
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, invalid("has no redirect_uris")
	}
	var uris []string
	var refused error
	for _, raw := range all {
		if _, err := redirect.Parse(raw); err != nil {
			refused = err
		} else if !slices.Contains(uris, raw) {
			uris = append(uris, raw)
		}
	}
	if len(uris) == 0 {
		return nil, invalid("has no redirect URI that can be used; of the last one: %s", refused.Error())
	}
	return uris, nil
}
