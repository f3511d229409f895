package document_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// TestMain has the names of all tests resolved by a server of its own, so that no test depends on another or leaves
// the machine.
func TestMain(m *testing.M) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go names.serve(conn)
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	code := m.Run()
	_ = conn.Close()
	os.Exit(code)
}

var names = &nameserver{answers: map[string][][]netip.Addr{}, asked: map[string]int{}}

// nameserver answers questions for a name with one list of addresses after the other; the last list stays.
type nameserver struct {
	mu      sync.Mutex
	answers map[string][][]netip.Addr
	asked   map[string]int // by name and type
}

// set has a name resolved; each element is one answer, its addresses separated by spaces.
func (s *nameserver) set(name string, answers ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, answer := range answers {
		var addrs []netip.Addr
		for addr := range strings.FieldsSeq(answer) {
			addrs = append(addrs, netip.MustParseAddr(addr))
		}
		s.answers[name] = append(s.answers[name], addrs)
	}
}

func (s *nameserver) next(name string, kind dnsmessage.Type) []netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := s.answers[name]
	if len(answers) == 0 {
		return nil
	}
	key := name + kind.String()
	s.asked[key]++
	return answers[min(s.asked[key], len(answers))-1]
}

func (s *nameserver) serve(conn net.PacketConn) {
	packet := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(packet)
		if err != nil {
			return
		}
		var msg dnsmessage.Message
		if msg.Unpack(packet[:n]) != nil || len(msg.Questions) != 1 {
			continue
		}
		q := msg.Questions[0]
		reply := dnsmessage.Message{
			Header:    dnsmessage.Header{ID: msg.ID, Response: true, Authoritative: true, RecursionAvailable: true},
			Questions: msg.Questions,
		}
		for _, addr := range s.next(strings.TrimSuffix(q.Name.String(), "."), q.Type) {
			header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
			switch {
			case q.Type == dnsmessage.TypeA && addr.Is4():
				reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
			case q.Type == dnsmessage.TypeAAAA && addr.Is6():
				reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
			}
		}
		if out, err := reply.Pack(); err == nil {
			_, _ = conn.WriteTo(out, from)
		}
	}
}
