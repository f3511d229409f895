package compile

import (
	"strings"

	"github.com/boughdb/bough/server/introspect"
)

// coding says how values of an expression become JSON.
type coding struct {
	encoding Encoding
	// wrap is true for values that only PostgreSQL turns into JSON, by to_json in the SQL.
	wrap bool
	// incomparable is true for the type json, which has no equality.
	incomparable bool
	// json is true for json and jsonb, which have the operators of paths.
	json bool
}

var (
	codeString = coding{}
	codeNumber = coding{encoding: Number}
	codeBool   = coding{encoding: Bool}
	codeTime   = coding{encoding: Timestamp}
	codeJSON   = coding{encoding: JSON, json: true, incomparable: true}
	codeJSONB  = coding{encoding: JSON, json: true}
	// codeOther is for arrays, composites and types that are not known here.
	codeOther = coding{encoding: JSON, wrap: true}
)

// codingOf returns a type's coding. It agrees with to_json, except where the type has a cast to json of its own.
func codingOf(t *introspect.Type) coding {
	if t == nil {
		return codeOther
	}
	t = t.Underlying()
	switch t.Kind {
	case introspect.Enum, introspect.Range, introspect.Multirange:
		return codeString
	case introspect.Base:
		if t.Schema == "pg_catalog" {
			if builtin, ok := builtins[t.Name]; ok {
				return builtin.coding
			}
		}
	}
	return codeOther
}

// builtin is a type of PostgreSQL that Bough knows.
type builtin struct {
	coding
	// sql is how a cast to it is written.
	sql string
}

// builtins are by the names of pg_type.
var builtins = map[string]builtin{
	"int2":        {codeNumber, "int2"},
	"int4":        {codeNumber, "int4"},
	"int8":        {codeNumber, "int8"},
	"float4":      {codeNumber, "float4"},
	"float8":      {codeNumber, "float8"},
	"numeric":     {codeNumber, "numeric"},
	"bool":        {codeBool, "bool"},
	"json":        {codeJSON, "json"},
	"jsonb":       {codeJSONB, "jsonb"},
	"timestamp":   {codeTime, "timestamp"},
	"timestamptz": {codeTime, "timestamptz"},
	"text":        {codeString, "text"},
	"varchar":     {codeString, "varchar"},
	"bpchar":      {codeString, "bpchar"},
	"char":        {codeString, `"char"`},
	"name":        {codeString, "name"},
	"uuid":        {codeString, "uuid"},
	"date":        {codeString, "date"},
	"time":        {codeString, "time"},
	"timetz":      {codeString, "timetz"},
	"interval":    {codeString, "interval"},
	"bytea":       {codeString, "bytea"},
	"bit":         {codeString, "bit"},
	"varbit":      {codeString, "varbit"},
	"money":       {codeString, "money"},
	"oid":         {codeString, "oid"},
	"inet":        {codeString, "inet"},
	"cidr":        {codeString, "cidr"},
	"macaddr":     {codeString, "macaddr"},
	"macaddr8":    {codeString, "macaddr8"},
	"xml":         {codeString, "xml"},
	"tsvector":    {codeString, "tsvector"},
	"tsquery":     {codeString, "tsquery"},
}

// standardNames are the names of the SQL standard and of PostgreSQL's grammar that pg_type does not have.
var standardNames = map[string]string{
	"int": "int4", "integer": "int4", "smallint": "int2", "bigint": "int8", "real": "float4", "float": "float8",
	"double precision": "float8", "decimal": "numeric", "dec": "numeric", "boolean": "bool", "character varying": "varchar",
	"character": "char1", "char": "char1", "bit varying": "varbit", "timestamp without time zone": "timestamp",
	"timestamp with time zone": "timestamptz", "time without time zone": "time", "time with time zone": "timetz",
}

// castType returns the SQL and the coding of a type that a request names: [schema.]name[(n[,m])][[]]. Nothing of it
// reaches the statement but a known name, quoted identifiers and digits. A type that is not there is PostgreSQL's error.
func (l *level) castType(name string) (string, coding) {
	b := l.c.b
	name, array := strings.CutSuffix(strings.TrimSpace(name), "[]")
	for more := array; more; {
		name, more = strings.CutSuffix(name, "[]") // all dimensions are one type
	}
	modifier := ""
	if i := strings.IndexByte(name, '('); i >= 0 && strings.HasSuffix(name, ")") {
		name, modifier = name[:i], name[i:]
		if strings.Trim(modifier, "(),0123456789 ") != "" || strings.Count(modifier, "(") != 1 ||
			strings.Count(modifier, ")") != 1 || strings.Trim(modifier, "(), ") == "" {
			b.fail(errCast.Msgf("%q is not a type's modifier", modifier))
		}
		for part := range strings.SplitSeq(modifier[1:len(modifier)-1], ",") {
			if part = strings.TrimSpace(part); part == "" || strings.ContainsAny(part, " ,") {
				b.fail(errCast.Msgf("%q is not a type's modifier", modifier))
			}
		}
	}
	name = strings.Join(strings.Fields(name), " ")
	sql, code := l.namedType(name, modifier != "")
	sql += modifier
	if array {
		return sql + "[]", codeOther
	}
	return sql, code
}

func (l *level) namedType(name string, modified bool) (string, coding) {
	lower := strings.ToLower(name)
	if standard, ok := standardNames[lower]; ok {
		lower = standard
	}
	if lower == "char1" { // character alone is of length 1
		if !modified {
			return "character", codeString
		}
		lower = "bpchar"
	}
	if known, ok := builtins[lower]; ok {
		return known.sql, known.coding
	}
	b := l.c.b
	if schema, rest, ok := strings.Cut(name, "."); ok {
		return b.capture(func() { b.name(schema, rest) }), codeOther
	}
	if t := l.c.typeNamed(name); t != nil {
		return t.SQL, codingOf(t)
	}
	return b.capture(func() { b.ident(name) }), codeOther
}

// typeNamed finds a type that a column uses by its name alone; one of the request's schema comes first.
func (c Context) typeNamed(name string) *introspect.Type {
	var found *introspect.Type
	for _, r := range c.Schema.Relations {
		for _, column := range r.Columns {
			t := column.Type
			if t == nil || t.Name != name || t.Kind == introspect.Array {
				continue
			}
			if t.Schema == c.Namespace {
				return t
			}
			if found == nil {
				found = t
			}
		}
	}
	return found
}
