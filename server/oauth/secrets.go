package oauth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/google/uuid"
)

// Prefixes tell what a secret is, so that one is not taken for another and scanners of leaked secrets know them.
const (
	AccessTokenPrefix  = "mcp_at_"
	refreshTokenPrefix = "mcp_rt_"
	codePrefix         = "mcp_ac_"
	clientPrefix       = "mcp_"
)

// randomText returns 256 random bits as 43 characters.
func randomText() string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(random)
}

// newSecret returns a secret, and the hash by which it is stored.
func newSecret(prefix string) (secret string, hash []byte) {
	secret = prefix + randomText()
	return secret, hashOf(secret)
}

func hashOf(secret string) []byte {
	hash := sha256.Sum256([]byte(secret))
	return hash[:]
}

// newClientID returns the id of a client that registers.
func newClientID() string { return clientPrefix + randomText()[:24] }

// isSecret reports whether the text can be a secret with that prefix: it saves the database the ones that cannot.
func isSecret(text, prefix string) bool {
	rest, ok := strings.CutPrefix(text, prefix)
	return ok && is256Bits(rest)
}

// is256Bits reports whether the text is 32 bytes in base64url, in the one spelling that they have.
func is256Bits(text string) bool {
	if len(text) != 43 {
		return false
	}
	_, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil
}

// NewBrowser returns a secret by which a browser is known, for a cookie.
func NewBrowser() string { return randomText() }

// IsBrowser reports whether the text can be a browser's secret.
func IsBrowser(text string) bool { return is256Bits(text) }

// browserHash returns the hash of a browser's secret, and an error for what is none.
func browserHash(browser string) ([]byte, error) {
	if !IsBrowser(browser) {
		return nil, pageError(http.StatusBadRequest, "Your browser is not known",
			"The cookie that belongs to this page did not arrive. Allow cookies for this site, go back to the application and connect again.")
	}
	return hashOf(browser), nil
}

// CSRF returns the token of the forms of a pending request. Only the server and the browser can make it: its key is the
// browser's secret.
func (s *Service) CSRF(browser string, id uuid.UUID) string {
	mac := hmac.New(sha256.New, []byte(browser))
	mac.Write([]byte("form of request " + id.String()))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// CheckCSRF returns a *PageError unless the token is that of the browser's form.
func (s *Service) CheckCSRF(browser string, id uuid.UUID, token string) error {
	if _, err := browserHash(browser); err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(token), []byte(s.CSRF(browser, id))) != 1 {
		return pageError(http.StatusForbidden, "The form is out of date", "Go back to the application and connect again.")
	}
	return nil
}
