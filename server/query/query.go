// Package query is the language of table requests: it parses the query string and the headers that go with it into a
// small syntax tree. It knows nothing of the database: whether a name exists, and what it means, is for package compile
// to find out. Both forms of a filter are accepted, column.op=value and PostgREST's column=op.value.
package query

// Request is a parsed query string.
type Request struct {
	// Select is what to return; nil stands for every column, an empty list (select=) for none.
	Select []Item
	// Where holds the filters of the relation itself; all of them must hold.
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
	// Args are the arguments of a function call, in the order of the query string: ParseCall fills them in. A name may
	// come several times, which is meant for a variadic argument only.
	Args []Arg
	// All is the @all parameter: a write without a filter is meant.
	All bool
}

// Modifiers are what a query string says of one embedded relation.
type Modifiers struct {
	// Path has the names or aliases of the embeds from the outside in; it is never empty.
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
	// Cast is the type after :: (of an aggregate: of its input); "" for none.
	// It is made of letters, digits, spaces, "_", "$" and ".", with (n) or (n,m) and [] after it.
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
	// Select is what the embed shows; empty, never nil, for relation().
	Select []Item
	// Position is the byte offset in the decoded select parameter, for messages.
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

// Filter compares a field with an operand. It belongs to the relation in whose Where it stands: Request.Where, or
// Modifiers.Where of the embed that the key's path names.
type Filter struct {
	// Field is a column. Where Op is Is and there is no JSON path, its name may also be that of an embed, of which the
	// filter then asks whether there are related rows (author.is.null); telling them apart needs the catalog.
	Field Field
	Not   bool
	Op    Op
	Quant Quantifier
	// Config is the text search configuration of the full-text operators; "" for none.
	Config string
	// Value is the operand; for Is one of null, not_null, true, false, unknown. For Like and ILike it is a true SQL
	// pattern: the star of PostgREST's form has become a percent sign.
	Value string
	// List holds the operands of In, and of operators with a quantifier; then it is not nil and Value is "". An empty
	// list matches nothing (In, Any) or everything (All).
	List []string
	// OtherColumn is true when Value names a column of the same relation to compare with (price.gt.col=cost).
	OtherColumn bool
	// Raw is the whole parameter as it came, not decoded, for messages. The conditions of one or= share it.
	Raw string
	// Alternative is a second reading of the same parameter; nil where there is none.
	Alternative *Alternative
}

// Alternative is another reading of a parameter: a filter at another path. It counts only when the first reading names
// something that does not exist (its column, or the embed that it stands under) and everything that the alternative
// names does. It is set in two cases:
//
//   - A key of several names, none of them in quotes, as in a.b.eq=1 or a.b=eq.1. The first reading is column b of embed a and stands in
//     Embeds["a"].Where; the alternative is the column "a.b" of the relation itself: Path is nil, Filter.Field.Name is
//     "a.b", and all else is as in the first reading.
//   - A key that ends in an operator while the value begins with one, as in a.cs=eq.1. The first reading is that
//     column a contains the text "eq.1"; the alternative is column "cs" of embed a: Path is ["a"], and Filter says that
//     "cs" equals 1. Where the first reading is malformed, as in a.is=eq.1, and select has the embed a, the second is
//     the only one.
//
// A parameter for which both hold, such as a.b.eq=eq.1, has the first as Alternative and the second as
// Alternative.Filter.Alternative. Whichever names things that exist is meant; the second needs embed a, the first its
// absence.
type Alternative struct {
	// Path names the embed; nil for the relation itself.
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
