package query

import "strings"

// synonyms are what other languages call the operators.
var synonyms = map[string]string{
	"=": "eq", "==": "eq", "equals": "eq", "equal": "eq", "exact": "eq",
	"ne": "neq", "!": "neq", "!=": "neq", "<>": "neq", "not_eq": "neq",
	"ge": "gte", ">=": "gte", "gteq": "gte", "min": "gte", "after": "gt", ">": "gt",
	"le": "lte", "<=": "lte", "lteq": "lte", "max": "lte", "before": "lt", "<": "lt",
	"nin": "not.in", "not_in": "not.in", "notin": "not.in", "nlike": "not.like", "notlike": "not.like",
	"regex": "match", "iregex": "imatch", "icontains": "ilike", "contains": "cs", "contained": "cd", "overlaps": "ov",
	"isnull": "is.null", "null": "is.null", "notnull": "is.not_null", "not_null": "is.not_null",
	"search": "wfts", "textsearch": "wfts",
}

// parameterSynonyms are what other APIs call the parameters.
var parameterSynonyms = map[string]string{
	"fields": "select", "include": "select", "expand": "select", "columns[]": "columns",
	"sort": "order", "sort_by": "order", "order_by": "order", "orderby": "order", "orderBy": "order",
	"per_page": "limit", "page_size": "limit", "take": "limit", "first": "limit", "top": "limit",
	"skip": "offset", "start": "offset", "cursor": "@cursor", "distinct": "@distinct", "onConflict": "on_conflict",
}

var parameters = []string{"select", "columns", "on_conflict", "order", "limit", "offset"}

// operatorHint suggests the operator that a word may have been meant for; "" for none.
func operatorHint(word string) string {
	name, param, found := strings.Cut(word, "(")
	if found && lookupOp(name) != "" {
		if isFullText(lookupOp(name)) {
			return "write the text search configuration as in " + name + "(english)"
		}
		if name == "neq" {
			return "write not.eq(any) or not.in"
		}
		if isQuantifiable(lookupOp(name)) && param != "" {
			return "write " + name + "(any) or " + name + "(all)"
		}
		return "the operator " + name + " takes nothing in parentheses"
	}
	if near := nearOperator(word); near != "" {
		return "did you mean " + near + "?"
	}
	return ""
}

func nearOperator(word string) string {
	lower := strings.ToLower(word)
	if s := synonyms[lower]; s != "" {
		return s
	}
	if lookupOp(lower) != "" {
		return lower
	}
	return nearest(lower, operators)
}

// twice is the error of a parameter that came before.
func (pr *param) twice() error {
	return invalid("the parameter "+quote(pr.key)+" is given twice", "", "give "+pr.key+" once")
}

// isWord adds to an error of order, limit, or and the like how to filter a column of that name.
func (pr *param) isWord(err error) error {
	last := pr.segs[len(pr.segs)-1]
	before := pr.key[:last.start]
	op, operand, _ := strings.Cut(pr.value, ".")
	return withHint(err, "to filter by a column called "+last.name+" write "+
		clip(before+last.name+"."+op+"="+operand)+" or "+clip(before+`"`+last.name+`"=`+pr.value))
}

// noValue is the error of a part without "=" that is no null test.
func (pr *param) noValue() error {
	return invalid(quote(pr.key)+` has no "=" and is no test such as column.is.null`, "", pr.noValueHint())
}

func (pr *param) noValueHint() string {
	n := len(pr.segs)
	for i := 1; i < n-1; i++ {
		seg := &pr.segs[i]
		o, ok := parseOperator(seg.word())
		if !ok {
			continue
		}
		column, value := pr.key[:seg.start-1], pr.key[pr.segs[i+1].start:]
		if o.op != Is {
			return "write " + column + "." + seg.name + "=" + value + " or " + column + "=" + seg.name + "." + value
		}
		if word, not := strings.CutPrefix(value, "not."); not && isOperand(word) != "" {
			return "write " + column + ".not.is." + word
		}
		if near := nearest(strings.ToLower(value), []string{"null", "not_null", "true", "false", "unknown"}); near != "" {
			return "did you mean " + column + ".is." + near + "?"
		}
	}
	if i := strings.IndexAny(pr.key, "<>"); i > 0 {
		return "write " + pr.key[:i] + "." + synonyms[pr.key[i:i+1]] + "=" + pr.key[i+1:]
	}
	return "write " + pr.key + "=value"
}

// notFilter is the error of a part that is nothing the language knows.
func (pr *param) notFilter(call bool) error {
	what := " is neither a parameter nor a filter"
	if call {
		what = " is neither an argument of the function nor a parameter nor a filter"
	}
	shown := pr.key + "=" + pr.value
	if pr.value == "" {
		shown = pr.key + "="
	}
	return invalid(quote(shown)+what, "", pr.filterHint())
}

func (pr *param) filterHint() string {
	n := len(pr.segs)
	last := pr.segs[n-1]
	word := last.word()
	column := pr.key
	// An unknown operator in the key, as in age.ge=18.
	if n >= 2 {
		before := pr.key[:last.start]
		switch {
		case pr.isNullTest():
			return "a null test takes no value: write " + pr.key
		case word == "select" || word == "columns":
			return "write the columns of an embed inside of select: select=" + strings.TrimSuffix(before, ".") + "(" + pr.value + ")"
		case strings.Contains(word, "(") && operatorHint(word) != "":
			return operatorHint(word)
		case nearOperator(word) != "":
			return "did you mean " + before + nearOperator(word) + suffix(nearOperator(word), pr.value) + "?"
		}
	}
	// An unknown operator in the value, as in age=ge.18.
	text, not := strings.CutPrefix(pr.value, "not.")
	end := operatorEnd(text)
	if op := text[:end]; op != "" && end < len(text) && text[end] == '.' {
		if strings.Contains(op, "(") && operatorHint(op) != "" {
			return operatorHint(op)
		}
		if near := nearOperator(op); near != "" {
			if not {
				near = "not." + near
			}
			return "did you mean " + column + "=" + near + text[end:] + "?"
		}
	}
	if n == 1 && !last.quoted {
		if s := pr.foreignForm(); s != "" {
			return s
		}
	}
	return "to filter by the column write " + column + ".eq=" + pr.value + " or " + column + "=eq." + pr.value
}

// foreignForm recognises words and forms of filters of other APIs: age>=18, age__gte=18, age[gte]=18.
func (pr *param) foreignForm() string {
	near := parameterSynonyms[pr.key]
	if near == "" {
		near = nearest(pr.key, parameters)
	}
	if near != "" {
		// It may be a column all the same: start and first are common names.
		return "did you mean " + near + "=" + pr.value + "? To filter by the column write " + pr.key + ".eq=" + pr.value
	}
	form := func(column, op string) string {
		if column == "" || op == "" {
			return ""
		}
		return "did you mean " + column + "." + op + suffix(op, pr.value) + "?"
	}
	if column, op, found := strings.Cut(strings.TrimSuffix(pr.key, "]"), "["); found {
		return form(column, nearOperator(strings.TrimPrefix(op, "$")))
	}
	if i := strings.LastIndex(pr.key, "__"); i > 0 {
		return form(pr.key[:i], nearOperator(pr.key[i+2:]))
	}
	if i := strings.LastIndexAny(pr.key, "<>!"); i == len(pr.key)-1 && i > 0 {
		return form(pr.key[:i], synonyms[pr.key[i:]+"="])
	}
	return ""
}

// suffix is the value after a suggested operator; null tests have none.
func suffix(op, value string) string {
	if strings.HasPrefix(op, "is.") {
		return ""
	}
	return "=" + value
}

// nearest returns the candidate that differs least from a word, "" if all differ much.
func nearest(word string, candidates []string) string {
	if len(word) > 20 {
		return ""
	}
	best, found := 1+len(word)/4, ""
	if len(word) < 3 {
		best = 1
	}
	for _, c := range candidates {
		if d := distance(word, c); d <= best && d < len(c) && (found == "" || d < distance(word, found)) {
			found = c
		}
	}
	return found
}

// distance counts the insertions, deletions, replacements and swaps of neighbours that make one word another.
func distance(a, b string) int {
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(b)]
}
