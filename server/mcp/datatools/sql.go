package datatools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/mcp"
	"github.com/boughdb/bough/server/readsql"
)

type runSQLInput struct {
	SQL    string            `json:"sql" jsonschema:"one SELECT, VALUES or WITH … SELECT" schema:"min=1,max=65536"`
	Params []json.RawMessage `json:"params,omitempty" jsonschema:"values of $1, $2, …" schema:"max=100"`
	Limit  int               `json:"limit,omitempty" schema:"default=100,min=1,max=1000"`
}

// sqlResult has rows as lists, since a statement may give two columns the same name.
type sqlResult struct {
	Columns   []readsql.Column    `json:"columns"`
	Rows      [][]json.RawMessage `json:"rows" jsonschema:"each has a value for each column"`
	Truncated bool                `json:"truncated"`
}

func (s *service) runSQLQuery() mcp.Tool {
	return mcp.NewTool[runSQLInput, sqlResult](mcp.Tool{
		Name: "run_sql_query", Title: "Run an SQL query", Feature: mcp.Tables, Scopes: []string{auth.ReadTables},
		Description: "Run one SQL query that only reads, as the caller's database role with row-level security: joins, CTEs, window functions, the catalog. Give values as $1, $2 in params rather than in the text.",
		ReadOnly:    true, Idempotent: true, Branched: true,
	}, func(ctx context.Context, c *mcp.Call, in runSQLInput) (*mcp.Result, error) {
		q, err := s.query(c, in.SQL, in.Params)
		if err != nil {
			return nil, err
		}
		q.Limit = in.Limit
		res, err := s.SQL.Run(ctx, q)
		if err != nil {
			return nil, err
		}
		summary := count(int64(len(res.Rows)), "row") + "."
		switch res.Reason {
		case readsql.MoreRows:
			summary = fmt.Sprintf("The first %s; there are more. Raise limit up to 1000, narrow the query, or go on with order by and offset.", count(int64(len(res.Rows)), "row"))
		case readsql.MoreBytes:
			summary = fmt.Sprintf("The first %s; more would be too large. Select fewer columns or parts of them, or go on with order by and offset.", count(int64(len(res.Rows)), "row"))
		}
		return &mcp.Result{Structured: sqlResult{res.Columns, res.Rows, res.Truncated}, Summary: summary, Untrusted: true}, nil
	})
}

// query is a statement of a call.
func (s *service) query(c *mcp.Call, sql string, params []json.RawMessage) (*readsql.Query, error) {
	caller, err := s.caller(c)
	if err != nil {
		return nil, err
	}
	tag := "bough mcp " + c.Tool
	if c.RequestID != "" {
		tag += " " + c.RequestID
	}
	return &readsql.Query{Caller: caller, Database: c.Database, SQL: sql, Params: params, MaxBytes: maxBytes, Tag: tag}, nil
}

type explainInput struct {
	SQL     string            `json:"sql" jsonschema:"one SELECT, VALUES or WITH … SELECT, without EXPLAIN" schema:"min=1,max=65536"`
	Params  []json.RawMessage `json:"params,omitempty" jsonschema:"values of $1, $2, …" schema:"max=100"`
	Analyze bool              `json:"analyze,omitempty" jsonschema:"run it and measure; where row-level security applies, only the query as a whole is measured" schema:"default=false"`
}

type explainResult struct {
	Plan json.RawMessage `json:"plan" jsonschema:"as EXPLAIN (FORMAT JSON) has it" schema:"of=array"`
}

func (s *service) explainQuery() mcp.Tool {
	return mcp.NewTool[explainInput, explainResult](mcp.Tool{
		Name: "explain_query", Title: "Explain an SQL query", Feature: mcp.Tables, Scopes: []string{auth.ReadTables},
		Description: "Show how PostgreSQL runs a query that run_sql_query takes: which indexes, what cost, how long.",
		ReadOnly:    true, Idempotent: true, Branched: true,
	}, func(ctx context.Context, c *mcp.Call, in explainInput) (*mcp.Result, error) {
		q, err := s.query(c, in.SQL, in.Params)
		if err != nil {
			return nil, err
		}
		plan, err := s.SQL.Explain(ctx, q, in.Analyze)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := json.Compact(&b, plan); err != nil {
			return nil, fmt.Errorf("reading a plan: %w", err)
		}
		if b.Len() > maxBytes {
			return nil, errLarge.Msgf("the plan has more than %d bytes", maxBytes).WithHint("explain a part of the query")
		}
		return &mcp.Result{Structured: explainResult{b.Bytes()}, Untrusted: true}, nil
	})
}
