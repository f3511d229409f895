// Package introspect reads a database's catalog into a small model and keeps it: tables, views, their columns, types,
// keys and relationships, functions, comments and privileges. Package tables, the OpenAPI document and others read it;
// none of them asks the catalog itself.
package introspect

// Schema is the catalog of one database at one moment. It is never changed after it was loaded.
type Schema struct {
	// Version identifies the state: it is equal for equal catalogs, in every process.
	Version string
	// Schemas are the exposed schemas, in the configured order; the first one is the default.
	Schemas []string
	// Roles are the database roles that requests run as. Grants are by their index.
	Roles []string
	// Relations of the exposed schemas, ordered by the schema's place and name.
	Relations []*Relation
	// Functions of the exposed schemas, ordered by the schema's place, name and arguments.
	Functions []*Function

	relations map[[2]string]*Relation
	plurals   map[[2]string]*Relation
	byOID     map[uint32]*Relation
	functions map[[2]string][]*Function
	types     map[uint32]*Type
	leaving   map[[2]string]leaves // relations and functions, by schema and name

	fingerprint string // of the catalog, when it was read
	partial     bool   // some expressions could not be read
	weight      int    // how many objects it consists of
}

// Privilege is a set of the privileges that matter here (PostgreSQL, section 5.8).
type Privilege uint8

// The privileges. Execute is of functions.
const (
	Select Privilege = 1 << iota
	Insert
	Update
	Delete
	Execute
)

// Grants are the privileges of each role of Schema.Roles.
type Grants []Privilege

// Owner is the index for a session that keeps the connection's own role.
const Owner = -1

// Can reports whether the role of that index has all the privileges. Owner has them all.
func (g Grants) Can(role int, p Privilege) bool {
	return role == Owner || role < len(g) && g[role]&p == p
}

// RelationKind is what a relation is.
type RelationKind byte

// The kinds, as in pg_class.relkind.
const (
	Table            RelationKind = 'r'
	PartitionedTable RelationKind = 'p'
	View             RelationKind = 'v'
	MaterializedView RelationKind = 'm'
	ForeignTable     RelationKind = 'f'
)

// Relation is a table or something that can be read as one.
type Relation struct {
	OID    uint32
	Schema string
	Name   string
	// Plural is the name in the plural, by which paths may name it as well; it may equal Name.
	Plural  string
	Kind    RelationKind
	Comment string
	Columns []*Column
	// PrimaryKey lists the key's columns in key order. For a view it is inferred where its columns are the key columns
	// of one base table; nil where there is none.
	PrimaryKey []*Column
	// Uniques are the unique constraints and unique indexes, the primary key's included, on plain columns.
	Uniques []*Unique
	// Relationships are the ways to related rows, by foreign keys in either direction, through junction tables and by
	// computed relationships. Ordered by target and name.
	Relationships []*Relationship
	// Computed are the functions that take a row of the relation and return one value: columns computed on reading.
	Computed map[string]*Function
	// Partition is true for a partition of a partitioned table: served, but not advertised.
	Partition bool
	// RowSecurity is true where row-level security is enabled.
	RowSecurity bool
	// Insertable, Updatable and Deletable tell whether the kind of relation allows it at all (views may not).
	Insertable, Updatable, Deletable bool
	// HasXmin is true where rows have the system column xmin: plain tables. A partitioned table has it when read, but
	// not in an INSERT's RETURNING.
	HasXmin bool
	// Grants are the privileges on the whole relation. A role that lacks one may still have it on some Columns.
	Grants Grants
	// EstimatedRows is pg_class.reltuples; -1 where never analysed.
	EstimatedRows float64

	columns  map[string]*Column
	byNumber map[int]*Column
	rowType  uint32
	writable bool // a view whose triggers take values for any column
}

// Column is a column of a relation.
type Column struct {
	Name     string
	Position int
	Type     *Type
	// TypeSQL is the type as in a declaration, with its modifier: character varying(20).
	TypeSQL string
	// MaxLength is the n of varchar(n) and char(n); 0 for none.
	MaxLength int
	NotNull   bool // the domain's constraint included
	// Default is the default's expression, the column's own or else its domain's; "" for none. Identity and generated
	// columns have none but HasDefault.
	Default    string
	HasDefault bool
	// Identity is 'a' (always), 'd' (by default) or 0.
	Identity byte
	// Generated is true for a generated column: it cannot be written.
	Generated bool
	// Updatable is false for a view's expression columns.
	Updatable  bool
	Comment    string
	PrimaryKey bool
	// Grants are the privileges to read and write the column, by grants on it or on the whole relation.
	Grants Grants
}

// TypeKind is what a type is.
type TypeKind byte

// The kinds. Array is every type that is subscripted as a true array.
const (
	Base       TypeKind = 'b'
	Array      TypeKind = 'a'
	Composite  TypeKind = 'c'
	Domain     TypeKind = 'd'
	Enum       TypeKind = 'e'
	Pseudo     TypeKind = 'p'
	Range      TypeKind = 'r'
	Multirange TypeKind = 'm'
)

// Type is a data type.
type Type struct {
	OID    uint32
	Schema string
	Name   string
	// SQL is the type as it is written in a cast: quoted and qualified as far as needed with search_path pg_catalog.
	SQL  string
	Kind TypeKind
	// Category is pg_type.typcategory.
	Category byte
	// Elem is an array's element type or a domain's base type (which may be a domain); nil otherwise.
	Elem *Type
	// Labels are an enum's, in order.
	Labels []string
	// Attributes are a composite type's.
	Attributes []Attribute
	Comment    string

	notNull   bool   // of a domain
	modifier  int    // of a domain's base type; -1 for none
	fallback  string // a domain's default
	elem      uint32
	relation  uint32 // whose row type it is
	attribute []uint32
}

// Attribute is a field of a composite type, or a column of a function's result.
type Attribute struct {
	Name string
	Type *Type
}

// Underlying is the type without domains around it.
func (t *Type) Underlying() *Type {
	for t.Kind == Domain && t.Elem != nil {
		t = t.Elem
	}
	return t
}

// Unique is a unique constraint or index.
type Unique struct {
	Name    string
	Columns []string
	Primary bool
	// Predicate is the WHERE of a partial unique index, "" for none.
	Predicate string
	// NullsNotDistinct as in PostgreSQL 15.
	NullsNotDistinct bool
	// Deferrable is true for a constraint that ON CONFLICT cannot use because it may be checked later.
	Deferrable bool
}

// Relationship leads from one relation's row to related rows.
type Relationship struct {
	From, To *Relation
	// Name is the foreign key constraint's, or the function's for a computed relationship.
	Name string
	// One is true when there is at most one related row.
	One bool
	// Outgoing is true when From holds the foreign key; not for junctions and functions.
	Outgoing bool
	// Columns are pairs of From's and To's columns that are equal; with a junction, of From's and the junction's.
	Columns []ColumnPair
	// Junction is the table between in a many-to-many relationship; nil otherwise.
	Junction *Relation
	// JunctionName is the constraint that leads from the junction to To, Name the one that leads to From.
	JunctionName string
	// JunctionColumns are pairs of the junction's and To's columns.
	JunctionColumns []ColumnPair
	// Function computes the related rows from From's row; nil otherwise.
	Function *Function
}

// ColumnPair is two columns that a join makes equal.
type ColumnPair struct{ From, To string }

// Volatility is a function's.
type Volatility byte

// The volatilities, as in pg_proc.provolatile.
const (
	Immutable Volatility = 'i'
	Stable    Volatility = 's'
	Volatile  Volatility = 'v'
)

// Function is a function or procedure that can be called by name.
type Function struct {
	OID     uint32
	Schema  string
	Name    string
	Comment string
	Args    []Argument // those that a caller gives
	// Outs are the OUT arguments of a procedure, for which CALL wants something (null) in their place. Their places are
	// after Args in named notation.
	Outs       []Argument
	Volatility Volatility
	Procedure  bool // called by CALL
	// ReturnsSet is true for SETOF and TABLE results.
	ReturnsSet bool
	// Returns is the result's type; of each row for sets. void is a Pseudo type of that name.
	Returns *Type
	// Columns are the result's columns where it is a row: TABLE(...), OUT arguments or a composite type. Nil for
	// scalars.
	Columns []Attribute
	// Relation is the table that the result's rows belong to, so that they can be filtered and embedded into; nil for none.
	Relation *Relation
	// SingleRow is true where a set is declared with ROWS 1.
	SingleRow bool
	Grants    Grants // Execute only
}

// Argument is an argument of a function.
type Argument struct {
	Name       string // "" for none
	Type       *Type
	HasDefault bool
	Variadic   bool
}

// Relation returns the relation of exactly that name; nil for none.
func (s *Schema) Relation(schema, name string) *Relation { return s.relations[[2]string{schema, name}] }

// Resolve returns the relation that a path names: the one of that name, else the one whose plural it is; nil for none.
func (s *Schema) Resolve(schema, name string) *Relation {
	if r := s.relations[[2]string{schema, name}]; r != nil {
		return r
	}
	return s.plurals[[2]string{schema, name}]
}

// Overloads returns the functions of that name.
func (s *Schema) Overloads(schema, name string) []*Function {
	return s.functions[[2]string{schema, name}]
}

// RelationByOID returns a relation by its oid; nil for none.
func (s *Schema) RelationByOID(oid uint32) *Relation { return s.byOID[oid] }

// Type returns a type by its oid; nil where no column, argument or result uses it.
func (s *Schema) Type(oid uint32) *Type { return s.types[oid] }

// Role is the index of a role in Roles. A role that is not there has no privileges at all.
func (s *Schema) Role(name string) int {
	if name == "" {
		return Owner
	}
	for i, r := range s.Roles {
		if r == name {
			return i
		}
	}
	return len(s.Roles)
}

// Column returns a column by name; nil for none.
func (r *Relation) Column(name string) *Column { return r.columns[name] }
