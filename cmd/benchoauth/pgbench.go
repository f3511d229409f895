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
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/pgserver"
)

// pgbench is the yardstick: the statements that a request comes to, without the request.
type pgbench struct{ path, url, dir string }

// newPgbench looks for pgbench in the installation, in PATH, and in the usual places of packages.
func newPgbench(ctx context.Context, inst pgserver.Installation, url, dir string) (*pgbench, error) {
	var candidates []string
	if path, ok := inst.Tool("pgbench"); ok {
		candidates = append(candidates, path)
	}
	packaged, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench") // the pattern is well-formed
	slices.Reverse(packaged)
	candidates = append(candidates, packaged...)
	if path, err := exec.LookPath("pgbench"); err == nil {
		candidates = append(candidates, path)
	}
	for _, path := range candidates {
		if exec.CommandContext(ctx, path, "--version").Run() == nil {
			return &pgbench{path, url, dir}, nil
		}
	}
	return nil, errors.New("there is no pgbench; it comes with PostgreSQL's packages for servers or contrib")
}

var rateLine = regexp.MustCompile(`tps = ([0-9.]+) \(without initial connection time\)`)

// run has pgbench do what the server does in a round, and returns how often in a second it did.
func (p *pgbench) run(ctx context.Context, b *bench, k kind, round int) (float64, error) {
	text, err := k.pgbench(b.queries)
	if err != nil {
		return 0, err
	}
	script := filepath.Join(p.dir, k.flag+".sql")
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		return 0, err
	}
	share := b.requests / b.connections
	cfg, err := pgx.ParseConfig(p.url)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, p.path, "--no-vacuum", "--file", script, "--protocol", "prepared", "--client", strconv.Itoa(b.connections),
		"--jobs", strconv.Itoa(min(2, b.connections)), "--transactions", strconv.Itoa(share), "--define", "n="+strconv.Itoa(round*share))
	// In the environment other users do not see the password.
	cmd.Env = append(os.Environ(), "PGHOST="+cfg.Host, fmt.Sprintf("PGPORT=%d", cfg.Port), "PGUSER="+cfg.User, "PGPASSWORD="+cfg.Password, "PGDATABASE="+cfg.Database)
	out, err := cmd.CombinedOutput()
	match := rateLine.FindSubmatch(out)
	if err != nil || match == nil || bytes.Contains(out, []byte("ERROR")) {
		return 0, errors.Join(fmt.Errorf("pgbench did not measure: %s", bytes.TrimSpace(out)), err)
	}
	return strconv.ParseFloat(string(match[1]), 64)
}
