package server

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/diskspace"
	"github.com/boughdb/bough/server/duration"
	"github.com/boughdb/bough/server/httpapi"
	"github.com/boughdb/bough/server/postgres"
)

// EnvPrefix begins the names of all environment variables.
const EnvPrefix = "BOUGH_"

// Config is the server's configuration. Each setting is declared once, in Settings.
type Config struct {
	Version            string // the program's, which it tells MCP clients; no setting
	Listen             string
	MetricsListen      string
	PublicBaseURL      string
	DataDir            string
	PostgresBin        string
	PostgresMemory     int64
	DatabaseURL        string
	DatabaseDirectURL  string
	ControlDatabaseURL string
	DatabaseWait       time.Duration
	ServiceKey         string
	LogLevel           string
	LogFormat          string
	TrustedProxies     []string
	AllowedHosts       []string
	CORS               struct{ Origins []string }
	ShutdownTimeout    time.Duration
	Auth               AuthConfig
	Mail               MailConfig
	MCP                MCPConfig
	Events             EventsConfig
	Roles              postgres.RoleNames
	API                struct {
		Schemas          []string
		ManageGrants     bool
		MaxRows          int64
		MaxBody          int64
		MaxRecord        int64
		MaxHeld          int64
		MaxColumns       int
		Memory           int64
		StatementTimeout time.Duration
		Explain          bool
		PrivateDocument  bool
	}
	Branching struct {
		Enabled          bool
		MaxBranches      int
		MaxPerUser       int
		MaxExpiry        time.Duration
		OpenToUsers      bool
		SeedPath         string
		Sessions         string
		Strategy         string
		MaxPause         time.Duration
		DrainTimeout     time.Duration
		Workers          int
		CopyJobs         int
		KeepUserMappings bool
		DiskReserve      diskspace.Reserve
		LeaveOut         bool
	}
	Pool struct {
		Main, Branch, Control int32
		Total                 int
		IdleTimeout           time.Duration
		Wait                  time.Duration
		Mode                  string
	}
	HTTP struct {
		MinRate int64
		Grace   time.Duration
	}
}

// Settings declares every setting with its default and help. A setting's name is its flag (branching.max-branches),
// its key in the configuration file (branching: max_branches:) and, with EnvPrefix, its environment variable
// (BOUGH_BRANCHING_MAX_BRANCHES).
func (c *Config) Settings() *pflag.FlagSet {
	f := pflag.NewFlagSet("bough", pflag.ContinueOnError)
	f.SortFlags = false
	f.StringVar(&c.Listen, "listen", "127.0.0.1:8080", "address to serve on")
	f.StringVar(&c.MetricsListen, "metrics-listen", "127.0.0.1:8081", "address for /metrics; empty for none")
	f.StringVar(&c.PublicBaseURL, "public-base-url", "", "the URL under which clients reach the server (default http://<listen>)")
	f.StringVar(&c.DataDir, "data-dir", ".bough", "directory for the embedded PostgreSQL and files")
	f.StringVar(&c.PostgresBin, "postgres-bin", "", "directory with the PostgreSQL programs for the embedded server")
	f.Int64Var(&c.PostgresMemory, "postgres-memory", 0, "most bytes of memory of a process of the embedded server, without what is shared (default a 16th of the machine's, from 256 MiB to 1 GiB); -1 for no limit")
	f.StringVar(&c.DatabaseURL, "database-url", "", "main database of an external PostgreSQL 15 or newer, instead of the embedded one")
	f.StringVar(&c.DatabaseDirectURL, "database-direct-url", "", "the main database around the pooler that database-url leads to, for LISTEN, branches and the default control database")
	f.StringVar(&c.ControlDatabaseURL, "control-database-url", "", `Bough's own database (default: "bough" on the same server as main)`)
	f.Var(durationVar(&c.DatabaseWait, "2m"), "database-wait", "how long to wait at the start for an external PostgreSQL that does not accept connections yet")
	f.StringVar(&c.ServiceKey, "service-key", "", "service key to accept, instead of making a first one; best set by BOUGH_SERVICE_KEY")
	f.StringVar(&c.LogLevel, "log.level", "info", "debug, info, warn or error")
	f.StringVar(&c.LogFormat, "log.format", "text", "text or json")
	f.StringSliceVar(&c.TrustedProxies, "trusted-proxies", nil, "networks whose X-Forwarded-For is believed")
	f.StringSliceVar(&c.AllowedHosts, "allowed-hosts", nil, "names besides that of public-base-url and loopback's that requests to a server on loopback may be for")
	f.StringSliceVar(&c.CORS.Origins, "cors.origins", nil, "origins whose pages may use the server from a browser, such as https://app.example; * is any")
	f.Var(durationVar(&c.ShutdownTimeout, "30s"), "shutdown-timeout", "how long requests may go on when the server stops")
	f.StringVar(&c.Roles.Anon, "roles.anon", "anon", "database role of requests without credentials")
	f.StringVar(&c.Roles.Authenticated, "roles.authenticated", "authenticated", "database role of users' requests")
	f.StringVar(&c.Roles.Service, "roles.service", "service_role", "database role of requests with a service key")
	f.StringSliceVar(&c.API.Schemas, "api.schemas", []string{"public"}, "schemas whose tables and functions are served; the first one is the default")
	f.BoolVar(&c.API.ManageGrants, "api.manage-grants", true, "let all three roles into the exposed schemas, and the service role at everything in them")
	f.Int64Var(&c.API.MaxRows, "api.max-rows", 0, "most records in one answer; 0 for no limit")
	f.Int64Var(&c.API.MaxBody, "api.max-body", 16<<20, "most bytes in the body of a data request")
	f.Int64Var(&c.API.MaxRecord, "api.max-record", 32<<20, "most bytes of one record in an answer; 0 for PostgreSQL's limit of 1 GiB")
	f.Int64Var(&c.API.MaxHeld, "api.max-held", 64<<20, "most bytes of an answer that is held in memory until it is complete, such as one to a write; 0 for no limit")
	f.IntVar(&c.API.MaxColumns, "api.max-columns", 1000, "most items of select, related records included; 0 for no limit")
	f.Int64Var(&c.API.Memory, "api.memory", 0, "most bytes of memory for large bodies, records and answers together (default a half of what Go may use)")
	f.Var(durationVar(&c.API.StatementTimeout, "30s"), "api.statement-timeout", "how long the statement of a data request may take until its first records come")
	f.BoolVar(&c.API.Explain, "api.explain", false, "let clients ask for the plans of their requests")
	f.BoolVar(&c.API.PrivateDocument, "api.private-document", false, "ask for credentials for /openapi.json, and show in it what their role may do")
	f.BoolVar(&c.Auth.AnonymousAccess, "auth.anonymous-access", false, "serve data requests without credentials, as the role for them")
	f.BoolVar(&c.Branching.Enabled, "branching.enabled", true, "serve branching")
	f.IntVar(&c.Branching.MaxBranches, "branching.max-branches", 50, "most branches there may be")
	f.IntVar(&c.Branching.MaxPerUser, "branching.max-branches-per-user", 10, "most branches a user may have; administrators and service keys are not bound")
	f.Var(durationVar(&c.Branching.MaxExpiry, "90d"), "branching.max-expiry", "longest expires_in")
	f.BoolVar(&c.Branching.OpenToUsers, "branching.open-to-users", false, "let every signed-in user make schema_only branches of main")
	f.StringVar(&c.Branching.SeedPath, "branching.seed-path", "", "directory of the *.sql files that fill seed_data branches")
	f.StringVar(&c.Branching.Sessions, "branching.sessions", "copy", "when other programs are connected to the source of a clone: copy (from a snapshot), terminate (them) or fail")
	f.StringVar(&c.Branching.Strategy, "branching.strategy", "auto", "auto, reflink, file_copy, wal_log or copy")
	f.Var(durationVar(&c.Branching.MaxPause, "3s"), "branching.max-pause", "longest time that requests to the source may have to wait; a clone that would take longer, or does, is made in another way")
	f.Var(durationVar(&c.Branching.DrainTimeout, "5s"), "branching.drain-timeout", "how long a clone waits for requests at work")
	f.IntVar(&c.Branching.Workers, "branching.workers", 2, "clones at a time")
	f.IntVar(&c.Branching.CopyJobs, "branching.copy-jobs", 2, "connections of a snapshot copy")
	f.BoolVar(&c.Branching.LeaveOut, "branching.leave-out-unsupported", false, "copy a database without what only a superuser can create, such as event triggers; the branch's activity names it")
	f.BoolVar(&c.Branching.KeepUserMappings, "branching.keep-user-mappings", false, "let branches have main's user mappings of foreign servers, and so reach them")
	f.Var(&c.Branching.DiskReserve, "branching.disk-reserve", "space on the databases' disk that Bough leaves free, such as 2GB or 5% (auto: 5%, between 64MB and 1GB); 0 for none")
	f.Int32Var(&c.Pool.Main, "pool.main", 0, "most connections to main (default 4 for each core of this machine, 10 to 60)")
	f.Int32Var(&c.Pool.Branch, "pool.branch", 5, "most connections to one branch")
	f.IntVar(&c.Pool.Total, "pool.total", 120, "most connections to main and all branches together")
	f.Int32Var(&c.Pool.Control, "pool.control", 30, "most connections to the control database")
	f.StringVar(&c.Pool.Mode, "pool.mode", string(postgres.PoolAuto), "what database-url leads to: session (the server, or a pooler in session mode), transaction (a pooler in transaction mode), or auto to find out")
	f.Var(durationVar(&c.Pool.IdleTimeout, "5m"), "pool.idle-timeout", "a branch's pool is closed when nobody used it for so long")
	f.Var(durationVar(&c.Pool.Wait, "10s"), "pool.wait", "how long a request may wait for a connection until it is answered with 503; 0s for no limit")
	f.Int64Var(&c.HTTP.MinRate, "http.min-rate", 1024, "bytes per second, on average, at which clients must send bodies and take records at least; 0 for no limit")
	f.Var(durationVar(&c.HTTP.Grace, "10s"), "http.grace", "how long a client may be slower than http.min-rate, in one request")
	c.Auth.settings(f)
	c.Mail.settings(f)
	c.MCP.settings(f)
	c.Events.settings(f)
	return f
}

// mainConnections is how many connections serve main best: more cost the server time, fewer let requests wait. It
// supposes that the database has about as many cores as this machine.
func mainConnections() int32 { return int32(min(max(4*runtime.NumCPU(), 10), 60)) }

// Secrets are the settings whose values are never shown in full.
var Secrets = []string{"service-key", "database-url", "database-direct-url", "control-database-url", "auth.encryption-key", "mail.smtp-password"}

// Origin says where a setting's value came from.
type Origin string

// The origins, strongest first.
const (
	FromFlag    Origin = "flag"
	FromEnv     Origin = "environment"
	FromFile    Origin = "file"
	FromDefault Origin = "default"
)

// EnvName is the environment variable of a setting.
func EnvName(setting string) string {
	return EnvPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(setting))
}

// Key is the key of a setting in the configuration file, with dots between its levels.
func Key(setting string) string { return strings.ReplaceAll(setting, "-", "_") }

// Load completes settings whose flags were parsed with the environment and the file; file "" is none. It returns where
// each value came from. The settings must be of this configuration.
func (c *Config) Load(settings *pflag.FlagSet, file string, getenv func(string) (string, bool)) (map[string]Origin, error) {
	values, err := readFile(file)
	if err != nil {
		return nil, err
	}
	origins := map[string]Origin{}
	known := map[string]bool{}
	var errs []error
	settings.VisitAll(func(f *pflag.Flag) {
		known[Key(f.Name)] = true
		origins[f.Name] = FromDefault
		fromFile, inFile := values[Key(f.Name)]
		fromEnv, inEnv := getenv(EnvName(f.Name))
		switch {
		case f.Changed:
			origins[f.Name] = FromFlag
		case inEnv:
			origins[f.Name] = FromEnv
			if err := settings.Set(f.Name, fromEnv); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", EnvName(f.Name), hideValue(f.Name, err)))
			}
		case inFile:
			origins[f.Name] = FromFile
			if err := settings.Set(f.Name, fromFile); err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", file, Key(f.Name), hideValue(f.Name, err)))
			}
		}
	})
	for key := range values {
		if !known[key] {
			errs = append(errs, fmt.Errorf("%s: unknown setting %q", file, key))
		}
	}
	sort.Slice(errs, func(i, j int) bool { return errs[i].Error() < errs[j].Error() })
	if len(errs) > 0 {
		return origins, errors.Join(errs...)
	}
	if c.Pool.Main == 0 {
		c.Pool.Main = mainConnections()
	}
	return origins, c.check()
}

func hideValue(setting string, err error) error {
	if slices.Contains(Secrets, setting) {
		return errors.New("the value cannot be read")
	}
	return err
}

// readFile reads a YAML file into keys with dots.
func readFile(name string) (map[string]string, error) {
	out := map[string]string{}
	if name == "" {
		return out, nil
	}
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no configuration file %s", name)
	}
	if err != nil {
		return nil, err
	}
	var root map[string]any
	if err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&root); err != nil && len(bytes.TrimSpace(data)) > 0 {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	flatten("", root, out)
	return out, nil
}

func flatten(prefix string, node map[string]any, out map[string]string) {
	for key, value := range node {
		switch v := value.(type) {
		case map[string]any:
			flatten(prefix+key+".", v, out)
		case []any:
			items := make([]string, len(v))
			for i, item := range v {
				items[i] = fmt.Sprint(item)
			}
			out[prefix+key] = strings.Join(items, ",")
		case nil:
			out[prefix+key] = ""
		default:
			out[prefix+key] = fmt.Sprint(v)
		}
	}
}

// check says what in the configuration does not make sense.
func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		bad("listen: %q is not host:port", c.Listen)
	}
	if c.MetricsListen != "" {
		if _, _, err := net.SplitHostPort(c.MetricsListen); err != nil {
			bad("metrics-listen: %q is not host:port", c.MetricsListen)
		}
	}
	if c.PublicBaseURL != "" {
		u, err := url.Parse(c.PublicBaseURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			bad("public-base-url: %q must be an http or https URL without query, fragment and user", c.PublicBaseURL)
		}
	}
	if c.ControlDatabaseURL != "" && c.DatabaseURL == "" {
		bad("control-database-url needs database-url; the embedded PostgreSQL has its own control database")
	}
	if c.DatabaseDirectURL != "" && c.DatabaseURL == "" {
		bad("database-direct-url needs database-url; nothing stands before the embedded PostgreSQL")
	}
	if c.ServiceKey != "" {
		if err := auth.CheckServiceKey(c.ServiceKey); err != nil {
			bad("service-key: %w", err)
		}
	}
	for _, name := range c.AllowedHosts {
		if host := httpapi.HostOf(name); host == "" || strings.ContainsAny(host, "/*@?# ") {
			bad("allowed-hosts: %q must be the name of a host, such as bough.internal", name)
		}
	}
	oneOf := func(name, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			bad("%s: %q is not one of %s", name, value, strings.Join(allowed, ", "))
		}
	}
	oneOf("log.level", c.LogLevel, "debug", "info", "warn", "error")
	oneOf("log.format", c.LogFormat, "text", "json")
	oneOf("branching.sessions", c.Branching.Sessions, string(postgres.CopyAround), string(postgres.Terminate), string(postgres.Refuse))
	oneOf("branching.strategy", c.Branching.Strategy, "auto", string(postgres.StrategyReflink), string(postgres.StrategyFileCopy),
		string(postgres.StrategyWALLog), string(postgres.StrategyCopy))
	oneOf("pool.mode", c.Pool.Mode, string(postgres.PoolAuto), string(postgres.PoolSession), string(postgres.PoolTransaction))
	if err := c.checkDataPlane(); err != nil {
		errs = append(errs, err)
	}
	for name, n := range map[string]int{
		"branching.max-branches": c.Branching.MaxBranches, "branching.max-branches-per-user": c.Branching.MaxPerUser,
		"branching.workers": c.Branching.Workers, "branching.copy-jobs": c.Branching.CopyJobs,
		"pool.main": int(c.Pool.Main), "pool.branch": int(c.Pool.Branch), "pool.total": c.Pool.Total,
	} {
		if n < 1 {
			bad("%s: must be at least 1", name)
		}
	}
	for name, n := range map[string]int64{
		"api.max-record": c.API.MaxRecord, "api.max-held": c.API.MaxHeld, "api.max-columns": int64(c.API.MaxColumns), "api.memory": c.API.Memory,
		"http.min-rate": c.HTTP.MinRate, "pool.wait": int64(c.Pool.Wait),
	} {
		if n < 0 {
			bad("%s: must not be negative", name)
		}
	}
	if c.HTTP.MinRate > 0 && c.HTTP.Grace < time.Second {
		bad("http.grace: must be at least 1s")
	}
	if c.API.MaxRecord > 1<<30-1 {
		bad("api.max-record: PostgreSQL's limit is 1 GiB")
	}
	// Each operation holds a session for its lock, one for its source and one for its statements.
	if need := int32(3*(c.Branching.Workers+4) + 5); c.Pool.Control < need {
		bad("pool.control: must be at least %d with %d branching.workers", need, c.Branching.Workers)
	}
	if c.Branching.SeedPath != "" {
		if info, err := os.Stat(c.Branching.SeedPath); err != nil || !info.IsDir() {
			bad("branching.seed-path: %q is not a directory", c.Branching.SeedPath)
		}
	}
	for _, err := range []error{c.Auth.check(), c.Mail.check(), c.MCP.check(c.PublicBaseURL), c.Events.check()} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	sort.Slice(errs, func(i, j int) bool { return errs[i].Error() < errs[j].Error() })
	return errors.Join(errs...)
}

// BaseURL is the URL under which clients reach the server, without a slash at the end.
func (c *Config) BaseURL() string {
	if c.PublicBaseURL != "" {
		return strings.TrimSuffix(c.PublicBaseURL, "/")
	}
	return "http://" + c.Listen
}

// allowedHosts are the names that requests may be for; nil for any. A server that others reach has names that it need not
// know.
func (c *Config) allowedHosts() []string {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil
	}
	if addr, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !addr.Unmap().IsLoopback()) {
		return nil
	}
	hosts := make([]string, 0, len(c.AllowedHosts)+1)
	for _, name := range c.AllowedHosts {
		hosts = append(hosts, httpapi.HostOf(name))
	}
	if u, err := url.Parse(c.BaseURL()); err == nil {
		hosts = append(hosts, httpapi.HostOf(u.Host))
	}
	return hosts
}

// durationValue is a duration that is written as package duration does.
type durationValue struct{ d *time.Duration }

func durationVar(d *time.Duration, initial string) pflag.Value {
	v := durationValue{d}
	if err := v.Set(initial); err != nil {
		panic(err) // a constant of Settings
	}
	return v
}

func (v durationValue) Set(s string) error {
	d, err := duration.Parse(s)
	if err == nil {
		*v.d = d
	}
	return err
}

func (v durationValue) String() string { return duration.Format(*v.d) }
func (durationValue) Type() string     { return "duration" }
