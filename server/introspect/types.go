package introspect

// typ takes a type. Those it refers to are connected by connectTypes, when all are there.
func (l *loader) typ(r *row) {
	t := &Type{OID: r.oid(), Schema: l.name(r), Name: l.name(r), SQL: l.name(r), Kind: TypeKind(r.char())}
	if r.bool() {
		t.Kind = Array
	}
	t.Category = r.char()
	elem, base := r.oid(), r.oid()
	switch t.Kind {
	case Array:
		t.elem = elem
	case Domain:
		t.elem = base
	}
	t.notNull, t.modifier, t.fallback, t.relation = r.bool(), r.int(), r.text(), r.oid()
	r.json(&t.Labels)
	var attributes [][2]string
	r.json(&attributes)
	for _, a := range attributes {
		t.Attributes = append(t.Attributes, Attribute{Name: a[0]})
		t.attribute = append(t.attribute, parseOID(r, a[1]))
	}
	t.Comment = r.text()
	l.schema.types[t.OID] = t
}

// connectTypes makes pointers of the types' references to each other, when all types have been read.
func (l *loader) connectTypes() {
	if l.connected {
		return
	}
	l.connected = true
	for _, t := range l.schema.types {
		if t.elem != 0 {
			t.Elem = l.schema.types[t.elem]
		}
		for i, oid := range t.attribute {
			t.Attributes[i].Type = l.schema.types[oid]
		}
		t.attribute = nil
	}
}

// fillRowTypes gives the row types of exposed relations their attributes.
func (l *loader) fillRowTypes() {
	for _, rel := range l.schema.Relations {
		if t := l.schema.types[rel.rowType]; t != nil {
			for _, c := range rel.Columns {
				t.Attributes = append(t.Attributes, Attribute{Name: c.Name, Type: c.Type})
			}
		}
	}
}

const (
	bpcharOID  = 1042
	varcharOID = 1043
)

// maxLength is the n of varchar(n) and char(n), to which the modifier adds the size of a header.
func maxLength(oid uint32, modifier int) int {
	if (oid == bpcharOID || oid == varcharOID) && modifier > 4 {
		return modifier - 4
	}
	return 0
}
