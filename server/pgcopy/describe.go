package pgcopy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Object is one object of a database as its catalog describes it.
type Object struct {
	Kind       string // "table", "index", "table constraint"
	Identity   string // qualified and quoted: `app."Order"`; unique together with Kind
	Definition string // SQL that creates it, with owner, privileges and comment
}

// Fingerprint returns a short digest of a description. Databases with equal
// schemas have equal fingerprints.
func Fingerprint(objs []Object) string {
	h := sha256.New()
	for _, o := range objs {
		fmt.Fprintf(h, "%d %s %d %s %d %s\n", len(o.Kind), o.Kind, len(o.Identity), o.Identity, len(o.Definition), o.Definition)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Describe returns what is in the current database, ordered by kind and
// identity. It leaves out rows and large objects, what belongs to an extension,
// subscriptions and user mappings, and other sessions' temporary objects.
//
// It can be called within a transaction, and then sees what the transaction
// sees. It does not change the session's settings.
func Describe(ctx context.Context, conn *pgx.Conn) (objs []Object, err error) {
	begin, end := "begin isolation level repeatable read read only", "rollback"
	if conn.PgConn().TxStatus() == 'T' {
		begin, end = "savepoint pgcopy_describe", "rollback to savepoint pgcopy_describe; release savepoint pgcopy_describe"
	}
	if _, err := conn.Exec(ctx, begin); err != nil {
		return nil, err
	}
	defer func() {
		_, endErr := conn.Exec(ctx, end)
		err = errors.Join(err, endErr)
	}()
	if err := applySettings(ctx, conn, true, nil); err != nil {
		return nil, err
	}
	cat, err := readCatalog(ctx, conn, "")
	if err != nil {
		return nil, err
	}
	return cat.objects(), nil
}

// verify compares the target with what the source was when it was read.
func (c *copier) verify(ctx context.Context, target *pgx.Conn, want []Object) error {
	cat, err := c.read(ctx, target)
	if err != nil {
		return err
	}
	if !c.SchemaOnly {
		if err := c.verifyLargeObjects(ctx, target); err != nil {
			return err
		}
	}
	differences := compare(want, cat.objects())
	if len(differences) == 0 {
		return nil
	}
	if len(differences) > 10 {
		differences = append(differences[:10], "…")
	}
	return c.blame(ctx, want, fmt.Errorf("the copy differs from its source: %s", strings.Join(differences, ", ")))
}

// blame marks an error as retryable if the source's schema is no longer as it
// was described, which may be the reason: functions and views cannot be locked,
// and not all that the server tells about them is of the snapshot.
func (c *copier) blame(ctx context.Context, want []Object, err error) error {
	if ctx.Err() != nil {
		return err
	}
	conn, openErr := c.open(connect(ctx, c.Source, map[string]string{"lock_timeout": shortWait}))
	if openErr != nil {
		return err
	}
	now, readErr := c.read(ctx, conn)
	if Retryable(changedUnderUs(readErr)) || readErr == nil && Fingerprint(now.objects()) != Fingerprint(want) {
		return &sourceChangedError{err}
	}
	return err
}

// compare returns the differences of two descriptions in words.
func compare(want, got []Object) []string {
	var differences []string
	for len(want) > 0 || len(got) > 0 {
		var order int
		switch {
		case len(want) == 0:
			order = 1
		case len(got) == 0:
			order = -1
		default:
			order = cmp.Or(cmp.Compare(want[0].Kind, got[0].Kind), cmp.Compare(want[0].Identity, got[0].Identity))
		}
		switch {
		case order < 0:
			differences = append(differences, want[0].Kind+" "+want[0].Identity+" is missing")
			want = want[1:]
		case order > 0:
			differences = append(differences, got[0].Kind+" "+got[0].Identity+" is too many")
			got = got[1:]
		default:
			if want[0].Definition != got[0].Definition {
				differences = append(differences, want[0].Kind+" "+want[0].Identity+" is different")
			}
			want, got = want[1:], got[1:]
		}
	}
	return differences
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
