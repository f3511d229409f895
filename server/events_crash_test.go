package server_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/servertest"
)

func createHook(t *testing.T, c *client.ClientWithResponses, url string) *client.CreatedWebhook {
	t.Helper()
	return ok[*client.CreateWebhookResponse](t, 201)(c.CreateWebhookWithResponse(t.Context(),
		client.CreateWebhookRequest{URL: url, Events: []client.EventSelector{client.EventSelectorAll}})).JSON201
}

func delivery(t *testing.T, c *client.ClientWithResponses, id uuid.UUID) *client.Delivery {
	t.Helper()
	list := ok[*client.ListDeliveriesResponse](t, 200)(c.ListDeliveriesWithResponse(t.Context(), &client.ListDeliveriesParams{ID: &id})).JSON200
	if len(list.Deliveries) != 1 {
		t.Fatalf("%d deliveries with the id %s", len(list.Deliveries), id)
	}
	return &list.Deliveries[0]
}

// Killed right before or right after the transaction that makes a branch ready, the next process tells of it exactly as
// often as it happened: once.
func TestKilledProcessLosesNoEvent(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"creating:swapped", "creating:finished"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			i, r := newInstallation(t), servertest.NewReceiver(t, nil)
			faulty := start(t, i.args, []string{"BOUGH_FAULT_POINT=" + point})
			c := faulty.client(t)
			createHook(t, c, r.URL)
			mode := client.DataCloneModeFullClone
			ok[*client.CreateBranchResponse](t, 201)(c.CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{}, client.CreateBranchRequest{Name: "demo", DataCloneMode: &mode}))
			faulty.waitDead(t)
			// What the process was sending when it died is given up for lost here, as it is after its time.
			i.s.Exec(t, i.s.Control, "update webhook_deliveries set due_at = due_at - interval '1 hour', lease_until = lease_until - interval '1 hour'")

			start(t, i.args, nil)
			eventually(t, "both events", func() bool {
				types := r.Types()
				return slices.Contains(types, "branch.created") && slices.Contains(types, "branch.ready")
			})
			if n := servertest.Value[int64](t, i.s.Control, "select count(*) from events"); n != 2 {
				t.Errorf("%d events, want 2", n)
			}
		})
	}
}

// Killed while an endpoint has the request, a process leaves a delivery that the next one makes again, under the same id.
func TestDeliveryOfAKilledProcessIsMadeAgain(t *testing.T) {
	t.Parallel()
	i, arrived, release := newInstallation(t), make(chan struct{}, 1), make(chan struct{})
	r := servertest.NewReceiver(t, func(_ http.ResponseWriter, m servertest.Message) {
		if m.Count == 1 {
			arrived <- struct{}{}
			<-release
		}
	})
	t.Cleanup(func() { close(release) }) // before the receiver is closed, which waits for its handlers
	p := start(t, i.args, nil)
	w := createHook(t, p.client(t), r.URL)
	d := ok[*client.TestWebhookResponse](t, 202)(p.client(t).TestWebhookWithResponse(t.Context(), w.ID)).JSON202
	<-arrived
	p.kill()
	i.s.Exec(t, i.s.Control, "update webhook_deliveries set due_at = due_at - interval '1 hour', lease_until = lease_until - interval '1 hour'")
	p = start(t, i.args, nil)
	eventually(t, "the delivery", func() bool {
		return delivery(t, p.client(t), d.ID).Status == client.DeliveryStatusDelivered
	})
	got := r.Messages()
	if len(got) != 2 || got[0].Header.Get("Webhook-Id") != got[1].Header.Get("Webhook-Id") {
		t.Errorf("messages: %+v", got)
	}
}

// A server that stops does not wait for an endpoint that is slow, and the next one goes on at once.
func TestStoppedProcessHandsOnItsDeliveries(t *testing.T) {
	t.Parallel()
	i, arrived, release := newInstallation(t), make(chan struct{}, 1), make(chan struct{})
	r := servertest.NewReceiver(t, func(_ http.ResponseWriter, m servertest.Message) {
		if m.Count == 1 {
			arrived <- struct{}{}
			<-release
		}
	})
	t.Cleanup(func() { close(release) }) // before the receiver is closed, which waits for its handlers
	p := start(t, i.args, nil)
	w := createHook(t, p.client(t), r.URL)
	d := ok[*client.TestWebhookResponse](t, 202)(p.client(t).TestWebhookWithResponse(t.Context(), w.ID)).JSON202
	<-arrived
	if code := p.stop(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p = start(t, i.args, nil)
	eventually(t, "the delivery", func() bool {
		d = delivery(t, p.client(t), d.ID)
		return d.Status == client.DeliveryStatusDelivered
	})
	if len(d.Attempts) != 1 {
		t.Errorf("the try that the stop ended counts: %+v", d.Attempts)
	}
}
