package mail_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/boughdb/bough/server/mail"
)

// smtpServer is an SMTP server that keeps what it gets.
type smtpServer struct {
	locked bool // takes mails from those who log in only
	mu     sync.Mutex
	mails  []string
	to     []string
}

type smtpSession struct {
	s        *smtpServer
	loggedIn bool
}

func (s *smtpServer) NewSession(*smtp.Conn) (smtp.Session, error) { return &smtpSession{s: s}, nil }

func (*smtpSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (c *smtpSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		if username != "bough" || password != "swordfish" {
			return errors.New("no")
		}
		c.loggedIn = true
		return nil
	}), nil
}

func (c *smtpSession) Mail(string, *smtp.MailOptions) error {
	if !c.loggedIn && c.s.locked {
		return smtp.ErrAuthRequired
	}
	return nil
}

func (c *smtpSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.to = append(c.s.to, to)
	return nil
}

func (c *smtpSession) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.mails = append(c.s.mails, string(data))
	return err
}

func (*smtpSession) Reset()        {}
func (*smtpSession) Logout() error { return nil }

// startSMTP starts a server with a certificate of its own; implicit has TLS from the first byte.
func startSMTP(t *testing.T, implicit, withTLS bool) (s *smtpServer, port int, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(cert)
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s = &smtpServer{locked: withTLS}
	server := smtp.NewServer(s)
	server.Domain = "test"
	if withTLS {
		server.TLSConfig = config
	} else {
		server.AllowInsecureAuth = true
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port = listener.Addr().(*net.TCPAddr).Port
	if implicit {
		listener = tls.NewListener(listener, config)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return s, port, roots
}

const link = "https://bough.example/api/v1/auth/magiclink/verify?token=bough_ml_abc&x=<y>"

func message(kind mail.Kind) mail.Message {
	return mail.Message{To: "ada@example.com", Kind: kind, Link: link, Code: "417302", Site: "https://bough.example"}
}

// parts returns the parts of a mail by their media type.
func parts(t *testing.T, raw string) (netmail.Header, map[string]string) {
	t.Helper()
	m, err := netmail.ReadMessage(strings.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	mediaType, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/alternative" {
		t.Fatalf("content type %s, %v", mediaType, err)
	}
	out := map[string]string{}
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return m.Header, out
		}
		if err != nil {
			t.Fatal(err)
		}
		if part.Header.Get("Content-Transfer-Encoding") != "quoted-printable" {
			t.Fatalf("encoding %q", part.Header.Get("Content-Transfer-Encoding"))
		}
		body, err := io.ReadAll(quotedprintable.NewReader(part))
		if err != nil {
			t.Fatal(err)
		}
		mediaType, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
		out[mediaType] = string(body)
	}
}

func TestSMTP(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name              string
		implicit, withTLS bool
		mode              mail.TLS
		password          string
		unknownRoot       bool
		want              bool
	}{
		{name: "STARTTLS", withTLS: true, mode: mail.StartTLS, password: "swordfish", want: true},
		{name: "implicit TLS", implicit: true, withTLS: true, mode: mail.Implicit, password: "swordfish", want: true},
		{name: "server without TLS", mode: mail.StartTLS, password: "swordfish"},
		{name: "certificate that nobody vouches for", withTLS: true, mode: mail.StartTLS, password: "swordfish", unknownRoot: true},
		{name: "wrong password", withTLS: true, mode: mail.StartTLS, password: "guess"},
		{name: "password in the clear", mode: mail.NoTLS, password: "swordfish"},
		{name: "in the clear, asked for", mode: mail.NoTLS, want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server, port, roots := startSMTP(t, tc.implicit, tc.withTLS)
			s := &mail.SMTP{From: "Bough <bough@bough.example>", Host: "127.0.0.1", Port: port, Password: tc.password, TLS: tc.mode}
			if tc.password != "" {
				s.Username = "bough"
			}
			if !tc.unknownRoot {
				s.TLSConfig = &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			err := s.Send(ctx, message(mail.MagicLink))
			server.mu.Lock()
			defer server.mu.Unlock()
			if !tc.want {
				if err == nil || len(server.mails) > 0 {
					t.Errorf("error %v, %d mails", err, len(server.mails))
				}
				if err != nil && strings.Contains(err.Error(), "swordfish") {
					t.Errorf("the error tells the password: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(server.mails) != 1 || server.to[0] != "ada@example.com" {
				t.Fatalf("%d mails to %v", len(server.mails), server.to)
			}
			header, body := parts(t, server.mails[0])
			if header.Get("From") != `"Bough" <bough@bough.example>` || header.Get("Auto-Submitted") != "auto-generated" || header.Get("Message-Id") == "" {
				t.Errorf("header %v", header)
			}
			if !strings.Contains(body["text/plain"], link) {
				t.Errorf("the text lacks the link:\n%s", body["text/plain"])
			}
			if !strings.Contains(body["text/html"], `href="https://bough.example/api/v1/auth/magiclink/verify?token=bough_ml_abc&amp;x=%3cy%3e"`) {
				t.Errorf("the HTML lacks the link, escaped:\n%s", body["text/html"])
			}
		})
	}
}

func TestOutbox(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	box := &mail.Outbox{From: "bough@localhost", Dir: filepath.Join(t.TempDir(), "mail"), Log: slog.New(slog.NewTextHandler(&log, nil))}
	kinds := []mail.Kind{mail.MagicLink, mail.ConfirmSignUp, mail.ConfirmEmail, mail.AccountExists, mail.EmailChanged}
	for _, kind := range kinds {
		m := message(kind)
		if kind == mail.AccountExists || kind == mail.EmailChanged {
			m.Link = ""
		}
		if err := box.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	found, err := filepath.Glob(filepath.Join(box.Dir, "*.eml"))
	if err != nil || len(found) != len(kinds) {
		t.Fatalf("%d mails, %v", len(found), err)
	}
	for _, name := range found {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, body := parts(t, string(raw))
		noLink := strings.Contains(name, "exists") || strings.Contains(name, "email_changed")
		if strings.Contains(body["text/plain"], "verify?token") == noLink {
			t.Errorf("%s:\n%s", name, body["text/plain"])
		}
	}
	if strings.Contains(log.String(), "bough_ml_abc") || strings.Contains(log.String(), "417302") || !strings.Contains(log.String(), "ada@example.com") {
		t.Errorf("the log shows a secret, or not who got a mail: %s", log.String())
	}
	box.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if err := box.Send(t.Context(), message(mail.MagicLink)); err != nil || !strings.Contains(log.String(), "bough_ml_abc") {
		t.Errorf("the log at level debug does not show the link: %s (%v)", log.String(), err)
	}
	for _, to := range []string{"", "no address", "a@b\r\nBcc: c@d", "a@b, c@d"} {
		m := message(mail.MagicLink)
		m.To = to
		if err := box.Send(t.Context(), m); err == nil {
			t.Errorf("a mail went to %q", to)
		}
	}
	if err := box.Send(t.Context(), mail.Message{To: "a@b", Kind: "other"}); err == nil {
		t.Error("a mail of no kind was sent")
	}
}
