package server_test

import (
	"net/http"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/boughdb/bough/server/servertest"
)

func TestCommandLineOfWebhooks(t *testing.T) {
	t.Parallel()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	s := servertest.Start(t)
	c := cli{path, t.TempDir(), s.URL}
	r := servertest.NewReceiver(t, func(w http.ResponseWriter, m servertest.Message) {
		if m.Count == 2 {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	secret := strings.TrimSpace(c.ok(t, "webhooks", "create", r.URL, "--description", "a test"))
	list := c.ok(t, "webhooks", "list", "-o", "json")
	_, rest, _ := strings.Cut(list, `"id": "`)
	id, _, _ := strings.Cut(rest, `"`)
	c.ok(t, "webhooks", "test", id)
	if wh, err := standardwebhooks.NewWebhook(secret); err != nil {
		t.Errorf("secret %q: %v", secret, err)
	} else if m := r.Messages()[0]; wh.Verify(m.Body, m.Header) != nil {
		t.Error("the secret that was printed does not sign")
	}
	c.fails(t, 1, "418 I'm a teapot; it is tried again in", "webhooks", "test", id)
	pending := c.ok(t, "webhooks", "deliveries", id, "--status", "pending")
	if !strings.Contains(pending, "webhook.test") || !strings.Contains(pending, "418") {
		t.Errorf("deliveries:\n%s", pending)
	}
	delivery := strings.Fields(strings.Split(pending, "\n")[1])[0]
	if out := c.ok(t, "webhooks", "redeliver", delivery, "-o", "json"); !strings.Contains(out, `"status": "delivered"`) {
		t.Errorf("redeliver:\n%s", out)
	}
	if out := c.ok(t, "webhooks", "rotate-secret", id, "--immediately"); !strings.HasPrefix(out, "whsec_") || out == secret+"\n" {
		t.Errorf("rotated: %s", out)
	}
	own := "whsec_" + strings.Repeat("AAAA", 8)
	if out, errs, code := c.run(t, own+"\n", "webhooks", "rotate-secret", id, "--own-secret"); code != 0 || out != own+"\n" {
		t.Errorf("own secret: %d %s%s", code, out, errs)
	}
	c.ok(t, "webhooks", "update", id, "--disable", "--events", "branch.ready")
	c.fails(t, 1, "webhook_disabled", "webhooks", "test", id)
	if out := c.ok(t, "webhooks", "list"); !strings.Contains(out, "disabled") {
		t.Errorf("list:\n%s", out)
	}
	c.fails(t, 1, "https://", "webhooks", "create", "http://example.com")
	c.ok(t, "webhooks", "delete", id, "--force")
	c.fails(t, 1, "not_found", "webhooks", "test", id)
}
