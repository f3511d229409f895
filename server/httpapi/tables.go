package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/limits"
	"github.com/boughdb/bough/server/rows"
	"github.com/boughdb/bough/server/tables"
)

// A client that takes nothing of a streamed answer for so long is given up.
const stalled = time.Minute

// dialectKey is where a request's dialect stands in its gin context, for the form of its errors.
const dialectKey = "dialect"

// registerTables routes the requests whose form follows the database: the generated server has no words for their
// parameters, and would not stream.
func (a *API) registerTables(engine *gin.Engine) {
	for _, mount := range []struct {
		base    string
		dialect *tables.Dialect
	}{{"/api/v1/tables", &tables.Bough}, {"/rest/v1", &tables.PostgREST}} {
		group := engine.Group("", func(c *gin.Context) { c.Set(dialectKey, mount.dialect) }, a.limitRecords, a.authenticateData)
		serve := func(path string, methods ...string) {
			for _, m := range methods {
				group.Handle(m, path, a.serveTables)
			}
			group.OPTIONS(path, a.serveOptions)
		}
		serve(mount.base+"/:table", "GET", "HEAD", "POST", "PATCH", "DELETE", "QUERY")
		functions := "/api/v1/rpc/:function"
		if mount.dialect.RecordPaths {
			serve(mount.base+"/:table/:id", "GET", "HEAD", "PUT", "PATCH", "DELETE")
			group.POST(mount.base, a.serveBatch)
		} else {
			group.PUT(mount.base+"/:table", a.serveTables)
			functions = mount.base + "/rpc/:function"
		}
		serve(functions, "GET", "HEAD", "POST", "QUERY")
	}
}

// limitRecords bounds a body's length by the tables' own limit.
func (a *API) limitRecords(c *gin.Context) {
	c.Request.Body = sentBody{http.MaxBytesReader(c.Writer, c.Request.Body, a.Tables.MaxBody())}
}

// sentBody is a request's body of which it is the client's fault when it cannot be read.
type sentBody struct{ io.ReadCloser }

// Read implements io.Reader.
func (b sentBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	var tooLarge *http.MaxBytesError
	var known *fault.Error
	if err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &tooLarge) || errors.As(err, &known) {
		return n, err //nolint:wrapcheck // io.EOF must stay what it is
	}
	return n, errBrokenBody.Msgf("the body cannot be read to its end: %s", err)
}

var errBrokenBody = fault.New(fault.Invalid, "PGRST102", "the body cannot be read to its end")

// authenticateData is authenticate for data: where anonymous access is allowed, no credentials make an anonymous request.
func (a *API) authenticateData(c *gin.Context) {
	p, err := a.principal(c.Request)
	if a.AnonymousAccess && errors.Is(err, auth.ErrMissingCredentials) && len(a.credentials(c.Request)) == 0 {
		return
	}
	if err != nil {
		a.writeError(c, err)
		return
	}
	c.Request = c.Request.WithContext(auth.NewContext(c.Request.Context(), p))
}

// branch finds the database that a request is for.
func (a *API) branch(c *gin.Context, write bool) (string, error) {
	refs := c.Request.Header.Values("X-Branch")
	if err := sameValue("X-Branch", refs); err != nil {
		return "", err
	}
	ref := ""
	if len(refs) > 0 {
		if ref = strings.TrimSpace(refs[0]); ref == "" {
			return "", fault.Validation("X-Branch is empty; leave it out for main, or name a branch")
		}
	}
	p := auth.FromContext(c.Request.Context())
	if p == nil {
		if ref != "" && ref != "main" {
			return "", auth.ErrMissingCredentials
		}
		p = &auth.Principal{}
	}
	route, err := a.Branches.Route(c.Request.Context(), p, ref, write)
	return route.Database, err
}

// serveTables hands a request to the tables and writes what they answer.
func (a *API) serveTables(c *gin.Context) {
	call, err := a.tableCall(c)
	if err != nil {
		a.writeError(c, err)
		return
	}
	a.finish(c, a.Tables.Serve(c.Request.Context(), call, a.tableAnswer(c)))
}

// serveOptions says what may be done with a relation or a function, whatever the caller may do.
func (a *API) serveOptions(c *gin.Context) {
	call, err := a.tableCall(c)
	var allow []string
	if err == nil {
		allow, err = a.Tables.Methods(c.Request.Context(), call)
	}
	if err != nil {
		a.writeError(c, err)
		return
	}
	c.Header("Allow", strings.Join(allow, ","))
	c.Status(http.StatusOK)
	c.Writer.WriteHeaderNow()
}

func (a *API) serveBatch(c *gin.Context) {
	call, err := a.tableCall(c)
	if err != nil {
		a.writeError(c, err)
		return
	}
	data, err := io.ReadAll(call.Body)
	if err == nil && json.Valid(data) { // the tables say what is wrong with another body
		err = checkJSON(data, false)
	}
	if err != nil {
		a.writeError(c, err)
		return
	}
	call.Body = bytes.NewReader(data)
	a.finish(c, a.Tables.ServeBatch(c.Request.Context(), call, a.tableAnswer(c)))
}

// finish ends a streamed request: one that failed half-way is cut off, so that it cannot be taken for a whole one.
func (a *API) finish(c *gin.Context, err error) {
	switch {
	case err == nil:
	case errors.Is(err, rows.ErrAborted):
		if c.Request.Context().Err() == nil {
			a.logError(c, err)
		}
		panic(http.ErrAbortHandler)
	default:
		a.writeError(c, err)
	}
}

// single are the headers of which a request may have one: of two that differ nobody would know which is meant.
var single = []string{"Content-Type", "Range", "If-Match", "Accept-Profile", "Content-Profile", "X-HTTP-Method-Override"}

// sameValue refuses a header that comes several times, unless it says the same each time, as clients do that add a header
// they have added before.
func sameValue(name string, values []string) error {
	for _, v := range values {
		if v != values[0] {
			return fault.Validation("send %s once, not %d times", name, len(values))
		}
	}
	return nil
}

// tableCall reads what a request asks for, without its body.
func (a *API) tableCall(c *gin.Context) (*tables.Call, error) {
	r := c.Request
	for _, name := range single {
		if err := sameValue(name, r.Header.Values(name)); err != nil {
			return nil, err
		}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, fault.New(fault.UnsupportedMediaType, "unsupported_media_type", "a body with Content-Encoding: "+coding+" is not read here; send it as it is")
	}
	call := &tables.Call{
		Dialect: c.MustGet(dialectKey).(*tables.Dialect), Principal: auth.FromContext(r.Context()),
		Client: c.ClientIP(), Method: r.Method, Path: r.URL.EscapedPath(), Table: c.Param("table"), Function: c.Param("function"),
		Query: r.URL.RawQuery, Headers: headersJSON(r.Header), Body: r.Body,
		Prefer: r.Header.Values("Prefer"), Accept: strings.Join(r.Header.Values("Accept"), ","), ContentType: r.Header.Get("Content-Type"),
		Range: r.Header.Get("Range"), IfMatch: r.Header.Get("If-Match"), IfNoneMatch: strings.Join(r.Header.Values("If-None-Match"), ","),
		AcceptProfile: r.Header.Get("Accept-Profile"), ContentProfile: r.Header.Get("Content-Profile"),
	}
	if id := c.Param("id"); id != "" {
		// The parts of a key are separated before they are decoded: a comma may be in a value.
		raw := call.Path[strings.LastIndexByte(call.Path, '/')+1:]
		call.RawKey = id
		for _, part := range strings.Split(raw, ",") {
			value, err := url.PathUnescape(part)
			if err != nil {
				return nil, fault.Validation("the key %q is not percent-encoded as it should be", raw)
			}
			call.Key = append(call.Key, value)
		}
	}
	if err := longQuery(r, call); err != nil {
		return nil, err
	}
	write := call.Method != http.MethodGet && call.Method != http.MethodHead
	database, err := a.branch(c, write)
	call.Database = database
	return call, err
}

// longQuery lets a query string that is too long for a URL come in the body: by the method QUERY, or by POST with
// X-HTTP-Method-Override: GET.
func longQuery(r *http.Request, call *tables.Call) error {
	override := r.Header.Get("X-HTTP-Method-Override")
	if override != "" && r.Method != http.MethodPost {
		return fault.Validation("X-HTTP-Method-Override is for POST, not for %s", r.Method)
	}
	if r.Method != "QUERY" {
		if override == "" {
			return nil
		}
		if !slices.Contains([]string{"GET", "PATCH", "DELETE"}, strings.ToUpper(override)) {
			return fault.Validation("X-HTTP-Method-Override must be GET, PATCH or DELETE, not %q", override)
		}
		call.Method = strings.ToUpper(override)
		if call.Method == http.MethodPatch {
			return nil // its body is its own
		}
	} else {
		call.Method = http.MethodGet
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	call.Body = nil
	if len(data) == 0 {
		return nil
	}
	if kind, _, _ := strings.Cut(call.ContentType, ";"); !strings.EqualFold(strings.TrimSpace(kind), "application/x-www-form-urlencoded") {
		return fault.New(fault.UnsupportedMediaType, "unsupported_media_type", "a query in the body must be application/x-www-form-urlencoded")
	}
	call.Query = strings.Trim(call.Query+"&"+strings.TrimSpace(string(data)), "&")
	return nil
}

// headersJSON writes the headers as an object for request.headers. Credentials stay out of the database and its logs.
func headersJSON(h http.Header) string {
	out := make([]byte, 1, 256)
	out[0] = '{'
	for name, values := range h {
		switch name {
		case "Authorization", "X-Service-Key", "X-Client-Key", "Cookie", "Apikey":
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = strconv.AppendQuoteToASCII(out, strings.ToLower(name)) // a token (RFC 9110, section 5.6.2): quoting changes nothing
		value, _ := json.Marshal(strings.Join(values, ", "))
		out = append(append(out, ':'), value...)
	}
	return string(append(out, '}'))
}

// tableAnswer writes an answer of the tables.
type tableAnswer struct {
	c          *gin.Context
	controller *http.ResponseController
	meter      limits.Meter
}

// Begin implements tables.Answer.
func (t *tableAnswer) Begin(h *tables.Head) (io.Writer, error) {
	header := t.c.Writer.Header()
	for _, field := range [...]struct{ name, value string }{
		{"Content-Type", h.ContentType}, {"Content-Range", h.ContentRange}, {"Etag", h.ETag}, {"Location", h.Location},
		{"Link", h.Link}, {"Preference-Applied", h.Applied}, {"Content-Profile", h.Profile},
	} {
		if field.value != "" {
			header[field.name] = []string{field.value} // the names are in their canonical form
		}
	}
	header["Vary"] = append(header["Vary"], "Accept, Accept-Profile, Prefer, X-Branch")
	if h.Length >= 0 && h.Outcome != tables.NoContent && h.Outcome != tables.NotModified {
		header.Set("Content-Length", strconv.Itoa(h.Length))
	}
	t.c.Writer.WriteHeader(int(h.Outcome))
	t.c.Writer.WriteHeaderNow()
	t.controller = http.NewResponseController(t.c.Writer)
	return t, nil
}

// Write writes a part of the body. A client that does not take it in time is given up.
func (t *tableAnswer) Write(p []byte) (int, error) {
	began := time.Now()
	patience := stalled
	if left, ok := t.meter.Left(len(p)); ok {
		patience = min(patience, left)
	}
	_ = t.controller.SetWriteDeadline(began.Add(patience))
	n, err := t.c.Writer.Write(p)
	t.meter.Passed(n, time.Since(began))
	if err == nil {
		// What is left in buffers is written behind the handler. The next request of the connection has a deadline of its own.
		_ = t.controller.SetWriteDeadline(time.Now().Add(stalled))
	}
	return n, err //nolint:wrapcheck // package tables says what was being done
}

// Abort ends a Write that waits for the client, from another goroutine.
func (t *tableAnswer) Abort() { _ = t.controller.SetWriteDeadline(time.Now()) }

func (a *API) tableAnswer(c *gin.Context) *tableAnswer {
	return &tableAnswer{c: c, meter: limits.Meter{Pace: a.Pace}}
}

// dialectOf is the dialect whose errors a request is answered with; nil where it is none of the tables'. A request that
// has no route has one nevertheless when it is below a mount.
func dialectOf(c *gin.Context) *tables.Dialect {
	if d, ok := c.Get(dialectKey); ok {
		return d.(*tables.Dialect)
	}
	path := c.Request.URL.Path
	switch {
	case path == "/rest/v1" || strings.HasPrefix(path, "/rest/v1/"):
		return &tables.PostgREST
	case strings.HasPrefix(path, "/api/v1/tables/") || strings.HasPrefix(path, "/api/v1/rpc/"):
		return &tables.Bough
	}
	return nil
}

// tableError is the body of an error of the tables.
func tableError(c *gin.Context, d *tables.Dialect, f *fault.Error) any {
	if d.BareErrors && c.FullPath() == "" {
		// PostgREST has codes of its own for what it does not serve.
		told := *f
		switch f.Kind {
		case fault.NotFound:
			told.Code, told.Message = "PGRST125", "Invalid path specified in request URL"
		case fault.MethodNotAllowed:
			told.Code, told.Message, told.Hint = "PGRST117", "Unsupported HTTP method: "+c.Request.Method, f.Message
		}
		f = &told
	}
	details := json.RawMessage("null")
	if f.Details != "" {
		details = json.RawMessage(f.Details)
		if !strings.HasPrefix(f.Details, "[") || !json.Valid(details) {
			details, _ = json.Marshal(f.Details)
		}
	}
	var hint *string
	if f.Hint != "" {
		hint = &f.Hint
	}
	if d.BareErrors {
		return restError{Code: f.Code, Message: f.Message, Details: details, Hint: hint}
	}
	return fullError{f.Message, f.Message, f.Code, details, hint, c.GetString(requestIDKey)}
}

type restError struct {
	Code    string          `json:"code"`
	Details json.RawMessage `json:"details"`
	Hint    *string         `json:"hint"`
	Message string          `json:"message"`
}

type fullError struct {
	Error     string          `json:"error"`
	Message   string          `json:"message"`
	Code      string          `json:"code"`
	Details   json.RawMessage `json:"details"`
	Hint      *string         `json:"hint"`
	RequestID string          `json:"request_id"`
}
