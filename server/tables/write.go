package tables

import (
	"bytes"
	"errors"
	"strings"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
	"github.com/boughdb/bough/server/rows"
)

// writing is a write of which the statement is to be compiled yet.
type writing struct {
	rel  *introspect.Relation
	q    *query.Request
	form form
	ret  compile.Return
	// one tells that the answer is one object unless the client asks for something else.
	one bool
	// created tells that records may be made.
	created bool
	// keys takes the keys of what was written, where nothing else is returned.
	keys *rows.Values
}

// startWrite settles how a write answers.
func (r *request) startWrite(rel *introspect.Relation, q *query.Request, one bool) (*writing, error) {
	if err := onlyWrites(q); err != nil {
		return nil, err
	}
	if r.IfNoneMatch != "" && r.Dialect.RecordPaths {
		return nil, fault.Validation("If-None-Match is for GET and HEAD")
	}
	w := &writing{rel: rel, q: q, one: one}
	var err error
	if w.form, err = r.formOf(one); err != nil {
		return nil, err
	}
	switch r.prefer.Return {
	case query.ReturnRepresentation:
		w.ret = compile.ReturnRepresentation
	case query.ReturnHeadersOnly:
		w.ret = compile.ReturnKeys
	case query.ReturnMinimal:
	default:
		// A record that is deleted by its path is not wanted, unless its columns are named.
		if r.Dialect.Representation && (r.Method != methodDelete || r.Key == nil || q.Select != nil) {
			w.ret = compile.ReturnRepresentation
		}
	}
	// To see what was written is to read. Who may only write gets it neither when asking for it nor by default.
	if err := r.readable(); err != nil && w.ret != compile.ReturnMinimal {
		if r.prefer.Return != "" || q.Select != nil {
			return nil, withHint(err, "send Prefer: return=minimal, or use a credential that has the scope as well")
		}
		w.ret = compile.ReturnMinimal
	}
	if w.ret == compile.ReturnMinimal && r.prefer.Return == "" && q.Select != nil {
		// PostgREST takes select as a wish for an answer only with return=representation; so it is here.
		w.q.Select = nil
	}
	return w, nil
}

func withHint(err error, hint string) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.WithHint(hint)
	}
	return err
}

// planWrite makes the plan of a write whose statement is compiled.
//
// read, where it is not nil, reads what the statement wrote, in the same transaction.
func (r *request) planWrite(w *writing, st, read *compile.Statement) *plan {
	p := &plan{statement: st, hold: true}
	if read != nil {
		p.before, p.statement = st, read
		st = read
	}
	switch w.ret {
	case compile.ReturnRepresentation:
		p.form = w.form
	case compile.ReturnKeys:
		w.keys = &rows.Values{}
		p.form.sink = func(*rows.Body, []compile.Output) rows.Sink { return w.keys }
	case compile.ReturnMinimal:
	}
	limited := r.prefer.Handling == query.HandlingStrict && (r.prefer.MaxAffected != nil || r.prefer.MinAffected != nil)
	single := w.form.media.Kind == query.MediaObject
	if limited || single {
		// The sink objects to another number of rows than one before anything is committed; without one it is done here.
		p.decide = func(res *rows.Result) error {
			if single && w.ret != compile.ReturnRepresentation && res.Affected != 1 {
				return notSingle(res.Affected)
			}
			return r.affectedLimits(res.Affected)
		}
	}
	p.head = func(res *rows.Result, _ *int64, body []byte) (*Head, error) { return r.writeHead(w, st, res) }
	return p
}

// writeHead is the head of a write's answer.
func (r *request) writeHead(w *writing, st *compile.Statement, res *rows.Result) (*Head, error) {
	h := &Head{Outcome: OK, Applied: r.writeApplied(), Profile: r.served()}
	if i := hiddenIndex(st, compile.VersionColumn); i >= 0 && i < len(res.Hidden) && w.one {
		h.ETag = recordTag(res.Hidden[i])
	}
	if r.Key != nil && res.Affected == 0 {
		return nil, r.absent()
	}
	h.ContentRange = r.writtenRange(w, res.Affected)
	if w.created && (insertedAny(st, res) || r.createdNone(res)) {
		h.Outcome = Created
		if res.Affected == 1 {
			if key := w.key(st, res); key != nil {
				h.Location = r.location(w.rel, key)
			}
		}
	}
	switch w.ret {
	case compile.ReturnRepresentation:
		h.ContentType = w.form.media.ContentType()
		if w.one && res.Rows == 0 {
			h.Outcome, h.empty = NoContent, true
		}
	default:
		h.empty = true
		if h.Outcome == OK && (r.Method != methodPost || r.Dialect.Representation) {
			h.Outcome = NoContent
		}
	}
	return h, nil
}

// writtenRange is the Content-Range of a write's answer. PostgREST's tells the range of an update only, whatever is
// returned, and nothing of a PUT.
func (r *request) writtenRange(w *writing, n int64) string {
	var total *int64
	if r.prefer.Count == query.CountExact {
		total = &n
	}
	switch {
	case r.Dialect.RecordPaths && (total != nil || r.Method != methodPost && w.ret == compile.ReturnRepresentation && r.Key == nil):
		return contentRange(0, n, total)
	case r.Dialect.RecordPaths || r.Method == methodPut:
		return ""
	case r.Method == methodPatch:
		return contentRange(0, n, total)
	}
	return contentRange(0, 0, total)
}

// createdNone reports whether a POST that made no record is answered as if it had: PostgREST tells them apart for
// resolution=merge-duplicates only.
func (r *request) createdNone(res *rows.Result) bool {
	return r.Method == methodPost && !r.Dialect.Representation && r.prefer.Resolution != query.MergeDuplicates && res.Affected == 0
}

// writeApplied names the preferences that a write honoured.
func (r *request) writeApplied() string {
	honoured := []string{"return", "tx", "timezone", "handling", "count", "nested"}
	if r.Method == methodPost {
		honoured = append(honoured, "resolution")
	}
	if r.Method == methodPost || r.Method == methodPatch {
		honoured = append(honoured, "missing")
	}
	if r.prefer.Handling == query.HandlingStrict {
		honoured = append(honoured, "max-affected", "min-affected")
	}
	return r.prefer.Applied(honoured...)
}

// absent explains that there is no record of the path's key.
func (r *request) absent() error {
	if r.safe() {
		return errNoRecord.Msgf("there is no record %q in %s", r.RawKey, r.Table)
	}
	if r.IfMatch != "" && r.IfMatch != "*" {
		return errPrecondition.WithHint("read the record again, and decide with what is in it now")
	}
	return errNoRecord.Msgf("there is no record %q in %s that you may change", r.RawKey, r.Table)
}

// insertedAny reports whether a row was inserted, as far as PostgreSQL tells.
func insertedAny(st *compile.Statement, res *rows.Result) bool {
	if res.Affected == 0 {
		return false
	}
	if i := hiddenIndex(st, compile.InsertedColumn); i >= 0 && i < len(res.Hidden) {
		return string(res.Hidden[i]) == "t"
	}
	return true
}

// hiddenIndex is the place of a hidden output among the hidden ones; -1 for none.
func hiddenIndex(st *compile.Statement, name string) int {
	n := 0
	for _, o := range st.Output {
		if !o.Hidden {
			continue
		}
		if o.Name == name {
			return n
		}
		n++
	}
	return -1
}

// key is the key of the one record that was written; nil where the statement does not tell it.
func (w *writing) key(st *compile.Statement, res *rows.Result) []*string {
	key := make([]*string, len(w.rel.PrimaryKey))
	for i, col := range w.rel.PrimaryKey {
		if w.keys != nil {
			if len(w.keys.Rows) != 1 {
				return nil
			}
			key[i] = w.keys.Rows[0][i]
			continue
		}
		n := hiddenIndex(st, compile.KeyColumn+col.Name)
		if n < 0 || n >= len(res.Hidden) {
			return nil
		}
		if v := res.Hidden[n]; v != nil {
			key[i] = new(string(v))
		}
	}
	if len(key) == 0 {
		return nil
	}
	return key
}

// planInsert plans a POST.
func (r *request) planInsert(rel *introspect.Relation, q *query.Request) (*plan, error) {
	if err := r.precondition(); err != nil {
		return nil, err
	}
	if len(q.Where) > 0 || q.Limit != nil || q.Offset != nil {
		return nil, fault.Validation("filters, limit and offset have no meaning when records are created").
			WithHint("to change records use PATCH; the parameters of a POST are select, columns and on_conflict")
	}
	if q.All {
		return nil, fault.Validation("@all= is for PATCH and DELETE")
	}
	body, err := r.rowsBody()
	if err != nil {
		return nil, err
	}
	// A record that is left as it was is none to answer with, so that such an upsert answers with an array.
	ignore := r.prefer.Resolution == query.IgnoreDuplicates
	w, err := r.startWrite(rel, q, body.Single && r.Dialect.SingleObject && !ignore)
	if err != nil {
		return nil, err
	}
	w.created = true
	if w.one && w.form.single && w.form.media.Kind != query.MediaObject {
		// A trigger may take the record away: that is no failure, and too late to be one.
		w.form.sink = func(b *rows.Body, out []compile.Output) rows.Sink {
			return rows.NewObject(b, out, rows.Options{StripNulls: w.form.media.StripNulls, Optional: true})
		}
	}
	if r.Dialect.Representation && r.prefer.Resolution != "" && q.OnConflict == nil && len(rel.PrimaryKey) == 0 {
		return nil, fault.Validation("%s has no primary key, so an upsert must name a unique key: on_conflict=column", rel.Name)
	}
	in := compile.Insert{
		Body: body, Columns: q.Columns, MissingDefault: r.missingDefault(), OnConflict: q.OnConflict, Return: w.ret,
		Tell: w.one,
	}
	switch r.prefer.Resolution {
	case query.MergeDuplicates:
		in.Conflict = compile.ConflictMerge
	case query.IgnoreDuplicates:
		in.Conflict = compile.ConflictIgnore
	default:
		if q.OnConflict != nil && r.Dialect.Representation {
			return nil, fault.Validation("on_conflict= needs Prefer: resolution=merge-duplicates or resolution=ignore-duplicates")
		}
	}
	if r.Dialect.BareErrors && !body.Uniform && q.Columns == nil {
		return nil, errBody.Msgf("All object keys must match")
	}
	c := r.context()
	if !c.IsNested(rel, body) {
		st, err := c.Insert(rel, q, in)
		if err != nil {
			return nil, err
		}
		return r.planWrite(w, st, nil), nil
	}
	if q.Columns != nil || q.OnConflict != nil || in.Conflict != compile.ConflictFail {
		return nil, fault.Validation("columns=, on_conflict= and Prefer: resolution cannot be used with related records in the body").
			WithHint("Prefer: nested=merge updates related records that are there; the record itself is changed by PATCH")
	}
	nested := compile.Nested{Body: body, Mode: r.nestedMode(), Return: w.ret}
	st, read, err := c.InsertNested(rel, q, nested)
	if err != nil {
		return nil, err
	}
	return r.planWrite(w, st, read), nil
}

// missingDefault reports whether columns that a body leaves out get their defaults, rather than NULL.
func (r *request) missingDefault() bool {
	return r.prefer.Missing == query.MissingDefault || r.prefer.Missing == "" && r.Dialect.MissingDefault
}

// nestedMode is what happens to related records that are there already.
func (r *request) nestedMode() compile.NestedMode {
	switch r.prefer.Nested {
	case query.NestedMerge:
		return compile.NestedMerge
	case query.NestedReplace:
		return compile.NestedReplace
	}
	return compile.NestedInsert
}

// filtered makes sure that an update or a delete says which records it means.
func (r *request) filtered(rel *introspect.Relation, q *query.Request) error {
	some, err := r.context().Filtered(rel, q)
	if err != nil || !r.Dialect.RequireFilter {
		return err
	}
	if !some && !q.All {
		return errUnfiltered
	}
	if some && q.All {
		return fault.Validation("@all= means every record, but there are filters as well; leave one of them out")
	}
	return nil
}

// planUpdate plans a PATCH.
func (r *request) planUpdate(rel *introspect.Relation, q *query.Request) (*plan, error) {
	if q.OnConflict != nil {
		return nil, fault.Validation("on_conflict= is for POST")
	}
	if err := r.keyed(rel, q); err != nil {
		return nil, err
	}
	w, err := r.startWrite(rel, q, r.Key != nil)
	if err != nil {
		return nil, err
	}
	ifMatch, err := r.ifMatch()
	if err != nil {
		return nil, err
	}
	mediaType, err := r.contentType()
	if err != nil {
		return nil, err
	}
	var st *compile.Statement
	c := r.context()
	switch mediaType {
	case "application/json-patch+json", "application/merge-patch+json":
		if err := r.filtered(rel, q); err != nil {
			return nil, err
		}
		patch := compile.Patch{Return: w.ret, IfMatch: ifMatch, Tell: w.one}
		data, err := r.readBody()
		if err != nil {
			return nil, err
		}
		if mediaType == "application/merge-patch+json" {
			patch.Merge, err = compile.ParseJSON(data)
		} else {
			patch.Ops, err = compile.ParsePatch(data)
		}
		if err != nil {
			return nil, err
		}
		if r.Key != nil && (patch.Merge != nil && len(patch.Merge.Columns) == 0 || patch.Merge == nil && len(patch.Ops) == 0) {
			st, err = r.unchanged(c, rel, q)
		} else {
			r.patched = len(patch.Ops) > 0 && r.Key != nil
			st, err = c.Patch(rel, q, patch)
		}
		if err != nil {
			return nil, err
		}
	default:
		body, err := r.rowsBody()
		if err != nil {
			return nil, err
		}
		u := compile.Update{Body: body, Columns: q.Columns, MissingDefault: r.missingDefault(), Return: w.ret, IfMatch: ifMatch, Tell: w.one}
		many := !body.Single && r.Key == nil && bytes.HasPrefix(bytes.TrimSpace(body.JSON), []byte("["))
		if !many || !r.Dialect.RequireFilter {
			if err := r.filtered(rel, q); err != nil {
				return nil, err
			}
		}
		switch {
		case r.Key != nil && !body.Single:
			return nil, fault.Validation("the body of a PATCH of one record is one object")
		case many && (r.Dialect.RequireFilter || body.Rows > 1):
			st, err = c.UpdateMany(rel, q, u)
		case c.IsNested(rel, body):
			return r.planNestedUpdate(w, body)
		case r.Key != nil && len(body.Columns) == 0 && q.Columns == nil:
			st, err = r.unchanged(c, rel, q)
		default:
			st, err = c.Update(rel, q, u)
		}
		if err != nil {
			return nil, err
		}
	}
	return r.planWrite(w, st, nil), nil
}

// unchanged reads the record that nothing is to be changed of.
func (r *request) unchanged(c compile.Context, rel *introspect.Relation, q *query.Request) (*compile.Statement, error) {
	if r.IfMatch != "" && r.IfMatch != "*" {
		return nil, fault.Validation("the body changes nothing, so that If-Match has no meaning")
	}
	return c.Select(rel, q, compile.Options{})
}

// planNestedUpdate plans a PATCH of a record together with related ones.
func (r *request) planNestedUpdate(w *writing, body *compile.Body) (*plan, error) {
	if r.Key == nil || w.q.Columns != nil || r.IfMatch != "" {
		return nil, fault.Validation("related records in the body are for a PATCH of one record, without columns= and If-Match")
	}
	key, err := r.keyValues(w.rel)
	if err != nil {
		return nil, err
	}
	if len(w.q.Where) > len(w.rel.PrimaryKey) {
		return nil, fault.Validation("filters cannot be used with related records in the body")
	}
	st, read, err := r.context().UpdateNested(w.rel, w.q, key, compile.Nested{Body: body, Mode: r.nestedMode(), Return: w.ret})
	if err != nil {
		return nil, err
	}
	p := r.planWrite(w, st, read)
	// Where the record may be read but not changed, its related ones must not be written either.
	decide := p.decide
	p.decide = func(res *rows.Result) error {
		if res.Rows == 0 && res.Affected == 0 {
			return r.absent()
		}
		if decide != nil {
			return decide(res)
		}
		return nil
	}
	return p, nil
}

// planDelete plans a DELETE.
func (r *request) planDelete(rel *introspect.Relation, q *query.Request) (*plan, error) {
	if q.OnConflict != nil || q.Columns != nil {
		return nil, fault.Validation("columns= and on_conflict= have no meaning for DELETE")
	}
	if err := r.keyed(rel, q); err != nil {
		return nil, err
	}
	if err := r.filtered(rel, q); err != nil {
		return nil, err
	}
	w, err := r.startWrite(rel, q, r.Key != nil)
	if err != nil {
		return nil, err
	}
	ifMatch, err := r.ifMatch()
	if err != nil {
		return nil, err
	}
	st, err := r.context().Delete(rel, q, compile.Delete{Return: w.ret, IfMatch: ifMatch})
	if err != nil {
		return nil, err
	}
	return r.planWrite(w, st, nil), nil
}

// planReplace plans a PUT: by the path's key, or in PostgREST's dialect by filters for equality on exactly the key.
func (r *request) planReplace(rel *introspect.Relation, q *query.Request) (*plan, error) {
	key, err := r.replacedKey(rel, q)
	if err != nil {
		return nil, err
	}
	w, err := r.startWrite(rel, q, r.Key != nil)
	if err != nil {
		return nil, err
	}
	body, err := r.rowsBody()
	if err != nil {
		return nil, err
	}
	ifMatch, err := r.ifMatch()
	if err != nil {
		return nil, err
	}
	existing := r.IfMatch != ""
	w.created = !existing && compile.Creates(rel)
	q.Where = nil
	st, err := r.context().Replace(rel, q, compile.Replace{
		Key: key, Body: body, Columns: q.Columns, Return: w.ret, IfMatch: ifMatch, Existing: existing, Tell: w.one,
	})
	if err != nil {
		return nil, err
	}
	return r.planWrite(w, st, nil), nil
}

// replacedKey is the key of the record that a PUT means.
func (r *request) replacedKey(rel *introspect.Relation, q *query.Request) ([]string, error) {
	if r.Dialect.RecordPaths {
		if len(q.Where) > 0 || q.OnConflict != nil || q.Limit != nil || q.Offset != nil || q.Order != nil {
			return nil, fault.Validation("the path says which record is replaced; filters, order, limit and offset have no meaning here")
		}
		return r.keyValues(rel)
	}
	if q.Limit != nil || q.Offset != nil {
		return nil, &fault.Error{Kind: fault.Invalid, Code: "PGRST114", Message: "limit/offset querystring parameters are not allowed for PUT"}
	}
	key := make([]string, len(rel.PrimaryKey))
	found := 0
	for _, cond := range q.Where {
		f, ok := cond.(*query.Filter)
		if !ok || f.Op != query.Eq || f.Not || f.Quant != query.NoQuantifier || f.Field.Path != nil || f.OtherColumn {
			return nil, errPutFilters
		}
		for i, col := range rel.PrimaryKey {
			if col.Name == f.Field.Name {
				key[i] = f.Value
				found++
			}
		}
	}
	if len(key) == 0 || found != len(key) || len(q.Where) != len(key) {
		return nil, errPutFilters
	}
	return key, nil
}

var errPutFilters = fault.New(fault.MethodNotAllowed, "PGRST105", "Filters must include all and only primary key columns with 'eq' operators")

// precondition refuses If-Match where there is no record to hold it against.
func (r *request) precondition() error {
	if r.IfMatch != "" {
		return fault.Validation("If-Match is for a single record")
	}
	return nil
}

// ifMatch is the xmin that If-Match demands; nil for any.
func (r *request) ifMatch() (*string, error) {
	switch {
	case r.IfMatch == "" || r.IfMatch == "*":
		return nil, nil
	case r.Key == nil:
		return nil, r.precondition()
	}
	tag := strings.TrimSpace(r.IfMatch)
	if len(tag) < 2 || tag[0] != '"' || tag[len(tag)-1] != '"' || strings.Contains(tag, ",") {
		return nil, fault.Validation("If-Match must be one strong entity tag, such as the ETag of the record: \"771\"")
	}
	tag = tag[1 : len(tag)-1]
	return &tag, nil
}
