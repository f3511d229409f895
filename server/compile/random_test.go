package compile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/fault"
)

// TestRandomRequestsAgree makes requests of everything that the language has and asks for each in different ways that
// must give the same: with a limit that cuts nothing off, which is applied before the embeds, from a CTE, and counted.
func TestRandomRequestsAgree(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	const requests = 500
	served := 0
	for seed := range int64(requests) {
		g := generator{rand.New(rand.NewSource(seed)), 0}
		relation := g.pick("posts", "authors", "comments", "tags", "popular")
		raw := g.request(relation)
		q := r.parse(raw)
		rel := r.relation(relation)
		bounded, ordered := r.c, r.c
		bounded.MaxRows = 1000
		source := compile.Source{
			With: `with "bough_rows" as (select *, 1 as "beside" from "` + relation + `")`, From: `"bough_rows"`,
		}
		var results []string
		var failure error
		for _, make := range []func() (*compile.Statement, error){
			func() (*compile.Statement, error) { return ordered.Select(rel, q, compile.Options{}) },
			func() (*compile.Statement, error) { return bounded.Select(rel, q, compile.Options{}) },
			func() (*compile.Statement, error) {
				return bounded.SelectFrom(source, rel, q, compile.Options{ETag: true})
			},
		} {
			s, err := make()
			if err != nil {
				var refused *fault.Error
				if !errors.As(err, &refused) {
					t.Fatalf("%s?%s: %v", relation, raw, err)
				}
				failure = err
				break
			}
			result, err := r.run(s)
			if err != nil {
				if !dataError(err) {
					t.Fatalf("%s?%s: %v\n%s", relation, raw, err, s.SQL)
				}
				failure = err
				break
			}
			results = append(results, canonical(t, result))
		}
		if failure != nil {
			continue
		}
		served++
		for _, other := range results[1:] {
			if diff := cmp.Diff(results[0], other); diff != "" {
				t.Errorf("%s?%s (-unbounded +otherwise):\n%s", relation, raw, diff)
			}
		}
		s, err := r.c.Count(rel, q)
		if err != nil {
			t.Fatalf("%s?%s: %v", relation, raw, err)
		}
		count, err := r.run(s)
		if err != nil {
			t.Fatalf("%s?%s: %v\n%s", relation, raw, err, s.SQL)
		}
		var rows []any
		if err := json.Unmarshal([]byte(results[0]), &rows); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(`[{"count":%d}]`, len(rows)); count != want {
			t.Errorf("%s?%s: counted %s, want %s\n%s", relation, raw, count, want, s.SQL)
		}
	}
	if served < requests/2 {
		t.Errorf("only %d of %d requests make sense", served, requests)
	}
	t.Logf("%d of %d requests were served", served, requests)
}

// canonical sorts all arrays, whose order a request need not fix.
func canonical(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	out, err := json.Marshal(sorted(v))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func sorted(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = sorted(v[k])
		}
	case []any:
		for i := range v {
			v[i] = sorted(v[i])
		}
		slices.SortFunc(v, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return v
}

// generator makes query strings.
type generator struct {
	*rand.Rand
	names int
}

type related struct {
	target, to string
	one        bool
}

var columnsOf = map[string][]string{
	"posts":    {"id", "title", "body", "author_id", "score", "views", "published", "created", "labels", "words", "data", "plain", "during", "data->a->>b", "data->n", "labels->0"},
	"authors":  {"id", "name", "mood", "born", "home", "shout", "home->>street"},
	"comments": {"id", "text", "likes", "post_id"},
	"tags":     {"id", "name"},
	"popular":  {"id", "title", "score"},
	"profiles": {"author_id", "bio", "links"},
}

var relatedTo = map[string][]related{
	"posts":    {{"author_id", "authors", true}, {"posts_editor", "authors", true}, {"comments", "comments", false}, {"tags", "tags", false}, {"top_comment", "comments", true}},
	"authors":  {{"posts!author_id", "posts", false}, {"profiles", "profiles", true}, {"fans", "authors", false}, {"mentor_id", "authors", true}, {"popular", "popular", false}, {"comments", "comments", false}},
	"comments": {{"posts", "posts", true}, {"authors", "authors", true}},
	"tags":     {{"posts", "posts", false}},
	"popular":  {{"comments", "comments", false}, {"author_id", "authors", true}},
	"profiles": {{"authors", "authors", true}},
}

var filtersOf = map[string][]string{
	"posts":    {"id.gt=1", "title=like.F*", "score=gt.3", "published=is.true", "data->a->>b.is.null", "labels=ov.{a}", "or=(id.eq.1,views.gt.5)", "id=in.(1,2,4)", "cost.gt.col=score"},
	"authors":  {"id.lte=3", "name=in.(Ann,Bob)", "mood=eq.happy", "shout=neq.ANN!", "not.and=(id.eq.1,name.eq.Ann)"},
	"comments": {"likes=gt.0", "id.lt=5", "text=fts.nice", "or=(likes.eq.0,id.gt.2)"},
	"tags":     {"id=neq.3", "name=match.^g"},
	"popular":  {"score=lt.5"},
	"profiles": {"bio=ilike.*r*"},
}

func (g *generator) pick(list ...string) string { return list[g.Intn(len(list))] }

func (g *generator) chance(percent int) bool { return g.Intn(100) < percent }

func (g *generator) name() string { g.names++; return fmt.Sprintf("n%d", g.names) }

func (g *generator) request(relation string) string {
	var parameters []string
	items := g.items(relation, "", 0, &parameters)
	parameters = append(parameters, "select="+strings.Join(items, ","))
	if g.chance(10) {
		parameters = append(parameters, "@distinct")
	}
	return strings.ReplaceAll(strings.Join(parameters, "&"), ">", "%3E")
}

// items makes a select list and, for what it embeds, the parameters at their path.
func (g *generator) items(relation, path string, depth int, parameters *[]string) (items []string) {
	at := func(parameter string) { *parameters = append(*parameters, path+parameter) }
	if g.chance(15) {
		items = append(items, "*")
	}
	for range g.Intn(4) {
		column := g.pick(columnsOf[relation]...)
		switch g.Intn(4) {
		case 0:
			items = append(items, g.name()+":"+column)
		case 1:
			items = append(items, g.name()+":"+column+"::text")
		default:
			items = append(items, column)
		}
	}
	aggregated := g.chance(15)
	if aggregated {
		name := g.name()
		items = append(items, name+":"+g.pick("count()", "id.max()", "id.sum()", "id.avg()::numeric(8,2)"))
		if g.chance(50) {
			at(name + ".gt=" + g.pick("0", "1", "3"))
		}
		if g.chance(50) {
			at("order=" + name + ".desc")
		}
	}
	if g.chance(40) {
		at(g.pick(filtersOf[relation]...))
	}
	var orders []string
	for _, way := range relatedTo[relation] {
		if depth == 3 || !g.chance(35) {
			continue
		}
		name := g.name()
		item, child := name+":"+way.target, path+name+"."
		if g.chance(25) {
			item, child = "..."+way.target, path+strings.Split(way.target, "!")[0]+"."
		}
		if g.chance(25) {
			item += "!inner"
		}
		if g.chance(15) {
			item += "()"
			if g.chance(50) {
				*parameters = append(*parameters, child+g.pick(filtersOf[way.to]...))
			}
			if !strings.HasPrefix(item, "...") && g.chance(60) {
				at(g.pick(name+".is.null", name+"=not.is.null", "or=("+name+".is.null,"+name+".not.is.null)"))
			}
		} else {
			item += "(" + strings.Join(g.items(way.to, child, depth+1, parameters), ",") + ")"
		}
		if way.one && strings.HasPrefix(item, "n") && g.chance(30) {
			column := g.pick(columnsOf[way.to][:2]...)
			orders = append(orders, name+"("+column+")"+g.pick("", ".desc", ".nullsfirst"))
		}
		items = append(items, item)
	}
	if !aggregated && len(orders) > 0 {
		at("order=" + strings.Join(orders, ","))
	} else if path != "" && !aggregated && relation != "profiles" && g.chance(30) {
		at("order=id.desc")
		at("limit=" + g.pick("1", "2"))
	}
	return items
}
