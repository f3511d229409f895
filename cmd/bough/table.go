package main

import (
	"io"
	"strings"
)

const columnGap = 2

// column is a column of a table.
type column struct {
	title string
	// min is how narrow the column may become where space is short; 0 for one that keeps its width.
	min int
	// late columns give way only when the others have reached their min.
	late bool
	// optional columns are left out where even that does not help, the last one first.
	optional bool
	right    bool
}

// cell is the text of a cell and the code of its colour, if it has one.
type cell struct{ text, colour string }

// table is a list of rows below a line of titles. Cells may hold anything; what a terminal would obey is escaped.
type table struct {
	columns []column
	rows    [][]cell
}

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

func text(s string) cell { return cell{text: s} }

// write writes the table, at most width columns wide where its columns allow that.
func (t *table) write(w io.Writer, width int, s styles) error {
	columns, rows := t.columns, make([][]cell, len(t.rows))
	for i, row := range t.rows {
		rows[i] = make([]cell, len(row))
		for j, c := range row {
			rows[i][j] = cell{harmless(c.text), c.colour}
		}
	}
	widths := layout(columns, rows, width)
	for total(widths) > width {
		drop := -1
		for j, c := range columns {
			if c.optional {
				drop = j
			}
		}
		if drop < 0 {
			break
		}
		columns = without(columns, drop)
		for i := range rows {
			rows[i] = without(rows[i], drop)
		}
		widths = layout(columns, rows, width)
	}

	var b strings.Builder
	titles := make([]cell, len(columns))
	for j, c := range columns {
		titles[j] = cell{c.title, "1"}
	}
	writeRow(&b, columns, widths, titles, s)
	for _, row := range rows {
		writeRow(&b, columns, widths, row, s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeRow(out *strings.Builder, columns []column, widths []int, row []cell, s styles) {
	var b strings.Builder
	for j, c := range row {
		if j > 0 {
			b.WriteString(strings.Repeat(" ", columnGap))
		}
		shown := fit(c.text, widths[j])
		// Padding stays outside the colour.
		fill := strings.TrimPrefix(pad(shown, widths[j], false), shown)
		switch {
		case columns[j].right:
			b.WriteString(fill + s.paint(c.colour, shown))
		default:
			b.WriteString(s.paint(c.colour, shown) + fill)
		}
	}
	out.WriteString(strings.TrimRight(b.String(), " ") + "\n")
}

// layout returns the widths of the columns. The widest column that may shrink does so until all fit.
func layout(columns []column, rows [][]cell, width int) []int {
	widths := make([]int, len(columns))
	for j, c := range columns {
		widths[j] = textWidth(c.title)
		for _, row := range rows {
			widths[j] = max(widths[j], textWidth(row[j].text))
		}
		if c.min > 0 {
			widths[j] = min(widths[j], max(width, c.min))
		}
	}
	for _, late := range []bool{false, true} {
		for total(widths) > width {
			widest := -1
			for j, c := range columns {
				if c.min > 0 && c.late == late && widths[j] > c.min && (widest < 0 || widths[j] > widths[widest]) {
					widest = j
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
		}
	}
	return widths
}

func total(widths []int) int {
	sum := columnGap * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

func without[T any](list []T, i int) []T {
	return append(append([]T{}, list[:i]...), list[i+1:]...)
}

// details is one thing, a line for each of its properties.
type details struct {
	labels []string
	values []cell
}

func (d *details) add(label string, value cell) {
	d.labels = append(d.labels, label)
	d.values = append(d.values, value)
}

// write writes the lines; values that are too long for width go on below themselves.
func (d *details) write(w io.Writer, width int, s styles) error {
	indent := 0
	for _, label := range d.labels {
		indent = max(indent, textWidth(label)+1+columnGap)
	}
	var b strings.Builder
	for i, label := range d.labels {
		lines := []string{harmless(d.values[i].text)}
		if indent+textWidth(lines[0]) > width {
			lines = wrap(harmlessLines(d.values[i].text), max(width-indent, 20))
		}
		for j, line := range lines {
			lead := strings.Repeat(" ", indent)
			if j == 0 {
				lead = s.bold(label+":") + strings.Repeat(" ", indent-textWidth(label)-1)
			}
			b.WriteString(strings.TrimRight(lead+s.paint(d.values[i].colour, line), " ") + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
