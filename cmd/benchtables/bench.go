package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/pgserver"
)

// bench is one run of everything.
type bench struct {
	options
	log     *slog.Logger
	remarks io.Writer
	report  *report

	postmaster int // PostgreSQL's first process
	pgbench    *pgbench
	constants  *constant
}

// The parts that are no scenarios.
const (
	partLarge = "large"
	partWide  = "wide"
	partDDL   = "ddl"
)

// partNames lists what can be asked for.
func partNames() []string {
	var names []string
	for _, s := range scenarios(rowsOfAuthor) {
		names = append(names, s.flag)
	}
	return append(names, partLarge, partWide, partDDL)
}

func contains(list []string, name string) bool { return slices.Contains(list, name) }

func (b *bench) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	dir, err := os.MkdirTemp(b.dir, "bough-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// PostgreSQL's user has to enter it; the cluster in it is private.
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	path, err := b.programPath(ctx, dir)
	if err != nil {
		return err
	}
	began := time.Now()
	server, err := pgserver.Start(ctx, pgserver.Options{DataDir: filepath.Join(dir, "data"), BinDir: b.binDir, CacheDir: pgserver.DefaultCacheDir(), Log: b.log})
	if err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		err = errors.Join(err, server.Stop(stop))
	}()
	if filepath.Dir(server.ClusterDir()) != server.DataDir() {
		elsewhere := filepath.Dir(server.ClusterDir())
		defer os.RemoveAll(elsewhere)
		return fmt.Errorf("PostgreSQL's user cannot enter %s", dir)
	}
	if b.postmaster, err = postmasterPID(server.ClusterDir()); err != nil {
		return err
	}
	url := server.URL
	if b.socket {
		url = server.SocketURL
	}
	if err := b.fill(ctx, url); err != nil {
		return err
	}
	b.report.Server = "PostgreSQL " + server.Installation().Version
	b.remark("%s with its data was ready in %.1f s", b.report.Server, time.Since(began).Seconds())

	b.pgbench = &pgbench{path: findPgbench(ctx, server.Installation()), url: url(mainDatabase), dir: dir, connections: b.connections, rows: b.rows}
	if b.pgbench.path == "" {
		b.report.note("there is no pgbench of version 14 or newer, so nothing is compared with it")
	}
	if b.constants, err = startConstant(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.constants.stop()) }()
	p, err := startProgram(ctx, path, dir, mainDatabase, url(mainDatabase), url("control"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	callers, err := b.callers(ctx, p, url(mainDatabase))
	if err != nil {
		return err
	}
	if err := b.measureScenarios(ctx, p, callers); err != nil {
		return err
	}
	if b.report.Memory, err = memoryOf(p.pid()); err != nil {
		return err
	}
	for _, part := range []struct {
		name    string
		measure func() error
	}{
		{partLarge, func() error { return b.measureLarge(ctx, p) }},
		{partWide, func() error {
			return b.measureWide(ctx, p, func(name string) (*program, error) {
				return startProgram(ctx, path, dir, name, url(wideDatabase), url("wide_control"))
			})
		}},
		{partDDL, func() error { return b.measureDDL(ctx, p, url(mainDatabase)) }},
	} {
		if !b.wants(part.name) {
			continue
		}
		if err := part.measure(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// remark tells how far the work is.
func (b *bench) remark(format string, args ...any) { fmt.Fprintf(b.remarks, format+"\n", args...) }

func postmasterPID(cluster string) (int, error) {
	data, err := os.ReadFile(filepath.Join(cluster, "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return strconv.Atoi(strings.TrimSpace(line))
}

// caller is who asks: a header line for the server, claims for pgbench.
type caller struct{ credentials, claims string }

// callers returns the service and a signed-in user, whom it gives what she needs.
func (b *bench) callers(ctx context.Context, p *program, mainURL string) (map[bool]caller, error) {
	err := b.onDatabase(ctx, mainURL, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, protect)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("making the policy: %w", err)
	}
	token, claims, err := p.token(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("making a token: %w", err)
	}
	return map[bool]caller{
		false: {"X-Service-Key: " + serviceKey, `{"role":"service_role"}`},
		true:  {"Authorization: Bearer " + token, claims},
	}, nil
}

// measureScenarios measures server, pgbench and the constant server in turn, several times.
func (b *bench) measureScenarios(ctx context.Context, p *program, callers map[bool]caller) error {
	for _, s := range scenarios(b.rows) {
		if !b.wants(s.flag) {
			continue
		}
		who := callers[s.signedIn]
		row := &row{scenario: s}
		size, err := s.answerOnce(p.addr, who.credentials)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		row.Size = size
		b.report.Rows = append(b.report.Rows, row)
	}
	for round := range b.rounds {
		for _, row := range b.report.Rows {
			began := time.Now()
			sample, err := b.measure(ctx, p, row, callers[row.signedIn], round == b.rounds-1)
			if err != nil {
				return fmt.Errorf("%s: %w", row.name, err)
			}
			row.Samples = append(row.Samples, sample)
			b.remark("%d/%d %s: %.0f requests a second, in %.1f s", round+1, b.rounds, row.name, sample.Rate, time.Since(began).Seconds())
		}
	}
	return nil
}

// answerOnce asks once and looks at the answer. It returns its length.
func (s *scenario) answerOnce(addr, credentials string) (int64, error) {
	c := &client{addr: addr}
	defer c.close()
	var body bytes.Buffer
	a, err := c.do(s.request(addr, credentials, rand.New(rand.NewPCG(1, 2)), nil), &body)
	if err != nil {
		return 0, err
	}
	return a.size, s.check(a, body.Bytes())
}

// sample is one measurement of a scenario. Times are in microseconds, CPU times for each request.
type sample struct {
	Rate, Middle, Slow float64 // requests a second; the median and the 99th percentile of the latency
	Failed             int
	Server, Postgres   float64
	Yardstick          bool // whether pgbench was there
	BenchRate          float64
	BenchPostgres      float64
	BenchSelf          float64
	// The same at the server's rate; 0 in all rounds but the last.
	SlowPostgres, SlowSelf float64
	Constant               float64 // 0 where another scenario has it
}

// measure takes one sample. In the last round pgbench is also asked to be no faster than the server.
func (b *bench) measure(ctx context.Context, p *program, row *row, who caller, last bool) (out sample, err error) {
	s := &row.scenario
	l := load{addr: p.addr, connections: b.connections, status: s.status, next: func(random *rand.Rand, into []byte) []byte {
		return s.request(p.addr, who.credentials, random, into)
	}}
	t, cpu, err := b.underLoad(ctx, l, b.duration, func() (time.Duration, error) { return cpuOf(p.pid()) }, b.postgresCPU)
	if err != nil {
		return out, err
	}
	out.Rate, out.Failed = t.rate(), t.failed
	out.Middle, out.Slow = micros(t.quantile(.5)), micros(t.quantile(.99))
	out.Server, out.Postgres = cpu[0], cpu[1]
	if t.failed > 0 {
		b.report.note(fmt.Sprintf("%s: a request failed: %v", s.name, t.firstErr))
	}
	if b.pgbench.path != "" {
		y, err := b.pgbench.run(ctx, s, who.claims, b.duration, 0, b.postgresCPU)
		if err != nil {
			return out, err
		}
		if last {
			slow, err := b.pgbench.run(ctx, s, who.claims, b.duration, out.Rate, b.postgresCPU)
			if err != nil {
				return out, err
			}
			out.SlowPostgres, out.SlowSelf = micros(slow.cpu), micros(slow.pgbench)
		}
		out.Yardstick, out.BenchRate = true, y.rate
		out.BenchPostgres, out.BenchSelf = micros(y.cpu), micros(y.pgbench)
	}
	if s.sameSize == "" || !b.wants(s.sameSize) {
		l := load{addr: b.constants.addr, connections: b.connections, status: 200, next: func(random *rand.Rand, into []byte) []byte {
			return s.constantRequest(b.constants.addr, row.Size, random, into)
		}}
		_, cpu, err := b.underLoad(ctx, l, b.duration/2, func() (time.Duration, error) { return cpuOf(b.constants.cmd.Process.Pid) })
		if err != nil {
			return out, err
		}
		out.Constant = cpu[0]
	}
	return out, nil
}

func (b *bench) postgresCPU() (time.Duration, error) { return cpuOfFamily(b.postmaster) }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// underLoad lets the load work for a while and returns what it saw and, for each clock, the microseconds of CPU that a
// request took.
func (b *bench) underLoad(ctx context.Context, l load, d time.Duration, clocks ...func() (time.Duration, error)) (traffic, []float64, error) {
	r := l.start(ctx)
	sleep(ctx, warmUp)
	read := func() (times []time.Duration, err error) {
		for _, clock := range clocks {
			t, failed := clock()
			times = append(times, t)
			err = errors.Join(err, failed)
		}
		return times, err
	}
	from, err := read()
	r.mark()
	if err == nil {
		sleep(ctx, d)
	}
	to, failed := read()
	t := r.stop()
	if err := errors.Join(err, failed, ctx.Err()); err != nil {
		return t, nil, err
	}
	if t.requests == 0 {
		return t, nil, fmt.Errorf("no request succeeded: %w", t.firstErr)
	}
	cpu := make([]float64, len(clocks))
	for i := range clocks {
		cpu[i] = micros(to[i]-from[i]) / float64(t.requests)
	}
	return t, cpu, nil
}
