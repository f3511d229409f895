package compile

import (
	"strings"
	"unicode/utf8"

	"github.com/boughdb/bough/server/fault"
)

// maxPatchOps bounds the operations of a patch; each makes its statement longer.
const maxPatchOps = 100

var errPatch = fault.New(fault.Invalid, "validation_error", "invalid patch")

// PatchOp is an operation of a JSON patch (RFC 6902) on a row: the first part of its path names a column, the rest a
// place in the column's JSON. Besides the RFC's add, replace, remove and test there are incr, which adds to a number,
// and append, which adds to the end of a text, an array or a JSON array.
type PatchOp struct {
	Op   string
	Path []string
	// Value is as it was sent; nil for remove.
	Value []byte
}

func (op *PatchOp) pointer() string {
	var b strings.Builder
	for _, part := range op.Path {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(part, "~", "~0"), "/", "~1"))
	}
	return b.String()
}

// ParsePatch reads an application/json-patch+json body.
func ParsePatch(data []byte) ([]PatchOp, error) {
	if !utf8.Valid(data) {
		return nil, errBody.Msgf("The body is not valid UTF-8.")
	}
	s := scanner{data: data}
	if s.peek() != '[' {
		return nil, errBody.Msgf("A JSON patch is an array of operations, such as " +
			`[{"op":"replace","path":"/title","value":"x"}].`)
	}
	r := bodyReader{s: &s}
	var ops []PatchOp
	err := s.array(0, func() error {
		if len(ops) == maxPatchOps {
			return errPatch.Msgf("A JSON patch holds at most %d operations.", maxPatchOps)
		}
		if s.peek() != '{' {
			return errPatch.Msgf("Operation %d of the patch is not an object.", len(ops)+1)
		}
		op, err := parsePatchOp(&s, len(ops)+1)
		ops = append(ops, op)
		return err
	})
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, r.explain(err, "JSON patch")
	}
	return ops, nil
}

func parsePatchOp(s *scanner, number int) (PatchOp, error) {
	members := map[string][]byte{}
	err := s.object(1, func(raw []byte) error {
		key, err := unescape(raw)
		if err != nil {
			return err
		}
		if _, ok := members[string(key)]; ok {
			return errPatch.Msgf("Operation %d of the patch has %q twice.", number, key)
		}
		value, err := s.value(2)
		members[string(key)] = value
		return err
	})
	if err != nil {
		return PatchOp{}, err
	}
	word := func(name string) (string, error) {
		raw, ok := members[name]
		if !ok || raw[0] != '"' {
			return "", errPatch.Msgf("Operation %d of the patch has no string %q.", number, name)
		}
		text, err := unescape(raw[1 : len(raw)-1])
		return string(text), err
	}
	var op PatchOp
	if op.Op, err = word("op"); err != nil {
		return op, err
	}
	switch op.Op {
	case "add", "replace", "test", "incr", "append":
		var ok bool
		if op.Value, ok = members["value"]; !ok {
			return op, errPatch.Msgf("Operation %d of the patch, %s, has no value.", number, op.Op)
		}
	case "remove":
	default:
		return op, errPatch.Msgf("Operation %d of the patch is %q; known are add, replace, remove, test, incr and append.",
			number, op.Op)
	}
	path, err := word("path")
	if err != nil {
		return op, err
	}
	op.Path, err = parsePointer(path, number)
	return op, err
}

// parsePointer splits a JSON pointer (RFC 6901).
func parsePointer(pointer string, number int) ([]string, error) {
	if len(pointer) < 2 || pointer[0] != '/' {
		return nil, errPatch.Msgf("The path %q of operation %d of the patch names no column; it is written /column or "+
			"/column/key.", pointer, number)
	}
	parts := strings.Split(pointer[1:], "/")
	for i, part := range parts {
		for j := range len(part) {
			if part[j] == '~' && (j+1 == len(part) || part[j+1] != '0' && part[j+1] != '1') {
				return nil, errPatch.Msgf("The path %q of operation %d of the patch has a ~ that is not ~0 or ~1.",
					pointer, number)
			}
		}
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
	}
	return parts, nil
}

// textArray is an array literal of strings.
func textArray(items []string) []byte {
	out := []byte{'{'}
	for i, item := range items {
		out = appendElement(out, []byte(item), i > 0)
	}
	return append(out, '}')
}
