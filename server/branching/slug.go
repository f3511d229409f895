package branching

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/text/unicode/norm"

	"github.com/boughdb/bough/server/fault"
)

const (
	maxNameLength = 100 // characters
	maxSlugLength = 50  // bytes
	// A database's name must leave room for a suffix while a reset is under way: PostgreSQL cuts names at 63 bytes
	// without a word.
	maxDatabaseNameLength = 63 - len("_new")
)

const mainSlug = "main"

// Slugs that stand for something else in paths.
var reservedSlugs = map[string]bool{mainSlug: true, "stats": true, "repohost": true}

// cleanName brings a name into the form that is kept: NFC, without space around it.
func cleanName(name string) (string, error) {
	if !utf8.ValidString(name) {
		return "", fault.Validation("name is not valid UTF-8")
	}
	name = strings.TrimSpace(norm.NFC.String(name))
	if n := utf8.RuneCountInString(name); n < 1 || n > maxNameLength {
		return "", fault.Validation("name must be 1 to %d characters, not %d", maxNameLength, n)
	}
	for _, r := range name {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return "", fault.Validation("name must not contain control characters")
		}
	}
	return name, nil
}

// Letters that do not decompose into an ASCII letter and a mark.
var transliterations = map[rune]string{
	'ß': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'đ': "d", 'ð': "d", 'þ': "th", 'ł': "l", 'ħ': "h", 'ı': "i", 'ŋ': "n",
}

// slugOf derives the slug of a clean name: lower-case ASCII, words joined by hyphens, at most 50 characters. When
// something was lost on the way, characters of the name's hash follow, so that different names have different slugs.
func slugOf(name string) (string, error) {
	var out strings.Builder
	lost, gap := false, false
	for _, r := range norm.NFKD.String(strings.ToLower(name)) {
		var text string
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			text = string(r)
		case transliterations[r] != "":
			text = transliterations[r]
		case unicode.Is(unicode.Mn, r):
			continue // the mark of a letter that stays
		case unicode.IsSpace(r) || strings.ContainsRune("-_/.", r):
			gap = true
			continue
		default:
			lost, gap = true, true
			continue
		}
		if gap && out.Len() > 0 {
			out.WriteByte('-')
		}
		gap = false
		out.WriteString(text)
	}
	slug := out.String()
	if slug == "" {
		slug, lost = "branch", true
	}
	if len(slug) > maxSlugLength {
		lost = true
	}
	if lost {
		sum := sha256.Sum256([]byte(name))
		suffix := "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:6]
		slug = strings.TrimRight(slug[:min(len(slug), maxSlugLength-len(suffix))], "-") + suffix
	}
	if reservedSlugs[slug] {
		return "", fault.Validation("name %q is reserved", name)
	}
	if uuid.Validate(slug) == nil {
		return "", fault.Validation("name must not look like a uuid")
	}
	return slug, nil
}

// databaseName is the name of the database of a branch: readable, unique by the id, in PostgreSQL's limit.
func databaseName(slug string, id uuid.UUID) string {
	hex := strings.ReplaceAll(id.String(), "-", "")
	suffix := "_" + hex[len(hex)-8:]
	base := "branch_" + strings.ReplaceAll(slug, "-", "_")
	return base[:min(len(base), maxDatabaseNameLength-len(suffix))] + suffix
}

// freshName and oldName are the names of a reset's two databases besides the branch's own.
func freshName(database string) string { return database + "_new" }
func oldName(database string) string   { return database + "_old" }
