package server

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/diskspace"
	"github.com/boughdb/bough/server/pgcopy"
	"github.com/boughdb/bough/server/pgserver"
	"github.com/boughdb/bough/server/postgres"
)

// Names of the databases on the embedded PostgreSQL, and of the control database elsewhere unless configured.
const (
	mainDatabase    = "main"
	controlDatabase = "bough"
)

// Planes are the two sides of an installation: the control database and the server with main and the branches.
type Planes struct {
	Control  *pgxpool.Pool
	Data     *postgres.Cluster
	embedded *pgserver.Server // nil with an external PostgreSQL
	// controlDisk guards the file system of the control database; nil where that is not known.
	controlDisk *diskspace.Guard
}

// Open starts the embedded PostgreSQL, or connects to the external one, and brings the control database up to date.
// The caller closes the planes.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (_ *Planes, err error) {
	p := &Planes{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	mainURL, controlURL := cfg.DatabaseURL, cfg.ControlDatabaseURL
	if mainURL == "" {
		p.embedded, err = pgserver.Start(ctx, pgserver.Options{
			DataDir: cfg.DataDir, BinDir: cfg.PostgresBin, CacheDir: pgserver.DefaultCacheDir(), Log: log, BackendMemory: cfg.PostgresMemory, SocketOnly: true,
		})
		if err != nil {
			return nil, err
		}
		if err := prepareEmbedded(ctx, p.embedded, cfg.Roles); err != nil {
			return nil, fmt.Errorf("preparing the embedded PostgreSQL: %w", err)
		}
		mainURL, controlURL = p.embedded.EngineURL(mainDatabase), p.embedded.EngineURL(controlDatabase)
	} else if controlURL == "" {
		if controlURL, err = postgres.WithDatabase(cmp.Or(cfg.DatabaseDirectURL, mainURL), controlDatabase); err != nil {
			return nil, err
		}
	}
	if err := distinct(mainURL, controlURL); err != nil {
		return nil, err
	}
	if p.embedded == nil {
		for _, url := range []string{mainURL, controlURL} {
			if err := postgres.AwaitServer(ctx, url, cfg.DatabaseWait, log); err != nil {
				return nil, err
			}
		}
	}
	if err := postgres.EnsureDatabase(ctx, controlURL); err != nil {
		return nil, fmt.Errorf("control database: %w", err)
	}
	if p.embedded == nil {
		if err := postgres.CheckControl(ctx, controlURL); err != nil {
			return nil, fmt.Errorf("control database: %w; let control-database-url or database-direct-url lead around the pooler", err)
		}
	}
	if p.Control, err = postgres.OpenControl(ctx, controlURL, cfg.Pool.Control); err != nil {
		return nil, fmt.Errorf("control database: %w", err)
	}
	if err := postgres.Migrate(ctx, p.Control); err != nil {
		return nil, err
	}
	installation, err := db.New(p.Control).GetInstallationID(ctx)
	if err != nil {
		return nil, err
	}
	logins, err := cfg.logins(p.Control, mainURL)
	if err != nil {
		return nil, err
	}
	strategy := postgres.Strategy(cfg.Branching.Strategy)
	if strategy == "auto" {
		strategy = ""
	}
	disk := p.guard(ctx, cfg, mainURL, log)
	p.controlDisk = p.guard(ctx, cfg, controlURL, log)
	p.Data, err = postgres.OpenCluster(ctx, postgres.ClusterConfig{
		URL: mainURL, DirectURL: cfg.DatabaseDirectURL, PoolMode: postgres.PoolMode(cfg.Pool.Mode), Disk: disk, Installation: installation, Log: log,
		Limits:   postgres.PoolLimits{Main: cfg.Pool.Main, Branch: cfg.Pool.Branch, Total: cfg.Pool.Total, Idle: cfg.Pool.IdleTimeout, Wait: cfg.Pool.Wait, Message: int(cfg.API.MaxRecord)},
		Sessions: postgres.SessionPolicy(cfg.Branching.Sessions), Strategy: strategy, MaxPause: cfg.Branching.MaxPause,
		Drain: cfg.Branching.DrainTimeout, Jobs: cfg.Branching.CopyJobs, KeepUserMappings: cfg.Branching.KeepUserMappings, LeaveOutUnsupported: cfg.Branching.LeaveOut,
		Reflink: p.embedded != nil && p.embedded.Reflink(),
		PGDump:  p.dumpProgram, DataPlane: cfg.dataPlane(),
		Logins: logins, Control: controlOn(mainURL, controlURL), Supervise: p.supervise(),
	})
	if err != nil {
		return nil, fmt.Errorf("main database: %w", err)
	}
	if err := p.Data.SetUp(ctx); err != nil {
		return nil, fmt.Errorf("main database: %w", err)
	}
	return p, nil
}

// guard returns a guard of the file system that a database is on, nil where that is not known.
func (p *Planes) guard(ctx context.Context, cfg Config, url string, log *slog.Logger) *diskspace.Guard {
	if p.embedded != nil {
		return diskspace.New(p.embedded.ClusterDir(), cfg.Branching.DiskReserve)
	}
	dir, why, err := postgres.LocalDataDirectory(ctx, url)
	if dir == "" {
		log.Debug("the free space of a server's disk is not known", "reason", why, "error", err)
		return nil
	}
	return diskspace.New(dir, cfg.Branching.DiskReserve)
}

// CheckRoom returns a diskspace.ErrInsufficient when the control database should not grow any more.
func (p *Planes) CheckRoom() error { return p.controlDisk.Require(0, "this") }

// prepareEmbedded gives the embedded server the role that Bough works as, and this role main and the control database.
// What an older Bough created as superuser in the control database becomes the role's too.
func prepareEmbedded(ctx context.Context, s *pgserver.Server, roles postgres.RoleNames) error {
	super, err := pgx.Connect(ctx, s.SocketURL("postgres"))
	if err != nil {
		return err
	}
	defer super.Close(context.WithoutCancel(ctx))
	engine := postgres.Engine{
		Role: pgserver.EngineRole, Password: s.EnginePassword(), Roles: roles, Databases: []string{mainDatabase, controlDatabase},
	}
	if err := postgres.PrepareEngine(ctx, super, engine); err != nil {
		return err
	}
	for _, database := range []string{mainDatabase, controlDatabase} {
		if err := postgres.EnsureDatabase(ctx, s.EngineURL(database)); err != nil {
			return err
		}
	}
	control, err := pgx.Connect(ctx, s.SocketURL(controlDatabase))
	if err != nil {
		return err
	}
	defer control.Close(context.WithoutCancel(ctx))
	if warnings, err := postgres.Adopt(ctx, control, pgserver.EngineRole); err != nil || len(warnings) > 0 {
		return errors.Join(err, fmt.Errorf("the control database: %q", warnings))
	}
	return nil
}

// supervise opens superusers' sessions on the embedded server. It is nil on others.
func (p *Planes) supervise() func(ctx context.Context, database string) (*pgx.Conn, error) {
	if p.embedded == nil {
		return nil
	}
	return func(ctx context.Context, database string) (*pgx.Conn, error) {
		return pgx.Connect(ctx, p.embedded.SocketURL(database))
	}
}

// logins keeps the passwords of the roles that log in. They are encrypted with auth.encryption-key, or with a key made
// from the password of database-url, which all processes of an installation have.
func (c *Config) logins(control *pgxpool.Pool, mainURL string) (*postgres.Logins, error) {
	main, err := pgx.ParseConfig(mainURL)
	if err != nil {
		return nil, fmt.Errorf("database-url: %w", err)
	}
	key := c.Auth.EncryptionKey
	if key == "" && main.Password != "" {
		h := hmac.New(sha256.New, []byte(main.Password))
		h.Write([]byte("passwords of database roles"))
		key = hex.EncodeToString(h.Sum(nil))
	}
	vault, err := auth.NewVault("database logins", key, filepath.Join(c.DataDir, "keys", "secrets.key"))
	if err != nil {
		return nil, fmt.Errorf("the key for passwords of database roles: %w", err)
	}
	return &postgres.Logins{Pool: control, Vault: vault}, nil
}

// controlOn is the control database's name where it is on main's server, "" elsewhere.
func controlOn(mainURL, controlURL string) string {
	main, err := pgx.ParseConfig(mainURL)
	if err != nil {
		return ""
	}
	control, err := pgx.ParseConfig(controlURL)
	if err != nil || main.Host != control.Host || main.Port != control.Port {
		return ""
	}
	return control.Database
}

// dumpProgram finds a pg_dump that can read a server of the major version, "" where there is none.
func (p *Planes) dumpProgram(major int) string {
	var candidates []string
	if p.embedded != nil {
		if path, ok := p.embedded.Installation().Tool("pg_dump"); ok {
			candidates = append(candidates, path)
		}
	}
	if found, err := pgserver.Find(pgserver.FindOptions{}); err == nil {
		if path, ok := found.Tool("pg_dump"); ok {
			candidates = append(candidates, path)
		}
	}
	// The client programs alone are enough.
	if path, err := exec.LookPath("pg_dump"); err == nil {
		candidates = append(candidates, path)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, path := range candidates {
		if version, err := pgcopy.DumpVersion(ctx, path); err == nil && version >= major {
			return path
		}
	}
	return ""
}

// distinct refuses a control database that is main: it would be copied into every branch, with all its secrets.
func distinct(mainURL, controlURL string) error {
	main, err := pgx.ParseConfig(mainURL)
	if err != nil {
		return fmt.Errorf("database-url: %w", err)
	}
	control, err := pgx.ParseConfig(controlURL)
	if err != nil {
		return fmt.Errorf("control-database-url: %w", err)
	}
	if main.Database == "" {
		return errors.New("database-url names no database")
	}
	if main.Host == control.Host && main.Port == control.Port && main.Database == control.Database {
		return fmt.Errorf("main and the control database are both %q; branches would carry Bough's secrets", main.Database)
	}
	return nil
}

// CheckMigrations returns an error unless the control database has this program's schema.
func (p *Planes) CheckMigrations(ctx context.Context) error {
	current, wanted, err := postgres.MigrationState(ctx, p.Control)
	if err == nil && current != wanted {
		err = fmt.Errorf("the control database has schema version %d, not %d", current, wanted)
	}
	return err
}

// Failed is closed when the embedded PostgreSQL was given up. Without one it never is.
func (p *Planes) Failed() <-chan struct{} {
	if p.embedded == nil {
		return nil
	}
	return p.embedded.Done()
}

// Err says why the embedded PostgreSQL was given up.
func (p *Planes) Err() error {
	if p.embedded == nil {
		return nil
	}
	return p.embedded.Err()
}

// Close closes all connections and stops the embedded PostgreSQL.
func (p *Planes) Close() error {
	if p.Data != nil {
		p.Data.Close()
	}
	if p.Control != nil {
		p.Control.Close()
	}
	if p.embedded == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return p.embedded.Stop(ctx)
}
