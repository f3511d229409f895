package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/api"
	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/repohost"
)

// ListRepohostConfigs lists the configurations of repositories.
func (a *API) ListRepohostConfigs(ctx context.Context, r api.ListRepohostConfigsRequestObject) (api.ListRepohostConfigsResponseObject, error) {
	configs, total, err := a.Repohost.List(ctx, auth.FromContext(ctx), value(r.Params.Limit), value(r.Params.Offset))
	if err != nil {
		return nil, err
	}
	out := api.RepohostConfigList{Configs: []api.RepohostConfig{}, Total: int(total)}
	for _, cfg := range configs {
		out.Configs = append(out.Configs, repohostConfig(cfg))
	}
	return api.ListRepohostConfigs200JSONResponse(out), nil
}

// GetRepohostConfig returns the configuration of a repository.
func (a *API) GetRepohostConfig(ctx context.Context, r api.GetRepohostConfigRequestObject) (api.GetRepohostConfigResponseObject, error) {
	cfg, err := a.Repohost.Get(ctx, auth.FromContext(ctx), r.Repository)
	if err != nil {
		return nil, err
	}
	return api.GetRepohostConfig200JSONResponse(repohostConfig(cfg)), nil
}

// PutRepohostConfig makes or changes the configuration of a repository.
func (a *API) PutRepohostConfig(ctx context.Context, r api.PutRepohostConfigRequestObject) (api.PutRepohostConfigResponseObject, error) {
	b := r.Body
	change := repohost.Change{
		Repository: b.Repository, AutoCreateOnPR: b.AutoCreateOnPR, AutoDeleteOnMerge: b.AutoDeleteOnMerge, AutoDeleteOnClose: b.AutoDeleteOnClose,
		CloseGrace: b.CloseGrace, ResetOnPush: b.ResetOnPush, Mode: enum[db.DataCloneMode](b.DefaultDataCloneMode),
		Type: enum[db.BranchType](b.DefaultBranchType), IgnoreDrafts: b.IgnoreDrafts, AllowForks: b.AllowForks, MaxBranches: b.MaxBranches,
		BaseBranches: b.BaseBranches,
	}
	for field, raw := range map[*repohost.Nullable]json.RawMessage{
		&change.Provider: b.Provider, &change.WebhookSecret: b.WebhookSecret, &change.ExpiresIn: b.ExpiresIn,
		&change.APIURL: b.APIURL, &change.APIToken: b.APIToken,
	} {
		if err := nullable(field, raw); err != nil {
			return nil, err
		}
	}
	cfg, created, err := a.Repohost.Put(ctx, auth.FromContext(ctx), change)
	if err != nil {
		return nil, err
	}
	if created {
		return api.PutRepohostConfig201JSONResponse(repohostConfig(cfg)), nil
	}
	return api.PutRepohostConfig200JSONResponse(repohostConfig(cfg)), nil
}

// nullable reads a field of which null means another thing than its absence.
func nullable(field *repohost.Nullable, raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	field.Set = true
	return json.Unmarshal(raw, &field.Value)
}

// DeleteRepohostConfig removes the configuration of a repository.
func (a *API) DeleteRepohostConfig(ctx context.Context, r api.DeleteRepohostConfigRequestObject) (api.DeleteRepohostConfigResponseObject, error) {
	if err := a.Repohost.Delete(ctx, auth.FromContext(ctx), r.Repository); err != nil {
		return nil, err
	}
	return api.DeleteRepohostConfig204Response{}, nil
}

// ListRepohostDeliveries lists what repository hosts sent.
func (a *API) ListRepohostDeliveries(ctx context.Context, r api.ListRepohostDeliveriesRequestObject) (api.ListRepohostDeliveriesResponseObject, error) {
	rows, total, err := a.Repohost.Deliveries(ctx, auth.FromContext(ctx), db.ListRepohostDeliveriesParams{
		Repository: r.Params.Repository, Status: enum[db.RepohostDeliveryStatus](r.Params.Status),
		MaxRows: value(r.Params.Limit), SkipRows: value(r.Params.Offset),
	})
	if err != nil {
		return nil, err
	}
	out := api.RepohostDeliveryList{Deliveries: []api.RepohostDelivery{}, Total: int(total)}
	for _, row := range rows {
		out.Deliveries = append(out.Deliveries, api.RepohostDelivery{
			ID: row.ID, Repository: row.Repository, Provider: api.RepohostProvider(row.Provider), DeliveryID: row.DeliveryID,
			Event: row.Event, Action: row.Action, RepohostPRNumber: row.PRNumber, Status: api.RepohostDeliveryStatus(row.Status),
			Reason: row.Reason, Branch: row.BranchSlug, ReceivedAt: row.ReceivedAt.UTC(),
		})
	}
	return api.ListRepohostDeliveries200JSONResponse(out), nil
}

func repohostConfig(cfg repohost.Config) api.RepohostConfig {
	out := api.RepohostConfig{
		ID: cfg.ID, Repository: cfg.Repository, Provider: (*string)(cfg.Provider), AutoCreateOnPR: cfg.AutoCreateOnPR,
		AutoDeleteOnMerge: cfg.AutoDeleteOnMerge, AutoDeleteOnClose: cfg.AutoDeleteOnClose, CloseGrace: cfg.CloseGrace,
		ResetOnPush: cfg.ResetOnPush, DefaultDataCloneMode: api.DataCloneMode(cfg.DefaultDataCloneMode),
		DefaultBranchType: api.BranchType(cfg.DefaultBranchType), BaseBranches: cfg.BaseBranches, IgnoreDrafts: cfg.IgnoreDrafts,
		AllowForks: cfg.AllowForks, MaxBranches: cfg.MaxBranches, ExpiresIn: cfg.ExpiresIn, APIURL: cfg.APIURL,
		HasWebhookSecret: cfg.WebhookSecret != nil, HasAPIToken: cfg.APIToken != nil, WebhookPath: repohost.WebhookPath(cfg.ID),
		CreatedAt: cfg.CreatedAt.UTC(), UpdatedAt: cfg.UpdatedAt.UTC(), LastDeliveryAt: utc(cfg.LastDeliveryAt), LastReportError: cfg.LastReportError,
	}
	if cfg.PreviousSecret != nil && cfg.PreviousSecretUntil != nil && cfg.PreviousSecretUntil.After(time.Now()) {
		out.HasPreviousSecret, out.PreviousSecretUntil = true, utc(cfg.PreviousSecretUntil)
	}
	return out
}

const (
	// Strangers may send large bodies, too, before it shows that they are none of ours: so many of them are read at a
	// time. A usual delivery is smaller.
	largeDelivery   = 1 << 20
	largeDeliveries = 4
)

// deliveryTimeout is within which a body comes, or not at all.
const deliveryTimeout = 30 * time.Second

// registerWebhooks serves the webhooks. Of their bodies the bytes count, so they are not read by the validator.
func (a *API) registerWebhooks(engine *gin.Engine) {
	large := make(chan struct{}, largeDeliveries)
	group := engine.Group("/api/v1/webhooks/repohost", limitTime)
	group.POST("", func(c *gin.Context) { a.receiveWebhook(c, large, nil) })
	group.POST("/:config_id", func(c *gin.Context) {
		id := c.Param("config_id")
		a.receiveWebhook(c, large, &id)
	})
}

// receiveWebhook takes a delivery of a repository host.
func (a *API) receiveWebhook(c *gin.Context, large chan struct{}, config *string) {
	if c.Request.URL.RawQuery != "" {
		a.writeError(c, fault.Validation("the webhook has no query parameters"))
		return
	}
	if a.Room != nil {
		if err := a.Room(); err != nil {
			c.Header("Connection", "close") // rather than reading the body
			a.writeError(c, err)
			return
		}
	}
	mediaType, _, err := mime.ParseMediaType(c.GetHeader("Content-Type"))
	form := mediaType == "application/x-www-form-urlencoded"
	if err != nil || !form && mediaType != "application/json" {
		a.writeError(c, fault.New(fault.UnsupportedMediaType, "unsupported_media_type",
			"the content type of the webhook must be application/json (or application/x-www-form-urlencoded)"))
		return
	}
	if c.Request.ContentLength > repohost.MaxBody {
		c.Header("Connection", "close") // rather than reading it all
		a.writeError(c, &http.MaxBytesError{Limit: repohost.MaxBody})
		return
	}
	if c.Request.ContentLength < 0 || c.Request.ContentLength > largeDelivery {
		select {
		case large <- struct{}{}:
			defer func() { <-large }()
		case <-time.After(5 * time.Second):
			a.writeError(c, fault.New(fault.Unavailable, "unavailable", "too many large deliveries at a time").Retry(5*time.Second))
			return
		case <-c.Request.Context().Done():
			return
		}
	}
	body, err := readDelivery(c)
	if err != nil {
		a.writeError(c, err)
		return
	}
	answer, err := a.Repohost.Receive(c.Request.Context(), repohost.Delivery{
		ConfigID: config, Headers: c.Request.Header.Values, Body: body, Form: form,
	})
	if err != nil {
		a.writeError(c, err)
		return
	}
	status, out := webhookAnswerOf(answer)
	c.JSON(status, out)
}

// readDelivery reads a body, for as long as a delivery may take.
func readDelivery(c *gin.Context) ([]byte, error) {
	if b, ok := c.Request.Body.(*pacedBody); ok {
		b.until = time.Now().Add(deliveryTimeout)
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, repohost.MaxBody))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fault.Validation("the body ends too early")
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.Header("Connection", "close")
	}
	return body, err
}

// webhookAnswer is the contract's schema of that name, of which the generator makes no type for the server.
type webhookAnswer struct {
	Status           string                     `json:"status"`
	DeliveryID       uuid.UUID                  `json:"delivery_id"`
	Event            string                     `json:"event"`
	Action           *string                    `json:"action,omitempty"`
	RepohostPRNumber *int32                     `json:"repohost_pr_number,omitempty"`
	Reason           *string                    `json:"reason,omitempty"`
	FirstStatus      *db.RepohostDeliveryStatus `json:"first_status,omitempty"`
}

func webhookAnswerOf(answer repohost.Answer) (int, webhookAnswer) {
	out := webhookAnswer{
		Status: string(answer.Status), DeliveryID: answer.ID, Event: answer.Event, Action: answer.Action,
		RepohostPRNumber: answer.PRNumber, Reason: answer.Reason,
	}
	switch {
	case answer.Duplicate:
		out.Status, out.FirstStatus = "duplicate", &answer.Status
	case answer.Pong:
		out.Status, out.Reason = "pong", nil
	case answer.Status == db.RepohostDeliveryStatusAccepted:
		return http.StatusAccepted, out
	}
	return http.StatusOK, out
}
