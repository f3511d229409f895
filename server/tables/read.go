package tables

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
	"github.com/boughdb/bough/server/rows"
)

// planRead plans a list, or the reading of one record.
func (r *request) planRead(rel *introspect.Relation, q *query.Request) (*plan, error) {
	if err := onlyReads(q); err != nil {
		return nil, err
	}
	if err := r.keyed(rel, q); err != nil {
		return nil, err
	}
	if err := r.applyRange(q); err != nil {
		return nil, err
	}
	one := r.Key != nil
	if !one && r.Dialect.RecordPaths {
		if err := r.precondition(); err != nil {
			return nil, err
		}
	}
	form, err := r.formOf(one)
	if err != nil {
		return nil, err
	}
	// Whether the record is there is known when it has been read.
	p := &plan{form: form, hold: form.single || one}
	c := r.context()
	options := compile.Options{ETag: one && rel.HasXmin && !embeds(q.Select)}
	if p.count, p.estimate, err = r.countPlan(c, rel, q, form); err != nil {
		return nil, err
	}
	if p.estimate && r.prefer.Count == query.CountEstimated {
		bounded := c
		bounded.CountMost = exactBelow + 1
		if p.few, err = bounded.Count(rel, q); err != nil {
			return nil, err
		}
	}
	page, err := r.startPage(c, rel, q, &options)
	if err != nil {
		return nil, err
	}
	if p.statement, err = c.Select(rel, q, options); err != nil {
		return nil, err
	}
	hashed := !one && r.IfNoneMatch != ""
	p.hold = p.hold || hashed || page != nil
	offset, limit := r.window(q)
	p.early = func(total *int64) error { return inRange(offset, total) }
	p.head = func(res *rows.Result, total *int64, body []byte) (*Head, error) {
		h := &Head{ContentType: form.media.ContentType(), Applied: r.prefer.Applied("count", "handling", "timezone"), Profile: r.served()}
		if one {
			if res != nil && res.Rows == 0 && form.media.Kind != query.MediaPlan {
				return nil, r.absent()
			}
			return r.recordHead(h, res, options.ETag)
		}
		if form.media.Kind != query.MediaPlan {
			partOf(h, p, res, total, offset, limit)
		}
		if hashed {
			h.ETag = weakTag(h.ContentType, body)
			if TagMatches(r.IfNoneMatch, h.ETag) {
				h.Outcome = NotModified
			}
		}
		if page != nil && res != nil {
			h.Link = page.next(res)
		}
		return h, nil
	}
	return p, nil
}

// partOf says which part of a list an answer is. res is nil while rows are still coming: their number is known then from
// an exact total only.
func partOf(h *Head, p *plan, res *rows.Result, total *int64, offset int64, limit *int64) {
	switch {
	case res != nil:
		if total != nil && p.estimate && res.Rows > 0 {
			least := max(*total, offset+res.Rows) // an estimate may be below what is seen
			total = &least
		}
		h.ContentRange = contentRange(offset, res.Rows, total)
		if total != nil && res.Rows < *total {
			h.Outcome = Partial
		}
	case total == nil:
	case p.estimate:
		h.ContentRange = contentRange(offset, 0, total)
		if offset > 0 || limit != nil && *limit < *total {
			h.Outcome = Partial
		}
	default:
		n := max(0, *total-offset)
		if limit != nil {
			n = min(n, *limit)
		}
		h.ContentRange = contentRange(offset, n, total)
		if n < *total {
			h.Outcome = Partial
		}
	}
}

// recordHead is the head of one record's answer.
func (r *request) recordHead(h *Head, res *rows.Result, tagged bool) (*Head, error) {
	if tagged && len(res.Hidden) > 0 && res.Hidden[0] != nil {
		h.ETag = recordTag(res.Hidden[0])
		if r.IfMatch != "" && r.IfMatch != "*" && r.IfMatch != h.ETag {
			return nil, errPrecondition
		}
		if r.IfNoneMatch != "" && TagMatches(r.IfNoneMatch, h.ETag) {
			h.Outcome = NotModified
		}
	}
	return h, nil
}

// onlyReads refuses the parameters of writes: they would be ignored.
func onlyReads(q *query.Request) error {
	switch {
	case q.Columns != nil:
		return fault.Validation("columns= is for writes; select= says what to return")
	case q.OnConflict != nil:
		return fault.Validation("on_conflict= is for upserts")
	case q.All:
		return fault.Validation("@all= is for writes; a list without a filter has all records anyway")
	}
	return nil
}

// onlyWrites refuses the parameters of lists.
func onlyWrites(q *query.Request) error {
	if q.Cursor != nil || q.Distinct != nil {
		return fault.Validation("@cursor= and @distinct= are for lists")
	}
	return nil
}

// embeds reports whether the answer has more in it than the record's own columns.
func embeds(items []query.Item) bool {
	for _, item := range items {
		if item.Kind == query.Embed || item.Kind == query.Aggregate {
			return true
		}
	}
	return false
}

// applyRange takes limit and offset from the Range header where the query string has none.
func (r *request) applyRange(q *query.Request) error {
	if r.Range == "" || r.Method != methodGet && r.Method != methodHead {
		return nil
	}
	offset, limit, ok, err := query.ParseRange(r.Range)
	if err != nil || !ok {
		return err
	}
	if r.Key != nil || q.Cursor != nil {
		return fault.Validation("the Range header has no meaning here")
	}
	if q.Offset == nil {
		q.Offset = &offset
	}
	if q.Limit == nil || limit != nil && *limit < *q.Limit {
		q.Limit = limit
	}
	return nil
}

// window is the part of the list that is asked for.
func (r *request) window(q *query.Request) (offset int64, limit *int64) {
	if q.Offset != nil {
		offset = *q.Offset
	}
	limit = q.Limit
	if most := r.s.cfg.MaxRows; most > 0 && (limit == nil || *limit > most) {
		limit = &most
	}
	return offset, limit
}

func inRange(offset int64, total *int64) error {
	if total == nil || offset == 0 || offset < *total {
		return nil
	}
	f := *errRange
	f.Details = "An offset of " + strconv.FormatInt(offset, 10) + " was requested, but there are only " + strconv.FormatInt(*total, 10) + " rows."
	f.Headers = map[string]string{"Content-Range": contentRange(0, 0, total)}
	return &f
}

// countPlan is the statement that gives the total that the preferences ask for.
func (r *request) countPlan(c compile.Context, rel *introspect.Relation, q *query.Request, form form) (st *compile.Statement, estimate bool, err error) {
	if r.prefer.Count == "" || r.Key != nil || form.media.Kind == query.MediaPlan {
		return nil, false, nil
	}
	c.CountPlan = r.estimates(rel)
	st, err = c.Count(rel, q)
	return st, c.CountPlan, err
}

// estimates reports whether the count that is asked for is taken from a plan; rel is nil where rows are of no relation.
func (r *request) estimates(rel *introspect.Relation) bool {
	switch r.prefer.Count {
	case query.CountPlanned:
		return true
	case query.CountEstimated:
		// A table that is small by the statistics is counted.
		return rel == nil || rel.EstimatedRows < 0 || rel.EstimatedRows > exactBelow
	}
	return false
}

// exactBelow is the number of rows up to which count=estimated counts.
const exactBelow = 10_000

// recordTag is the entity tag of a record: the transaction that wrote it (PostgreSQL, section 5.6).
func recordTag(xmin []byte) string { return `"` + string(xmin) + `"` }

// weakTag is the entity tag of a body. It is weak: another form of the same list has another body.
func weakTag(contentType string, body []byte) string {
	h := sha256.New()
	h.Write([]byte(contentType))
	h.Write([]byte{0})
	h.Write(body)
	return `W/"` + hex.EncodeToString(h.Sum(nil)[:12]) + `"`
}

// TagMatches is the weak comparison of an If-None-Match header with a tag (RFC 9110, section 13.1.2).
func TagMatches(header, tag string) bool {
	for _, t := range strings.Split(header, ",") {
		if t = strings.TrimSpace(t); t == "*" || strings.TrimPrefix(t, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}

// served is the Content-Profile of an answer: where there is more than one schema, which one it was.
func (r *request) served() string {
	if len(r.s.cfg.Schemas) > 1 {
		return r.namespace
	}
	return ""
}
