package readsql

import (
	"errors"
	"strconv"
	"strings"
)

// node is a node of a tree that PostgreSQL wrote as text (its outfuncs.c): {NAME :field value :field value …}.
type node struct {
	name   string
	fields []field
}

type field struct {
	label string
	value value
}

// value is what a field has: a node, a list, or a token. A token is kept as it was written, with its escapes.
type value struct {
	node  *node
	list  []value
	token string
	bytes []byte // of a constant
}

// get returns a field; the zero value where there is none.
func (n *node) get(label string) value {
	for i := range n.fields {
		if n.fields[i].label == label {
			return n.fields[i].value
		}
	}
	return value{}
}

// empty reports whether a field has nothing in it.
func (v value) empty() bool {
	return v.node == nil && len(v.list) == 0 && (v.token == "" || v.token == "<>")
}

// number returns a token that is an oid, or 0.
func (v value) number() uint32 {
	n, err := strconv.ParseUint(v.token, 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// maxDepth bounds the nesting; PostgreSQL's own stack ends far earlier.
const maxDepth = 20_000

var errTree = errors.New("the tree of the statement cannot be read")

// parseTree reads a tree. What a token is must be exactly what it is for PostgreSQL (pg_strtok in its read.c): names and
// texts of the caller's are among them, with escapes in front of what would end a token. The place of a token tells
// whether it is a label: a name that begins with a colon stands where a value is due.
func parseTree(text string) (value, error) {
	p := treeParser{text: text}
	v, ok := p.value(0)
	if !ok || p.token() != "" {
		return value{}, errTree
	}
	return v, nil
}

type treeParser struct {
	text string
	at   int
}

// token returns the next token; "" at the end.
func (p *treeParser) token() string {
	for p.at < len(p.text) && isSpace(p.text[p.at]) {
		p.at++
	}
	start := p.at
	for p.at < len(p.text) && !isSpace(p.text[p.at]) {
		if isBracket(p.text[p.at]) {
			if p.at == start {
				p.at++
			}
			break
		}
		if p.text[p.at] == '\\' && p.at+1 < len(p.text) {
			p.at++
		}
		p.at++
	}
	return p.text[start:p.at]
}

func isSpace(c byte) bool   { return c == ' ' || c == '\n' || c == '\t' }
func isBracket(c byte) bool { return c == '(' || c == ')' || c == '{' || c == '}' }

// value reads what a token begins.
func (p *treeParser) value(depth int) (value, bool) {
	if depth > maxDepth {
		return value{}, false
	}
	switch t := p.token(); t {
	case "", ")", "}":
		return value{}, false
	case "{":
		return p.node(depth + 1)
	case "(":
		v := value{}
		for {
			at := p.at
			switch p.token() {
			case ")":
				return v, true
			case "":
				return value{}, false
			}
			p.at = at
			item, ok := p.value(depth + 1)
			if !ok {
				return value{}, false
			}
			v.list = append(v.list, item)
		}
	default:
		return value{token: t}, true
	}
}

// node reads the rest of a node.
func (p *treeParser) node(depth int) (value, bool) {
	n := &node{name: p.token()}
	if n.name == "" || isBracket(n.name[0]) {
		return value{}, false
	}
	for {
		t := p.token()
		if t == "}" {
			return value{node: n}, true
		}
		label, ok := strings.CutPrefix(t, ":")
		if !ok || label == "" {
			return value{}, false
		}
		v, ok := p.value(depth)
		if ok && n.name == "CONST" && label == "constvalue" && v.token != "<>" {
			v, ok = p.datum()
		}
		if !ok {
			return value{}, false
		}
		n.fields = append(n.fields, field{label, v})
	}
}

// datum reads the bytes of a constant, after their number: [ 1 -2 3 ].
func (p *treeParser) datum() (value, bool) {
	if p.token() != "[" {
		return value{}, false
	}
	v := value{bytes: []byte{}}
	for {
		t := p.token()
		if t == "]" {
			return v, true
		}
		n, err := strconv.Atoi(t)
		if err != nil || n < -128 || n > 255 {
			return value{}, false
		}
		v.bytes = append(v.bytes, byte(n))
	}
}
