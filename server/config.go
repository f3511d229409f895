package server

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
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
	"github.com/boughdb/bough/server/duration"
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
	DatabaseURL        string
	ControlDatabaseURL string
	ServiceKey         string
	LogLevel           string
	LogFormat          string
	TrustedProxies     []string
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
		LeaveOut         bool
	}
	Pool struct {
		Main, Branch, Control int32
		Total                 int
		IdleTimeout           time.Duration
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
	f.StringVar(&c.DatabaseURL, "database-url", "", "main database of an external PostgreSQL 15 or newer, instead of the embedded one")
	f.StringVar(&c.ControlDatabaseURL, "control-database-url", "", `Bough's own database (default: "bough" on the same server as main)`)
	f.StringVar(&c.ServiceKey, "service-key", "", "service key to accept, instead of making a first one; best set by BOUGH_SERVICE_KEY")
	f.StringVar(&c.LogLevel, "log.level", "info", "debug, info, warn or error")
	f.StringVar(&c.LogFormat, "log.format", "text", "text or json")
	f.StringSliceVar(&c.TrustedProxies, "trusted-proxies", nil, "networks whose X-Forwarded-For is believed")
	f.StringSliceVar(&c.CORS.Origins, "cors.origins", nil, "origins whose pages may use the server from a browser, such as https://app.example; * is any")
	f.Var(durationVar(&c.ShutdownTimeout, "30s"), "shutdown-timeout", "how long requests may go on when the server stops")
	f.StringVar(&c.Roles.Anon, "roles.anon", "anon", "database role of requests without credentials")
	f.StringVar(&c.Roles.Authenticated, "roles.authenticated", "authenticated", "database role of users' requests")
	f.StringVar(&c.Roles.Service, "roles.service", "service_role", "database role of requests with a service key")
	f.StringSliceVar(&c.API.Schemas, "api.schemas", []string{"public"}, "schemas whose tables and functions are served; the first one is the default")
	f.BoolVar(&c.API.ManageGrants, "api.manage-grants", true, "let all three roles into the exposed schemas, and the service role at everything in them")
	f.Int64Var(&c.API.MaxRows, "api.max-rows", 0, "most records in one answer; 0 for no limit")
	f.Int64Var(&c.API.MaxBody, "api.max-body", 16<<20, "most bytes in the body of a data request")
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
	f.Int32Var(&c.Pool.Main, "pool.main", 0, "most connections to main (default 4 for each core of this machine, 10 to 60)")
	f.Int32Var(&c.Pool.Branch, "pool.branch", 5, "most connections to one branch")
	f.IntVar(&c.Pool.Total, "pool.total", 120, "most connections to main and all branches together")
	f.Int32Var(&c.Pool.Control, "pool.control", 30, "most connections to the control database")
	f.Var(durationVar(&c.Pool.IdleTimeout, "5m"), "pool.idle-timeout", "a branch's pool is closed when nobody used it for so long")
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
var Secrets = []string{"service-key", "database-url", "control-database-url", "auth.encryption-key", "mail.smtp-password"}

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
	if c.ServiceKey != "" {
		if err := auth.CheckServiceKey(c.ServiceKey); err != nil {
			bad("service-key: %w", err)
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
