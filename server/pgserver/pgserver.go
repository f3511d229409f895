package pgserver

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Options say which server to start.
type Options struct {
	// DataDir is Bough's data directory, made if it does not exist. The cluster
	// is DataDir/postgres.
	DataDir string

	// BinDir, if set, is the only place for PostgreSQL's programs. Otherwise
	// they are found as [Find] does.
	BinDir string

	// CacheDir is where [Fetch] put its builds, usually [DefaultCacheDir].
	CacheDir string

	// Log receives the supervisor's remarks and the server's own log: warnings
	// and worse at warn, everything else at debug. Nil discards them.
	Log *slog.Logger

	// Settings are written over Bough's defaults for postgresql.conf. What
	// ALTER SYSTEM sets goes before them. Addresses, port and log format are
	// fixed.
	Settings map[string]string

	// BackendMemory is the most bytes of memory of its own that a process of
	// the server may have: a statement that needs more fails, instead of the
	// system killing some process. 0 is a 16th of the machine's memory, between
	// 256 MB and 1 GB; negative for no limit. Only Linux has this limit.
	BackendMemory int64

	// SocketOnly refuses superusers who come over TCP. They are let in over the
	// Unix socket, which only Bough's own user and the server's reach.
	SocketOnly bool

	// NoSync makes a new cluster without waiting for the disk. For tests.
	NoSync bool

	// NoBallast keeps no space back for when the disk is full.
	NoBallast bool

	// In tests, instead of the constants.
	lodgings    string
	watchEvery  time.Duration
	lastBackOff time.Duration
}

// Server is a running PostgreSQL and its supervisor. If the postmaster ends, it
// is started again on the same port.
type Server struct {
	dataDir string
	cluster string
	account *account
	lock    *os.File
	log     *slog.Logger

	password  string
	port      int
	socketDir string
	socketTmp bool   // socketDir is a temporary directory of ours
	hba       string // the rules of who may connect; "" for the cluster's own
	reflink   bool

	backendMemory int64
	watchEvery    time.Duration
	lastBackOff   time.Duration

	noBallast     bool
	ballastFailed atomic.Bool
	lastFree      int64 // on the cluster's disk, when it was last looked at

	mu   sync.Mutex
	inst Installation

	cancel    context.CancelFunc // ends the supervisor
	hurry     chan struct{}      // closed when Stop has lost patience
	hurryOnce sync.Once
	done      chan struct{}
	err       error // set before done is closed
}

const (
	// readyPatience is how long a server may be silent at its start. One that
	// says it is recovering may take longer.
	readyPatience = 60 * time.Second
	progressEvery = 10 * time.Second
	stopPatience  = 60 * time.Second
	settlePause   = 500 * time.Millisecond
	retryPatience = 60 * time.Second
)

// errBusyMemory and errBusyPort are failures of a start that pass by
// themselves or with another port.
var (
	errBusyMemory = errors.New("processes of the former server are still at work")
	errBusyPort   = errors.New("the port is taken")
)

// Start makes the cluster if there is none, starts the server and returns when
// it accepts connections, which after a crash is when recovery has ended. ctx
// bounds the start only; the server runs until Stop. The error is [ErrInUse]
// or [ErrNotFound] in these cases.
func Start(ctx context.Context, o Options) (_ *Server, err error) {
	s := &Server{
		log:           o.Log,
		backendMemory: o.BackendMemory,
		watchEvery:    cmp.Or(o.watchEvery, watchEvery),
		lastBackOff:   cmp.Or(o.lastBackOff, lastBackOff),
		noBallast:     o.NoBallast,
		hurry:         make(chan struct{}),
		done:          make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := checkSettings(o.Settings); err != nil {
		return nil, err
	}
	if s.dataDir, err = prepareDir(o.DataDir); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	if s.lock, err = lockDir(s.dataDir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.release()
		}
	}()

	if s.inst, err = Find(FindOptions{BinDir: o.BinDir, DataDir: s.dataDir, CacheDir: o.CacheDir}); err != nil {
		return nil, err
	}
	if s.account, err = chooseAccount(filepath.Join(s.dataDir, clusterName)); err != nil {
		return nil, err
	}
	if !s.account.reaches(ctx, "/", filepath.Join(s.inst.BinDir, "postgres")) {
		return nil, fmt.Errorf("%s cannot run the programs in %s", s.account, s.inst.BinDir)
	}
	if err := s.prepare(ctx, o); err != nil {
		return nil, err
	}
	c, err := s.startFirst(ctx)
	if err != nil {
		return nil, err
	}
	var running context.Context
	running, s.cancel = context.WithCancel(context.Background())
	go s.supervise(running, c)
	s.log.Info("PostgreSQL is ready", "version", s.inst.Version, "port", s.port, "cluster", s.cluster, "reflink", s.reflink)
	return s, nil
}

// prepare brings the cluster into a state from which the server starts.
func (s *Server) prepare(ctx context.Context, o Options) (err error) {
	if s.cluster, err = place(ctx, s.dataDir, cmp.Or(o.lodgings, lodging), s.account, s.inst, s.log); err != nil {
		return fmt.Errorf("placing the cluster: %w", err)
	}
	if err := dismiss(ctx, s.cluster, s.log); err != nil {
		return err
	}
	major, err := clusterMajor(s.cluster)
	if err != nil {
		return err
	}
	if s.password, err = loadPassword(s.dataDir); err != nil {
		return fmt.Errorf("reading the superuser's password: %w", err)
	}
	lost := s.password == "" && major > 0
	if s.password == "" {
		s.password = newPassword()
	}
	if !lost {
		// Before the cluster that has it: a cluster without its password would
		// look like one whose password is lost.
		if err := savePassword(s.dataDir, s.password); err != nil {
			return fmt.Errorf("saving the superuser's password: %w", err)
		}
	}
	if err := initialise(ctx, s.cluster, s.password, s.account, s.inst, o.NoSync); err != nil {
		return err
	}
	if err := handOver(s.cluster, s.account); err != nil {
		return fmt.Errorf("giving the cluster to %s: %w", s.account, err)
	}
	s.reflink = clones(s.cluster)
	if err := writeSettings(ctx, s.cluster, o.Settings, s.reflink, s.account, s.inst); err != nil {
		return fmt.Errorf("writing the settings: %w", err)
	}
	if o.SocketOnly {
		if s.hba, err = writeRules(s.cluster, s.account); err != nil {
			return fmt.Errorf("writing the rules of who may connect: %w", err)
		}
	}
	if lost {
		s.log.Warn("the superuser's password is lost, setting a new one", "data_dir", s.dataDir)
		if err := setPassword(ctx, s.cluster, s.password, s.account, s.inst); err != nil {
			return err
		}
		if err := savePassword(s.dataDir, s.password); err != nil {
			return fmt.Errorf("saving the superuser's password: %w", err)
		}
	}
	if s.port, err = loadPort(s.dataDir, s.log); err != nil {
		return err
	}
	return s.placeSocket()
}

// placeSocket chooses the socket's directory: the cluster, which is private
// anyway, unless the path is longer than a socket's may be or would be taken
// for a list of paths.
func (s *Server) placeSocket() error {
	const longest = 103 // the least of the systems' limits, that of macOS
	if len(filepath.Join(s.cluster, ".s.PGSQL.65535")) <= longest && !strings.ContainsAny(s.cluster, `,"`) {
		s.socketDir = s.cluster
		return nil
	}
	dir, err := os.MkdirTemp("/tmp", "bough-")
	if err != nil {
		return fmt.Errorf("making the socket's directory: %w", err)
	}
	s.socketDir, s.socketTmp = dir, true
	if s.account != nil {
		return os.Chown(dir, s.account.uid, s.account.gid)
	}
	return nil
}

// startFirst starts the server, trying again where that helps.
func (s *Server) startFirst(ctx context.Context) (*child, error) {
	deadline := time.Now().Add(retryPatience)
	for {
		c, err := s.launch(ctx)
		if err == nil || time.Now().After(deadline) {
			return c, err
		}
		switch {
		case errors.Is(err, errBusyPort): // taken since it was looked at
			if s.port, err = loadPort(s.dataDir, s.log); err != nil {
				return nil, err
			}
		case errors.Is(err, errBusyMemory):
			s.log.Warn("waiting for the former server's processes to end")
		default:
			return nil, err
		}
		if err := pause(ctx, settlePause); err != nil {
			return nil, err
		}
	}
}

// launch starts the postmaster and waits until it accepts connections. If it
// does not, it is stopped again.
func (s *Server) launch(ctx context.Context) (*child, error) {
	if err := removeStalePID(s.cluster, s.log); err != nil {
		return nil, err
	}
	s.keepBallast(true)
	directories := databaseDirs(s.cluster)
	limit := backendMemory(s.backendMemory, memoryBytes())
	program, before := limited(filepath.Join(s.Installation().BinDir, "postgres"), limit)
	args := slices.Concat(before, []string{
		"-D", s.cluster,
		"-c", "listen_addresses=" + loopback,
		"-c", "port=" + strconv.Itoa(s.port),
		"-c", "unix_socket_directories=" + s.socketDir,
		"-c", "unix_socket_permissions=0700",
		"-c", "ssl=off",
		"-c", "log_destination=stderr",
		"-c", "logging_collector=off",
		"-c", "log_line_prefix=" + logPrefix,
	})
	if s.hba != "" {
		args = append(args, "-c", "hba_file="+s.hba)
	}
	cmd := s.account.command(context.WithoutCancel(ctx), s.cluster, program, args...)
	c, err := startChild(cmd, s.log)
	if err != nil {
		return nil, fmt.Errorf("starting PostgreSQL: %w", err)
	}
	if err := s.awaitReady(ctx, c); err != nil {
		c.stop(nil, immediatePatience)
		tail := c.log.tail()
		switch {
		case strings.Contains(tail, "pre-existing shared memory block"):
			err = errBusyMemory
		case strings.Contains(tail, "could not create any TCP/IP sockets"):
			err = errBusyPort
		}
		return nil, fmt.Errorf("starting PostgreSQL: %w; its log ends with\n\t%s", err, tail)
	}
	s.removeLeftovers(ctx, directories)
	if limit > 0 && len(before) == 0 {
		// Processes that are there already, such as the checkpointer, go without.
		if err := limitData(c.pid, limit); err != nil {
			s.log.Warn("the memory of PostgreSQL's processes is not limited", "error", err)
		}
	}
	return c, nil
}

// backendMemory is the limit of a process, 0 for none.
func backendMemory(setting int64, memory uint64) uint64 {
	switch {
	case setting < 0:
		return 0
	case setting > 0:
		return uint64(setting)
	case memory == 0:
		return 0
	}
	return min(max(memory/16, 256<<20), 1<<30)
}

// awaitReady returns when a connection succeeds.
func (s *Server) awaitReady(ctx context.Context, c *child) error {
	config, err := pgconn.ParseConfig(s.SocketURL("postgres"))
	if err != nil {
		return err
	}
	config.ConnectTimeout = 5 * time.Second
	heard := time.Now()
	report := heard.Add(progressEvery)
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		if c.hasExited() {
			c.settle(time.Second) // its last words
			if c.err == nil {
				return errors.New("it ended at once")
			}
			return c.err
		}
		conn, err := pgconn.ConnectConfig(ctx, config)
		if err == nil {
			conn.Close(ctx)
			return nil
		}
		var answer *pgconn.PgError
		if errors.As(err, &answer) {
			switch answer.Code {
			case "57P03": // cannot_connect_now: starting up or recovering
				heard = time.Now()
			case "28P01", "28000":
				return fmt.Errorf("the password in %s is not the server's (remove the file to have a new one set)", filepath.Join(s.dataDir, passwordName))
			}
		}
		if time.Since(heard) > readyPatience {
			return fmt.Errorf("it does not accept connections: %w", err)
		}
		if time.Now().After(report) {
			s.log.Info("waiting for PostgreSQL to recover", "last_answer", err.Error())
			report = time.Now().Add(progressEvery)
		}
		select {
		case <-c.exited:
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// URL returns the superuser's URL of a database, over TCP on the loopback
// address, with the password: any user of this machine can use it, unless the
// server was started with SocketOnly. It stays the same over restarts.
func (s *Server) URL(database string) string { return s.url(superuser, s.password, database) }

// EngineURL returns the URL of a database, over TCP on the loopback address, of
// the role that Bough works as. Creating the role is up to the caller. The URL
// stays the same over restarts.
func (s *Server) EngineURL(database string) string {
	return s.url(EngineRole, s.EnginePassword(), database)
}

// EngineRole is the role that Bough works as.
const EngineRole = "bough_engine"

// EnginePassword is made from the superuser's password, which does not follow
// from it.
func (s *Server) EnginePassword() string {
	h := hmac.New(sha256.New, []byte(s.password))
	h.Write([]byte("password of role " + EngineRole))
	return hex.EncodeToString(h.Sum(nil))
}

func (s *Server) url(role, password, database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(role, password),
		Host:     net.JoinHostPort(loopback, strconv.Itoa(s.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// SocketURL returns the superuser's URL of a database over the Unix socket,
// which is faster than TCP. Only Bough's own user and the server's reach it.
func (s *Server) SocketURL(database string) string {
	query := url.Values{
		"host":    {s.socketDir},
		"port":    {strconv.Itoa(s.port)},
		"sslmode": {"disable"},
	}
	u := url.URL{
		Scheme: "postgres",
		User:   url.UserPassword(superuser, s.password),
		Path:   "/" + database,
		// libpq and pgx do not read a plus as a space.
		RawQuery: strings.ReplaceAll(query.Encode(), "+", "%20"),
	}
	return u.String()
}

// DataDir returns Bough's data directory, absolute and without links.
func (s *Server) DataDir() string { return s.dataDir }

// ClusterDir returns the cluster's directory (PGDATA), without links.
func (s *Server) ClusterDir() string { return s.cluster }

// Installation returns the programs that run. After an upgrade of a package
// these are the new ones.
func (s *Server) Installation() Installation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inst
}

// Reflink reports whether the cluster's file system copies files by reference,
// so that copying a database costs neither time nor space. Only PostgreSQL 18
// and newer make use of it.
func (s *Server) Reflink() bool { return s.reflink }

// Done is closed when the server has ended for good: after Stop, or when it
// keeps failing and the supervisor has given up.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns why the supervisor gave up. It is nil while the server is
// supervised and after Stop.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Stop shuts the server down fast: open transactions are rolled back,
// connections closed, a checkpoint written. When ctx ends or a minute has
// passed, the shutdown becomes an immediate one, from which the next start
// recovers. Stop returns when the server has ended, with the error of [Server.Err].
// Further calls wait too.
func (s *Server) Stop(ctx context.Context) error {
	s.cancel()
	select {
	case <-s.done:
	case <-ctx.Done():
		s.hurryOnce.Do(func() { close(s.hurry) })
		<-s.done
	}
	return s.err
}

// release gives back what a server holds besides its processes.
func (s *Server) release() {
	if s.socketTmp {
		os.RemoveAll(s.socketDir)
	}
	unlockDir(s.lock)
}
