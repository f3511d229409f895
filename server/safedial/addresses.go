package safedial

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
)

// Uses that Options can permit.
const (
	useLoopback = "loopback"
	usePrivate  = "private"
)

// specialUse are the networks that are not of the public internet (the IANA registries of special-purpose addresses,
// RFC 6890), and what clouds answer their machines at. The first entry that has an address counts.
var specialUse = []struct {
	use  string
	nets []netip.Prefix
}{
	// Metadata services tell credentials to whoever asks. These stand inside networks that can be permitted, or in
	// public ones: Alibaba, Azure, AWS, Google, Oracle. 169.254.169.254 is link-local.
	{"cloud metadata", prefixes("100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::/32", "fd20:ce::/32", "fd00:c1::/32")},
	{useLoopback, prefixes("127.0.0.0/8", "::1/128")},
	{usePrivate, prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")},
	{"link-local", prefixes("169.254.0.0/16", "fe80::/10")},
	{"multicast", prefixes("224.0.0.0/4", "ff00::/8")},
	{"special-use", prefixes(
		"0.0.0.0/8",                         // this network
		"192.0.0.0/24",                      // protocol assignments
		"192.0.2.0/24",                      // documentation
		"192.88.99.0/24",                    // relays of 6to4
		"198.18.0.0/15",                     // benchmarks
		"198.51.100.0/24", "203.0.113.0/24", // documentation
		"240.0.0.0/4",   // reserved, and the broadcast address
		"2001::/23",     // protocol assignments: Teredo, ORCHID
		"2001:db8::/32", // documentation
		"2002::/16",     // 6to4: IPv4 addresses in another dress
		"3fff::/20",     // documentation
	)},
}

var (
	// globalUnicast is all of IPv6 that is given out; the rest is reserved or special.
	globalUnicast = netip.MustParsePrefix("2000::/3")
	// nat64 has IPv4 addresses in its last four bytes (RFC 6052). Hosts without IPv4 see the IPv4 internet through it.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

// useOf says what an address is for, "" for one of the public internet.
func useOf(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() {
		return "unknown"
	}
	if nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	for _, s := range specialUse {
		for _, n := range s.nets {
			if n.Contains(addr) {
				return s.use
			}
		}
	}
	if addr.Is6() && !globalUnicast.Contains(addr) {
		return "special-use"
	}
	return ""
}

func prefixes(list ...string) []netip.Prefix {
	nets := make([]netip.Prefix, len(list))
	for i, s := range list {
		nets[i] = netip.MustParsePrefix(s)
	}
	return nets
}

func tlsConfig(roots *x509.CertPool) *tls.Config {
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}
