package introspect

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Options say what Load reads.
type Options struct {
	// Schemas are the exposed schemas; the first one is the default.
	Schemas []string
	// Roles are the roles that requests run as. One that does not exist has no privileges.
	Roles []string
}

// attempts bound how often Load begins anew because of changes made meanwhile.
const attempts = 4

// Load reads the catalog of the database that conn is connected to, in one round trip and one snapshot. conn must not
// be in a transaction. No statements stay prepared.
//
// A table that another session is changing does not hold Load up: its defaults are left out where they cannot be read,
// and views are taken to be writable. So they are where a broken foreign-data wrapper cannot say.
func Load(ctx context.Context, conn *pgx.Conn, opts Options) (*Schema, error) {
	var skip []uint32 // relations to leave alone
	locked := false
	for i := 1; ; i++ {
		s, err := loadOnce(ctx, conn.PgConn(), opts, skip)
		if err == nil {
			s.partial = locked
			return s, nil
		}
		var pgErr *pgconn.PgError
		if i == attempts || !errors.As(err, &pgErr) {
			return nil, err
		}
		switch pgErr.Code {
		case "55P03": // lock_not_available: an expression of a relation that is being changed
			locked = true
			if skip, err = lockedRelations(ctx, conn.PgConn()); err != nil {
				return nil, err
			}
		case "XX000", "42P01", "42704", "42883": // an object was dropped after the snapshot was taken
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Duration(i*i) * 5 * time.Millisecond):
			}
		default:
			if skip != nil || ctx.Err() != nil {
				return nil, err
			}
			skip = []uint32{0}
		}
	}
}

func loadOnce(ctx context.Context, conn *pgconn.PgConn, opts Options, skipped []uint32) (*Schema, error) {
	l := newLoader(opts)
	schemas, roles, skip := textArray(opts.Schemas), textArray(opts.Roles), oidArray(skipped)
	if err := l.read(ctx, conn, []statement{
		{"begin", "begin isolation level repeatable read read only", nil, nil},
		{"settings", settings, nil, nil},
		{"fingerprint", fingerprintQuery, [][]byte{roles}, l.fingerprint},
		{"types", typesQuery, [][]byte{schemas}, l.typ},
		{"relations", relationsQuery, [][]byte{schemas, roles, skip}, l.relation},
		{"functions of relations", leavingQuery, [][]byte{schemas}, l.leaving},
		{"columns", columnsQuery, [][]byte{schemas, roles, skip}, l.column},
		{"unique keys", uniquesQuery, [][]byte{schemas, skip}, l.unique},
		{"foreign keys", foreignKeysQuery, [][]byte{schemas}, l.foreignKey},
		{"views", rulesQuery, [][]byte{schemas}, l.rule},
		{"functions", functionsQuery, [][]byte{schemas, roles}, l.function},
		{"commit", "commit", nil, nil},
	}); err != nil {
		return nil, err
	}
	return l.finish(), nil
}

func lockedRelations(ctx context.Context, conn *pgconn.PgConn) ([]uint32, error) {
	res := conn.ExecParams(ctx, lockedQuery, nil, nil, nil, nil)
	var locked []uint32
	for res.NextRow() {
		n, err := strconv.ParseUint(string(res.Values()[0]), 10, 32)
		if err != nil {
			_, _ = res.Close()
			return nil, fmt.Errorf("reading locks: %w", err)
		}
		locked = append(locked, uint32(n))
	}
	if _, err := res.Close(); err != nil {
		return nil, fmt.Errorf("reading locks: %w", err)
	}
	// Should the lock be gone by now, the relation of oid 0 still says that something is left out this time.
	return append(locked, 0), nil
}

// statement is one of the statements of a load, with the function that takes its rows.
type statement struct {
	name string
	sql  string
	args [][]byte
	row  func(*row)
}

// read runs the statements in one pipeline. The extended protocol's unnamed statement leaves nothing on the connection.
func (l *loader) read(ctx context.Context, conn *pgconn.PgConn, statements []statement) (err error) {
	p := conn.StartPipeline(ctx)
	defer func() {
		err = errors.Join(err, p.Close())
		if err != nil && conn.TxStatus() != 'I' && !conn.IsClosed() {
			// The begin of a pipeline outlives its failure.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			_ = conn.Exec(ctx, "rollback").Close()
		}
	}()
	for _, st := range statements {
		p.SendQueryParams(st.sql, st.args, nil, nil, nil)
	}
	if err := p.Sync(); err != nil {
		return fmt.Errorf("reading the catalog: %w", err)
	}
	for _, st := range statements {
		res, err := p.GetResults()
		if err != nil {
			return fmt.Errorf("reading the catalog's %s: %w", st.name, err)
		}
		rr, ok := res.(*pgconn.ResultReader)
		if !ok {
			return fmt.Errorf("reading the catalog's %s: unexpected %T", st.name, res)
		}
		r := &row{}
		for rr.NextRow() {
			if st.row == nil {
				continue
			}
			*r = row{values: rr.Values()}
			l.version.row(r.values)
			st.row(r)
			if r.err != nil {
				break
			}
		}
		if _, err := rr.Close(); err != nil {
			return fmt.Errorf("reading the catalog's %s: %w", st.name, err)
		}
		if r.err != nil {
			return fmt.Errorf("reading the catalog's %s: %w", st.name, r.err)
		}
	}
	return nil
}

// version hashes what was read. All that the model is made of is in it, because the model is made of nothing else.
type version struct{ h hash.Hash }

func (v version) text(s string) {
	v.h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(s))))
	v.h.Write([]byte(s))
}

// row adds all values but the last.
func (v version) row(values [][]byte) {
	var n [4]byte
	for _, b := range values[:len(values)-1] {
		size := uint32(len(b))
		if b == nil {
			size = 1<<32 - 1
		}
		binary.BigEndian.PutUint32(n[:], size)
		v.h.Write(n[:])
		v.h.Write(b)
	}
}

func (v version) String() string { return hex.EncodeToString(v.h.Sum(nil)[:8]) }

func newVersion(opts Options) version {
	v := version{sha256.New()}
	for _, list := range [][]string{opts.Schemas, opts.Roles} {
		v.text(strconv.Itoa(len(list)))
		for _, s := range list {
			v.text(s)
		}
	}
	return v
}

// textArray is an array in PostgreSQL's text form.
func textArray(list []string) []byte {
	b := []byte{'{'}
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, escape.Replace(s)...)
		b = append(b, '"')
	}
	return append(b, '}')
}

func oidArray(list []uint32) []byte {
	b := []byte{'{'}
	for i, n := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(n), 10)
	}
	return append(b, '}')
}
