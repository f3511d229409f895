// Package pgcopy copies one PostgreSQL database into another, empty one on the
// same server while the source is in use: sessions stay open, reads and writes
// go on, and only statements that change the schema wait. All rows come from
// one snapshot.
//
// [Copy] does the work in phases: the schema without what guards and speeds up
// rows, then the rows over several connections, then indexes, constraints,
// triggers and the rest. The schema is written by pg_dump where there is one,
// else by a reader of the catalog that is part of this package and knows what
// databases usually hold; what it does not know it refuses by name. In the end
// the rows of both databases' catalogs must be equal, see package inventory;
// expressions are what was executed.
//
// What the role cannot create is found before anything is copied, see
// [PermissionError], and can be left out.
//
// What belongs to the database as a whole (its owner, privileges, comment and
// settings) is left to the caller, and so are roles. Subscriptions and user
// mappings are never copied: through them the copy would act on other servers.
package pgcopy
