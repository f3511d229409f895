package pgserver_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/pgserver"
	"github.com/boughdb/bough/server/pgtest"
)

func TestKilledPostmasterIsRestarted(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, inst pgserver.Installation) {
		s := start(t, clusterOptions(t, inst))
		execute(t, s.URL("postgres"), "create table notes as select 'kept' as note")

		// A backend that computes does not notice that its postmaster is gone.
		conn := connect(t, s.URL("postgres"))
		defer conn.Close(context.Background())
		busy := make(chan error, 1)
		go func() {
			_, err := conn.Exec(context.Background(), "select count(*) from generate_series(1, 100000000000)")
			busy <- err
		}()
		eventually(t, "the backend computes", func() bool {
			return query[int](t, s.URL("postgres"), "select count(*) from pg_stat_activity where query like '%generate_series%' and pid <> pg_backend_pid()") == 1
		})

		former := postmaster(s.ClusterDir())
		if err := syscall.Kill(former, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the server serves again", func() bool {
			pid := postmaster(s.ClusterDir())
			return pid != former && pid != 0 && serving(s.URL("postgres"))
		})
		if diff := cmp.Diff("kept", query[string](t, s.URL("postgres"), "select note from notes")); diff != "" {
			t.Errorf("row (-want +got):\n%s", diff)
		}
		if err := <-busy; err == nil {
			t.Error("the query of the former server succeeded")
		}
		if err := s.Err(); err != nil {
			t.Errorf("Err: %v", err)
		}
	})
}

func TestStoppedPostmasterIsRestarted(t *testing.T) {
	t.Parallel()
	s := start(t, clusterOptions(t, newest(t)))
	former := postmaster(s.ClusterDir())
	if err := syscall.Kill(former, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server serves again", func() bool {
		pid := postmaster(s.ClusterDir())
		return pid != former && pid != 0 && serving(s.URL("postgres"))
	})
}

func TestServerThatKeepsEndingIsGivenUp(t *testing.T) {
	t.Parallel()
	s, err := pgserver.Start(t.Context(), pgserver.WithLastBackOff(clusterOptions(t, newest(t)), 10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.After(time.Minute); ; {
		if pid := postmaster(s.ClusterDir()); pid > 0 {
			syscall.Kill(pid, syscall.SIGTERM)
		}
		select {
		case <-s.Done():
			if err := s.Err(); err == nil || !strings.Contains(err.Error(), fmt.Sprint(pgserver.MaxFailures)) {
				t.Errorf("Err is %v, want one with the number of failures", err)
			}
			return
		case <-deadline:
			stop(t, s)
			t.Fatal("the supervisor does not give up")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestSupervisorGivesUp(t *testing.T) {
	t.Parallel()
	o := pgserver.WithLastBackOff(clusterOptions(t, newest(t)), 50*time.Millisecond)
	o.Log = logger(t)
	s, err := pgserver.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	control := filepath.Join(s.ClusterDir(), "global", "pg_control")
	if err := os.Rename(control, control+".away"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(postmaster(s.ClusterDir()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
	case <-time.After(time.Minute):
		t.Fatal("the supervisor does not give up")
	}
	err = s.Err()
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint(pgserver.MaxFailures)) || !strings.Contains(err.Error(), "pg_control") {
		t.Errorf("Err is %v, want one with the number of failures and the server's words", err)
	}
	if got := s.Stop(t.Context()); got != err {
		t.Errorf("Stop returns %v, want %v", got, err)
	}
	if err := os.Rename(control+".away", control); err != nil {
		t.Fatal(err)
	}
	start(t, o) // the directory is free again
}

func TestStartRecoversFromBeingKilled(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, bough *exec.Cmd, pid int){
		"bough": func(t *testing.T, bough *exec.Cmd, pid int) {
			kill(t, bough.Process.Pid)
		},
		"bough and postmaster": func(t *testing.T, bough *exec.Cmd, pid int) {
			kill(t, bough.Process.Pid)
			kill(t, pid)
		},
		"postmaster and bough": func(t *testing.T, bough *exec.Cmd, pid int) {
			kill(t, pid)
			kill(t, bough.Process.Pid)
		},
		"bough, and the server with it": func(t *testing.T, bough *exec.Cmd, pid int) {
			kill(t, bough.Process.Pid)
			if runtime.GOOS == "linux" {
				eventually(t, "the server ends without Bough", func() bool { return ended(pid) })
			}
		},
	}
	for name, crash := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachMajor(t, func(t *testing.T, inst pgserver.Installation) {
				o := clusterOptions(t, inst)
				// The helper finds the programs by the cluster's version.
				bough, url := startHelper(t, o.DataDir)
				execute(t, url, "create table notes as select 'kept' as note")
				crash(t, bough, postmaster(filepath.Join(o.DataDir, "postgres")))
				bough.Wait()

				s := start(t, o)
				if diff := cmp.Diff(url, s.URL("postgres")); diff != "" {
					t.Errorf("URL (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff("kept", query[string](t, url, "select note from notes")); diff != "" {
					t.Errorf("row (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		t.Fatal(err)
	}
}

func TestStartRecoversFromAKilledInitdb(t *testing.T) {
	t.Parallel()
	dir := pgtest.DataDir(t)
	bough := helper(dir)
	if err := bough.Start(); err != nil {
		t.Fatal(err)
	}
	defer bough.Wait()
	eventually(t, "initdb is at work", func() bool {
		files, _ := filepath.Glob(filepath.Join(dir, "postgres.new-*", "data", "base", "1", "*"))
		return len(files) > 0
	})
	kill(t, bough.Process.Pid)
	bough.Wait()
	if _, err := os.Stat(filepath.Join(dir, "postgres")); err == nil {
		t.Fatal("the cluster had its name before it was complete")
	}
	s := start(t, options(dir))
	if !serving(s.URL("postgres")) {
		t.Error("the server does not serve")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "postgres.new-*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// asOwner lets a command run as the owner of a cluster.
func asOwner(t *testing.T, cluster string, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	info, err := os.Stat(cluster)
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: st.Uid, Gid: st.Gid}}
	}
	cmd.Dir = "/"
	return cmd
}

func TestOrphanedServerIsStopped(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, inst pgserver.Installation) {
		o := clusterOptions(t, inst)
		cluster, err := filepath.EvalSymlinks(filepath.Join(o.DataDir, "postgres"))
		if err != nil {
			t.Fatal(err)
		}
		orphan := asOwner(t, cluster, exec.Command(filepath.Join(inst.BinDir, "postgres"), "-D", cluster, "-c", "listen_addresses=", "-c", "unix_socket_directories="+cluster))
		orphan.Stderr = t.Output()
		if err := orphan.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- orphan.Wait() }()
		defer orphan.Process.Kill()
		eventually(t, "the orphan is at work", func() bool {
			text, _ := os.ReadFile(filepath.Join(cluster, "postmaster.pid"))
			return strings.Contains(string(text), "ready")
		})
		s := start(t, o)
		select {
		case <-ended:
		default:
			t.Error("the orphan still runs")
		}
		if !serving(s.URL("postgres")) {
			t.Error("the server does not serve")
		}
	})
}

func TestStalePIDOfAnotherProgram(t *testing.T) {
	t.Parallel()
	o := clusterOptions(t, newest(t))
	cluster := filepath.Join(o.DataDir, "postgres")
	stranger := asOwner(t, cluster, exec.Command("sleep", "600"))
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer stranger.Wait()
	defer stranger.Process.Kill()
	for name, text := range map[string]string{
		"stranger":     fmt.Sprintf("%d\n%s\n1700000000\n5432\n\n127.0.0.1\n  12345 67890\nready\n", stranger.Process.Pid, cluster),
		"this process": fmt.Sprintf("%d\n%s\n", os.Getpid(), cluster),
		"nobody":       fmt.Sprintf("%d\n%s\n1700000000\n5432\n\n127.0.0.1\n  12345 67890\nready\n", 1<<22-3, cluster),
		"empty":        "",
	} {
		if err := os.WriteFile(filepath.Join(cluster, "postmaster.pid"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := pgserver.Start(t.Context(), o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		stop(t, s)
	}
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other program has suffered: %v", err)
	}
}

func TestReplacedProgramsRestartTheServer(t *testing.T) {
	t.Parallel()
	inst := newest(t)
	o := pgserver.WithWatchEvery(clusterOptions(t, inst), 50*time.Millisecond)
	// Programs that a test may replace.
	o.BinDir = filepath.Join(pgtest.DataDir(t), "bin")
	if err := os.Mkdir(o.BinDir, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		syscall.ForkLock.RLock() // a child would have it open for writing until it execs
		defer syscall.ForkLock.RUnlock()
		staging := filepath.Join(o.BinDir, ".new")
		if err := os.WriteFile(staging, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(staging, filepath.Join(o.BinDir, name)); err != nil {
			t.Fatal(err)
		}
	}
	forward := "#!/bin/sh\nexec " + inst.BinDir + "/%s \"$@\"\n"
	write("initdb", fmt.Sprintf(forward, "initdb"))
	write("postgres", fmt.Sprintf(forward, "postgres"))
	s := start(t, o)
	execute(t, s.URL("postgres"), "create table notes as select 'kept' as note")
	former := postmaster(s.ClusterDir())

	write("postgres", "#!/bin/sh\necho 'postgres (PostgreSQL) 99.1'\n")
	time.Sleep(300 * time.Millisecond)
	if got := postmaster(s.ClusterDir()); got != former || ended(former) {
		t.Error("the server was restarted for programs that cannot read its data")
	}

	write("postgres", fmt.Sprintf(forward, "postgres")+"# a new version\n")
	eventually(t, "the server is restarted", func() bool {
		pid := postmaster(s.ClusterDir())
		return pid != former && pid != 0 && serving(s.URL("postgres"))
	})
	if diff := cmp.Diff("kept", query[string](t, s.URL("postgres"), "select note from notes")); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}
