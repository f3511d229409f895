package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// OldestMajor is the oldest major version of PostgreSQL that Bough works with.
const OldestMajor = 15

// ErrNotFound is returned by [Find] when there is no suitable PostgreSQL. Its
// wrapping error says what was found and what to do.
var ErrNotFound = errors.New("no suitable PostgreSQL found")

// Installation is a set of PostgreSQL programs that belong together.
type Installation struct {
	BinDir  string // absolute
	Version string // "18.4"
	Major   int    // 18
	minor   int
}

// Tool returns the path of another program of the installation, such as
// pg_dump or psql. Not every installation has them.
func (i Installation) Tool(name string) (path string, ok bool) {
	dirs := []string{i.BinDir}
	// A directory of links, such as /usr/local/bin, need not have links to all.
	if server, err := filepath.EvalSymlinks(filepath.Join(i.BinDir, "postgres")); err == nil {
		dirs = append(dirs, filepath.Dir(server))
	}
	for _, dir := range dirs {
		if path := filepath.Join(dir, name); isProgram(path) {
			return path, true
		}
	}
	return "", false
}

func (i Installation) String() string {
	return fmt.Sprintf("PostgreSQL %s in %s", i.Version, i.BinDir)
}

// compare orders installations by version.
func (i Installation) compare(j Installation) int {
	if i.Major != j.Major {
		return i.Major - j.Major
	}
	return i.minor - j.minor
}

// FindOptions says where to look.
type FindOptions struct {
	BinDir   string // if set, only this directory counts
	DataDir  string // Bough's data directory; a cluster in it decides the major version
	CacheDir string // where [Fetch] puts its builds; none if empty

	places []string // instead of the usual places, in tests
}

// usualPlaces are where packages put the server, which is seldom in PATH.
var usualPlaces = []string{
	"/usr/lib/postgresql/*/bin", // Debian
	"/usr/pgsql-*/bin",          // RPM of the PostgreSQL project
	"/usr/lib/postgresql*/bin",  // SUSE
	"/usr/libexec/postgresql*",  // Alpine
	"/usr/local/pgsql/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// Find returns the newest PostgreSQL of PATH, the usual places of packages and
// the cache, at least [OldestMajor]. If the data directory has a cluster, only
// its own major version counts. The error wraps [ErrNotFound].
func Find(o FindOptions) (Installation, error) {
	var found []Installation
	if o.BinDir != "" {
		inst, err := inspect(o.BinDir)
		if err != nil {
			return Installation{}, fmt.Errorf("%w in %s: %w", ErrNotFound, o.BinDir, err)
		}
		found = []Installation{inst}
	} else {
		found = discover(o)
	}

	want := 0
	if o.DataDir != "" {
		var err error
		if want, err = clusterMajor(filepath.Join(o.DataDir, clusterName)); err != nil {
			return Installation{}, err
		}
	}
	var best Installation
	for _, inst := range found {
		suitable := inst.Major >= OldestMajor && (want == 0 || inst.Major == want)
		if suitable && (best.Major == 0 || inst.compare(best) > 0) {
			best = inst
		}
	}
	if best.Major > 0 {
		return best, nil
	}

	have := "nothing"
	if len(found) > 0 {
		var names []string
		for _, inst := range found {
			names = append(names, inst.String())
		}
		have = strings.Join(names, ", ")
	}
	if want > 0 {
		return Installation{}, fmt.Errorf("%w: the data in %s was made by PostgreSQL %d and only that version can read it, found %s; "+
			"install PostgreSQL %d, name its programs with --postgres-bin, or dump the data with it and load them into a new data directory",
			ErrNotFound, o.DataDir, want, have, want)
	}
	return Installation{}, fmt.Errorf("%w: Bough needs PostgreSQL %d or newer, found %s; "+
		"install it, or name its programs with --postgres-bin, or a running server with --database-url", ErrNotFound, OldestMajor, have)
}

// discover lists the installations of the machine, each once.
func discover(o FindOptions) []Installation {
	var dirs []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) {
			dirs = append(dirs, dir)
		}
	}
	if path, err := exec.LookPath("pg_config"); err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if out, err := exec.CommandContext(ctx, path, "--bindir").Output(); err == nil {
			dirs = append(dirs, strings.TrimSpace(string(out)))
		}
	}
	places := o.places
	if places == nil {
		places = usualPlaces
	}
	for _, pattern := range places {
		matches, _ := filepath.Glob(pattern)
		dirs = append(dirs, matches...)
	}
	if o.CacheDir != "" {
		cached, _ := namesLike(filepath.Join(o.CacheDir, buildsName), "", "")
		for _, dir := range cached {
			if _, err := os.Stat(filepath.Join(dir, markerName)); err == nil {
				dirs = append(dirs, filepath.Join(dir, "bin"))
			}
		}
	}

	var found []Installation
	seen := map[string]bool{}
	for _, dir := range dirs {
		// One installation reached on two ways is one; the way is kept, because
		// an upgrade by Homebrew changes what its links lead to.
		program, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
		if err != nil || seen[program] {
			continue
		}
		seen[program] = true
		if inst, err := inspect(dir); err == nil {
			found = append(found, inst)
		}
	}
	return found
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) ((\d+)(?:\.(\d+))?\S*)`)

// inspect asks the programs of a directory for their version, which also shows
// that they run at all.
func inspect(dir string) (Installation, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Installation{}, err
	}
	for _, name := range []string{"postgres", "initdb"} {
		if !isProgram(filepath.Join(dir, name)) {
			return Installation{}, fmt.Errorf("there is no program %s", name)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").CombinedOutput()
	if err != nil {
		return Installation{}, fmt.Errorf("postgres --version: %w: %s", err, strings.TrimSpace(string(out)))
	}
	m := versionPattern.FindStringSubmatch(string(out))
	if m == nil {
		return Installation{}, fmt.Errorf("postgres --version answers %q", strings.TrimSpace(string(out)))
	}
	inst := Installation{BinDir: dir, Version: m[1]}
	inst.Major, _ = strconv.Atoi(m[2])
	inst.minor, _ = strconv.Atoi(m[3])
	return inst, nil
}

// clusterMajor returns the major version of a cluster, 0 if there is none.
func clusterMajor(cluster string) (int, error) {
	text, err := os.ReadFile(filepath.Join(cluster, "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading the cluster's version (is it another user's?): %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || major <= 0 {
		return 0, fmt.Errorf("%s/PG_VERSION does not hold a version: %q", cluster, text)
	}
	return major, nil
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
