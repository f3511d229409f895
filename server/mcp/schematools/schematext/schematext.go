// Package schematext writes the schema of a database as text: for each object its kind, its name and some lines that
// describe it, the same ones for the same schema in every database. Two texts can be compared object by object.
//
// It covers schemas, tables with everything that hangs on them, views, sequences, routines, types, extensions, event
// triggers, extended statistics, comments, and the privileges of the roles of interest. It leaves out owners, oids and
// storage, foreign servers and their users, text search configurations, operators and casts, what belongs to extensions,
// and what Bough puts into every database.
package schematext

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Options say what Read writes.
type Options struct {
	// Grantees are the roles whose privileges belong to the text; those of PUBLIC always do.
	Grantees []string
	// Viewer, where it is not empty, is a role whose view of the schema is written: the objects on which it has a
	// privilege, without the columns on which it has none, and without the texts of routines and views, which may speak of
	// things that it does not see. Their hash stands in their place, so that a difference still shows.
	Viewer string
}

// Key names an object of a schema.
type Key struct{ Kind, Name string }

func (k Key) String() string { return k.Kind + " " + k.Name }

// Object is an object and the lines that describe it.
type Object struct {
	Key
	Lines []string
}

// Read reads the schema of the database that tx is in, ordered by kind and name. It sets the transaction's search_path to
// nothing, by which all names come out qualified; a caller who goes on afterwards wraps it in a savepoint. No statements stay
// prepared.
func Read(ctx context.Context, tx pgx.Tx, o Options) ([]Object, error) {
	if _, err := tx.Exec(ctx, settings); err != nil {
		return nil, fmt.Errorf("preparing to read the schema: %w", err)
	}
	grantees := o.Grantees
	if grantees == nil {
		grantees = []string{}
	}
	var objects []Object
	byKey := map[Key]int{}
	for _, q := range queries {
		rows, err := tx.Query(ctx, base+q, pgx.QueryExecModeDescribeExec, o.Viewer, grantees)
		if err != nil {
			return nil, fmt.Errorf("reading the schema: %w", err)
		}
		var key Key
		var text string
		_, err = pgx.ForEachRow(rows, []any{&key.Kind, &key.Name, &text}, func() error {
			i, ok := byKey[key]
			if !ok {
				i = len(objects)
				byKey[key] = i
				objects = append(objects, Object{Key: key})
			}
			objects[i].Lines = append(objects[i].Lines, strings.Split(strings.TrimRight(text, "\n"), "\n")...)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading the schema: %w", err)
		}
	}
	slices.SortFunc(objects, func(a, b Object) int { return a.compare(b.Key) })
	return objects, nil
}

// order is the order of the kinds, as one would make the objects.
var order = []string{
	"schema", "extension", "type", "sequence", "table", "foreign table", "view", "materialized view", "function", "procedure",
	"aggregate", "event trigger",
}

func (k Key) compare(other Key) int {
	return cmp.Or(
		cmp.Compare(slices.Index(order, k.Kind), slices.Index(order, other.Kind)),
		cmp.Compare(k.Name, other.Name),
	)
}

// Text writes objects one after the other.
func Text(objects []Object) string {
	var b strings.Builder
	for _, o := range objects {
		fmt.Fprintf(&b, "%s\n", o.Key)
		for _, line := range o.Lines {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	return b.String()
}
