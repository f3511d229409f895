package query

import (
	"strings"
	"unicode/utf8"
)

// decode undoes the form encoding of a key or value of the query string. A text that holds nothing to decode is
// returned as it is, without a copy.
func decode(raw string) (string, error) {
	plain := true
	for i := range len(raw) {
		if c := raw[i]; c == '%' || c == '+' || c == 0 || c >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	if plain {
		return raw, nil
	}
	var b strings.Builder
	b.Grow(len(raw))
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; c {
		case '+':
			b.WriteByte(' ')
		case '%':
			high, low := -1, -1
			if i+2 < len(raw) {
				high, low = hexDigit(raw[i+1]), hexDigit(raw[i+2])
			}
			if high < 0 || low < 0 {
				return "", invalid("a percent sign in "+quote(strings.ToValidUTF8(raw, "?"))+" begins no escape such as %20", "",
					"send a percent sign as %25")
			}
			b.WriteByte(byte(high<<4 | low))
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	text := b.String()
	if !utf8.ValidString(text) {
		return "", invalid(quote(strings.ToValidUTF8(raw, "?"))+" is not valid UTF-8", "", "encode text as UTF-8 before escaping it with %")
	}
	if strings.IndexByte(text, 0) >= 0 {
		return "", invalid("a null character (%00) is not allowed: PostgreSQL stores none", "", "")
	}
	return text, nil
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// PlusHint returns a hint for a value that PostgreSQL refuses: in a query string a plus sign is a space, which breaks
// the zones of timestamps. It is "" where the parameter holds no plus sign.
func (f *Filter) PlusHint() string { return plusHint(f.Raw) }

func plusHint(raw string) string {
	if _, value, _ := strings.Cut(raw, "="); strings.Contains(value, "+") {
		return "in a query string + is a space; send a plus sign as %2B"
	}
	return ""
}
