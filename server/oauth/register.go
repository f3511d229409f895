package oauth

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/oauth/redirect"
)

// Registration is what an application says of itself (RFC 7591, section 2). Whatever else it says has no meaning here.
type Registration struct {
	ClientName                string
	RedirectURIs              []string
	Scope                     string
	ClientURI, LogoURI        string
	SoftwareID                string
	SoftwareVersion           string
	GrantTypes, ResponseTypes []string
}

const (
	maxClientName   = 200
	maxRedirectURIs = 20
	maxClientURI    = 2 << 10
)

// Register makes a client. It gets no secret, whatever way it would like to authenticate: all clients are public.
func (s *Service) Register(ctx context.Context, r Registration, w Where) (Client, error) {
	if !s.cfg.Registration {
		return Client{}, ErrRegistrationNotSupported
	}
	if err := s.limits.Take(ctx, registerNetwork, w.Network()); err != nil {
		return Client{}, limited(err)
	}
	if err := s.checkRegistration(r); err != nil {
		return Client{}, err
	}
	var client Client
	err := s.inTx(ctx, func(q *db.Queries) error {
		var err error
		client, err = q.InsertOAuthClient(ctx, db.InsertOAuthClientParams{
			ID: newClientID(), Name: clientName(r.ClientName), RedirectURIs: r.RedirectURIs, Scope: strings.Join(knownScopes(r.Scope), " "),
			URI: webURL(r.ClientURI), LogoURI: webURL(r.LogoURI),
			SoftwareID: plainText(r.SoftwareID, maxClientName), SoftwareVersion: plainText(r.SoftwareVersion, maxClientName),
		})
		if err != nil {
			return fmt.Errorf("inserting a client: %w", err)
		}
		return record(ctx, q, entry{action: "client_registered", client: client.ID, name: client.Name, ip: w.IP,
			details: map[string]any{"redirect_uris": client.RedirectURIs}})
	})
	if err != nil {
		return Client{}, err
	}
	s.log.Info("an OAuth client registered itself", "client", client.ID, "name", client.Name)
	return client, nil
}

func (s *Service) checkRegistration(r Registration) error {
	switch n := len([]rune(r.ClientName)); {
	case n > maxClientName:
		return ErrInvalidClientMetadata.say("client_name must have at most %d characters; it has %d", maxClientName, n)
	case len(r.RedirectURIs) == 0:
		return ErrInvalidRedirectURI.say("redirect_uris must name at least one URI")
	case len(r.RedirectURIs) > maxRedirectURIs:
		return ErrInvalidRedirectURI.say("redirect_uris must name at most %d URIs", maxRedirectURIs)
	case len(r.GrantTypes) > 0 && !slices.Contains(r.GrantTypes, "authorization_code"):
		return ErrInvalidClientMetadata.say("grant_types must contain authorization_code")
	case len(r.ResponseTypes) > 0 && !slices.Contains(r.ResponseTypes, "code"):
		return ErrInvalidClientMetadata.say("response_types must contain code")
	case len(r.Scope) > maxScope:
		return ErrInvalidClientMetadata.say("scope must have at most %d characters", maxScope)
	}
	for i, raw := range r.RedirectURIs {
		uri, err := redirect.Parse(raw)
		if err != nil {
			return ErrInvalidRedirectURI.say("redirect_uris, number %d: %s", i+1, err)
		}
		if !s.allowedRedirect(uri) {
			return ErrInvalidRedirectURI.say("the redirect URI %s is not one of mcp.oauth.allowed_redirect_uris; the administrator can add it", raw)
		}
	}
	return nil
}

// clientName returns the name as people are shown it: nothing invisible in it, and nothing that turns the text around it.
func clientName(name string) string {
	if name = plainText(name, maxClientName); name == "" {
		return "An application without a name"
	}
	return name
}

// plainText returns the text in one line, without characters that cannot be seen.
func plainText(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == unicode.ReplacementChar || !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	runes := []rune(strings.Join(strings.Fields(text), " "))
	return string(runes[:min(len(runes), limit)])
}

// webURL returns the URL of a web page, and "" for anything else.
func webURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || len(raw) > maxClientURI || !utf8.ValidString(raw) || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return ""
	}
	return u.String()
}
