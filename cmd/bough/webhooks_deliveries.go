package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

// outcomeTimeout is how long a command waits for the first try of a delivery: a while longer than an endpoint may take.
const outcomeTimeout = 25 * time.Second

func newWebhooksTestCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test <id>",
		Short: "Send a test event to a webhook",
		Long: `Send the event webhook.test to a webhook, whatever it is subscribed to, and say what
came of it. The exit code is 1 when it was not delivered at the first try.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeWebhook,
	}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := webhookID(args[0])
		if err != nil {
			return err
		}
		a, err := c.connect()
		if err != nil {
			return err
		}
		d, _, err := readAs[client.Delivery](a.TestWebhook(cmd.Context(), id))
		if err != nil {
			return err
		}
		return c.reportDelivery(cmd, a, d, output.value)
	}
	return cmd
}

func newWebhooksRedeliverCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redeliver <delivery id>",
		Short: "Deliver an event again",
		Long: `Begin a delivery anew, whatever came of it before, and say what came of it; one that
waits for its next try is tried at once. Its id is in "bough webhooks deliveries".`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
	}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := uuid.Parse(args[0])
		if err != nil {
			return usagef(`%q is no delivery id, which has the form of a uuid; "bough webhooks deliveries" shows them`, harmless(args[0]))
		}
		a, err := c.connect()
		if err != nil {
			return err
		}
		d, _, err := readAs[client.Delivery](a.Redeliver(cmd.Context(), id))
		if err != nil {
			return err
		}
		return c.reportDelivery(cmd, a, d, output.value)
	}
	return cmd
}

// reportDelivery waits until a delivery that has just begun was tried, and says what came of it.
func (c *cli) reportDelivery(cmd *cobra.Command, a *api, d client.Delivery, format string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), outcomeTimeout)
	defer cancel()
	// A try is recorded at the end of the list, which may be full: the time of the last tells one try from another.
	before := lastAttempt(d)
	var got answer
	for tried := false; !tried; {
		if err := sleep(ctx, firstPoll); err != nil {
			if cmd.Context().Err() != nil {
				return cmd.Context().Err()
			}
			return fmt.Errorf("the event was not sent within %s; \"bough webhooks deliveries\" shows what becomes of it", outcomeTimeout)
		}
		var err error
		if d, got, err = a.delivery(ctx, d.ID); err != nil {
			return err
		}
		last := lastAttempt(d)
		tried = d.Status != client.DeliveryStatusPending || last != nil && (before == nil || last.At.After(before.At))
	}
	if format != formatTable {
		if err := c.print(cmd, format, got.body, nil); err != nil {
			return err
		}
	}
	if d.Status != client.DeliveryStatusDelivered {
		return deliveryError(d, c.now())
	}
	if last := lastAttempt(d); format == formatTable && last != nil {
		remark(cmd, "Delivered %s: %s after %d ms.", d.Event, answered(*last), last.DurationMs)
	}
	return nil
}

// delivery reads a delivery; the answer is what the list says of it.
func (a *api) delivery(ctx context.Context, id uuid.UUID) (d client.Delivery, got answer, err error) {
	list, got, err := readAs[struct {
		Deliveries []json.RawMessage `json:"deliveries"`
	}](a.ListDeliveries(ctx, &client.ListDeliveriesParams{ID: &id}))
	if err != nil {
		return d, got, err
	}
	if len(list.Deliveries) == 0 {
		return d, got, fmt.Errorf("the delivery %s is gone: its webhook was deleted", id)
	}
	got.body = list.Deliveries[0]
	return d, got, json.Unmarshal(got.body, &d)
}

func deliveryError(d client.Delivery, now time.Time) error {
	what := "the webhook was disabled before"
	if last := lastAttempt(d); last != nil {
		what = answered(*last)
	}
	if d.NextAttemptAt != nil {
		what += "; it is tried again " + ago(now, *d.NextAttemptAt)
	}
	return fmt.Errorf("%s was not delivered: %s", d.Event, harmless(what))
}

func lastAttempt(d client.Delivery) *client.DeliveryAttempt {
	if len(d.Attempts) == 0 {
		return nil
	}
	return &d.Attempts[len(d.Attempts)-1]
}

// answered says in a few words what came of a try.
func answered(a client.DeliveryAttempt) string {
	switch {
	case a.ResponseStatus == nil && a.Error == nil:
		return "no answer"
	case a.ResponseStatus == nil:
		return *a.Error
	case a.Error != nil:
		return strconv.Itoa(*a.ResponseStatus) + ", " + *a.Error
	}
	return fmt.Sprintf("%d %s", *a.ResponseStatus, http.StatusText(*a.ResponseStatus))
}

func newWebhooksDeliveriesCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "deliveries [webhook id]", Short: "List deliveries, newest first", Args: cobra.MaximumNArgs(1), ValidArgsFunction: c.completeWebhook,
	}
	status := enumFlag(cmd, "status", "", "", "only deliveries in this status",
		client.DeliveryStatusPending, client.DeliveryStatusDelivered, client.DeliveryStatusFailed, client.DeliveryStatusCancelled)
	event := enumFlag(cmd, "event", "", "", "only deliveries of this event", append(selectors()[1:], client.EventSelector(client.EventTypeWebhookTest))...)
	window := pageFlags(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		params := client.ListWebhookDeliveriesParams{}
		if status.value != "" {
			params.Status = new(client.DeliveryStatus(status.value))
		}
		if event.value != "" {
			params.Event = new(client.EventType(event.value))
		}
		var hook *uuid.UUID
		if len(args) > 0 {
			id, err := webhookID(args[0])
			if err != nil {
				return err
			}
			hook = &id
		}
		a, err := c.connect()
		if err != nil {
			return err
		}
		list, got, err := listOf[client.DeliveryList](cmd.Context(), "deliveries", *window, func(ctx context.Context, limit, offset int32) (answer, error) {
			params.Limit, params.Offset = &limit, &offset
			if hook != nil {
				return read(a.ListWebhookDeliveries(ctx, *hook, &params))
			}
			all := client.ListDeliveriesParams(params)
			return read(a.ListDeliveries(ctx, &all))
		})
		if err != nil {
			return err
		}
		return c.printList(cmd, output.value, got.body, c.deliveryTable(list.Deliveries), extent{len(list.Deliveries), list.Total, "delivery", "deliveries"})
	}
	return cmd
}

func (c *cli) deliveryTable(deliveries []client.Delivery) *table {
	t := &table{columns: []column{
		{title: "ID"}, {title: "EVENT"}, {title: "STATUS"}, {title: "ANSWER", min: 6}, {title: "WHEN", optional: true},
		{title: "TRIES", right: true, optional: true}, {title: "NEXT", optional: true}, {title: "WEBHOOK", optional: true},
	}}
	colours := map[client.DeliveryStatus]string{
		client.DeliveryStatusPending: "33", client.DeliveryStatusDelivered: "32", client.DeliveryStatusFailed: "31", client.DeliveryStatusCancelled: "31",
	}
	for _, d := range deliveries {
		last, next := "", ""
		if a := lastAttempt(d); a != nil && a.ResponseStatus != nil {
			last = strconv.Itoa(*a.ResponseStatus)
		} else if a != nil {
			last = answered(*a)
		}
		if d.NextAttemptAt != nil {
			next = ago(c.now(), *d.NextAttemptAt)
		}
		t.add(text(d.ID.String()), text(string(d.Event)), cell{string(d.Status), colours[d.Status]}, text(last),
			text(ago(c.now(), d.CreatedAt)), text(strconv.Itoa(len(d.Attempts))), text(next), text(d.WebhookID.String()))
	}
	return t
}
