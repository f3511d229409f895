package pgserver

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// A PostgreSQL that is killed in the middle of CREATE DATABASE leaves the directory of a database that does not exist.
// PostgreSQL itself never removes it.
//
// The directories are listed while no server runs, and removed when the next one has recovered and its pg_database does
// not have them. That is safe:
//
//   - What was there before the start cannot belong to a CREATE DATABASE of the running server: it takes a new number,
//     and none that has a directory (check_db_file_conflict in PostgreSQL's dbcommands.c).
//   - A CREATE DATABASE that was committed before the end of the former server is in pg_database once recovery has ended,
//     and its row is there for every snapshot. It cannot be prepared (PREPARE TRANSACTION), since it runs in no
//     transaction block.
//   - Recovery ends with a checkpoint, so that nothing is to be written into the directory any more, and without a row
//     no session can open it.
//   - A standby, which replays what others do, is left alone.
//
// Left alone are also numbers that initdb gives, links, directories with anything in them that PostgreSQL does not put
// into a database's, and all that is not directly in base: tablespaces, base/pgsql_tmp.

// firstUserOID is the least number that CREATE DATABASE gives (FirstNormalObjectId in PostgreSQL's transam.h).
const firstUserOID = 16384

// databaseFile matches what is in a database's directory: relations with their forks and segments, temporary ones, and
// the files beside them.
var databaseFile = regexp.MustCompile(`^(PG_VERSION|pg_filenode\.map(\.tmp)?|pg_internal\.init(\.\d+)?|(t\d+_)?\d+(_(fsm|vm|init))?(\.\d+)?|pgsql_tmp.*)$`)

// databaseDirs lists the directories in base that may be of databases made by users. No server runs.
func databaseDirs(cluster string) []uint32 {
	entries, err := os.ReadDir(filepath.Join(cluster, "base"))
	if err != nil {
		return nil // a new cluster, or one that does not start either
	}
	var oids []uint32
	for _, e := range entries {
		oid, err := strconv.ParseUint(e.Name(), 10, 32)
		if err == nil && e.IsDir() && oid >= firstUserOID && strconv.FormatUint(oid, 10) == e.Name() {
			oids = append(oids, uint32(oid))
		}
	}
	return oids
}

// removeLeftovers removes those of the directories, listed before the server's start, that belong to no database.
func (s *Server) removeLeftovers(ctx context.Context, before []uint32) {
	if len(before) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	left, err := s.withoutDatabase(ctx, before)
	if err != nil {
		s.log.Warn("looking for the directories of databases that do not exist", "error", err)
		return
	}
	for _, oid := range left {
		dir := filepath.Join(s.cluster, "base", strconv.FormatUint(uint64(oid), 10))
		size, ok, err := databaseContents(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err == nil && !ok:
			s.log.Warn("a directory belongs to no database, but holds what PostgreSQL does not put there; it is left alone", "dir", dir)
			continue
		case err == nil:
			err = os.RemoveAll(dir)
		}
		if err != nil {
			s.log.Warn("removing the directory of a database that does not exist", "dir", dir, "error", err)
			continue
		}
		s.log.Info("removed what a PostgreSQL that was killed left of a database", "dir", dir, "bytes", size)
	}
}

// withoutDatabase returns the numbers that no database has.
func (s *Server) withoutDatabase(ctx context.Context, oids []uint32) ([]uint32, error) {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	numbers := make([]int64, len(oids))
	for i, oid := range oids {
		numbers[i] = int64(oid)
	}
	rows, err := conn.Query(ctx, `
		select n::oid from unnest($1::bigint[]) n
		where not pg_is_in_recovery() and not exists (select from pg_database d where d.oid = n::oid)
		order by 1`, numbers)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uint32])
}

// databaseContents returns the size of a directory's files; ok is false when there is anything else in it than what
// PostgreSQL puts there.
func databaseContents(dir string) (size int64, ok bool, err error) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return 0, false, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, false, err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !databaseFile.MatchString(e.Name()) {
			return 0, false, nil
		}
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
	}
	return size, true, nil
}
