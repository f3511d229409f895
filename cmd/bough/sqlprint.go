package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/spf13/cobra"
)

const formatCSV = "csv"

// rowPrinter prints results of queries: for each of them begin, its rows, finish.
type rowPrinter interface {
	begin(columns []pgconn.FieldDescription) error
	row(values [][]byte) error
	finish() error
}

func (c *cli) rowPrinter(cmd *cobra.Command, format string) rowPrinter {
	out := cmd.OutOrStdout()
	switch format {
	case formatJSON:
		return &jsonRows{out: out}
	case formatCSV:
		return &csvRows{out: out, terminal: c.stdoutIsTerminal}
	}
	return &tableRows{out: out, styles: c.styles(c.stdoutIsTerminal)}
}

// tableRows prints results as psql does, in full width: rows are data, which must not be shortened.
type tableRows struct {
	out     io.Writer
	styles  styles
	columns []pgconn.FieldDescription
	rows    [][]cell
}

func (t *tableRows) begin(columns []pgconn.FieldDescription) error {
	t.columns, t.rows = columns, nil
	return nil
}

func (t *tableRows) row(values [][]byte) error {
	row := make([]cell, len(values))
	for j, v := range values {
		row[j] = cell{harmless(string(v)), ""}
		if v == nil {
			row[j] = cell{"NULL", "2"}
		}
	}
	t.rows = append(t.rows, row)
	return nil
}

func (t *tableRows) finish() error {
	titles := make([]cell, len(t.columns))
	widths := make([]int, len(t.columns))
	for j, c := range t.columns {
		titles[j] = cell{harmless(c.Name), "1"}
		widths[j] = textWidth(titles[j].text)
		for _, row := range t.rows {
			widths[j] = max(widths[j], textWidth(row[j].text))
		}
	}
	var b strings.Builder
	t.line(&b, titles, widths)
	for j, w := range widths {
		if j > 0 {
			b.WriteByte('+')
		}
		b.WriteString(strings.Repeat("-", w+2))
	}
	b.WriteByte('\n')
	for _, row := range t.rows {
		t.line(&b, row, widths)
	}
	_, err := io.WriteString(t.out, b.String())
	return err
}

func (t *tableRows) line(b *strings.Builder, row []cell, widths []int) {
	for j, c := range row {
		if j > 0 {
			b.WriteString(" |")
		}
		fill := strings.Repeat(" ", widths[j]-textWidth(c.text))
		switch {
		case isNumber(t.columns[j].DataTypeOID):
			b.WriteString(" " + fill + t.styles.paint(c.colour, c.text))
		case j == len(row)-1:
			b.WriteString(" " + t.styles.paint(c.colour, c.text))
		default:
			b.WriteString(" " + t.styles.paint(c.colour, c.text) + fill)
		}
	}
	b.WriteByte('\n')
}

func isNumber(oid uint32) bool {
	switch oid {
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.Float4OID, pgtype.Float8OID, pgtype.NumericOID, pgtype.OIDOID:
		return true
	}
	return false
}

// csvRows prints results as CSV with a line of names, an empty line between two results.
type csvRows struct {
	out      io.Writer
	terminal bool
	w        *csv.Writer
}

func (c *csvRows) begin(columns []pgconn.FieldDescription) error {
	if c.w != nil {
		if _, err := io.WriteString(c.out, "\n"); err != nil {
			return err
		}
	}
	c.w = csv.NewWriter(c.out)
	names := make([]string, len(columns))
	for j, column := range columns {
		names[j] = c.text(column.Name)
	}
	return c.w.Write(names)
}

func (c *csvRows) row(values [][]byte) error {
	fields := make([]string, len(values))
	for j, v := range values {
		fields[j] = c.text(string(v))
	}
	return c.w.Write(fields)
}

// text leaves data alone unless a terminal would obey it.
func (c *csvRows) text(s string) string {
	if c.terminal {
		return harmlessLines(s)
	}
	return s
}

func (c *csvRows) finish() error {
	c.w.Flush()
	return c.w.Error()
}

// jsonRows prints each result as an array of objects.
type jsonRows struct {
	out     io.Writer
	columns []pgconn.FieldDescription
	keys    []string
	count   int
}

func (j *jsonRows) begin(columns []pgconn.FieldDescription) error {
	j.columns, j.count = columns, 0
	j.keys = make([]string, len(columns))
	used := map[string]int{}
	for i, column := range columns {
		name := column.Name
		// A second column of that name would hide the first.
		if used[column.Name]++; used[column.Name] > 1 {
			name = fmt.Sprintf("%s_%d", name, used[column.Name])
		}
		j.keys[i] = name
	}
	_, err := io.WriteString(j.out, "[")
	return err
}

func (j *jsonRows) row(values [][]byte) error {
	var b strings.Builder
	if j.count++; j.count > 1 {
		b.WriteByte(',')
	}
	b.WriteString("\n  {")
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(jsonText(j.keys[i]) + ": " + jsonValue(j.columns[i].DataTypeOID, v))
	}
	b.WriteByte('}')
	_, err := io.WriteString(j.out, escapeStrings(b.String()))
	return err
}

func (j *jsonRows) finish() error {
	end := "]\n"
	if j.count > 0 {
		end = "\n]\n"
	}
	_, err := io.WriteString(j.out, end)
	return err
}

// jsonValue returns a value in PostgreSQL's text form as JSON.
func jsonValue(oid uint32, v []byte) string {
	switch {
	case v == nil:
		return "null"
	case oid == pgtype.BoolOID:
		if string(v) == "t" {
			return "true"
		}
		return "false"
	case oid == pgtype.JSONOID || oid == pgtype.JSONBOID:
		var b bytes.Buffer
		if json.Compact(&b, v) == nil {
			return b.String()
		}
	case isNumber(oid) && json.Valid(v) && v[0] != 'N':
		return string(v)
	}
	return jsonText(string(v))
}

func jsonText(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}
