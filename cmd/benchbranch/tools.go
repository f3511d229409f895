package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/pgserver"
)

// tools are the programs of the yardstick, empty where they are missing.
type tools struct{ dump, psql string }

// findTools picks the oldest pg_dump that reads a server of the major version, since pg_dump refuses newer servers. It
// looks where the servers are, where links to them lead, and in PATH.
func findTools(ctx context.Context, major int, installations []pgserver.Installation) (t tools) {
	var dirs []string
	for _, inst := range installations {
		dirs = append(dirs, inst.BinDir)
		if path, err := filepath.EvalSymlinks(filepath.Join(inst.BinDir, "postgres")); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	best := 0
	for _, dir := range append(dirs, filepath.SplitList(os.Getenv("PATH"))...) {
		found := tools{filepath.Join(dir, "pg_dump"), filepath.Join(dir, "psql")}
		if version := min(toolMajor(ctx, found.dump), toolMajor(ctx, found.psql)); version >= major && (best == 0 || version < best) {
			best, t = version, found
		}
	}
	return t
}

var toolVersion = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// toolMajor is the major version of a program, 0 if there is none.
func toolMajor(ctx context.Context, path string) int {
	if !filepath.IsAbs(path) {
		return 0
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	match := toolVersion.FindSubmatch(out)
	if err != nil || match == nil {
		return 0
	}
	major, _ := strconv.Atoi(string(match[1]))
	return major
}

// pipe copies a database with pg_dump | psql into an empty one.
func (t tools) pipe(ctx context.Context, sourceURL, targetURL string, schemaOnly bool) error {
	args := []string{"--no-password"}
	if schemaOnly {
		args = append(args, "--schema-only")
	}
	dump, err := tool(ctx, t.dump, sourceURL, args...)
	if err != nil {
		return err
	}
	psql, err := tool(ctx, t.psql, targetURL, "--no-password", "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1")
	if err != nil {
		return err
	}
	var dumpSays, psqlSays bytes.Buffer
	dump.Stderr, psql.Stderr = &dumpSays, &psqlSays
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	dump.Stdout, psql.Stdin = w, r
	// Each end belongs to one program only, so that it notices when the other is gone.
	err = errors.Join(dump.Start(), w.Close())
	if err == nil {
		err = psql.Start()
	}
	if err := errors.Join(err, r.Close()); err != nil {
		if dump.Process != nil {
			_ = dump.Wait()
		}
		return err
	}
	dumpErr, psqlErr := dump.Wait(), psql.Wait()
	if dumpErr != nil {
		dumpErr = fmt.Errorf("pg_dump: %w: %s", dumpErr, strings.TrimSpace(dumpSays.String()))
	}
	if psqlErr != nil {
		psqlErr = fmt.Errorf("psql: %w: %s", psqlErr, strings.TrimSpace(psqlSays.String()))
	}
	return errors.Join(psqlErr, dumpErr)
}

// tool is a command with the connection in its environment, where other users do not see the password.
func tool(ctx context.Context, path, url string, args ...string) (*exec.Cmd, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "PGHOST="+cfg.Host, fmt.Sprintf("PGPORT=%d", cfg.Port), "PGUSER="+cfg.User,
		"PGPASSWORD="+cfg.Password, "PGDATABASE="+cfg.Database)
	return cmd, nil
}
