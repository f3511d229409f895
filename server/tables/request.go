package tables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
	"github.com/boughdb/bough/server/rows"
)

// request is a call whose headers have been read.
type request struct {
	*Call
	s         *Service
	role      string
	claims    string
	namespace string
	prefer    query.Preferences
	media     []query.Media
	schema    *introspect.Schema
	body      []byte // read once, since a request may be tried twice
	read      bool
	begun     bool // a part of the answer is with the client
	patched   bool // a JSON patch changes one record, if it fits
}

// request reads what a call says about itself.
func (s *Service) request(ctx context.Context, c *Call) (*request, error) {
	r := &request{Call: c, s: s}
	if err := r.allowed(); err != nil {
		return nil, err
	}
	var err error
	if r.role, r.claims, err = s.Identity(c.Principal); err != nil {
		return nil, err
	}
	if r.prefer, err = query.ParsePrefer(c.Prefer); err != nil {
		return nil, err
	}
	if r.media, err = query.ParseAccept(c.Accept); err != nil {
		return nil, err
	}
	profile := c.ContentProfile
	if r.safe() {
		profile = c.AcceptProfile
	}
	if r.namespace, err = s.profile(profile); err != nil {
		return nil, err
	}
	r.schema, err = s.schemas.Get(ctx, c.Database)
	return r, err
}

// safe reports whether the method only reads.
func (r *request) safe() bool { return r.Method == methodGet || r.Method == methodHead }

// mayRead holds the caller's scopes against a look at what there is.
func (r *request) mayRead() error {
	switch {
	case r.Principal == nil:
		return nil
	case r.Function != "":
		return r.Principal.Require(auth.ExecuteRPC)
	}
	return r.Principal.Require(auth.ReadTables)
}

// allowed holds the caller's scopes against what she asks for.
func (r *request) allowed() error {
	if r.Principal == nil {
		return nil
	}
	switch {
	case r.Function != "":
		return r.Principal.Require(auth.ExecuteRPC)
	case r.safe():
		return r.Principal.Require(auth.ReadTables)
	}
	return r.Principal.Require(auth.WriteTables)
}

// readable returns an error where the caller's scopes do not let them see records.
func (c *Call) readable() error {
	if c.Principal == nil {
		return nil
	}
	return c.Principal.Require(auth.ReadTables)
}

// profile is the database schema that a request names, or the default.
func (s *Service) profile(name string) (string, error) {
	if name == "" {
		return s.cfg.Schemas[0], nil
	}
	for _, schema := range s.cfg.Schemas {
		if schema == name {
			return name, nil
		}
	}
	f := errSchema.Msgf("Invalid schema: %s", name).WithHint("Only the following schemas are exposed: " + strings.Join(s.cfg.Schemas, ", "))
	return "", f
}

// context is what the request's statements are compiled against.
func (r *request) context() compile.Context {
	return compile.Context{
		Schema: r.schema, Role: r.schema.Role(r.role), Namespace: r.namespace, MaxRows: r.s.cfg.MaxRows,
		DenyVolatile: r.Principal != nil && r.Principal.Require(auth.ExecuteRPC) != nil,
	}
}

// session is what the statements run under, which may be nil.
func (r *request) session(statements ...*compile.Statement) *rows.Session {
	s := &rows.Session{
		Role: r.role, Schema: r.schema.Version, Unnamed: r.s.cfg.Unnamed, Memory: r.s.cfg.Memory, Settings: make([]rows.Setting, 0, 12),
	}
	s.Clear = r.leavesState(statements...)
	set := func(name, value string) { s.Settings = append(s.Settings, rows.Setting{Name: name, Value: value}) }
	for _, name := range r.s.textForm {
		set(name, r.s.cfg.TextForm[name])
	}
	set("request.jwt.claims", r.claims)
	set("request.method", r.Method)
	set("request.path", r.Path)
	set("request.headers", r.Headers)
	if r.safe() {
		set("transaction_read_only", "on")
	}
	if r.namespace != "public" {
		// What the schema's functions and triggers name without a schema is found there first.
		set("search_path", quoteIdent(r.namespace)+", public")
	}
	if r.prefer.Timezone != "" {
		set("timezone", r.prefer.Timezone)
	}
	return s
}

// leavesState reports whether statements may leave something behind with their session.
func (r *request) leavesState(statements ...*compile.Statement) bool {
	for _, st := range statements {
		if st != nil && r.schema.LeavesState(st.SQL, !r.safe()) {
			return true
		}
	}
	return false
}

// name is who a request is counted as.
func (c *Call) name() string {
	if c.Principal == nil {
		return c.Client
	}
	return c.Principal.ID.String()
}

func quoteIdent(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// relation is the relation that the path names.
func (r *request) relation() (*introspect.Relation, error) {
	var rel *introspect.Relation
	if r.Dialect.PluralNames {
		rel = r.schema.Resolve(r.namespace, r.Table)
	} else {
		rel = r.schema.Relation(r.namespace, r.Table)
	}
	if rel != nil {
		return rel, nil
	}
	f := errNoTable.Msgf("Could not find the table '%s.%s' in the schema cache", r.namespace, r.Table)
	if similar := r.schema.SimilarRelation(r.namespace, r.Table); similar != "" {
		if !r.Dialect.PluralNames {
			similar = r.schema.Resolve(r.namespace, similar).Name
		}
		f = f.WithHint(fmt.Sprintf("Perhaps you meant the table '%s.%s'", r.namespace, similar))
	}
	return nil, f
}

// keyed adds the key of the path to the filters.
func (r *request) keyed(rel *introspect.Relation, q *query.Request) error {
	if r.Key == nil {
		return nil
	}
	values, err := r.keyValues(rel)
	if err != nil {
		return err
	}
	if q.Limit != nil || q.Offset != nil || q.Order != nil || q.Cursor != nil || q.Distinct != nil || q.All {
		return fault.Validation("order, limit, offset, @cursor, @distinct and @all have no meaning for a single record")
	}
	for i, col := range rel.PrimaryKey {
		q.Where = append(q.Where, &query.Filter{Field: query.Field{Name: col.Name}, Op: query.Eq, Value: values[i], Raw: r.RawKey})
	}
	return nil
}

// keyValues are the values of the primary key that the path names, in key order.
func (r *request) keyValues(rel *introspect.Relation) ([]string, error) {
	switch n := len(rel.PrimaryKey); {
	case n == 0:
		return nil, errNoKey.Msgf("%s has no primary key, so its records have no paths", rel.Name)
	case n == 1:
		return []string{r.RawKey}, nil // commas in it are its own
	case n != len(r.Key):
		names := make([]string, n)
		for i, col := range rel.PrimaryKey {
			names[i] = col.Name
		}
		return nil, fault.Validation("the key of %s has %d parts, %s, separated by commas; the path has %d", rel.Name, n, strings.Join(names, ","), len(r.Key))
	}
	return r.Key, nil
}

// readBody reads the request's body, once.
func (r *request) readBody() ([]byte, error) {
	if r.read || r.Body == nil {
		return r.body, nil
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.body, r.read = data, true
	return data, nil
}

// contentType is the body's media type without parameters; JSON where nothing is said.
func (r *request) contentType() (string, error) {
	if r.ContentType == "" {
		return "application/json", nil
	}
	mediaType, params, err := mime.ParseMediaType(r.ContentType)
	if err != nil {
		return "", errMediaType.Msgf("the Content-Type %q cannot be read", r.ContentType)
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "us-ascii") {
		return "", errMediaType.Msgf("the body is in %s; it must be in UTF-8", charset)
	}
	return mediaType, nil
}

// rowsBody reads the body as records.
func (r *request) rowsBody() (*compile.Body, error) {
	data, err := r.readBody()
	if err != nil {
		return nil, err
	}
	mediaType, err := r.contentType()
	if err != nil {
		return nil, err
	}
	switch mediaType {
	case "application/json", "application/vnd.pgrst.object+json", "application/vnd.pgrst.array+json":
		return compile.ParseJSON(data)
	case "text/csv":
		return compile.ParseCSV(bytes.NewReader(data))
	case "application/x-ndjson", "application/ndjson", "application/jsonl":
		return compile.ParseNDJSON(data)
	case "application/x-www-form-urlencoded":
		return compile.ParseForm(data)
	}
	return nil, errMediaType.Msgf("the body is %s; it may be application/json, text/csv, application/x-ndjson or application/x-www-form-urlencoded", mediaType)
}

// serve answers the request.
func (r *request) serve(ctx context.Context, a Answer) error {
	p, err := r.plan()
	if err != nil {
		return err
	}
	err = r.run(ctx, p, a)
	if r.patched && errors.Is(err, errNoRecord) {
		return r.unfit(ctx, err)
	}
	return err
}

// unfit tells a record that a JSON patch does not fit from one that is not there: the patch changes neither.
func (r *request) unfit(ctx context.Context, absent error) error {
	rel, err := r.relation()
	if err != nil {
		return err
	}
	q := &query.Request{Select: []query.Item{}}
	if err := r.keyed(rel, q); err != nil {
		return err
	}
	st, err := r.context().Select(rel, q, compile.Options{})
	if err != nil {
		return err
	}
	conn, err := r.s.acquire(ctx, r.Database)
	if err != nil {
		return err
	}
	defer conn.Release()
	res := &rows.Result{}
	if err := rows.Run(ctx, conn.Conn.Conn().PgConn(), r.session(st), rows.Step{Statement: st, Result: res}); err != nil {
		return err
	}
	if res.Rows == 0 {
		return absent
	}
	return errUnfit
}

func (r *request) plan() (*plan, error) {
	if r.Function != "" {
		return r.planCall()
	}
	rel, err := r.relation()
	if err != nil {
		return nil, err
	}
	q, err := query.Parse(r.Query)
	if err == nil {
		err = r.checkSelect(q)
	}
	if err != nil {
		return nil, r.unparsed(err)
	}
	r.selectAll(q)
	switch r.Method {
	case methodGet, methodHead:
		return r.planRead(rel, q)
	case methodPost:
		return r.planInsert(rel, q)
	case methodPatch:
		return r.planUpdate(rel, q)
	case methodPut:
		return r.planReplace(rel, q)
	case methodDelete:
		return r.planDelete(rel, q)
	}
	return nil, fmt.Errorf("no operation for %s", r.Method)
}

// checkSelect bounds the number of columns.
func (r *request) checkSelect(q *query.Request) error {
	if n := r.s.cfg.MaxColumns; n > 0 && items(q.Select) > n {
		return fault.Validation("select has %d items; there may be %d", items(q.Select), n).WithHint("use * for all columns")
	}
	return nil
}

func items(list []query.Item) int {
	n := len(list)
	for i := range list {
		n += items(list[i].Select)
	}
	return n
}

// selectAll has an empty select= mean every column, as it does in PostgREST.
func (r *request) selectAll(q *query.Request) {
	if r.Dialect.BareErrors && len(q.Select) == 0 {
		q.Select = nil
	}
}

// unparsed is the error of a query string, which the dialects do not answer alike.
func (r *request) unparsed(err error) error {
	var f *fault.Error
	if r.Dialect.BareErrors && errors.As(err, &f) && f.Details == query.NegativeLimit {
		out := *errRange
		out.Details = f.Details
		return &out
	}
	return err
}

// affectedLimits holds the number of written records against the preferences. They count when handling is strict.
func (r *request) affectedLimits(n int64) error {
	if r.prefer.Handling != query.HandlingStrict {
		return nil
	}
	switch {
	case r.prefer.MaxAffected != nil && n > *r.prefer.MaxAffected:
		f := errAffected.Msgf("Query result exceeds max-affected preference constraint: more than the maximum of %d", *r.prefer.MaxAffected)
		f.Details = fmt.Sprintf("The query affects %d rows", n)
		return f
	case r.prefer.MinAffected != nil && n < *r.prefer.MinAffected:
		f := errAffected.Msgf("the write affects fewer records than the minimum of %d", *r.prefer.MinAffected)
		f.Details = fmt.Sprintf("The query affects %d rows", n)
		return f
	}
	return nil
}

// contentRange is the value of a Content-Range header; total is nil where it is not known.
func contentRange(offset, n int64, total *int64) string {
	out := "*"
	if n > 0 {
		out = strconv.FormatInt(offset, 10) + "-" + strconv.FormatInt(offset+n-1, 10)
	}
	if total == nil {
		return out + "/*"
	}
	return out + "/" + strconv.FormatInt(*total, 10)
}

// location is the path of a record; "" where it has none. A view's key can be null in part.
func (r *request) location(rel *introspect.Relation, key []*string) string {
	if !r.Dialect.RecordPaths {
		var b strings.Builder
		b.WriteString(r.Path)
		for i, col := range rel.PrimaryKey {
			b.WriteByte("?&"[min(i, 1)])
			b.WriteString(url.QueryEscape(col.Name))
			if key[i] == nil {
				b.WriteString("=is.null")
			} else {
				b.WriteString("=eq." + url.QueryEscape(*key[i]))
			}
		}
		return b.String()
	}
	if r.Key != nil {
		return r.Path
	}
	parts := make([]string, len(key))
	for i, v := range key {
		if v == nil {
			return ""
		}
		parts[i] = strings.ReplaceAll(url.PathEscape(*v), ",", "%2C")
	}
	return r.Path + "/" + strings.Join(parts, ",")
}

var errStatementTime = fault.New(fault.Unavailable, "57014", "the statement took too long and was given up").
	WithHint("ask for less, by filters, limit or select; an index may help").Retry(5 * time.Second)

// errTimer is the cause of a context that the statement timeout ended.
var errTimer = errors.New("statement timeout")
