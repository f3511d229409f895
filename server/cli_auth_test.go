package server_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

// user runs client commands as somebody without a key in the environment.
func (c cli) user(t *testing.T, stdin string, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command(c.program, args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "BOUGH_BASE_URL="+c.url, "BOUGH_CONFIG="+filepath.Join(c.dir, "user.yaml"), "COLUMNS=80")
	cmd.Stdin = strings.NewReader(stdin)
	data, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(data), cmd.ProcessState.ExitCode()
}

func TestCommandLineOfUsers(t *testing.T) {
	t.Parallel()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	s := servertest.Start(t, func(cfg *server.Config) { cfg.Auth.RateLimit = false })
	c := cli{path, t.TempDir(), s.URL}
	const password = "correct horse battery"
	if out, errs, code := c.run(t, password+"\n", "users", "create", "ada@example.com", "--password"); code != 0 {
		t.Fatalf("users create: %d\n%s%s", code, out, errs)
	}
	c.fails(t, 1, "email_exists", "users", "create", "ADA@example.com")
	if out, code := c.user(t, "wrong horse battery\n", "login", "--email", "ada@example.com"); code != 1 || !strings.Contains(out, "is wrong") {
		t.Errorf("login with a wrong password: %d\n%s", code, out)
	}
	if out, code := c.user(t, password+"\n", "login", "--email", "ada@example.com"); code != 0 || strings.Contains(out, password) {
		t.Fatalf("login: %d\n%s", code, out)
	}
	info, err := os.Stat(filepath.Join(c.dir, "user.yaml"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the profile: %v, %v", info.Mode(), err)
	}
	if out, code := c.user(t, "", "branch", "list"); code != 0 {
		t.Errorf("branch list: %d\n%s", code, out)
	}
	if out, code := c.user(t, "", "users", "list"); code != 1 || !strings.Contains(out, "access_denied") {
		t.Errorf("users list by a user: %d\n%s", code, out)
	}
	// The role ends the session; the next one has it.
	c.ok(t, "users", "set-role", "ada@example.com", "admin")
	if out, code := c.user(t, "", "branch", "list"); code != 1 || !strings.Contains(out, "session has ended") {
		t.Errorf("branch list in the old session: %d\n%s", code, out)
	}
	// Without a terminal the link comes from standard input, after it was asked for: one command asks, its link goes to
	// no other.
	if out, code := c.user(t, "\n", "login", "--email", "ada@example.com", "--magic-link"); code != 1 || !strings.Contains(out, "no link was given") {
		t.Errorf("login without a link: %d\n%s", code, out)
	}
	_, token := s.NextMail(t, 0)
	if out, code := c.user(t, token+"\n", "login", "--email", "ada@example.com", "--magic-link"); code != 1 || !strings.Contains(out, "code_verifier") {
		t.Errorf("login with another command's link: %d\n%s", code, out)
	}
	// Neither does a code, which is tried with the address.
	if out, code := c.user(t, "12345x\n", "login", "--email", "ada@example.com", "--magic-link"); code != 1 || !strings.Contains(out, "not valid any more") {
		t.Errorf("login with a code that is none: %d\n%s", code, out)
	}
	if out, code := c.user(t, password+"\n", "login", "--email", "ada@example.com"); code != 0 {
		t.Fatalf("login: %d\n%s", code, out)
	}
	if out, code := c.user(t, "", "users", "list"); code != 0 || !strings.Contains(out, "ada@example.com") {
		t.Errorf("users list by an administrator: %d\n%s", code, out)
	}
	if out, code := c.user(t, "", "keys", "rotate", "--immediately"); code != 0 {
		t.Errorf("keys rotate: %d\n%s", code, out)
	}
	// Its own token went with the old key; its session did not.
	if out, code := c.user(t, "", "users", "list"); code != 0 {
		t.Errorf("after the rotation: %d\n%s", code, out)
	}
	if out, code := c.user(t, "", "logout"); code != 0 {
		t.Errorf("logout: %d\n%s", code, out)
	}
	if n := servertest.Value[int64](t, s.Control, "select count(*) from sessions where ended_at is null"); n != 0 {
		t.Errorf("%d sessions go on after logout", n)
	}
	c.ok(t, "users", "delete", "ada@example.com", "--force")
	if out, code := c.user(t, password+"\n", "login", "--email", "ada@example.com"); code != 1 {
		t.Errorf("login of a deleted user: %d\n%s", code, out)
	}
}
