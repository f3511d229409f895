package events

import (
	"slices"

	"github.com/boughdb/bough/server/fault"
)

// checkTarget says what is wrong with the URL of a webhook.
func (s *Service) checkTarget(raw string) error {
	if problem := s.cfg.Targets.CheckURL(raw); problem != "" {
		return fault.Field("url", "%s", problem)
	}
	return nil
}

// checkTypes says what is wrong with a subscription; which types there are is the contract's affair.
func checkTypes(types []string) error {
	if len(types) == 0 {
		return fault.Field("events", `must name a type of event, or "*" for all`)
	}
	if len(types) > 1 && slices.Contains(types, allTypes) {
		return fault.Field("events", `must be either ["*"] or types of events`)
	}
	return nil
}
