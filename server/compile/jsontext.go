package compile

import (
	"unicode/utf16"
	"unicode/utf8"
)

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// unescape decodes what is between the quotes of a string that a scanner has passed. Text without escapes is returned
// as it is, without a copy. It refuses what PostgreSQL's text cannot hold: U+0000 and half a surrogate pair.
func unescape(s []byte) ([]byte, error) {
	i := 0
	for i < len(s) && s[i] != '\\' {
		i++
	}
	if i == len(s) {
		return s, nil
	}
	out := append(make([]byte, 0, len(s)), s[:i]...)
	for i < len(s) {
		if s[i] != '\\' {
			out = append(out, s[i])
			i++
			continue
		}
		c := s[i+1]
		i += 2
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, _ := hex4(s[i:])
			i += 4
			if r == 0 {
				return nil, errText.Msgf(`\u0000 cannot be converted to text.`)
			}
			if utf16.IsSurrogate(r) {
				low, ok := rune(0), false
				if len(s) >= i+6 && s[i] == '\\' && s[i+1] == 'u' {
					low, ok = hex4(s[i+2:])
				}
				if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
					return nil, errSyntax.Msgf("A Unicode surrogate stands alone in a JSON string.")
				}
				i += 6
			}
			out = utf8.AppendRune(out, r)
			continue
		}
		out = append(out, c)
	}
	return out, nil
}

const hexDigits = "0123456789abcdef"

// appendString appends text as a JSON string.
func appendString(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
