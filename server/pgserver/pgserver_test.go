package pgserver_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/pgserver"
	"github.com/boughdb/bough/server/pgtest"
)

func TestStartMakesACluster(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, inst pgserver.Installation) {
		o := options(pgtest.DataDir(t))
		o.BinDir = inst.BinDir
		s := start(t, o)

		for setting, want := range map[string]string{
			"data_checksums":                   "on",
			"listen_addresses":                 "127.0.0.1",
			"password_encryption":              "scram-sha-256",
			"ssl":                              "off",
			"wal_level":                        "replica",
			"max_connections":                  "200",
			"client_connection_check_interval": "5s",
			"server_encoding":                  "UTF8",
			"lc_collate":                       "C.UTF-8",
			"fsync":                            "off", // of Options.Settings
		} {
			if inst.Major >= 16 && setting == "lc_collate" {
				continue // no longer a setting
			}
			if diff := cmp.Diff(want, query[string](t, s.URL("postgres"), "show "+setting)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", setting, diff)
			}
		}
		if inst.Major >= 17 {
			got := query[string](t, s.URL("postgres"), "select datlocprovider::text || ' ' || datlocale from pg_database where datname = 'template0'")
			if diff := cmp.Diff("b C.UTF-8", got); diff != "" {
				t.Errorf("locale (-want +got):\n%s", diff)
			}
		}
		methods := query[[]string](t, s.URL("postgres"), "select array_agg(distinct auth_method) from pg_hba_file_rules")
		if diff := cmp.Diff([]string{"scram-sha-256"}, methods); diff != "" {
			t.Errorf("ways to authenticate (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff("bough", query[string](t, s.SocketURL("postgres"), "select current_user")); diff != "" {
			t.Errorf("user over the socket (-want +got):\n%s", diff)
		}

		for name, want := range map[string]fs.FileMode{s.ClusterDir(): 0o700, filepath.Join(o.DataDir, "postgres.password"): 0o600} {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, info.Mode().Perm()); diff != "" {
				t.Errorf("mode of %s (-want +got):\n%s", name, diff)
			}
		}

		if _, err := pgx.Connect(t.Context(), strings.Replace(s.URL("postgres"), "bough:", "bough:0", 1)); err == nil {
			t.Error("a wrong password is accepted")
		}
		stop(t, s)
		if diff := cmp.Diff("shut down", clusterState(t, s.ClusterDir())); diff != "" {
			t.Errorf("state after Stop (-want +got):\n%s", diff)
		}
	})
}

func TestDataAndURLSurviveARestart(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, inst pgserver.Installation) {
		o := clusterOptions(t, inst)
		first := start(t, o)
		execute(t, first.URL("postgres"), "create table notes as select 'kept' as note")
		stop(t, first)

		second := start(t, o)
		if diff := cmp.Diff(first.URL("postgres"), second.URL("postgres")); diff != "" {
			t.Errorf("URL (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff("kept", query[string](t, second.URL("postgres"), "select note from notes")); diff != "" {
			t.Errorf("row (-want +got):\n%s", diff)
		}
	})
}

func TestSecondStartIsRefused(t *testing.T) {
	t.Parallel()
	o := clusterOptions(t, newest(t))
	s := start(t, o)
	_, err := pgserver.Start(t.Context(), o)
	if !errors.Is(err, pgserver.ErrInUse) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("got error %v, want ErrInUse with the number of this process", err)
	}
	if !serving(s.URL("postgres")) {
		t.Error("the first server has suffered")
	}
	stop(t, s)
	start(t, o)
}

func TestStartRefusesAnotherMajorVersion(t *testing.T) {
	t.Parallel()
	inst := newest(t)
	o := clusterOptions(t, inst)
	if err := os.WriteFile(filepath.Join(o.DataDir, "postgres", "PG_VERSION"), []byte("9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, binDir := range map[string]string{"named programs": inst.BinDir, "found programs": ""} {
		o.BinDir = binDir
		_, err := pgserver.Start(t.Context(), o)
		if !errors.Is(err, pgserver.ErrNotFound) || !strings.Contains(err.Error(), "PostgreSQL 9") || !strings.Contains(err.Error(), inst.Version) {
			t.Errorf("%s: got error %v, want ErrNotFound with both versions", name, err)
		}
	}
}

func TestStartRefusesAStrangeDirectory(t *testing.T) {
	t.Parallel()
	o := options(pgtest.DataDir(t))
	letter := filepath.Join(o.DataDir, "postgres", "letter.txt")
	if err := os.Mkdir(filepath.Dir(letter), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(letter, []byte("dear"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := pgserver.Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "neither empty") {
		t.Errorf("got error %v, want one about the directory", err)
	}
	if _, err := os.Stat(letter); err != nil {
		t.Error(err)
	}
}

func TestStartRefusesSettings(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]map[string]string{
		"fixed":     {"listen_addresses": "*"},
		"no name":   {"a = b\nport": "1"},
		"rejected":  {"max_connections": "many"},
		"not known": {"max_connexions": "10"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := clusterOptions(t, newest(t))
			o.Settings = settings
			s, err := pgserver.Start(t.Context(), o)
			if err == nil {
				stop(t, s)
				t.Fatal("the server started")
			}
			if name == "rejected" && !strings.Contains(err.Error(), "max_connections") {
				t.Errorf("the error does not name the setting: %v", err)
			}
		})
	}
}

func TestSettingValuesAreQuoted(t *testing.T) {
	t.Parallel()
	o := clusterOptions(t, newest(t))
	const value = `it's a \ and a` + "\nnew line"
	o.Settings["bough.note"] = value
	s := start(t, o)
	if diff := cmp.Diff(value, query[string](t, s.URL("postgres"), "show bough.note")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAlterSystemGoesBeforeSettings(t *testing.T) {
	t.Parallel()
	o := clusterOptions(t, newest(t))
	s := start(t, o)
	execute(t, s.URL("postgres"), "alter system set max_connections = 33")
	stop(t, s)
	s = start(t, o)
	if diff := cmp.Diff("33", query[string](t, s.URL("postgres"), "show max_connections")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTakenPortIsReplaced(t *testing.T) {
	t.Parallel()
	o := clusterOptions(t, newest(t))
	s := start(t, o)
	former, err := url.Parse(s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	l, err := net.Listen("tcp", former.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s = start(t, o)
	if strings.Contains(s.URL("postgres"), former.Host) || !serving(s.URL("postgres")) {
		t.Errorf("URL %s, want one with another port than %s", s.URL("postgres"), former.Host)
	}
}

func TestLostPasswordIsReplaced(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, inst pgserver.Installation) {
		o := clusterOptions(t, inst)
		s := start(t, o)
		former := s.URL("postgres")
		execute(t, former, "create table notes as select 'kept' as note")
		stop(t, s)
		if err := os.Remove(filepath.Join(o.DataDir, "postgres.password")); err != nil {
			t.Fatal(err)
		}
		s = start(t, o)
		if diff := cmp.Diff("kept", query[string](t, s.URL("postgres"), "select note from notes")); diff != "" {
			t.Errorf("row (-want +got):\n%s", diff)
		}
		if serving(former) {
			t.Error("the former password is still accepted")
		}
	})
}

func TestWrongPasswordFileIsNamed(t *testing.T) {
	t.Parallel()
	o := clusterOptions(t, newest(t))
	name := filepath.Join(o.DataDir, "postgres.password")
	if err := os.WriteFile(name, []byte(strings.Repeat("0", 64)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pgserver.Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "postgres.password") {
		t.Errorf("got error %v, want one that names the file", err)
	}
}

func TestDataDirOfAnyName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"it's [my] $(data) dir\u00e9 + 100%", `one, "two"`, "-D"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(filepath.Join(pgtest.DataDir(t), name))
			first := start(t, o)
			stop(t, first)
			second := start(t, o)
			for _, url := range []string{second.SocketURL("postgres"), second.URL("postgres")} {
				if diff := cmp.Diff(1, query[int](t, url, "select 1")); diff != "" {
					t.Errorf("over %s (-want +got):\n%s", url, diff)
				}
			}
		})
	}
}

func TestSocketOfALongPath(t *testing.T) {
	t.Parallel()
	o := options(filepath.Join(pgtest.DataDir(t), strings.Repeat("deep", 30)))
	s := start(t, o)
	if diff := cmp.Diff(1, query[int](t, s.SocketURL("postgres"), "select 1")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	u, err := url.Parse(s.SocketURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	if _, err := os.Stat(u.Query().Get("host")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket's directory is still there: %v", err)
	}
}

func TestStopEndsSessions(t *testing.T) {
	t.Parallel()
	for name, patience := range map[string]time.Duration{"patient": time.Minute, "impatient": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, clusterOptions(t, newest(t)))
			conn := connect(t, s.URL("postgres"))
			defer conn.Close(context.Background())
			asleep := make(chan error, 1)
			go func() {
				_, err := conn.Exec(context.Background(), "select pg_sleep(600)")
				asleep <- err
			}()
			eventually(t, "the session sleeps", func() bool {
				return query[int](t, s.URL("postgres"), "select count(*) from pg_stat_activity where wait_event = 'PgSleep'") == 1
			})
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			for range 2 { // a second call changes nothing
				if err := s.Stop(ctx); err != nil {
					t.Error(err)
				}
			}
			if err := <-asleep; err == nil {
				t.Error("the session ended in success")
			}
			select {
			case <-s.Done():
			default:
				t.Error("Done is not closed")
			}
			if err := s.Err(); err != nil {
				t.Errorf("Err: %v", err)
			}
		})
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	o := clusterOptions(t, newest(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pgserver.Start(ctx, o); err == nil {
		t.Fatal("the server started")
	}
	start(t, o) // nothing is left that keeps the next from starting
}

func TestRootUsesAnotherPlaceForUnreachableData(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("system: only root's directories are closed to PostgreSQL's user")
	}
	base := pgtest.DataDir(t)
	home := filepath.Join(base, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	lodgings := filepath.Join(base, "lodgings")
	o := pgserver.WithLodgings(options(filepath.Join(home, "checkout", ".bough")), lodgings)

	s := start(t, o)
	if !strings.HasPrefix(s.ClusterDir(), lodgings+"/") {
		t.Errorf("the cluster is in %s, want it below %s", s.ClusterDir(), lodgings)
	}
	if target, err := os.Readlink(filepath.Join(o.DataDir, "postgres")); err != nil || target != s.ClusterDir() {
		t.Errorf("the link leads to %q, %v, want %s", target, err, s.ClusterDir())
	}
	if info, err := os.Stat(home); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("root's home has become %v, %v", info.Mode(), err)
	}
	execute(t, s.URL("postgres"), "create table notes as select 'kept' as note")
	stop(t, s)

	s = start(t, o)
	if diff := cmp.Diff("kept", query[string](t, s.URL("postgres"), "select note from notes")); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
	stop(t, s)

	// A crash between moving the cluster and making the link.
	if err := os.Remove(filepath.Join(o.DataDir, "postgres")); err != nil {
		t.Fatal(err)
	}
	s = start(t, o)
	if diff := cmp.Diff("kept", query[string](t, s.URL("postgres"), "select note from notes")); diff != "" {
		t.Errorf("row without the link (-want +got):\n%s", diff)
	}
	stop(t, s)

	// Who removes the data directory wants an empty one, and may be mistaken.
	if err := os.RemoveAll(o.DataDir); err != nil {
		t.Fatal(err)
	}
	s = start(t, o)
	if query[bool](t, s.URL("postgres"), "select to_regclass('notes') is not null") {
		t.Error("the new data directory has the former one's data")
	}
	kept, err := filepath.Glob(filepath.Join(lodgings, "*", "postgres-*", "PG_VERSION"))
	if err != nil || len(kept) != 1 {
		t.Errorf("the former data are in %v, %v, want one place", kept, err)
	}
}

func TestRootMovesAClusterThatBecameUnreachable(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("system: only root's directories are closed to PostgreSQL's user")
	}
	base := pgtest.DataDir(t)
	o := pgserver.WithLodgings(options(filepath.Join(base, "home", ".bough")), filepath.Join(base, "lodgings"))
	s := start(t, o)
	execute(t, s.URL("postgres"), "create table notes as select 'kept' as note")
	stop(t, s)
	if err := os.Chmod(filepath.Join(base, "home"), 0o700); err != nil {
		t.Fatal(err)
	}
	s = start(t, o)
	if diff := cmp.Diff("kept", query[string](t, s.URL("postgres"), "select note from notes")); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func TestRootHandsOverAClusterOfItsOwn(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("system: only root can hand over a cluster")
	}
	o := clusterOptions(t, newest(t))
	err := filepath.WalkDir(filepath.Join(o.DataDir, "postgres"), func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, 0, 0))
	})
	if err != nil {
		t.Fatal(err)
	}
	if s := start(t, o); !serving(s.URL("postgres")) {
		t.Error("the server does not serve")
	}
}

func TestUnfinishedClusterIsRemoved(t *testing.T) {
	t.Parallel()
	o := options(pgtest.DataDir(t))
	leftover := filepath.Join(o.DataDir, "postgres.new-123", "data")
	if err := os.MkdirAll(leftover, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(leftover, "PG_VERSION"), []byte("18\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, o)
	if !serving(s.URL("postgres")) {
		t.Error("the server does not serve")
	}
	entries, err := os.ReadDir(o.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff([]string{"bough.lock", "postgres", "postgres.password", "postgres.port"}, slices.Sorted(slices.Values(names))); diff != "" {
		t.Errorf("the data directory (-want +got):\n%s", diff)
	}
}

// With SocketOnly the superuser comes over the socket; others come over TCP as well. What pg_hba.conf says besides stays.
func TestSuperuserComesOverTheSocketOnly(t *testing.T) {
	t.Parallel()
	o := options(pgtest.DataDir(t))
	o.SocketOnly = true
	s := start(t, o)
	if serving(s.URL("postgres")) || !serving(s.SocketURL("postgres")) {
		t.Error("the superuser is let in over TCP, or not over the socket")
	}
	execute(t, s.SocketURL("postgres"), "create role "+pgserver.EngineRole+" login password '"+s.EnginePassword()+"'")
	if !serving(s.EngineURL("postgres")) {
		t.Error("the engine is not let in over TCP")
	}
	running, err := pgserver.RunningSocketURL(o.DataDir, "postgres")
	if err != nil || !serving(running) {
		t.Errorf("the running server's socket is %s, %v", running, err)
	}
	if err := s.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if again := start(t, o); !serving(again.EngineURL("postgres")) {
		t.Error("the engine's password is another after a restart")
	}
}
