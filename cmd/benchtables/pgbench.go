package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/pgserver"
)

// findPgbench returns pgbench of the installation, of PATH, or of the usual places of packages, "" where there is none.
// It need not be of the server's version; before 14 there are no pipelines.
func findPgbench(ctx context.Context, inst pgserver.Installation) string {
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
		out, err := exec.CommandContext(ctx, path, "--version").Output()
		match := toolVersion.FindSubmatch(out)
		if err != nil || match == nil {
			continue
		}
		if major, _ := strconv.Atoi(string(match[1])); major >= 14 {
			return path
		}
	}
	return ""
}

var toolVersion = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// pgbench is the yardstick: the statements that a request stands for, without the request.
type pgbench struct {
	path        string
	url         string
	dir         string
	connections int
	rows        int
}

// pipeline sends the settings and the statements in one go, which makes one implicit transaction of them.
const pipeline = `\startpipeline
select set_config('role', :role, true), set_config('request.jwt.claims', :claims, true);`

// progress is what pgbench says each second.
var progress = regexp.MustCompile(`^progress: [0-9.]+ s, ([0-9.]+) tps`)

// yardstick is what pgbench measured.
type yardstick struct {
	rate    float64
	cpu     time.Duration // of PostgreSQL, for each transaction
	pgbench time.Duration // of pgbench itself
}

// run has pgbench execute a scenario's statements for at least so long, as often as it can, or so often in a second.
// clock returns PostgreSQL's CPU time. The first second, in which connections are made, does not count.
func (p *pgbench) run(
	ctx context.Context, s *scenario, claims string, d time.Duration, rate float64, clock func() (time.Duration, error),
) (y yardstick, err error) {
	script := filepath.Join(p.dir, s.flag+".sql")
	if err := os.WriteFile(script, []byte(fmt.Sprintf(s.script, pipeline)+"\\endpipeline\n"), 0o644); err != nil {
		return y, err
	}
	seconds := int(math.Ceil(d.Seconds()))
	role := "service_role"
	if s.signedIn {
		role = "authenticated"
	}
	args := []string{
		"--no-vacuum", "--file", script, "--protocol", "prepared", "--client", strconv.Itoa(p.connections), "--jobs", "2",
		"--time", strconv.Itoa(seconds + 2), "--progress", "1",
	}
	if rate > 0 {
		args = append(args, "--rate", strconv.FormatFloat(rate, 'f', 1, 64))
	}
	for name, value := range map[string]string{
		"role": role, "claims": claims, "rows": strconv.Itoa(p.rows),
		"title": entryTitle, "body": entryBody, "amount": entryAmount, "created": entryCreated, "data": entryData,
	} {
		args = append(args, "--define", name+"="+value)
	}
	cmd, err := withConnection(exec.CommandContext(ctx, p.path, args...), p.url)
	if err != nil {
		return y, err
	}
	says, err := cmd.StderrPipe()
	if err != nil {
		return y, err
	}
	if err := cmd.Start(); err != nil {
		return y, err
	}
	// It is not waited for to its end: what was asked for is known before.
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	type moment struct {
		at            time.Time
		server, bench time.Duration
	}
	now := func() (m moment, err error) {
		m.at = time.Now()
		if m.server, err = clock(); err != nil {
			return m, err
		}
		m.bench, err = cpuOf(cmd.Process.Pid)
		return m, err
	}
	var first, before, last moment
	var transactions float64
	var heard bytes.Buffer
	lines := bufio.NewScanner(says)
	for n := 0; lines.Scan(); {
		match := progress.FindSubmatch(lines.Bytes())
		if match == nil {
			heard.Write(append(lines.Bytes(), '\n'))
			continue
		}
		if last, err = now(); err != nil {
			return y, err
		}
		rate, err := strconv.ParseFloat(string(match[1]), 64)
		if err != nil {
			return y, err
		}
		if n++; n == 1 {
			first, before = last, last
			continue
		}
		transactions += rate * last.at.Sub(before.at).Seconds()
		before = last
		if n > seconds {
			break
		}
	}
	if transactions < 1 || last.at.Sub(first.at) < d*9/10 {
		return y, errors.Join(fmt.Errorf("pgbench did not measure: %s", strings.TrimSpace(heard.String())), ctx.Err())
	}
	if text := heard.String(); strings.Contains(text, "ERROR") {
		return y, fmt.Errorf("pgbench: %s", strings.TrimSpace(text))
	}
	y.rate = transactions / last.at.Sub(first.at).Seconds()
	y.cpu = time.Duration(float64(last.server-first.server) / transactions)
	y.pgbench = time.Duration(float64(last.bench-first.bench) / transactions)
	return y, nil
}

// withConnection puts the connection into a command's environment, where other users do not see the password.
func withConnection(cmd *exec.Cmd, url string) (*exec.Cmd, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cmd.Env = append(os.Environ(), "PGHOST="+cfg.Host, fmt.Sprintf("PGPORT=%d", cfg.Port), "PGUSER="+cfg.User,
		"PGPASSWORD="+cfg.Password, "PGDATABASE="+cfg.Database)
	return cmd, nil
}
