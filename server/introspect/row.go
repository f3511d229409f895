package introspect

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// row is a row of a catalog query in text form. Its methods take the values in order; the first that is not of the
// form asked for is kept as the error.
type row struct {
	values [][]byte
	next   int
	err    error
}

func (r *row) raw() []byte {
	if r.next == len(r.values) {
		r.fail(fmt.Errorf("a value is missing"))
		return nil
	}
	b := r.values[r.next]
	r.next++
	return b
}

func (r *row) fail(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("column %d: %w", r.next, err)
	}
}

func (r *row) text() string { return string(r.raw()) }

func (r *row) bool() bool { return string(r.raw()) == "t" }

// char is a value of the type "char"; 0 where it is empty.
func (r *row) char() byte {
	if b := r.raw(); len(b) > 0 {
		return b[0]
	}
	return 0
}

func (r *row) int() int {
	n, err := strconv.Atoi(string(r.raw()))
	if err != nil {
		r.fail(err)
	}
	return n
}

func (r *row) oid() uint32 { return parseOID(r, string(r.raw())) }

func (r *row) float() float64 {
	f, err := strconv.ParseFloat(string(r.raw()), 64)
	if err != nil {
		r.fail(err)
	}
	return f
}

// ints are numbers with commas between them.
func (r *row) ints() []int {
	b := r.raw()
	if len(b) == 0 {
		return nil
	}
	parts := strings.Split(string(b), ",")
	list := make([]int, len(parts))
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil {
			r.fail(err)
		}
		list[i] = n
	}
	return list
}

// json decodes a JSON value; null leaves v alone.
func (r *row) json(v any) {
	if b := r.raw(); b != nil {
		if err := json.Unmarshal(b, v); err != nil {
			r.fail(err)
		}
	}
}

// grants are a role's privileges each. Null gives nil.
func (r *row) grants() Grants {
	list := r.ints()
	if list == nil {
		return nil
	}
	g := make(Grants, len(list))
	for i, n := range list {
		g[i] = Privilege(n)
	}
	return g
}

func parseOID(r *row, s string) uint32 {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		r.fail(err)
	}
	return uint32(n)
}
