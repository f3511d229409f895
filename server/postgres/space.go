package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/diskspace"
	"github.com/boughdb/bough/server/pgcopy"
)

// Clone makes Target a copy of Source. The source stays in use: requests of this installation wait for the moment of
// the copy where that is short, otherwise the copy is read from a snapshot. On an error Target may be left behind,
// marked as incomplete.
//
// It is given up, with a diskspace.ErrInsufficient, when the disk gets full. An error because of a lock says who holds it.
func (c *Cluster) Clone(ctx context.Context, r CloneRequest) (res CloneResult, err error) {
	err = c.GuardSpace(ctx, "the copy", func(ctx context.Context) error {
		res, err = c.clone(ctx, r)
		return err
	})
	return res, c.explainClone(ctx, r, err)
}

// GuardSpace does work that fills the server's disk, and ends its context when little is left. The error is then a
// diskspace.ErrInsufficient; so it is where PostgreSQL itself found the disk full.
func (c *Cluster) GuardSpace(ctx context.Context, what string, do func(ctx context.Context) error) error {
	watched, stop := c.cfg.Disk.Watch(ctx, what)
	err := stop(do(watched))
	if hasCode(err, "53100") { // disk_full
		return fmt.Errorf("%w: %w", diskspace.ErrInsufficient.Msgf("the disk is full; %s was given up", what), err)
	}
	return err
}

// Rooms are what work without rows of its own is taken to need: an empty database is 8 MB and as much in the log.
const (
	schemaRoom  = 32 << 20
	reflinkRoom = 16 << 20
)

// requireRoom returns a diskspace.ErrInsufficient when the disk has no room for a copy of so many bytes.
//
// What is written through the log takes its size once more there, as far as PostgreSQL lets the log grow before it uses
// its files again: max_wal_size is passed by the time that a checkpoint takes.
func (c *Cluster) requireRoom(ctx context.Context, conn *pgx.Conn, s Strategy, size int64) error {
	if c.cfg.Disk == nil {
		return nil
	}
	need := size
	switch s {
	case StrategyReflink:
		need = reflinkRoom
	case StrategyFileCopy:
		need += reflinkRoom
	default:
		var log int64
		err := conn.QueryRow(ctx, "select pg_size_bytes(current_setting('max_wal_size'))").Scan(&log)
		if err != nil {
			return fmt.Errorf("asking how large the server's log may get: %w", err)
		}
		need += min(size, 2*log)
	}
	return c.cfg.Disk.Require(need, "the copy")
}

// requireSchemaRoom is requireRoom for a copy of a schema without rows, of which little is known beforehand.
func (c *Cluster) requireSchemaRoom() error {
	if c.cfg.Disk == nil {
		return nil
	}
	return c.cfg.Disk.Require(schemaRoom, "the copy")
}

// CheckRoom returns a diskspace.ErrInsufficient when a clone of a database would be refused for want of space.
func (c *Cluster) CheckRoom(ctx context.Context, database string, schemaOnly bool) error {
	if c.cfg.Disk == nil {
		return nil
	}
	if schemaOnly {
		return c.requireSchemaRoom()
	}
	conn, err := c.admin(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	src, err := c.inspect(ctx, conn, database)
	if err != nil {
		return err
	}
	s, _, err := c.choose(ctx, conn, CloneRequest{Source: database}, src)
	if errors.Is(err, ErrSourceInUse) {
		return nil // which the clone itself tells, where it is so still
	}
	if err != nil {
		return err
	}
	return c.requireRoom(ctx, conn, s, src.size)
}

// Disk is the guard of the file system with the server's data, nil where that is not known.
func (c *Cluster) Disk() *diskspace.Guard { return c.cfg.Disk }

// explainClone says what a user can do about the error of a clone.
func (c *Cluster) explainClone(ctx context.Context, r CloneRequest, err error) error {
	var unsupported *pgcopy.UnsupportedError
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case pgcopy.Retryable(err), hasCode(err, "55P03", "40P01"):
		return c.explainLock(ctx, r.Source, err)
	case errors.As(err, &unsupported) && !r.SchemaOnly: // CannotCopyError has its own advice
		return c.adviseUnsupported(ctx, r, err)
	}
	return err
}

// adviseUnsupported says what helps against objects that cannot be copied while the source is in use. To close sessions
// does so only where there are any, and where the source may be a template otherwise.
func (c *Cluster) adviseUnsupported(ctx context.Context, r CloneRequest, err error) error {
	var advice []string
	if c.dumpProgram() == "" {
		advice = append(advice, "install a pg_dump of the server's version or newer")
	}
	if c.cfg.Strategy != StrategyCopy {
		if conn, connErr := c.admin(ctx, r.op()); connErr == nil {
			defer conn.Close(context.WithoutCancel(ctx))
			src, srcErr := c.inspect(ctx, conn, r.Source)
			if n := src.externalSessions + src.preparedXact; srcErr == nil && src.template && n > 0 {
				advice = append(advice, fmt.Sprintf("end the %d sessions and prepared transactions of other programs in database %q, so that it can be a template", n, r.Source))
			}
		}
	}
	if len(advice) == 0 {
		return err
	}
	return fmt.Errorf("%w (what helps: %s)", err, strings.Join(advice, ", or "))
}

// LocalDataDirectory returns the data directory of the server that a connection string leads to, where it is a directory
// of this machine; else why that is not known.
//
// The name alone proves nothing: the server may be in a container, or behind a tunnel, and another one of this machine
// have a directory of that name. The connection must be local at both its ends, and the number that initdb gave the
// cluster the same, where the file with it can be read.
func LocalDataDirectory(ctx context.Context, connString string) (dir, why string, err error) {
	conn, err := pgx.Connect(ctx, connString)
	if err != nil {
		return "", "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if !local(conn.PgConn().Conn().RemoteAddr()) {
		return "", "the server is on another machine", nil
	}
	var there bool
	err = conn.QueryRow(ctx, "select pg_has_role('pg_read_all_settings', 'usage')").Scan(&there)
	if err != nil {
		return "", "", err
	}
	if !there {
		return "", "the role may not read the setting data_directory (grant pg_read_all_settings)", nil
	}
	var loopback bool
	var system int64
	err = conn.QueryRow(ctx, `
		select current_setting('data_directory'), coalesce(host(inet_server_addr()) like '127.%' or host(inet_server_addr()) = '::1', true),
			case when has_function_privilege('pg_control_system()', 'execute') then (select system_identifier from pg_control_system()) else 0 end`).Scan(&dir, &loopback, &system)
	if err != nil {
		return "", "", err
	}
	if !loopback {
		return "", "the server is in a container or on another machine", nil
	}
	if _, err := os.Stat(dir); err != nil {
		return "", "the data directory " + dir + " is not of this machine, or cannot be seen", nil
	}
	if control, err := os.ReadFile(filepath.Join(dir, "global", "pg_control")); err == nil && len(control) >= 8 && system != 0 &&
		binary.NativeEndian.Uint64(control) != uint64(system) {
		return "", "the data directory " + dir + " of this machine is another server's", nil
	}
	return dir, "", nil
}

// local reports whether the other end of a connection is on this machine.
func local(addr net.Addr) bool {
	switch a := addr.(type) {
	case *net.UnixAddr:
		return true
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	}
	return false
}

// SourceUse counts what keeps a database from being used as a template: sessions of other programs, and prepared
// transactions.
func (c *Cluster) SourceUse(ctx context.Context, database string) (sessions, prepared int, err error) {
	conn, err := c.admin(ctx, "")
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	src, err := c.inspect(ctx, conn, database)
	return src.externalSessions, src.preparedXact, err
}
