package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func writeProfiles(t *testing.T, path string, p profiles) {
	t.Helper()
	if err := p.save(path); err != nil {
		t.Fatal(err)
	}
}

func TestTarget(t *testing.T) {
	t.Parallel()
	known := profiles{Current: "work", Profiles: map[string]profile{
		"work": {BaseURL: "https://Work.example.com:443/", ServiceKey: "work-key"},
		"home": {BaseURL: "http://home.example.com", ClientKey: "home-key"},
		"bare": {BaseURL: "https://bare.example.com"},
	}}
	workKey := credential{serviceKey, "work-key"}
	for _, test := range []struct {
		name             string
		profile, baseURL string
		env              map[string]string
		none             bool // no configuration file
		want             target
	}{
		{name: "nothing", none: true, want: target{baseURL: defaultBaseURL}},
		{name: "current profile", want: target{"https://work.example.com", workKey}},
		{name: "named profile", profile: "home", want: target{"http://home.example.com", credential{clientKey, "home-key"}}},
		{name: "profile without a key", profile: "bare", want: target{baseURL: "https://bare.example.com"}},
		{
			name: "environment", env: map[string]string{"BOUGH_BASE_URL": "http://env.example.com/", "BOUGH_TOKEN": "env-token"},
			want: target{"http://env.example.com", credential{token, "env-token"}},
		},
		{name: "key in the environment", env: map[string]string{"BOUGH_CLIENT_KEY": "env-key"}, want: target{"https://work.example.com", credential{clientKey, "env-key"}}},
		{
			name: "several keys in the environment", env: map[string]string{"BOUGH_CLIENT_KEY": "c", "BOUGH_SERVICE_KEY": "s", "BOUGH_TOKEN": "t"},
			want: target{"https://work.example.com", credential{serviceKey, "s"}},
		},
		{name: "another base URL in the environment", env: map[string]string{"BOUGH_BASE_URL": "https://evil.example.com"}, want: target{baseURL: "https://evil.example.com"}},
		{name: "another base URL as flag", baseURL: "https://evil.example.com", want: target{baseURL: "https://evil.example.com"}},
		{name: "another scheme", baseURL: "http://work.example.com", want: target{baseURL: "http://work.example.com"}},
		{name: "another port", baseURL: "https://work.example.com:8443", want: target{baseURL: "https://work.example.com:8443"}},
		{name: "another path", baseURL: "https://work.example.com/other", want: target{baseURL: "https://work.example.com/other"}},
		{name: "a longer host", baseURL: "https://work.example.com.evil.example", want: target{baseURL: "https://work.example.com.evil.example"}},
		{name: "another profile's base URL", baseURL: "http://home.example.com", want: target{baseURL: "http://home.example.com"}},
		{name: "another profile's base URL, named", profile: "home", baseURL: "https://work.example.com", want: target{baseURL: "https://work.example.com"}},
		{name: "the same base URL in another spelling", baseURL: "HTTPS://WORK.example.com:443//", want: target{"https://work.example.com", workKey}},
		{
			name: "flag over environment", baseURL: "https://work.example.com", env: map[string]string{"BOUGH_BASE_URL": "http://env.example.com"},
			want: target{"https://work.example.com", workKey},
		},
		{
			name: "named profile over environment", profile: "work",
			env:  map[string]string{"BOUGH_BASE_URL": "http://env.example.com", "BOUGH_SERVICE_KEY": "env-key"},
			want: target{"https://work.example.com", workKey},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "config.yaml")
			if !test.none {
				writeProfiles(t, path, known)
			}
			c := &cli{profile: test.profile, baseURL: test.baseURL, getenv: func(name string) string {
				if name == "BOUGH_CONFIG" {
					return path
				}
				return test.env[name]
			}}
			got, err := c.target()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(target{}, credential{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	w, other := setup(t), setup(t)
	w.server.replace = func(rw http.ResponseWriter, r *http.Request) bool {
		http.Redirect(rw, r, other.server.URL+r.URL.Path, http.StatusTemporaryRedirect)
		return true
	}
	if got := w.run(t, "branch", "list"); got.code != exitFailed {
		t.Errorf("exit code %d", got.code)
	}
	if got := other.server.requested(); len(got) > 0 {
		t.Errorf("the key was carried to %v", got)
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		args     string
		stdin    string
		terminal bool
		secret   string
		want     string // the kind that is kept; empty when refused
	}{
		{name: "value", args: "--service-key " + testServiceKey, want: "service_key"},
		{name: "standard input", args: "--service-key -", stdin: testServiceKey + "\n", want: "service_key"},
		{name: "terminal", terminal: true, secret: testServiceKey, want: "service_key"},
		{name: "terminal with dash", args: "--service-key -", terminal: true, secret: testServiceKey, want: "service_key"},
		{name: "wrong key", args: "--service-key wrong"},
		{name: "key of the other kind", args: "--client-key " + testServiceKey},
		{name: "empty", args: "--service-key -", stdin: "\n"},
		{name: "line break within", args: "--token -", stdin: "a b\n"},
		{name: "MCP token", args: "--token mcp_at_x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.env = map[string]string{"BOUGH_CONFIG": w.config}
			w.stdin, w.stdinIsTerminal = test.stdin, test.terminal
			w.readSecret = func() ([]byte, error) { return []byte(test.secret), nil }
			got := w.run(t, append([]string{"login", "--base-url", w.server.URL + "/", "--profile", "mine"}, strings.Fields(test.args)...)...)
			if strings.Contains(got.stdout+got.stderr, testServiceKey) {
				t.Errorf("the key is shown: %s%s", got.stdout, got.stderr)
			}
			p, err := readProfiles(w.config)
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" {
				if got.code != exitFailed || len(p.Profiles) > 0 {
					t.Errorf("exit code %d, profiles %v", got.code, p.Profiles)
				}
				return
			}
			want := &profiles{Current: "mine", Profiles: map[string]profile{"mine": {BaseURL: w.server.URL, ServiceKey: testServiceKey}}}
			if diff := cmp.Diff(want, p); got.code != exitOK || diff != "" {
				t.Errorf("exit code %d, stderr %s (-want +got):\n%s", got.code, got.stderr, diff)
			}
			w.ok(t, "branch", "list")
		})
	}
}

func TestLoginKeepsAKeyThatMayNotListBranches(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.env = map[string]string{"BOUGH_CONFIG": w.config, "BOUGH_BASE_URL": w.server.URL}
	w.server.replace = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("X-Client-Key") == "bough_ck_x" {
			fail(rw, http.StatusForbidden, "access_denied", "this needs the scope read:branches")
			return true
		}
		return false
	}
	w.ok(t, "login", "--client-key", "bough_ck_x")
	p, err := readProfiles(w.config)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.ReplaceAll(strings.TrimPrefix(w.server.URL, "http://"), ":", "-")
	if p.Current != name || p.Profiles[name].ClientKey != "bough_ck_x" {
		t.Errorf("profiles: %+v", p)
	}
}

func TestProfileCommands(t *testing.T) {
	t.Parallel()
	w := setup(t)
	writeProfiles(t, w.config, profiles{Current: "local", Profiles: map[string]profile{
		"local":   {BaseURL: defaultBaseURL, ServiceKey: "local-secret"},
		"staging": {BaseURL: "https://staging.example.com", Token: "staging-secret"},
	}})
	out := w.ok(t, "profile", "list") + w.ok(t, "profile", "list", "-o", "json")
	if strings.Contains(out, "secret") {
		t.Errorf("a secret is shown: %s", out)
	}
	golden(t, "output/profile_list", out)
	w.ok(t, "profile", "use", "staging")
	w.ok(t, "logout")
	w.ok(t, "profile", "delete", "local")
	p, err := readProfiles(w.config)
	if err != nil {
		t.Fatal(err)
	}
	want := &profiles{Current: "staging", Profiles: map[string]profile{"staging": {BaseURL: "https://staging.example.com"}}}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLocalProfile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		before  profiles
		current string
	}{
		{"first", profiles{}, "local"},
		{"again", profiles{Current: "local", Profiles: map[string]profile{"local": {BaseURL: "http://old.example.com", ServiceKey: "old"}}}, "local"},
		{"another is current", profiles{Current: "work", Profiles: map[string]profile{"work": {BaseURL: "https://work.example.com"}}}, "work"},
		{"the current one is gone", profiles{Current: "gone"}, "local"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "deep", "bough", "config.yaml")
			writeProfiles(t, path, test.before)
			if err := saveLocalProfileTo(path, "http://127.0.0.1:9090/", "key"); err != nil {
				t.Fatal(err)
			}
			got, err := readProfiles(path)
			if err != nil {
				t.Fatal(err)
			}
			want := profile{BaseURL: "http://127.0.0.1:9090", ServiceKey: "key"}
			if got.Current != test.current || got.Profiles["local"] != want {
				t.Errorf("profiles: %+v", got)
			}
			if work, ok := test.before.Profiles["work"]; ok && got.Profiles["work"] != work {
				t.Errorf("the other profile became %+v", got.Profiles["work"])
			}
		})
	}
}

func TestSaveLocalProfileUsesTheConfiguredFile(t *testing.T) {
	want := filepath.Join(t.TempDir(), "c.yaml")
	t.Setenv("BOUGH_CONFIG", want)
	got, err := saveLocalProfile(defaultBaseURL, "key")
	if err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := os.Stat(want); err != nil {
		t.Error(err)
	}
}

func TestProfilesAreForTheUserOnly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "bough")
	path := filepath.Join(dir, "config.yaml")
	writeProfiles(t, path, profiles{Current: "x"})
	for name, want := range map[string]os.FileMode{dir: 0o700, path: 0o600} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
	// A file that was readable for others does not stay so, and a link stays a link.
	link := filepath.Join(t.TempDir(), "link.yaml")
	if err := errors.Join(os.Chmod(path, 0o644), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	writeProfiles(t, link, profiles{Current: "y"})
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readProfiles(path); err != nil || got.Current != "y" || info.Mode().Perm() != 0o600 {
		t.Errorf("%+v, %v, mode %o", got, err, info.Mode())
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestBrokenProfilesAreNotOverwritten(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"current: [", "present: x\n", "profiles: 3\n"} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := saveLocalProfileTo(path, defaultBaseURL, "key"); err == nil {
			t.Errorf("%q was accepted", content)
		}
		if got, _ := os.ReadFile(path); string(got) != content {
			t.Errorf("%q became %q", content, got)
		}
	}
}
