package datatools

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/mcp"
	"github.com/boughdb/bough/server/tables"
)

// records is a list of records, or the beginning of one.
type records struct {
	Rows []json.RawMessage `json:"rows" schema:"of=object"`
	// Truncated is true where there are more.
	Truncated bool `json:"truncated"`
	// NextOffset is where they begin.
	NextOffset int64 `json:"next_offset,omitempty"`
}

type queryTableInput struct {
	Table   string    `json:"table" jsonschema:"name, or schema.name"`
	Select  []string  `json:"select,omitempty" jsonschema:"columns, default all; related records as other_table(column,column)"`
	Filters []filter  `json:"filters,omitempty" jsonschema:"all must hold"`
	Order   []sorting `json:"order,omitempty"`
	Limit   int64     `json:"limit,omitempty" schema:"default=50,min=1,max=200"`
	Offset  int64     `json:"offset,omitempty" schema:"default=0,min=0"`
}

func (s *service) queryTable() mcp.Tool {
	return mcp.NewTool[queryTableInput, records](mcp.Tool{
		Name: "query_table", Title: "Query a table", Feature: mcp.Tables, Scopes: []string{auth.ReadTables},
		Description: "List records of a table or view, with filters, order and paging. Look at the columns with describe_table first. For joins and anything else use run_sql_query.",
		ReadOnly:    true, Idempotent: true, Branched: true,
	}, func(ctx context.Context, c *mcp.Call, in queryTableInput) (*mcp.Result, error) {
		p := &parameters{}
		p.columns("select", in.Select)
		p.order(in.Order)
		if err := p.filters(in.Filters); err != nil {
			return nil, err
		}
		if in.Offset > 0 {
			p.add("offset", strconv.FormatInt(in.Offset, 10))
		}
		out, err := s.list(ctx, c, in.Table, p, in.Limit)
		if err != nil {
			return nil, err
		}
		summary := fmt.Sprintf("%s of %s.", count(int64(len(out.Rows)), "record"), in.Table)
		if out.Truncated {
			out.NextOffset = in.Offset + int64(len(out.Rows))
			summary += fmt.Sprintf(" There are more: call again with offset %d", out.NextOffset)
			if len(in.Order) == 0 {
				summary += " and an order by a unique column"
			}
			summary += ", or use filters or aggregate_table."
		}
		return &mcp.Result{Structured: out, Summary: summary, Untrusted: true}, nil
	})
}

// list reads up to limit records. One more is asked for, to know whether there are more.
func (s *service) list(ctx context.Context, c *mcp.Call, table string, p *parameters, limit int64) (*records, error) {
	ask := limit + 1
	if s.MaxRows > 0 && ask > s.MaxRows {
		ask = s.MaxRows
	}
	p.add("limit", strconv.FormatInt(ask, 10))
	schema, name := s.named(table)
	a, err := s.serve(ctx, c, tables.Call{Method: "GET", Table: name, AcceptProfile: schema, Query: p.String()})
	if err != nil {
		return nil, err
	}
	rows, err := a.records()
	if err != nil {
		return nil, err
	}
	out := &records{Rows: rows, Truncated: a.cut}
	// Where the server's own bound leaves no room for one more, a full page is taken not to be the last.
	if n := int64(len(rows)); n > limit || n == ask && ask <= limit {
		out.Truncated = true
		out.Rows = rows[:min(n, limit)]
	}
	return out, nil
}

type getRecordInput struct {
	Table  string          `json:"table" jsonschema:"name, or schema.name"`
	ID     json.RawMessage `json:"id" jsonschema:"value of the primary key; a list of values, in key order, where it has several columns"`
	Select []string        `json:"select,omitempty" jsonschema:"columns, default all; related records as other_table(column,column)"`
}

type record struct {
	Record json.RawMessage `json:"record" schema:"of=object"`
}

func (s *service) getRecord() mcp.Tool {
	return mcp.NewTool[getRecordInput, record](mcp.Tool{
		Name: "get_record", Title: "Get a record", Feature: mcp.Tables, Scopes: []string{auth.ReadTables},
		Description: "Get one record by its primary key.",
		ReadOnly:    true, Idempotent: true, Branched: true,
	}, func(ctx context.Context, c *mcp.Call, in getRecordInput) (*mcp.Result, error) {
		key, err := keyOf(in.ID)
		if err != nil {
			return nil, err
		}
		p := &parameters{}
		p.columns("select", in.Select)
		schema, name := s.named(in.Table)
		if err := s.fits(ctx, c, schema, name, key); err != nil {
			return nil, err
		}
		a, err := s.serve(ctx, c, tables.Call{
			Method: "GET", Table: name, AcceptProfile: schema, Query: p.String(), Key: key, RawKey: strings.Join(key, ","),
		})
		if err != nil {
			return nil, err
		}
		value, err := a.value()
		if err != nil {
			return nil, err
		}
		return &mcp.Result{Structured: record{value}, Untrusted: true}, nil
	})
}

// fits returns an error for several values where the key is one column: in a path they would be one value with a comma.
func (s *service) fits(ctx context.Context, c *mcp.Call, schema, table string, key []string) error {
	if len(key) == 1 {
		return nil // the tables say what is wrong with it
	}
	catalog, err := s.Schemas.Get(ctx, c.Database)
	if err != nil {
		return err
	}
	if schema == "" {
		schema = s.Exposed[0]
	}
	rel := catalog.Resolve(schema, table)
	if rel == nil || len(rel.PrimaryKey) != 1 {
		return nil
	}
	return fault.Field("id", "must be one value: the key of %s is %s", table, rel.PrimaryKey[0].Name)
}

// keyOf are the parts of a key.
func keyOf(id json.RawMessage) ([]string, error) {
	parts := []json.RawMessage{id}
	if kindOf(id) == 'a' {
		if err := json.Unmarshal(id, &parts); err != nil {
			return nil, fmt.Errorf("reading a key: %w", err)
		}
	}
	key := make([]string, len(parts))
	for i, part := range parts {
		text, ok := scalar(part)
		if !ok || kindOf(part) == 'n' {
			return nil, fault.Field("id", "must be a text or a number, or a list of them for a key of several columns")
		}
		key[i] = text
	}
	if len(key) == 0 {
		return nil, fault.Field("id", "must not be an empty list")
	}
	return key, nil
}

type aggregate struct {
	Fn     string `json:"fn" schema:"enum=count|sum|avg|min|max"`
	Column string `json:"column,omitempty" jsonschema:"needed but for count, which counts records without it"`
}

type aggregateTableInput struct {
	Table      string      `json:"table" jsonschema:"name, or schema.name"`
	Aggregates []aggregate `json:"aggregates" schema:"min=1,max=20"`
	GroupBy    []string    `json:"group_by,omitempty" schema:"max=10"`
	Filters    []filter    `json:"filters,omitempty" jsonschema:"all must hold"`
}

// maxGroups is how many groups aggregate_table shows.
const maxGroups = 200

func (s *service) aggregateTable() mcp.Tool {
	return mcp.NewTool[aggregateTableInput, records](mcp.Tool{
		Name: "aggregate_table", Title: "Aggregate a table", Feature: mcp.Tables, Scopes: []string{auth.ReadTables},
		Description: "Count, sum, average, smallest and largest values of a table's records, by groups if wanted. Results are named count, sum_price and so on.",
		ReadOnly:    true, Idempotent: true, Branched: true,
	}, func(ctx context.Context, c *mcp.Call, in aggregateTableInput) (*mcp.Result, error) {
		p := &parameters{}
		if err := p.aggregates(in); err != nil {
			return nil, err
		}
		if err := p.filters(in.Filters); err != nil {
			return nil, err
		}
		out, err := s.list(ctx, c, in.Table, p, maxGroups)
		if err != nil {
			return nil, err
		}
		summary := ""
		if out.Truncated {
			summary = fmt.Sprintf("These are the first %s, by group_by; use filters for others, or run_sql_query to order by a result.", count(int64(len(out.Rows)), "group"))
		}
		return &mcp.Result{Structured: out, Summary: summary, Untrusted: true}, nil
	})
}

// aggregates adds the select and the order of groups.
func (p *parameters) aggregates(in aggregateTableInput) error {
	items := make([]string, 0, len(in.GroupBy)+len(in.Aggregates))
	order := make([]sorting, 0, len(in.GroupBy))
	used := map[string]bool{}
	for _, name := range in.GroupBy {
		if used[name] {
			return fault.Field("group_by", "has %s twice", name)
		}
		used[name] = true
		items = append(items, column(name))
		order = append(order, sorting{Column: name})
	}
	for _, a := range in.Aggregates {
		name, of := a.Fn, ""
		switch {
		case a.Column != "":
			name, of = a.Fn+"_"+a.Column, column(a.Column)+"."
		case a.Fn != "count":
			return fault.Field("aggregates", "must name a column for %s", a.Fn)
		}
		if used[name] {
			return fault.Field("aggregates", "has %s twice, or it is the name of a group's column", name)
		}
		used[name] = true
		items = append(items, quote(name)+":"+of+a.Fn+"()")
	}
	p.add("select", strings.Join(items, ","))
	p.order(order)
	return nil
}

// count writes a number with what is counted.
func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.FormatInt(n, 10) + " " + what + "s"
}
