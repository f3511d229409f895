package query

import (
	"strconv"
	"strings"
)

// Parse reads the raw query string of a request to a table. Nothing is ignored: a part that is neither a parameter nor
// a filter, and a parameter that comes twice, are errors.
func Parse(rawQuery string) (*Request, error) {
	return (&parser{req: new(Request)}).parse(rawQuery)
}

// parser reads one query string.
type parser struct {
	req    *Request
	isArg  func(name string) bool // of the function that is called; nil for tables
	values bool                   // whether an argument's value that looks like a filter is one
	conds  int
	late   []lateReading
	buffer [6]segment // for the segments of one key after another
}

// lateReading is a parameter of which only the reading by an embed is well-formed; whether there is such an embed is
// known when select has been read.
type lateReading struct {
	path   []string
	filter *Filter
	err    error // of the other reading
}

// param is one part of the query string.
type param struct {
	raw        string // as it came
	key, value string
	given      bool // whether there is a "="
	segs       []segment
}

func (p *parser) parse(rawQuery string) (*Request, error) {
	for rest := rawQuery; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "&")
		if part == "" {
			continue
		}
		pr := param{raw: part}
		rawKey, rawValue, given := strings.Cut(part, "=")
		var err error
		if pr.key, err = decode(rawKey); err != nil {
			return nil, err
		}
		if pr.value, err = decode(rawValue); err != nil {
			return nil, err
		}
		pr.given = given
		if err := p.param(&pr); err != nil {
			return nil, err
		}
	}
	for _, l := range p.late {
		if !selects(p.req.Select, l.path) {
			return nil, l.err
		}
		if err := p.where(l.path, l.filter); err != nil {
			return nil, err
		}
	}
	return p.req, nil
}

// param decides what a part of the query string is; the first rule that matches wins.
func (p *parser) param(pr *param) (err error) {
	switch {
	case pr.key == "":
		return invalid(quote(pr.raw)+" has no name", "", `write name=value`)
	case pr.key[0] == '@':
		return p.extension(pr)
	}
	if pr.segs, err = parseKey(pr.key, p.buffer[:0]); err != nil {
		return err
	}
	n := len(pr.segs)
	last := &pr.segs[n-1]
	word := last.word()
	if p.isArg != nil && n == 1 && last.path == nil && p.isArg(last.name) && !p.filters(pr) {
		return p.arg(pr)
	}
	isNullTest := pr.isNullTest()
	switch {
	case !pr.given && !isNullTest:
		return pr.noValue()
	case n == 1 && (word == "select" || word == "columns" || word == "on_conflict"):
		return p.parameter(pr)
	case word == "order" || word == "limit" || word == "offset":
		return p.modifier(pr)
	case word == "and" || word == "or":
		return p.logic(pr)
	case isNullTest && pr.value == "":
		return p.nullTest(pr)
	case n >= 2:
		if o, ok := parseOperator(word); ok {
			return p.keyFilter(pr, o)
		}
		if o, ok := pr.columnComparison(); ok {
			return p.compareColumns(pr, o)
		}
	}
	return p.valueFilter(pr)
}

// parameter reads select, columns and on_conflict.
func (p *parser) parameter(pr *param) (err error) {
	if pr.key == "select" {
		if p.req.Select != nil {
			return pr.twice()
		}
		p.req.Select, err = ParseSelect(pr.value)
		return err
	}
	target := &p.req.Columns
	if pr.key == "on_conflict" {
		target = &p.req.OnConflict
	}
	if *target != nil {
		return pr.twice()
	}
	*target, err = (&scanner{what: pr.key, text: pr.value}).names()
	return err
}

// modifier reads order, limit and offset of the relation or of an embed.
func (p *parser) modifier(pr *param) error {
	n := len(pr.segs)
	order, limit, offset := &p.req.Order, &p.req.Limit, &p.req.Offset
	if n > 1 {
		names, err := path(pr.key, pr.segs[:n-1])
		if err != nil {
			return err
		}
		m, err := p.embed(names)
		if err != nil {
			return err
		}
		order, limit, offset = &m.Order, &m.Limit, &m.Offset
	}
	switch pr.segs[n-1].name {
	case "limit":
		return pr.count(limit)
	case "offset":
		return pr.count(offset)
	}
	if *order != nil {
		return pr.twice()
	}
	terms, err := parseOrder(pr.key, pr.value)
	if err != nil {
		if _, _, ok := cutOperator(pr.value); ok {
			return pr.isWord(err)
		}
		return err
	}
	*order = terms
	return nil
}

// count reads the number of limit and offset.
func (pr *param) count(target **int64) error {
	if *target != nil {
		return pr.twice()
	}
	n, ok := parseCount(pr.value)
	if ok {
		*target = &n
		return nil
	}
	details := ""
	if n, err := strconv.ParseInt(pr.value, 10, 64); err == nil && n < 0 && pr.segs[len(pr.segs)-1].name == "limit" {
		details = NegativeLimit
	}
	err := invalid(pr.key+" must be a whole number that is not negative, not "+quote(pr.value), details, plusHint(pr.raw))
	if _, _, isFilter := cutOperator(pr.value); isFilter {
		return pr.isWord(err)
	}
	return err
}

// parseCount reads a number made of digits only.
func parseCount(s string) (int64, bool) {
	if s == "" || s[0] == '-' || s[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// extension reads the parameters that PostgREST does not know. Their names begin with a character that takes no name
// away from columns.
func (p *parser) extension(pr *param) error {
	switch pr.key {
	case "@cursor":
		if p.req.Cursor != nil {
			return pr.twice()
		}
		value := pr.value
		p.req.Cursor = &value
	case "@distinct":
		if p.req.Distinct != nil {
			return pr.twice()
		}
		on, err := parseFields(pr.key, pr.value)
		if err != nil {
			return err
		}
		p.req.Distinct = &Distinct{On: on}
	case "@all":
		if p.req.All {
			return pr.twice()
		}
		if pr.value != "" && pr.value != "true" {
			return invalid("@all must be true or empty, not "+quote(pr.value), "", "leave @all out of a request that is not meant for every row")
		}
		p.req.All = true
	default:
		hint := "a column of this name must be put in double quotes"
		if near := nearest(pr.key, []string{"@cursor", "@distinct", "@all"}); near != "" {
			hint = "did you mean " + near + "?"
		}
		return invalid("unknown parameter "+quote(pr.key)+": there are @all, @cursor and @distinct", "", hint)
	}
	return nil
}

// parseFields reads a list of columns with JSON paths; nil for an empty text.
func parseFields(what, text string) ([]Field, error) {
	sc := scanner{what: what, text: text}
	if sc.space(); sc.done() {
		return nil, nil
	}
	var fields []Field
	for {
		f, err := sc.field(inOrder, "the name of a column")
		if err != nil {
			return nil, err
		}
		if len(fields) == maxItems {
			return nil, tooMany("columns")
		}
		fields = append(fields, f)
		if sc.done() {
			return fields, nil
		}
		if !sc.take(',') {
			return nil, sc.expected("a comma or the end", "")
		}
	}
}

// embed returns the modifiers of the embed at a path.
func (p *parser) embed(names []string) (*Modifiers, error) {
	key := PathKey(names)
	m := p.req.Embeds[key]
	if m == nil {
		if len(p.req.Embeds) == maxItems {
			return nil, tooMany("embeds")
		}
		if p.req.Embeds == nil {
			p.req.Embeds = map[string]*Modifiers{}
		}
		m = &Modifiers{Path: names}
		p.req.Embeds[key] = m
	}
	return m, nil
}

// where adds a condition to the relation or to an embed.
func (p *parser) where(names []string, c Cond) error {
	if err := p.countCond(); err != nil {
		return err
	}
	target := &p.req.Where
	if len(names) > 0 {
		m, err := p.embed(names)
		if err != nil {
			return err
		}
		target = &m.Where
	}
	*target = append(*target, c)
	return nil
}

func (p *parser) countCond() error {
	if p.conds++; p.conds > maxItems {
		return tooMany("conditions")
	}
	return nil
}

// selects tells whether select holds an embed at a path, by alias or by name.
func selects(items []Item, names []string) bool {
	if len(names) == 0 {
		return true
	}
	for i := range items {
		it := &items[i]
		if it.Kind == Embed && (it.Alias == names[0] || it.Target == names[0]) && selects(it.Select, names[1:]) {
			return true
		}
	}
	return false
}
