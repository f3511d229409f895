// Package compile turns table requests into SQL. The text of a statement depends on the shape of a request only, so that
// it can be prepared once; every value is a parameter, and every identifier was found in the catalog and is quoted.
package compile

import (
	"github.com/boughdb/bough/server/introspect"
)

// Statement is one SQL statement of a request.
type Statement struct {
	SQL string
	// Args are the parameters in text form, nil for NULL. Their types are for PostgreSQL to infer, or cast in SQL.
	Args [][]byte
	// Output describes the result's columns, in order.
	Output []Output
	// Call is true for CALL. Outside a transaction block a procedure may COMMIT, and go on without the role and the
	// settings of the request: the statement must run in a block, where COMMIT is an error.
	Call bool
}

// Output is a column of a statement's result.
type Output struct {
	Name     string
	Encoding Encoding
	// Wrapped tells that the JSON was made by to_json of a value that may be no JSON: a JSON string then stands for text.
	Wrapped bool
	// Hidden columns are not for the client: order keys of a cursor, xmin.
	Hidden bool
}

// Encoding says how a value's text form becomes JSON.
type Encoding byte

// The encodings.
const (
	// String quotes and escapes the text.
	String Encoding = iota
	// Number copies it, but quotes NaN and Infinity as to_json does.
	Number
	// Bool turns t and f into true and false.
	Bool
	// JSON copies it: it is JSON already, by type or by to_json in the SQL.
	JSON
	// Timestamp writes a timestamp or timestamptz as ISO 8601, as to_json does.
	Timestamp
)

// Context is what a request is compiled against.
type Context struct {
	Schema *introspect.Schema
	// Role is the index of the request's role in Schema.Roles, or introspect.Owner.
	Role int
	// Namespace is the database schema that names of the request belong to.
	Namespace string
	// MaxRows bounds the rows of a result; 0 for no bound.
	MaxRows int64
	// CountMost is where Count stops counting rows; 0 for no bound.
	CountMost int64
	// CountPlan has Count explain the rows that it would count, for PostgreSQL's estimate of their number.
	CountPlan bool
	// DenyAggregates refuses aggregate functions (PGRST123).
	DenyAggregates bool
	// DenyVolatile refuses computed columns and relationships whose function is volatile: it may do more than read.
	DenyVolatile bool
}
