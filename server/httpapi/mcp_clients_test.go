package httpapi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boughdb/bough/server/servertest"
)

// library is what published clients work on.
const library = `
create table books (id int primary key, title text not null);
insert into books values (1, 'Dracula'), (2, 'Middlemarch');
grant select, insert, update, delete on books to authenticated;
`

// published is a directory with packages of npm, installed as the lock file of testdata/mcp/name says, and a server for
// them to work with.
type published struct {
	dir string
	s   *servertest.Server
}

func install(t *testing.T, name string) published {
	t.Helper()
	npm := findNPM(t)
	p := published{t.TempDir(), servertest.Start(t, withMCP)}
	p.s.Exec(t, p.s.Main, library)
	if err := os.CopyFS(p.dir, os.DirFS(filepath.Join("testdata", "mcp", name))); err != nil {
		t.Fatal(err)
	}
	if out, err := p.command(t, npm, "ci", "--no-audit", "--no-fund", "--prefer-offline").CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	return p
}

// command is a command in the directory. Programs that keep something in the home directory find an empty one.
func (p published) command(t *testing.T, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.WaitDelay = p.dir, 5*time.Second
	cmd.Env = append(os.Environ(), "BOUGH_URL="+p.s.URL, "BOUGH_SERVICE_KEY="+servertest.ServiceKey)
	return cmd
}

// The clients that npm has for MCP do a real task: change a schema on a branch, compare, write, read, and clean up.
func TestMCPPublishedClients(t *testing.T) {
	t.Parallel()
	p := install(t, "clients")
	signUp(t, p.s, root)
	makeAdmin(t, p.s, root)
	every := append(slices.Clone(theNine), "read:branches", "write:branches", "write:schema")
	token := connected(t, p.s, registerApp(t, p.s, "acceptance"), root, every...).Access
	cmd := p.command(t, "node", "--test", "--test-timeout=60000", "clients.test.mjs")
	cmd.Env = append(cmd.Env, "BOUGH_TOKEN="+token, "MCP_REMOTE_CONFIG_DIR="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	p.withOAuth(t, every)
	diff(t, "branches that are left", "main", servertest.Value[string](t, p.s.Control, "select string_agg(slug, ' ') from branches where deleted_at is null"))
}

var authorizeAddress = regexp.MustCompile(`https?://\S+/oauth/authorize\?\S+`)

// withOAuth has mcp-remote find out by itself where to register and whom to ask, and answers for the person whom it asks.
func (p published) withOAuth(t *testing.T, scopes []string) {
	t.Helper()
	cmd := p.command(t, "node", "oauth.mjs")
	cmd.Env = append(cmd.Env, "BOUGH_SCOPE="+strings.Join(scopes, " "), "MCP_REMOTE_CONFIG_DIR="+t.TempDir(), "BROWSER=true")
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	asked := false
	lines := bufio.NewScanner(io.TeeReader(errs, &said))
	for lines.Scan() {
		address := authorizeAddress.FindString(lines.Text())
		if address == "" || asked {
			continue
		}
		asked = true
		v := newVisitor(t, p.s)
		page := v.press(v.signIn(v.open(address), root, pass), "allow", nil)
		back, err := url.Parse(page.location)
		if err != nil || back.Query().Get("code") == "" {
			t.Fatalf("allowing was answered %d, location %q", page.status, page.location)
		}
		resp, body := sendBy(t, http.DefaultClient, http.MethodGet, page.location, "")
		if resp.StatusCode != http.StatusOK {
			t.Errorf("mcp-remote took the code with %d %s", resp.StatusCode, body)
		}
	}
	if err := cmd.Wait(); err != nil || !asked {
		t.Errorf("mcp-remote with OAuth: %v, asked: %t\n%s", err, asked, said.String())
	}
}

// The inspector finds nothing in the list that some model's provider would not take, whatever revision it speaks.
func TestMCPInspector(t *testing.T) {
	t.Parallel()
	p := install(t, "inspector")
	node := filepath.Join(p.dir, "node_modules", "node", "bin", "node")
	for _, era := range []string{"legacy", "modern"} {
		inspect := func(args ...string) (out, errs string, ok bool) {
			t.Helper()
			cmd := p.command(t, node, append([]string{
				filepath.Join("node_modules", ".bin", "mcp-inspector"), "--cli", "--server-url", p.s.URL + "/mcp", "--transport", "http",
				"--header", "X-Service-Key: " + servertest.ServiceKey, "--protocol-era", era, "--format", "json",
			}, args...)...)
			cmd.Env = append(cmd.Env, "HOME="+p.dir)
			var result, said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &result, &said
			err := cmd.Run()
			if err != nil {
				t.Errorf("%s: %v: %v\n%s", era, args, err, said.String())
			}
			return result.String(), said.String(), err == nil
		}
		if _, found, ok := inspect("--method", "tools/list", "--strict"); ok && strings.TrimSpace(found) != "" {
			t.Errorf("%s: the inspector found something:\n%s", era, found)
		}
		out, _, _ := inspect("--method", "tools/call", "--tool-name", "query_table", "--tool-args-json", `{"table": "books", "limit": 1}`)
		var answer struct {
			Result struct {
				Structured map[string]any `json:"structuredContent"`
			} `json:"result"`
		}
		if err := json.Unmarshal([]byte(out), &answer); err != nil || answer.Result.Structured["next_offset"] != 1.0 {
			t.Errorf("%s: %v in %s", era, err, out)
		}
	}
}
