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
// prepared there. role is the one that will own what it creates. privileges
// tells whether it sets those of members of extensions and of the system's
// objects.
func newBuiltin(cat *catalog, existing map[string][]string, prepared []string, role string, privileges bool) (*builtin, error) {
	if names := cat.unsupported(); len(names) > 0 {
		return nil, &UnsupportedError{Objects: names}
	}
	sorted, err := cat.order()
	if err != nil {
		return nil, err
	}
	b := &builtin{}
	for _, it := range sorted {
		if it.kind == "privileges" && !privileges {
			continue
		}
		if slices.Contains(prepared, it.String()) {
			if it.kind == "extension" {
				continue
			}
			it.create = nil
		}
		if there, ok := existing[it.String()]; !ok || !slices.Equal(there, it.statements()) {
			if !ok && it.owner == role {
				it.after = slices.DeleteFunc(it.after, func(s string) bool { return s == it.ownedBy })
			}
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
