package query

import "strings"

// operators lists every operator, for hints.
var operators = []string{
	"eq", "neq", "gt", "gte", "lt", "lte", "like", "ilike", "match", "imatch", "in", "is", "isdistinct",
	"fts", "plfts", "phfts", "wfts", "cs", "cd", "ov", "sl", "sr", "nxr", "nxl", "adj",
}

// lookupOp returns the operator of a name, "" for none.
func lookupOp(s string) Op {
	switch op := Op(s); op {
	case Eq, Neq, Gt, Gte, Lt, Lte, Like, ILike, Match, IMatch, In, Is, IsDistinct, FTS, PlFTS, PhFTS, WFTS,
		Contains, Contained, Overlaps, StrictLeft, StrictRt, NotRight, NotLeft, Adjacent:
		return op
	}
	return ""
}

func isFullText(op Op) bool { return op == FTS || op == PlFTS || op == PhFTS || op == WFTS }

// isComparison tells whether an operator may compare two columns.
func isComparison(op Op) bool {
	switch op {
	case Eq, Neq, Gt, Gte, Lt, Lte:
		return true
	}
	return false
}

// isQuantifiable tells whether an operator may be followed by (any) or (all). Neq may not: neq(any) holds for nearly
// every row and is never what was meant.
func isQuantifiable(op Op) bool {
	switch op {
	case Eq, Gt, Gte, Lt, Lte, Like, ILike, Match, IMatch:
		return true
	}
	return false
}

// operator is what stands between a column and the operand.
type operator struct {
	not    bool
	op     Op
	quant  Quantifier
	config string
}

// parseOperator reads an operator with its parentheses, such as eq, like(any) or fts(english).
func parseOperator(s string) (operator, bool) {
	name, param, found := strings.Cut(s, "(")
	o := operator{op: lookupOp(name)}
	if o.op == "" {
		return operator{}, false
	}
	if !found {
		return o, true
	}
	param, closed := strings.CutSuffix(param, ")")
	switch {
	case !closed || param == "" || strings.ContainsAny(param, "()"):
		return operator{}, false
	case isFullText(o.op):
		o.config = param
	case isQuantifiable(o.op) && param == "any":
		o.quant = Any
	case isQuantifiable(o.op) && param == "all":
		o.quant = All
	default:
		return operator{}, false
	}
	return o, true
}

// cutOperator splits a condition of PostgREST's form, [not.]op.operand.
func cutOperator(s string) (o operator, operand string, ok bool) {
	s, not := strings.CutPrefix(s, "not.")
	end := operatorEnd(s)
	if end == len(s) || s[end] != '.' {
		return operator{}, "", false
	}
	o, ok = parseOperator(s[:end])
	o.not = not
	return o, s[end+1:], ok
}

// operatorEnd returns where the operator at the beginning of a text ends: at a dot outside of its parentheses, or
// earlier at a character that no operator holds.
func operatorEnd(s string) int {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_':
		case c == '(':
			if end := strings.IndexAny(s[i:], `),`); end > 0 && s[i+end] == ')' {
				return i + end + 1
			}
			return i
		default:
			return i
		}
	}
	return len(s)
}

// filter begins a filter with this operator.
func (o operator) filter(field Field, raw string) *Filter {
	return &Filter{Field: field, Not: o.not, Op: o.op, Quant: o.quant, Config: o.config, Raw: raw}
}

// setOperand reads a whole operand. Stars are percent signs in patterns of PostgREST's form.
func (f *Filter) setOperand(what, operand string, stars bool) error {
	if f.Op != In && f.Quant == NoQuantifier {
		return f.setText(what, operand, stars)
	}
	sc := scanner{what: what, text: operand}
	if err := sc.operands(f, stars); err != nil {
		return err
	}
	if sc.space(); !sc.done() {
		return sc.unexpected("the list", `put an item that holds a comma or a parenthesis in double quotes`)
	}
	return nil
}

// setText sets an operand that is one text.
func (f *Filter) setText(what, operand string, stars bool) error {
	switch {
	case f.Op == Is:
		if f.Value = isOperand(operand); f.Value != "" {
			return nil
		}
		return invalid(what+": the operator is takes null, not_null, true, false or unknown, not "+quote(operand), "",
			"to compare with a value use eq, or isdistinct to treat null as a value")
	case stars && (f.Op == Like || f.Op == ILike):
		operand = strings.ReplaceAll(operand, "*", "%")
	}
	f.Value = operand
	return nil
}

// isOperand returns an operand of is in lower case; "" for a text that is none.
func isOperand(s string) string {
	switch word := strings.ToLower(s); word {
	case "null", "not_null", "true", "false", "unknown":
		return word
	}
	return ""
}

// operands reads the list of in or of a quantifier.
func (s *scanner) operands(f *Filter, stars bool) (err error) {
	s.space()
	if f.Op == In {
		f.List, err = s.list()
		return err
	}
	if f.List, err = s.array(); err != nil {
		return err
	}
	if stars && (f.Op == Like || f.Op == ILike) {
		for i, item := range f.List {
			f.List[i] = strings.ReplaceAll(item, "*", "%")
		}
	}
	return nil
}
