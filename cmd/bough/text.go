package main

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// measure returns the rule by which text takes columns: the same everywhere, whatever the locale says.
func measure() *runewidth.Condition {
	return &runewidth.Condition{StrictEmojiNeutral: true}
}

// textWidth returns how many columns s takes on a terminal.
func textWidth(s string) int { return measure().StringWidth(s) }

// fit returns s, shortened with an ellipsis to at most width columns.
func fit(s string, width int) string {
	if width <= 0 {
		return ""
	}
	m := measure()
	if m.StringWidth(s) <= width {
		return s
	}
	short := m.Truncate(s, width, "…")
	// Runes that join with the ellipsis could make the whole wider than its parts.
	for m.StringWidth(short) > width {
		_, size := utf8.DecodeLastRuneInString(strings.TrimSuffix(short, "…"))
		short = short[:len(short)-len("…")-size] + "…"
	}
	return short
}

// pad returns s with spaces up to width columns.
func pad(s string, width int, right bool) string {
	fill := strings.Repeat(" ", max(0, width-textWidth(s)))
	if right {
		return fill + s
	}
	return s + fill
}

// harmless returns s as one line that cannot command a terminal: control characters, line separators and marks that
// turn the direction of the text are written as escapes.
func harmless(s string) string { return escape(s, "") }

// harmlessLines is harmless, but keeps line breaks and tabs.
func harmlessLines(s string) string { return escape(s, "\n\t") }

func escape(s, keep string) string {
	if !strings.ContainsFunc(s, isHarmful) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !isHarmful(r) || strings.ContainsRune(keep, r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func isHarmful(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// wrap breaks s between words into lines of at most width columns, and within words that are longer.
func wrap(s string, width int) []string {
	var lines []string
	for _, paragraph := range strings.Split(s, "\n") {
		line := ""
		for _, word := range strings.Fields(paragraph) {
			if line != "" && textWidth(line)+1+textWidth(word) <= width {
				line += " " + word
				continue
			}
			if line != "" {
				lines = append(lines, line)
			}
			for textWidth(word) > width {
				head := measure().Truncate(word, width, "")
				if head == "" {
					break
				}
				lines = append(lines, head)
				word = word[len(head):]
			}
			line = word
		}
		lines = append(lines, line)
	}
	return lines
}

// ago returns the time from t to now, or from now to t, in one unit: "3m ago", "in 6d".
func ago(now, t time.Time) string {
	d := now.Sub(t)
	switch {
	case d < 0:
		left := -d
		if left > time.Hour {
			left = left.Round(time.Minute) // what was just set to end in seven days should not end in six
		}
		return "in " + roughly(left)
	case d < time.Second:
		return "now"
	}
	return roughly(d) + " ago"
}

// roughly returns d in its largest unit.
func roughly(d time.Duration) string {
	const day = 24 * time.Hour
	for _, unit := range []struct {
		length time.Duration
		name   string
		from   time.Duration
	}{
		{365 * day, "y", 2 * 365 * day},
		{30 * day, "mo", 90 * day},
		{day, "d", 2 * day},
		{time.Hour, "h", 2 * time.Hour},
		{time.Minute, "m", 2 * time.Minute},
	} {
		if d >= unit.from {
			return fmt.Sprintf("%d%s", d/unit.length, unit.name)
		}
	}
	if d >= time.Second {
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return fmt.Sprintf("%dms", d/time.Millisecond)
}

// plural returns "1 branch" or "2 branches".
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// styles colours text, or not.
type styles struct{ on bool }

func (s styles) paint(code, text string) string {
	if !s.on || code == "" || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s styles) bold(text string) string { return s.paint("1", text) }
func (s styles) dim(text string) string  { return s.paint("2", text) }
func (s styles) red(text string) string  { return s.paint("31", text) }
