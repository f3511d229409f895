package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/diskspace"
	"github.com/boughdb/bough/server/pgserver"
	"github.com/boughdb/bough/server/postgres"
)

// controlState is what the doctor reads from the control database.
type controlState struct {
	url          string
	installation uuid.UUID
	owners       []db.ListDatabaseOwnersRow
}

// readControl reads the control database beside main's. One that is not there yet is no error.
func readControl(ctx context.Context, cfg Config, mainURL string) (c controlState, err error) {
	c.url = cfg.ControlDatabaseURL
	if c.url == "" {
		if c.url, err = postgres.WithDatabase(mainURL, controlDatabase); err != nil {
			return c, err
		}
	}
	conn, err := pgx.Connect(ctx, c.url)
	if isState(err, "3D000") {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	q := db.New(conn)
	if c.installation, err = q.GetInstallationID(ctx); err == nil {
		c.owners, err = q.ListDatabaseOwners(ctx)
	}
	if isState(err, "42P01", "42703") { // of an older program, which the next start brings up to date
		err = nil
	}
	return c, err
}

func isState(err error, codes ...string) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && slices.Contains(codes, e.Code)
}

// stateFindings names conditions that pass, and would make operations fail as long as they last.
func stateFindings(ctx context.Context, cfg Config, cluster *postgres.Cluster, control controlState, mainURL string) []Finding {
	var out []Finding
	add := func(level Level, advice, format string, args ...any) {
		out = append(out, Finding{level, fmt.Sprintf(format, args...), advice})
	}
	dir := ""
	if cfg.DatabaseURL == "" {
		if at, err := filepath.EvalSymlinks(pgserver.ClusterPath(cfg.DataDir)); err == nil {
			dir = at
		}
	} else {
		at, why, err := postgres.LocalDataDirectory(ctx, mainURL)
		if err != nil {
			why = err.Error()
		}
		if dir = at; dir == "" {
			add(Warning, "watch the server's disk yourself: a branch that does not fit on it stops PostgreSQL",
				"the free space of the server's disk is not known: %s", why)
		}
	}
	if dir != "" {
		out = append(out, spaceFindings(cfg, dir)...)
		out = append(out, versionFindings(ctx, dir, cluster.Capabilities().Version)...)
	}
	out = append(out, databaseFindings(ctx, cluster, control)...)

	sessions, prepared, err := cluster.SourceUse(ctx, cluster.Main())
	switch {
	case err != nil:
		add(Warning, "", "looking at the sessions in main: %v", err)
	case sessions+prepared == 0:
		add(OK, "", "no other program is connected to main")
	case prepared > 0:
		add(Warning, "commit or roll back the prepared transactions (pg_prepared_xacts)",
			"main has %d prepared transactions and %d sessions of other programs: it cannot be a template, whatever branching.sessions says", prepared, sessions)
	default:
		add(Warning, "end them before a clone of a large main, or set branching.sessions=terminate",
			"%d sessions of other programs are in main: while they are, branches with data are copied from a snapshot (branching.sessions=%s)", sessions, cfg.Branching.Sessions)
	}
	holders, err := cluster.LockHolders(ctx, cluster.Main(), 5*time.Second)
	if err != nil {
		add(Warning, "", "looking for locks in main: %v", err)
	}
	for _, h := range holders {
		add(Warning, h.Advice(), "%s: no branch can be copied from main meanwhile", h)
	}
	return out
}

// spaceFindings says how much room the disk has.
func spaceFindings(cfg Config, dir string) []Finding {
	var out []Finding
	guard := diskspace.New(dir, cfg.Branching.DiskReserve)
	u, reserve, ok := guard.Usage()
	switch {
	case !ok:
		out = append(out, Finding{Warning, "the free space of the disk with " + dir + " cannot be found out", "watch it yourself"})
	case u.Free < reserve:
		out = append(out, Finding{Failed, fmt.Sprintf("the disk with %s is almost full: %s are free, and %s are kept in reserve (branching.disk-reserve); no branch is made",
			dir, diskspace.Format(u.Free), diskspace.Format(reserve)), "delete branches that are not needed, or make the disk larger"})
	case u.Free < 3*reserve:
		out = append(out, Finding{Warning, fmt.Sprintf("the disk with %s has little room: %s are free, %s of them kept in reserve",
			dir, diskspace.Format(u.Free), diskspace.Format(reserve)), "delete branches that are not needed, or make the disk larger"})
	default:
		out = append(out, Finding{OK, fmt.Sprintf("%s are free on the disk with %s, %s of them kept in reserve", diskspace.Format(u.Free), dir, diskspace.Format(reserve)), ""})
	}
	if cfg.DatabaseURL != "" {
		return out
	}
	ballast, err := pgserver.BallastOf(dir)
	switch {
	case err != nil || ballast.Want == 0:
	case ballast.Size > 0:
		out = append(out, Finding{OK, fmt.Sprintf("%s of ballast can be given up when the disk is full", diskspace.Format(ballast.Size)), ""})
	default:
		out = append(out, Finding{Warning, "there is no ballast to be given up when the disk is full",
			fmt.Sprintf("`bough serve` makes it (%s) as soon as there is four times as much room", diskspace.Format(ballast.Want))})
	}
	return out
}

var serverVersion = regexp.MustCompile(`\(PostgreSQL\) (\d+\.\d+|\d+\S*)`)

// versionFindings compares the running server with its program on the disk: after an upgrade of the package a running
// server cannot load the libraries of the new one.
func versionFindings(ctx context.Context, dir, running string) []Finding {
	text, err := os.ReadFile(filepath.Join(dir, "postmaster.opts"))
	if err != nil {
		return nil // only the server's own user may see it
	}
	program, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if filepath.Base(program) != "postgres" || !filepath.IsAbs(program) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	printed, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return []Finding{{Warning, fmt.Sprintf("the program of the running server, %s, cannot be run: %v", program, err), "install it again: the server cannot start without it"}}
	}
	found := serverVersion.FindStringSubmatch(string(printed))
	if found == nil {
		return nil
	}
	if now, _, _ := strings.Cut(running, " "); now != found[1] {
		return []Finding{{Warning, fmt.Sprintf("PostgreSQL %s is running, but %s is of version %s by now: the server may fail to load libraries", now, program, found[1]),
			"restart PostgreSQL"}}
	}
	return nil
}

// databaseFindings compares the branches with the databases that are there.
func databaseFindings(ctx context.Context, cluster *postgres.Cluster, control controlState) []Finding {
	var out []Finding
	if control.installation == uuid.Nil {
		return nil
	}
	databases, err := cluster.Databases(ctx)
	if err != nil {
		return []Finding{{Warning, fmt.Sprintf("listing the branches' databases: %v", err), ""}}
	}
	known, found := map[uuid.UUID]db.ListDatabaseOwnersRow{}, map[string]bool{}
	for _, o := range control.owners {
		known[o.ID] = o
	}
	for _, d := range databases {
		found[d.Name] = true
		o, ok := known[d.Marker.Branch]
		switch base := strings.TrimSuffix(strings.TrimSuffix(d.Name, "_new"), "_old"); {
		case strings.HasPrefix(d.Name, "bough_image_"), d.Name == cluster.Main(), ok && base == o.DatabaseName:
		case ok:
			out = append(out, Finding{Warning, fmt.Sprintf("database %q was renamed: it is of branch %s, whose database is %q", d.Name, o.Slug, o.DatabaseName),
				"rename it back, or drop it when it is not needed; Bough leaves it alone"})
		default:
			out = append(out, Finding{Warning, fmt.Sprintf("database %q belongs to no branch that is known", d.Name), "drop it when it is not needed; what a removed branch left goes by itself"})
		}
	}
	for _, o := range control.owners {
		if o.IsMain || found[o.DatabaseName] || o.Status != db.BranchStatusReady && o.Status != db.BranchStatusError {
			continue
		}
		if o.Status == db.BranchStatusError && (o.ErrorCode == nil || *o.ErrorCode != "database_missing") {
			continue // whose making failed
		}
		out = append(out, Finding{Warning, fmt.Sprintf("the database %q of branch %s does not exist", o.DatabaseName, o.Slug), "reset the branch to create it again, or delete the branch"})
	}
	if len(out) == 0 {
		out = append(out, Finding{OK, fmt.Sprintf("all %d branches have their databases", max(len(control.owners)-1, 0)), ""})
	}
	return out
}
