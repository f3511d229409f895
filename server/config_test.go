package server_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/boughdb/bough/server"
)

func load(t *testing.T, args []string, file string, env map[string]string) (server.Config, map[string]server.Origin, error) {
	t.Helper()
	var cfg server.Config
	settings := cfg.Settings()
	if err := settings.Parse(args); err != nil {
		t.Fatal(err)
	}
	name := ""
	if file != "" {
		name = filepath.Join(t.TempDir(), "bough.yaml")
		if err := os.WriteFile(name, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	origins, err := cfg.Load(settings, name, func(k string) (string, bool) { v, ok := env[k]; return v, ok })
	return cfg, origins, err
}

func TestSettingsComeFromFlagThenEnvironmentThenFile(t *testing.T) {
	t.Parallel()
	file := "branching:\n  max_branches: 1\n  max_expiry: 2w\n  open_to_users: true\ntrusted_proxies: [10.0.0.0/8, 192.168.0.0/16]\nlisten: 127.0.0.1:1\n"
	env := map[string]string{"BOUGH_BRANCHING_MAX_BRANCHES": "2", "BOUGH_LISTEN": "127.0.0.1:2"}
	cfg, origins, err := load(t, []string{"--branching.max-branches", "3"}, file, env)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{cfg.Branching.MaxBranches, cfg.Listen, cfg.Branching.MaxExpiry, cfg.Branching.OpenToUsers, len(cfg.TrustedProxies), cfg.LogLevel}
	want := []any{3, "127.0.0.1:2", 14 * 24 * time.Hour, true, 2, "info"}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("value %d: %v, want %v", i, got[i], want[i])
		}
	}
	for setting, origin := range map[string]server.Origin{
		"branching.max-branches": server.FromFlag, "listen": server.FromEnv, "branching.max-expiry": server.FromFile, "log.level": server.FromDefault,
	} {
		if origins[setting] != origin {
			t.Errorf("%s comes from %s, want %s", setting, origins[setting], origin)
		}
	}
}

func TestWrongSettingsAreNamed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file string
		env  map[string]string
		want string
	}{
		"unknown key":       {file: "branching:\n  max_branch: 1\n", want: `unknown setting "branching.max_branch"`},
		"not a number":      {env: map[string]string{"BOUGH_BRANCHING_MAX_BRANCHES": "many"}, want: "BOUGH_BRANCHING_MAX_BRANCHES"},
		"not a duration":    {file: "branching: {max_expiry: 7 days}\n", want: "branching.max_expiry"},
		"not YAML":          {file: "a: [", want: "bough.yaml"},
		"wrong level":       {env: map[string]string{"BOUGH_LOG_LEVEL": "loud"}, want: "log.level"},
		"wrong policy":      {env: map[string]string{"BOUGH_BRANCHING_SESSIONS": "kill"}, want: "branching.sessions"},
		"wrong URL":         {env: map[string]string{"BOUGH_PUBLIC_BASE_URL": "bough.example"}, want: "public-base-url"},
		"weak key":          {env: map[string]string{"BOUGH_SERVICE_KEY": "secret"}, want: "service-key"},
		"zero":              {env: map[string]string{"BOUGH_POOL_BRANCH": "0"}, want: "pool.branch"},
		"less than zero":    {env: map[string]string{"BOUGH_POOL_MAIN": "-1"}, want: "pool.main"},
		"one role for two":  {env: map[string]string{"BOUGH_ROLES_ANON": "x", "BOUGH_ROLES_SERVICE": "x"}, want: "named twice"},
		"not a role":        {env: map[string]string{"BOUGH_ROLES_AUTHENTICATED": "pg_monitor"}, want: "roles.authenticated"},
		"hidden schema":     {file: "api: {schemas: [public, auth]}\n", want: "api.schemas"},
		"no schema":         {file: "api: {schemas: []}\n", want: "api.schemas"},
		"control alone":     {env: map[string]string{"BOUGH_CONTROL_DATABASE_URL": "postgres://x/y"}, want: "needs database-url"},
		"short access":      {file: "auth: {access_token_lifetime: 1s}\n", want: "auth.access-token-lifetime"},
		"short session":     {file: "auth: {refresh_token_lifetime: 1m}\n", want: "auth.refresh-token-lifetime"},
		"wide redirect":     {file: "auth: {redirect_urls: ['https://*']}\n", want: "auth.redirect-urls"},
		"short password":    {env: map[string]string{"BOUGH_AUTH_PASSWORD_MIN_LENGTH": "4"}, want: "auth.password-min-length"},
		"cheap hash":        {env: map[string]string{"BOUGH_AUTH_ARGON2_MEMORY": "64"}, want: "auth.argon2"},
		"short encryption":  {env: map[string]string{"BOUGH_AUTH_ENCRYPTION_KEY": "secret"}, want: "auth.encryption-key"},
		"half an issuer":    {env: map[string]string{"BOUGH_AUTH_EXTERNAL_ISSUER": "https://x"}, want: "set together"},
		"open JWKS":         {file: "auth: {external_issuer: x, external_audience: y, external_jwks_url: 'http://id.example/jwks'}\n", want: "https URL"},
		"sender":            {file: "mail: {from: nobody}\n", want: "mail.from"},
		"no retry":          {env: map[string]string{"BOUGH_EVENTS_RETRIES": "5s,soon"}, want: "events.retries"},
		"many retries":      {env: map[string]string{"BOUGH_EVENTS_RETRIES": strings.Repeat("1s,", 20) + "1s"}, want: "events.retries"},
		"short retention":   {file: "events: {retention: 5m}\n", want: "events.retention"},
		"mail TLS":          {file: "mail: {smtp_tls: perhaps}\n", want: "mail.smtp-tls"},
		"no seed directory": {env: map[string]string{"BOUGH_BRANCHING_SEED_PATH": "/nowhere"}, want: "branching.seed-path"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := load(t, nil, tc.file, tc.env)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v does not name %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
}

func TestEverySettingHasANameInAllThreePlaces(t *testing.T) {
	t.Parallel()
	var cfg server.Config
	cfg.Settings().VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" || strings.Contains(f.Name, "_") || strings.ToUpper(server.EnvName(f.Name)) != server.EnvName(f.Name) {
			t.Errorf("setting %q (%s, %s)", f.Name, server.Key(f.Name), server.EnvName(f.Name))
		}
	})
}

func TestConnectionsToMainFollowTheMachine(t *testing.T) {
	t.Parallel()
	cfg, origins, err := load(t, nil, "", nil)
	if want := int32(min(max(4*runtime.NumCPU(), 10), 60)); err != nil || cfg.Pool.Main != want || origins["pool.main"] != server.FromDefault {
		t.Errorf("%d connections from %s, want %d (%v)", cfg.Pool.Main, origins["pool.main"], want, err)
	}
	if cfg, _, err = load(t, []string{"--pool.main", "3"}, "", nil); err != nil || cfg.Pool.Main != 3 {
		t.Errorf("%d connections, want the 3 that were set (%v)", cfg.Pool.Main, err)
	}
}
