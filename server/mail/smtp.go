package mail

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	gomail "github.com/wneessen/go-mail"
)

// TLS says how the way to the SMTP server is encrypted.
type TLS string

// The ways. StartTLS does not go on in the clear when the server has no TLS to offer.
const (
	StartTLS TLS = "starttls"
	Implicit TLS = "tls"
	NoTLS    TLS = "none"
)

const smtpTimeout = 20 * time.Second

// SMTP sends through a server.
type SMTP struct {
	From               string
	Host               string
	Port               int
	Username, Password string // empty for none
	TLS                TLS
	// TLSConfig replaces the usual one, which verifies the server's certificate with the system's roots; nil does not.
	TLSConfig *tls.Config
}

// Send delivers the mail to the server.
func (s *SMTP) Send(ctx context.Context, m Message) error {
	msg, err := compose(s.From, m)
	if err != nil {
		return err
	}
	options := []gomail.Option{gomail.WithPort(s.Port), gomail.WithTimeout(smtpTimeout)}
	switch s.TLS {
	case Implicit:
		options = append(options, gomail.WithSSL())
	case NoTLS:
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
	default:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	}
	if s.TLSConfig != nil {
		options = append(options, gomail.WithTLSConfig(s.TLSConfig))
	}
	if s.Username != "" {
		// The strongest way that the server has; in the clear only over TLS.
		options = append(options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(s.Username), gomail.WithPassword(s.Password))
	}
	client, err := gomail.NewClient(s.Host, options...)
	if err != nil {
		return fmt.Errorf("mail.smtp: %w", err)
	}
	if err := client.DialAndSendWithContext(ctx, msg); err != nil {
		return fmt.Errorf("sending a mail by %s: %w", s.Host, err)
	}
	return nil
}
