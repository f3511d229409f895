package pgcopy

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// piece is a part of a table's rows that one COPY copies.
type piece struct {
	table    string // quoted
	from, to string // the statements
	size     int64  // on disk
	last     bool   // of its table
}

// Tables above splitSize are copied in pieces of at least half of it, so that
// several connections can work on one.
const splitSize = 64 << 20

// pieces lists what to copy, the largest first. Types whose binary form is
// unknown or holds numbers that differ between databases are copied as text.
func (c *copier) pieces(ctx context.Context, conn *pgx.Conn, leftOut []uint32) ([]piece, error) {
	rows, err := conn.Query(ctx, `
		with recursive parts (type, part) as (
			select t.oid, t.oid from pg_type t
			where t.oid in (select atttypid from pg_attribute where attnum > 0 and attrelid in (select c.oid from pg_class c where c.relkind = 'r' and (c.oid >= 16384)))
			union
			select p.type, n.part
			from parts p
			join pg_type t on t.oid = p.part,
			lateral (
				select t.typelem where t.typcategory = 'A' or t.typsubscript = 'array_subscript_handler'::regproc
				union all select t.typbasetype where t.typtype = 'd'
				union all select rngsubtype from pg_range where rngtypid = t.oid
				union all select rngtypid from pg_range where rngmultitypid = t.oid
				union all select atttypid from pg_attribute where attrelid = t.typrelid and attnum > 0 and not attisdropped
			) n (part)
			where n.part <> 0
		), textual as (
			select distinct p.type from parts p join pg_type t on t.oid = p.part
			where t.typsend = 0 or t.typreceive = 0
				or t.oid in ('regclass'::regtype, 'regcollation'::regtype, 'regconfig'::regtype, 'regdictionary'::regtype, 'regnamespace'::regtype,
					'regoper'::regtype, 'regoperator'::regtype, 'regproc'::regtype, 'regprocedure'::regtype, 'regtype'::regtype)
		)
		select c.oid::regclass::text,
			coalesce((select string_agg(quote_ident(attname), ', ' order by attnum)
				from pg_attribute where attrelid = c.oid and attnum > 0 and not attisdropped and attgenerated = ''), ''),
			exists (select from pg_attribute join textual on type = atttypid where attrelid = c.oid and attnum > 0 and not attisdropped and attgenerated = ''),
			am.amname = 'heap',
			pg_relation_size(c.oid),
			pg_table_size(c.oid),
			pg_relation_size(c.oid) / current_setting('block_size')::int,
			x.condition
		from pg_class c
		left join pg_am am on am.oid = c.relam
		left join lateral (
			select coalesce(e.extcondition[array_position(e.extconfig, c.oid)], '') as condition
			from pg_extension e where c.oid = any (e.extconfig)
		) x on true
		where c.relkind = 'r' and `+lasting("c.relnamespace")+` and (x.condition is not null or `+own("pg_class", "c")+`) and c.oid <> all ($1)`, leftOut)
	if err != nil {
		return nil, fmt.Errorf("listing the tables: %w", err)
	}
	var list []piece
	var table, columns string
	var textual, heap bool
	var main, size, blocks int64
	var condition *string
	_, err = pgx.ForEachRow(rows, []any{&table, &columns, &textual, &heap, &main, &size, &blocks, &condition}, func() error {
		format := "binary"
		if textual {
			format = "text"
		}
		c.progress.AllTables++
		c.progress.SourceSize += size
		target := table
		if columns != "" {
			target += " (" + columns + ")"
		}
		to := fmt.Sprintf("copy %s from stdin (format %s)", target, format)
		where := func(condition string) string {
			return fmt.Sprintf("copy (select %s from only %s %s) to stdout (format %s)", columns, table, condition, format)
		}
		switch n := size / (splitSize / 2); {
		case heap && main == 0:
			c.progress.Tables++ // nothing in it
		case condition != nil:
			// What an extension's script has put there, it leaves out by a condition.
			list = append(list, piece{table, where(*condition), to, size, true})
		case !heap || columns == "" || c.jobs == 1 || size < splitSize || blocks < n:
			list = append(list, piece{table, fmt.Sprintf("copy %s to stdout (format %s)", target, format), to, size, true})
		default:
			n = min(n, int64(4*c.jobs))
			for i := range n {
				condition := fmt.Sprintf("where ctid >= '(%d,0)'", blocks*i/n)
				if i < n-1 {
					condition += fmt.Sprintf(" and ctid < '(%d,0)'", blocks*(i+1)/n)
				}
				list = append(list, piece{table, where(condition), to, size / n, i == n-1})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the tables: %w", err)
	}
	slices.SortStableFunc(list, func(a, b piece) int { return cmp.Compare(b.size, a.size) })
	return list, nil
}

// copyRows copies the pieces, each worker the next one that is left.
func (c *copier) copyRows(ctx context.Context, list []piece, sources, targets []*pgx.Conn) error {
	queue := make(chan piece, len(list))
	for _, p := range list {
		queue <- p
	}
	close(queue)

	left := map[string]int{} // pieces to do of a table
	for _, p := range list {
		left[p.table]++
	}
	g, ctx := errgroup.WithContext(ctx)
	for i := range sources {
		pump := newPump(sources[i].PgConn(), targets[i].PgConn(), func(bytes int64) {
			c.update(func(p *Progress) { p.Bytes += bytes })
		})
		g.Go(func() error {
			for p := range queue {
				rows, err := pump.copy(ctx, p.from, p.to)
				if err != nil {
					return fmt.Errorf("copying table %s: %w", p.table, err)
				}
				c.update(func(progress *Progress) {
					progress.Rows += rows
					if left[p.table]--; left[p.table] == 0 {
						progress.Tables++
					}
				})
			}
			return nil
		})
	}
	return g.Wait()
}
