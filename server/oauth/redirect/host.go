package redirect

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// checkHost wants the host of a web URI in the one form that all parsers leave as it is: a name in lower case, an IPv4
// address of four decimal numbers, or an IPv6 address in its shortest form.
func checkHost(host string) error {
	if strings.HasPrefix(host, "[") {
		addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if err != nil || !addr.Is6() || addr.Is4In6() || addr.Zone() != "" || "["+addr.String()+"]" != host {
			return invalid("has a host that is not an IPv6 address in its shortest form")
		}
		return checkAddr(addr)
	}
	labels := strings.Split(host, ".")
	// Browsers read a host that ends in a number as an IPv4 address, in whatever spelling: 127.1, 0x7f000001, 2130706433.
	if numeric(labels[len(labels)-1]) {
		addr, err := netip.ParseAddr(host)
		if err != nil {
			return invalid("has a host that ends in a number and is not an IPv4 address of four decimal numbers")
		}
		return checkAddr(addr)
	}
	if len(host) > 253 {
		return invalid("has a host of more than 253 characters")
	}
	for _, label := range labels {
		if err := checkLabel(label); err != nil {
			return err
		}
	}
	return nil
}

// checkAddr refuses the address of no machine, which reaches the own one on some systems.
func checkAddr(addr netip.Addr) error {
	if addr.IsUnspecified() || addr.IsMulticast() {
		return invalid("has a host that is the address of no machine")
	}
	return nil
}

func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}

func checkLabel(label string) error {
	switch {
	case label == "":
		return invalid("has a host with an empty label; it must not begin or end with a dot")
	case len(label) > 63:
		return invalid("has a host with a label of more than 63 characters")
	case strings.ToLower(label) != label:
		return invalid("has a host with capital letters; write it in lower case")
	case !plain(label):
		return invalid("has a host with characters other than letters, digits, hyphens and dots")
	case strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-"):
		return invalid("has a host with a label that begins or ends with a hyphen")
	case strings.HasPrefix(label, "xn--") && !punycode(label):
		return invalid("has a host with a label that is not valid punycode")
	}
	return nil
}

// plain reports whether a label has only lower-case letters, digits and hyphens.
func plain(label string) bool {
	return !strings.ContainsFunc(label, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	})
}

// punycode reports whether a label is the encoding of one that needs it. Parsers decode xn--claude- to claude, or not.
func punycode(label string) bool {
	text, err := idna.Lookup.ToUnicode(label)
	if err != nil || utf8.RuneCountInString(text) == len(text) {
		return false
	}
	again, err := idna.Lookup.ToASCII(text)
	return err == nil && again == label
}

// checkAppHost wants the name that follows an app's scheme to be plain; case counts, since nobody lowers it.
func checkAppHost(host string) error {
	if !plain(strings.Map(func(r rune) rune {
		if r == '.' || r == '_' {
			return '-'
		}
		return r
	}, strings.ToLower(host))) {
		return invalid("has a host with characters other than letters, digits, hyphens, underscores and dots")
	}
	if strings.HasPrefix(host, ".") || strings.HasSuffix(host, ".") || strings.Contains(host, "..") {
		return invalid("has a host with an empty label; it must not begin or end with a dot")
	}
	return nil
}

func checkPort(port string) error {
	if port == "" {
		return nil
	}
	// A leading zero or sign is a number to some parsers only.
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return invalid("has a port that is not a number from 1 to 65535")
	}
	return nil
}
