package compile

import (
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/boughdb/bough/server/fault"
)

// maxKeys bounds the different keys of a body. A table has at most 1600 columns.
const maxKeys = 2000

var (
	errBody = fault.New(fault.Invalid, "PGRST102", "Empty or invalid json")
	// errText and errSyntax carry the codes that PostgreSQL gives to the same mistakes.
	errText   = fault.New(fault.Invalid, "22P05", "unsupported Unicode escape sequence")
	errSyntax = fault.New(fault.Invalid, "22P02", "invalid input syntax for type json")
)

// Body is the rows of a request's body.
type Body struct {
	// JSON is an array of objects; values stand in it as they were sent.
	JSON []byte
	// Columns are the keys of all objects, in the order in which they are first seen.
	Columns []string
	// Single is true when one object was sent instead of an array.
	Single bool
	// Uniform is true when all objects have the same keys.
	Uniform bool
	// Text is true when all values are strings or null, to be read as a column's type reads text. A json column takes
	// them as JSON then, not as a JSON string.
	Text bool
	// Rows is the number of objects.
	Rows int
}

// ParseJSON reads an object or an array of objects.
func ParseJSON(data []byte) (*Body, error) {
	if !utf8.Valid(data) {
		return nil, errBody.Msgf("The body is not valid UTF-8.")
	}
	s := scanner{data: data}
	b := bodyReader{s: &s}
	var err error
	switch s.peek() {
	case '[':
		err = s.array(0, b.row)
		b.body.JSON = data
	case '{':
		b.body.Single = true
		err = b.row()
		b.body.JSON = concat("[", data, "]")
	case 0:
		return nil, errBody.Msgf("The body is empty; a JSON object or an array of objects is needed.")
	default:
		if _, err = s.value(0); err == nil {
			return nil, errBody.Msgf("The body is not a JSON object or an array of objects.")
		}
	}
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, b.explain(err, "JSON")
	}
	return b.finish(), nil
}

// ParseNDJSON reads objects that follow each other, one a line. They make an array, even when there is one only.
func ParseNDJSON(data []byte) (*Body, error) {
	if !utf8.Valid(data) {
		return nil, errBody.Msgf("The body is not valid UTF-8.")
	}
	s := scanner{data: data}
	b := bodyReader{s: &s}
	out := append(make([]byte, 0, len(data)+len(data)/16+2), '[')
	for s.peek() != 0 {
		start := s.pos
		if err := b.row(); err != nil {
			return nil, b.explain(err, "NDJSON")
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, data[start:s.pos]...)
		if !newline(data, s.pos) {
			return nil, errBody.Msgf("Invalid NDJSON: something follows object %d on its line.", b.body.Rows)
		}
	}
	if err := s.end(); err != nil {
		return nil, b.explain(err, "NDJSON")
	}
	out = append(out, ']')
	b.body.JSON = out
	return b.finish(), nil
}

// newline reports whether only white space stands between the position and the end of its line.
func newline(data []byte, pos int) bool {
	for ; pos < len(data); pos++ {
		switch data[pos] {
		case '\n':
			return true
		case ' ', '\t', '\r':
		default:
			return false
		}
	}
	return true
}

// bodyReader collects what is known of a body while a scanner passes over it.
type bodyReader struct {
	s       *scanner
	body    Body
	uneven  bool
	seen    []int          // by column: the number of the last row with it
	indexes map[string]int // of columns; made when a search through the list would be slow
	count   int            // keys of the row so far
}

// row reads one object.
func (b *bodyReader) row() error {
	b.body.Rows++
	if b.s.peek() != '{' {
		return errBody.Msgf("Row %d is not a JSON object.", b.body.Rows)
	}
	known := len(b.body.Columns)
	b.count = 0
	if err := b.s.object(1, b.member); err != nil {
		return err
	}
	if b.count != len(b.body.Columns) || b.body.Rows > 1 && known != len(b.body.Columns) {
		b.uneven = true
	}
	return nil
}

func (b *bodyReader) member(raw []byte) error {
	key, err := unescape(raw)
	if err != nil {
		return err
	}
	i := b.column(key)
	if i < 0 {
		if len(b.body.Columns) == maxKeys {
			return errBody.Msgf("The body has more than %d different keys.", maxKeys)
		}
		i = len(b.body.Columns)
		b.body.Columns = append(b.body.Columns, string(key))
		b.seen = append(b.seen, 0)
		if b.indexes != nil {
			b.indexes[string(key)] = i
		}
	}
	if b.seen[i] == b.body.Rows {
		return errBody.Msgf("Row %d has the key %q twice.", b.body.Rows, key)
	}
	b.seen[i] = b.body.Rows
	b.count++
	_, err = b.s.value(2)
	return err
}

// column is the index of a key, -1 for a new one. Rows mostly have their keys in the same order.
func (b *bodyReader) column(key []byte) int {
	columns := b.body.Columns
	if b.count < len(columns) && columns[b.count] == string(key) {
		return b.count
	}
	if len(columns) > 16 {
		if b.indexes == nil {
			b.indexes = make(map[string]int, 2*len(columns))
			for i, c := range columns {
				b.indexes[c] = i
			}
		}
		if i, ok := b.indexes[string(key)]; ok {
			return i
		}
		return -1
	}
	for i, c := range columns {
		if c == string(key) {
			return i
		}
	}
	return -1
}

func (b *bodyReader) finish() *Body {
	b.body.Uniform = !b.uneven
	return &b.body
}

// explain makes a fault of what a scanner found, and says in which row.
func (b *bodyReader) explain(err error, format string) error {
	var scan *scanError
	if !errors.As(err, &scan) {
		return err
	}
	where := ""
	if b.body.Rows > 0 && !b.body.Single {
		where = " (row " + strconv.Itoa(b.body.Rows) + ")"
	}
	return errBody.Msgf("Invalid %s: %v%s.", format, scan, where)
}

// member is a key of a row with its value as it was sent.
type member struct {
	name string
	raw  []byte
}

// each calls visit with the members of each row; rows count from 0. The slice is used again for the next row.
func (b *Body) each(visit func(row int, members []member) error) error {
	s := scanner{data: b.JSON}
	if s.peek() != '[' {
		return errBody
	}
	row := 0
	members := make([]member, 0, len(b.Columns))
	return s.array(0, func() error {
		if s.peek() != '{' {
			return errBody
		}
		members = members[:0]
		err := s.object(1, func(raw []byte) error {
			key, err := unescape(raw)
			if err != nil {
				return err
			}
			value, err := s.value(2)
			members = append(members, member{b.intern(len(members), key), value})
			return err
		})
		if err != nil {
			return err
		}
		row++
		return visit(row-1, members)
	})
}

// intern makes a string of a key, without a new one where it is the column expected at this place.
func (b *Body) intern(i int, key []byte) string {
	if i < len(b.Columns) && b.Columns[i] == string(key) {
		return b.Columns[i]
	}
	return string(key)
}

// scalarText is the text form of a JSON value, as json_to_record hands it to a type's input function: a string's
// content, anything else as it stands. Nil is null.
func scalarText(raw []byte) ([]byte, error) {
	switch {
	case len(raw) > 0 && raw[0] == '"':
		text, err := unescape(raw[1 : len(raw)-1])
		if text == nil && err == nil {
			text = []byte{}
		}
		return text, err
	case string(raw) == "null":
		return nil, nil
	}
	return raw, nil
}

func concat(before string, data []byte, after string) []byte {
	out := make([]byte, 0, len(before)+len(data)+len(after))
	return append(append(append(out, before...), data...), after...)
}
