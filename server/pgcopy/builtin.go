package pgcopy

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
)

// builtin creates the schema from the catalog.
type builtin struct {
	items []*item // in order
}

// newBuiltin returns a schema without what exists in the target, or was
// prepared there. privileges tells whether it sets those of members of extensions
// and of the system's objects.
func newBuiltin(cat *catalog, existing map[Object]bool, prepared []string, privileges bool) (*builtin, error) {
	if names := cat.unsupported(); len(names) > 0 {
		return nil, &UnsupportedError{Objects: names}
	}
	objects := cat.objects()
	present := map[*item]bool{}
	for i, it := range cat.items {
		present[it] = existing[objects[i]] || it.kind == "privileges" && !privileges
		if slices.Contains(prepared, it.String()) {
			present[it] = present[it] || it.kind == "extension"
			it.create = nil
		}
	}
	sorted, err := cat.order()
	if err != nil {
		return nil, err
	}
	b := &builtin{}
	for _, it := range sorted {
		if !present[it] {
			b.items = append(b.items, it)
		}
	}
	return b, nil
}

func (b *builtin) before(ctx context.Context, conn *pgx.Conn) error {
	return runInOrder(ctx, conn, stepsOf(stageOf(b.items, stageSchema)))
}

func (b *builtin) after(ctx context.Context, conns []*pgx.Conn) error {
	for st := stageIndexes; st < stageTriggers; st++ {
		if err := runParallel(ctx, conns, stepsOf(stageOf(b.items, st))); err != nil {
			return err
		}
	}
	return nil
}

func (b *builtin) last(ctx context.Context, conn *pgx.Conn) error {
	return runInOrder(ctx, conn, stepsOf(stageOf(b.items, stageTriggers)))
}
