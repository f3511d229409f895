package tables

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
	"github.com/boughdb/bough/server/rows"
)

// The records of a page, where limit does not say, and at most: a page is held in memory, since its Link header comes
// before it and names its last record.
const (
	defaultPage = 100
	maxPage     = 10_000
)

// page is one page of a list that goes on by key.
type page struct {
	r     *request
	order []query.Order
	limit int64
}

// startPage makes a page of a list that asks for one with @cursor; nil for other lists. The order is completed by the
// primary key, so that it tells all records apart.
func (r *request) startPage(c compile.Context, rel *introspect.Relation, q *query.Request, o *compile.Options) (*page, error) {
	if q.Cursor == nil {
		return nil, nil
	}
	if q.Offset != nil {
		return nil, fault.Validation("@cursor and offset are two ways to the same end; use one")
	}
	if q.Distinct != nil || hasAggregates(q.Select) {
		return nil, fault.Validation("@cursor pages records, not groups of them; use limit and offset")
	}
	order, err := c.CompleteOrder(rel, q.Order)
	if err != nil {
		return nil, err
	}
	p := &page{r: r, order: order, limit: defaultPage}
	q.Order = order
	_, limit := r.window(q)
	if limit != nil {
		p.limit = *limit
	}
	if p.limit < 1 || p.limit > maxPage {
		return nil, fault.Validation("a page has 1 to %d records, not %d", maxPage, p.limit)
	}
	q.Limit = &p.limit
	o.Cursor = order
	if *q.Cursor == "" {
		return p, nil
	}
	values, err := p.decode(*q.Cursor)
	if err != nil {
		return nil, err
	}
	q.Where = append(q.Where, &query.Keyset{Order: order, Values: values})
	return p, nil
}

func hasAggregates(items []query.Item) bool {
	for _, item := range items {
		if item.Kind == query.Aggregate {
			return true
		}
	}
	return false
}

// next is the Link header that leads to the next page; "" on the last one.
func (p *page) next(res *rows.Result) string {
	if res.Rows < p.limit || res.Hidden == nil {
		return ""
	}
	values := make([]*string, len(p.order))
	for i, v := range res.Hidden[len(res.Hidden)-len(p.order):] {
		if v != nil {
			s := string(v)
			values[i] = &s
		}
	}
	parts := []string{}
	for _, part := range strings.Split(p.r.Query, "&") {
		name, _, _ := strings.Cut(part, "=")
		if decoded, err := url.QueryUnescape(name); part != "" && (err != nil || decoded != "@cursor") {
			parts = append(parts, part)
		}
	}
	parts = append(parts, "@cursor="+p.encode(values))
	return "<" + p.r.Path + "?" + inLink.Replace(strings.Join(parts, "&")) + `>; rel="next"`
}

// inLink escapes what a query string may come with but a URL in a Link header may not hold (RFC 8288, section 3).
var inLink = strings.NewReplacer("<", "%3C", ">", "%3E", `"`, "%22", " ", "%20")

// A cursor holds the values of the last record's order, and which order that is: with another one it would lead astray.
type cursor struct {
	Order  string    `json:"o"`
	Values []*string `json:"v"`
}

func (p *page) encode(values []*string) string {
	data, _ := json.Marshal(cursor{p.signature(), values}) // strings only
	return base64.RawURLEncoding.EncodeToString(data)
}

func (p *page) decode(text string) ([]*string, error) {
	data, err := base64.RawURLEncoding.DecodeString(text)
	var c cursor
	if err != nil || json.Unmarshal(data, &c) != nil || len(c.Values) != len(p.order) && c.Order == p.signature() {
		return nil, fault.Validation("the cursor %q is not one that a Link header of this list had; begin with an empty one", text)
	}
	if c.Order != p.signature() {
		return nil, fault.Validation("the cursor belongs to another order of the list; begin with an empty one")
	}
	return c.Values, nil
}

// signature identifies the order.
func (p *page) signature() string {
	var b strings.Builder
	for _, o := range p.order {
		b.WriteString(strconv.Quote(o.Embed) + strconv.Quote(o.Field.Name))
		for _, s := range o.Field.Path {
			b.WriteString(strconv.Quote(s.Key) + strconv.Itoa(s.Index) + strconv.FormatBool(s.Text))
		}
		b.WriteString(strconv.FormatBool(o.Desc) + strconv.Itoa(int(o.Nulls)) + ";")
	}
	sum := sha256.Sum256([]byte(b.String()))
	return base64.RawURLEncoding.EncodeToString(sum[:6])
}
