package server_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/pgserver"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/servertest"
)

// The doctor names what would make operations fail, and says when all is well.
func TestDoctorNamesWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	change, roles := ownRoles(t)
	i := newInstallation(t)
	p := start(t, append(i.args, roles...), nil)
	c := p.client(t)
	lost, moved := createReady(t, c, "lost"), createReady(t, c, "moved")
	p.stop(t)
	cfg := servertest.Config(t, i.s.Main, i.s.Control, change)
	well := findings(t, cfg)
	for _, want := range []string{"ok: all 2 branches have their databases", "ok: no other program is connected to main", "are free on the disk with", "pg_dump"} {
		if !strings.Contains(well, want) {
			t.Errorf("while all is well the doctor does not say %q:\n%s", want, well)
		}
	}

	i.s.Exec(t, i.s.Main, "drop database "+quoted(lost.DatabaseName)+" with (force)")
	kept := moved.DatabaseName + "_kept"
	i.s.Exec(t, i.s.Main, "alter database "+quoted(moved.DatabaseName)+" rename to "+quoted(kept))
	t.Cleanup(func() { drop(t, i.s.Main, "database if exists "+quoted(kept)+" with (force)") })
	conn, err := pgx.Connect(t.Context(), i.s.Main)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "begin; lock table t in access exclusive mode; select pg_sleep(5.5)"); err != nil {
		t.Fatal(err)
	}
	cfg = servertest.Config(t, i.s.Main, i.s.Control, change, func(c *server.Config) {
		if err := c.Branching.DiskReserve.Set("50%"); err != nil {
			t.Fatal(err)
		}
	})
	ill := findings(t, cfg)
	for _, want := range []string{
		`warn: the database "` + lost.DatabaseName + `" of branch lost does not exist`,
		`warn: database "` + kept + `" was renamed: it is of branch moved`,
		`warn: the database "` + moved.DatabaseName + `" of branch moved does not exist`,
		"warn: 1 sessions of other programs are in main",
		"warn: public.t is locked (ACCESS EXCLUSIVE) by process",
		"kept in reserve",
	} {
		if !strings.Contains(ill, want) {
			t.Errorf("the doctor does not say %q:\n%s", want, ill)
		}
	}
	if strings.Contains(ill, "ok: all") {
		t.Errorf("the doctor finds the branches well:\n%s", ill)
	}
}

// The embedded server's ballast, its disk and the version of its programs are looked at as well.
func TestDoctorLooksAtTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 600<<20)
	args := []string{"--data-dir", filepath.Join(disk, "bough"), "--pool.total", "10"}
	p := start(t, args, nil)
	ballast := filepath.Join(disk, "bough", "postgres", "bough.ballast")
	eventually(t, "the ballast", func() bool { _, err := os.Stat(ballast); return err == nil })
	diagnose := func() string {
		t.Helper()
		program, err := program()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, append([]string{"doctor"}, args...)...)
		cmd.Dir = t.TempDir()
		out, _ := cmd.CombinedOutput() // fails where something is amiss
		return string(out)
	}
	if out := diagnose(); !strings.Contains(out, "48 MB of ballast can be given up") || !strings.Contains(out, "are free on the disk") {
		t.Errorf("while all is well:\n%s", out)
	}
	giveBack := fillTo(t, disk, 20<<20)
	eventually(t, "the ballast's end", func() bool { _, err := os.Stat(ballast); return os.IsNotExist(err) })
	if out := diagnose(); !strings.Contains(out, "there is no ballast") {
		t.Errorf("without ballast:\n%s", out)
	}
	giveBack()
	giveBack = fillTo(t, disk, 40<<20)
	if out := diagnose(); !strings.Contains(out, "fail") || !strings.Contains(out, "is almost full") {
		t.Errorf("with a full disk:\n%s", out)
	}
	giveBack()
	p.stop(t)
}

// A server whose program was upgraded while it runs is told apart from one that was not.
func TestDoctorComparesTheRunningServerWithItsProgram(t *testing.T) {
	t.Parallel()
	found, err := pgserver.Find(pgserver.FindOptions{BinDir: os.Getenv("BOUGH_TEST_POSTGRES_BIN"), CacheDir: pgserver.DefaultCacheDir()})
	if err != nil {
		t.Fatal(err)
	}
	s := pgtest.Start(t, "", nil)
	opts := filepath.Join(s.ClusterDir(), "postmaster.opts")
	text, err := os.ReadFile(opts)
	if err != nil {
		t.Fatal(err)
	}
	server := servertest.Server{}
	server.Exec(t, s.URL("postgres"), "create database main")
	cfg := servertest.Config(t, s.URL("main"), "")
	if out := findings(t, cfg); strings.Contains(out, "by now: the server may fail") {
		t.Errorf("%s is taken for another version:\n%s", found, out)
	}
	newer := filepath.Join(pgtest.DataDir(t), "postgres")
	if err := os.WriteFile(newer, []byte("#!/bin/sh\necho 'postgres (PostgreSQL) "+"99.1 (Debian 99.1-1)'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), " ")
	if err := os.WriteFile(opts, []byte(newer+" "+rest), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := findings(t, cfg); !strings.Contains(out, "is of version 99.1 by now: the server may fail to load libraries") {
		t.Errorf("the upgrade is not named:\n%s", out)
	}
}
