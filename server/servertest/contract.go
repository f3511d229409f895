package servertest

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/boughdb/bough/gen/api"
)

// The contract's text formats that kin-openapi cannot read by itself. Its table of decoders is filled before anything
// reads it.
func init() {
	for _, mediaType := range []string{"application/x-ndjson", "text/html"} {
		openapi3filter.RegisterBodyDecoder(mediaType, func(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
			data, err := io.ReadAll(body)
			return string(data), err
		})
	}
}

var contractRouter = sync.OnceValues(func() (routers.Router, error) {
	spec, err := api.GetSpec()
	if err != nil {
		return nil, err
	}
	spec.Servers = nil // the host is the test's
	return gorillamux.NewRouter(spec)
})

// Contract returns a transport that fails the test when an answer does not fit the contract.
func Contract(t testing.TB) http.RoundTripper {
	t.Helper()
	router, err := contractRouter()
	if err != nil {
		t.Fatal(err)
	}
	return contract{t, router, connections()}
}

// connections are shared by all tests of a package: one pool for each would keep its sockets open.
var connections = sync.OnceValue(func() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 16
	return t
})

type contract struct {
	t      testing.TB
	router routers.Router
	next   http.RoundTripper
}

func (c contract) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	route, params, err := c.router.FindRoute(r)
	if err != nil {
		return resp, nil // a path outside the contract, asked for on purpose
	}
	err = openapi3filter.ValidateResponse(r.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true, ExcludeResponseBody: len(body) == 0 && resp.Header.Get("Content-Type") == ""},
	})
	if err != nil {
		c.t.Errorf("%s %s: the answer %d is not in the contract: %v\n%s", r.Method, r.URL.Path, resp.StatusCode, err, body)
	}
	return resp, nil
}
