package httpapi_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

// hook registers a webhook.
func hook(t *testing.T, c *client.ClientWithResponses, url string, events ...client.EventSelector) *client.CreatedWebhook {
	t.Helper()
	if len(events) == 0 {
		events = []client.EventSelector{client.EventSelectorAll}
	}
	return must[*client.CreateWebhookResponse](t, 201)(c.CreateWebhookWithResponse(t.Context(), client.CreateWebhookRequest{URL: url, Events: events})).JSON201
}

func getHook(t *testing.T, c *client.ClientWithResponses, id uuid.UUID) *client.Webhook {
	t.Helper()
	return must[*client.GetWebhookResponse](t, 200)(c.GetWebhookWithResponse(t.Context(), id)).JSON200
}

// test sends a test event and waits until its delivery is not pending any more.
func testHook(t *testing.T, c *client.ClientWithResponses, id uuid.UUID) *client.Delivery {
	t.Helper()
	d := must[*client.TestWebhookResponse](t, 202)(c.TestWebhookWithResponse(t.Context(), id)).JSON202
	return settled(t, c, d.ID)
}

func delivery(t *testing.T, c *client.ClientWithResponses, id uuid.UUID) *client.Delivery {
	t.Helper()
	list := must[*client.ListDeliveriesResponse](t, 200)(c.ListDeliveriesWithResponse(t.Context(), &client.ListDeliveriesParams{ID: &id})).JSON200
	if list.Total != 1 || len(list.Deliveries) != 1 || list.Deliveries[0].ID != id {
		t.Fatalf("deliveries with the id %s: %+v", id, list)
	}
	return &list.Deliveries[0]
}

func settled(t *testing.T, c *client.ClientWithResponses, id uuid.UUID) *client.Delivery {
	t.Helper()
	var d *client.Delivery
	eventually(t, "the end of a delivery", func() bool {
		d = delivery(t, c, id)
		return d.Status != client.DeliveryStatusPending
	})
	return d
}

// verifies reports whether a message has a signature by the secret, as the library of Standard Webhooks sees it.
func verifies(t *testing.T, secret string, m servertest.Message) bool {
	t.Helper()
	wh, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return wh.Verify(m.Body, m.Header) == nil
}

// retries shortens the schedule of deliveries.
func retries(waits ...string) func(*server.Config) {
	return func(cfg *server.Config) { cfg.Events.Retries = waits }
}

func TestLifeOfABranchIsTold(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	c := s.Service(t)
	all, some := servertest.NewReceiver(t, nil), servertest.NewReceiver(t, nil)
	w := hook(t, c, all.URL)
	hook(t, c, some.URL, client.EventSelectorBranchReady, client.EventSelectorBranchDeleted)

	b := create(t, c, full("demo"))
	must[*client.UpdateBranchResponse](t, 200)(c.UpdateBranchWithResponse(t.Context(), "demo", client.UpdateBranchRequest{ExpiresIn: new("7d")}))
	must[*client.ResetBranchResponse](t, 200)(c.ResetBranchWithResponse(t.Context(), "demo"))
	must[*client.DeleteBranchResponse](t, 204)(c.DeleteBranchWithResponse(t.Context(), "demo", nil))
	eventually(t, "all events", func() bool { return len(all.Messages()) == 5 && len(some.Messages()) == 2 })
	diff(t, "events", []string{"branch.created", "branch.ready", "branch.updated", "branch.reset", "branch.deleted"}, all.Types())
	diff(t, "events asked for", []string{"branch.ready", "branch.deleted"}, some.Types())

	key := servertest.Value[string](t, s.Control, "select id::text from api_keys")
	seen := map[string]bool{}
	for _, m := range all.Messages() {
		if !verifies(t, w.Secret, m) {
			t.Errorf("the signature of %s is not right: %v", m.Type, m.Header)
		}
		if id := m.Header.Get("Webhook-Id"); seen[id] || uuid.Validate(id) != nil {
			t.Errorf("webhook-id of %s: %q", m.Type, id)
		} else {
			seen[id] = true
		}
		diff(t, "content type", "application/json", m.Header.Get("Content-Type"))
		diff(t, "branch", []any{b.ID.String(), "demo", "full_clone", key}, []any{m.Data["id"], m.Data["slug"], m.Data["data_clone_mode"], m.Data["actor"]})
		for _, word := range []string{"database", "postgres://", b.DatabaseName} {
			if bytes.Contains(m.Body, []byte(word)) {
				t.Errorf("%s tells the way to the database: %s", m.Type, m.Body)
			}
		}
		status := map[string]any{"branch.created": "creating", "branch.deleted": "deleting"}[m.Type]
		if status == nil {
			status = "ready"
		}
		diff(t, "status in "+m.Type, status, m.Data["status"])
		switch m.Type {
		case "branch.updated":
			diff(t, "changed", any([]any{"expires_at"}), m.Data["changed"])
			if m.Data["expires_at"] == nil {
				t.Error("expires_at is null")
			}
		case "branch.deleted":
			diff(t, "reason", any("requested"), m.Data["reason"])
		}
	}
	if got := getHook(t, c, w.ID); got.LastSuccessAt == nil || got.FailingSince != nil {
		t.Errorf("the webhook after its successes: %+v", got)
	}
	// What was sent is what the list shows, newest first, by webhook, event and status.
	list := must[*client.ListWebhookDeliveriesResponse](t, 200)(c.ListWebhookDeliveriesWithResponse(t.Context(), w.ID, nil)).JSON200
	diff(t, "deliveries", 5, list.Total)
	diff(t, "the newest", client.EventTypeBranchDeleted, list.Deliveries[0].Event)
	diff(t, "its payload", any("requested"), list.Deliveries[0].Payload.Data["reason"])
	diff(t, "its attempt", new(204), list.Deliveries[0].Attempts[0].ResponseStatus)
	ready, delivered, pending := client.EventTypeBranchReady, client.DeliveryStatusDelivered, client.DeliveryStatusPending
	both := must[*client.ListDeliveriesResponse](t, 200)(c.ListDeliveriesWithResponse(t.Context(), &client.ListDeliveriesParams{
		Event: &ready, Status: &delivered, Limit: new(int32(1)), Offset: new(int32(1)),
	})).JSON200
	diff(t, "deliveries of branch.ready", []int{2, 1}, []int{both.Total, len(both.Deliveries)})
	diff(t, "pending", 0, must[*client.ListDeliveriesResponse](t, 200)(c.ListDeliveriesWithResponse(t.Context(), &client.ListDeliveriesParams{Status: &pending})).JSON200.Total)
}

func TestFailedBranchIsTold(t *testing.T) {
	t.Parallel()
	seeds := t.TempDir()
	writeFile(t, seeds+"/1.sql", "select 1/0")
	s := servertest.Start(t, func(cfg *server.Config) { cfg.Branching.SeedPath = seeds })
	c, r := s.Service(t), servertest.NewReceiver(t, nil)
	hook(t, c, r.URL, client.EventSelectorBranchFailed)
	mode := client.DataCloneModeSeedData
	must[*client.CreateBranchResponse](t, 201)(c.CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{}, client.CreateBranchRequest{Name: "bad", DataCloneMode: &mode}))
	eventually(t, "the event", func() bool { return len(r.Messages()) == 1 })
	data := r.Messages()[0].Data
	diff(t, "data", []any{"bad", "error", "create"}, []any{data["slug"], data["status"], data["operation"]})
	must[*client.ListDeliveriesResponse](t, 200)(c.ListDeliveriesWithResponse(t.Context(), nil)) // held against the contract
	if text, _ := data["error"].(string); !strings.Contains(text, "division by zero") {
		t.Errorf("error %q", text)
	}
}

func TestExpiryIsAnnouncedOnceAndTold(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Run(t) // two processes look for expiries
	c, r := s.Service(t), servertest.NewReceiver(t, nil)
	hook(t, c, r.URL, client.EventSelectorBranchExpiring, client.EventSelectorBranchDeleted)
	soon, late := full("soon"), full("late")
	soon.ExpiresIn, late.ExpiresIn = new("59m"), new("2h")
	b := create(t, c, soon)
	create(t, c, late)
	expiring := func() (slugs []any) {
		for _, m := range r.Messages() {
			if m.Type == "branch.expiring" {
				slugs = append(slugs, m.Data["slug"])
			}
		}
		return slugs
	}
	eventually(t, "the announcement", func() bool { return len(expiring()) == 1 })
	// Another expiry is announced again; both processes have had time to say the first one twice.
	must[*client.UpdateBranchResponse](t, 200)(c.UpdateBranchWithResponse(t.Context(), "soon", client.UpdateBranchRequest{ExpiresIn: new("50m")}))
	eventually(t, "the second announcement", func() bool { return len(expiring()) >= 2 })
	time.Sleep(2500 * time.Millisecond)
	diff(t, "announced", []any{"soon", "soon"}, expiring())

	s.Exec(t, s.Control, "update branches set expires_at = now() where id = $1", b.ID)
	eventually(t, "the end", func() bool { return slices.Contains(r.Types(), "branch.deleted") })
	must[*client.ListDeliveriesResponse](t, 200)(c.ListDeliveriesWithResponse(t.Context(), nil)) // held against the contract
	last := r.Messages()[2]
	diff(t, "the end", []any{"branch.deleted", "soon", "expired", nil}, []any{last.Type, last.Data["slug"], last.Data["reason"], last.Data["actor"]})
}

func TestFailedDeliveryIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, retries("1s", "1s", "1s"))
	c := s.Service(t)
	r := servertest.NewReceiver(t, func(w http.ResponseWriter, m servertest.Message) {
		switch m.Count {
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "no\x00\xff"+strings.Repeat("x", 2000))
		case 2:
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	})
	w := hook(t, c, r.URL)
	d := testHook(t, c, w.ID)
	diff(t, "status", client.DeliveryStatusDelivered, d.Status)
	diff(t, "attempts", 3, len(d.Attempts))
	diff(t, "first", new(500), d.Attempts[0].ResponseStatus)
	diff(t, "body", new("no\uFFFD\uFFFD"+strings.Repeat("x", 1020)), d.Attempts[0].ResponseBody)
	if a := d.Attempts[1]; a.ResponseStatus != nil || a.Error == nil || strings.Contains(*a.Error, "http://") {
		t.Errorf("second: %+v", a)
	}
	diff(t, "third", new(202), d.Attempts[2].ResponseStatus)
	if d.NextAttemptAt != nil || d.DeliveredAt == nil {
		t.Errorf("times of a delivery that is done: %+v", d)
	}
	ids := map[string]bool{}
	for _, m := range r.Messages() {
		ids[m.Header.Get("Webhook-Id")] = true
		if !verifies(t, w.Secret, m) {
			t.Error("a try's signature is not right")
		}
	}
	diff(t, "ids", map[string]bool{d.EventID.String(): true}, ids)
	if got := getHook(t, c, w.ID); got.FailingSince != nil || got.LastSuccessAt == nil {
		t.Errorf("after the success: %+v", got)
	}
}

func TestDeliveryIsGivenUpAndDeliveredAnew(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, retries("1s"))
	c := s.Service(t)
	r := servertest.NewReceiver(t, func(w http.ResponseWriter, m servertest.Message) {
		w.WriteHeader(map[bool]int{true: 400, false: 200}[m.Count <= 2])
	})
	w := hook(t, c, r.URL)
	d := testHook(t, c, w.ID)
	diff(t, "given up", []any{client.DeliveryStatusFailed, 2}, []any{d.Status, len(d.Attempts)})
	if getHook(t, c, w.ID).FailingSince == nil {
		t.Error("failing_since is null")
	}
	anew := must[*client.RedeliverResponse](t, 202)(c.RedeliverWithResponse(t.Context(), d.ID)).JSON202
	diff(t, "delivery", d.ID, anew.ID)
	d = settled(t, c, d.ID)
	diff(t, "delivered", []any{client.DeliveryStatusDelivered, 3}, []any{d.Status, len(d.Attempts)})
}

// A redelivery does not wait for the schedule, and while a try is under way there is none.
func TestRedeliveryOfAPendingDelivery(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, retries("1h"))
	c := s.Service(t)
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	r := servertest.NewReceiver(t, func(w http.ResponseWriter, m servertest.Message) {
		arrived <- struct{}{}
		if m.Count == 1 {
			<-release
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	w := hook(t, c, r.URL)
	d := must[*client.TestWebhookResponse](t, 202)(c.TestWebhookWithResponse(t.Context(), w.ID)).JSON202
	<-arrived
	refused := must[*client.RedeliverResponse](t, 409)(c.RedeliverWithResponse(t.Context(), d.ID))
	diff(t, "code", "delivery_busy", refused.JSON409.Code)
	close(release)
	eventually(t, "the record of the failure", func() bool {
		d = delivery(t, c, d.ID)
		return len(d.Attempts) == 1
	})
	if in := time.Until(*d.NextAttemptAt); d.Status != client.DeliveryStatusPending || in < 59*time.Minute || in > 73*time.Minute {
		t.Errorf("%s, next attempt in %s", d.Status, in)
	}
	must[*client.RedeliverResponse](t, 202)(c.RedeliverWithResponse(t.Context(), d.ID))
	diff(t, "status", client.DeliveryStatusDelivered, settled(t, c, d.ID).Status)
}

func TestRetryAfterIsRespected(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, retries("1s"))
	c := s.Service(t)
	for header, want := range map[string]time.Duration{"7200": 2 * time.Hour, time.Now().Add(3 * time.Hour).UTC().Format(http.TimeFormat): 3 * time.Hour, "1000000000": 24 * time.Hour} {
		r := servertest.NewReceiver(t, func(w http.ResponseWriter, _ servertest.Message) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		d := must[*client.TestWebhookResponse](t, 202)(c.TestWebhookWithResponse(t.Context(), hook(t, c, r.URL).ID)).JSON202
		eventually(t, "the try", func() bool {
			d = delivery(t, c, d.ID)
			return len(d.Attempts) == 1
		})
		if in := time.Until(*d.NextAttemptAt); in < want-time.Minute || in > want+time.Minute {
			t.Errorf("Retry-After: %s: next attempt in %s", header, in)
		}
	}
}

func TestGoneDisablesTheWebhook(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, retries("1h"))
	c := s.Service(t)
	r := servertest.NewReceiver(t, func(w http.ResponseWriter, m servertest.Message) {
		w.WriteHeader(map[bool]int{true: 500, false: 410}[m.Count == 1])
	})
	w := hook(t, c, r.URL)
	waiting := must[*client.TestWebhookResponse](t, 202)(c.TestWebhookWithResponse(t.Context(), w.ID)).JSON202
	eventually(t, "the first try", func() bool { return getHook(t, c, w.ID).FailingSince != nil })
	d := testHook(t, c, w.ID)
	diff(t, "the delivery", client.DeliveryStatusFailed, d.Status)
	diff(t, "the one before", client.DeliveryStatusCancelled, settled(t, c, waiting.ID).Status)
	got := getHook(t, c, w.ID)
	diff(t, "the webhook", []any{false, new("gone")}, []any{got.Enabled, got.DisabledReason})

	for name, code := range map[string]string{
		"test":      must[*client.TestWebhookResponse](t, 409)(c.TestWebhookWithResponse(t.Context(), w.ID)).JSON409.Code,
		"redeliver": must[*client.RedeliverResponse](t, 409)(c.RedeliverWithResponse(t.Context(), d.ID)).JSON409.Code,
	} {
		diff(t, name, "webhook_disabled", code)
	}
	create(t, c, full("unheard"))
	diff(t, "messages", 2, len(r.Messages()))
	diff(t, "deliveries", 2, must[*client.ListDeliveriesResponse](t, 200)(c.ListDeliveriesWithResponse(t.Context(), nil)).JSON200.Total)
	on := must[*client.UpdateWebhookResponse](t, 200)(c.UpdateWebhookWithResponse(t.Context(), w.ID, client.UpdateWebhookRequest{Enabled: new(true)})).JSON200
	if !on.Enabled || on.DisabledReason != nil || on.FailingSince != nil {
		t.Errorf("enabled again: %+v", on)
	}
}

func TestFiveDaysOfFailuresDisableTheWebhook(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, retries("1h"))
	c := s.Service(t)
	r := servertest.NewReceiver(t, func(w http.ResponseWriter, _ servertest.Message) { w.WriteHeader(500) })
	early, due := hook(t, c, r.URL), hook(t, c, r.URL)
	s.Exec(t, s.Control, "update webhooks set failing_since = now() - case id when $1 then interval '119 hours' else interval '121 hours' end", early.ID)
	moved := hook(t, c, r.URL)
	s.Exec(t, s.Control, "update webhooks set failing_since = now() - interval '121 hours' where id = $1", moved.ID)
	must[*client.UpdateWebhookResponse](t, 200)(c.UpdateWebhookWithResponse(t.Context(), moved.ID, client.UpdateWebhookRequest{URL: &moved.URL}))
	if getHook(t, c, moved.ID).FailingSince == nil {
		t.Error("the same URL again ends the count of failures")
	}
	must[*client.UpdateWebhookResponse](t, 200)(c.UpdateWebhookWithResponse(t.Context(), moved.ID, client.UpdateWebhookRequest{URL: new(moved.URL + "/elsewhere")}))
	if getHook(t, c, moved.ID).FailingSince != nil {
		t.Error("another URL does not end the count of failures")
	}
	must[*client.TestWebhookResponse](t, 202)(c.TestWebhookWithResponse(t.Context(), early.ID))
	diff(t, "delivery", client.DeliveryStatusCancelled, testHook(t, c, due.ID).Status)
	diff(t, "reason", new("failing"), getHook(t, c, due.ID).DisabledReason)
	eventually(t, "both tries", func() bool { return len(r.Messages()) == 2 })
	diff(t, "the other is enabled", true, getHook(t, c, early.ID).Enabled)
}

func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, retries())
	c, elsewhere := s.Service(t), servertest.NewReceiver(t, nil)
	r := servertest.NewReceiver(t, func(w http.ResponseWriter, _ servertest.Message) {
		w.Header().Set("Location", elsewhere.URL)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	d := testHook(t, c, hook(t, c, r.URL).ID)
	diff(t, "delivery", []any{client.DeliveryStatusFailed, new(307)}, []any{d.Status, d.Attempts[0].ResponseStatus})
	diff(t, "messages elsewhere", 0, len(elsewhere.Messages()))
}

// A server that others reach sends nothing to its own machine or network, whatever name leads there.
func TestPrivateTargetsAreRefused(t *testing.T) {
	t.Parallel()
	r := servertest.NewReceiver(t, nil)
	public := func(cfg *server.Config) { cfg.PublicBaseURL = "https://bough.example.com" }
	s := servertest.Start(t, public, retries())
	c := s.Service(t)
	add := func(url string) int {
		answer, err := c.CreateWebhookWithResponse(t.Context(), client.CreateWebhookRequest{URL: url, Events: []client.EventSelector{client.EventSelectorAll}})
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode()
	}
	for url, want := range map[string]int{
		"https://example.com/hook": 201, "https://example.com": 201, "https://93.184.215.14/": 201,
		r.URL: 400, "https://localhost/": 400, "https://a.localhost/": 400, "https://LOCALHOST./": 400, "https://127.0.0.1/": 400, "https://[::1]/": 400,
		"https://[::ffff:127.0.0.1]/": 400, "https://10.0.0.1/": 400, "https://169.254.169.254/latest": 400, "https://[fd00:ec2::254]/": 400,
		"https://0.0.0.0/": 400, "http://example.com/": 400, "http://93.184.215.14/": 400,
	} {
		diff(t, url, want, add(url))
	}
	// Past the check of the URL stands that of the address; a name that led elsewhere at first gains nothing.
	w := hook(t, c, "https://rebinding.example.com/")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(strings.TrimSuffix(r.URL, "/hook"), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{r.URL, "http://localhost:" + port, "http://0.0.0.0:" + port} {
		s.Exec(t, s.Control, "update webhooks set url = $2 where id = $1", w.ID, url)
		d := testHook(t, c, w.ID)
		if a := d.Attempts[0]; d.Status != client.DeliveryStatusFailed || a.Error == nil || !strings.Contains(*a.Error, "are refused") {
			t.Errorf("%s: %s, %+v", url, d.Status, a)
		}
	}
	diff(t, "messages", 0, len(r.Messages()))

	s.Run(t, public, retries(), func(cfg *server.Config) { cfg.Events.AllowPrivateTargets = true })
	c = s.Service(t)
	for url, want := range map[string]int{r.URL: 201, "https://10.0.0.1/": 201, "http://example.com/": 201, "https://169.254.169.254/": 400, "https://[fd00:ec2::254]/": 400} {
		diff(t, url+" with private targets", want, add(url))
	}
}

func TestRotatedSecretSignsForADay(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	c, r := s.Service(t), servertest.NewReceiver(t, nil)
	w := hook(t, c, r.URL)
	rotate := func(own *string, immediately bool) string {
		t.Helper()
		answer := must[*client.RotateWebhookSecretResponse](t, 200)(c.RotateWebhookSecretWithResponse(t.Context(), w.ID,
			&client.RotateWebhookSecretParams{Immediately: &immediately}, client.RotateWebhookSecretRequest{Secret: own}))
		diff(t, "cache", "no-store", answer.HTTPResponse.Header.Get("Cache-Control"))
		return answer.JSON200.Secret
	}
	next := func() servertest.Message {
		t.Helper()
		testHook(t, c, w.ID)
		got := r.Messages()
		return got[len(got)-1]
	}
	check := func(what string, m servertest.Message, right, wrong []string) {
		t.Helper()
		for _, secret := range right {
			if !verifies(t, secret, m) {
				t.Errorf("%s: a secret that should sign does not", what)
			}
		}
		for _, secret := range wrong {
			if verifies(t, secret, m) {
				t.Errorf("%s: a secret that should not sign does", what)
			}
		}
		diff(t, what+": signatures", len(right), len(strings.Fields(m.Header.Get("Webhook-Signature"))))
	}
	own := "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 24))
	second := rotate(nil, false)
	check("in the overlap", next(), []string{w.Secret, second}, []string{own})
	s.Exec(t, s.Control, "update webhook_secrets set expires_at = now() where expires_at is not null")
	check("after it", next(), []string{second}, []string{w.Secret})
	diff(t, "own secret", own, rotate(&own, false))
	check("own", next(), []string{second, own}, nil)
	last := rotate(nil, true)
	check("immediately", next(), []string{last}, []string{second, own})
	made := []string{last}
	for range 6 {
		made = append(made, rotate(nil, false))
	}
	check("often", next(), made[3:], append(made[:3:3], second, own, w.Secret))
	if resp, body := call(t, s, "POST", "/api/v1/admin/webhooks/"+w.ID.String()+"/rotate-secret", "", "X-Service-Key", servertest.ServiceKey); resp.StatusCode != 200 {
		t.Errorf("without a body: %d %s", resp.StatusCode, body)
	}
}

func TestSecretsOfWebhooksStaySecret(t *testing.T) {
	t.Parallel()
	encrypted := func(key string) func(*server.Config) {
		return func(cfg *server.Config) { cfg.Auth.EncryptionKey = key }
	}
	key := strings.Repeat("secret", 8)
	s := servertest.Databases(t)
	stop := s.Run(t)
	c, r := s.Service(t), servertest.NewReceiver(t, nil)
	w := hook(t, c, r.URL)
	inClear := func() int64 {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(w.Secret, "whsec_"))
		if err != nil || len(raw) != 32 {
			t.Fatalf("secret %q: %v", w.Secret, err)
		}
		return servertest.Value[int64](t, s.Control, "select count(*) from webhook_secrets where position($1::bytea in secret) > 0", raw)
	}
	diff(t, "readable in the database", 0, inClear())
	for _, body := range []string{
		string(must[*client.GetWebhookResponse](t, 200)(c.GetWebhookWithResponse(t.Context(), w.ID)).Body),
		string(must[*client.ListWebhooksResponse](t, 200)(c.ListWebhooksWithResponse(t.Context(), nil)).Body),
	} {
		if strings.Contains(body, "whsec_") || strings.Contains(body, w.Secret[6:]) {
			t.Errorf("the secret is shown: %s", body)
		}
	}
	stop()
	s.Run(t, encrypted(key))
	diff(t, "readable with a key of the configuration", 0, inClear())
	c = s.Service(t)
	testHook(t, c, w.ID)
	if m := r.Messages()[0]; !verifies(t, w.Secret, m) {
		t.Error("the encrypted secret does not sign")
	}
}

func TestWebhooksAreChecked(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	c := s.Service(t)
	w := hook(t, c, "https://example.com/hook")
	path := "/api/v1/admin/webhooks"
	id := path + "/" + w.ID.String()
	none := path + "/" + uuid.NewString()
	long := strings.Repeat("x", 2048)
	for _, tc := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"POST", path, `{}`, 400, "validation_error"},
		{"POST", path, `{"url":"https://example.com"}`, 400, "validation_error"},
		{"POST", path, `{"url":"https://example.com","events":[]}`, 400, "validation_error"},
		{"POST", path, `{"url":"https://example.com","events":["branch.gone"]}`, 400, "validation_error"},
		{"POST", path, `{"url":"https://example.com","events":["webhook.test"]}`, 400, "validation_error"},
		{"POST", path, `{"url":"https://example.com","events":["*","branch.ready"]}`, 400, "validation_error"},
		{"POST", path, `{"url":"https://example.com","events":["branch.ready","branch.ready"]}`, 400, "validation_error"},
		{"POST", path, `{"url":"https://example.com","events":["*"],"color":1}`, 400, "validation_error"},
		{"POST", path, `{"url":"https://example.com","events":["*"],"description":"` + strings.Repeat("d", 501) + `"}`, 400, "validation_error"},
		{"POST", path, `{"url":"https://example.com/` + long + `","events":["*"]}`, 400, "validation_error"},
		{"POST", path, `{"url":"","events":["*"]}`, 400, "validation_error"},
		{"POST", path, `{"url":"example.com","events":["*"]}`, 400, "validation_error"},
		{"POST", path, `{"url":"//example.com","events":["*"]}`, 400, "validation_error"},
		{"POST", path, `{"url":"https://","events":["*"]}`, 400, "validation_error"},
		{"POST", path, `{"url":"https:example.com","events":["*"]}`, 400, "validation_error"},
		{"POST", path, `{"url":"ftp://example.com","events":["*"]}`, 400, "validation_error"},
		{"POST", path, `{"url":"file:///etc/passwd","events":["*"]}`, 400, "validation_error"},
		{"POST", path, `{"url":"https://user:pass@example.com","events":["*"]}`, 400, "validation_error"},
		{"POST", path, `{"url":"https://example.com/#x","events":["*"]}`, 400, "validation_error"},
		{"POST", path, `{"url":"https://exa mple.com/","events":["*"]}`, 400, "validation_error"},
		{"POST", path, `{"url":"https://192.168.0.1/","events":["*"]}`, 400, "validation_error"},
		{"POST", path, `{"url":"https://example.com","events":["*"],"secret":"hunter2"}`, 400, "validation_error"},
		{"POST", path, `{"url":"https://example.com","events":["*"],"secret":"whsec_` + strings.Repeat("!", 40) + `"}`, 400, "validation_error"},
		{"POST", path, `{"url":"https://example.com","events":["*"],"secret":"` + strings.Repeat("A", 44) + `"}`, 400, "validation_error"},
		{"PATCH", id, `{}`, 400, "validation_error"},
		{"PATCH", id, `{"url":"http://example.com"}`, 400, "validation_error"},
		{"PATCH", id, `{"events":[]}`, 400, "validation_error"},
		{"PATCH", id, `{"secret":"whsec_` + strings.Repeat("A", 44) + `"}`, 400, "validation_error"},
		{"PATCH", none, `{"enabled":false}`, 404, "not_found"},
		{"GET", path + "/nonsense", "", 400, "validation_error"},
		{"GET", none, "", 404, "not_found"},
		{"DELETE", none, "", 404, "not_found"},
		{"POST", none + "/test", "", 404, "not_found"},
		{"POST", none + "/rotate-secret", "", 404, "not_found"},
		{"POST", id + "/rotate-secret", `{"secret":"whsec_AAAA"}`, 400, "validation_error"},
		{"GET", none + "/deliveries", "", 404, "not_found"},
		{"GET", id + "/deliveries?status=lost", "", 400, "validation_error"},
		{"GET", path + "/deliveries?event=branch.gone", "", 400, "validation_error"},
		{"GET", path + "/deliveries?limit=0", "", 400, "validation_error"},
		{"GET", path + "/deliveries?since=now", "", 400, "validation_error"},
		{"GET", path + "/deliveries?id=nonsense", "", 400, "validation_error"},
		{"POST", path + "/deliveries/" + uuid.NewString() + "/redeliver", "", 404, "not_found"},
	} {
		resp, body := call(t, s, tc.method, tc.path, tc.body, "X-Service-Key", servertest.ServiceKey)
		if t.Run(tc.method+" "+tc.path+" "+tc.body, func(t *testing.T) { wantError(t, resp, body, tc.status, tc.code) }); t.Failed() {
			t.Log(body)
		}
	}
	own := "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 64))
	made := must[*client.CreateWebhookResponse](t, 201)(c.CreateWebhookWithResponse(t.Context(), client.CreateWebhookRequest{
		URL: "https://example.com", Events: []client.EventSelector{client.EventSelectorBranchReady}, Secret: &own, Description: new("CI"), Enabled: new(false),
	}))
	diff(t, "own secret", own, made.JSON201.Secret)
	diff(t, "cache", "no-store", made.HTTPResponse.Header.Get("Cache-Control"))
	diff(t, "location", path+"/"+made.JSON201.ID.String(), made.HTTPResponse.Header.Get("Location"))
	got := getHook(t, c, made.JSON201.ID)
	diff(t, "made", []any{false, new("manual"), "CI"}, []any{got.Enabled, got.DisabledReason, got.Description})
	changed := must[*client.UpdateWebhookResponse](t, 200)(c.UpdateWebhookWithResponse(t.Context(), got.ID, client.UpdateWebhookRequest{
		Description: new(""), Events: []client.EventSelector{client.EventSelectorAll},
	})).JSON200
	diff(t, "changed", []any{"https://example.com", "", []client.EventSelector{"*"}, false}, []any{changed.URL, changed.Description, changed.Events, changed.Enabled})
	list := must[*client.ListWebhooksResponse](t, 200)(c.ListWebhooksWithResponse(t.Context(), &client.ListWebhooksParams{Limit: new(int32(1))})).JSON200
	diff(t, "list", []any{2, 1, got.ID}, []any{list.Total, len(list.Webhooks), list.Webhooks[0].ID})
	must[*client.DeleteWebhookResponse](t, 204)(c.DeleteWebhookWithResponse(t.Context(), got.ID))
	must[*client.GetWebhookResponse](t, 404)(c.GetWebhookWithResponse(t.Context(), got.ID))
}

func TestWebhooksAreForAdministrators(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	r := servertest.NewReceiver(t, nil)
	service := s.Service(t)
	w := hook(t, service, r.URL)
	d := testHook(t, service, w.ID)
	admin := uuid.New()
	must[*client.GetWebhookResponse](t, 200)(s.Admin(t, admin).GetWebhookWithResponse(t.Context(), w.ID))
	key := must[*client.CreateKeyResponse](t, 201)(s.Admin(t, admin).CreateKeyWithResponse(t.Context(), client.CreateKeyRequest{
		Type: client.KeyTypeClient, Name: "narrow", Scopes: scopes(client.ScopeReadBranches, client.ScopeWriteBranches),
	})).JSON201.Key
	path := "/api/v1/admin/webhooks"
	for _, operation := range [][3]string{
		{"GET", path}, {"POST", path, `{"url":"https://example.com","events":["*"]}`}, {"GET", path + "/" + w.ID.String()},
		{"PATCH", path + "/" + w.ID.String(), `{"enabled":false}`}, {"DELETE", path + "/" + w.ID.String()},
		{"POST", path + "/" + w.ID.String() + "/test"}, {"POST", path + "/" + w.ID.String() + "/rotate-secret"},
		{"GET", path + "/" + w.ID.String() + "/deliveries"}, {"GET", path + "/deliveries"},
		{"POST", path + "/deliveries/" + d.ID.String() + "/redeliver"},
	} {
		for who, credentials := range map[string][]string{
			"a user": {"Authorization", "Bearer " + s.Token(t, uuid.New(), nil)}, "an administrator's client key": {"X-Client-Key", key},
		} {
			resp, body := call(t, s, operation[0], operation[1], operation[2], credentials...)
			if resp.StatusCode != 403 && resp.StatusCode != 401 || who == "a user" && resp.StatusCode != 403 {
				t.Errorf("%s %s by %s: %d %s", operation[0], operation[1], who, resp.StatusCode, body)
			}
		}
		if resp, _ := call(t, s, operation[0], operation[1], operation[2]); resp.StatusCode != 401 {
			t.Errorf("%s %s by nobody: %d", operation[0], operation[1], resp.StatusCode)
		}
	}
	diff(t, "enabled", true, getHook(t, service, w.ID).Enabled)
	diff(t, "messages", 1, len(r.Messages()))
}

// Several processes share the work: each event arrives once from any of them.
func TestTwoProcessesDeliverOnce(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Run(t)
	c, r := s.Service(t), servertest.NewReceiver(t, nil)
	w := hook(t, c, r.URL)
	const n = 40
	for range n {
		must[*client.TestWebhookResponse](t, 202)(c.TestWebhookWithResponse(t.Context(), w.ID))
	}
	// A job too many, as one that was taken up although it was only late, does no harm.
	s.Exec(t, s.Control, `insert into river_job (args, kind, max_attempts, queue) select args, kind, 5, queue from river_job where kind = 'webhook_delivery'`)
	delivered := client.DeliveryStatusDelivered
	eventually(t, "all deliveries", func() bool {
		return must[*client.ListDeliveriesResponse](t, 200)(c.ListDeliveriesWithResponse(t.Context(), &client.ListDeliveriesParams{Status: &delivered})).JSON200.Total == n
	})
	eventually(t, "the end of all jobs", func() bool {
		// One that came upon a delivery under way comes again when that should have ended; nobody waits for it here.
		s.Exec(t, s.Control, "update river_job set state = 'available', scheduled_at = now() where kind = 'webhook_delivery' and state in ('scheduled', 'retryable')")
		return servertest.Value[int64](t, s.Control, "select count(*) from river_job where kind = 'webhook_delivery' and finalized_at is null") == 0
	})
	seen := map[string]int{}
	for _, m := range r.Messages() {
		seen[m.Header.Get("Webhook-Id")]++
	}
	diff(t, "different messages", n, len(seen))
	diff(t, "messages", n, len(r.Messages()))
}

func TestDisabledWebhookGetsNothing(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, retries("1h"))
	c := s.Service(t)
	r := servertest.NewReceiver(t, func(w http.ResponseWriter, _ servertest.Message) { w.WriteHeader(500) })
	w := hook(t, c, r.URL)
	d := must[*client.TestWebhookResponse](t, 202)(c.TestWebhookWithResponse(t.Context(), w.ID)).JSON202
	eventually(t, "the first try", func() bool { return getHook(t, c, w.ID).FailingSince != nil })
	off := must[*client.UpdateWebhookResponse](t, 200)(c.UpdateWebhookWithResponse(t.Context(), w.ID, client.UpdateWebhookRequest{Enabled: new(false)})).JSON200
	diff(t, "reason", new("manual"), off.DisabledReason)
	diff(t, "delivery", client.DeliveryStatusCancelled, settled(t, c, d.ID).Status)
	create(t, c, full("quiet"))
	diff(t, "deliveries", 1, must[*client.ListDeliveriesResponse](t, 200)(c.ListDeliveriesWithResponse(t.Context(), nil)).JSON200.Total)
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
