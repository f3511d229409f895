package server_test

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/servertest"
)

// installation is two databases that server processes come and go on.
type installation struct {
	s    *servertest.Server
	args []string
}

func newInstallation(t *testing.T) installation {
	t.Helper()
	s := servertest.Databases(t)
	s.Exec(t, s.Main, "create table t (id int primary key, v text); insert into t select g, 'main' from generate_series(1, 100) g")
	return installation{s, []string{"--database-url", s.Main, "--control-database-url", s.Control, "--data-dir", t.TempDir(), "--pool.total", "10"}}
}

// rows is what identifies the state of a database: how many rows, and how many of them a branch wrote.
func (i installation) rows(t *testing.T, url string) string {
	t.Helper()
	return servertest.Value[string](t, url, "select count(*) || '/' || count(*) filter (where v = 'branch') from t")
}

func connection(t *testing.T, c *client.ClientWithResponses, ref string) string {
	t.Helper()
	return ok[*client.GetBranchConnectionResponse](t, 200)(c.GetBranchConnectionWithResponse(t.Context(), ref)).JSON200.URL
}

// Killed at any step, an operation is finished by the next process, and nothing is left behind.
func TestKilledOperationsAreFinishedByTheNextProcess(t *testing.T) {
	t.Parallel()
	for _, point := range []string{
		"creating:cloning", "creating:cloned", "creating:completed", "creating:swapped", "creating:finished",
		"resetting:cloning", "resetting:cloned", "resetting:completed", "resetting:swapped", "resetting:finished",
		"deleting:dropping", "deleting:dropped",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			operation, _, _ := strings.Cut(point, ":")
			i := newInstallation(t)
			var branch *client.CreatedBranch
			if operation != "creating" {
				p := start(t, i.args, nil)
				branch = createReady(t, p.client(t), "demo")
				i.s.Exec(t, connection(t, p.client(t), "demo"), "insert into t values (1000, 'branch')")
				p.stop(t)
			}
			faulty := start(t, i.args, []string{"BOUGH_FAULT_POINT=" + point})
			c := faulty.client(t)
			switch operation {
			case "creating":
				mode := client.DataCloneModeFullClone
				branch = ok[*client.CreateBranchResponse](t, 201)(c.CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{},
					client.CreateBranchRequest{Name: "demo", DataCloneMode: &mode})).JSON201
			case "resetting":
				go func() { _, _ = c.ResetBranchWithResponse(t.Context(), "demo") }()
			case "deleting":
				go func() { _, _ = c.DeleteBranchWithResponse(t.Context(), "demo", nil) }()
			}
			faulty.waitDead(t)
			i.s.Exec(t, i.s.Main, "insert into t values (2000, 'later')")

			p := start(t, i.args, nil)
			c = p.client(t)
			eventually(t, "the end of the operation", func() bool {
				got, err := c.GetBranchWithResponse(t.Context(), branch.ID.String())
				if err != nil {
					t.Fatal(err)
				}
				if operation == "deleting" {
					return got.StatusCode() == 404
				}
				return got.JSON200 != nil && got.JSON200.Status == client.BranchStatusReady
			})
			if operation == "deleting" {
				eventually(t, "the end of its database", func() bool { return databaseNames(t, i.s.Main, branch.DatabaseName) == "" })
			} else {
				state := i.rows(t, connection(t, c, "demo"))
				// Made or reset before main's last row or after it, but never a mixture with the branch's own row.
				if state != "100/0" && state != "101/0" {
					t.Errorf("rows of the branch: %s", state)
				}
				eventually(t, "no database but the branch's", func() bool { return databaseNames(t, i.s.Main, branch.DatabaseName) == branch.DatabaseName })
				entries := ok[*client.ListBranchActivityResponse](t, 200)(c.ListBranchActivityWithResponse(t.Context(), "demo", nil)).JSON200.Activity
				for _, e := range entries {
					if e.Status != client.ActivityEntryStatusSuccess {
						t.Errorf("activity %s: %v", e.Action, e.Details)
					}
				}
				ok[*client.DeleteBranchResponse](t, 204)(c.DeleteBranchWithResponse(t.Context(), "demo", nil))
			}
			if d := cmp.Diff("101/0", i.rows(t, i.s.Main)); d != "" {
				t.Errorf("rows of main:\n%s", d)
			}
			createReady(t, c, "demo") // the name is free
		})
	}
}

// A creation that is deleted while it is copied, one whose process stops in order, and one whose process is killed in
// the middle of the copying all come to a good end.
func TestInterruptedCopies(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	i.s.Exec(t, i.s.Main, "create table big as select g as id, repeat('x', 500) as v from generate_series(1, 200000) g")
	args := append(i.args, "--branching.strategy", "copy")
	p := start(t, args, nil)
	mode := client.DataCloneModeFullClone
	begin := func(name string) *client.CreatedBranch {
		t.Helper()
		b := ok[*client.CreateBranchResponse](t, 201)(p.client(t).CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{},
			client.CreateBranchRequest{Name: name, DataCloneMode: &mode})).JSON201
		eventually(t, "the copying", func() bool { return databaseNames(t, i.s.Main, b.DatabaseName) != "" })
		return b
	}
	gone := begin("gone")
	ok[*client.DeleteBranchResponse](t, 204)(p.client(t).DeleteBranchWithResponse(t.Context(), "gone", nil))
	eventually(t, "the removal", func() bool { return databaseNames(t, i.s.Main, gone.DatabaseName) == "" })

	killed := begin("killed")
	p.kill()
	p = start(t, args, nil)
	stopped := begin("stopped")
	if code := p.stop(t); code != 0 {
		t.Errorf("exit code %d of an orderly stop:\n%s", code, p.log)
	}
	p = start(t, args, nil)
	for _, b := range []*client.CreatedBranch{killed, stopped} {
		eventually(t, "branch "+b.Slug, func() bool {
			got := ok[*client.GetBranchResponse](t, 200)(p.client(t).GetBranchWithResponse(t.Context(), b.Slug)).JSON200
			if got.Status == client.BranchStatusError {
				t.Fatalf("%s: %s", b.Slug, *got.ErrorMessage)
			}
			return got.Status == client.BranchStatusReady
		})
		if n := servertest.Value[int64](t, connection(t, p.client(t), b.Slug), "select count(*) from big"); n != 200000 {
			t.Errorf("%s has %d rows", b.Slug, n)
		}
		if names := databaseNames(t, i.s.Main, b.DatabaseName); names != b.DatabaseName {
			t.Errorf("databases: %s", names)
		}
	}
}

// The embedded PostgreSQL outlives Bough's and its own end.
func TestEmbeddedServerRecovers(t *testing.T) {
	t.Parallel()
	dir := pgtest.Cluster(t, "")
	args := []string{"--data-dir", dir, "--pool.total", "10"}
	p := start(t, args, nil)
	s := &servertest.Server{Main: connection(t, p.client(t), "main")}
	s.Exec(t, s.Main, "create table t (id int)")
	createReady(t, p.client(t), "demo")

	second := startProcess(t, args, nil)
	<-second.done
	if code := second.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(second.log.String(), "in use") ||
		!strings.Contains(second.log.String(), strconv.Itoa(p.cmd.Process.Pid)) {
		t.Errorf("a second server on the directory ended with %d:\n%s", code, second.log)
	}

	s.Exec(t, s.Main, "insert into t values (1)")
	p.kill() // Bough
	p = start(t, args, nil)
	s.Exec(t, s.Main, "insert into t values (2)") // the same URL

	killPostmaster(t, dir)
	p.waitReady(t)
	eventually(t, "an answer from main", func() bool {
		r, err := p.client(t).GetBranchWithResponse(t.Context(), "main")
		return err == nil && r.StatusCode() == 200
	})
	s.Exec(t, s.Main, "insert into t values (3)")
	createReady(t, p.client(t), "after the crash")

	p.kill() // both
	killPostmaster(t, dir)
	p = start(t, args, nil)
	if n := servertest.Value[int64](t, s.Main, "select count(*) from t"); n != 3 {
		t.Errorf("%d rows after three crashes, want 3", n)
	}
	ok[*client.ResetBranchResponse](t, 200)(p.client(t).ResetBranchWithResponse(t.Context(), "demo"))
	if code := p.stop(t); code != 0 {
		t.Errorf("exit code %d:\n%s", code, p.log)
	}
}

// killPostmaster kills the postmaster of a data directory; none is no error.
func killPostmaster(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(dir + "/postgres/postmaster.pid")
	if err != nil {
		return
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	time.Sleep(50 * time.Millisecond)
}

// A seed that fails is told by file and line; it can be mended and tried again, and never spoils what was there.
func TestSeedFailureIsTold(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("01_rows.sql", "insert into t values (1, 'seed');\ninsert into t values (2, 'seed');")
	write("02_more.sql", "insert into t\nselect id + 10, v\nfrom t;\n")
	p := start(t, append(i.args, "--branching.seed-path", dir), nil)
	mode, wait := client.DataCloneModeSeedData, "wait=60"
	make := func(name string) *client.CreatedBranch {
		return ok[*client.CreateBranchResponse](t, 201)(p.client(t).CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{Prefer: &wait},
			client.CreateBranchRequest{Name: name, DataCloneMode: &mode})).JSON201
	}
	if b := make("seeded"); b.Status != client.BranchStatusReady {
		t.Fatalf("status %s", b.Status)
	}
	if got := i.rows(t, connection(t, p.client(t), "seeded")); got != "4/0" {
		t.Errorf("rows of a seeded branch: %s", got)
	}
	write("02_more.sql", "insert into t values (3, 'x');\n\nselect * from nowhere;\n")
	if b := make("broken"); b.Status != client.BranchStatusError {
		t.Fatalf("status %s", b.Status)
	}
	got := ok[*client.GetBranchResponse](t, 200)(p.client(t).GetBranchWithResponse(t.Context(), "broken")).JSON200
	if got.ErrorMessage == nil || !strings.Contains(*got.ErrorMessage, "02_more.sql, line 3") || !strings.Contains(*got.ErrorMessage, "nowhere") {
		t.Errorf("error_message: %v", got.ErrorMessage)
	}
	if names := databaseNames(t, i.s.Main, got.DatabaseName); names != "" {
		t.Errorf("a failed creation left %s", names)
	}
	resp := ok[*client.ResetBranchResponse](t, 409)(p.client(t).ResetBranchWithResponse(t.Context(), "broken"))
	if resp.JSON409.Code != "reset_failed" || resp.JSON409.Details == nil {
		t.Errorf("resetting it: %s", resp.Body)
	}
	// A failed reset leaves the old state usable.
	failed := ok[*client.ResetBranchResponse](t, 409)(p.client(t).ResetBranchWithResponse(t.Context(), "seeded"))
	if failed.JSON409.Code != "reset_failed" {
		t.Errorf("resetting a good branch: %s", failed.Body)
	}
	if got := i.rows(t, connection(t, p.client(t), "seeded")); got != "4/0" {
		t.Errorf("rows after a failed reset: %s", got)
	}
	write("02_more.sql", "insert into t values (3, 'x');")
	ok[*client.ResetBranchResponse](t, 200)(p.client(t).ResetBranchWithResponse(t.Context(), "broken"))
	if got := i.rows(t, connection(t, p.client(t), "broken")); got != "3/0" {
		t.Errorf("rows after it was mended: %s", got)
	}
}
