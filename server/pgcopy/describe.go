package pgcopy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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
