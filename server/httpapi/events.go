package httpapi

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/boughdb/bough/gen/api"
	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/events"
)

// CreateWebhook registers a webhook.
func (a *API) CreateWebhook(ctx context.Context, r api.CreateWebhookRequestObject) (api.CreateWebhookResponseObject, error) {
	w, secret, err := a.Events.Create(ctx, auth.FromContext(ctx), events.Change{
		URL: &r.Body.URL, Events: texts(r.Body.Events), Description: r.Body.Description, Enabled: r.Body.Enabled,
	}, r.Body.Secret)
	if err != nil {
		return nil, err
	}
	return api.CreateWebhook201JSONResponse{
		Body: api.CreatedWebhook{
			ID: w.ID, URL: w.URL, Events: selectors(w.Events), Description: w.Description, Enabled: w.Enabled, CreatedAt: w.CreatedAt.UTC(), Secret: secret,
		},
		Headers: api.CreateWebhook201ResponseHeaders{CacheControl: "no-store", Location: "/api/v1/admin/webhooks/" + w.ID.String()},
	}, nil
}

// ListWebhooks lists webhooks.
func (a *API) ListWebhooks(ctx context.Context, r api.ListWebhooksRequestObject) (api.ListWebhooksResponseObject, error) {
	hooks, total, err := a.Events.List(ctx, auth.FromContext(ctx), value(r.Params.Limit), value(r.Params.Offset))
	if err != nil {
		return nil, err
	}
	out := api.WebhookList{Webhooks: []api.Webhook{}, Total: int(total)}
	for _, w := range hooks {
		out.Webhooks = append(out.Webhooks, webhookOf(w))
	}
	return api.ListWebhooks200JSONResponse(out), nil
}

// GetWebhook returns a webhook.
func (a *API) GetWebhook(ctx context.Context, r api.GetWebhookRequestObject) (api.GetWebhookResponseObject, error) {
	w, err := a.Events.Get(ctx, auth.FromContext(ctx), r.WebhookID)
	if err != nil {
		return nil, err
	}
	return api.GetWebhook200JSONResponse(webhookOf(w)), nil
}

// UpdateWebhook changes a webhook.
func (a *API) UpdateWebhook(ctx context.Context, r api.UpdateWebhookRequestObject) (api.UpdateWebhookResponseObject, error) {
	change := events.Change{URL: r.Body.URL, Description: r.Body.Description, Enabled: r.Body.Enabled}
	if r.Body.Events != nil {
		change.Events = texts(r.Body.Events)
	}
	w, err := a.Events.Update(ctx, auth.FromContext(ctx), r.WebhookID, change)
	if err != nil {
		return nil, err
	}
	return api.UpdateWebhook200JSONResponse(webhookOf(w)), nil
}

// DeleteWebhook removes a webhook.
func (a *API) DeleteWebhook(ctx context.Context, r api.DeleteWebhookRequestObject) (api.DeleteWebhookResponseObject, error) {
	if err := a.Events.Delete(ctx, auth.FromContext(ctx), r.WebhookID); err != nil {
		return nil, err
	}
	return api.DeleteWebhook204Response{}, nil
}

// RotateWebhookSecret gives a webhook a new secret.
func (a *API) RotateWebhookSecret(ctx context.Context, r api.RotateWebhookSecretRequestObject) (api.RotateWebhookSecretResponseObject, error) {
	var given *string
	if r.Body != nil {
		given = r.Body.Secret
	}
	secret, err := a.Events.RotateSecret(ctx, auth.FromContext(ctx), r.WebhookID, given, value(r.Params.Immediately))
	if err != nil {
		return nil, err
	}
	return api.RotateWebhookSecret200JSONResponse{
		Body: api.WebhookSecret{Secret: secret}, Headers: api.RotateWebhookSecret200ResponseHeaders{CacheControl: "no-store"},
	}, nil
}

// TestWebhook sends a test event.
func (a *API) TestWebhook(ctx context.Context, r api.TestWebhookRequestObject) (api.TestWebhookResponseObject, error) {
	d, err := a.Events.Test(ctx, auth.FromContext(ctx), r.WebhookID)
	if err != nil {
		return nil, err
	}
	out, err := deliveryOf(d)
	return api.TestWebhook202JSONResponse(out), err
}

// ListWebhookDeliveries lists the deliveries of one webhook.
func (a *API) ListWebhookDeliveries(ctx context.Context, r api.ListWebhookDeliveriesRequestObject) (api.ListWebhookDeliveriesResponseObject, error) {
	out, err := a.deliveries(ctx, events.DeliveriesParams{
		ID: r.Params.ID, WebhookID: &r.WebhookID, Status: enum[db.DeliveryStatus](r.Params.Status), Event: enum[string](r.Params.Event),
		Limit: value(r.Params.Limit), Offset: value(r.Params.Offset),
	})
	return api.ListWebhookDeliveries200JSONResponse(out), err
}

// ListDeliveries lists the deliveries of all webhooks.
func (a *API) ListDeliveries(ctx context.Context, r api.ListDeliveriesRequestObject) (api.ListDeliveriesResponseObject, error) {
	out, err := a.deliveries(ctx, events.DeliveriesParams{
		ID: r.Params.ID, Status: enum[db.DeliveryStatus](r.Params.Status), Event: enum[string](r.Params.Event), Limit: value(r.Params.Limit), Offset: value(r.Params.Offset),
	})
	return api.ListDeliveries200JSONResponse(out), err
}

func (a *API) deliveries(ctx context.Context, params events.DeliveriesParams) (api.DeliveryList, error) {
	rows, total, err := a.Events.Deliveries(ctx, auth.FromContext(ctx), params)
	out := api.DeliveryList{Deliveries: []api.Delivery{}, Total: int(total)}
	if err != nil {
		return out, err
	}
	for _, row := range rows {
		d, err := deliveryOf(row)
		if err != nil {
			return out, err
		}
		out.Deliveries = append(out.Deliveries, d)
	}
	return out, nil
}

// Redeliver begins a delivery anew.
func (a *API) Redeliver(ctx context.Context, r api.RedeliverRequestObject) (api.RedeliverResponseObject, error) {
	d, err := a.Events.Redeliver(ctx, auth.FromContext(ctx), r.DeliveryID)
	if err != nil {
		return nil, err
	}
	out, err := deliveryOf(d)
	return api.Redeliver202JSONResponse(out), err
}

func webhookOf(w events.Webhook) api.Webhook {
	return api.Webhook{
		ID: w.ID, URL: w.URL, Events: selectors(w.Events), Description: w.Description, Enabled: w.Enabled, DisabledReason: enum[string](w.DisabledReason),
		CreatedAt: w.CreatedAt.UTC(), UpdatedAt: w.UpdatedAt.UTC(), LastSuccessAt: utc(w.LastSuccessAt), FailingSince: utc(w.FailingSince),
	}
}

func selectors(in []string) []api.EventSelector {
	out := make([]api.EventSelector, len(in))
	for i, s := range in {
		out[i] = api.EventSelector(s)
	}
	return out
}

func deliveryOf(row events.Delivery) (api.Delivery, error) {
	d := row.WebhookDelivery
	out := api.Delivery{
		ID: d.ID, WebhookID: d.WebhookID, EventID: d.EventID, Event: api.EventType(d.EventType), Status: api.DeliveryStatus(d.Status),
		CreatedAt: d.CreatedAt.UTC(), DeliveredAt: utc(d.DeliveredAt),
	}
	if d.Status == db.DeliveryStatusPending {
		out.NextAttemptAt = utc(&d.DueAt)
	}
	if err := json.Unmarshal(d.Attempts, &out.Attempts); err != nil {
		return out, fmt.Errorf("reading the attempts of a delivery: %w", err)
	}
	if err := json.Unmarshal(row.Payload, &out.Payload); err != nil {
		return out, fmt.Errorf("reading an event: %w", err)
	}
	return out, nil
}
