package compile_test

import (
	"fmt"
	"strings"
	"testing"
)

// ids makes the rows that a request for ids gives.
func ids(numbers ...int) string {
	rows := make([]string, len(numbers))
	for i, n := range numbers {
		rows[i] = fmt.Sprintf(`{"id":%d}`, n)
	}
	return "[" + strings.Join(rows, ",") + "]"
}

func TestFilters(t *testing.T) {
	t.Parallel()
	cases := []struct {
		relation, filter string
		want             []int
	}{
		{"posts", "id.eq=1", []int{1}},
		{"posts", "id=not.eq.1", []int{2, 3, 4}},
		{"posts", "id=neq.1", []int{2, 3, 4}},
		{"posts", "id.gt=2&id.lte=3", []int{3}},
		{"posts", "id.gte=3&id.lt=4", []int{3}},
		{"posts", "score=gt.3&score=lt.4", []int{2}},
		{"posts", "title.like=F%25", []int{1, 4}},
		{"posts", "title=ilike.f*", []int{1, 4}},
		{"posts", "title=match.^F", []int{1, 4}},
		{"posts", "title=imatch.^f", []int{1, 4}},
		{"posts", "body.eq=100%25 \\ \"odd\"", []int{4}},
		{"posts", "id=in.(1,3)", []int{1, 3}},
		{"posts", "id=not.in.(1,3)", []int{2, 4}},
		{"posts", "id=in.()", nil},
		{"posts", `title=in.("First","a,b","q\"x","back\\slash")`, []int{1}},
		{"posts", "views=in.(7,10)", []int{1, 3}},
		{"authors", "mood=in.(happy,so so)", []int{1, 4}},
		{"authors", "mood=eq.so so", []int{4}},
		{"authors", "mood=gt.happy", []int{2, 4}},
		{"posts", `labels=in.("{a,b}","{}")`, []int{1, 2}},
		{"posts", `during=in.("[1,10)","empty")`, []int{1, 4}},
		{"posts", `words=in.("{x}")`, []int{1}},
		{"posts", "labels=in.()", nil},
		{"posts", `labels=not.in.("{a,b}")`, []int{2, 4}},
		{"posts", `labels=eq(any).{"{a,b}","{}"}`, []int{1, 2}},
		{"posts", `labels=gt(all).{"{a}","{b}"}`, []int{4}},
		{"posts", "created=in.(2024-01-01T10:00:00Z)", []int{1}},
		{"posts", "labels=eq.{a,b}", []int{1}},
		{"posts", "published=is.true", []int{1, 4}},
		{"posts", "published=is.false", []int{2}},
		{"posts", "published.is.unknown", []int{3}},
		{"posts", "published=not.is.true", []int{2, 3}},
		{"posts", "body.is.null", []int{3}},
		{"posts", "body=not.is.null", []int{1, 2, 4}},
		{"posts", "body.is.not_null", []int{1, 2, 4}},
		{"posts", "views=isdistinct.7", []int{1, 2, 4}},
		{"posts", "views=not.isdistinct.7", []int{3}},
		{"posts", "title=like(any).{F*,S*}", []int{1, 2, 4}},
		{"posts", "title=like(all).{F*,*th}", []int{4}},
		{"posts", "title=not.like(any).{F*,S*}", []int{3}},
		{"posts", "id=gt(all).{1,2}", []int{3, 4}},
		{"posts", "id=eq(any).{1,4}", []int{1, 4}},
		{"posts", "search=fts.cat", []int{2}},
		{"posts", "search=fts(english).cats", []int{2}},
		{"posts", "body=plfts(english).the running cat", []int{2}},
		{"posts", "body=phfts(english).hello world", []int{1}},
		{"posts", "body=wfts(english).hello or running", []int{1, 2}},
		{"posts", "body=not.wfts(english).hello or running", []int{4}},
		{"posts", "data=fts(simple).deep", []int{1}},
		{"posts", "data->a->>b=fts.deep", []int{1}},
		{"posts", "labels=cs.{a}", []int{1}},
		{"posts", "labels=cd.{a,b,c}", []int{1, 2}},
		{"posts", "labels=ov.{b,\"c,d\"}", []int{1, 4}},
		{"posts", `data=cs.{"n":5}`, []int{1}},
		{"posts", "during=cs.[2,3)", []int{1}},
		{"posts", "during=ov.[9,11)", []int{1, 2}},
		{"posts", "during=sl.[10,11)", []int{1}},
		{"posts", "during=sr.[1,5)", []int{2}},
		{"posts", "during=nxr.[1,10)", []int{1}},
		{"posts", "during=nxl.[10,20)", []int{2}},
		{"posts", "during=adj.[10,12)", []int{1}},
		{"posts", "data->a->>b=eq.deep", []int{1}},
		{"posts", "data->n=gt.5", []int{2}},
		{"posts", "data->>n=gt.5", nil},
		{"posts", "data->list->>0=eq.1", []int{1}},
		{"posts", `data->list->>-1=eq.3`, []int{1}},
		{"posts", `data->>"k'q"=eq.quote`, []int{1}},
		{"posts", "data->n=in.(5,15)", []int{1, 2}},
		{"posts", "data->>n.is.null", []int{3, 4}},
		{"authors", "home->>street.eq=Main St", []int{1}},
		{"posts", "labels->>0=eq.a", []int{1}},
		{"posts", "cost.gt.col=score", []int{1}},
		{"posts", "cost.lt.col=score", []int{2, 4}},
		{"authors", "shout.eq=BOB!", []int{2}},
		{"posts", "or=(id.eq.1,and(id.gt.2,published.is.true))", []int{1, 4}},
		{"posts", "not.or=(id.eq.1,id.eq.2)", []int{3, 4}},
		{"posts", "and=(id.gt.1,not.and(id.gt.2,id.lt.4))", []int{2, 4}},
		{"posts", "or=(id.not.in.(1,2),title.eq.\"First\")", []int{1, 3, 4}},
		{"posts", "title=eq.' or 1=1 --", nil},
		{"posts", "title.eq='; drop table posts; --", nil},
		{"posts", "title=in.(\"'},{')--\")", nil},
	}
	r := newReader(t)
	var checked []readCase
	for _, c := range cases {
		checked = append(checked, readCase{c.relation, "select=id&order=id&" + c.filter, ids(c.want...)})
	}
	r.check(checked)
}

// Names and texts that would leave their quotes if anything were written without them.
func TestNothingLeavesItsQuotes(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	evil := []string{`x"; drop table posts; --`, `x'; drop table posts; --`, `\'; drop table posts; --`, `$1`, `$$`, `\`, `\\'`,
		`"`, `""`, `'`, `''`, `E'\''`, "a\nb", "/*", "--", `☃"`, "\x01", strings.Repeat("ä", 40), strings.Repeat(`"`, 70)}
	for _, text := range evil {
		quoted := strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), `"`, `\"`)
		for _, form := range []string{
			`select="%s":id&id=eq.1`,
			`select=data->"%s"&id=eq.1`,
			`select=data->>"%s"&id=eq.1`,
			`select=id,"%s":author_id(id,"%s":name)&id=eq.1`,
			`select=id,"%s":comments(id,"%s":text)&id=eq.1`,
			`select="%s":author_id.sum(),title&title=eq.First`,
			`data->>"%s".eq="%s"`,
			`title.eq="%s"`,
			`title=in.("%s","%s")`,
			`order=data->"%s"`,
			`@distinct=data->"%s"&order=data->"%s"`,
			`title=fts.'%s'`,
		} {
			raw := strings.ReplaceAll(form, "%s", escape(quoted))
			if _, err := r.get("posts", raw); err != nil && !dataError(err) {
				t.Errorf("%s: %v", raw, err)
			}
		}
		for _, form := range []string{`select="%s"`, `select="%s"(id)`, `select=id!"%s"(id)`, `"%s".eq=1`, `order="%s"`} {
			raw := strings.ReplaceAll(form, "%s", escape(quoted))
			_, err := r.get("posts", raw)
			if got := code(err); got != "42703" && got != "PGRST200" {
				t.Errorf("%s: %v", raw, err)
			}
		}
	}
	r.check([]readCase{{"tags", "select=id&order=id", ids(1, 2, 3)}})
}

func TestZeroBytesAreRefused(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	for _, raw := range []string{`select="a%00b":id`, `select=data->"a%00b"`, `select=id::"a%00b"`, `title.eq=a%00b`, `select=comments("a%00":id)`} {
		q, err := parseOrNil(raw)
		if err != nil {
			continue // refused before
		}
		s, err := r.c.Select(r.relation("posts"), q, optionsNone)
		if err == nil {
			_, err = r.rows(s)
		}
		if code(err) != "22021" {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
