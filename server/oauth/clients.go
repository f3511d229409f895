package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/oauth/document"
	"github.com/boughdb/bough/server/oauth/redirect"
)

// The longest id that a client can have is a document's URL.
const maxClientID = 512

// A document that cannot be read again is good for so long after its time.
const staleLifetime = 24 * time.Hour

// isClientID reports whether the text can be a client's id.
func isClientID(id string) bool {
	if rest, ok := strings.CutPrefix(id, clientPrefix); ok {
		return len(id) <= 64 && strings.Trim(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
	}
	return len(id) <= maxClientID && document.IsURL(id)
}

// client returns a client that was registered or whose document was read before, as the token endpoint knows it.
func (s *Service) client(ctx context.Context, id string) (Client, error) {
	if id == "" {
		return Client{}, ErrInvalidRequest.say("client_id is missing")
	}
	unknown := ErrInvalidClient.say("the client is not known; register again")
	if !isClientID(id) {
		return Client{}, unknown
	}
	client, err := db.New(s.pool).GetOAuthClient(ctx, id)
	if none(err) {
		return Client{}, unknown
	}
	if err != nil {
		return Client{}, fmt.Errorf("looking up a client: %w", err)
	}
	return client, nil
}

// clientForUser returns the client that a user's browser was sent by, and a *PageError for one that cannot be had. A
// document is read when it was not before, and again when its time is over.
func (s *Service) clientForUser(ctx context.Context, id string, w Where) (Client, error) {
	unknown := pageError(http.StatusBadRequest, "The application is not known here",
		"The application that sent you here is not registered, or not any more. Remove the connection in the application and connect again.")
	if !isClientID(id) {
		return Client{}, unknown
	}
	client, err := db.New(s.pool).GetOAuthClient(ctx, id)
	if err != nil && !none(err) {
		return client, fmt.Errorf("looking up a client: %w", err)
	}
	known := err == nil
	switch {
	case !document.IsURL(id):
		if !known {
			return client, unknown
		}
		return client, nil
	case !s.cfg.ClientDocuments:
		return client, unknown
	case known && client.ExpiresAt.After(time.Now()):
		return client, nil
	}
	read, err := s.readDocument(ctx, id, w)
	// A site that is away for a moment is no reason to turn its users away.
	if known && errors.Is(err, document.ErrUnreachable) && time.Since(*client.ExpiresAt) < staleLifetime {
		return client, nil
	}
	var refused *fault.Error
	if errors.As(err, &refused) {
		s.log.Info("an OAuth client's document cannot be used", "client", id, "error", err)
		return read, pageError(http.StatusBadRequest, "The application cannot be verified",
			"The application that sent you here should describe itself at %s, but: %s.", id, refused.Message)
	}
	return read, err
}

// readDocument reads a client's metadata document and keeps what it says.
func (s *Service) readDocument(ctx context.Context, id string, w Where) (Client, error) {
	if err := s.limits.Take(ctx, documentNetwork, w.Network()); err != nil {
		return Client{}, limitedPage(err)
	}
	doc, err := document.Fetch(ctx, s.cfg.Documents, id)
	if err != nil {
		return Client{}, fmt.Errorf("reading a client's document: %w", err)
	}
	client, err := db.New(s.pool).PutDocumentClient(ctx, db.PutDocumentClientParams{
		ID: id, Name: clientName(doc.ClientName), RedirectURIs: doc.RedirectURIs, Scope: strings.Join(knownScopes(doc.Scope), " "),
		URI: webURL(doc.ClientURI), LogoURI: webURL(doc.LogoURI), ExpiresAt: &doc.Expires,
	})
	if err != nil {
		return client, fmt.Errorf("keeping a client's document: %w", err)
	}
	return client, nil
}

// redirectOf returns where the client wants its user back: the URI of the request, or, where the request names none, the
// only one that the client has. named says which. It must be one of the client's and one that is allowed here.
func (s *Service) redirectOf(client Client, requested string) (uri *redirect.URI, named bool, err error) {
	refused := func(format string, args ...any) error {
		return pageError(http.StatusBadRequest, "The application cannot send you back",
			"The application that sent you here asks for something that is not safe (invalid_redirect_uri): "+format+".", args...)
	}
	named = requested != ""
	if !named {
		if len(client.RedirectURIs) != 1 {
			return nil, false, refused("redirect_uri is missing, and the application has more than one")
		}
		requested = client.RedirectURIs[0]
	}
	uri, err = redirect.Parse(requested)
	if err != nil {
		return nil, named, refused("%s", err)
	}
	for _, registered := range client.RedirectURIs {
		own, err := redirect.Parse(registered)
		if err != nil || !redirect.Same(own, uri) {
			continue
		}
		if !s.allowedRedirect(uri) {
			return nil, named, refused("%s is not one of mcp.oauth.allowed_redirect_uris; the administrator of this server can add it", requested)
		}
		return uri, named, nil
	}
	return nil, named, refused("%s is not one of the addresses that it registered", requested)
}
