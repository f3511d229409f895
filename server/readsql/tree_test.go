package readsql

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseTree(t *testing.T) {
	t.Parallel()
	v, err := parseTree(`{A :x 1 :name :funcid :y <> :s "" :l (i 1 2) :e\ x\}  \(a\\ :n {CONST :constvalue 3 [ 1 -2 3 ]} :c {CONST :constvalue <>} :m ({B} {B :p "q\ r"})}`)
	if err != nil {
		t.Fatal(err)
	}
	n := v.node
	got := []any{n.name, n.get("x").number(), n.get("name").token, n.get("funcid").token, n.get("y").empty(), n.get("s").token, len(n.get("l").list),
		n.get(`e\ x\}`).token, n.get("n").node.get("constvalue").bytes, n.get("c").node.get("constvalue").empty(), len(n.get("m").list), n.get("m").list[1].node.get("p").token}
	want := []any{"A", uint32(1), ":funcid", "", true, `""`, 3, `\(a\\`, []byte{1, 254, 3}, true, 2, `"q\ r"`}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for _, text := range []string{"", "{", "{}", "{A :x}", "{A x 1}", "{A :x 1", "(1 2", ")", "{A : 1}", "{A :x 1}}", "{CONST :constvalue 1}", "{CONST :constvalue 1 [ 300 ]}", "{CONST :constvalue 1 [ 1", "{A} {B}",
		strings.Repeat("(", 100_000)} {
		if v, err := parseTree(text); err == nil {
			t.Errorf("%.40s: read as %v", text, v)
		}
	}
}

// write is the inverse of parseTree.
func (v value) write(b *strings.Builder) {
	switch {
	case v.node != nil:
		b.WriteString("{" + v.node.name)
		for _, f := range v.node.fields {
			b.WriteString(" :" + f.label + " ")
			f.value.write(b)
		}
		b.WriteString("}")
	case v.bytes != nil:
		b.WriteString("1 [")
		for _, c := range v.bytes {
			b.WriteString(" " + string("0123456789"[c/100]) + string("0123456789"[c/10%10]) + string("0123456789"[c%10]))
		}
		b.WriteString(" ]")
	case v.token != "":
		b.WriteString(v.token)
	default:
		b.WriteString("(")
		for _, item := range v.list {
			b.WriteString(" ")
			item.write(b)
		}
		b.WriteString(")")
	}
}

func FuzzParseTree(f *testing.F) {
	f.Add(`(({QUERY :commandType 1 :cteList <> :targetList ({TARGETENTRY :expr {CONST :constvalue 4 [ 1 0 ]} :resname a\ b})}))`)
	f.Add(`{A :x \{ :y (o 1 2) :z "" :w {FUNCEXPR :funcid 2077 :args ({CONST :constvalue 8 [ 32 0 0 0 97 98 99 100 ]})}}`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := parseTree(text)
		if err != nil {
			return
		}
		var b strings.Builder
		v.write(&b)
		again, err := parseTree(b.String())
		if err != nil {
			t.Fatalf("%q was written as %q, which cannot be read", text, b.String())
		}
		if d := cmp.Diff(v, again, cmp.AllowUnexported(value{}, node{}, field{})); d != "" {
			t.Fatalf("%q is not what it was (-want +got):\n%s", text, d)
		}
		_, _ = walk(v)
	})
}

func TestCache(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := newCache(2, time.Minute)
	c.now = func() time.Time { return now }
	a, b, d := key{sql: "a"}, key{sql: "b"}, key{sql: "d"}
	va, vb, vd := &verdict{}, &verdict{}, &verdict{}
	c.put(a, va)
	c.put(b, vb)
	c.get(a)
	c.put(d, vd)
	if c.get(a) != va || c.get(b) != nil || c.get(d) != vd {
		t.Error("the one used longest ago was not the one to go")
	}
	c.put(a, vb)
	if c.get(a) != vb || c.order.Len() != 2 {
		t.Error("a verdict was not replaced")
	}
	now = now.Add(time.Minute)
	if c.get(a) != nil || len(c.entries) != 1 {
		t.Error("an old verdict was used or kept")
	}
	if c.get(key{sql: "a", role: "other"}) != nil {
		t.Error("a verdict was used for another role")
	}
}

// PostgreSQL reads 'today' when it analyses a statement, so that such a statement is analysed each time.
func TestDated(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]bool{
		"select now()": false, "select 1": false, "select date 'today'": true, "select 'NOW'::timestamptz": true,
		"select ' tomorrow '::date": true, `select E'\x6eow'::timestamp`: true, `select date U&'tod\0061y'`: true,
	} {
		if dated(sql) != want {
			t.Errorf("%s: got %v", sql, !want)
		}
	}
}

func TestTag(t *testing.T) {
	t.Parallel()
	if got, want := tag("run */ drop\n"), "/* run __ drop_ */ "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
