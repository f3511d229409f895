package pgcopy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/pgcopy/inventory"
)

// MismatchError says that a copy differs from its source though the source has
// not changed. Copying again in the same way does not help.
type MismatchError struct {
	Differences []string // as "pg_class app.users: relowner is "a" instead of "b""
}

func (e *MismatchError) Error() string {
	list := e.Differences
	if len(list) > 10 {
		list = append(list[:10:10], fmt.Sprintf("and %d more", len(e.Differences)-10))
	}
	return "the copy differs from its source: " + strings.Join(list, ", ")
}

// verify compares the target with what the source was when it was read: the
// rows of the catalogs, but not the text of expressions, which PostgreSQL
// changes when it reads its own. These are what was executed.
func (c *copier) verify(ctx context.Context, target *pgx.Conn, v *view) error {
	if !c.SchemaOnly {
		if err := c.verifyLargeObjects(ctx, target); err != nil {
			return err
		}
	}
	got, err := inventory.ReadOwned(ctx, target, c.Owner, c.granted())
	if err != nil {
		return err
	}
	differences := inventory.Compare(v.inventory, got, v.catalog.leftOut...)
	if len(differences) == 0 {
		return nil
	}
	mismatch := &MismatchError{}
	for _, d := range differences {
		mismatch.Differences = append(mismatch.Differences, d.String())
	}
	return c.checkSource(ctx, v, mismatch)
}

// checkSource marks an error as retryable if the source's schema has changed
// since it was read, which may be the reason: functions and views cannot be
// locked, and not all that the server tells about them is of the snapshot.
func (c *copier) checkSource(ctx context.Context, v *view, err error) error {
	if ctx.Err() != nil {
		return err
	}
	conn, openErr := c.open(connect(ctx, c.Source, map[string]string{"lock_timeout": shortWait}))
	if openErr != nil {
		return err
	}
	now, readErr := schemaVersion(ctx, conn)
	if readErr == nil && now != v.version {
		return &sourceChangedError{err}
	}
	return err
}

// schemaVersion returns a number that changes with every change of the schema,
// by the transactions that have written the catalogs' rows. Temporary tables
// and statistics do not matter.
func schemaVersion(ctx context.Context, conn *pgx.Conn) (version string, err error) {
	var parts []string
	for _, table := range []struct{ name, relation string }{
		{"pg_class", "x.oid"}, {"pg_attribute", "x.attrelid"}, {"pg_attrdef", "x.adrelid"}, {"pg_constraint", "x.conrelid"},
		{"pg_index", "x.indexrelid"}, {"pg_trigger", "x.tgrelid"}, {"pg_rewrite", "x.ev_class"}, {"pg_policy", "x.polrelid"},
		{"pg_sequence", "x.seqrelid"}, {"pg_inherits", "x.inhrelid"}, {"pg_type", "x.typrelid"},
		{"pg_namespace", ""}, {"pg_proc", ""}, {"pg_enum", ""}, {"pg_operator", ""}, {"pg_cast", ""}, {"pg_extension", ""},
		{"pg_description", ""}, {"pg_default_acl", ""}, {"pg_event_trigger", ""}, {"pg_publication", ""}, {"pg_publication_rel", ""},
		{"pg_statistic_ext", ""}, {"pg_foreign_server", ""}, {"pg_ts_config_map", ""}, {"pg_ts_dict", ""}, {"pg_seclabel", ""},
	} {
		where := ""
		switch table.name {
		case "pg_namespace":
			where = " where x.nspname !~ '^pg_(temp|toast)'"
		case "pg_type":
			where = " where x.typnamespace not in (select oid from pg_namespace where nspname ~ '^pg_(temp|toast)')"
		default:
			if table.relation != "" {
				where = " where " + table.relation + " not in (select oid from pg_class where relpersistence = 't')"
			}
		}
		parts = append(parts, "select count(*) + sum(hashint8extended(x.xmin::text::bigint, 7)::numeric) from "+table.name+" x"+where)
	}
	err = conn.QueryRow(ctx, "select string_agg(n::text, ' ') from (select * from ("+strings.Join(parts, "\n\tunion all ")+") p (n)) q").Scan(&version)
	return version, err
}

// changedUnderUs marks the errors that reading a catalog gives when an object
// disappears between two looks at it.
func changedUnderUs(err error) error {
	var pg *pgconn.PgError
	if err == nil || !errors.As(err, &pg) {
		return err
	}
	switch pg.Code {
	case "XX000", "42P01", "42704", "3F000": // internal_error ("cache lookup failed") and undefined things
		return &sourceChangedError{err}
	}
	return err
}
