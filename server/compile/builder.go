package compile

import (
	"strconv"
	"strings"

	"github.com/boughdb/bough/server/fault"
)

// builder collects the text of a statement and its parameters. Its zero value is ready for use. The first mistake sticks:
// what is written after it does not matter, since the statement is thrown away.
type builder struct {
	sql  []byte
	args [][]byte
	err  error
}

var errZeroByte = fault.New(fault.Invalid, "22021", "a zero byte is not allowed in names and keys")

// write appends SQL as it is.
func (b *builder) write(sql string) { b.sql = append(b.sql, sql...) }

// writeAll appends several pieces of SQL.
func (b *builder) writeAll(pieces ...string) {
	for _, p := range pieces {
		b.sql = append(b.sql, p...)
	}
}

// ident appends a quoted identifier.
func (b *builder) ident(name string) { b.sql = b.appendQuoted(b.sql, name, '"') }

// name appends an identifier qualified by its schema.
func (b *builder) name(schema, name string) {
	b.ident(schema)
	b.sql = append(b.sql, '.')
	b.ident(name)
}

// literal appends a string literal. It is meant for keys, which are part of a statement's shape; values are parameters.
// The form with E means the same whatever standard_conforming_strings says.
func (b *builder) literal(text string) {
	if strings.IndexByte(text, '\\') >= 0 {
		b.sql = append(b.sql, 'E')
		text = strings.ReplaceAll(text, `\`, `\\`)
	}
	b.sql = b.appendQuoted(b.sql, text, '\'')
}

// number appends an integer.
func (b *builder) number(n int) { b.sql = strconv.AppendInt(b.sql, int64(n), 10) }

// param adds a parameter and returns its place holder; nil is NULL.
func (b *builder) param(value []byte) string {
	b.args = append(b.args, value)
	return "$" + strconv.Itoa(len(b.args))
}

// value appends the place holder of a new parameter.
func (b *builder) value(text string) { b.bytes([]byte(text)) }

func (b *builder) bytes(value []byte) {
	b.args = append(b.args, value)
	b.sql = strconv.AppendInt(append(b.sql, '$'), int64(len(b.args)), 10)
}

// capture returns what f writes instead of keeping it, for SQL that stands elsewhere or several times. The parameters
// stay.
func (b *builder) capture(f func()) string {
	start := len(b.sql)
	f()
	text := string(b.sql[start:])
	b.sql = b.sql[:start]
	return text
}

// fail keeps the first error.
func (b *builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// statement ends the work.
func (b *builder) statement(output []Output) (*Statement, error) {
	if b.err != nil {
		return nil, b.err
	}
	return &Statement{SQL: string(b.sql), Args: b.args, Output: output}, nil
}

func (b *builder) appendQuoted(dst []byte, text string, quote byte) []byte {
	dst = append(dst, quote)
	if strings.IndexByte(text, quote) < 0 && strings.IndexByte(text, 0) < 0 {
		return append(append(dst, text...), quote)
	}
	for i := range len(text) {
		c := text[i]
		if c == 0 {
			b.fail(errZeroByte)
		}
		if c == quote {
			dst = append(dst, quote)
		}
		dst = append(dst, c)
	}
	return append(dst, quote)
}

// quote returns a quoted identifier. Names of the catalog have no zero bytes; those of a request go through ident.
func quote(name string) string {
	if strings.IndexByte(name, '"') >= 0 {
		name = strings.ReplaceAll(name, `"`, `""`)
	}
	return `"` + name + `"`
}

// maxPlannedLimit is the largest limit that is part of a statement's shape.
const maxPlannedLimit = 1000

// limit appends the operand of LIMIT. A usual one is written out: for a parameter the planner supposes a tenth of all
// rows, and plans the statement anew each time since that looks dear.
func (b *builder) limit(n int64) {
	text := strconv.FormatInt(n, 10)
	if n <= maxPlannedLimit {
		b.write(text)
		return
	}
	b.value(text)
}
