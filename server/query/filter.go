package query

// isNullTest tells whether the key is a whole null test: column.is.null, column.not.is.true and the like.
func (pr *param) isNullTest() bool {
	n := len(pr.segs)
	if n < 3 || pr.segs[n-2].word() != "is" {
		return false
	}
	return isOperand(pr.segs[n-1].word()) != ""
}

// cutNot cuts the negation off the segments before an operator. A sole "not" is the name of a column.
func cutNot(segs []segment) (rest []segment, not bool) {
	if n := len(segs); n >= 2 && segs[n-1].word() == "not" {
		return segs[:n-1], true
	}
	return segs, false
}

func (p *parser) nullTest(pr *param) error {
	n := len(pr.segs)
	rest, not := cutNot(pr.segs[:n-2])
	f := &Filter{Not: not, Op: Is, Value: isOperand(pr.segs[n-1].name)}
	return p.filter(pr, rest, f)
}

// keyFilter reads a filter that has its operator in the key: column.op=operand.
func (p *parser) keyFilter(pr *param, o operator) error {
	n := len(pr.segs)
	rest, not := cutNot(pr.segs[:n-1])
	o.not = not
	f := o.filter(Field{}, pr.raw)
	second, secondPath := pr.secondReading()
	if err := f.setOperand(pr.key, pr.value, false); err != nil {
		if second == nil {
			return err
		}
		p.late = append(p.late, lateReading{path: secondPath, filter: second, err: err})
		return nil
	}
	if second != nil {
		f.Alternative = &Alternative{Path: secondPath, Filter: *second}
	}
	return p.filter(pr, rest, f)
}

// secondReading reads a.op=op.operand as a filter on the column "op" of embed a; nil where it is not well-formed.
func (pr *param) secondReading() (*Filter, []string) {
	o, operand, ok := cutOperator(pr.value)
	if !ok {
		return nil, nil
	}
	n := len(pr.segs)
	names, err := path(pr.key, pr.segs[:n-1])
	if err != nil {
		return nil, nil
	}
	f := o.filter(Field{Name: pr.segs[n-1].name}, pr.raw)
	if err := f.setOperand(pr.key, operand, true); err != nil {
		return nil, nil
	}
	return f, names
}

// columnComparison returns the operator of a key of the form column.op.col.
func (pr *param) columnComparison() (operator, bool) {
	n := len(pr.segs)
	if n < 3 || pr.segs[n-1].word() != "col" {
		return operator{}, false
	}
	op := lookupOp(pr.segs[n-2].word())
	return operator{op: op}, isComparison(op)
}

// compareColumns reads column.op.col=other. A value with a dot is none of a name, so that a filter of PostgREST's form
// on a column "col" keeps its meaning.
func (p *parser) compareColumns(pr *param, o operator) error {
	if _, _, ok := cutOperator(pr.value); ok {
		return p.valueFilter(pr)
	}
	sc := scanner{what: pr.key, text: pr.value}
	name, _, err := sc.name(inKey, "the name of a column")
	if err != nil {
		return err
	}
	if !sc.done() {
		return sc.expected("the end of the column's name", "put a name with a dot in double quotes; a JSON path is not possible here")
	}
	rest, not := cutNot(pr.segs[:len(pr.segs)-2])
	return p.filter(pr, rest, &Filter{Not: not, Op: o.op, Value: name, OtherColumn: true})
}

// valueFilter reads a filter of PostgREST's form, which has its operator in the value: column=op.operand.
func (p *parser) valueFilter(pr *param) error {
	o, operand, ok := cutOperator(pr.value)
	if !ok {
		return pr.notFilter(p.isArg != nil)
	}
	f := o.filter(Field{}, pr.raw)
	if err := f.setOperand(pr.key, operand, true); err != nil {
		return err
	}
	return p.filter(pr, pr.segs, f)
}

// filter completes a filter with the column that segs end in, and adds it to the relation or embed before that.
func (p *parser) filter(pr *param, segs []segment, f *Filter) error {
	n := len(segs)
	names, err := path(pr.key, segs[:n-1])
	if err != nil {
		return err
	}
	f.Field = Field{Name: segs[n-1].name, Path: segs[n-1].path}
	f.Raw = pr.raw
	if n > 1 {
		if name, ok := dotted(pr.key, segs); ok {
			// The copy takes the other alternative with it.
			whole := *f
			whole.Field.Name = name
			f.Alternative = &Alternative{Filter: whole}
		}
	}
	return p.where(names, f)
}
