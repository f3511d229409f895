package query

import (
	"math"
	"strings"

	"github.com/boughdb/bough/server/fault"
)

// NegativeLimit are the details of the error about a limit below 0.
const NegativeLimit = "Limit should be greater than or equal to zero."

var (
	errRange      = fault.New(fault.RangeNotSatisfiable, codeRange, "Requested range not satisfiable")
	errRangeOrder = &fault.Error{
		Kind: errRange.Kind, Code: errRange.Code, Message: errRange.Message,
		Details: "The lower boundary must be lower than or equal to the upper boundary in the Range header.",
	}
)

// ParseRange reads a Range header, which counts rows from 0: 0-9, 0- or items=0-9. A nil limit stands for an open end.
// ok is false where there is no header or its unit is another one, such as bytes, which is to be ignored.
func ParseRange(header string) (offset int64, limit *int64, ok bool, err error) {
	text := strings.TrimSpace(header)
	unit, rows, found := strings.Cut(text, "=")
	if !found {
		rows = text
	} else if !strings.EqualFold(strings.TrimSpace(unit), "items") {
		return 0, nil, false, nil
	}
	if text == "" {
		return 0, nil, false, nil
	}
	first, last, found := strings.Cut(rows, "-")
	first, last = strings.TrimSpace(first), strings.TrimSpace(last)
	from, valid := parseCount(first)
	if !found || !valid {
		return 0, nil, false, errRange.Msgf("the Range header must have the form 0-9 or 0-, not %s", quote(header))
	}
	if last == "" {
		return from, nil, true, nil
	}
	to, valid := parseCount(last)
	switch {
	case !valid:
		return 0, nil, false, errRange.Msgf("the Range header must have the form 0-9 or 0-, not %s", quote(header))
	case to < from:
		return 0, nil, false, errRangeOrder
	case to-from == math.MaxInt64:
		return from, nil, true, nil
	}
	n := to - from + 1
	return from, &n, true, nil
}
