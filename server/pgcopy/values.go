package pgcopy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// copySequences sets the target's sequences to where those of the source are
// now. They are not part of the snapshot, but cannot be behind it.
func (c *copier) copySequences(ctx context.Context, source, target *pgx.Conn, leftOut []uint32) error {
	rows, err := source.Query(ctx, `
		select c.oid::regclass::text
		from pg_class c
		where c.relkind = 'S' and `+lasting("c.relnamespace")+`
			and (`+own("pg_class", "c")+` or exists (select from pg_extension e where c.oid = any (e.extconfig)))
			and c.oid <> all ($1) and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'i'
				and d.refclassid = 'pg_class'::regclass and d.refobjid = any ($1))`, leftOut)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for len(names) > 0 {
		part := names[:min(len(names), 500)]
		names = names[len(part):]
		var b strings.Builder
		for i, name := range part {
			if i > 0 {
				b.WriteString(" union all ")
			}
			fmt.Fprintf(&b, "select %d, last_value, is_called from %s", i, name)
		}
		rows, err := source.Query(ctx, b.String())
		if err != nil {
			return fmt.Errorf("reading sequences: %w", err)
		}
		b.Reset()
		var i int
		var value int64
		var called bool
		_, err = pgx.ForEachRow(rows, []any{&i, &value, &called}, func() error {
			fmt.Fprintf(&b, "select setval('%s', %d, %t);\n", strings.ReplaceAll(part[i], "'", "''"), value, called)
			return nil
		})
		if err != nil {
			return fmt.Errorf("reading sequences: %w", err)
		}
		if _, err := target.PgConn().Exec(ctx, b.String()).ReadAll(); err != nil {
			return fmt.Errorf("setting sequences: %w", err)
		}
	}
	return nil
}

// largeObject is a large object's number and what belongs to it.
type largeObject struct {
	id         uint32
	statements []string // its owner, comment and privileges
}

// copyLargeObjects copies all large objects. They keep their numbers, which is
// what rows refer to them by.
func (c *copier) copyLargeObjects(ctx context.Context, source, target *pgx.Conn) error {
	list, err := largeObjects(ctx, source, c.Owner)
	if err != nil {
		return fmt.Errorf("listing large objects: %w", err)
	}
	c.largeObjects = list
	// Reading and writing a megabyte at a time bounds the memory; small ones
	// go several at a time.
	const size, many = 1 << 20, 16
	for len(list) > 0 {
		part := list[:min(len(list), many)]
		list = list[len(part):]
		ids := make([]uint32, len(part))
		statements := map[uint32][]string{}
		for i, lo := range part {
			ids[i] = lo.id
			statements[lo.id] = lo.statements
		}
		rows, err := source.Query(ctx, "select id, lo_get(id, 0, $2::int) from unnest($1::oid[]) id", ids, size)
		if err != nil {
			return fmt.Errorf("reading large objects: %w", err)
		}
		var batch pgx.Batch
		var long []uint32
		var id uint32
		var content []byte
		_, err = pgx.ForEachRow(rows, []any{&id, &content}, func() error {
			batch.Queue("select lo_from_bytea($1::oid, $2)", id, content)
			for _, s := range statements[id] {
				batch.Queue(s)
			}
			if len(content) == size {
				long = append(long, id)
			}
			c.update(func(p *Progress) { p.Bytes += int64(len(content)) })
			content = nil
			return nil
		})
		if err == nil {
			err = target.SendBatch(ctx, &batch).Close()
		}
		if err != nil {
			return fmt.Errorf("copying large objects: %w", err)
		}
		for _, id := range long {
			if err := c.copyLongObject(ctx, source, target, id, size); err != nil {
				return fmt.Errorf("copying large object %d: %w", id, err)
			}
		}
	}
	return nil
}

// copyLongObject copies the rest of a large object.
func (c *copier) copyLongObject(ctx context.Context, source, target *pgx.Conn, id uint32, size int) error {
	for offset := int64(size); ; offset += int64(size) {
		var content []byte
		if err := source.QueryRow(ctx, "select lo_get($1::oid, $2, $3::int)", id, offset, size).Scan(&content); err != nil {
			return err
		}
		if len(content) > 0 {
			if _, err := target.Exec(ctx, "select lo_put($1::oid, $2, $3)", id, offset, content); err != nil {
				return err
			}
			c.update(func(p *Progress) { p.Bytes += int64(len(content)) })
		}
		if len(content) < size {
			return nil
		}
	}
}

// largeObjects lists the large objects in a database. mapped, if not empty,
// stands for their owners.
func largeObjects(ctx context.Context, conn *pgx.Conn, mapped string) ([]largeObject, error) {
	rows, err := conn.Query(ctx, `
		select m.oid, quote_ident(coalesce(nullif($1, ''), pg_get_userbyid(m.lomowner))), quote_literal(d.description),
			case when m.lomacl is not null then `+exploded("acldefault('L', m.lomowner)", "m.lomowner")+` end, case when m.lomacl is not null then `+exploded("m.lomacl", "m.lomowner")+` end
		from pg_largeobject_metadata m
		left join pg_description d on d.classoid = 'pg_largeobject'::regclass and d.objoid = m.oid
		order by m.oid`, mapped)
	if err != nil {
		return nil, err
	}
	var list []largeObject
	var id uint32
	var owner string
	var comment *string
	var base, acl []grant
	_, err = pgx.ForEachRow(rows, []any{&id, &owner, &comment, &base, &acl}, func() error {
		target := fmt.Sprintf("large object %d", id)
		lo := largeObject{id, []string{fmt.Sprintf("alter %s owner to %s", target, owner)}}
		if comment != nil {
			lo.statements = append(lo.statements, fmt.Sprintf("comment on %s is %s", target, *comment))
		}
		lo.statements = append(lo.statements, grants(target, "", owner, base, acl)...)
		list = append(list, lo)
		base, acl = nil, nil
		return nil
	})
	return list, err
}

// verifyLargeObjects compares the target's large objects with those copied.
func (c *copier) verifyLargeObjects(ctx context.Context, target *pgx.Conn) error {
	got, err := largeObjects(ctx, target, c.Owner)
	if err != nil {
		return err
	}
	want := c.largeObjects
	if len(want) != len(got) {
		return fmt.Errorf("the source has %d large objects but the copy %d", len(want), len(got))
	}
	for i := range want {
		if want[i].id != got[i].id || !slices.Equal(want[i].statements, got[i].statements) {
			return fmt.Errorf("large object %d has another owner, comment or privileges in the copy", want[i].id)
		}
	}
	return nil
}

// refresh fills the materialised views that the source has filled, after those
// that they read. One that is needed only for that is emptied again.
func refresh(ctx context.Context, conn *pgx.Conn, cat *catalog) error {
	views := map[*item]matview{}
	for _, m := range cat.views {
		views[cat.at[m.addr]] = m
	}
	var order []*item
	seen := map[*item]bool{}
	var visit func(*item)
	visit = func(it *item) {
		if seen[it] {
			return
		}
		seen[it] = true
		for _, n := range it.needs {
			visit(n)
		}
		if _, ok := views[it]; ok {
			order = append(order, it)
		}
	}
	for it, m := range views {
		if m.populated {
			visit(it)
		}
	}
	var statements []string
	for _, it := range order {
		statements = append(statements, "refresh materialized view "+views[it].name)
	}
	for _, it := range order {
		if !views[it].populated {
			statements = append(statements, "refresh materialized view "+views[it].name+" with no data")
		}
	}
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// analyze collects the planner's statistics. It is the last to write, and waits
// until all that was written before is safe on disk.
func analyze(ctx context.Context, conn *pgx.Conn) error {
	for _, statement := range []string{"set synchronous_commit = on", "analyze"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("collecting planner statistics: %w", err)
		}
	}
	return nil
}
