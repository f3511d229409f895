// Package server puts Bough together: it opens the databases, starts the services and serves the API until it is told
// to stop.
package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/audit"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/branching"
	"github.com/boughdb/bough/server/events"
	"github.com/boughdb/bough/server/httpapi"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/limits"
	"github.com/boughdb/bough/server/mcp"
	"github.com/boughdb/bough/server/oauth"
	"github.com/boughdb/bough/server/postgres"
	"github.com/boughdb/bough/server/repohost"
	"github.com/boughdb/bough/server/tables"
	"github.com/boughdb/bough/server/users"
)

// Hooks are called while the server starts. Both may be nil.
type Hooks struct {
	// FirstKey gets the first service key, once in the life of an installation.
	FirstKey func(baseURL, key string)
	// Ready is called when requests are served, with the address that listens.
	Ready func(addr net.Addr)
}

// NewLogger returns the logger that the configuration asks for.
func NewLogger(cfg Config, out io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.LogLevel)) // checked by Config
	opts := &slog.HandlerOptions{Level: level}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(out, opts))
	}
	return slog.New(slog.NewTextHandler(out, opts))
}

// Run serves until ctx ends. It returns when requests and background work have ended and the embedded PostgreSQL has
// stopped; nil after a stop that was asked for.
func Run(ctx context.Context, cfg Config, log *slog.Logger, hooks Hooks) (err error) {
	// The address first: that it is taken should be known before a database is started.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	cfg.Listen = listener.Addr().String() // port 0 is known now
	limitMemory(cfg)

	planes, err := Open(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, planes.Close()) }()
	s, err := newServer(ctx, cfg, log, planes)
	if err != nil {
		return err
	}
	return s.run(ctx, listener, hooks)
}

// server is what Run puts together.
type server struct {
	cfg      Config
	log      *slog.Logger
	planes   *Planes
	keys     *auth.Keys
	tokens   *auth.Tokens
	signer   *auth.Signer
	users    *users.Service
	branches *branching.Service
	events   *events.Service
	repohost *repohost.Service
	schemas  *introspect.Cache
	keeper   *postgres.PlaneKeeper
	tables   *tables.Service
	oauth    *oauth.Service // nil when it is switched off
	mcp      *mcp.Server    // likewise
	jobs     *river.Client[pgx.Tx]
	registry *prometheus.Registry
	handler  http.Handler
	process  uuid.UUID // tells this process's notifications from others'
}

func newServer(ctx context.Context, cfg Config, log *slog.Logger, planes *Planes) (*server, error) {
	s := &server{cfg: cfg, log: log, planes: planes, registry: prometheus.NewRegistry(), process: uuid.New()}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s.keys = auth.NewKeys(planes.Control, cfg.Auth.MaxClientKeys)
	if err := s.newUsers(); err != nil {
		return nil, err
	}
	if err := s.newOAuth(); err != nil {
		return nil, err
	}
	var err error
	s.branches, err = branching.New(ctx, planes.Control, planes.Data, branching.Config{
		Enabled: cfg.Branching.Enabled, MaxBranches: cfg.Branching.MaxBranches, MaxPerUser: cfg.Branching.MaxPerUser,
		MaxExpiry: cfg.Branching.MaxExpiry, OpenToUsers: cfg.Branching.OpenToUsers, SeedPath: cfg.Branching.SeedPath,
		Workers: cfg.Branching.Workers, ExpiringNotice: cfg.Events.ExpiringNotice,
	}, log)
	if err != nil {
		return nil, err
	}
	if err := s.newEvents(); err != nil {
		return nil, err
	}
	if err := s.newRepohost(); err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	s.branches.AddWorker(workers)
	s.users.AddWorker(workers)
	s.events.AddWorker(workers)
	s.repohost.AddWorker(workers)
	queues := s.users.Queues()
	maps.Copy(queues, s.branches.Queues())
	maps.Copy(queues, s.events.Queues())
	maps.Copy(queues, s.repohost.Queues())
	s.jobs, err = river.NewClient(riverpgxv5.New(planes.Control), &river.Config{
		Queues: queues, Workers: workers, ErrorHandler: jobErrors{s.branches.ErrorHandler(), s},
		Logger: quietLogger(log), RescueStuckJobsAfter: 24 * time.Hour,
	})
	if err != nil {
		return nil, fmt.Errorf("making the job queue: %w", err)
	}
	s.branches.SetJobs(s.jobs)
	s.users.SetJobs(s.jobs)
	s.events.SetJobs(s.jobs)
	s.repohost.SetJobs(s.jobs)
	s.newSchemas()
	memory := limits.NewBudget(memoryBudget(cfg))
	s.tables = newTables(cfg, planes.Data, s.schemas, memory, log)
	planes.Data.Announce = s.announceHold
	planes.Data.Pools.Missing = s.branches.DatabaseGone

	s.registry.MustRegister(branchCollector{s.branches, log}, poolCollector{planes})
	api := &httpapi.API{
		Branches: s.branches, Repohost: s.repohost, Keys: s.keys, Tokens: s.tokens, Users: s.users, Events: s.events, Log: log, Metrics: s.registry, TrustedProxies: cfg.TrustedProxies,
		Tables: s.tables, Schemas: s.schemas, AnonymousAccess: cfg.Auth.AnonymousAccess, PrivateDocument: cfg.API.PrivateDocument,
		PublicURL: cfg.PublicBaseURL, AllowedOrigins: cfg.CORS.Origins, AllowedHosts: cfg.allowedHosts(),
		OAuth: s.oauth, OAuthConfig: s.oauthConfig(), MCPPath: cfg.MCP.BasePath, Audit: audit.New(planes.Control),
		Room: planes.CheckRoom,
		Pace: limits.Pace{BytesPerSecond: cfg.HTTP.MinRate, Grace: cfg.HTTP.Grace}, Memory: memory,
		Checks: map[string]func(context.Context) error{
			"control_database": planes.Control.Ping,
			"main_database":    planes.Data.Ping,
			"migrations":       planes.CheckMigrations,
		},
	}
	if err := s.newMCP(ctx, api); err != nil {
		return nil, err
	}
	s.handler, err = api.Handler()
	return s, err
}

// quietLogger keeps the queue's remarks about its own comings and goings out of the log.
func quietLogger(log *slog.Logger) *slog.Logger {
	return slog.New(levelHandler{log.Handler()})
}

type levelHandler struct{ slog.Handler }

func (h levelHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelError && h.Handler.Enabled(ctx, l)
}

func (s *server) run(ctx context.Context, listener net.Listener, hooks Hooks) error {
	made, err := s.keys.EnsureServiceKey(ctx, s.cfg.ServiceKey)
	if err != nil {
		return err
	}
	if err := s.startUsers(ctx); err != nil {
		return err
	}
	if err := s.events.Ensure(ctx); err != nil {
		return err
	}
	if err := s.repohost.Ensure(ctx); err != nil {
		return err
	}
	// Background work outlives the requests: it ends when they have ended.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { s.notifications().Run(background) })
	wg.Go(func() { s.branches.Maintain(background) })
	wg.Go(func() { s.events.Maintain(background) })
	wg.Go(func() { s.repohost.Maintain(background) })
	wg.Go(func() { s.sweep(background) })
	wg.Go(func() { s.ensureBranches(background) })
	wg.Go(func() { _ = s.schemas.Run(background) }) // has no error
	wg.Go(func() { <-background.Done(); s.keeper.Close() })
	if err := s.jobs.Start(background); err != nil {
		return fmt.Errorf("starting the job queue: %w", err)
	}
	defer func() {
		// Operations under way are given up; they are resumed at the next start.
		timeout, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.jobs.StopAndCancel(timeout); err != nil {
			s.log.Warn("stopping the job queue", "error", err)
		}
		stop()
		wg.Wait()
	}()

	metrics, err := s.serveMetrics(ctx)
	if err != nil {
		return err
	}
	if metrics != nil {
		defer metrics.Close()
	}
	web := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: httpapi.AnswerTimeout, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), Protocols: new(http.Protocols),
	}
	web.Protocols.SetHTTP1(true)
	web.Protocols.SetUnencryptedHTTP2(true)
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(listener) }()
	if made != "" && hooks.FirstKey != nil {
		hooks.FirstKey(s.cfg.BaseURL(), made)
	}
	s.logCapabilities()
	s.logDataPlane()
	s.log.Info("serving", "url", s.cfg.BaseURL(), "main", s.planes.Data.Main())
	if hooks.Ready != nil {
		hooks.Ready(listener.Addr())
	}
	select {
	case <-ctx.Done():
	case err := <-failed:
		return err
	case <-s.planes.Failed():
		return fmt.Errorf("the embedded PostgreSQL keeps failing: %w", s.planes.Err())
	}
	s.log.Info("stopping")
	timeout, cancel := context.WithTimeout(context.Background(), s.cfg.ShutdownTimeout)
	defer cancel()
	if s.mcp != nil {
		s.mcp.Close() // ends the streams, which Shutdown would wait for
	}
	if err := web.Shutdown(timeout); err != nil {
		s.log.Warn("requests were cut off", "error", err)
		_ = web.Close()
	}
	return nil
}

// logCapabilities says how branches will be made; `bough doctor` says more.
func (s *server) logCapabilities() {
	k := s.planes.Data.Capabilities()
	clones := "by copying rows, since main cannot be used as a template"
	switch {
	case k.TemplateMain && k.Reflink:
		clones = "by sharing blocks"
	case k.TemplateMain:
		clones = "by copying files"
	}
	s.log.Info("connected to PostgreSQL", "version", k.Version, "role", k.Role, "superuser", k.Superuser, "clones", clones, "pg_dump", k.PGDump)
	if !k.CreateDB {
		s.log.Warn("the role may not create databases, so no branch can be made", "advice", fmt.Sprintf("alter role %q createdb", k.Role))
	}
}

// serveMetrics serves /metrics on its own address. At the default address another server may be in the way, which is
// no reason not to start.
func (s *server) serveMetrics(ctx context.Context) (io.Closer, error) {
	if s.cfg.MetricsListen == "" {
		return nil, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.MetricsListen)
	if err != nil {
		s.log.Warn("metrics are not served", "error", err)
		return nil, nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = web.Serve(listener) }()
	return web, nil
}

// sweep does the small chores of this process.
func (s *server) sweep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Minute):
		}
		s.planes.Data.Pools.Sweep()
		if _, err := db.New(s.planes.Control).SweepAPIKeys(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("sweeping revoked keys", "error", err)
		}
		s.sweepUsers(ctx)
		s.sweepOAuth(ctx)
	}
}

// Channels of notifications between the processes of an installation.
const (
	keysChannel        = "bough_keys"
	signingKeysChannel = "bough_signing_keys"
	revocationsChannel = "bough_revocations"
	holdChannel        = "bough_hold"
)

// hold is the notification that asks other processes to let requests for a database wait.
type hold struct {
	Process  uuid.UUID     `json:"process"`
	Database string        `json:"database"`
	Limit    time.Duration `json:"limit"` // 0 ends it
}

func (s *server) announceHold(ctx context.Context, database string, limit time.Duration) error {
	data, err := json.Marshal(hold{s.process, database, limit})
	if err != nil {
		return err
	}
	_, err = s.planes.Control.Exec(ctx, "select pg_notify($1, $2)", holdChannel, string(data))
	return err
}

// notifications listens for what other processes, or the database's triggers, have to tell.
func (s *server) notifications() *postgres.Listener {
	var mu sync.Mutex
	holds := map[string]func(){}
	return &postgres.Listener{
		Log: s.log,
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.ConnectConfig(ctx, s.planes.Control.Config().ConnConfig)
		},
		Reset: func() {
			s.keys.Forget("")
			s.tokens.Forget()
			s.signer.Forget()
			s.loadRevocations()
			s.oauthNotified("")
			s.branchChanged("")
		},
		Handlers: map[string]func(string){
			keysChannel:        s.keys.Forget,
			signingKeysChannel: func(string) { s.tokens.Forget(); s.signer.Forget() },
			revocationsChannel: s.tokens.Notified,
			oauth.Channel:      s.oauthNotified,
			branching.Channel:  s.branchChanged,
			holdChannel: func(payload string) {
				var h hold
				if err := json.Unmarshal([]byte(payload), &h); err != nil || h.Process == s.process {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				key := h.Process.String() + h.Database
				if end := holds[key]; end != nil {
					end()
					delete(holds, key)
				}
				if h.Limit > 0 {
					holds[key] = s.planes.Data.Pools.HoldInBackground(h.Database, h.Limit)
				}
			},
		},
	}
}

// branchCollector counts branches by status when metrics are asked for.
type branchCollector struct {
	branches *branching.Service
	log      *slog.Logger
}

var branchesDesc = prometheus.NewDesc("bough_branches", "Branches by status.", []string{"status"}, nil)

func (branchCollector) Describe(ch chan<- *prometheus.Desc) { ch <- branchesDesc }

func (c branchCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	counts, err := c.branches.Counts(ctx)
	if err != nil {
		c.log.Warn("counting branches for metrics", "error", err)
		return
	}
	for status, n := range counts {
		ch <- prometheus.MustNewConstMetric(branchesDesc, prometheus.GaugeValue, float64(n), status)
	}
}

// poolCollector reports the connection pools.
type poolCollector struct{ planes *Planes }

var poolDesc = prometheus.NewDesc("bough_pool_connections", "Connections by pool and state.", []string{"pool", "state"}, nil)

func (poolCollector) Describe(ch chan<- *prometheus.Desc) { ch <- poolDesc }

func (c poolCollector) Collect(ch chan<- prometheus.Metric) {
	report := func(pool string, idle, acquired int32) {
		ch <- prometheus.MustNewConstMetric(poolDesc, prometheus.GaugeValue, float64(idle), pool, "idle")
		ch <- prometheus.MustNewConstMetric(poolDesc, prometheus.GaugeValue, float64(acquired), pool, "acquired")
	}
	control := c.planes.Control.Stat()
	report("control", control.IdleConns(), control.AcquiredConns())
	main := c.planes.Data.PoolStats(c.planes.Data.Main())
	report("main", main.Idle, main.Acquired)
}
