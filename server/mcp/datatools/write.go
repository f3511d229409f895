package datatools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/mcp"
	"github.com/boughdb/bough/server/tables"
)

type onConflict struct {
	Columns []string `json:"columns,omitempty" jsonschema:"unique key that decides; default the primary key"`
	Action  string   `json:"action" schema:"enum=error|ignore|update"`
}

type insertInput struct {
	Table      string                       `json:"table" jsonschema:"name, or schema.name"`
	Records    []map[string]json.RawMessage `json:"records" jsonschema:"objects with values by column; columns left out get their defaults" schema:"min=1,max=500"`
	OnConflict *onConflict                  `json:"on_conflict,omitempty" jsonschema:"what becomes of records that are there already; default error"`
	Returning  []string                     `json:"returning,omitempty" jsonschema:"columns of the written records to return; none by default"`
}

type insertResult struct {
	Written   int64             `json:"written"`
	Rows      []json.RawMessage `json:"rows,omitempty" schema:"of=object"`
	Truncated bool              `json:"truncated,omitempty" jsonschema:"all were written, but not all are shown"`
}

func (s *service) insertRecords() mcp.Tool {
	return mcp.NewTool[insertInput, insertResult](mcp.Tool{
		Name: "insert_records", Title: "Insert records", Feature: mcp.Tables, Scopes: []string{auth.WriteTables},
		Description: "Insert records into a table, all or none. With on_conflict update it changes those that are there.",
		Destructive: true, Branched: true,
	}, func(ctx context.Context, c *mcp.Call, in insertInput) (*mcp.Result, error) {
		p := &parameters{}
		p.columns("select", in.Returning)
		prefer := []string{"return=minimal", "count=exact"}
		if len(in.Returning) > 0 {
			prefer[0] = "return=representation"
		}
		if oc := in.OnConflict; oc != nil && oc.Action != "error" {
			p.columns("on_conflict", oc.Columns)
			resolution := "resolution=ignore-duplicates"
			if oc.Action == "update" {
				resolution = "resolution=merge-duplicates"
				if err := ask(c, fmt.Sprintf("Write %s into %s on branch %s, over those with the same key?", count(int64(len(in.Records)), "record"), in.Table, c.Branch)); err != nil {
					return nil, err
				}
			}
			prefer = append(prefer, resolution)
		} else if oc != nil && len(oc.Columns) > 0 {
			return nil, fault.Field("on_conflict", "names columns, which mean something with the actions ignore and update only")
		}
		a, err := s.write(ctx, c, "POST", in.Table, p, in.Records, prefer)
		if err != nil {
			return nil, err
		}
		out := &insertResult{Truncated: a.cut}
		if out.Written, err = a.affected(); err != nil {
			return nil, err
		}
		if out.Rows, err = a.records(); err != nil && !a.cut { // all are written, even where the first is too large to be shown
			return nil, err
		}
		return &mcp.Result{
			Structured: out, Untrusted: len(out.Rows) > 0,
			Summary: fmt.Sprintf("%s written to %s on branch %s.", count(out.Written, "record"), in.Table, c.Branch),
		}, nil
	})
}

// write has the tables write something.
func (s *service) write(ctx context.Context, c *mcp.Call, method, table string, p *parameters, body any, prefer []string) (*answer, error) {
	schema, name := s.named(table)
	call := tables.Call{Method: method, Table: name, ContentProfile: schema, Query: p.String(), Prefer: prefer}
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("writing a body: %w", err)
		}
		call.Body = bytes.NewReader(data)
	}
	return s.serve(ctx, c, call)
}

// ask asks the person whether to go on, where her program can.
func ask(c *mcp.Call, question string) error {
	answer, err := c.Confirm(question)
	if err != nil {
		return err
	}
	if answer == mcp.Declined {
		return errDeclined
	}
	return nil
}

var errDeclined = fault.New(fault.Forbidden, "declined", "the person declined; nothing was changed").
	WithHint("ask what she wants instead; do not try another way to the same end")

type updateInput struct {
	Table   string                     `json:"table" jsonschema:"name, or schema.name"`
	Filters []filter                   `json:"filters" jsonschema:"which records; all must hold" schema:"min=1"`
	Values  map[string]json.RawMessage `json:"values" jsonschema:"new values by column"`
	MaxRows int64                      `json:"max_rows,omitempty" jsonschema:"change nothing if more match" schema:"default=100,min=1,max=10000"`
	DryRun  bool                       `json:"dry_run,omitempty" jsonschema:"only tell how many records match, and show some" schema:"default=false"`
}

type deleteInput struct {
	Table   string   `json:"table" jsonschema:"name, or schema.name"`
	Filters []filter `json:"filters" jsonschema:"which records; all must hold" schema:"min=1"`
	MaxRows int64    `json:"max_rows,omitempty" jsonschema:"delete nothing if more match" schema:"default=100,min=1,max=10000"`
	DryRun  bool     `json:"dry_run,omitempty" jsonschema:"only tell how many records match, and show some" schema:"default=false"`
}

type changeResult struct {
	Affected int64             `json:"affected" jsonschema:"how many records were changed; with dry_run, would be"`
	DryRun   bool              `json:"dry_run"`
	Sample   []json.RawMessage `json:"sample,omitempty" jsonschema:"with dry_run, some of the records as they are" schema:"of=object"`
}

func (s *service) updateRecords() mcp.Tool {
	return mcp.NewTool[updateInput, changeResult](mcp.Tool{
		Name: "update_records", Title: "Update records", Feature: mcp.Tables, Scopes: []string{auth.WriteTables},
		Description: "Change the records that match the filters. Nothing is changed where more than max_rows match; dry_run tells how many do.",
		Destructive: true, Idempotent: true, Branched: true,
	}, func(ctx context.Context, c *mcp.Call, in updateInput) (*mcp.Result, error) {
		if len(in.Values) == 0 {
			return nil, fault.Field("values", "must have at least one column")
		}
		return s.change(ctx, c, &change{
			method: "PATCH", table: in.Table, filters: in.Filters, values: in.Values, maxRows: in.MaxRows, dryRun: in.DryRun,
			verb: "Update", done: "updated", more: " Columns: " + strings.Join(slices.Sorted(maps.Keys(in.Values)), ", ") + ".",
		})
	})
}

func (s *service) deleteRecords() mcp.Tool {
	return mcp.NewTool[deleteInput, changeResult](mcp.Tool{
		Name: "delete_records", Title: "Delete records", Feature: mcp.Tables, Scopes: []string{auth.WriteTables},
		Description: "Delete the records that match the filters. Nothing is deleted where more than max_rows match; dry_run tells how many do.",
		Destructive: true, Idempotent: true, Branched: true,
	}, func(ctx context.Context, c *mcp.Call, in deleteInput) (*mcp.Result, error) {
		return s.change(ctx, c, &change{
			method: "DELETE", table: in.Table, filters: in.Filters, maxRows: in.MaxRows, dryRun: in.DryRun, verb: "Delete", done: "deleted",
		})
	})
}

// change is an update or a delete.
type change struct {
	method, table string
	filters       []filter
	values        map[string]json.RawMessage // nil for a delete
	maxRows       int64
	dryRun        bool

	verb, done, more string // words
}

// sampleSize is how many records dry_run shows.
const sampleSize = 5

// change carries out a change, after a rehearsal that is rolled back: it finds out how many records there are to ask the
// person about, and what is wrong with the change before she is asked. The bound on their number holds in the
// transaction of the change itself, whatever was rehearsed.
func (s *service) change(ctx context.Context, c *mcp.Call, ch *change) (*mcp.Result, error) {
	n, err := s.apply(ctx, c, ch, true)
	if err != nil {
		return nil, err
	}
	if ch.dryRun {
		return s.sample(ctx, c, ch, n)
	}
	if n > 0 {
		if err := ask(c, fmt.Sprintf("%s %s of %s on branch %s?%s", ch.verb, count(n, "record"), ch.table, c.Branch, ch.more)); err != nil {
			return nil, err
		}
		if n, err = s.apply(ctx, c, ch, false); err != nil {
			return nil, err
		}
	}
	return &mcp.Result{
		Structured: changeResult{Affected: n},
		Summary:    fmt.Sprintf("%s of %s on branch %s %s.", count(n, "record"), ch.table, c.Branch, ch.done),
	}, nil
}

// apply does the change, or rehearses it. A dry run is not bounded: it is to tell how many there are.
func (s *service) apply(ctx context.Context, c *mcp.Call, ch *change, rehearse bool) (int64, error) {
	p := &parameters{}
	if err := p.filters(ch.filters); err != nil {
		return 0, err
	}
	prefer := []string{"return=minimal", "count=exact"}
	if !ch.dryRun {
		prefer = append(prefer, "handling=strict", "max-affected="+strconv.FormatInt(ch.maxRows, 10))
	}
	if rehearse {
		prefer = append(prefer, "tx=rollback")
	}
	var body any
	if ch.values != nil {
		body = ch.values
	}
	a, err := s.write(ctx, c, ch.method, ch.table, p, body, prefer)
	var f *fault.Error
	if errors.As(err, &f) && f.Code == "PGRST124" {
		more := f.Msgf("more than max_rows = %d records match, so nothing was %s", ch.maxRows, ch.done)
		return 0, more.WithHint("narrow the filters, or raise max_rows if all of them are meant; dry_run shows what matches")
	}
	if err != nil {
		return 0, err
	}
	return a.affected()
}

// sample is the result of a dry run. Who may write may not be able to read: then there is no sample.
func (s *service) sample(ctx context.Context, c *mcp.Call, ch *change, n int64) (*mcp.Result, error) {
	out := changeResult{Affected: n, DryRun: true}
	p := &parameters{}
	if err := p.filters(ch.filters); err != nil {
		return nil, err
	}
	shown, err := s.list(ctx, c, ch.table, p, sampleSize)
	var f *fault.Error
	switch {
	case err == nil:
		out.Sample = shown.Rows
	case !errors.As(err, &f):
		return nil, err
	}
	summary := fmt.Sprintf("%s of %s on branch %s would be %s; nothing was.", count(n, "record"), ch.table, c.Branch, ch.done)
	if n > ch.maxRows {
		summary += fmt.Sprintf(" That is more than max_rows = %d.", ch.maxRows)
	}
	return &mcp.Result{Structured: out, Summary: summary, Untrusted: len(out.Sample) > 0}, nil
}
