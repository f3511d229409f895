package query_test

import (
	"strings"
	"testing"
	"time"

	"github.com/boughdb/bough/server/query"
)

// checkLinear fails the test if parsing takes much longer than the tens of milliseconds that it should, each time: once,
// the machine may have had other things to do.
func checkLinear(t *testing.T, in string, parse func()) {
	t.Helper()
	var took [3]time.Duration
	for i := range took {
		start := time.Now()
		parse()
		if took[i] = time.Since(start); took[i] <= 2*time.Second {
			return
		}
	}
	t.Errorf("%.40s... took %s", in, took)
}

// The time that parsing takes must grow with the length of the input only: these repeat what a parser may scan ahead
// from again and again.
func TestLongInputIsParsedInLinearTime(t *testing.T) {
	t.Parallel()
	const n = 1 << 18
	fill := func(piece string) string { return strings.Repeat(piece, n/len(piece)) }
	for _, in := range []string{
		"or=(" + fill("a.eq.{,"), "or=(" + fill(`a.eq."x"y,`), "or=(" + fill("a.eq.(,"), "or=(" + strings.Repeat("a.in.(", 900) + fill("x"),
		"or=(" + strings.Repeat("a.eq.{,", 900) + fill("x"), "or=(" + strings.Repeat("a.fts(,", 900) + fill("x"), "or=(" + fill("a.in.(1,2),"),
		"or=(" + strings.Repeat("a.in.(1),", 900) + fill(","), "or=" + fill("("), fill("a."), fill("a->b"), fill(`"a".`), fill("fts("), fill("fts(.") + "=x",
		"select=" + fill("a::b.c,"), "select=" + strings.Repeat("a::b.c(),", 900) + fill("x"), "select=" + strings.Repeat("a::b.", 900) + fill("x"), "select=" + fill("a("), "select=" + fill("a,"),
		"select=" + fill("a:"), "select=" + fill("a!"), "select=" + fill(" "), "select=" + fill(`"a",`), "order=" + fill("a."), "order=" + fill("a,"), "columns=" + fill("a,"),
		"id.in=(" + fill("1,"), "id.in=(" + fill(`"`), "id.in=(" + fill(`"a"b,`), "id.eq(any)={" + fill(`\,`), "id.eq(any)={" + fill("a ,"),
		fill("a"), fill("a_"), fill("a>"), fill("a[") + "=1", fill("__") + "=1", "a=" + fill("not."), fill("&"), fill("a=eq.1&"), fill("a.b.limit=1&"), fill("%41"), fill("+") + "=",
		fill("a.is=eq.1&"),
	} {
		checkLinear(t, in, func() { _, _ = query.Parse(in) })
	}
	for _, in := range []string{fill(","), fill("a,"), fill(`"`), fill("tx=x,"), fill(";"), fill("text/csv,"), fill("*/*;q=0.1,"), fill("text/csv;q=0.5;"), fill("return=minimal;")} {
		checkLinear(t, in, func() {
			_, _ = query.ParsePrefer([]string{in})
			_, _ = query.ParseAccept(in)
		})
	}
}
