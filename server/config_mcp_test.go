package server_test

import (
	"strings"
	"testing"
)

// The public URL is OAuth's issuer, which clients compare letter by letter: one in any other spelling than the usual is
// refused at the start, with the spelling that would be right.
func TestPublicURLIsInItsUsualSpelling(t *testing.T) {
	t.Parallel()
	for public, want := range map[string]string{ // what the error says; "" for none
		"https://bough.example":         "",
		"https://bough.example/":        "",
		"https://bough.example:8443":    "",
		"http://localhost:8080":         "",
		"http://127.0.0.1:8080":         "",
		"https://[2001:db8::1]:8443":    "",
		"https://xn--bcher-kva.example": "",
		"HTTPS://bough.example":         `must be written "https://bough.example"`,
		"https://Bough.Example":         `must be written "https://bough.example"`,
		"https://bough.example:443/":    `must be written "https://bough.example"`,
		"http://bough.example:80":       `must be written "http://bough.example"`,
		"https://bough.example:08443":   `must be written "https://bough.example:8443"`,
		"https://bough.example:":        `must be written "https://bough.example"`,
		"https://bough.example//":       `must be written "https://bough.example"`,
		"https://bough.example?":        `must be written "https://bough.example"`,
		"https://bough.example#":        `must be written "https://bough.example"`,
		"https://bücher.example":        `must be written "https://xn--bcher-kva.example"`,
		"https://[2001:DB8:0::1]":       `must be written "https://[2001:db8::1]"`,
		"https://bough.example:0":       "port that is not a number from 1 to 65535",
		"https://bough.example:65536":   "port that is not a number from 1 to 65535",
		"http://bough_server:8080":      "",
		"https://bücher-.example":       "neither a name nor an address",
		"https://bough.example/path":    "has a path",
		"https://bough.example?a=b":     "without query",
		"https://ada@bough.example":     "and user",
		"ftp://bough.example":           "must be an http or https URL",
		"bough.example":                 "must be an http or https URL",
	} {
		t.Run(public, func(t *testing.T) {
			t.Parallel()
			_, _, err := load(t, nil, "", map[string]string{"BOUGH_PUBLIC_BASE_URL": public})
			switch {
			case want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), "public-base-url") || !strings.Contains(err.Error(), want)):
				t.Errorf("error %v does not name the setting and say %q", err, want)
			}
		})
	}
	// Without OAuth nobody compares it, and a path is fine.
	for _, public := range []string{"https://Bough.Example", "https://bough.example/path"} {
		if _, _, err := load(t, nil, "", map[string]string{"BOUGH_PUBLIC_BASE_URL": public, "BOUGH_MCP_OAUTH_ENABLED": "false"}); err != nil {
			t.Errorf("%s without OAuth: %v", public, err)
		}
	}
}
