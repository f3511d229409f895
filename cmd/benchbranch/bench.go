package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/boughdb/bough/server/pgserver"
)

// bench is one run of everything.
type bench struct {
	options
	log     *slog.Logger
	remarks io.Writer
	report  *report
}

const (
	cloneMajor  = 18 // the first with file_copy_method
	newestMajor = 30 // bounds the search for installations
)

func (b *bench) run(ctx context.Context) error {
	deadline := time.Now().Add(b.limit)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	installations, err := b.installations()
	if err != nil {
		return err
	}
	type place struct {
		dir  string
		inst pgserver.Installation
	}
	var places []place
	for _, dir := range b.dirs {
		for _, inst := range installations {
			places = append(places, place{dir, inst})
		}
	}
	// First, since it shows what is possible; older versions make nothing of it.
	if newest := installations[0]; b.loop && newest.Major >= cloneMajor {
		dir, remove, err := mountXFS(ctx, b.dirs[0], b.room()*5/4)
		switch {
		case errors.Is(err, errNoLoop):
			b.remark("%v", err)
		case err != nil:
			return err
		default:
			defer func() {
				if err := remove(); err != nil {
					b.log.Error("removing the XFS", "error", err)
				}
			}()
			places = append([]place{{dir, newest}}, places...)
		}
	}
	var errs []error
	for i, p := range places {
		if ctx.Err() != nil {
			break
		}
		// What one does not use of its share is left to the others.
		share := time.Now().Add(time.Until(deadline) / time.Duration(len(places)-i))
		if err := b.measureServer(ctx, p.inst, installations, p.dir, share); err != nil {
			errs = append(errs, fmt.Errorf("PostgreSQL %s in %s: %w", p.inst.Version, p.dir, err))
		}
	}
	return errors.Join(errs...)
}

// remark tells at once what the report will say too.
func (b *bench) remark(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(b.report.Remarks, text) {
		b.report.Remarks = append(b.report.Remarks, text)
		fmt.Fprintln(b.remarks, text)
	}
}

// installations returns those asked for, or the best one of each major version, newest first.
func (b *bench) installations() ([]pgserver.Installation, error) {
	var found []pgserver.Installation
	for _, dir := range b.binDirs {
		inst, err := pgserver.Find(pgserver.FindOptions{BinDir: dir})
		if err != nil {
			return nil, err
		}
		found = append(found, inst)
	}
	if len(found) > 0 {
		return found, nil
	}
	// Find keeps to the major version of the data directory's cluster; this one claims to be of each in turn.
	dir, err := os.MkdirTemp("", "bough-bench-find-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	version := filepath.Join(dir, "postgres", "PG_VERSION")
	if err := os.Mkdir(filepath.Dir(version), 0o700); err != nil {
		return nil, err
	}
	for major := newestMajor; major >= pgserver.OldestMajor; major-- {
		if err := os.WriteFile(version, []byte(strconv.Itoa(major)), 0o600); err != nil {
			return nil, err
		}
		inst, err := pgserver.Find(pgserver.FindOptions{DataDir: dir, CacheDir: pgserver.DefaultCacheDir()})
		if err == nil {
			found = append(found, inst)
		} else if !errors.Is(err, pgserver.ErrNotFound) {
			return nil, err
		}
	}
	if len(found) == 0 {
		_, err := pgserver.Find(pgserver.FindOptions{CacheDir: pgserver.DefaultCacheDir()})
		return nil, err
	}
	return found, nil
}

// room is how much disk one server needs: all mains, a branch of the largest, and WAL.
func (b *bench) room() int64 {
	room := b.sizes[len(b.sizes)-1]*5/2 + 4*gigabyte
	for _, size := range b.sizes {
		room += size
	}
	return room
}

// measureServer measures with one installation on one file system until the deadline.
func (b *bench) measureServer(ctx context.Context, inst pgserver.Installation, all []pgserver.Installation, dir string, deadline time.Time) (err error) {
	files, free, err := fileSystem(dir)
	if err != nil {
		return err
	}
	if free < b.room() {
		return fmt.Errorf("there is room for %s, it takes %s", formatSize(free), formatSize(b.room()))
	}
	s, err := newServer(inst, dir, b.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	began := time.Now()
	mains, err := s.fill(ctx, b.sizes, b.tables)
	if err != nil {
		return err
	}
	s.files = files
	if s.Reflink() {
		s.files += "+reflink"
	}
	fmt.Fprintf(b.remarks, "PostgreSQL %s, %s: made the data in %s\n", inst.Version, s.files, formatSeconds(time.Since(began).Seconds()))
	s.tools = findTools(ctx, inst.Major, all)
	if s.tools.dump == "" {
		b.remark("PostgreSQL %s: no pg_dump of version %d or newer with a psql was found, so nothing is measured beside it", inst.Version, inst.Major)
	}
	b.repeat(ctx, s, mains, deadline)
	return nil
}

// job is one thing to measure.
type job struct {
	main   *dataset
	method method
}

// repeat measures everything once, then once more, as long as there is time. What takes no longer for a large main
// comes first with all its rounds, since it costs little.
func (b *bench) repeat(ctx context.Context, s *server, mains []*dataset, deadline time.Time) {
	cost := map[job]time.Duration{}
	for _, grows := range []bool{false, true} {
		for range b.rounds {
			for _, m := range s.methods(b.methods) {
				for i, d := range mains {
					if m.grows() != grows {
						continue
					}
					j := job{d, m}
					expected, known := cost[j]
					if !known && i > 0 {
						expected = expect(cost[job{mains[i-1], m}], b.fixedCost(), m, float64(d.size)/float64(mains[i-1].size))
					}
					row := b.report.row(s, d, m)
					if row.Error != "" || time.Now().Add(expected).After(deadline) {
						continue
					}
					began := time.Now()
					b.measure(ctx, s, j, row)
					cost[j] = time.Since(began)
				}
			}
		}
	}
}

// measure adds a measurement to the row.
func (b *bench) measure(ctx context.Context, s *server, j job, row *row) {
	sample, err := measure(ctx, s, j.main, j.method, b.options, b.log)
	switch {
	case ctx.Err() != nil:
		return // half a measurement is none
	case err != nil:
		row.Error = err.Error()
	default:
		row.Samples = append(row.Samples, sample)
	}
	fmt.Fprintln(b.remarks, row.progress())
}

// expect is how long a method will take for a main that is larger by a factor than one that is known.
func expect(known, fixed time.Duration, m method, factor float64) time.Duration {
	if !m.grows() || known < fixed {
		return known
	}
	return fixed + time.Duration(float64(known-fixed)*factor)
}
