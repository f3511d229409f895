package pgcopy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// dumpSchema lets pg_dump write the schema that the leader's snapshot sees, in
// two sections.
func (c *copier) dumpSchema(ctx context.Context) (pre, post string, err error) {
	major, err := DumpVersion(ctx, c.PGDump)
	if err != nil {
		return "", "", err
	}
	if major < c.major {
		return "", "", fmt.Errorf("%s is of version %d, too old for a server of version %d", c.PGDump, major, c.major)
	}
	watched, cancel := context.WithCancelCause(ctx)
	watcher := make(chan struct{})
	go func() {
		defer close(watcher)
		c.watchDump(watched, cancel)
	}()
	g, gctx := errgroup.WithContext(watched)
	g.Go(func() (err error) {
		pre, err = c.dump(gctx, major, "pre-data")
		return err
	})
	g.Go(func() (err error) {
		post, err = c.dump(gctx, major, "post-data")
		return err
	})
	err = g.Wait()
	cancel(context.Canceled)
	<-watcher
	return pre, post, err
}

// dumpPatience is how long a pg_dump may wait for a lock.
const dumpPatience = time.Second

// watchDump gives a dump up that waits for a lock. pg_dump waits without limit
// once it has locked the tables, for a statement that changes a view, say,
// while that statement waits for the tables that this copy has locked: nobody
// would go on, and PostgreSQL sees no deadlock, since pg_dump is outside.
func (c *copier) watchDump(ctx context.Context, cancel context.CancelCauseFunc) {
	conn, err := pgx.ConnectConfig(ctx, c.Source)
	if err != nil {
		if ctx.Err() == nil {
			cancel(fmt.Errorf("watching pg_dump: %w", err))
		}
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var since time.Time
	for {
		var waiting bool
		err := conn.QueryRow(ctx, `
			select exists (
				select from pg_catalog.pg_stat_activity
				where datname = current_database() and usename = current_user and application_name = $1 and wait_event_type = 'Lock')`,
			c.dumpName()).Scan(&waiting)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			cancel(fmt.Errorf("watching pg_dump: %w", err))
			return
		case !waiting:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > dumpPatience:
			cancel(&sourceChangedError{errors.New("pg_dump waits for a statement that waits for this copy")})
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// dumpName is the application_name of pg_dump's sessions: the caller's.
func (c *copier) dumpName() string {
	if name := c.Source.RuntimeParams["application_name"]; name != "" {
		return name
	}
	return "pgcopy"
}

// DumpVersion asks a pg_dump for its major version.
func DumpVersion(ctx context.Context, path string) (int, error) {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("running %s: %w", path, err)
	}
	m := regexp.MustCompile(`\(PostgreSQL\) (\d+)`).FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("%s is no pg_dump, its version is %q", path, strings.TrimSpace(string(out)))
	}
	return strconv.Atoi(string(m[1]))
}

// dump returns one section of the schema. Large objects are copied with the
// rows, and a copy that subscribed would take changes away from its source.
func (c *copier) dump(ctx context.Context, major int, section string) (string, error) {
	args := []string{
		"--section=" + section, "--snapshot=" + c.snapshot, "--no-blobs", "--no-subscriptions",
		"--encoding=" + c.encoding, "--lock-wait-timeout=500", "--no-password",
	}
	if major >= 18 {
		args = append(args, "--no-statistics")
	}
	if c.Owner != "" {
		args = append(args, "--no-owner")
	}
	cmd := exec.CommandContext(ctx, c.PGDump, args...)
	cmd.Env = c.dumpEnv()
	cmd.WaitDelay = 2 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		err = fmt.Errorf("pg_dump: %w: %s", err, strings.TrimSpace(stderr.String()))
		if strings.Contains(stderr.String(), "timeout") || strings.Contains(stderr.String(), "deadlock") || strings.Contains(stderr.String(), "does not exist") {
			return "", &sourceChangedError{err}
		}
		return "", err
	}
	return stdout.String(), nil
}

// dumpEnv returns the environment for pg_dump, with the connection as libpq
// understands it. Passwords do not go on the command line, where all can read.
func (c *copier) dumpEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"PGHOST", "PGHOSTADDR", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE", "PGOPTIONS", "PGSERVICE",
			"PGAPPNAME", "PGCONNECT_TIMEOUT", "PGCLIENTENCODING", "PGTARGETSESSIONATTRS", "LC_ALL"}, name)
	})
	env = append(env,
		"LC_ALL=C",
		"PGHOST="+c.Source.Host,
		"PGPORT="+strconv.Itoa(int(c.Source.Port)),
		"PGUSER="+c.Source.User,
		"PGPASSWORD="+c.Source.Password,
		"PGDATABASE="+c.database,
		"PGAPPNAME="+c.dumpName(),
		"PGCONNECT_TIMEOUT=10",
	)
	var options []string
	for name, value := range c.Source.RuntimeParams {
		switch name {
		case "application_name", "client_encoding", "search_path":
		case "options":
			options = append(options, value)
		default:
			options = append(options, "-c "+name+"="+strings.NewReplacer(`\`, `\\`, " ", `\ `).Replace(value))
		}
	}
	if len(options) > 0 {
		env = append(env, "PGOPTIONS="+strings.Join(options, " "))
	}
	for name, value := range tlsSettings(c.Source.ConnString()) {
		env = append(env, "PG"+strings.ToUpper(name)+"="+value)
	}
	return env
}

var keyValue = regexp.MustCompile(`(ssl\w+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S+))`)

// tlsSettings returns the settings of a connection string that the parsed
// configuration has no longer: sslmode and the names of certificate files.
func tlsSettings(connString string) map[string]string {
	settings := map[string]string{}
	if u, err := url.Parse(connString); err == nil && strings.HasPrefix(u.Scheme, "postgres") {
		for name, values := range u.Query() {
			if strings.HasPrefix(name, "ssl") {
				settings[name] = values[0]
			}
		}
		return settings
	}
	for _, m := range keyValue.FindAllStringSubmatch(connString, -1) {
		settings[m[1]] = m[2] + m[3]
	}
	return settings
}
