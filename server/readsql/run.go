package readsql

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// batch is how many rows are fetched at a time.
const batch = 101

// asCaller runs statements in a transaction that only reads, and that is the caller's; it must be ended. What policies
// know of a request is set as the tables API sets it. The caller's role is taken on last, since it may set less.
func (s *session) asCaller(ctx context.Context, q *Query, v *verdict, statements ...statement) error {
	claims := q.Caller.Claims
	if claims == "" {
		claims = "{}"
	}
	caller := statement{
		sql: `select set_config('search_path', $1, true), set_config('request.jwt.claims', $2, true), set_config('request.method', 'GET', true),
			set_config('request.path', '', true), set_config('request.headers', '{}', true)`,
		params: text(v.path, claims),
	}
	if q.Caller.Role != "" {
		caller.sql += ", set_config('role', $3, true)"
		caller.params = append(caller.params, []byte(q.Caller.Role))
	}
	before := []statement{{sql: "begin read only"}, s.settings(), caller}
	done, err := s.run(ctx, append(before, statements...)...)
	if err != nil && done < len(before) {
		return fmt.Errorf("setting up a transaction: %w", err)
	}
	return err
}

// read runs a statement and reads the first of its rows. Each row comes as one JSON object, made by PostgreSQL, unless
// it is larger than all that is wanted: so little memory is needed whatever there is to read.
func (s *session) read(ctx context.Context, q *Query, v *verdict, params [][]byte, limit, most int) (*Result, error) {
	defer s.end(ctx)
	// The braces and the columns' names are not shown.
	row := strconv.Itoa(most + 16*len(v.columns) + 2)
	cursor := statement{
		sql: tag(q.Tag) + "declare bough_rows no scroll cursor without hold for select case when octet_length(r) <= " + row +
			" then r end from (select row_to_json(t)::text as r from (\n" + v.body + "\n) t" + v.names() + " offset 0) u",
		params: params, oids: v.oids(),
	}
	c := &collector{res: &Result{Columns: v.columns, Rows: [][]json.RawMessage{}}, limit: limit, most: most}
	n := min(limit+1, batch)
	err := s.asCaller(ctx, q, v, cursor, c.fetch(n))
	for err == nil && c.got == n && !c.res.Truncated {
		n = min(limit+1-len(c.res.Rows), batch)
		_, err = s.run(ctx, c.fetch(n))
	}
	return c.res, err
}

// collector takes the rows of a cursor until there are enough.
type collector struct {
	res               *Result
	limit, most, size int
	got               int // rows of the last fetch
}

// fetch is a statement that fetches the next rows.
func (c *collector) fetch(n int) statement {
	c.got = 0
	return statement{sql: "fetch forward " + strconv.Itoa(n) + " from bough_rows", row: c.row}
}

// row takes a row: one JSON object, nil where it is too large.
func (c *collector) row(values [][]byte) error {
	c.got++
	switch {
	case c.res.Truncated:
		return nil
	case len(c.res.Rows) == c.limit:
		c.res.Truncated, c.res.Reason = true, MoreRows
		return nil
	}
	var row []json.RawMessage
	if values[0] != nil {
		var err error
		if row, err = split(values[0], len(c.res.Columns)); err != nil {
			return err
		}
		for _, value := range row {
			c.size += len(value) + 1
		}
	}
	switch {
	case values[0] != nil && c.size <= c.most:
		c.res.Rows = append(c.res.Rows, row)
	case len(c.res.Rows) == 0:
		return errTooBig.Msgf("the first row of the result alone has more than %d bytes", c.most)
	default:
		c.res.Truncated, c.res.Reason = true, MoreBytes
	}
	return nil
}

// split takes the object of a row apart. Its names are c1, c2, …; the values are in the order of the columns.
func split(row []byte, n int) ([]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(row))
	values := make([]json.RawMessage, n)
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("reading a row: %w", err)
	}
	for i := range values {
		if _, err := d.Token(); err != nil {
			return nil, fmt.Errorf("reading a row: %w", err)
		}
		if err := d.Decode(&values[i]); err != nil {
			return nil, fmt.Errorf("reading a row: %w", err)
		}
	}
	return values, nil
}

// names gives the columns names of their own: a statement may give several the same.
func (v *verdict) names() string {
	if len(v.columns) == 0 {
		return ""
	}
	var b strings.Builder
	for i := range v.columns {
		b.WriteString(", c" + strconv.Itoa(i+1))
	}
	return " (" + b.String()[2:] + ")"
}

func (v *verdict) oids() []uint32 {
	oids := make([]uint32, len(v.params))
	for i, p := range v.params {
		oids[i] = p.oid
	}
	return oids
}

// tag is a comment that says where a statement comes from.
func tag(text string) string {
	safe := strings.Map(func(c rune) rune {
		if c < ' ' || c == '*' || c == '/' || c > '~' {
			return '_'
		}
		return c
	}, text)
	if safe == "" {
		return ""
	}
	return "/* " + safe[:min(len(safe), 200)] + " */ "
}
