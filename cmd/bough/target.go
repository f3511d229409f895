package main

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

const defaultBaseURL = "http://127.0.0.1:8080"

type credentialKind string

// The kinds are also the keys of the configuration file.
const (
	serviceKey credentialKind = "service_key"
	clientKey  credentialKind = "client_key"
	token      credentialKind = "token"
	session    credentialKind = "session"
)

// credential is what a request is signed with; the zero value is none. Of a session the value is the name of its
// profile: the token is looked up when it is needed, since it changes.
type credential struct {
	kind  credentialKind
	value string
}

// target is a server and how to sign in to it.
type target struct {
	baseURL    string
	credential credential
}

// target returns the server that a command talks to. Each of base URL and credential comes from the first that has it:
// the flags, the environment, the current profile. The credential of a profile goes to no other base URL than the
// profile's own.
func (c *cli) target() (target, error) {
	known, _, err := c.loadProfiles()
	if err != nil {
		return target{}, err
	}
	name := known.Current
	if c.profile != "" {
		name = c.profile
		if _, err := known.named(name); err != nil {
			return target{}, err
		}
	}
	chosen := known.Profiles[name]
	if chosen.BaseURL == "" {
		chosen.BaseURL = defaultBaseURL
	}
	profileURL, err := cleanBaseURL(chosen.BaseURL)
	if err != nil {
		return target{}, fmt.Errorf("profile %q: %w", name, err)
	}

	t := target{baseURL: profileURL}
	explicit := c.profile != ""
	if c.baseURL != "" {
		if t.baseURL, err = cleanBaseURL(c.baseURL); err != nil {
			return target{}, usageError{fmt.Errorf("--base-url: %w", err)}
		}
	} else if v := c.getenv("BOUGH_BASE_URL"); v != "" && !explicit {
		if t.baseURL, err = cleanBaseURL(v); err != nil {
			return target{}, usageError{fmt.Errorf("BOUGH_BASE_URL: %w", err)}
		}
	}
	if !explicit {
		t.credential = c.environmentCredential()
	}
	if t.credential.value == "" && t.baseURL == profileURL {
		t.credential = chosen.credential()
		if t.credential.kind == session {
			t.credential.value = name
		}
	}
	return t, nil
}

// environmentCredential returns the credential in the environment, if there is one.
func (c *cli) environmentCredential() credential {
	for _, variable := range []struct {
		name string
		kind credentialKind
	}{
		{"BOUGH_SERVICE_KEY", serviceKey},
		{"BOUGH_CLIENT_KEY", clientKey},
		{"BOUGH_TOKEN", token},
	} {
		if v := strings.TrimSpace(c.getenv(variable.name)); v != "" {
			return credential{variable.kind, v}
		}
	}
	return credential{}
}

// cleanBaseURL returns the one form of a base URL that stands for all its spellings.
func cleanBaseURL(s string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(s))
	if err != nil {
		return "", fmt.Errorf("%q is no URL", s)
	}
	u.Scheme = strings.ToLower(u.Scheme)
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", fmt.Errorf("%q must have the form http://host:port or https://host", s)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("the base URL must have no user, query or fragment")
	}
	host := strings.ToLower(u.Host)
	if name, port, err := net.SplitHostPort(host); err == nil &&
		(port == "" || u.Scheme == "http" && port == "80" || u.Scheme == "https" && port == "443") {
		host = name
		if strings.Contains(name, ":") {
			host = "[" + name + "]"
		}
	}
	return u.Scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/"), nil
}
