package mcp

import (
	"maps"
	"net/url"
	"slices"
	"strings"
)

// narrowing is what the query of the address takes away. It never gives anything.
type narrowing struct {
	readOnly bool
	features map[Feature]bool // nil for all
	branch   string           // "" for any
}

// tokenParameters are how others take credentials in the address. RFC 6750, section 5.3: addresses end up in logs and
// histories, so none is taken here.
var tokenParameters = []string{"access_token", "token", "api_key", "apikey", "service_key", "client_key"}

func hasToken(query url.Values) bool {
	return slices.ContainsFunc(tokenParameters, query.Has)
}

// narrow reads the query.
func narrow(rawQuery string) (narrowing, *refusal) {
	var n narrowing
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return n, badRequest("the query cannot be read: %s", err)
	}
	for _, key := range slices.Sorted(maps.Keys(query)) {
		if len(query[key]) > 1 {
			return n, badRequest("the query parameter %q comes %d times; it may come once", key, len(query[key]))
		}
		value := query.Get(key)
		switch key {
		case "read_only":
			if value != "true" && value != "false" {
				return n, badRequest("read_only must be true or false, not %q", value)
			}
			n.readOnly = value == "true"
		case "features":
			n.features = map[Feature]bool{}
			for name := range strings.SplitSeq(value, ",") {
				if !slices.Contains(features, Feature(name)) {
					return n, badRequest("there is no feature %q; features are %s", name, listed(features))
				}
				n.features[Feature(name)] = true
			}
		case "branch":
			if value == "" {
				return n, badRequest("branch must be the slug or the id of a branch")
			}
			n.branch = value
		default:
			return n, badRequest("there is no query parameter %q; there are read_only, features and branch", key)
		}
	}
	return n, nil
}

// offers reports whether what has the feature, and changes things or not, is offered at this address.
func (n narrowing) offers(f Feature, readOnly bool) bool {
	return (!n.readOnly || readOnly) && (n.features == nil || n.features[f])
}

func listed(features []Feature) string {
	names := make([]string, len(features))
	for i, f := range features {
		names[i] = string(f)
	}
	return strings.Join(names, ", ")
}
