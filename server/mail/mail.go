// Package mail writes the mails of authentication and sends them: by SMTP, or into a directory of files where none is
// configured, which is enough to develop with.
package mail

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	html "html/template"
	"log/slog"
	"os"
	"path/filepath"
	text "text/template"
	"time"

	"github.com/google/uuid"
	gomail "github.com/wneessen/go-mail"
)

// Message is a mail to one address.
type Message struct {
	To   string
	Kind Kind
	// Link is where the button leads; "" for mails without one.
	Link string
	// Code is what can be typed in place of following the link; "" for mails without one.
	Code string
	// Site is the address of the server, to say who writes.
	Site string
}

// Sender sends mails.
type Sender interface {
	Send(ctx context.Context, m Message) error
}

// Kind is what a mail is about.
type Kind string

// The kinds of mails.
const (
	MagicLink     Kind = "magic_link"
	ConfirmSignUp Kind = "sign_up"
	ConfirmEmail  Kind = "change_email"
	ResetPassword Kind = "reset_password"
	AccountExists Kind = "account_exists" // to who signs up though she has an account
	EmailChanged  Kind = "email_changed"  // to the address that was
)

type content struct {
	Subject string
	Lines   []string
	Button  string
	After   string
}

var contents = map[Kind]content{
	MagicLink: {
		"Your link to sign in", []string{"Somebody, most likely you, wants to sign in with this address."}, "Sign in",
		"The link works once and for 15 minutes. If it was not you, ignore this mail: nothing happens without the link.",
	},
	ConfirmSignUp: {
		"Confirm your address", []string{"Somebody, most likely you, signed up with this address."}, "Confirm the address",
		"The link works once and for one day. If it was not you, ignore this mail: without the link there will be no account.",
	},
	ConfirmEmail: {
		"Confirm your new address", []string{"A user asked to have this address for her account instead of her old one."}, "Confirm the address",
		"The link works once and for one day. If it was not you, ignore this mail: nothing changes without the link.",
	},
	ResetPassword: {
		"Set a new password", []string{"Somebody, most likely you, wants to set a new password for the account with this address."}, "Set a new password",
		"The link works once and for 15 minutes. If it was not you, ignore this mail: nothing changes without the link.",
	},
	AccountExists: {
		"You already have an account", []string{
			"Somebody, most likely you, tried to sign up with this address, which has an account already.",
			"Sign in with your password, or ask for a link to sign in if you forgot it.",
		}, "", "If it was not you, ignore this mail: nothing was changed.",
	},
	EmailChanged: {
		"Your address was changed", []string{"Your account has another e-mail address now, and this one does not sign in any more."}, "",
		"If it was not you, tell whoever runs this service at once.",
	},
}

//go:embed templates
var files embed.FS

var (
	textTemplate = text.Must(text.ParseFS(files, "templates/mail.txt"))
	htmlTemplate = html.Must(html.ParseFS(files, "templates/mail.html"))
)

// compose makes the mail, with a part in plain text and one in HTML.
func compose(from string, m Message) (*gomail.Msg, error) {
	c, ok := contents[m.Kind]
	if !ok {
		return nil, fmt.Errorf("there is no mail of kind %q", m.Kind)
	}
	data := struct {
		content
		Message
	}{c, m}
	var plain, rich bytes.Buffer
	if err := textTemplate.Execute(&plain, data); err != nil {
		return nil, err
	}
	if err := htmlTemplate.Execute(&rich, data); err != nil {
		return nil, err
	}
	msg := gomail.NewMsg()
	if err := msg.From(from); err != nil {
		return nil, fmt.Errorf("mail.from: %w", err)
	}
	if err := msg.To(m.To); err != nil {
		return nil, fmt.Errorf("the recipient's address: %w", err)
	}
	msg.Subject(c.Subject)
	msg.SetDate()
	msg.SetMessageID()
	// Programs that answer for people on holiday leave such mails alone (RFC 3834).
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(gomail.TypeTextPlain, plain.String())
	msg.AddAlternativeString(gomail.TypeTextHTML, rich.String())
	return msg, nil
}

// Outbox is the mailbox for development: each mail becomes a file and a line in the log, which at level debug has its link.
type Outbox struct {
	From string
	Dir  string
	Log  *slog.Logger
}

// Send writes the mail.
func (o *Outbox) Send(_ context.Context, m Message) error {
	msg, err := compose(o.From, m)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return fmt.Errorf("making the outbox: %w", err)
	}
	name := time.Now().UTC().Format("20060102-150405.000") + "-" + string(m.Kind) + "-" + uuid.NewString()[:8] + ".eml"
	path := filepath.Join(o.Dir, name)
	var raw bytes.Buffer
	if _, err := msg.WriteTo(&raw); err != nil {
		return fmt.Errorf("writing a mail: %w", err)
	}
	// Whoever watches the directory finds whole mails only.
	partial := filepath.Join(o.Dir, "."+name)
	if err := os.WriteFile(partial, raw.Bytes(), 0o600); err != nil {
		return fmt.Errorf("writing a mail: %w", err)
	}
	if err := os.Rename(partial, path); err != nil {
		return fmt.Errorf("writing a mail: %w", err)
	}
	// The link is as good as a password, and logs are read by more people than mails.
	o.Log.Info("a mail was put into the outbox, since no SMTP server is configured", "to", m.To, "subject", contents[m.Kind].Subject, "file", path)
	o.Log.Debug("the mail's secrets", "file", path, "link", m.Link, "code", m.Code)
	return nil
}
