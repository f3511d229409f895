package introspect

import (
	"errors"
	"strconv"
)

// output is a column of a view's query: where it comes from, if it is simply a column of something.
type output struct {
	relation uint32 // 0 for an expression
	column   int
	item     int  // the entry of the FROM clause
	nullable bool // an outer join may make it null (known since PostgreSQL 16)
}

var errRuleTree = errors.New("the view's parsed query is not of the known form")

// parseRule reads a view's query from pg_rewrite.ev_action, the text form of PostgreSQL's parse tree. The tree is a
// list of one QUERY node; of its fields only the target list matters. repeats tells that the query returns several rows
// for one of its tables', by a set-returning function in the target list.
func parseRule(text string) (outputs []output, repeats bool, err error) {
	p := &treeParser{s: text}
	p.expect("(")
	p.node(func(field string) {
		switch field {
		case "hasTargetSRFs":
			repeats = p.token() == "true"
		case "targetList":
			outputs = p.targets()
		default:
			p.skip()
		}
	})
	if p.failed {
		return nil, false, errRuleTree
	}
	return outputs, repeats, nil
}

// targets reads a list of TARGETENTRY nodes. The columns of a view are those that are not junk, in order.
func (p *treeParser) targets() []output {
	var list []output
	if t := p.token(); t != "(" {
		return nil // an empty list is <>
	}
	for !p.failed && p.peek() != ")" {
		var o output
		junk := false
		p.node(func(field string) {
			switch field {
			case "expr":
				o.item, o.nullable = p.variable()
			case "resorigtbl":
				o.relation = uint32(p.number())
			case "resorigcol":
				o.column = p.number()
			case "resjunk":
				junk = p.token() == "true"
			default:
				p.skip()
			}
		})
		if !junk {
			list = append(list, o)
		}
	}
	p.expect(")")
	return list
}

// variable reads an expression, of which only a plain VAR is of interest.
func (p *treeParser) variable() (item int, nullable bool) {
	if p.peek() != "{" {
		p.skip()
		return 0, false
	}
	kind := p.node(func(field string) {
		switch field {
		case "varno":
			item = p.number()
		case "varnullingrels":
			start := p.pos
			p.skip()
			nullable = p.pos-start > len(" (b)")
		default:
			p.skip()
		}
	})
	if kind != "VAR" {
		return 0, false
	}
	return item, nullable
}

// treeParser reads the text form of PostgreSQL's node trees: {TYPE :field value ...}, lists in parentheses, atoms. A
// field's value may consist of several tokens, of which the first may look like anything.
type treeParser struct {
	s      string
	pos    int
	failed bool
}

// node reads a node and calls field for each field, which reads the first token or structure of the value.
func (p *treeParser) node(field func(name string)) (kind string) {
	p.expect("{")
	kind = p.token()
	for !p.failed {
		t := p.token()
		switch {
		case t == "}":
			return kind
		case t[0] == ':':
			field(t[1:])
			for !p.failed {
				if next := p.peek(); next == "}" || next[0] == ':' {
					break
				}
				p.skip()
			}
		default:
			p.failed = true
		}
	}
	return kind
}

// skip passes over a token or a whole structure.
func (p *treeParser) skip() {
	depth := 0
	for {
		switch p.token() {
		case "{", "(", "[":
			depth++
		case "}", ")", "]":
			depth--
		}
		if p.failed || depth <= 0 {
			return
		}
	}
}

func (p *treeParser) expect(token string) {
	if p.token() != token {
		p.failed = true
	}
}

func (p *treeParser) number() int {
	n, err := strconv.Atoi(p.token())
	if err != nil {
		p.failed = true
	}
	return n
}

func (p *treeParser) peek() string {
	start := p.pos
	t := p.token()
	p.pos = start
	return t
}

// token returns the next token; a backslash makes any byte part of an atom. At the end there is no token but a failure.
func (p *treeParser) token() string {
	for p.pos < len(p.s) && (p.s[p.pos] == ' ' || p.s[p.pos] == '\n' || p.s[p.pos] == '\t') {
		p.pos++
	}
	start := p.pos
	for p.pos < len(p.s) {
		switch c := p.s[p.pos]; c {
		case '\\':
			p.pos++
		case '"':
			if p.pos == start {
				return p.quoted()
			}
		case '{', '}', '(', ')', '[', ']':
			if p.pos == start {
				p.pos++
			}
			return p.s[start:p.pos]
		case ' ', '\n', '\t':
			return p.s[start:p.pos]
		}
		p.pos++
	}
	p.failed = true
	return "}"
}

// quoted is a string in double quotes.
func (p *treeParser) quoted() string {
	start := p.pos
	for p.pos++; p.pos < len(p.s); p.pos++ {
		switch p.s[p.pos] {
		case '\\':
			p.pos++
		case '"':
			p.pos++
			return p.s[start:p.pos]
		}
	}
	p.failed = true
	return "}"
}
