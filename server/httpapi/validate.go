package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/gin-gonic/gin"

	"github.com/boughdb/bough/server/fault"
)

// Formats that kin-openapi knows by name only. Its table of formats has no lock, so it is filled before anything can
// read it: a second server of one process would write while the first one's requests are validated.
func init() {
	openapi3.DefineStringFormatValidator("uuid", openapi3.NewRegexpFormatValidator(`^(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`))
}

// validate holds a request against its operation in the contract, and fills in the contract's defaults. Credentials
// were looked at before, so the validator need not.
func (a *API) validate(operations map[string]operation) gin.HandlerFunc {
	open := openapi3.NewSecurityRequirements()
	options := &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}
	routes := map[string]*routers.Route{}
	for key, op := range operations {
		bare := *op.Operation
		bare.Security = open
		method, _, _ := strings.Cut(key, " ")
		routes[key] = &routers.Route{Spec: op.spec, Path: op.path, PathItem: op.item, Method: method, Operation: &bare}
	}
	return func(c *gin.Context) {
		route := routes[c.Request.Method+" "+c.FullPath()]
		err := checkQuery(c.Request, route)
		if err == nil {
			err = checkHeaders(c.Request, route)
		}
		if err == nil && route.Operation.RequestBody != nil {
			err = checkBody(c.Request, route.Operation.RequestBody.Value)
		}
		if err == nil {
			params := map[string]string{}
			for _, p := range c.Params {
				params[p.Key] = p.Value
			}
			err = openapi3filter.ValidateRequest(c.Request.Context(), &openapi3filter.RequestValidationInput{
				Request: c.Request, PathParams: params, Route: route, Options: options,
			})
		}
		if err != nil {
			a.writeError(c, badRequest(err))
		}
	}
}

// checkQuery refuses parameters that the operation does not have, and ones that come twice.
func checkQuery(r *http.Request, route *routers.Route) error {
	query, err := parseQuery(r)
	if err != nil {
		return err
	}
	known := queryParameters(route)
	for name, values := range query {
		if !slices.Contains(known, name) {
			if len(known) == 0 {
				return fault.Validation("there is no query parameter %q; this operation has none", name)
			}
			return fault.Validation("there is no query parameter %q; there is %s", name, strings.Join(known, ", "))
		}
		if len(values) > 1 {
			return fault.Validation("the query parameter %q comes %d times", name, len(values))
		}
		if values[0] == "" {
			return fault.Validation("the query parameter %q is empty; leave it out, or give it a value", name)
		}
	}
	return nil
}

func parseQuery(r *http.Request) (map[string][]string, error) {
	if strings.Contains(r.URL.RawQuery, ";") {
		return nil, fault.Validation("the query string must separate parameters with &")
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fault.Validation("the query string is not percent-encoded as it should be: %s", err)
	}
	for name, values := range query {
		if !isText(name) {
			return nil, fault.Validation("the name of a query parameter is not valid UTF-8, or has a zero byte in it")
		}
		if slices.ContainsFunc(values, isNoText) {
			return nil, fault.Field(name, "is not valid UTF-8, or has a zero byte in it")
		}
	}
	return query, nil
}

// isText reports whether PostgreSQL has such a text.
func isText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

func isNoText(s string) bool { return !isText(s) }

// checkHeaders refuses parameters in headers that are no text.
func checkHeaders(r *http.Request, route *routers.Route) error {
	for _, params := range []openapi3.Parameters{route.PathItem.Parameters, route.Operation.Parameters} {
		for _, p := range params {
			if p.Value.In != openapi3.ParameterInHeader {
				continue
			}
			if slices.ContainsFunc(r.Header.Values(p.Value.Name), isNoText) {
				return fault.Validation("the header %s is not valid UTF-8", p.Value.Name)
			}
		}
	}
	return nil
}

func queryParameters(route *routers.Route) []string {
	var names []string
	for _, params := range []openapi3.Parameters{route.PathItem.Parameters, route.Operation.Parameters} {
		for _, p := range params {
			if p.Value.In == openapi3.ParameterInQuery {
				names = append(names, p.Value.Name)
			}
		}
	}
	return names
}

// checkBody looks at the media type before the body, and refuses what is not one JSON value.
func checkBody(r *http.Request, body *openapi3.RequestBody) error {
	if !body.Required && r.ContentLength == 0 {
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || body.Content[mediaType] == nil {
		var accepted []string
		for name := range body.Content {
			accepted = append(accepted, name)
		}
		slices.Sort(accepted)
		return fault.New(fault.UnsupportedMediaType, "unsupported_media_type",
			fmt.Sprintf("the body must be %s, not %q", strings.Join(accepted, " or "), r.Header.Get("Content-Type")))
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	if mediaType != "application/json" {
		return nil
	}
	return checkJSON(data, true)
}

// checkJSON refuses an empty body, malformed JSON, more than one value, and an object with a name twice: the two
// readings of such an object may differ.
//
// storable refuses strings with a zero byte as well, which PostgreSQL has no text for.
func checkJSON(data []byte, storable bool) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return fault.Validation("the body is empty")
	}
	if !utf8.Valid(data) {
		return fault.Validation("the body is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	type level struct {
		object bool
		names  map[string]bool
		name   bool // the next string is a name
		key    string
	}
	var stack []*level
	field := func() string {
		var keys []string
		for _, l := range stack {
			if l.object {
				keys = append(keys, l.key)
			}
		}
		return strings.Join(keys, ".")
	}
	for first := true; ; first = false {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) && !first {
			if len(stack) > 0 {
				return fault.Validation("the body is not valid JSON: it ends too early")
			}
			return nil
		}
		if err != nil {
			return fault.Validation("the body is not valid JSON: %s", err)
		}
		if !first && len(stack) == 0 {
			return fault.Validation("the body must be one JSON value; there is more after it")
		}
		if text, ok := tok.(string); ok && storable && strings.IndexByte(text, 0) >= 0 {
			if name := field(); name != "" {
				return fault.Field(name, `must not contain \u0000, which PostgreSQL cannot store`)
			}
			return fault.Validation(`the body must not contain \u0000, which PostgreSQL cannot store`)
		}
		if len(stack) > 0 {
			top := stack[len(stack)-1]
			if top.object && top.name {
				if name, ok := tok.(string); ok {
					if top.names[name] {
						return fault.Validation("the body has the field %q twice", name)
					}
					top.names[name] = true
					top.name, top.key = false, name
					continue
				}
			} else {
				top.name = top.object
			}
		}
		switch tok {
		case json.Delim('{'):
			stack = append(stack, &level{object: true, names: map[string]bool{}, name: true})
		case json.Delim('['):
			stack = append(stack, &level{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
		}
	}
}

// badRequest makes a fault of whatever says that a request does not fit the contract. Other errors stay as they are.
func badRequest(err error) error {
	var f *fault.Error
	var tooLarge *http.MaxBytesError
	if errors.As(err, &f) || errors.As(err, &tooLarge) {
		return err
	}
	var request *openapi3filter.RequestError
	where := ""
	if errors.As(err, &request) && request.Parameter != nil {
		where = request.Parameter.Name
	}
	var schema *openapi3.SchemaError
	if errors.As(err, &schema) {
		for _, part := range schema.JSONPointer() {
			if where != "" {
				where += "."
			}
			where += part
		}
		if where == "" {
			return fault.Validation("%s", reasonOf(schema))
		}
		return fault.Field(where, "%s", reasonOf(schema))
	}
	if request != nil && request.Parameter != nil {
		return fault.Validation("%s: %s", where, firstLine(textOf(request.Reason, request.Err)))
	}
	if request != nil {
		return fault.Validation("the body does not fit: %s", firstLine(textOf(request.Reason, request.Err)))
	}
	return fault.Validation("%s", firstLine(err.Error()))
}

// textOf is the reason, or where there is none the error's text.
func textOf(reason string, err error) string {
	if err != nil {
		return err.Error()
	}
	return reason
}

// reasonOf says what is wrong with a value, in words that make sense after its name.
func reasonOf(e *openapi3.SchemaError) string {
	s := e.Schema
	switch e.SchemaField {
	case "enum":
		var values []string
		for _, v := range s.Enum {
			values = append(values, fmt.Sprint(v))
		}
		return "must be one of " + strings.Join(values, ", ")
	case "type":
		if s.Type != nil {
			return "must be " + strings.Join(s.Type.Slice(), " or ")
		}
	case "minimum":
		return fmt.Sprintf("must be at least %v", *s.Min)
	case "maximum":
		return fmt.Sprintf("must be at most %v", *s.Max)
	case "minLength":
		return fmt.Sprintf("must have at least %d characters", s.MinLength)
	case "maxLength":
		return fmt.Sprintf("must have at most %d characters", *s.MaxLength)
	case "format":
		return "must be a valid " + s.Format
	case "pattern":
		return "must match " + s.Pattern
	case "required":
		return "is required"
	case "nullable":
		return "must not be null"
	case "allOf": // a reference with something of its own beside it, such as a default
		var inner *openapi3.SchemaError
		if len(s.AllOf) == 1 && errors.As(s.AllOf[0].Value.VisitJSON(e.Value), &inner) {
			return reasonOf(inner)
		}
	}
	return firstLine(e.Reason)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
