package repohost

import (
	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/fault"
)

// Headers returns all values of a header of a delivery.
type Headers func(name string) []string

// dialect is whose delivery it is, by its headers. None of them is signed.
type dialect struct {
	provider Provider
	event    string
	id       string // the repository host's id of the delivery; "" where it has none
}

// eventHeaders name the event. Forgejo sends all but GitLab's and Gitea all but Forgejo's and GitLab's, so that each
// gives way to the ones before it.
var eventHeaders = []struct {
	provider Provider
	name     string
}{
	{db.RepohostProviderGitlab, "X-Gitlab-Event"},
	{db.RepohostProviderGitea, "X-Forgejo-Event"},
	{db.RepohostProviderGitea, "X-Gitea-Event"},
	{db.RepohostProviderGithub, "X-GitHub-Event"},
}

// idHeaders name the delivery, the best first.
var idHeaders = map[Provider][]string{
	db.RepohostProviderGithub: {"X-GitHub-Delivery"},
	db.RepohostProviderGitea:  {"X-Forgejo-Delivery", "X-Gitea-Delivery"},
	db.RepohostProviderGitlab: {"webhook-id", "Idempotency-Key", "X-Gitlab-Event-UUID"},
}

const maxHeader = 200

func dialectOf(headers Headers) (d dialect, err error) {
	for _, h := range eventHeaders {
		value, err := one(headers, h.name)
		if err != nil {
			return d, err
		}
		switch {
		case value == "" || d.provider == db.RepohostProviderGitea:
		case d.provider != "":
			return d, fault.Validation("the delivery has the headers of several kinds of repository hosts")
		default:
			d.provider, d.event = h.provider, value
		}
	}
	if d.provider == "" {
		return d, fault.Validation("the delivery has none of the headers X-GitHub-Event, X-Gitea-Event, X-Forgejo-Event and X-Gitlab-Event")
	}
	for _, name := range idHeaders[d.provider] {
		value, err := one(headers, name)
		if err != nil {
			return d, err
		}
		if d.id == "" {
			d.id = value
		}
	}
	return d, nil
}

// one returns the value of a header that comes at most once, "" where it does not come.
func one(headers Headers, name string) (string, error) {
	switch values := headers(name); {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", fault.Validation("the header %s comes %d times", name, len(values))
	case len(values[0]) > maxHeader:
		return "", fault.Validation("the header %s is longer than %d bytes", name, maxHeader)
	default:
		return clean(values[0]), nil
	}
}

// clean makes a text of the sender's harmless for the database and the log.
func clean(s string) string {
	out := make([]rune, 0, len(s))
	for _, r := range s {
		if r < ' ' || r == 0x7f {
			r = '�'
		}
		out = append(out, r)
	}
	return string(out)
}
