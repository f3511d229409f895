package httpapi

import (
	"context"
	"time"

	"github.com/boughdb/bough/gen/api"
)

// GetHealth answers as long as there is a process to answer.
func (a *API) GetHealth(context.Context, api.GetHealthRequestObject) (api.GetHealthResponseObject, error) {
	return api.GetHealth200JSONResponse{Status: api.HealthStatusOk}, nil
}

// GetReadiness runs the checks, each for two seconds at most.
func (a *API) GetReadiness(ctx context.Context, _ api.GetReadinessRequestObject) (api.GetReadinessResponseObject, error) {
	answer := api.Readiness{Status: api.ReadinessStatusOk, Checks: map[string]string{}}
	for name, check := range a.Checks {
		checkCtx, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := check(checkCtx)
		cancel()
		answer.Checks[name] = "ok"
		if err != nil {
			// The reason is for the log: probes need no credentials, and it may name hosts and roles.
			a.Log.Warn("a readiness check failed", "check", name, "error", err)
			answer.Status, answer.Checks[name] = api.ReadinessStatusUnavailable, "failed"
		}
	}
	if answer.Status != api.ReadinessStatusOk {
		return api.GetReadiness503JSONResponse{Body: answer, Headers: api.GetReadiness503ResponseHeaders{RetryAfter: 1}}, nil
	}
	return api.GetReadiness200JSONResponse(answer), nil
}
