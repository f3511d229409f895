// Package document fetches Client ID Metadata Documents (draft-ietf-oauth-client-id-metadata-document): an OAuth client
// whose id is an https URL is described by the JSON that the URL answers with. Nobody has to register it, and its name
// is vouched for by whoever has the host.
//
// The URL comes from anybody who asks for authorization, so it is fetched with little trust: by a client of package
// safedial, without redirects, in little time, and only a small document of the right type is read. Which redirect URIs
// of a document an operator allows, and how long documents are kept, is for package oauth.
package document

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/oauth/redirect"
	"github.com/boughdb/bough/server/safedial"
)

const (
	maxURL  = 512
	maxBody = 5 << 10
	timeout = 5 * time.Second
)

// What Fetch returns, each with a message for people in plain ASCII that an error_description of RFC 6749 can have.
var (
	// ErrInvalid is for a client id that names no document, or a document that cannot be used.
	ErrInvalid = fault.New(fault.Invalid, "invalid_client", "the client's metadata document cannot be used")
	// ErrUnreachable is for a document that may be there another time. One that was fetched before is still good.
	ErrUnreachable = fault.New(fault.Unavailable, "temporarily_unavailable", "the client's metadata document cannot be fetched")
)

// Document is what a client says of itself. But for its id, which the URL proves, none of it is known to be true.
type Document struct {
	ClientID     string
	ClientName   string   // the host of the id where the document has no name
	RedirectURIs []string // at least one; those that redirect.Parse refuses are left out
	ClientURI    string   // an https URL, or empty
	LogoURI      string   // an https URL, or empty
	Scope        string   // as the document has it; may be empty
	Expires      time.Time
}

// IsURL reports whether a client id is the URL of a metadata document: https with a path below the root, without user,
// fragment or dot segments, in a spelling that all parsers read alike. It may have a port and a query.
func IsURL(clientID string) bool {
	_, ok := parseURL(clientID)
	return ok
}

// parseURL applies the rules of redirect URIs, since those of client ids are the same and both are compared byte by byte.
func parseURL(clientID string) (*redirect.URI, bool) {
	const scheme = "https://"
	if len(clientID) > maxURL || !strings.HasPrefix(clientID, scheme) {
		return nil, false
	}
	uri, err := redirect.Parse(clientID)
	if err != nil {
		return nil, false
	}
	rest, _, _ := strings.Cut(strings.TrimPrefix(clientID, scheme), "?")
	_, path, _ := strings.Cut(rest, "/")
	return uri, path != ""
}

// Fetch gets the document of a client id. The HTTP client is one of package safedial, since it decides where the server
// may connect to; Fetch sees to redirects, time and size by itself. The errors are ErrInvalid, ErrUnreachable, or that
// of the context.
func Fetch(ctx context.Context, client *http.Client, clientID string) (*Document, error) {
	uri, ok := parseURL(clientID)
	if !ok {
		return nil, ErrInvalid.Msgf("the client_id is not the URL of a metadata document: an https URL with a path, of at most %d characters", maxURL)
	}
	body, header, err := get(ctx, client, clientID)
	if err != nil {
		return nil, err
	}
	doc, err := read(body, clientID)
	if err != nil {
		return nil, err
	}
	if doc.ClientName == "" {
		doc.ClientName = uri.Host()
	}
	doc.Expires = expires(header, time.Now())
	return doc, nil
}

// get returns the body and the header of the one answer that is good enough.
func get(ctx context.Context, client *http.Client, url string) ([]byte, http.Header, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(limited, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, nil, invalid("cannot be asked for: its URL is not valid")
	}
	req.Header.Set("Accept", "application/json")
	// Asking for no encoding also keeps the transport from unpacking one: a small body can become a large one.
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "Bough (OAuth client metadata)")
	plain := *client
	plain.Jar = nil
	plain.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := plain.Do(req)
	if err != nil {
		return nil, nil, unreachable(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := checkAnswer(res); err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	switch {
	case len(body) > maxBody, errors.Is(err, safedial.ErrBodyTooLarge):
		return nil, nil, invalid("is larger than %d bytes", maxBody)
	case err != nil:
		return nil, nil, unreachable(ctx, err)
	}
	return body, res.Header, nil
}

// checkAnswer looks at all but the body.
func checkAnswer(res *http.Response) error {
	switch status := res.StatusCode; {
	case status >= 300 && status < 400:
		return invalid("must be at the URL of the client_id, which redirects to another")
	case status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		return ErrUnreachable.Msgf("the client's metadata document cannot be fetched: its server answered with status %d", status)
	case status != http.StatusOK:
		return invalid("was not found: its server answered with status %d, not 200", status)
	}
	if coding := res.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return invalid("is compressed, which was not asked for")
	}
	types := res.Header.Values("Content-Type")
	if len(types) != 1 {
		return invalid("has no type; it must be application/json")
	}
	media, params, err := mime.ParseMediaType(types[0])
	named, isNamed := strings.CutSuffix(media, "+json")
	isJSON := media == "application/json" || isNamed && strings.HasPrefix(named, "application/")
	if charset := params["charset"]; err != nil || !isJSON || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return invalid("has another type than application/json")
	}
	return nil
}

// unreachable gives a failed exchange its error. The cause is there for logs; the message of the fault has none of it.
func unreachable(ctx context.Context, err error) error {
	var refused *safedial.RefusedError
	var f *fault.Error
	switch {
	case errors.As(err, &refused):
		f = ErrInvalid.Msgf("the client's metadata document cannot be used: its host is not on the public internet")
	case ctx.Err() != nil:
		return fmt.Errorf("fetching a client's metadata document: %w", ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		f = ErrUnreachable.Msgf("the client's metadata document cannot be fetched: its server takes too long")
	default:
		f = ErrUnreachable.Msgf("the client's metadata document cannot be fetched: its server cannot be reached")
	}
	return fmt.Errorf("%w: %w", f, err)
}

// invalid returns an ErrInvalid with a message.
func invalid(format string, args ...any) error {
	return ErrInvalid.Msgf("the client's metadata document "+format, args...)
}
