package main

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
)

// All entries of a long list come, each once, also where entries have no id, and where the list grows meanwhile.
func TestPagesPutAListTogether(t *testing.T) {
	t.Parallel()
	for name, entry := range map[string]func(i int32) string{
		"with ids":    func(i int32) string { return fmt.Sprintf(`{"id":"%d"}`, i) },
		"without ids": func(i int32) string { return fmt.Sprintf(`{"client_id":"%d"}`, i) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const total = 2*pageSize + 3
			got, err := pages(t.Context(), "things", window{}, func(_ context.Context, limit, offset int32) (answer, error) {
				list := []json.RawMessage{}
				if offset > 0 {
					offset-- // one was made in front since the last page
				}
				for i := offset; i < min(offset+limit, total); i++ {
					list = append(list, json.RawMessage(entry(i)))
				}
				body, err := json.Marshal(map[string]any{"things": list, "total": total})
				return answer{body: body}, err
			})
			if err != nil {
				t.Fatal(err)
			}
			var whole struct{ Things []json.RawMessage }
			if err := json.Unmarshal(got.body, &whole); err != nil {
				t.Fatal(err)
			}
			if len(whole.Things) != total {
				t.Errorf("%d entries, want %d", len(whole.Things), total)
			}
		})
	}
}
