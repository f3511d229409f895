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

// reading begins the transaction that a statement runs in: it only reads, and it is the caller's. What policies know of
// a request is set as the tables API sets it. The caller's role is taken on last, since it may set less.
func (s *session) reading(ctx context.Context, q *Query, v *verdict) (func(), error) {
	claims, role := q.Caller.Claims, q.Caller.Role
	if claims == "" {
		claims = "{}"
	}
	end, err := s.begin(ctx, "read only")
	if err != nil {
		return nil, err
	}
	_, err = s.query(ctx, `select set_config('search_path', $1, true), set_config('request.jwt.claims', $2, true),
		set_config('request.method', 'GET', true), set_config('request.path', '', true), set_config('request.headers', '{}', true)`, v.path, claims)
	if err == nil {
		err = s.take(ctx, role)
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("setting up a transaction: %w", err)
	}
	return end, nil
}

// read runs a statement and reads the first of its rows. Each row comes as one JSON object, made by PostgreSQL, unless
// it is larger than all that is wanted: so little memory is needed whatever there is to read.
func (s *session) read(ctx context.Context, q *Query, v *verdict, params [][]byte, limit, most int) (*Result, error) {
	end, err := s.reading(ctx, q, v)
	if err != nil {
		return nil, err
	}
	defer end()
	// The braces and the columns' names are not shown.
	row := strconv.Itoa(most + 16*len(v.columns) + 2)
	sql := tag(q.Tag) + "declare bough_rows no scroll cursor without hold for select case when octet_length(r) <= " + row +
		" then r end from (select row_to_json(t)::text as r from (\n" + v.body + "\n) t" + v.names() + " offset 0) u"
	if _, err := s.conn.ExecParams(ctx, sql, params, v.oids(), nil, nil).Close(); err != nil {
		return nil, err
	}
	res := &Result{Columns: v.columns, Rows: [][]json.RawMessage{}}
	for size := 0; ; {
		n, err := s.fetch(ctx, min(limit+1-len(res.Rows), batch), func(r []byte) error {
			switch {
			case res.Truncated:
				return nil
			case len(res.Rows) == limit:
				res.Truncated, res.Reason = true, MoreRows
				return nil
			}
			var values []json.RawMessage
			if r != nil {
				var err error
				if values, err = split(r, len(v.columns)); err != nil {
					return err
				}
				for _, value := range values {
					size += len(value) + 1
				}
			}
			if r == nil || size > most {
				if len(res.Rows) == 0 {
					return errTooBig.Msgf("the first row of the result alone has more than %d bytes", most)
				}
				res.Truncated, res.Reason = true, MoreBytes
				return nil
			}
			res.Rows = append(res.Rows, values)
			return nil
		})
		if err != nil || n < batch || res.Truncated {
			return res, err
		}
	}
}

// fetch hands on up to n rows of the cursor, and returns how many there were.
func (s *session) fetch(ctx context.Context, n int, row func([]byte) error) (int, error) {
	rr := s.conn.ExecParams(ctx, "fetch forward "+strconv.Itoa(n)+" from bough_rows", nil, nil, nil, nil)
	got := 0
	var failed error
	for rr.NextRow() {
		got++
		if failed == nil {
			failed = row(rr.Values()[0])
		}
	}
	if _, err := rr.Close(); err != nil {
		return got, err
	}
	return got, failed
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
