package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/boughdb/bough/server/pgserver"
	"github.com/boughdb/bough/server/postgres"
)

// Level is how serious a finding is.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warn"
	Failed  Level = "fail"
)

// Finding is one thing that Diagnose looked at.
type Finding struct {
	Level  Level
	Text   string
	Advice string // what to do about it; empty when it is well
}

// Diagnose looks at the configuration's PostgreSQL and says what works, what does not, and what to do.
func Diagnose(ctx context.Context, cfg Config) []Finding {
	var out []Finding
	add := func(level Level, advice, format string, args ...any) {
		out = append(out, Finding{level, fmt.Sprintf(format, args...), advice})
	}
	add(OK, "", "the configuration makes sense")
	url, reflink, stop, err := mainForDoctor(ctx, cfg, add)
	if err != nil {
		return out
	}
	defer stop()
	cluster, err := postgres.OpenCluster(ctx, postgres.ClusterConfig{
		URL: url, Reflink: reflink, Log: slog.New(slog.DiscardHandler), Limits: postgres.PoolLimits{Main: 1, Branch: 1, Total: 2},
		PGDump: (&Planes{}).dumpProgram, DataPlane: cfg.dataPlane(),
	})
	if err != nil {
		add(Failed, "check database-url, the role's password and that the server is running", "main database: %v", err)
		return out
	}
	defer cluster.Close()
	out = append(out, capabilityFindings(cfg, cluster.Capabilities())...)
	if err := cluster.Inspect(ctx); err != nil {
		add(Failed, "", "looking at main: %v", err)
		return out
	}
	out = append(out, separationFindings(cluster)...)
	return append(out, dataPlaneFindings(cfg, cluster)...)
}

// mainForDoctor returns the URL of main, starting the embedded PostgreSQL for the moment where no server runs it.
func mainForDoctor(ctx context.Context, cfg Config, add func(Level, string, string, ...any)) (url string, reflink bool, stop func(), err error) {
	if cfg.DatabaseURL != "" {
		return cfg.DatabaseURL, false, func() {}, nil
	}
	opts := pgserver.Options{DataDir: cfg.DataDir, BinDir: cfg.PostgresBin, CacheDir: pgserver.DefaultCacheDir(), Log: slog.New(slog.DiscardHandler)}
	found, err := pgserver.Find(pgserver.FindOptions{BinDir: opts.BinDir, DataDir: opts.DataDir, CacheDir: opts.CacheDir})
	if err != nil {
		add(Failed, "run `bough postgres install`", "no PostgreSQL: %v", err)
		return "", false, nil, err
	}
	add(OK, "", "%s", found)
	running, err := pgserver.RunningURL(cfg.DataDir, mainDatabase)
	if err == nil {
		add(OK, "", "a server is running on %s", cfg.DataDir)
		return running, false, func() {}, nil
	}
	s, err := pgserver.Start(ctx, opts)
	if errors.Is(err, pgserver.ErrInUse) {
		add(Failed, "wait for the other server, or look at its log", "the data directory is in use, but its PostgreSQL does not answer")
		return "", false, nil, err
	}
	if err != nil {
		add(Failed, "", "the embedded PostgreSQL does not start: %v", err)
		return "", false, nil, err
	}
	stop = func() { _ = s.Stop(context.WithoutCancel(ctx)) }
	if err := prepareEmbedded(ctx, s, cfg.Roles); err != nil {
		stop()
		add(Failed, "", "preparing the embedded PostgreSQL: %v", err)
		return "", false, nil, err
	}
	return s.EngineURL(mainDatabase), s.Reflink(), stop, nil
}

// capabilityFindings says what the server's capabilities mean for branching.
func capabilityFindings(cfg Config, k postgres.Capabilities) []Finding {
	var out []Finding
	add := func(good bool, yes, no, advice string) {
		if good {
			out = append(out, Finding{OK, yes, ""})
			return
		}
		out = append(out, Finding{Warning, no, advice})
	}
	out = append(out, Finding{OK, fmt.Sprintf("PostgreSQL %s, connected as %q", k.Version, k.Role), ""})
	if !k.CreateDB {
		out = append(out, Finding{Failed, "the role may not create databases, so there can be no branches", fmt.Sprintf("alter role %q createdb", k.Role)})
	}
	add(k.TemplateMain, "main can be used as a template: branches are cloned by the server",
		"main cannot be used as a template: branches with data are copied row by row", fmt.Sprintf("make %q the owner of main, or a member of its owner %q", k.Role, k.Owner))
	switch {
	case k.Reflink:
		out = append(out, Finding{OK, "the file system shares blocks: a branch takes a moment and no space, whatever main's size", ""})
	case cfg.DatabaseURL != "":
	case k.CloneMethod:
		out = append(out, Finding{Warning, "the file system of the data directory cannot share blocks: branches are copies", "put --data-dir on XFS (reflink=1), btrfs or APFS"})
	default:
		out = append(out, Finding{Warning, "this PostgreSQL cannot share blocks between databases: branches are copies", "use PostgreSQL 18 (`bough postgres install`) on XFS, btrfs or APFS"})
	}
	add(k.SignalOthers, "the role may end other roles' sessions",
		"the role may not end other roles' sessions: a branch that others are connected to cannot be reset or deleted", fmt.Sprintf("grant pg_signal_backend to %q", k.Role))
	add(k.PGDump != "", "unusual objects in copied schemas are read by "+k.PGDump,
		"there is no pg_dump for this server: a database with unusual objects, such as operator classes, cannot be copied while it is in use",
		"install the PostgreSQL client programs of the server's version if there are such objects")
	add(slices.Contains(k.Extensions, "vector"), "pgvector can be installed", "pgvector is not there: no vector columns", "install pgvector on the server if vectors are wanted")
	if k.MaxConns < cfg.Pool.Total {
		add(false, "", fmt.Sprintf("the server allows %d connections, fewer than pool.total (%d)", k.MaxConns, cfg.Pool.Total), "raise max_connections or lower pool.total")
	}
	return out
}
