package rows

import (
	"encoding/binary"
	"math/bits"

	"github.com/boughdb/bough/server/compile"
)

const hexDigits = "0123456789abcdef"

// appendValue appends the JSON of a value that is not NULL.
func appendValue(dst, v []byte, encoding compile.Encoding) []byte {
	switch encoding {
	case compile.JSON:
		return append(dst, v...)
	case compile.Number:
		// NaN, Infinity and -Infinity are the only ones that do not end with a digit.
		if n := len(v); n > 0 && v[n-1] <= '9' {
			return append(dst, v...)
		}
		return appendString(dst, v)
	case compile.Bool:
		if len(v) == 1 && v[0] == 't' {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	case compile.Timestamp:
		return appendTimestamp(dst, v)
	default:
		return appendString(dst, v)
	}
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special returns a word whose lowest set bit, if any, is in the first of eight bytes that JSON does not allow in a
// string: a control character, a quote or a backslash. Higher bits may be set by a borrow.
func special(x uint64) uint64 {
	quote := x ^ '"'*ones
	backslash := x ^ '\\'*ones
	return ((x-' '*ones)&^x | (quote-ones)&^quote | (backslash-ones)&^backslash) & highs
}

// appendString appends text as a JSON string, with the escapes that to_json uses.
func appendString(dst, s []byte) []byte {
	return append(appendEscaped(append(dst, '"'), s), '"')
}

// appendEscaped appends text, or a part of one, as it stands in a JSON string.
func appendEscaped(dst, s []byte) []byte {
	from, i := 0, 0
	for i+8 <= len(s) {
		m := special(binary.LittleEndian.Uint64(s[i:]))
		if m == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(m) / 8
		dst = append(dst, s[from:i]...)
		dst = appendEscape(dst, s[i])
		i++
		from = i
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			dst = append(dst, s[from:i]...)
			dst = appendEscape(dst, c)
			from = i + 1
		}
	}
	return append(dst, s[from:]...)
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
	}
}

// appendTimestamp appends a timestamp as to_json writes it: ISO 8601 with a T, and minutes in the offset. The text is
// date, space, time, offset if there is one, and " BC" for years before Christ.
func appendTimestamp(dst, s []byte) []byte {
	i := 0
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || i > 0 && s[i] == '-') {
		i++
	}
	if i == 0 || i == len(s) || s[i] != ' ' { // infinity, -infinity, or another DateStyle
		return appendString(dst, s)
	}
	dst = append(dst, '"')
	dst = append(dst, s[:i]...)
	dst = append(dst, 'T')
	rest := s[i+1:]
	i = 0
	for i < len(rest) && rest[i] >= '.' && rest[i] <= ':' { // digits, colons and the point
		i++
	}
	dst = append(dst, rest[:i]...)
	rest = rest[i:]
	// What is left is the offset and the era. The escapes are for text that is not a timestamp at all.
	hours := len(rest) >= 3 && (rest[0] == '+' || rest[0] == '-') && (len(rest) == 3 || rest[3] == ' ')
	for i, c := range rest {
		if c < ' ' || c == '"' || c == '\\' {
			dst = appendEscape(dst, c)
		} else {
			dst = append(dst, c)
		}
		if i == 2 && hours {
			dst = append(dst, ":00"...)
		}
	}
	return append(dst, '"')
}
