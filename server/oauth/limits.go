package oauth

import (
	"time"

	"github.com/boughdb/bough/server/ratelimit"
)

// Assistants on the web call for all their users from a few addresses: what they do once an hour for each user must pass
// for thousands. What nobody does often, and what leaves something behind, is bounded more tightly. Attempts that fail
// count like others.
var (
	registerNetwork  = ratelimit.Limit{Name: "OAuth registration from a network", Burst: 20, Every: 3 * time.Minute}
	authorizeNetwork = ratelimit.Limit{Name: "OAuth authorization from a network", Burst: 120, Every: time.Second}
	documentNetwork  = ratelimit.Limit{Name: "OAuth client document from a network", Burst: 30, Every: 10 * time.Second}
	tokenNetwork     = ratelimit.Limit{Name: "OAuth token from a network", Burst: 600, Every: time.Second}
)
