package tables

import (
	"slices"
	"strings"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
	"github.com/boughdb/bough/server/rows"
)

// planCall plans the call of a function.
func (r *request) planCall() (*plan, error) {
	if r.IfMatch != "" {
		return nil, fault.Validation("If-Match is for a single record")
	}
	c := r.context()
	overloads := r.schema.Overloads(r.namespace, r.Function)
	parse := query.ParseCall
	if r.Dialect.BareErrors {
		parse = query.ParseCallByValue
	}
	q, err := parse(r.Query, func(name string) bool {
		return r.safe() && hasArgument(overloads, name)
	})
	if err != nil {
		if len(overloads) == 0 { // the name is what is wrong
			_, missing := c.PickOverload(r.Function, nil, compile.QueryInput)
			return nil, missing
		}
		return nil, r.unparsed(err)
	}
	if err := r.checkSelect(q); err != nil {
		return nil, err
	}
	r.selectAll(q)
	call, names, input, err := r.arguments(q)
	if err != nil {
		return nil, err
	}
	fn, err := c.PickOverload(r.Function, names, input)
	if err != nil {
		return nil, err
	}
	if r.safe() && r.Dialect.Representation {
		for i, name := range names {
			if slices.Contains(names[:i], name) && !variadic(fn, name) {
				return nil, fault.Validation("the argument %q is given twice", name)
			}
		}
	}
	if compile.Unnamed(fn, input) && !r.safe() {
		call = compile.Call{Raw: r.body}
	}
	if r.safe() && fn.Procedure {
		return nil, fault.New(fault.MethodNotAllowed, "method_not_allowed", "a procedure is called by POST")
	}
	if call.Body != nil {
		q.Columns = nil // which named the arguments
	}
	if err := r.checkResult(fn, q); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(q.Select, func(item query.Item) bool { return item.Kind == query.Embed }) {
		// Records of other relations are not a part of what the function returns.
		if err := r.readable(); err != nil {
			return nil, withHint(err, "leave related records out of select, or use a credential that has the scope as well")
		}
	}
	if err := r.applyRange(q); err != nil {
		return nil, err
	}
	st, shape, err := c.Call(fn, q, call)
	if err != nil {
		return nil, err
	}
	p := &plan{statement: st, hold: !r.safe()}
	if p.form, err = r.resultForm(fn, shape); err != nil {
		return nil, err
	}
	p.hold = p.hold || p.form.single
	if shape == compile.Rows && r.prefer.Count != "" && p.form.media.Kind != query.MediaPlan {
		if !r.safe() && fn.Volatility == introspect.Volatile {
			// Counting would call it again: the rows are counted as they come, as long as none are left out.
			if q.Limit != nil || q.Offset != nil {
				return nil, fault.Validation("the result of a function that writes cannot be both counted and limited").
					WithHint("declare the function stable if it only reads")
			}
		} else {
			counting := c
			counting.CountPlan = r.estimates(fn.Relation)
			p.estimate = counting.CountPlan
			if p.count, err = counting.CountCall(fn, q, call); err != nil {
				return nil, err
			}
		}
	}
	offset, limit := r.window(q)
	p.early = func(total *int64) error { return inRange(offset, total) }
	if !r.safe() && (p.form.media.Kind == query.MediaObject || r.prefer.Handling == query.HandlingStrict && r.prefer.MaxAffected != nil) {
		p.decide = func(res *rows.Result) error { return r.affectedLimits(res.Rows) }
	}
	p.head = func(res *rows.Result, total *int64, _ []byte) (*Head, error) {
		h := &Head{
			ContentType: p.form.media.ContentType(), Profile: r.served(),
			Applied: r.prefer.Applied("count", "handling", "timezone", "tx", "max-affected"),
		}
		if shape == compile.Void {
			h.Outcome, h.empty = NoContent, true
			return h, nil
		}
		if shape != compile.Rows && shape != compile.ScalarSet {
			if !r.Dialect.RecordPaths {
				// As PostgREST counts it: one value is one row.
				if r.prefer.Count != "" {
					total = new(int64(1))
				}
				h.ContentRange = contentRange(0, 1, total)
			}
			return h, nil
		}
		if res != nil && total == nil && r.prefer.Count == query.CountExact {
			total = &res.Rows
		}
		if p.form.media.Kind != query.MediaPlan {
			partOf(h, p, res, total, offset, limit)
		}
		return h, nil
	}
	return p, nil
}

func variadic(fn *introspect.Function, name string) bool {
	return slices.ContainsFunc(fn.Args, func(a introspect.Argument) bool { return a.Variadic && a.Name == name })
}

func hasArgument(overloads []*introspect.Function, name string) bool {
	for _, fn := range overloads {
		for _, arg := range fn.Args {
			if arg.Name == name && name != "" {
				return true
			}
		}
	}
	return false
}

// arguments reads what the function is to be called with.
func (r *request) arguments(q *query.Request) (call compile.Call, names []string, in compile.Input, err error) {
	if r.safe() {
		for _, arg := range q.Args {
			names = append(names, arg.Name)
		}
		return call, names, compile.QueryInput, nil
	}
	mediaType, err := r.contentType()
	if err != nil {
		return call, nil, 0, err
	}
	data, err := r.readBody()
	if err != nil {
		return call, nil, 0, err
	}
	switch mediaType {
	case "application/json":
		in = compile.JSONInput
		if len(strings.TrimSpace(string(data))) == 0 {
			return call, nil, in, nil
		}
		body, err := compile.ParseJSON(data)
		if err != nil || !body.Single {
			// Any other JSON may be the whole argument of a function.
			if r.takesWhole(in) {
				return call, nil, in, nil
			}
			if err == nil {
				err = errBody.Msgf("the body of a call is one object with the arguments by name")
			}
			return call, nil, in, err
		}
		call.Body, names = body, body.Columns
		if q.Columns != nil {
			call.Columns, names = q.Columns, q.Columns
		}
	case "application/x-www-form-urlencoded":
		in = compile.FormInput
		if call.Body, err = compile.ParseForm(data); err != nil {
			return call, nil, in, err
		}
		names = call.Body.Columns
	case "text/plain":
		in = compile.TextInput
	case "text/xml", "application/xml":
		in = compile.XMLInput
	case "application/octet-stream":
		in = compile.BytesInput
	default:
		err = errMediaType.Msgf("the body is %s; a call takes application/json, application/x-www-form-urlencoded, text/plain, text/xml or application/octet-stream", mediaType)
	}
	return call, names, in, err
}

// takesWhole reports whether a function of the name takes the whole body.
func (r *request) takesWhole(in compile.Input) bool {
	for _, fn := range r.schema.Overloads(r.namespace, r.Function) {
		if compile.Unnamed(fn, in) {
			return true
		}
	}
	return false
}

// checkResult refuses parameters that say nothing about the function's result.
func (r *request) checkResult(fn *introspect.Function, q *query.Request) error {
	if err := onlyReads(q); err != nil {
		return err
	}
	if q.Cursor != nil {
		return fault.Validation("@cursor is for tables; the result of a function is paged by limit and offset")
	}
	if fn.Relation != nil || fn.Columns != nil && !fn.Procedure {
		return nil
	}
	if len(q.Where) > 0 || len(q.Embeds) > 0 || q.Select != nil || q.Order != nil || q.Distinct != nil {
		return fault.Validation("%s does not return rows with columns, so select, filters and order have no meaning", fn.Name)
	}
	if !fn.ReturnsSet && (q.Limit != nil || q.Offset != nil) {
		return fault.Validation("%s returns one value, so limit and offset have no meaning", fn.Name)
	}
	return nil
}

// resultForm chooses how a function's result is written.
func (r *request) resultForm(fn *introspect.Function, shape compile.Shape) (form, error) {
	switch shape {
	case compile.Rows:
		return r.formOf(false)
	case compile.Row:
		return r.formOf(true)
	case compile.Void:
		return form{}, nil
	}
	for _, m := range r.media {
		f := form{media: m, single: shape == compile.Scalar}
		switch m.Kind {
		case query.MediaAny, query.MediaJSON, query.MediaObject, query.MediaArray:
			f.media = query.Media{Kind: query.MediaJSON}
			f.sink = rows.NewScalar
			if shape == compile.ScalarSet {
				f.sink = rows.NewScalars
			}
		case query.MediaCSV:
			f.sink = rows.NewCSV
		case query.MediaPlan:
			if !r.s.cfg.Explain {
				continue
			}
			f.single = false
			f.sink = func(b *rows.Body, out []compile.Output) rows.Sink { return newPlanText(b, out, m.Plan) }
		case query.MediaNDJSON:
			f.sink = func(b *rows.Body, out []compile.Output) rows.Sink { return rows.NewNDJSON(b, out, rows.Options{}) }
		case query.MediaText:
			if shape != compile.Scalar {
				continue
			}
			f.sink = rows.NewText
		case query.MediaBinary:
			if shape != compile.Scalar {
				continue
			}
			f.sink = rows.NewText
			if fn.Returns.Underlying().Name == "bytea" {
				f.sink = rows.NewBinary
			}
		default:
			continue
		}
		return f, nil
	}
	return form{}, errMedia
}
