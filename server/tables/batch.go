package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/query"
	"github.com/boughdb/bough/server/rows"
)

// maxOperations bounds a batch.
const maxOperations = 1000

// operation is one of a batch.
type operation struct {
	Method, Table string
	ID            json.RawMessage
	Query         map[string]json.RawMessage
	Body          json.RawMessage
	Prefer        string
}

// batch is a run of operations in one transaction.
type batch struct {
	*request
	shared  *rows.Session // of all operations
	results []any         // what each operation returned, numbers exact
	out     bytes.Buffer
}

// ServeBatch answers a request with several operations: they are done in order, in one transaction, or not at all.
func (s *Service) ServeBatch(ctx context.Context, c *Call, a Answer) error {
	if c.Query != "" {
		return fault.Validation("a batch has no query parameters; each operation has its own")
	}
	r, err := s.request(ctx, c)
	if err != nil {
		return err
	}
	data, err := r.readBody()
	if err != nil {
		return err
	}
	if mediaType, err := r.contentType(); err != nil || mediaType != "application/json" {
		return errMediaType.Msgf("the body of a batch is application/json")
	}
	if err := r.precondition(); err != nil {
		return err
	}
	if !slices.ContainsFunc(r.media, func(m query.Media) bool { return m.Kind == query.MediaAny || m.Kind == query.MediaJSON }) {
		return errMedia.WithHint("a batch answers with application/json")
	}
	operations, err := parseOperations(data)
	if err != nil {
		return err
	}
	if n := len(operations); n == 0 || n > maxOperations {
		return fault.Validation("a batch has 1 to %d operations, not %d", maxOperations, n)
	}
	for attempt := 1; ; attempt++ {
		b := &batch{request: r}
		at, err := b.run(ctx, operations)
		if err == nil {
			h := &Head{Outcome: OK, ContentType: "application/json; charset=utf-8", Applied: r.prefer.Applied("tx", "timezone"), Profile: r.served()}
			return finish(h, b.out.Bytes(), a)
		}
		if attempt < maxAttempts && lostRace(err) {
			continue
		}
		if attempt < maxAttempts && r.outdated(err) {
			if fresh, again := s.schemas.RefreshUnlessFresh(ctx, c.Database, r.schema); again == nil && fresh != r.schema {
				r.schema = fresh
				continue
			}
		}
		return blame(explain(c, err), at, operations)
	}
}

// blame adds to an error which operation it is of; -1 is the end of the transaction.
func blame(err error, at int, operations []operation) error {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err
	}
	where := "at the end of the transaction"
	if at >= 0 {
		where = fmt.Sprintf("operation %d (%s %s)", at, operations[at].Method, operations[at].Table)
	}
	told := *f
	if told.Details != "" {
		where += ": " + told.Details
	}
	told.Details = where
	return &told
}

// run runs the operations. It returns which one failed.
func (b *batch) run(ctx context.Context, operations []operation) (at int, err error) {
	conn, err := b.s.acquire(ctx, b.Database)
	if err != nil {
		return -1, err
	}
	defer conn.Release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b.shared = b.session()
	tx, err := rows.Begin(ctx, conn.Conn.Conn().PgConn(), b.shared, "")
	if err != nil {
		return -1, err
	}
	defer tx.Rollback(ctx)
	b.out.WriteByte('[')
	for i, op := range operations {
		if i > 0 {
			b.out.WriteByte(',')
		}
		var timer *time.Timer
		if b.s.cfg.StatementTimeout > 0 {
			timer = time.AfterFunc(b.s.cfg.StatementTimeout, func() { cancel(errTimer) })
		}
		err := b.do(ctx, tx, op)
		if timer != nil {
			timer.Stop()
		}
		if err != nil {
			return i, b.failed(ctx, err, false)
		}
	}
	b.out.WriteByte(']')
	if b.prefer.Tx == query.TxRollback {
		return -1, tx.CheckConstraints(ctx)
	}
	return -1, tx.Commit(ctx)
}

// do runs one operation and writes what it answers.
func (b *batch) do(ctx context.Context, tx *rows.Tx, op operation) error {
	r, err := b.sub(op)
	if err != nil {
		return err
	}
	p, err := r.plan()
	if err != nil {
		return err
	}
	if p.form.media.Kind == query.MediaPlan {
		return errMedia
	}
	b.shared.Clear = b.shared.Clear || r.leavesState(p.before, p.statement)
	body := rows.NewBody(nil, true)
	defer body.Release()
	if most := b.s.cfg.MaxHeld; most > 0 {
		body.Limit(max(most-b.out.Len(), 1), b.s.cfg.Memory)
	}
	res := &rows.Result{}
	step := rows.Step{Statement: p.statement, Result: res}
	if p.form.sink != nil {
		step.Sink = p.form.sink(body, p.statement.Output)
	}
	steps := []rows.Step{step}
	if p.before != nil {
		steps = []rows.Step{{Statement: p.before}, step}
	}
	if err := tx.Run(ctx, steps...); err != nil {
		return r.failed(ctx, err, false)
	}
	if p.decide != nil {
		if err := p.decide(res); err != nil {
			return err
		}
	}
	h, err := p.head(res, nil, body.Bytes())
	if err != nil {
		return err
	}
	if h.Outcome == 0 {
		h.Outcome = OK
	}
	b.out.WriteString(`{"status":` + strconv.Itoa(int(h.Outcome)))
	var result any
	if data := body.Bytes(); !h.empty && len(data) > 0 {
		b.out.WriteString(`,"body":`)
		b.out.Write(data)
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		if err := dec.Decode(&result); err != nil {
			return fmt.Errorf("reading back the result of an operation: %w", err)
		}
	}
	b.out.WriteByte('}')
	b.results = append(b.results, result)
	return nil
}

// parseOperations reads the body of a batch.
func parseOperations(data []byte) ([]operation, error) {
	if !utf8.Valid(data) {
		return nil, errBody.Msgf("the body is not valid UTF-8")
	}
	var objects []map[string]json.RawMessage
	if err := json.Unmarshal(data, &objects); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, errBody.Msgf("the body is not valid JSON: %s at byte %d", syntax, syntax.Offset)
		}
		return nil, errBody.Msgf("the body of a batch is an array of operations, which are objects with method, table, id, query, body and prefer")
	}
	operations := make([]operation, len(objects))
	for i, object := range objects {
		op := &operations[i]
		for name, value := range object {
			var err error
			switch name {
			case "method":
				err = json.Unmarshal(value, &op.Method)
			case "table":
				err = json.Unmarshal(value, &op.Table)
			case "query":
				err = json.Unmarshal(value, &op.Query)
			case "prefer":
				err = json.Unmarshal(value, &op.Prefer)
			case "id":
				op.ID = value
			case "body":
				op.Body = value
			default:
				return nil, errBody.Msgf("operation %d has the field %q; there are method, table, id, query, body and prefer", i, name)
			}
			if err != nil {
				return nil, errBody.Msgf("the field %q of operation %d must be %s", name, i, fields[name])
			}
		}
		if op.Method == "" || op.Table == "" {
			return nil, errBody.Msgf("operation %d needs a method and a table", i)
		}
	}
	return operations, nil
}

// fields are what the fields of an operation are.
var fields = map[string]string{"method": "a text", "table": "a text", "query": "an object", "prefer": "a text"}

// sub makes a request of an operation.
func (b *batch) sub(op operation) (*request, error) {
	c := *b.Call
	c.Body, c.Range, c.IfMatch, c.IfNoneMatch, c.Accept = nil, "", "", "", ""
	c.Method, c.Table, c.Function = strings.ToUpper(op.Method), op.Table, ""
	if name, ok := strings.CutPrefix(op.Table, "rpc/"); ok {
		c.Table, c.Function = "", name
	}
	r := &request{Call: &c, s: b.s, role: b.role, claims: b.claims, namespace: b.namespace, schema: b.schema, read: true}
	r.media = []query.Media{{Kind: query.MediaJSON}}
	if !slices.Contains([]string{methodGet, methodPost, methodPut, methodPatch, methodDelete}, c.Method) || c.Function != "" && c.Method != methodGet && c.Method != methodPost {
		return nil, fault.Validation("%q is no method of an operation on %s", op.Method, op.Table)
	}
	c.Path = "/api/v1/tables/" + url.PathEscape(op.Table)
	if err := r.allowed(); err != nil {
		return nil, err
	}
	var err error
	if r.prefer, err = query.ParsePrefer([]string{op.Prefer}); err != nil {
		return nil, err
	}
	if r.prefer.Tx != "" || r.prefer.Timezone != "" || r.prefer.Count != "" {
		return nil, fault.Validation("tx and timezone are preferences of the whole batch, and count has no place in one")
	}
	if len(op.ID) > 0 {
		if c.RawKey, c.Key, err = b.key(op.ID); err != nil {
			return nil, err
		}
	}
	if c.Method == methodPut && c.Key == nil {
		return nil, fault.Validation("PUT needs the id of the record")
	}
	if c.Method == methodPost && c.Key != nil {
		return nil, fault.Validation("POST makes new records and takes no id")
	}
	if c.Function != "" && c.Key != nil {
		return nil, fault.Validation("a function takes no id")
	}
	if c.Query, err = b.query(op.Query, c.Function != "" && r.safe()); err != nil {
		return nil, err
	}
	if len(op.Body) > 0 {
		if r.safe() || c.Method == methodDelete {
			return nil, fault.Validation("%s takes no body", c.Method)
		}
		if r.body, err = b.resolved(op.Body); err != nil {
			return nil, err
		}
		c.ContentType = "application/json"
	}
	return r, nil
}

// key is the record's key: a value, or an array with the parts of a composite key.
func (b *batch) key(id json.RawMessage) (raw string, parts []string, err error) {
	v, err := b.value(id)
	if err != nil {
		return "", nil, err
	}
	values, composite := v.([]any)
	if !composite {
		values = []any{v}
	}
	for _, v := range values {
		text, ok := plain(v)
		if !ok {
			return "", nil, fault.Validation("the id of an operation is a value, or an array with the parts of a composite key")
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ","), parts, nil
}

// words are the names of parameters that are no filters.
var words = []string{"select", "order", "limit", "offset", "columns", "on_conflict", "and", "or", "not.and", "not.or"}

// query makes a query string of an operation's parameters. A plain name is a column that filters by equality; where a
// function is called by GET it is an argument.
func (b *batch) query(params map[string]json.RawMessage, call bool) (string, error) {
	var parts []string
	for name, data := range params {
		v, err := b.value(data)
		if err != nil {
			return "", err
		}
		bare := !slices.Contains(words, name) && !strings.HasPrefix(name, "@") && !strings.ContainsAny(name, `."`)
		list, isList := v.([]any)
		text, ok := plain(v)
		switch {
		case bare && call && ok:
		case bare && call:
			return "", fault.Validation("the argument %q must be a text, a number or true or false; call the function by POST to give it another value", name)
		case bare && v == nil:
			name, text = name+".is.null", ""
		case bare && isList:
			items := make([]string, len(list))
			for i, item := range list {
				if items[i], ok = plain(item); !ok {
					return "", fault.Validation("the list for %q holds something that is no plain value", name)
				}
				items[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(items[i]) + `"`
			}
			name, text = name+".in", "("+strings.Join(items, ",")+")"
		case !ok:
			return "", fault.Validation("the value of the parameter %q must be a text, a number or true or false", name)
		case bare:
			name += ".eq"
		}
		parts = append(parts, url.QueryEscape(name)+"="+url.QueryEscape(text))
	}
	slices.Sort(parts)
	return strings.Join(parts, "&"), nil
}

// plain is a JSON value as the text of a parameter.
func plain(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// value reads a JSON value and puts results in the place of references.
func (b *batch) value(data json.RawMessage) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, errBody.Msgf("an operation cannot be read: %s", err)
	}
	return b.replace(v)
}

// resolved is a body with results in the place of references. A body without any stays as it was sent.
func (b *batch) resolved(data json.RawMessage) ([]byte, error) {
	if !bytes.Contains(data, []byte(`"$ref"`)) {
		return data, nil
	}
	v, err := b.value(data)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

func (b *batch) replace(v any) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok && len(v) == 1 {
			return b.lookup(ref)
		}
		for name, inner := range v {
			replaced, err := b.replace(inner)
			if err != nil {
				return nil, err
			}
			v[name] = replaced
		}
	case []any:
		for i, inner := range v {
			replaced, err := b.replace(inner)
			if err != nil {
				return nil, err
			}
			v[i] = replaced
		}
	}
	return v, nil
}

// lookup finds what a reference stands for: the number of an operation, then names and positions. A name after an array
// is of its first element.
func (b *batch) lookup(ref string) (any, error) {
	parts := strings.Split(ref, ".")
	n, err := strconv.Atoi(parts[0])
	if err != nil || n < 0 || n >= len(b.results) {
		return nil, fault.Validation("the reference %q must begin with the number of an operation before this one", ref)
	}
	v := b.results[n]
	for _, part := range parts[1:] {
		list, isList := v.([]any)
		if i, err := strconv.Atoi(part); isList && err == nil {
			if i < 0 || i >= len(list) {
				return nil, fault.Validation("the reference %q leads nowhere: operation %d returned %d records", ref, n, len(list))
			}
			v = list[i]
			continue
		}
		if isList {
			if len(list) == 0 {
				return nil, fault.Validation("the reference %q leads nowhere: operation %d returned no record", ref, n)
			}
			v = list[0]
		}
		object, _ := v.(map[string]any)
		inner, ok := object[part]
		if !ok {
			return nil, fault.Validation("the reference %q leads nowhere: operation %d returned no %q", ref, n, part)
		}
		v = inner
	}
	return v, nil
}
