package readsql

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
)

// references are what a tree refers to, by oid.
type references struct {
	functions, operators, relations map[uint32]bool
	columns                         []columnReference
	// ranges counts how often a relation is in FROM.
	ranges map[uint32]int
	// roles is true where a value is the name of a role.
	roles bool
	// filters are the functions and operators that PostgreSQL may call before it has filtered the rows of a view: all but
	// those of the list of the outermost SELECT. leaks is true where there is anything else that may raise an error.
	filters struct {
		functions, operators map[uint32]bool
		leaks                bool
	}
	depth int  // of the query that is walked
	shown bool // what is walked is of the list of the outermost SELECT
}

// columnReference is a column that is read; number 0 stands for the whole row.
type columnReference struct {
	Relation uint32 `json:"relation"`
	Number   int    `json:"number"`
}

// nodes are the kinds of nodes that an analysed SELECT consists of, in PostgreSQL 15 to 18. One that is not among them
// may refer to functions in a way that is not known here, so it is refused.
var nodes = set(`QUERY COMMONTABLEEXPR CTESEARCHCLAUSE CTECYCLECLAUSE RANGETBLENTRY RTEPERMISSIONINFO ALIAS FROMEXPR JOINEXPR
	RANGETBLREF RANGETBLFUNCTION TABLEFUNC TABLESAMPLECLAUSE TARGETENTRY SORTGROUPCLAUSE GROUPINGSET WINDOWCLAUSE
	SETOPERATIONSTMT VAR CONST PARAM AGGREF GROUPINGFUNC WINDOWFUNC SUBSCRIPTINGREF FUNCEXPR NAMEDARGEXPR OPEXPR
	DISTINCTEXPR NULLIFEXPR SCALARARRAYOPEXPR BOOLEXPR SUBLINK FIELDSELECT RELABELTYPE COERCEVIAIO ARRAYCOERCEEXPR
	CONVERTROWTYPEEXPR COLLATEEXPR CASEEXPR CASEWHEN CASETESTEXPR ARRAYEXPR ROWEXPR ROWCOMPAREEXPR COALESCEEXPR MINMAXEXPR
	SQLVALUEFUNCTION XMLEXPR JSONFORMAT JSONRETURNING JSONVALUEEXPR JSONCONSTRUCTOREXPR JSONISPREDICATE JSONBEHAVIOR
	JSONEXPR JSONTABLEPATH JSONTABLEPATHSCAN JSONTABLESIBLINGJOIN NULLTEST BOOLEANTEST COERCETODOMAIN`)

// The fields that hold oids of functions, operators and relations.
var (
	functionFields = set("funcid opfuncid hashfuncid negfuncid aggfnoid winfnoid startInRangeFunc endInRangeFunc tsmhandler")
	operatorFields = set("opno eqop sortop cycle_mark_neop")
	relationFields = set("relid")
)

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// walk makes sure that the body of a function is one SELECT that changes and locks nothing, and collects what it refers to.
func walk(body value) (*references, error) {
	// BEGIN ATOMIC has a list of a list of statements, RETURN has one alone.
	if len(body.list) != 1 || len(body.list[0].list) != 1 || body.list[0].list[0].node == nil {
		return nil, errNotSelect
	}
	root := body.list[0].list[0].node
	if root.name != "QUERY" || root.get("isReturn").token == "true" {
		return nil, errNotSelect
	}
	refs := &references{functions: map[uint32]bool{}, operators: map[uint32]bool{}, relations: map[uint32]bool{}, columns: []columnReference{}, ranges: map[uint32]int{}}
	refs.filters.functions, refs.filters.operators = map[uint32]bool{}, map[uint32]bool{}
	refs.shown = true // of the root, only the list is
	return refs, refs.node(root)
}

// The oids of the types regrole and regrole[], which PostgreSQL never changes.
const (
	roleType  = 4096
	rolesType = 4097
)

var (
	// typeFields hold the oid of the type of a value.
	typeFields = set(`consttype vartype paramtype resulttype funcresulttype opresulttype aggtype wintype array_typeid element_typeid
		coalescetype minmaxtype casetype typeId row_typeid refelemtype refrestype`)
	// leakyNodes may raise an error about a value, or show it otherwise.
	leakyNodes = set(`COERCEVIAIO ARRAYCOERCEEXPR XMLEXPR JSONCONSTRUCTOREXPR JSONISPREDICATE JSONEXPR MINMAXEXPR ROWCOMPAREEXPR
		COERCETODOMAIN SUBSCRIPTINGREF CONVERTROWTYPEEXPR TABLEFUNC TABLESAMPLECLAUSE`)
)

func (r *references) value(v value) error {
	if v.node != nil {
		return r.node(v.node)
	}
	for _, item := range v.list {
		if err := r.value(item); err != nil {
			return err
		}
	}
	return nil
}

func (r *references) node(n *node) error {
	if !nodes[n.name] {
		return errUnknown.Msgf("the statement uses a feature that cannot be checked (%s)", strings.ToLower(n.name))
	}
	switch n.name {
	case "QUERY":
		if err := onlyReads(n); err != nil {
			return err
		}
	case "RANGETBLENTRY", "RTEPERMISSIONINFO": // up to PostgreSQL 15, and from 16 on
		if err := r.selected(n); err != nil {
			return err
		}
	case "FUNCEXPR":
		if err := onlyRequestSettings(n); err != nil {
			return err
		}
	}
	shown := r.shown
	defer func() { r.shown = shown }()
	if leakyNodes[n.name] && !shown {
		r.filters.leaks = true
	}
	if n.name == "RANGETBLENTRY" {
		r.ranges[n.get("relid").number()]++
	}
	for _, f := range n.fields {
		if n.name == "QUERY" {
			r.shown = shown && f.label == "targetList"
			if r.depth > 0 {
				r.shown = false
			}
		}
		switch {
		case functionFields[f.label]:
			r.function(f.value)
		case operatorFields[f.label]:
			r.operator(f.value)
		case relationFields[f.label]:
			note(r.relations, f.value)
		case f.label == "opnos":
			for _, item := range f.value.list {
				r.operator(item)
			}
		case typeFields[f.label]:
			r.roles = r.roles || f.value.number() == roleType || f.value.number() == rolesType
		}
		if n.name == "QUERY" {
			r.depth++
		}
		err := r.value(f.value)
		if n.name == "QUERY" {
			r.depth--
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *references) function(v value) {
	note(r.functions, v)
	if !r.shown {
		note(r.filters.functions, v)
	}
}

func (r *references) operator(v value) {
	note(r.operators, v)
	if !r.shown {
		note(r.filters.operators, v)
	}
}

// firstLowInvalid is what PostgreSQL subtracts from the numbers of columns, which may be negative, before it puts them
// into a set (its access/sysattr.h).
const firstLowInvalid = -7

// selected notes the columns of a relation for which the statement needs the privilege to select them. They are written
// as a set: (b 8 9).
func (r *references) selected(n *node) error {
	relation := n.get("relid").number()
	set := n.get("selectedCols").list
	if relation == 0 || len(set) == 0 {
		return nil
	}
	if set[0].token != "b" {
		return errTree
	}
	for _, item := range set[1:] {
		number, err := strconv.Atoi(item.token)
		if err != nil {
			return errTree
		}
		r.columns = append(r.columns, columnReference{relation, number + firstLowInvalid})
	}
	return nil
}

func note(oids map[uint32]bool, v value) {
	if oid := v.number(); oid != 0 {
		oids[oid] = true
	}
}

// onlyReads refuses a query, or a part of one, that is more than a SELECT.
func onlyReads(n *node) error {
	if n.get("commandType").token != "1" || !n.get("utilityStmt").empty() || n.get("hasModifyingCTE").token == "true" ||
		n.get("resultRelation").number() != 0 {
		return errNotSelect
	}
	if n.get("hasForUpdate").token == "true" || !n.get("rowMarks").empty() {
		return errNotSelect.Msgf("FOR UPDATE and FOR SHARE lock rows, which is not done here")
	}
	return nil
}

// The oids of current_setting(text) and current_setting(text, boolean), which PostgreSQL never changes.
const (
	currentSetting        = 2077
	currentSettingMissing = 3294
)

// onlyRequestSettings refuses to read settings that the database's owner invented: they are a place where secrets are
// kept. PostgreSQL's own, whose names have no dot, and those of the request are for everybody.
func onlyRequestSettings(n *node) error {
	if id := n.get("funcid").number(); id != currentSetting && id != currentSettingMissing {
		return nil
	}
	if args := n.get("args").list; len(args) > 0 && args[0].node != nil && args[0].node.name == "CONST" {
		name, ok := textOf(args[0].node.get("constvalue").bytes)
		if ok && (!strings.Contains(name, ".") || strings.HasPrefix(name, "request.")) {
			return nil
		}
	}
	return errRefused.Msgf("current_setting() is only called with the name of a setting of PostgreSQL, or of the request, as a constant").
		WithHint("for example current_setting('request.jwt.claims', true)")
}

// textOf reads a constant of type text as it is in memory: four bytes with the length, in the byte order of the server,
// or one byte where it is short.
func textOf(b []byte) (string, bool) {
	if len(b) < 4 {
		return "", false
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		n := order.Uint32(b)
		if order == binary.LittleEndian {
			n >>= 2
		}
		if int(n) == len(b) {
			return string(b[4:]), !bytes.ContainsRune(b[4:], 0)
		}
	}
	return "", false
}
