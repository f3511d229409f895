package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

// window is the part of a list that is asked for.
type window struct{ limit, offset int32 }

func pageFlags(cmd *cobra.Command) *window {
	w := &window{}
	cmd.Flags().Int32Var(&w.limit, "limit", 0, "show at most `n`; 0 is all")
	cmd.Flags().Int32Var(&w.offset, "offset", 0, "pass over the first `n`")
	return w
}

// listOf returns the window w of a list, read and as it came.
func listOf[L any](ctx context.Context, key string, w window, page func(ctx context.Context, limit, offset int32) (answer, error)) (L, answer, error) {
	var list L
	got, err := pages(ctx, key, w, page)
	if err == nil {
		err = json.Unmarshal(got.body, &list)
	}
	return list, got, err
}

// extent is how much of a list is shown, and what its entries are called.
type extent struct {
	count, total int
	one, many    string
}

// printList prints a list and, below a table that is not all of it, how much there is.
func (c *cli) printList(cmd *cobra.Command, format string, body []byte, t *table, s extent) error {
	if err := c.print(cmd, format, body, t); err != nil {
		return err
	}
	if s.count < s.total && format == formatTable {
		remark(cmd, "%d of %s", s.count, plural(s.total, s.one, s.many))
	}
	return nil
}

// pages returns the window w of a list whose entries are under the given key, as one answer. A window that fits a page
// is the server's own answer.
func pages(ctx context.Context, key string, w window, page func(ctx context.Context, limit, offset int32) (answer, error)) (answer, error) {
	if w.limit < 0 || w.offset < 0 {
		return answer{}, usagef("--limit and --offset must not be negative")
	}
	// Not nil, so that an empty list is written as [].
	entries := []json.RawMessage{}
	seen := map[string]bool{}
	for offset := w.offset; ; offset += pageSize {
		limit := int32(pageSize)
		if w.limit > 0 {
			limit = min(limit, w.limit-(offset-w.offset))
		}
		got, err := page(ctx, limit, offset)
		if err != nil {
			return answer{}, err
		}
		var list map[string]json.RawMessage
		var some []json.RawMessage
		var count int64
		err = json.Unmarshal(got.body, &list)
		if err == nil {
			err = json.Unmarshal(list[key], &some)
		}
		if err == nil {
			err = json.Unmarshal(list["total"], &count)
		}
		if err != nil {
			return answer{}, fmt.Errorf("reading the list of %s: %w", key, err)
		}
		read := int64(offset) + int64(len(some))
		last := len(some) == 0 || read >= count || w.limit > 0 && read >= int64(w.offset)+int64(w.limit)
		if last && offset == w.offset {
			return got, nil
		}
		for _, entry := range some {
			// What was made between two requests moves the rest on, so that a page may begin with what ended the last.
			var id struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal(entry, &id); err != nil {
				return answer{}, err
			}
			if id.ID == "" {
				id.ID = string(entry) // then the same entry is one that reads the same
			}
			if !seen[id.ID] {
				seen[id.ID] = true
				entries = append(entries, entry)
			}
		}
		if last {
			list[key], err = json.Marshal(entries)
			if err != nil {
				return answer{}, err
			}
			got.body, err = json.Marshal(list)
			return got, err
		}
	}
}
