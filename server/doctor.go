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
	control, err := readControl(ctx, cfg, url)
	if err != nil {
		add(Warning, "check control-database-url; a server that was never started has no control database yet", "control database: %v", err)
	}
	cluster, err := postgres.OpenCluster(ctx, postgres.ClusterConfig{
		URL: url, DirectURL: cfg.DatabaseDirectURL, PoolMode: postgres.PoolMode(cfg.Pool.Mode), Installation: control.installation,
		Reflink: reflink, Log: slog.New(slog.DiscardHandler), Limits: postgres.PoolLimits{Main: 1, Branch: 1, Total: 2},
		PGDump: (&Planes{}).dumpProgram, DataPlane: cfg.dataPlane(),
	})
	if err != nil {
		add(Failed, "check database-url, the role's password and that the server is running", "main database: %v", err)
		return out
	}
	defer cluster.Close()
	out = append(out, poolerFindings(cluster)...)
	if err := checkControl(ctx, cfg); err != nil {
		add(Failed, "let control-database-url or database-direct-url lead around the pooler", "control database: %v", err)
	}
	out = append(out, capabilityFindings(cfg, cluster.Capabilities())...)
	if err := cluster.Inspect(ctx); err != nil {
		add(Failed, "", "looking at main: %v", err)
		return out
	}
	out = append(out, separationFindings(cluster)...)
	out = append(out, dataPlaneFindings(cfg, cluster)...)
	out = append(out, copyFindings(ctx, cfg, cluster)...)
	return append(out, stateFindings(ctx, cfg, cluster, control, url)...)
}

// checkControl looks at what the control database's URL leads to. The database itself need not exist yet.
func checkControl(ctx context.Context, cfg Config) error {
	if cfg.DatabaseURL == "" || cfg.ControlDatabaseURL == "" && cfg.DatabaseDirectURL != "" {
		return nil
	}
	if cfg.ControlDatabaseURL != "" {
		return postgres.CheckControl(ctx, cfg.ControlDatabaseURL)
	}
	return postgres.CheckControl(ctx, cfg.DatabaseURL) // the same server
}

// poolerFindings says what stands between the program and main, and what that means.
func poolerFindings(cluster *postgres.Cluster) []Finding {
	p, direct := cluster.Pooler()
	switch {
	case !p.Present:
		return []Finding{{OK, "main is reached directly, or as if it were", ""}}
	case !p.Shared():
		return []Finding{{OK, "main is reached through a pooler in session mode", ""}}
	}
	out := []Finding{{OK, "main is reached through a pooler in transaction mode: statements are not kept prepared", ""}}
	if !direct {
		out = append(out, Finding{Warning, "there is no way around the pooler: no LISTEN for changes of the schema, which is polled for changes, and no branches",
			"set database-direct-url to a URL of the server itself"})
	}
	return out
}

// copyFindings says what branches of main would not get where the server does not copy main itself.
func copyFindings(ctx context.Context, cfg Config, cluster *postgres.Cluster) []Finding {
	list, err := cluster.Unportable(ctx, cluster.Main())
	if err != nil {
		return []Finding{{Failed, err.Error(), ""}}
	}
	var out []Finding
	for _, o := range list {
		switch {
		case o.Needed:
			out = append(out, Finding{Warning, fmt.Sprintf("main has the %s, without which no branch can be copied while main is in use", o),
				"connect as a superuser, or as a member of the owner, or keep other programs out of main"})
		case cfg.Branching.LeaveOut:
			out = append(out, Finding{OK, fmt.Sprintf("copied branches do without the %s", o), ""})
		default:
			out = append(out, Finding{Warning, fmt.Sprintf("main has the %s; branches cannot be copied while main is in use", o),
				"set branching.leave-out-unsupported, or connect as a superuser"})
		}
	}
	return out
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
