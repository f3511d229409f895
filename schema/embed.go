// Package schema holds the migrations of the control database, in tern's form: numbered files, each with the way up
// and, below the marker, the way down. A released file is never edited.
package schema

import "embed"

// Files are the migrations.
//
//go:embed *.sql
var Files embed.FS
