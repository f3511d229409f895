package readsql

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
)

// explain asks for the plan of a statement.
func (s *session) explain(ctx context.Context, q *Query, v *verdict, params [][]byte, analyze bool) (json.RawMessage, error) {
	defer s.end(ctx)
	options := "format json"
	if analyze {
		options += ", analyze"
	}
	var plan json.RawMessage
	err := s.asCaller(ctx, q, v, statement{
		sql: tag(q.Tag) + "explain (" + options + ") " + v.body, params: params, oids: v.oids(),
		row: func(values [][]byte) error {
			plan = bytes.Clone(values[0])
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	if !analyze || !v.guarded {
		return plan, nil
	}
	sees, err := s.query(ctx, "select rolsuper or rolbypassrls from pg_roles where rolname = current_user")
	if err != nil {
		return nil, fmt.Errorf("reading what a role sees: %w", err)
	}
	if len(sees) == 1 && sees[0][0] == "t" {
		return plan, nil
	}
	return outline(plan)
}

// outlined are the fields of a plan's steps that are known without running it. What was measured would tell how many
// rows there are that row-level security hides.
var outlined = map[string]bool{
	"Node Type": true, "Parent Relationship": true, "Strategy": true, "Partial Mode": true, "Parallel Aware": true, "Join Type": true,
	"Relation Name": true, "Schema": true, "Alias": true, "Index Name": true, "Scan Direction": true, "Function Name": true,
	"Table Function Name": true, "CTE Name": true, "Subplan Name": true, "Sampling Method": true, "Command": true,
	"Startup Cost": true, "Total Cost": true, "Plan Rows": true, "Plan Width": true, "Inner Unique": true, "Disabled": true,
	"Workers Planned": true, "Single Copy": true, "Sort Key": true, "Presorted Key": true, "Group Key": true, "Grouping Sets": true,
	"Hash Cond": true, "Merge Cond": true, "Join Filter": true, "Index Cond": true, "Recheck Cond": true, "TID Cond": true,
	"Filter": true, "One-Time Filter": true, "Order By": true, "Cache Key": true, "Cache Mode": true, "Plans": true,
}

// measured are the fields of the first step that tell of the statement as a whole: its time, and the rows that it gave.
var measured = map[string]bool{"Actual Startup Time": true, "Actual Total Time": true, "Actual Rows": true, "Actual Loops": true}

// outline leaves of an analysed plan what does not tell of hidden rows.
func outline(plan json.RawMessage) (json.RawMessage, error) {
	var whole []map[string]any
	if err := json.Unmarshal(plan, &whole); err != nil {
		return nil, fmt.Errorf("reading a plan: %w", err)
	}
	for _, top := range whole {
		for name, value := range top {
			switch name {
			case "Plan":
				if step, ok := value.(map[string]any); ok {
					strip(step, measured)
				}
			case "Planning Time", "Execution Time":
			default:
				delete(top, name)
			}
		}
	}
	out, err := json.Marshal(whole)
	if err != nil {
		return nil, fmt.Errorf("writing a plan: %w", err)
	}
	return out, nil
}

// strip removes the fields of a step, and of those below it, that are neither outlined nor kept.
func strip(step map[string]any, kept map[string]bool) {
	for name := range step {
		if !outlined[name] && !kept[name] {
			delete(step, name)
		}
	}
	below, _ := step["Plans"].([]any)
	for _, b := range below {
		if s, ok := b.(map[string]any); ok {
			strip(s, nil)
		}
	}
}
