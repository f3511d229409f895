package query

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/boughdb/bough/server/fault"
)

// Preferences are what the Prefer headers of a request ask for. The zero value of a field stands for a preference that
// is not given.
type Preferences struct {
	Return     Return
	Count      Count
	Resolution Resolution
	Missing    Missing
	Handling   Handling
	Tx         Tx
	Nested     Nested
	// Timezone is the name as it came; only the database knows whether there is such a zone.
	Timezone string
	// MaxAffected and MinAffected bound the rows that a write may touch; never negative.
	MaxAffected, MinAffected *int64
	// Wait is how long the caller wants to wait for a result.
	Wait *time.Duration
	// Invalid has the preferences that are not known or have a value that is not, as they came; at most the first 20.
	Invalid []string
}

// Return is what a write answers with.
type Return string

// Count is how the rows of a read are counted.
type Count string

// Resolution is what an insert does with rows whose key exists.
type Resolution string

// Missing is what an insert writes into columns that a row leaves out.
type Missing string

// Handling tells whether preferences that are not known are refused.
type Handling string

// Tx is how the transaction ends.
type Tx string

// Nested is what a write does with related rows that the body leaves out.
type Nested string

// The values of the preferences.
const (
	ReturnMinimal        Return = "minimal"
	ReturnHeadersOnly    Return = "headers-only"
	ReturnRepresentation Return = "representation"

	CountExact     Count = "exact"
	CountPlanned   Count = "planned"
	CountEstimated Count = "estimated"

	MergeDuplicates  Resolution = "merge-duplicates"
	IgnoreDuplicates Resolution = "ignore-duplicates"

	MissingDefault Missing = "default"
	MissingNull    Missing = "null"

	HandlingStrict  Handling = "strict"
	HandlingLenient Handling = "lenient"

	TxCommit   Tx = "commit"
	TxRollback Tx = "rollback"

	NestedReplace Nested = "replace"
	NestedMerge   Nested = "merge"
)

// maxInvalid bounds Preferences.Invalid, which an error repeats.
const maxInvalid = 20

// ParsePrefer reads the values of all Prefer headers (RFC 7240). Of a preference that is given more than once only the
// first counts, as the RFC demands. With handling=strict a preference that is not understood is an error, else it is
// noted in Invalid.
func ParsePrefer(values []string) (Preferences, error) {
	var p Preferences
	var seen []string
	for _, value := range values {
		for item := range splitOutsideQuotes(value, ',') {
			// Parameters after a semicolon belong to preferences that are not known here.
			pref := firstOutsideQuotes(item, ';')
			if pref == "" && strings.TrimSpace(item) == "" {
				continue
			}
			name, text, _ := strings.Cut(pref, "=")
			name = strings.ToLower(strings.TrimSpace(name))
			if slices.Contains(seen, name) {
				continue
			}
			text, ok := unquoteHeader(strings.TrimSpace(text))
			if (!ok || !p.set(name, text)) && len(p.Invalid) < maxInvalid {
				p.Invalid = append(p.Invalid, clip(strings.TrimSpace(item)))
			}
			// What is not known is not remembered: there may be any number of names.
			if slices.Contains(preferences, name) {
				seen = append(seen, name)
			}
		}
	}
	return p, p.Err()
}

// preferences are the names of preferences in the order of Applied, which is PostgREST's.
var preferences = []string{
	"resolution", "missing", "return", "count", "tx", "handling", "timezone", "max-affected", "min-affected", "nested", "wait",
}

// set takes a preference; false if its name or value is not known.
func (p *Preferences) set(name, value string) bool {
	switch name {
	case "return":
		return choose(&p.Return, value, ReturnMinimal, ReturnHeadersOnly, ReturnRepresentation)
	case "count":
		return choose(&p.Count, value, CountExact, CountPlanned, CountEstimated)
	case "resolution":
		return choose(&p.Resolution, value, MergeDuplicates, IgnoreDuplicates)
	case "missing":
		return choose(&p.Missing, value, MissingDefault, MissingNull)
	case "handling":
		return choose(&p.Handling, value, HandlingStrict, HandlingLenient)
	case "tx":
		return choose(&p.Tx, value, TxCommit, TxRollback)
	case "nested":
		return choose(&p.Nested, value, NestedReplace, NestedMerge)
	case "max-affected":
		return number(&p.MaxAffected, value)
	case "min-affected":
		return number(&p.MinAffected, value)
	case "timezone":
		if !isTimezone(value) {
			return false
		}
		p.Timezone = value
		return true
	case "wait":
		var seconds *int64
		// A day is longer than any server waits, and a duration holds it.
		if !number(&seconds, value) || *seconds > 24*60*60 {
			return false
		}
		wait := time.Duration(*seconds) * time.Second
		p.Wait = &wait
		return true
	}
	return false
}

func choose[T ~string](target *T, value string, allowed ...T) bool {
	if !slices.Contains(allowed, T(value)) {
		return false
	}
	*target = T(value)
	return true
}

func number(target **int64, value string) bool {
	n, ok := parseCount(value)
	if ok {
		*target = &n
	}
	return ok
}

// isTimezone tells whether a text has the characters of a zone's name, such as America/Port-au-Prince or Etc/GMT+1.
func isTimezone(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && strings.IndexByte("/_+-:", c) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= 63
}

// Err returns the error of invalid preferences where they are to be handled strictly. A caller who finds another one,
// such as a time zone that does not exist, adds it to Invalid and asks again.
func (p *Preferences) Err() error {
	if p.Handling != HandlingStrict || len(p.Invalid) == 0 {
		return nil
	}
	return &fault.Error{
		Kind: fault.Invalid, Code: codePreference,
		Message: "Invalid preferences given with handling=strict",
		Details: "Invalid preferences: " + strings.Join(p.Invalid, ", "),
		Hint:    "without handling=strict they are ignored; known are " + strings.Join(preferences, ", "),
	}
}

// Applied returns the value of Preference-Applied for the named preferences that were honoured. Those that the request
// does not give are left out; "" where none is left.
func (p *Preferences) Applied(honoured ...string) string {
	var b strings.Builder
	for _, name := range preferences {
		value := p.value(name)
		if value == "" || !slices.Contains(honoured, name) {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name)
		b.WriteByte('=')
		b.WriteString(value)
	}
	return b.String()
}

// value returns a preference as text; "" if it is not given.
func (p *Preferences) value(name string) string {
	count := func(n *int64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatInt(*n, 10)
	}
	switch name {
	case "return":
		return string(p.Return)
	case "count":
		return string(p.Count)
	case "resolution":
		return string(p.Resolution)
	case "missing":
		return string(p.Missing)
	case "handling":
		return string(p.Handling)
	case "tx":
		return string(p.Tx)
	case "nested":
		return string(p.Nested)
	case "timezone":
		return p.Timezone
	case "max-affected":
		return count(p.MaxAffected)
	case "min-affected":
		return count(p.MinAffected)
	case "wait":
		if p.Wait != nil {
			return strconv.FormatInt(int64(*p.Wait/time.Second), 10)
		}
	}
	return ""
}
