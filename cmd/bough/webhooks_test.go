package main

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/client"
)

func testWebhooks() []client.Webhook {
	made := testNow.Add(-48 * time.Hour)
	return []client.Webhook{
		{ID: testID(800), URL: "https://ci.example.com/hook", Events: []client.EventSelector{"branch.ready", "branch.deleted"}, Description: "CI", Enabled: true, CreatedAt: made, UpdatedAt: made, LastSuccessAt: new(testNow.Add(-time.Minute))},
		{ID: testID(801), URL: "https://hooks.a-rather-long-name.example.com/services/T00000000/B00000000", Events: []client.EventSelector{"*"}, Enabled: true, CreatedAt: made, UpdatedAt: made, FailingSince: new(testNow.Add(-3 * time.Hour))},
		{ID: testID(802), URL: "https://gone.example.com/\x1b[31m", Events: []client.EventSelector{"*"}, DisabledReason: new("gone"), CreatedAt: made, UpdatedAt: made},
	}
}

// testDelivery is the delivery of the webhook with the id; those of the second webhook fail.
func testDelivery(n int, webhook uuid.UUID, event client.EventType) client.Delivery {
	d := client.Delivery{
		ID: testID(n), WebhookID: webhook, EventID: testID(n + 100), Event: event, Status: client.DeliveryStatusDelivered, CreatedAt: testNow.Add(-time.Minute),
		DeliveredAt: &testNow, Attempts: []client.DeliveryAttempt{{At: testNow, DurationMs: 12, ResponseStatus: new(204)}},
		Payload: client.EventPayload{Type: event, Timestamp: testNow, Data: map[string]any{"slug": "demo"}},
	}
	if webhook == testID(801) {
		d.Status, d.DeliveredAt, d.NextAttemptAt, d.Attempts[0].ResponseStatus = client.DeliveryStatusPending, nil, new(testNow.Add(5*time.Second)), new(500)
	}
	return d
}

func (s *fakeServer) serveWebhooks(mux *http.ServeMux) {
	const path = "/api/v1/admin/webhooks"
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		hooks := testWebhooks()
		reply(w, http.StatusOK, client.WebhookList{Webhooks: slicePage(hooks, r.URL.Query()), Total: len(hooks)})
	})
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		var request client.CreateWebhookRequest
		_ = json.NewDecoder(r.Body).Decode(&request)
		reply(w, http.StatusCreated, client.CreatedWebhook{ID: testID(803), URL: request.URL, Events: request.Events, Enabled: true, CreatedAt: testNow, Secret: "whsec_fresh"})
	})
	mux.HandleFunc("PATCH "+path+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		var request client.UpdateWebhookRequest
		_ = json.NewDecoder(r.Body).Decode(&request)
		hook := testWebhooks()[0]
		if request.Enabled != nil {
			hook.Enabled = *request.Enabled
		}
		reply(w, http.StatusOK, hook)
	})
	mux.HandleFunc("DELETE "+path+"/{id}", noContent)
	mux.HandleFunc("POST "+path+"/{id}/rotate-secret", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, client.WebhookSecret{Secret: "whsec_rotated"})
	})
	begun := func(w http.ResponseWriter, d client.Delivery) {
		d.Status, d.DeliveredAt, d.NextAttemptAt, d.Attempts = client.DeliveryStatusPending, nil, &testNow, []client.DeliveryAttempt{}
		s.deliveries = map[string]client.Delivery{d.ID.String(): testDelivery(810, d.WebhookID, d.Event)}
		reply(w, http.StatusAccepted, d)
	}
	mux.HandleFunc("POST "+path+"/{id}/test", func(w http.ResponseWriter, r *http.Request) {
		begun(w, testDelivery(810, uuid.MustParse(r.PathValue("id")), client.EventTypeWebhookTest))
	})
	mux.HandleFunc("POST "+path+"/deliveries/{id}/redeliver", func(w http.ResponseWriter, _ *http.Request) {
		begun(w, testDelivery(810, testID(800), client.EventTypeBranchReady))
	})
	mux.HandleFunc("GET "+path+"/{id}/deliveries", func(w http.ResponseWriter, r *http.Request) {
		hook := uuid.MustParse(r.PathValue("id"))
		list := []client.Delivery{testDelivery(812, hook, client.EventTypeBranchDeleted), testDelivery(811, hook, client.EventTypeBranchReady)}
		reply(w, http.StatusOK, client.DeliveryList{Deliveries: slicePage(list, r.URL.Query()), Total: len(list)})
	})
	mux.HandleFunc("GET "+path+"/deliveries", func(w http.ResponseWriter, r *http.Request) {
		if d, ok := s.deliveries[r.URL.Query().Get("id")]; ok {
			reply(w, http.StatusOK, client.DeliveryList{Deliveries: []client.Delivery{d}, Total: 1})
			return
		}
		d := testDelivery(813, testID(801), client.EventType(r.URL.Query().Get("event")))
		d.Status, d.NextAttemptAt = client.DeliveryStatus(r.URL.Query().Get("status")), nil
		d.Attempts = append(d.Attempts, client.DeliveryAttempt{At: testNow, Error: new("dial tcp 192.0.2.1:443: connect: connection refused\x1b[2J")})
		reply(w, http.StatusOK, client.DeliveryList{Deliveries: []client.Delivery{d}, Total: 1})
	})
}
