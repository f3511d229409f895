// Package query is the language of table requests: it parses the query string and the headers that go with it into a
// small syntax tree. It knows nothing of the database: whether a name exists, and what it means, is for package compile
// to find out. Both forms of a filter are accepted, column.op=value and PostgREST's column=op.value.
package query

// Request is a parsed query string.
type Request struct {
	// Select is what to return; nil stands for every column.
	Select []Item
	// Where holds the filters; all of them must hold.
	Where []Cond
	Order []Order
	// Limit and Offset are nil where not given; never negative.
	Limit, Offset *int64
	// Columns are the columns of a write (columns=); nil where not given.
	Columns []string
	// OnConflict are the columns of an upsert's unique key (on_conflict=); nil where not given.
	OnConflict []string
	// Cursor is the @cursor parameter: "" asks for the first page; nil where not given.
	Cursor *string
	// Distinct is the @distinct parameter.
	Distinct *Distinct
	// Embeds are the modifiers of embedded relations, by path of names or aliases joined as PathKey does.
	Embeds map[string]*Modifiers
	// Args are the parameters of a function call that are not part of the language: ParseCall fills them in.
	Args []Arg
	// All is the @all parameter: a write without a filter is meant.
	All bool
}

// Modifiers are what a query string says of one embedded relation.
type Modifiers struct {
	Path          []string
	Where         []Cond
	Order         []Order
	Limit, Offset *int64
}

// Distinct asks for different rows; with fields for the first of each group that is equal in them (DISTINCT ON).
type Distinct struct{ On []Field }

// Arg is an argument of a function call in a query string.
type Arg struct{ Name, Value string }

// Field names a column or a part of a JSON value in it.
type Field struct {
	Name string
	Path []Step
}

// Step is one step of a JSON path: -> or ->>, to a key or an index.
type Step struct {
	Key   string
	Index int
	// IsIndex tells an index from a key.
	IsIndex bool
	// Text is true for ->>, which gives text instead of JSON.
	Text bool
}

// ItemKind is what an item of select is.
type ItemKind int

// The kinds of items.
const (
	Star      ItemKind = iota // *
	Column                    // column, with path, cast and alias
	Aggregate                 // column.sum() or count()
	Embed                     // relation(...)
)

// Item is an item of select.
type Item struct {
	Kind  ItemKind
	Alias string // "" for none
	// Field is the column of Column and Aggregate; an empty name stands for count().
	Field Field
	// Cast is the type after ::, before an aggregate; "" for none.
	Cast string
	// Func is the aggregate function: avg, count, max, min, sum.
	Func string
	// FuncCast is the type that an aggregate's result is cast to; "" for none.
	FuncCast string
	// The rest is of Embed.
	Target string // relation, foreign key column, constraint or computed relationship
	Hint   string // after !: constraint, column or junction; "" for none
	Join   Join
	Spread bool // ...relation(...)
	Select []Item
	// Position is the byte offset in the select parameter, for messages.
	Position int
}

// Join tells whether rows without related rows are kept.
type Join int

// The joins: not said, !inner, !left.
const (
	DefaultJoin Join = iota
	InnerJoin
	LeftJoin
)

// Cond is a condition: *Filter or *Logic or *Keyset.
type Cond interface{ cond() }

// Logic joins conditions by and or or.
type Logic struct {
	Not   bool
	Or    bool
	Conds []Cond
}

// Op is a filter operator.
type Op string

// The operators.
const (
	Eq         Op = "eq"
	Neq        Op = "neq"
	Gt         Op = "gt"
	Gte        Op = "gte"
	Lt         Op = "lt"
	Lte        Op = "lte"
	Like       Op = "like"
	ILike      Op = "ilike"
	Match      Op = "match"
	IMatch     Op = "imatch"
	In         Op = "in"
	Is         Op = "is"
	IsDistinct Op = "isdistinct"
	FTS        Op = "fts"
	PlFTS      Op = "plfts"
	PhFTS      Op = "phfts"
	WFTS       Op = "wfts"
	Contains   Op = "cs"
	Contained  Op = "cd"
	Overlaps   Op = "ov"
	StrictLeft Op = "sl"
	StrictRt   Op = "sr"
	NotRight   Op = "nxr"
	NotLeft    Op = "nxl"
	Adjacent   Op = "adj"
)

// Quantifier is any or all, for an operator with a list of operands.
type Quantifier int

// The quantifiers.
const (
	NoQuantifier Quantifier = iota
	Any
	All
)

// Filter compares a field with an operand.
type Filter struct {
	// Path is empty for the relation itself; inside or and and it may name an embed.
	Field Field
	Not   bool
	Op    Op
	Quant Quantifier
	// Config is the text search configuration of the full-text operators; "" for none.
	Config string
	// Value is the operand; for Is one of null, not_null, true, false, unknown. For like and ilike it is a true SQL
	// pattern: the star of PostgREST's form has become a percent sign.
	Value string
	// List holds the operands of In, and of operators with a quantifier.
	List []string
	// OtherColumn is true when Value names a column to compare with (price.gt.col=cost).
	OtherColumn bool
	// Raw is the parameter as it came, for messages.
	Raw string
	// Alternative is a second reading of the same parameter, which counts only when Field.Name (with the rest of the
	// path) does not exist and the alternative's names do (tables.md's rule 6 and the dotted column name).
	Alternative *Alternative
}

// Alternative is another reading of a parameter: a filter at another path.
type Alternative struct {
	Path   []string
	Filter Filter
}

// Keyset is the condition that a row comes after a cursor in the request's order. Package tables makes it.
type Keyset struct {
	Order  []Order
	Values []*string // in the text form; nil is NULL
}

func (*Filter) cond() {}
func (*Logic) cond()  {}
func (*Keyset) cond() {}

// Order is a term of the order.
type Order struct {
	// Embed is the name or alias of a to-one embed whose column orders the rows; "" for the relation's own.
	Embed string
	Field Field
	Desc  bool
	Nulls Nulls
}

// Nulls is where nulls are sorted.
type Nulls int

// The places: PostgreSQL's default (last for ascending, first for descending order), first, last.
const (
	DefaultNulls Nulls = iota
	NullsFirst
	NullsLast
)
