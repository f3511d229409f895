package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/diskspace"
	"github.com/boughdb/bough/server/servertest"
)

// smallDisk mounts a file system of the given size and returns where; it is gone after the test.
func smallDisk(t *testing.T, size int64) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	dir := t.TempDir()
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	f, err := os.Create(image)
	if err == nil {
		err = f.Truncate(size)
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Mkdir(at, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	// PostgreSQL's user has to get through.
	for up := dir; up != "/" && up != os.TempDir(); up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// No blocks are root's own, so that a program of root's fills it for everybody.
	if out, err := exec.Command("mkfs.ext4", "-q", "-m", "0", image).CombinedOutput(); err != nil {
		t.Skipf("there is no file system to be made here: %v %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, at).CombinedOutput(); err != nil {
		t.Skipf("mounting is not allowed here: %v %s", err, out)
	}
	t.Cleanup(func() {
		for range 50 {
			if exec.Command("umount", at).Run() == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Errorf("%s stays mounted", at)
	})
	return at
}

func freeSpace(t *testing.T, dir string) int64 {
	t.Helper()
	u, err := diskspace.Of(dir)
	if err != nil {
		t.Fatal(err)
	}
	return u.Free
}

// fillTo takes space on a disk until so much is left. It is given back when the function it returns is called.
func fillTo(t *testing.T, disk string, leave int64) (giveBack func()) {
	t.Helper()
	name := filepath.Join(disk, "somebody-elses-file")
	if take := freeSpace(t, disk) - leave; take > 0 {
		if out, err := exec.Command("fallocate", "-l", fmt.Sprint(take), name).CombinedOutput(); err != nil {
			t.Fatalf("filling the disk: %v %s", err, out)
		}
	}
	return func() { _ = os.Remove(name) }
}

// onDisk is a server with its data on a small disk, whose main is written to all the time.
type onDisk struct {
	*process
	disk, main string
	started    string
	written    atomic.Int64
	refused    atomic.Value // what the first write that was not served was answered
	stop       func()
}

func serveOn(t *testing.T, disk string, args ...string) *onDisk {
	t.Helper()
	o := &onDisk{disk: disk}
	o.process = start(t, append([]string{"--data-dir", filepath.Join(disk, "bough"), "--pool.total", "10"}, args...), nil)
	o.main = connection(t, o.client(t), "main")
	s := servertest.Server{}
	s.Exec(t, o.main, "create table t (id bigint generated always as identity primary key, v text)")
	eventually(t, "the table", func() bool { status, _ := records(t, o.url, ""); return status == 200 })
	o.started = o.start(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			status, body, err := post(ctx, o.url, map[string]any{"v": "written"})
			switch {
			case ctx.Err() != nil:
			case err != nil:
				o.refused.CompareAndSwap(nil, err.Error())
			case status != 201:
				o.refused.CompareAndSwap(nil, fmt.Sprint(status, " ", body))
			default:
				o.written.Add(1)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	o.stop = func() { cancel(); <-done }
	t.Cleanup(func() {
		cancel()
		if t.Failed() {
			t.Logf("the server's log:\n%s", o.log)
		}
	})
	return o
}

// start is when the server was started, or recovered from a crash.
func (o *onDisk) start(t *testing.T) string {
	t.Helper()
	return servertest.Value[string](t, superuserURL(t, filepath.Join(o.disk, "bough"), "main"), "select pg_postmaster_start_time()::text || ' ' || (select min(backend_start) from pg_stat_activity where backend_type = 'checkpointer')::text")
}

// writesGoOn waits for more writes.
func (o *onDisk) writesGoOn(t *testing.T) {
	t.Helper()
	before := o.written.Load()
	eventually(t, "more writes", func() bool { return o.written.Load() > before+5 })
}

func (o *onDisk) checkUndisturbed(t *testing.T) {
	t.Helper()
	o.writesGoOn(t)
	if refused := o.refused.Load(); refused != nil {
		t.Errorf("a write to main was not served: %v", refused)
	}
	if now := o.start(t); now != o.started {
		t.Errorf("PostgreSQL has restarted: %s, at first %s", now, o.started)
	}
	if strings.Contains(o.log.String(), "PANIC") {
		t.Error("PostgreSQL panicked")
	}
}

// A branch that the disk has no room for is refused, or ends in an error, whatever the way of copying: main goes on and the
// space comes back.
func TestBranchThatDoesNotFitOnTheDisk(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"wal_log", "file_copy", "copy"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			disk := smallDisk(t, 1<<30)
			o := serveOn(t, disk, "--branching.strategy", strategy)
			c := o.client(t)
			s := servertest.Server{}
			s.Exec(t, o.main, "create table big as select g as id, repeat('x', 900) as v from generate_series(1, 100000) g")
			mode, wait := client.DataCloneModeFullClone, "wait=60"
			create := func(name string) (*client.CreateBranchResponse, error) {
				return c.CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{Prefer: &wait}, client.CreateBranchRequest{Name: name, DataCloneMode: &mode})
			}
			fits := ok[*client.CreateBranchResponse](t, 201)(create("fits")).JSON201
			if fits.Status != client.BranchStatusReady {
				t.Fatalf("a branch that fits: %s", *getBranch(t, c, "fits").ErrorMessage)
			}

			// Refused beforehand: it cannot fit.
			giveBack := fillTo(t, disk, 120<<20)
			refused := ok[*client.CreateBranchResponse](t, 507)(create("refused"))
			if e := refused.JSON507; e.Code != "insufficient_storage" || !strings.Contains(e.Error, "kept in reserve") || e.Hint == nil {
				t.Errorf("the refusal: %s", refused.Body)
			}
			reset := ok[*client.ResetBranchResponse](t, 507)(c.ResetBranchWithResponse(t.Context(), "fits"))
			if reset.JSON507.Code != "insufficient_storage" {
				t.Errorf("the refused reset: %s", reset.Body)
			}
			giveBack()

			// Given up in the middle: somebody else fills the disk while it is copied.
			before := freeSpace(t, disk)
			wait = "wait=0"
			given := ok[*client.CreateBranchResponse](t, 201)(create("given up")).JSON201
			giveBack = fillTo(t, disk, 40<<20)
			eventually(t, "the end of the copying", func() bool {
				status := getBranch(t, c, given.Slug).Status
				return status == client.BranchStatusError || status == client.BranchStatusReady
			})
			got := getBranch(t, c, given.Slug)
			if got.Status != client.BranchStatusError || errorCode(got) != "insufficient_storage" {
				t.Fatalf("status %s, error %s", got.Status, errorCode(got))
			}
			if names := databaseNames(t, o.main, got.DatabaseName); names != "" {
				t.Errorf("the half-made branch is still there: %s", names)
			}
			o.writesGoOn(t)
			// Nothing that makes the control database grow is let in, everything else is.
			ok[*client.CreateKeyResponse](t, 507)(c.CreateKeyWithResponse(t.Context(), client.CreateKeyRequest{Name: "a key", Type: "service"}))
			email := "someone@example.com"
			if r := ok[*client.SignUpResponse](t, 507)(c.SignUpWithResponse(t.Context(), client.SignUpRequest{Email: email, Password: "a long and odd passphrase"})); r.JSON507.Code != "insufficient_storage" {
				t.Errorf("signing up: %s", r.Body)
			}
			ok[*client.CreateWebhookResponse](t, 507)(c.CreateWebhookWithResponse(t.Context(),
				client.CreateWebhookRequest{URL: "http://127.0.0.1:1/", Events: []client.EventSelector{client.EventSelectorAll}}))
			for path, want := range map[string]string{"/mcp/oauth/register": `"error":"insufficient_storage"`, "/api/v1/webhooks/repohost": `"code":"insufficient_storage"`} {
				resp, err := http.Post(o.url+path, "application/json", strings.NewReader(`{"redirect_uris": ["http://127.0.0.1/"]}`))
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != 507 || !strings.Contains(string(body), want) {
					t.Errorf("%s: %d %s %v", path, resp.StatusCode, body, err)
				}
			}
			ok[*client.ListBranchesResponse](t, 200)(c.ListBranchesWithResponse(t.Context(), nil))
			ok[*client.DeleteBranchResponse](t, 204)(c.DeleteBranchWithResponse(t.Context(), got.Slug, nil))
			giveBack()
			s.Exec(t, superuserURL(t, filepath.Join(o.disk, "bough"), "main"), "checkpoint")
			// The log keeps files to use again, up to its own limit of a tenth of the disk.
			if free := freeSpace(t, disk); free < before-150<<20 {
				t.Errorf("free space is %s, and was %s", diskspace.Format(free), diskspace.Format(before))
			}
			o.checkUndisturbed(t)
			ok[*client.ResetBranchResponse](t, 200)(c.ResetBranchWithResponse(t.Context(), "fits"))
			ok[*client.DeleteBranchResponse](t, 204)(c.DeleteBranchWithResponse(t.Context(), "fits", nil))
			o.checkUndisturbed(t)
			o.stop()
			if code := o.process.stop(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// Somebody else fills the disk to the last block. When there is room again, everything works again, without a restart of
// Bough.
func TestDiskFilledBySomebodyElse(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 600<<20)
	o := serveOn(t, disk)
	ballast := filepath.Join(disk, "bough", "postgres", "bough.ballast")
	eventually(t, "the ballast", func() bool { _, err := os.Stat(ballast); return err == nil })
	name := filepath.Join(disk, "somebody-elses-file")
	if out, err := exec.Command("dd", "if=/dev/zero", "of="+name, "bs=1M").CombinedOutput(); err == nil {
		t.Fatalf("the disk has no end: %s", out)
	}
	s := servertest.Server{}
	eventually(t, "the ballast's end", func() bool { _, err := os.Stat(ballast); return os.IsNotExist(err) })
	// What it held keeps main going.
	o.writesGoOn(t)
	s.Exec(t, o.main, "create table meanwhile as select g from generate_series(1, 1000) g")
	c := o.client(t)
	wait := "wait=60"
	refused := ok[*client.CreateBranchResponse](t, 507)(c.CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{Prefer: &wait}, client.CreateBranchRequest{Name: "demo"}))
	if refused.JSON507.Code != "insufficient_storage" {
		t.Errorf("the refusal: %s", refused.Body)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the ballast's return", func() bool { _, err := os.Stat(ballast); return err == nil })
	o.writesGoOn(t)
	createReady(t, c, "demo")
	o.stop()
	if n := servertest.Value[int64](t, o.main, "select count(*) from t"); n < o.written.Load() {
		t.Errorf("main has %d rows, %d were written", n, o.written.Load())
	}
	// The same at the start: PostgreSQL is killed, and finds the disk full.
	if out, err := exec.Command("dd", "if=/dev/zero", "of="+name, "bs=1M").CombinedOutput(); err == nil {
		t.Fatalf("the disk has no end: %s", out)
	}
	killPostmaster(t, filepath.Join(disk, "bough"))
	eventually(t, "the server's restart", func() bool { return strings.Contains(o.log.String(), "PostgreSQL is ready again") })
	eventually(t, "an answer from main", func() bool {
		r, err := c.GetBranchWithResponse(t.Context(), "main")
		return err == nil && r.StatusCode() == 200
	})
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	createReady(t, c, "after")
	if code := o.process.stop(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
