package schematext

import (
	"fmt"
	"slices"
	"strings"
)

// Difference is what another schema has, lacks and has otherwise.
type Difference struct {
	Added, Removed, Changed []Change
}

// Change is an object that differs, with the lines that tell how: those that are gone begin with "-", new ones with "+" and
// those around them with a space.
type Change struct {
	Key
	Lines []string
}

// around is how many unchanged lines are shown before and after a changed one.
const around = 2

// Compare tells how to differs from from. Both are in the order of Read.
func Compare(from, to []Object) Difference {
	var d Difference
	for len(from) > 0 || len(to) > 0 {
		switch {
		case len(to) == 0 || len(from) > 0 && from[0].compare(to[0].Key) < 0:
			d.Removed = append(d.Removed, Change{from[0].Key, marked("-", from[0].Lines)})
			from = from[1:]
		case len(from) == 0 || from[0].compare(to[0].Key) > 0:
			d.Added = append(d.Added, Change{to[0].Key, marked("+", to[0].Lines)})
			to = to[1:]
		default:
			if !slices.Equal(from[0].Lines, to[0].Lines) {
				d.Changed = append(d.Changed, Change{to[0].Key, unified(from[0].Lines, to[0].Lines)})
			}
			from, to = from[1:], to[1:]
		}
	}
	return d
}

// Empty reports whether there is no difference.
func (d Difference) Empty() bool { return len(d.Added)+len(d.Removed)+len(d.Changed) == 0 }

// Text writes the differences in at most about limit bytes: whole objects, as many as fit, changed ones first since their
// lines say most. left counts those that did not fit. The lines of an object too long for any text are cut.
func (d Difference) Text(limit int) (text string, left int) {
	var b strings.Builder
	for _, part := range []struct {
		sign    string
		changes []Change
	}{{"~", d.Changed}, {"-", d.Removed}, {"+", d.Added}} {
		for _, c := range part.changes {
			entry := c.text(part.sign, limit/4)
			if b.Len()+len(entry) > limit {
				left++
				continue
			}
			b.WriteString(entry)
		}
	}
	return b.String(), left
}

func (c Change) text(sign string, limit int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", sign, c.Key)
	for i, line := range c.Lines {
		if b.Len()+len(line) > limit {
			fmt.Fprintf(&b, "  … %d more lines\n", len(c.Lines)-i)
			break
		}
		fmt.Fprintf(&b, "  %s\n", line)
	}
	return b.String()
}

func marked(sign string, lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = sign + " " + line
	}
	return out
}

// unified returns the lines of both texts in one list, without those far from any change.
func unified(from, to []string) []string {
	all := script(from, to)
	near := make([]bool, len(all))
	for i, line := range all {
		if line[0] != ' ' {
			for j := max(0, i-around); j <= min(len(all)-1, i+around); j++ {
				near[j] = true
			}
		}
	}
	var out []string
	for i, line := range all {
		switch {
		case near[i]:
			out = append(out, line)
		case i > 0 && near[i-1]:
			out = append(out, "  …")
		}
	}
	if len(out) > 0 && out[len(out)-1] == "  …" {
		out = out[:len(out)-1]
	}
	return out
}

// maxCells bounds the work of comparing two texts: beyond it, all lines between their common beginning and end are told to
// be gone and new.
const maxCells = 4_000_000

// script returns how to make to out of from, by a longest common subsequence of their lines.
func script(from, to []string) []string {
	head := 0
	for head < min(len(from), len(to)) && from[head] == to[head] {
		head++
	}
	tail := 0
	for tail < min(len(from), len(to))-head && from[len(from)-1-tail] == to[len(to)-1-tail] {
		tail++
	}
	out := marked(" ", from[:head])
	a, b := from[head:len(from)-tail], to[head:len(to)-tail]
	if len(a)*len(b) > maxCells {
		out = append(append(out, marked("-", a)...), marked("+", b)...)
	} else {
		out = append(out, subsequence(a, b)...)
	}
	return append(out, marked(" ", from[len(from)-tail:])...)
}

func subsequence(a, b []string) []string {
	// length[i][j] is that of the longest common subsequence of a[i:] and b[j:].
	length := make([][]int32, len(a)+1)
	for i := range length {
		length[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	var out []string
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			out = append(out, "  "+a[i])
			i, j = i+1, j+1
		case length[i+1][j] >= length[i][j+1]:
			out = append(out, "- "+a[i])
			i++
		default:
			out = append(out, "+ "+b[j])
			j++
		}
	}
	return append(append(out, marked("-", a[i:])...), marked("+", b[j:])...)
}
