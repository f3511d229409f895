package query

// ParseCall reads the raw query string of a call by GET. A parameter whose name isArg knows as an argument of the
// function goes into Request.Args with its value as it is, even where the name is a word of the language or the value
// looks like a filter: the function's author chose the name, and callers pass arguments by it. A name in double quotes
// is an argument too. Everything else is read as Parse does, and filters, orders and pages the function's result; a
// column of the result that is called like an argument can be filtered in the form column.op=value.
func ParseCall(rawQuery string, isArg func(name string) bool) (*Request, error) {
	return (&parser{req: new(Request), isArg: isArg}).parse(rawQuery)
}

// ParseCallByValue is ParseCall in the way of PostgREST: a value that begins with an operator makes a filter of the result,
// also where its name is an argument's.
func ParseCallByValue(rawQuery string, isArg func(name string) bool) (*Request, error) {
	return (&parser{req: new(Request), isArg: isArg, values: true}).parse(rawQuery)
}

// filters reports whether a parameter that is named like an argument is a filter all the same.
func (p *parser) filters(pr *param) bool {
	if !p.values {
		return false
	}
	_, _, ok := cutOperator(pr.value)
	return ok
}

// arg adds an argument.
func (p *parser) arg(pr *param) error {
	if !pr.given {
		return invalid("the argument "+quote(pr.segs[0].name)+` has no "="`, "", "write "+pr.key+"=value; an empty value is an empty text")
	}
	if len(p.req.Args) == maxItems {
		return tooMany("arguments")
	}
	p.req.Args = append(p.req.Args, Arg{Name: pr.segs[0].name, Value: pr.value})
	return nil
}
