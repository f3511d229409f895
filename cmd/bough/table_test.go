package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestTableFitsItsWidth(t *testing.T) {
	t.Parallel()
	columns := []column{{title: "NAME", min: 6}, {title: "SLUG", min: 6, late: true}, {title: "N", right: true}, {title: "MORE", optional: true}}
	rows := [][]cell{
		{text("plain"), text("plain"), text("1"), text("x")},
		{text("データベース分岐"), text("de-ta-besu"), text("22"), text("y")},
		{text("👩‍👩‍👧 family 🚀🚀"), text("family"), text("333"), text("z")},
		{text("evil\x1b[2J\nline"), text("é́combining"), text("4"), text("\u202eback")},
	}
	for _, width := range []int{200, 44, 24} {
		var b strings.Builder
		if err := (&table{columns: columns, rows: rows}).write(&b, width, styles{}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if w := textWidth(strings.TrimSuffix(line, "\n")); w > width {
				t.Errorf("width %d: %q has %d", width, line, w)
			}
		}
		golden(t, fmt.Sprintf("output/table_%d", width), b.String())
	}
}

func TestColourDoesNotShiftColumns(t *testing.T) {
	t.Parallel()
	tab := &table{columns: []column{{title: "A"}, {title: "B"}}}
	tab.add(cell{"ready", "32"}, text("x"))
	var b strings.Builder
	if err := tab.write(&b, 80, styles{on: true}); err != nil {
		t.Fatal(err)
	}
	want := "\x1b[1mA\x1b[0m      \x1b[1mB\x1b[0m\n\x1b[32mready\x1b[0m  x\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAgo(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, test := range []struct {
		d    time.Duration
		want string
	}{
		{0, "now"},
		{45 * time.Second, "45s ago"},
		{3*time.Minute + 59*time.Second, "3m ago"},
		{5 * time.Hour, "5h ago"},
		{6 * day, "6d ago"},
		{100 * day, "3mo ago"},
		{800 * day, "2y ago"},
		{-6*day - time.Hour, "in 6d"},
		{-500 * time.Millisecond, "in 500ms"},
	} {
		if got := ago(testNow, testNow.Add(-test.d)); got != test.want {
			t.Errorf("%v: %q, want %q", test.d, got, test.want)
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	got := wrap("a few words\nand averyveryverylongone 日本語日本語", 10)
	want := []string{"a few", "words", "and", "averyveryv", "erylongone", "日本語日本", "語"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzFit(f *testing.F) {
	for _, s := range []string{"plain", "日本語", "👩‍👩‍👧", "🇩🇪🇫🇷", "e\u0301\u0301", "\x1b[31m", "\xff\xfe", "\u200d\u200d", "ᄀ각", "a\u202eb"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, width int) {
		width %= 200
		clean := harmless(s)
		if !utf8.ValidString(clean) || strings.ContainsFunc(clean, isHarmful) {
			t.Fatalf("harmless(%q) = %q", s, clean)
		}
		got := fit(clean, width)
		if w := textWidth(got); w > max(width, 0) {
			t.Errorf("fit(%q, %d) = %q has %d columns", clean, width, got, w)
		}
		if textWidth(clean) <= width && got != clean {
			t.Errorf("fit(%q, %d) = %q", clean, width, got)
		}
		if w := max(width, 0); textWidth(pad(got, w, false)) > w {
			t.Errorf("pad(%q, %d) is wider", got, w)
		}
		for _, line := range wrap(clean, max(width, 2)) {
			if strings.ContainsFunc(line, isHarmful) {
				t.Errorf("wrap made %q", line)
			}
		}
	})
}

func FuzzTable(f *testing.F) {
	f.Add("name", "日本語 🚀", 30)
	f.Add("\x1b]0;title\a", "a\nb", 12)
	f.Fuzz(func(t *testing.T, a, b string, width int) {
		width = 12 + (width%200+200)%200
		tab := &table{columns: []column{{title: "A", min: 4}, {title: "B", min: 4, late: true}, {title: "C", optional: true}}}
		tab.add(text(a), text(b), text("c"))
		tab.add(text(b), text(a), text(a))
		var out strings.Builder
		if err := tab.write(&out, width, styles{}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != 3 {
			t.Fatalf("%d lines: %q", len(lines), out.String())
		}
		for _, line := range lines {
			// Neighbouring cells are apart, but a joiner at a cell's start may still change the sum by a column.
			if w := textWidth(line); w > width+2 || strings.ContainsFunc(line, isHarmful) {
				t.Errorf("width %d: %q has %d", width, line, w)
			}
		}
	})
}
