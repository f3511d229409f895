package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boughdb/bough/server/servertest"
)

// cli runs client commands against one server, as a stranger would in a shell.
type cli struct {
	program, dir, url string
}

// run returns what a command wrote and its exit code.
func (c cli) run(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(c.program, args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "BOUGH_BASE_URL="+c.url, "BOUGH_SERVICE_KEY="+servertest.ServiceKey, "BOUGH_CONFIG="+filepath.Join(c.dir, "cli.yaml"), "COLUMNS=80")
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func (c cli) ok(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, code := c.run(t, "", args...)
	if code != 0 {
		t.Fatalf("bough %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

func (c cli) fails(t *testing.T, code int, mentions string, args ...string) {
	t.Helper()
	out, errs, got := c.run(t, "", args...)
	if got != code || !strings.Contains(errs, mentions) {
		t.Errorf("bough %s: exit code %d, want %d with %q\n%s%s", strings.Join(args, " "), got, code, mentions, out, errs)
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	s := servertest.Start(t)
	c := cli{path, t.TempDir(), s.URL}

	c.ok(t, "sql", "-c", "create table t (id int); insert into t values (1), (2)")
	c.ok(t, "branch", "create", "Größe 🌳", "--clone-data", "full_clone", "--expires-in", "7d")
	c.ok(t, "sql", "--branch", "Größe 🌳", "-c", "insert into t values (3)") // by name
	if got := c.ok(t, "sql", "-o", "csv", "--branch", "Größe 🌳", "-c", "select count(*) from t"); got != "count\n3\n" {
		t.Errorf("rows in the branch: %q", got)
	}
	if got := c.ok(t, "sql", "-o", "csv", "-c", "select count(*) from t"); got != "count\n2\n" {
		t.Errorf("rows in main: %q", got)
	}
	for _, line := range strings.Split(c.ok(t, "branch", "list"), "\n") {
		if len([]rune(line)) > 80 {
			t.Errorf("a line of more than 80 columns: %q", line)
		}
	}
	var list struct {
		Branches []struct{ Slug, Status string }
		Total    int
	}
	if err := json.Unmarshal([]byte(c.ok(t, "branch", "list", "-o", "json", "--type", "preview")), &list); err != nil || list.Total != 1 {
		t.Fatalf("list as JSON: %v %+v", err, list)
	}
	slug := list.Branches[0].Slug
	if got := c.ok(t, "branch", "get", slug, "-o", "yaml"); !strings.Contains(got, "slug: "+slug) {
		t.Errorf("get as YAML: %s", got)
	}
	if got := c.ok(t, "branch", "status", slug); !strings.Contains(got, "ready") {
		t.Errorf("status: %s", got)
	}
	c.ok(t, "branch", "create", "child", "--from", slug)
	c.ok(t, "branch", "create", "child", "--if-not-exists")
	c.fails(t, 1, "branch_exists", "branch", "create", "child")
	c.fails(t, 1, "has_children", "branch", "delete", slug, "--force")
	c.fails(t, 2, "--force", "branch", "reset", slug)
	c.fails(t, 2, "--force", "branch", "delete", slug)
	c.fails(t, 2, "preview", "branch", "create", "x", "--type", "nonsense")
	c.fails(t, 2, "", "branch", "create")
	c.fails(t, 1, "expires_in", "branch", "create", "x", "--expires-in", "7 days")
	c.fails(t, 1, "branch_not_found", "branch", "get", "nothing")
	c.fails(t, 1, "cannot_delete_main", "branch", "delete", "main", "--force")
	c.fails(t, 1, "42P01", "sql", "-c", "select * from nowhere")
	c.ok(t, "branch", "reset", slug, "--force")
	if got := c.ok(t, "sql", "-o", "csv", "--branch", slug, "-c", "select count(*) from t"); got != "count\n2\n" {
		t.Errorf("rows after reset: %q", got)
	}
	if got := c.ok(t, "branch", "activity", slug, "--limit", "1"); !strings.Contains(got, "reset") {
		t.Errorf("activity: %s", got)
	}
	if got := c.ok(t, "branch", "stats"); !strings.Contains(got, slug) || !strings.Contains(got, "main") {
		t.Errorf("stats: %s", got)
	}
	if got := c.ok(t, "__complete", "branch", "get", ""); !strings.Contains(got, slug) {
		t.Errorf("completion does not know the branch: %s", got)
	}
	c.ok(t, "branch", "delete", slug, "--force", "--children", "cascade")

	key := strings.TrimSpace(c.ok(t, "keys", "create", "--type", "service", "--name", "ci"))
	if !strings.HasPrefix(key, "bough_sk_") {
		t.Errorf("keys create printed %q", key)
	}
	if out, errs, code := c.run(t, key+"\n", "login", "--service-key", "-", "--profile", "ci"); code != 0 {
		t.Errorf("login: %d\n%s%s", code, out, errs)
	}
	if got := c.ok(t, "keys", "list"); !strings.Contains(got, "ci") || strings.Contains(got, key) {
		t.Errorf("keys list: %s", got)
	}
	if got := c.ok(t, "doctor", "--database-url", s.Main); !strings.Contains(got, "PostgreSQL") {
		t.Errorf("doctor: %s", got)
	}
	if got := c.ok(t, "config", "--database-url", "postgres://u:hush@h/d"); strings.Contains(got, "hush") || !strings.Contains(got, "# flag") {
		t.Errorf("config: %s", got)
	}
	if got := c.ok(t, "migrate", "--database-url", s.Main, "--control-database-url", s.Control); !strings.Contains(got, "schema version") {
		t.Errorf("migrate: %s", got)
	}
	c.fails(t, 1, "secrets", "serve", "--database-url", s.Main, "--control-database-url", s.Main)
	c.fails(t, 1, "unknown setting", "serve", "--config", writeFile(t, "nonsense: 1\n"))
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "bough.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// The commands for data: which tables there are, and any request.
func TestCommandLineForData(t *testing.T) {
	t.Parallel()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	s := servertest.Start(t)
	c := cli{path, t.TempDir(), s.URL}
	c.ok(t, "sql", "-c", "create table note (id int primary key, text text); comment on table note is 'things to remember'")
	if got := c.ok(t, "tables"); !strings.Contains(got, "/api/v1/tables/notes") || !strings.Contains(got, "read, write") {
		t.Errorf("tables:\n%s", got)
	}
	if got := c.ok(t, "tables", "-o", "yaml"); !strings.Contains(got, "comment: things to remember") {
		t.Errorf("tables as YAML:\n%s", got)
	}
	body := writeFile(t, `[{"id": 1, "text": "one"}, {"id": 2, "text": "two"}]`)
	for _, step := range []struct {
		want string
		args []string
	}{
		{`[{"id":1,"text":"one"},{"id":2,"text":"two"}]`, []string{"post", "tables/notes", "-d", "@" + body}},
		{`[{"text":"two"}]`, []string{"get", "/api/v1/tables/notes?select=text&id.eq=2"}},
		{`{"id":2,"text":"too"}`, []string{"patch", "tables/notes/2", "-d", `{"text": "too"}`}},
		{``, []string{"delete", "tables/notes/2", "-H", "Prefer: return=minimal"}},
		{`[{"id":1,"text":"one"}]`, []string{"GET", "tables/notes", "--branch", "main"}},
	} {
		if got := c.ok(t, append([]string{"api"}, step.args...)...); got != step.want {
			t.Errorf("bough api %s: %q, want %q", strings.Join(step.args, " "), got, step.want)
		}
	}
	if got := c.ok(t, "api", "get", "tables/notes/1", "-i"); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") && !strings.HasPrefix(got, "HTTP/1.1 200 OK\n") || !strings.Contains(got, "Etag: ") {
		t.Errorf("with headers:\n%s", got)
	}
	c.fails(t, 1, "PGRST205", "api", "get", "tables/nowhere")
	c.fails(t, 1, "branch_not_found", "api", "get", "tables/notes", "--branch", "nowhere")
	c.fails(t, 2, "no method", "api", "fetch", "tables/notes")
	c.fails(t, 2, "Name: value", "api", "get", "tables/notes", "-H", "nonsense")
}
