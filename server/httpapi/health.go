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

// checkTimeout is how long a readiness check may take.
const checkTimeout = 2 * time.Second

// GetReadiness runs the checks, all at once, each for two seconds at most. One that does not come back in that time, since
// a database does not even say no, has failed.
func (a *API) GetReadiness(ctx context.Context, _ api.GetReadinessRequestObject) (api.GetReadinessResponseObject, error) {
	type result struct {
		name string
		err  error
	}
	results := make(chan result, len(a.Checks))
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	for name, check := range a.Checks {
		go func() { results <- result{name, check(ctx)} }()
	}
	answer := api.Readiness{Status: api.ReadinessStatusOk, Checks: map[string]string{}}
	for name := range a.Checks {
		answer.Checks[name] = "failed"
	}
	// What comes right at the end of the time still counts.
	late := time.After(checkTimeout + 250*time.Millisecond)
	for range a.Checks {
		select {
		case r := <-results:
			if r.err == nil {
				answer.Checks[r.name] = "ok"
			} else {
				// The reason is for the log: probes need no credentials, and it may name hosts and roles.
				a.Log.Warn("a readiness check failed", "check", r.name, "error", r.err)
			}
			continue
		case <-late:
			a.Log.Warn("readiness checks have not come back", "checks", answer.Checks)
		}
		break
	}
	for _, state := range answer.Checks {
		if state != "ok" {
			answer.Status = api.ReadinessStatusUnavailable
		}
	}
	if answer.Status != api.ReadinessStatusOk {
		return api.GetReadiness503JSONResponse{Body: answer, Headers: api.GetReadiness503ResponseHeaders{RetryAfter: 1}}, nil
	}
	return api.GetReadiness200JSONResponse(answer), nil
}
