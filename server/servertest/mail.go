package servertest

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Mails returns the plain text of the mails in the outbox, oldest first.
func (s *Server) Mails(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(s.Outbox, "*.eml"))
	if err != nil {
		t.Fatal(err)
	}
	// One that is being written has a name with a dot before it.
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(filepath.Base(name), ".") })
	slices.Sort(names)
	var out []string
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := mail.ReadMessage(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
		if err != nil {
			t.Fatal(err)
		}
		part, err := multipart.NewReader(m.Body, params["boundary"]).NextRawPart()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(quotedprintable.NewReader(part))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, "To: "+m.Header.Get("To")+"\nSubject: "+m.Header.Get("Subject")+"\n\n"+strings.ReplaceAll(string(text), "\r\n", "\n"))
	}
	return out
}

var linkToken = regexp.MustCompile(`[?&]token=(bough_ml_[A-Za-z0-9_-]+)`)

// NextMail waits until the outbox has more than so many mails and returns the next one and the token of its link, "" for
// a mail without one.
func (s *Server) NextMail(t testing.TB, after int) (text, token string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if mails := s.Mails(t); len(mails) > after {
			if found := linkToken.FindStringSubmatch(mails[after]); found != nil {
				token = found[1]
			}
			return mails[after], token
		}
	}
	t.Fatalf("there is no mail number %d", after+1)
	return "", ""
}
