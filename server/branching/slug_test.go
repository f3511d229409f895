package branching

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"
)

var slugForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

func TestSlugOf(t *testing.T) {
	for name, want := range map[string]string{
		"demo":                   "demo",
		"Load test":              "load-test",
		"feature/login_v2":       "feature-login-v2",
		"Äpfel & Öl":             "apfel-ol-",
		"Straße":                 "strasse",
		"a--b":                   "a-b",
		"🌳":                      "branch-",
		"!!!":                    "branch-",
		"'; drop table users;--": "drop-table-users-",
		"عربي":                   "branch-",
		strings.Repeat("x", 100): strings.Repeat("x", 43) + "-",
		"Main!":                  "main-",
		"ﬁnal":                   "final",
	} {
		got, err := slugOf(name)
		if err != nil {
			t.Errorf("slugOf(%q): %v", name, err)
			continue
		}
		if strings.HasSuffix(want, "-") {
			if !strings.HasPrefix(got, want) || len(got) != len(want)+6 {
				t.Errorf("slugOf(%q) = %q, want %q and six characters of a hash", name, got, want)
			}
		} else if got != want {
			t.Errorf("slugOf(%q) = %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"main", "MAIN", "stats", "RepoHost", "0191d9a0-5f0e-7c5e-9a52-6f6f3a2b1c4d"} {
		if got, err := slugOf(name); err == nil {
			t.Errorf("slugOf(%q) = %q, want an error", name, got)
		}
	}
}

func TestNamesThatLoseSomethingDiffer(t *testing.T) {
	seen := map[string]string{}
	prefix := strings.Repeat("long-name-", 9)
	for i := range 60 {
		name := prefix + string(rune('a'+i%26)) + strings.Repeat("z", i/26)
		slug, err := slugOf(name)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[slug]; ok {
			t.Fatalf("%q and %q have the same slug %q", name, other, slug)
		}
		seen[slug] = name
	}
}

func TestCleanName(t *testing.T) {
	for _, name := range []string{"", "  ", strings.Repeat("é", 101), "a\x00b", "a\nb", "\xff", "a\u202eb"} {
		if got, err := cleanName(name); err == nil {
			t.Errorf("cleanName(%q) = %q, want an error", name, got)
		}
	}
	if got, err := cleanName(" " + strings.Repeat("é", 100) + " "); err != nil || utf8.RuneCountInString(got) != 100 {
		t.Errorf("a name of 100 characters: %q, %v", got, err)
	}
}

func FuzzSlug(f *testing.F) {
	for _, s := range []string{"demo", "Ünïcödé 🌳", "'; drop--", strings.Repeat("𝒳", 100), "a/b.c_d", "-", "İ"} {
		f.Add(s)
	}
	id := uuid.MustParse("0191d9a0-5f0e-7c5e-9a52-6f6f3a2b1c4d")
	f.Fuzz(func(t *testing.T, in string) {
		name, err := cleanName(in)
		if err != nil {
			return
		}
		slug, err := slugOf(name)
		if err != nil {
			return
		}
		if len(slug) > maxSlugLength || !slugForm.MatchString(slug) {
			t.Fatalf("slugOf(%q) = %q", name, slug)
		}
		if d := databaseName(slug, id); len(freshName(d)) > 63 || !strings.HasSuffix(d, "_3a2b1c4d") {
			t.Fatalf("databaseName(%q) = %q", slug, d)
		}
	})
}
