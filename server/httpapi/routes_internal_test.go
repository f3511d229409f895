package httpapi

import (
	"log/slog"
	"net/http"
	"slices"
	"testing"

	"github.com/boughdb/bough/gen/api"
	"github.com/boughdb/bough/server/oauth"
	"github.com/boughdb/bough/server/tables"
)

// Everything that is routed is an operation of the contract, so that what is decided for each operation is decided for
// everything that is served.
func TestRoutesAreOperations(t *testing.T) {
	t.Parallel()
	spec, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	a := &API{
		Log: slog.New(slog.DiscardHandler), Tables: &tables.Service{}, OAuth: &oauth.Service{}, MCPPath: specMCPPath,
		MCP: http.NotFoundHandler(),
	}
	engine, err := a.engine()
	if err != nil {
		t.Fatal(err)
	}
	operations, unrouted := operationsOf(spec), operationsOf(spec)
	for _, route := range engine.Routes() {
		key := route.Method + " " + route.Path
		switch {
		case operations[key].Operation != nil:
			delete(unrouted, key)
			continue
		case route.Path == a.MCPPath, route.Path == "/docs/*file": // the first answers other methods with 405, the second has files
			continue
		case slices.Contains([]string{http.MethodHead, "QUERY"}, route.Method) && operations["GET "+route.Path].Operation != nil:
			continue // GET in another form
		}
		t.Errorf("%s is routed and not in the contract", key)
	}
	for key := range unrouted {
		t.Errorf("%s is in the contract and not routed", key)
	}
}
