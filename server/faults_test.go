package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/servertest"
)

// quoted quotes a name.
func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// records asks for the records of table t, of main or of a branch, and returns the status and the body.
func records(t *testing.T, url, branch string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/tables/t", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Service-Key", servertest.ServiceKey)
	if branch != "" {
		req.Header.Set("X-Branch", branch)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func getBranch(t *testing.T, c *client.ClientWithResponses, ref string) *client.Branch {
	t.Helper()
	return ok[*client.GetBranchResponse](t, 200)(c.GetBranchWithResponse(t.Context(), ref)).JSON200
}

func errorCode(b *client.Branch) string {
	if b.ErrorCode == nil {
		return ""
	}
	return *b.ErrorCode
}

// A database that somebody drops leaves its branch in an error that says so, from which a reset brings it back.
func TestDroppedDatabaseIsReported(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	p := start(t, i.args, nil)
	c := p.client(t)
	b := createReady(t, c, "demo")
	if status, body := records(t, p.url, "demo"); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	i.s.Exec(t, i.s.Main, "drop database "+quoted(b.DatabaseName)+" with (force)")
	eventually(t, "the error", func() bool {
		records(t, p.url, "demo")
		return getBranch(t, c, "demo").Status == client.BranchStatusError
	})
	got := getBranch(t, c, "demo")
	if errorCode(got) != "database_missing" || got.ErrorMessage == nil || !strings.Contains(*got.ErrorMessage, b.DatabaseName) || !strings.Contains(*got.ErrorMessage, "reset") {
		t.Errorf("error %s: %v", errorCode(got), got.ErrorMessage)
	}
	eventually(t, "the refusal of requests", func() bool {
		status, body := records(t, p.url, "demo")
		return status == 503 && strings.Contains(body, "database_missing") && strings.Contains(body, "reset the branch")
	})
	entries := ok[*client.ListBranchActivityResponse](t, 200)(c.ListBranchActivityWithResponse(t.Context(), "demo", nil)).JSON200.Activity
	if e := entries[0]; e.Action != client.BranchActionFailed || e.Details["code"] != "database_missing" {
		t.Errorf("activity: %+v", e)
	}
	ok[*client.ResetBranchResponse](t, 200)(c.ResetBranchWithResponse(t.Context(), "demo"))
	if got := getBranch(t, c, "demo"); got.Status != client.BranchStatusReady || got.ErrorCode != nil {
		t.Errorf("after a reset: %+v", got)
	}
	if status, body := records(t, p.url, "demo"); status != 200 {
		t.Errorf("after a reset: %d %s", status, body)
	}
	// Nobody asks for this one: it is found all the same.
	quiet := createReady(t, c, "quiet")
	i.s.Exec(t, i.s.Main, "drop database "+quoted(quiet.DatabaseName)+" with (force)")
	eventually(t, "the error of a branch that nobody uses", func() bool { return errorCode(getBranch(t, c, "quiet")) == "database_missing" })
	ok[*client.DeleteBranchResponse](t, 204)(c.DeleteBranchWithResponse(t.Context(), "quiet", nil))
}

// A database that an administrator renames is never dropped, and its branch says where it went. Renamed back, it is the
// branch's again.
func TestRenamedDatabaseIsLeftAlone(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	p := start(t, i.args, nil)
	c := p.client(t)
	b := createReady(t, c, "demo")
	i.s.Exec(t, connection(t, c, "demo"), "insert into t values (1000, 'branch')")
	kept := b.DatabaseName + "_kept"
	rename := func(from, to string) {
		t.Helper()
		i.s.Exec(t, i.s.Main, "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", from)
		eventually(t, "the renaming", func() bool {
			conn, err := pgx.Connect(t.Context(), i.s.Main)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.WithoutCancel(t.Context()))
			_, err = conn.Exec(t.Context(), "alter database "+quoted(from)+" rename to "+quoted(to))
			return err == nil
		})
	}
	rename(b.DatabaseName, kept)
	t.Cleanup(func() { drop(t, i.s.Main, "database if exists "+quoted(kept)+" with (force)") })
	// The sweep that finds the branch without its database looks at the renamed one, too.
	eventually(t, "the error", func() bool { return errorCode(getBranch(t, c, "demo")) == "database_missing" })
	if m := *getBranch(t, c, "demo").ErrorMessage; !strings.Contains(m, kept) {
		t.Errorf("the message does not say where the database went: %s", m)
	}
	eventually(t, "a word about it", func() bool { return strings.Contains(p.log.String(), "was renamed, and is left alone") })
	p.stop(t)
	p = start(t, i.args, nil)
	c = p.client(t)
	eventually(t, "a word of the next process", func() bool { return strings.Contains(p.log.String(), "was renamed, and is left alone") })
	if databaseNames(t, i.s.Main, kept) != kept {
		t.Fatal("the renamed database was dropped")
	}
	rename(kept, b.DatabaseName)
	eventually(t, "the branch's return", func() bool { return getBranch(t, c, "demo").Status == client.BranchStatusReady })
	if got := i.rows(t, connection(t, c, "demo")); got != "101/1" {
		t.Errorf("rows: %s", got)
	}
	// Given up by its branch, which is reset or deleted, it stays as well.
	rename(b.DatabaseName, kept)
	eventually(t, "the error", func() bool { return errorCode(getBranch(t, c, "demo")) == "database_missing" })
	ok[*client.ResetBranchResponse](t, 200)(c.ResetBranchWithResponse(t.Context(), "demo"))
	ok[*client.DeleteBranchResponse](t, 204)(c.DeleteBranchWithResponse(t.Context(), "demo", nil))
	if got := i.rows(t, pgtest.WithDatabase(i.s.Main, kept)); got != "101/1" {
		t.Errorf("rows of the renamed database: %s", got)
	}
}

// Privileges that went with a schema come back without a restart, in main and in branches, told by the event trigger or
// found by looking.
func TestSchemaIsServedAgainAfterItWasDropped(t *testing.T) {
	t.Parallel()
	for _, notified := range []bool{true, false} {
		t.Run(map[bool]string{true: "notified", false: "polled"}[notified], func(t *testing.T) {
			t.Parallel()
			_, roles := ownRoles(t)
			i := newInstallation(t)
			p := start(t, slices.Concat(i.args, roles), nil)
			c := p.client(t)
			createReady(t, c, "demo")
			for _, branch := range []string{"", "demo"} {
				database := i.s.Main
				if branch != "" {
					database = connection(t, c, branch)
				}
				if !notified {
					super := i.s.Main
					if branch != "" {
						super = pgtest.WithDatabase(super, getBranch(t, c, branch).DatabaseName)
					}
					i.s.Exec(t, super, "drop event trigger bough_ddl_end; drop event trigger bough_ddl_drop; alter function auth.bough_notify_ddl() rename to gone")
				}
				if status, body := records(t, p.url, branch); status != 200 {
					t.Fatalf("before: %d %s", status, body)
				}
				i.s.Exec(t, database, "drop schema public cascade; create schema public; create table t (id int primary key, v text)")
				// Requests with a service key run as a role that owns nothing.
				eventually(t, "records of "+branch, func() bool { status, _ := records(t, p.url, branch); return status == 200 })
				i.s.Exec(t, database, "create table later (id int primary key)")
				role := roles[slices.Index(roles, "--roles.service")+1]
				if !servertest.Value[bool](t, database, "select has_table_privilege($1, 'later', 'insert')", role) {
					t.Error("the service role has no privileges on what is made later")
				}
			}
			p.stop(t)
		})
	}
}

// A server that is starting up, or not there yet, is waited for.
func TestServeWaitsForTheServerToStart(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	u, err := url.Parse(i.s.Main)
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	through := func(database string) string {
		w, err := url.Parse(database)
		if err != nil {
			t.Fatal(err)
		}
		w.Host = address
		return w.String()
	}
	args := []string{"--database-url", through(i.s.Main), "--control-database-url", through(i.s.Control), "--data-dir", t.TempDir(), "--pool.total", "10"}
	p := startProcess(t, args, nil)
	eventually(t, "a word that it waits", func() bool { return strings.Contains(p.log.String(), "waiting for the PostgreSQL server") })
	// Now somebody listens, but has to recover first.
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var refused atomic.Int64
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if refused.Add(1) <= 3 {
					startingUp(conn)
					return
				}
				relay(conn, u.Host)
			}()
		}
	}()
	p.waitReady(t)
	if refused.Load() <= 3 {
		t.Error("nobody asked")
	}

	// For good it does not wait.
	p = startProcess(t, slices.Concat(args[2:], []string{"--database-url", strings.Replace(through(i.s.Main), address, freeAddress(t), 1), "--database-wait", "1s"}), nil)
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		t.Fatalf("it waits on:\n%s", p.log)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(p.log.String(), "did not accept connections within") {
		t.Errorf("exit code %d:\n%s", code, p.log)
	}
}

// startingUp answers as a PostgreSQL does that is recovering.
func startingUp(conn net.Conn) {
	buf := make([]byte, 4096)
	if _, err := conn.Read(buf); err != nil {
		return
	}
	fields := "SFATAL\x00VFATAL\x00C57P03\x00Mthe database system is starting up\x00\x00"
	_, _ = conn.Write(append([]byte{'E', 0, 0, 0, byte(len(fields) + 4)}, fields...))
}

// relay passes on what two ends say to each other.
func relay(conn net.Conn, host string) {
	server, err := net.Dial("tcp", host)
	if err != nil {
		return
	}
	defer server.Close()
	go func() { _, _ = io.Copy(server, conn); server.Close() }()
	_, _ = io.Copy(conn, server)
}

// A try that failed and whose process is killed before the next is taken up as soon as that one was due.
func TestKilledRetryIsResumedSoon(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	p := start(t, i.args, nil)
	parent := createReady(t, p.client(t), "parent")
	p.stop(t)

	p = start(t, i.args, []string{"BOUGH_FAULT_POINT=creating:waiting"})
	// The clone waits for its parent, which turns out not to be ready.
	conn, err := pgx.Connect(t.Context(), i.s.Control)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), "select pg_advisory_lock(hashtextextended($1, 0))", "bough.source."+parent.ID.String()); err != nil {
		t.Fatal(err)
	}
	b := ok[*client.CreateBranchResponse](t, 201)(p.client(t).CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{},
		client.CreateBranchRequest{Name: "demo", ParentBranchID: &parent.ID})).JSON201
	if _, err := conn.Exec(t.Context(), "update branches set status = 'error' where id = $1", parent.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "select pg_advisory_unlock_all()"); err != nil {
		t.Fatal(err)
	}
	p.waitDead(t)
	wait := servertest.Value[float64](t, i.s.Control, "select extract(epoch from lease_until - now())::float8 from branches where id = $1", b.ID)
	if wait > 10 {
		t.Errorf("nobody takes the operation up for %.0f seconds", wait)
	}
	i.s.Exec(t, i.s.Control, "update branches set status = 'ready' where id = $1", parent.ID)
	p = start(t, i.args, nil)
	eventually(t, "the branch", func() bool { return getBranch(t, p.client(t), "demo").Status == client.BranchStatusReady })
}

// A PostgreSQL that does not say anything any more, not even no, leaves no request without an answer.
func TestFrozenServerIsAnsweredFor(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, "", nil)
	s := servertest.Server{Main: server.URL("frozen_main"), Control: server.URL("frozen_control")}
	s.Exec(t, server.URL("postgres"), "create database frozen_main")
	p := start(t, []string{"--database-url", s.Main, "--control-database-url", s.Control, "--data-dir", t.TempDir(), "--pool.total", "10"}, nil)
	s.Exec(t, s.Main, "create table t (id int primary key, v text)")
	eventually(t, "the table", func() bool { status, _ := records(t, p.url, ""); return status == 200 })

	pids := servertest.Value[[]int32](t, server.URL("postgres"), "select array_agg(pid) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()")
	pids = append(pids, postmasterOf(t, server.ClusterDir()))
	signal := func(sig syscall.Signal) {
		for _, pid := range pids {
			_ = syscall.Kill(int(pid), sig)
		}
	}
	signal(syscall.SIGSTOP)
	defer signal(syscall.SIGCONT)
	ask := func(method, path, body string) {
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, method, p.url+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("X-Service-Key", servertest.ServiceKey)
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Errorf("%s %s: %v", method, path, err)
			return
		}
		resp.Body.Close()
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s %s: status %d, Retry-After %q", method, path, resp.StatusCode, resp.Header.Get("Retry-After"))
		}
	}
	done := make(chan struct{})
	questions := [][3]string{
		{"GET", "/readyz", ""}, {"GET", "/api/v1/admin/branches", ""}, {"GET", "/api/v1/admin/branches/main", ""},
		{"POST", "/api/v1/admin/branches", `{"name": "demo"}`}, {"GET", "/api/v1/admin/webhooks", ""},
	}
	for _, q := range questions {
		go func() { ask(q[0], q[1], q[2]); done <- struct{}{} }()
	}
	for range questions {
		<-done
	}
	signal(syscall.SIGCONT)
	eventually(t, "its recovery", func() bool {
		resp, err := http.Get(p.url + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == 200
	})
	eventually(t, "records", func() bool { status, _ := records(t, p.url, ""); return status == 200 })
	p.stop(t)
}

// postmasterOf returns the process number of the server of a cluster.
func postmasterOf(t *testing.T, cluster string) int32 {
	t.Helper()
	text, err := os.ReadFile(cluster + "/postmaster.pid")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.ParseInt(first, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(pid)
}

// A PostgreSQL that finds its disk full is no internal error, whatever it was asked to do.
func TestFullDiskOfPostgreSQLIsToldAsSuch(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	p := start(t, i.args, nil)
	c := p.client(t)
	const full = ` returns trigger language plpgsql as $$ begin raise exception using errcode = 'disk_full', message = 'could not extend file: No space left on device'; end $$`
	i.s.Exec(t, i.s.Main, "create function full_disk()"+full+"; create trigger full_disk before insert on t for each row execute function full_disk()")
	status, body, err := post(t.Context(), p.url, map[string]any{"id": 5000})
	if err != nil || status != 507 || !strings.Contains(body, "53100") {
		t.Errorf("inserting a record: %d %s %v", status, body, err)
	}
	i.s.Exec(t, i.s.Control, "create function full_disk()"+full+"; create trigger full_disk before insert on branches for each row execute function full_disk()")
	r := ok[*client.CreateBranchResponse](t, 507)(c.CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{}, client.CreateBranchRequest{Name: "demo"}))
	if r.JSON507.Code != "insufficient_storage" || strings.Contains(string(r.Body), "extend file") {
		t.Errorf("creating a branch: %s", r.Body)
	}
	i.s.Exec(t, i.s.Control, "create trigger full_disk before insert on api_keys for each row execute function full_disk()")
	if r := ok[*client.CreateKeyResponse](t, 507)(c.CreateKeyWithResponse(t.Context(), client.CreateKeyRequest{Name: "a key", Type: "service"})); r.JSON507.Code != "insufficient_storage" {
		t.Errorf("creating a key: %s", r.Body)
	}
}

// post sends a record to table t of main.
func post(ctx context.Context, url string, record map[string]any) (int, string, error) {
	data, err := json.Marshal(record)
	if err != nil {
		return 0, "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/api/v1/tables/t", bytes.NewReader(data))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("X-Service-Key", servertest.ServiceKey)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}
