package introspect

import (
	"cmp"
	"slices"
)

// loader collects what the queries return and then builds the schema of it.
type loader struct {
	schema  *Schema
	version version
	places  map[string]int // of the exposed schemas
	strings map[string]string

	connected bool // the types

	uniques    map[uint32][]*key // by relation, also of hidden ones
	foreign    []*foreignKey
	references map[uint32][]uint32 // by foreign keys, between tables
	queries    map[uint32][]output // of views
	repeating  map[uint32]bool     // views that multiply rows by set-returning functions
	traced     map[uint32][]origin
	shown      map[uint32][]shown // the views that show a table
	routines   []*routine
}

// key is a unique key of a relation that need not be exposed.
type key struct {
	name                      string
	columns                   []int
	primary, partial          bool
	predicate                 string
	nullsNotDistinct, instant bool
}

func newLoader(opts Options) *loader {
	l := &loader{
		schema: &Schema{
			Schemas: slices.Clone(opts.Schemas), Roles: slices.Clone(opts.Roles),
			relations: map[[2]string]*Relation{}, plurals: map[[2]string]*Relation{}, byOID: map[uint32]*Relation{},
			functions: map[[2]string][]*Function{}, types: map[uint32]*Type{},
			leaving: map[[2]string]leaves{},
		},
		version: newVersion(opts), places: map[string]int{}, strings: map[string]string{},
		uniques: map[uint32][]*key{}, queries: map[uint32][]output{}, traced: map[uint32][]origin{},
		repeating: map[uint32]bool{}, shown: map[uint32][]shown{},
	}
	for i, s := range opts.Schemas {
		if _, ok := l.places[s]; !ok {
			l.places[s] = i
		}
	}
	return l
}

// name is r's next text, of which one copy is kept: the same names and types recur in many tables.
func (l *loader) name(r *row) string {
	b := r.raw()
	if s, ok := l.strings[string(b)]; ok {
		return s
	}
	s := string(b)
	l.strings[s] = s
	return s
}

func (l *loader) fingerprint(r *row) { l.schema.fingerprint = r.text() }

// relation comes after the types.
func (l *loader) relation(r *row) {
	l.connectTypes()
	rel := &Relation{
		OID: r.oid(), Schema: l.name(r), Name: l.name(r), Kind: RelationKind(r.char()), Partition: r.bool(),
		RowSecurity: r.bool(), columns: map[string]*Column{}, byNumber: map[int]*Column{},
	}
	rel.rowType = r.oid()
	rel.HasXmin = r.bool() && rel.Kind == Table
	allowed, auto := r.int(), r.int()
	// The bits are 1 << CmdType: 2 is update, 3 insert, 4 delete.
	rel.Updatable, rel.Insertable, rel.Deletable = allowed&4 != 0, allowed&8 != 0, allowed&16 != 0
	rel.writable = rel.Kind == View && allowed&^auto&(4|8) != 0
	rel.Comment, rel.Grants = r.text(), r.grants()
	rel.EstimatedRows = r.float()
	if rel.Kind == View {
		rel.EstimatedRows = -1
	}
	l.schema.Relations = append(l.schema.Relations, rel)
	l.schema.byOID[rel.OID] = rel
	l.schema.relations[[2]string{rel.Schema, rel.Name}] = rel
}

// column comes after the relations and types.
func (l *loader) column(r *row) {
	rel := l.schema.byOID[r.oid()]
	c := &Column{Position: r.int(), Name: l.name(r), Type: l.schema.types[r.oid()]}
	modifier := r.int()
	c.TypeSQL = l.name(r)
	c.NotNull, c.Identity = r.bool(), r.char()
	c.Generated = r.char() != 0
	c.HasDefault = r.bool() || c.Identity != 0
	if expression := l.name(r); !c.Generated {
		c.Default = expression
	}
	c.Comment = r.text()
	c.Updatable = (r.bool() || rel.writable) && rel.Kind != MaterializedView
	own := r.grants()
	for t := c.Type; t != nil && t.Kind == Domain; t = t.Elem {
		c.NotNull = c.NotNull || t.notNull
		if !c.HasDefault && t.fallback != "" {
			c.HasDefault, c.Default = true, t.fallback
		}
		modifier = max(modifier, t.modifier)
	}
	if c.Type != nil {
		c.MaxLength = maxLength(c.Type.Underlying().OID, modifier)
	}
	c.Grants = rel.Grants
	if own != nil {
		c.Grants = make(Grants, len(own))
		for i := range own {
			c.Grants[i] = own[i] | rel.Grants[i]&(Select|Insert|Update)
		}
	}
	rel.Columns = append(rel.Columns, c)
	rel.columns[c.Name], rel.byNumber[c.Position] = c, c
}

func (l *loader) unique(r *row) {
	oid := r.oid()
	k := &key{name: r.text(), columns: r.ints(), primary: r.bool(), predicate: r.text(), partial: r.bool(),
		nullsNotDistinct: r.bool(), instant: r.bool()}
	l.uniques[oid] = append(l.uniques[oid], k)
	rel := l.schema.byOID[oid]
	if rel == nil {
		return
	}
	u := &Unique{Name: k.name, Primary: k.primary, Predicate: k.predicate, NullsNotDistinct: k.nullsNotDistinct, Deferrable: !k.instant}
	for _, n := range k.columns {
		c := rel.byNumber[n]
		if c == nil {
			return // a system column
		}
		u.Columns = append(u.Columns, c.Name)
	}
	if k.partial && k.predicate == "" {
		return // it could not be read this time, and would look like a key without one
	}
	rel.Uniques = append(rel.Uniques, u)
	if k.primary {
		rel.setPrimaryKey(u.Columns)
	}
}

func (r *Relation) setPrimaryKey(names []string) {
	for _, n := range names {
		c := r.columns[n]
		c.PrimaryKey = true
		r.PrimaryKey = append(r.PrimaryKey, c)
	}
}

// finish builds what depends on all rows together and returns the schema.
func (l *loader) finish() *Schema {
	s := l.schema
	l.connectTypes()
	l.fillRowTypes()
	l.traceViews()
	l.buildFunctions()
	l.buildRelationships()
	slices.SortFunc(s.Relations, func(a, b *Relation) int {
		return cmp.Or(cmp.Compare(l.places[a.Schema], l.places[b.Schema]), cmp.Compare(a.Name, b.Name))
	})
	l.pluralise()
	s.Version = l.version.String()
	for _, r := range s.Relations {
		s.weight += 1 + len(r.Columns) + len(r.Relationships)
	}
	s.weight += len(s.Functions) + len(s.types)
	return s
}
