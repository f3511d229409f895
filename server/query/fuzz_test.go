package query_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/query"
)

// checkError fails unless an error is one for callers and says something.
func checkError(t *testing.T, err error) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Message == "" || f.Code == "" || f.Kind == 0 {
		t.Fatalf("error is %#v", err)
	}
}

// checkQuick fails if parsing took longer than any input of a fuzz run may.
func checkQuick(t *testing.T, start time.Time) {
	t.Helper()
	if d := time.Since(start); d > 20*time.Second { // a machine under load takes its time, too
		t.Fatalf("took %s", d)
	}
}

func checkField(t *testing.T, f query.Field) {
	t.Helper()
	if f.Name == "" {
		t.Fatal("a field has no name")
	}
	for _, s := range f.Path {
		if s.IsIndex && s.Key != "" {
			t.Fatalf("a step is a key and an index: %v", s)
		}
	}
}

func checkFilter(t *testing.T, f *query.Filter) {
	t.Helper()
	checkField(t, f.Field)
	switch {
	case f.Op == "" || f.Raw == "":
		t.Fatalf("filter is %+v", f)
	case (f.List != nil) != (f.Op == query.In || f.Quant != query.NoQuantifier), f.List != nil && f.Value != "":
		t.Fatalf("list and value of %+v", f)
	case f.OtherColumn && f.Value == "":
		t.Fatal("compared with a column without a name")
	case f.Config != "" && !strings.HasSuffix(string(f.Op), "fts"):
		t.Fatalf("%s has the configuration %s", f.Op, f.Config)
	}
	if f.Op == query.Is {
		switch f.Value {
		case "null", "not_null", "true", "false", "unknown":
		default:
			t.Fatalf("is %q", f.Value)
		}
	}
	if a := f.Alternative; a != nil {
		for _, name := range a.Path {
			if name == "" {
				t.Fatal("an alternative's path has an empty name")
			}
		}
		checkFilter(t, &a.Filter)
	}
}

func checkCond(t *testing.T, c query.Cond) (n int) {
	t.Helper()
	switch c := c.(type) {
	case *query.Filter:
		checkFilter(t, c)
		return 1
	case *query.Logic:
		if len(c.Conds) == 0 {
			t.Fatal("a junction has no conditions")
		}
		for _, c := range c.Conds {
			n += checkCond(t, c)
		}
		return n
	}
	t.Fatalf("condition is a %T", c)
	return 0
}

func checkOrder(t *testing.T, order []query.Order) {
	t.Helper()
	if order != nil && len(order) == 0 {
		t.Fatal("order is empty")
	}
	for _, o := range order {
		checkField(t, o.Field)
	}
}

func checkItems(t *testing.T, items []query.Item, text string, depth int) {
	t.Helper()
	if depth > 33 {
		t.Fatal("too deep")
	}
	for _, it := range items {
		if it.Position < 0 || it.Position >= len(text) {
			t.Fatalf("position is %d", it.Position)
		}
		switch it.Kind {
		case query.Column:
			checkField(t, it.Field)
		case query.Aggregate:
			if it.Field.Name != "" {
				checkField(t, it.Field)
			} else if it.Func != "count" {
				t.Fatalf("%s of nothing", it.Func)
			}
		case query.Embed:
			if it.Target == "" || it.Select == nil || it.Spread && it.Alias != "" {
				t.Fatalf("embed is %+v", it)
			}
			checkItems(t, it.Select, text, depth+1)
		}
		for _, cast := range []string{it.Cast, it.FuncCast} {
			if strings.ContainsAny(cast, `;"'-*/\`) || cast != strings.TrimSpace(cast) {
				t.Fatalf("cast is %q", cast)
			}
		}
	}
}

func checkModifiers(t *testing.T, where []query.Cond, order []query.Order, limit, offset *int64) (n int) {
	t.Helper()
	for _, c := range where {
		n += checkCond(t, c)
	}
	checkOrder(t, order)
	if limit != nil && *limit < 0 || offset != nil && *offset < 0 {
		t.Fatal("limit or offset is negative")
	}
	return n
}

func checkRequest(t *testing.T, raw string, req *query.Request) {
	t.Helper()
	checkItems(t, req.Select, raw, 0)
	n := checkModifiers(t, req.Where, req.Order, req.Limit, req.Offset)
	for key, m := range req.Embeds {
		if len(m.Path) == 0 || key != query.PathKey(m.Path) {
			t.Fatalf("embed %q has the path %q", key, m.Path)
		}
		n += checkModifiers(t, m.Where, m.Order, m.Limit, m.Offset)
	}
	if n > 1000 {
		t.Fatalf("%d conditions", n)
	}
	for _, name := range append(req.Columns, req.OnConflict...) {
		if name == "" {
			t.Fatal("a column has no name")
		}
	}
	if req.Distinct != nil {
		for _, f := range req.Distinct.On {
			checkField(t, f)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"select=id,title&author_id.eq=7&order=id.desc&limit=50", `"a.b".eq=1&a.b.c=not.in.(1,"2)")&data->a->>-1.like=%25`, "a.not.is.null&b.is.TRUE=",
		"or=(a.eq.1,not.and(b.in.(1,2),c.fts(x).y))&x.not.or=(a.cs.{1})", "a.is=eq.1&select=a(*)", "price.gt.col=cost&@all&@cursor=&@distinct=a,b",
		"limit=1&x.limit=2&columns=\"a\"&on_conflict=b,c", "id.eq(any)={1,\"a\\\"\"}", "a=b", "age[gte]=3&age__lt=2&age>=1", "+%2B=%zz",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		start := time.Now()
		req, err := query.Parse(raw)
		call, callErr := query.ParseCall(raw, func(name string) bool { return len(name) == 1 })
		checkQuick(t, start)
		if err != nil {
			checkError(t, err)
		} else {
			checkRequest(t, raw, req)
			if req.Args != nil {
				t.Fatal("a table's request has arguments")
			}
		}
		if callErr != nil {
			checkError(t, callErr)
			return
		}
		checkRequest(t, raw, call)
		for _, a := range call.Args {
			if len(a.Name) != 1 {
				t.Fatalf("argument %q", a.Name)
			}
		}
	})
}

// FuzzValue checks that any value arrives in both forms as it was sent, alone, in a list and in a condition.
func FuzzValue(f *testing.F) {
	for _, seed := range []string{"", "x", `a"b\c,d)(e{f}g.h`, "null", " ", "not.eq.x", "é+%&="} {
		f.Add("col", seed)
		f.Add(seed, "v")
	}
	quoted := func(s string) string {
		return `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(s) + `"`
	}
	f.Fuzz(func(t *testing.T, column, value string) {
		if column == "" || strings.ContainsRune(column+value, 0) || !utf8.ValidString(column) || !utf8.ValidString(value) {
			return
		}
		name := escape(quoted(column))
		for _, in := range []string{
			name + ".eq=" + escape(value), name + "=eq." + escape(value), "or=(" + name + ".eq." + escape(quoted(value)) + ")",
			name + ".in=(" + escape(quoted(value)) + ")", name + "=in.(" + escape(quoted(value)) + ")", "or=(" + name + ".in.(" + escape(quoted(value)) + "))",
			name + ".eq(any)={" + escape(quoted(value)) + "}", "or=(" + name + ".eq(all).{" + escape(quoted(value)) + "})",
		} {
			req, err := query.Parse(in)
			if err != nil {
				t.Fatalf("%s: %v", in, err)
			}
			c := req.Where[0]
			if l, ok := c.(*query.Logic); ok {
				c = l.Conds[0]
			}
			got := c.(*query.Filter)
			values := got.List
			if values == nil {
				values = []string{got.Value}
			}
			if diff := cmp.Diff([]string{column, value}, append([]string{got.Field.Name}, values...)); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", in, diff)
			}
		}
	})
}

// escape form-encodes everything that is not a letter or digit.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		const hex = "0123456789ABCDEF"
		b.WriteByte('%')
		b.WriteByte(hex[s[i]>>4])
		b.WriteByte(hex[s[i]&15])
	}
	return b.String()
}

func FuzzSelect(f *testing.F) {
	for _, seed := range []string{
		"*", "id, \"a b\" , x:y::int.sum()::text", "a!b!inner(c,...d(*),count())", "data->a->>0::numeric(10,2)[]", "a(", "x::public.mood.max()", "a:b(",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		start := time.Now()
		items, err := query.ParseSelect(text)
		checkQuick(t, start)
		if err != nil {
			checkError(t, err)
			return
		}
		if items == nil {
			t.Fatal("no list")
		}
		checkItems(t, items, text, 0)
	})
}

func FuzzOrder(f *testing.F) {
	for _, seed := range []string{"id", "a.desc.nullslast,b(c->d).asc", `"x.y".nullsfirst`, "a.b", "a(b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		start := time.Now()
		terms, err := query.ParseOrder(text)
		checkQuick(t, start)
		if err != nil {
			checkError(t, err)
			return
		}
		if len(terms) == 0 {
			t.Fatal("no terms")
		}
		checkOrder(t, terms)
	})
}

func FuzzLogic(f *testing.F) {
	for _, seed := range []string{"(a.eq.1)", `(a.eq."x",not.or(b.in.(1,"2"),c.is.null),d->e.cs.{1,2})`, "(a.eq.(1,2),b.like(any).{x*})", "((", "(a.eq.{,b.eq.{)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw := "or=" + escape(text)
		start := time.Now()
		req, err := query.Parse(raw)
		checkQuick(t, start)
		if err != nil {
			checkError(t, err)
			return
		}
		if len(req.Where) != 1 {
			t.Fatalf("%d conditions", len(req.Where))
		}
		checkRequest(t, raw, req)
	})
}

func FuzzPrefer(f *testing.F) {
	for _, seed := range []string{"return=minimal, count=exact", `handling=strict;x="a,b", foo`, "max-affected=5, wait=10, timezone=UTC", `a="b`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		start := time.Now()
		p, err := query.ParsePrefer([]string{header})
		checkQuick(t, start)
		if (err != nil) != (p.Handling == query.HandlingStrict && len(p.Invalid) > 0) {
			t.Fatalf("error is %v of %+v", err, p)
		}
		if err != nil {
			checkError(t, err)
		}
		// What is applied can be asked for again.
		applied := p.Applied("resolution", "missing", "return", "count", "tx", "handling", "timezone", "max-affected", "min-affected", "nested", "wait")
		again, err := query.ParsePrefer([]string{applied})
		if err != nil {
			t.Fatal(err)
		}
		p.Invalid = nil
		if diff := cmp.Diff(p, again); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", applied, diff)
		}
	})
}

func FuzzAccept(f *testing.F) {
	for _, seed := range []string{
		"*/*", "text/csv;q=0.5, application/json;q=0, */*", `application/vnd.pgrst.plan+json; for="text/csv"; options=analyze|wal`, "application/vnd.pgrst.array;nulls=stripped",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		start := time.Now()
		media, err := query.ParseAccept(header)
		checkQuick(t, start)
		if err != nil {
			checkError(t, err)
			return
		}
		if len(media) == 0 {
			t.Fatal("nothing accepted")
		}
		for _, m := range media {
			if (m.Plan != nil) != (m.Kind == query.MediaPlan) || m.StripNulls && m.Kind != query.MediaObject && m.Kind != query.MediaArray {
				t.Fatalf("media is %+v", m)
			}
			if m.Kind == query.MediaAny {
				continue
			}
			again, err := query.ParseAccept(m.ContentType())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]query.Media{m}, again); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", m.ContentType(), diff)
			}
		}
	})
}
