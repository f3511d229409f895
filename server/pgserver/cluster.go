package pgserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	clusterName  = "postgres"
	passwordName = "postgres.password"
	portName     = "postgres.port"
	confName     = "bough.conf"
	rulesName    = "bough_hba.conf"

	superuser = "bough"
	loopback  = "127.0.0.1"

	// lodging is where clusters live whose data directory the account cannot
	// enter, such as one below root's home.
	lodging = "/var/lib/bough"
)

// prepareDir makes Bough's data directory. Made by root, others may pass
// through it (not list it), so that the account reaches the cluster; an
// existing directory is left as it is.
func prepareDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// place returns the resolved path of the cluster of a data directory, whether
// or not there is one yet. If the account cannot enter the data directory, the
// cluster lives below lodgings, under a name made from the directory's, and a
// link leads to it.
func place(ctx context.Context, dataDir, lodgings string, acc *account, inst Installation, log *slog.Logger) (string, error) {
	link := filepath.Join(dataDir, clusterName)
	program := filepath.Join(inst.BinDir, "postgres")
	info, err := os.Lstat(link)
	switch {
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		cluster, err := filepath.EvalSymlinks(link)
		if err != nil {
			return "", fmt.Errorf("the cluster that %s leads to is gone (remove the link to begin with an empty one): %w", link, err)
		}
		if !acc.reaches(ctx, filepath.Dir(cluster), program) {
			return "", fmt.Errorf("%s cannot enter %s, where %s leads to", acc, filepath.Dir(cluster), link)
		}
		return cluster, nil
	case err == nil && !info.IsDir():
		return "", fmt.Errorf("%s is not a directory", link)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	exists := err == nil
	if acc.reaches(ctx, dataDir, program) {
		return link, nil
	}

	sum := sha256.Sum256([]byte(dataDir))
	home := filepath.Join(lodgings, hex.EncodeToString(sum[:6]))
	cluster := filepath.Join(home, clusterName)
	if err := makeDirs(home, 0o711); err != nil {
		return "", fmt.Errorf("%s cannot enter %s, and there is no other place for its data: %w", acc, dataDir, err)
	}
	if !acc.reaches(ctx, home, program) {
		return "", fmt.Errorf("%s can enter neither %s nor %s", acc, dataDir, home)
	}
	if _, err := os.Lstat(cluster); err == nil {
		// Without its password the cluster belongs to a data directory that was
		// removed and made anew, which asks for an empty one. Data are never
		// deleted, though.
		_, err := os.Lstat(filepath.Join(dataDir, passwordName))
		if exists || errors.Is(err, fs.ErrNotExist) {
			if err := dismiss(ctx, cluster, log); err != nil {
				return "", err
			}
			aside := cluster + "-" + time.Now().UTC().Format("20060102T150405.000")
			if err := os.Rename(cluster, aside); err != nil {
				return "", fmt.Errorf("moving the former cluster aside: %w", err)
			}
			log.Warn("the data directory was removed before; its former databases are kept", "dir", aside)
		}
	}
	if exists {
		if err := dismiss(ctx, link, log); err != nil {
			return "", err
		}
		if err := os.Rename(link, cluster); err != nil {
			return "", fmt.Errorf("%s cannot enter %s; move %s to %s and make a link to it: %w", acc, dataDir, link, cluster, err)
		}
	}
	if err := os.Symlink(cluster, link); err != nil {
		return "", err
	}
	// The target must exist for the link to count as one that leads somewhere.
	if err := os.Mkdir(cluster, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	log.Info("PostgreSQL's user cannot enter the data directory, its data live elsewhere",
		"user", acc.name, "data_dir", dataDir, "cluster", cluster)
	return cluster, nil
}

// initialise makes the cluster unless there is one. initdb works in a sibling
// directory that takes the cluster's name when complete, so that a cluster is
// whole or not there.
func initialise(ctx context.Context, cluster, password string, acc *account, inst Installation, noSync bool) error {
	staging := cluster + ".new-"
	leftovers, err := namesLike(filepath.Dir(staging), filepath.Base(staging), "")
	if err != nil {
		return err
	}
	for _, dir := range leftovers {
		// The initdb of a killed Bough ends soon, but may still be writing. With
		// its files gone it would not free its shared memory.
		data := filepath.Join(dir, "data")
		waitFor(ctx, strayPatience, func() bool { return len(clusterProcesses(data)) == 0 })
		var err error
		if !waitFor(ctx, immediatePatience, func() bool { err = os.RemoveAll(dir); return err == nil }) {
			return fmt.Errorf("removing an unfinished cluster: %w", cmp.Or(ctx.Err(), err))
		}
	}
	if major, err := clusterMajor(cluster); err != nil || major > 0 {
		return err
	}
	if entries, err := os.ReadDir(cluster); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is neither empty nor a PostgreSQL cluster", cluster)
	}

	dir, err := os.MkdirTemp(filepath.Dir(staging), filepath.Base(staging))
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	pwfile := filepath.Join(dir, "password")
	if err := os.WriteFile(pwfile, []byte(password+"\n"), 0o600); err != nil {
		return err
	}
	if acc != nil {
		for _, path := range []string{pwfile, dir} {
			if err := os.Chown(path, acc.uid, acc.gid); err != nil {
				return err
			}
		}
	}
	data := filepath.Join(dir, "data")
	args := []string{
		"-D", data, "-U", superuser, "-E", "UTF8", "--pwfile", pwfile,
		"--auth=scram-sha-256", "--data-checksums", "--no-instructions",
	}
	if noSync {
		args = append(args, "--no-sync")
	}
	if err := initdb(ctx, dir, data, args, acc, inst); err != nil {
		return err
	}

	conf, err := os.OpenFile(filepath.Join(data, "postgresql.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(conf, "\n# Bough's own settings, written at each start. ALTER SYSTEM goes before them.\ninclude_if_exists = '%s'\n", confName)
	if err == nil && !noSync {
		err = conf.Sync()
	}
	if err := errors.Join(err, conf.Close()); err != nil {
		return err
	}
	// The system's rename replaces an empty directory, which that of os refuses.
	if err := syscall.Rename(data, cluster); err != nil {
		return fmt.Errorf("renaming %s to %s: %w", data, cluster, err)
	}
	return syncDir(filepath.Dir(cluster))
}

// initdb tries the locales in order of preference: byte order with Unicode's
// character classes, from PostgreSQL itself where it has that, so that no
// upgrade of the host's libraries changes the order of an index.
func initdb(ctx context.Context, dir, data string, args []string, acc *account, inst Installation) error {
	locales := [][]string{{"--locale=C.UTF-8"}, {"--locale=en_US.UTF-8"}, {"--locale=C"}}
	if inst.Major >= 17 {
		locales = [][]string{
			{"--locale-provider=builtin", "--locale=C.UTF-8"},
			{"--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"},
		}
	}
	for i, locale := range locales {
		if i > 0 {
			if err := os.RemoveAll(data); err != nil {
				return err
			}
		}
		_, err := acc.run(ctx, dir, "", filepath.Join(inst.BinDir, "initdb"), append(args, locale...)...)
		if err == nil {
			return nil
		}
		if i == len(locales)-1 || !strings.Contains(err.Error(), "locale") {
			return fmt.Errorf("making the cluster: initdb: %w", err)
		}
	}
	return nil
}

// handOver gives a cluster that root owns, such as a restored copy, to the
// account, which PostgreSQL insists on.
func handOver(cluster string, acc *account) error {
	if acc == nil {
		return nil
	}
	info, err := os.Stat(cluster)
	if err != nil {
		return err
	}
	if int(info.Sys().(*syscall.Stat_t).Uid) == acc.uid {
		return nil
	}
	err = filepath.WalkDir(cluster, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, acc.uid, acc.gid)
	})
	if err != nil {
		return err
	}
	return os.Chmod(cluster, 0o700)
}

var passwordPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// loadPassword returns the superuser's password, "" if there is none yet.
func loadPassword(dataDir string) (string, error) {
	name := filepath.Join(dataDir, passwordName)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	password := strings.TrimSpace(string(text))
	if !passwordPattern.MatchString(password) {
		return "", fmt.Errorf("%s does not hold a password (remove the file to have a new one set)", name)
	}
	return password, nil
}

func newPassword() string {
	var random [32]byte
	rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

// savePassword writes the password's file unless it holds the password.
func savePassword(dataDir, password string) error {
	if former, err := loadPassword(dataDir); err == nil && former == password {
		return nil
	}
	return writeFile(filepath.Join(dataDir, passwordName), password+"\n", 0o600, nil)
}

// setPassword gives the superuser of a stopped cluster a password, in
// PostgreSQL's single-user mode, which asks for none.
func setPassword(ctx context.Context, cluster, password string, acc *account, inst Installation) error {
	_, err := acc.run(ctx, cluster, fmt.Sprintf("alter role %s password '%s'\n", superuser, password),
		filepath.Join(inst.BinDir, "postgres"), "--single", "-D", cluster, "postgres")
	if err != nil {
		return fmt.Errorf("setting a new password: %w", err)
	}
	return nil
}

// loadPort returns the port of the data directory: the one remembered, if it
// is free, else a new one.
func loadPort(dataDir string, log *slog.Logger) (int, error) {
	name := filepath.Join(dataDir, portName)
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	former, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err == nil && former > 0 && former < 1<<16 && portIsFree(former) {
		return former, nil
	}
	port, err := freePort()
	if err != nil {
		return 0, err
	}
	if former > 0 {
		log.Warn("the port of PostgreSQL is taken by another program, its URLs change", "former", former, "port", port)
	}
	return port, writeFile(name, strconv.Itoa(port)+"\n", 0o644, nil)
}

// freePort picks a port below the range that systems take for outgoing
// connections, so that none of those holds it when the server comes back.
func freePort() (int, error) {
	for range 100 {
		var b [2]byte
		rand.Read(b[:])
		port := 15000 + (int(b[0])<<8|int(b[1]))%17000
		if portIsFree(port) {
			return port, nil
		}
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func portIsFree(port int) bool {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// fixed are the settings that Start gives on the command line.
var fixed = []string{
	"data_directory", "config_file", "hba_file", "listen_addresses", "port", "unix_socket_directories", "unix_socket_permissions",
	"ssl", "log_destination", "logging_collector", "log_line_prefix", "external_pid_file",
}

var settingPattern = regexp.MustCompile(`^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$`)

// checkSettings refuses what Start decides itself and what is no setting.
func checkSettings(settings map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if !settingPattern.MatchString(name) {
			return fmt.Errorf("%q is not the name of a PostgreSQL setting", name)
		}
		if slices.Contains(fixed, name) {
			return fmt.Errorf("the PostgreSQL setting %s is fixed by Bough", name)
		}
	}
	return nil
}

// writeSettings writes the file that postgresql.conf includes. These are
// defaults: what ALTER SYSTEM sets goes before them.
func writeSettings(ctx context.Context, cluster string, own map[string]string, reflink bool, acc *account, inst Installation) error {
	settings := map[string]string{
		"max_connections":                  "200",
		"shared_buffers":                   sharedBuffers(memoryBytes()),
		"wal_level":                        "replica",
		"client_connection_check_interval": "5s",
		// Local disks are solid-state today: PostgreSQL's default of 4 is for those that seek.
		"random_page_cost": "1.1",
		"timezone":         "UTC",
		"log_timezone":     "UTC",
		// Queries carry people's data and secrets.
		"log_min_error_statement": "panic",
	}
	probed := map[string]string{}
	if runtime.GOOS == "linux" {
		probed["recovery_init_sync_method"] = "syncfs"
	}
	if inst.Major >= 18 {
		settings["file_copy_method"] = "copy"
		if reflink {
			probed["file_copy_method"] = "clone"
		}
	}
	// The former file may hold what this build refuses, and would fail the probes.
	if err := os.Remove(filepath.Join(cluster, confName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A build may lack what the system has, and then refuses to start with it.
	for name, value := range probed {
		_, err := acc.run(ctx, cluster, "", filepath.Join(inst.BinDir, "postgres"), "-D", cluster, "-C", name, "-c", name+"="+value)
		if err == nil {
			settings[name] = value
		}
	}
	maps.Copy(settings, logSettings(cluster))
	maps.Copy(settings, own)

	var text strings.Builder
	text.WriteString("# Written by Bough at each start; changes are lost. Use ALTER SYSTEM instead.\n")
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s = %s\n", name, quoteSetting(settings[name]))
	}
	return writeFile(filepath.Join(cluster, confName), text.String(), 0o600, acc)
}

// Memory returns the bytes of memory that this process may use: the machine's, or the control group's limit where that is
// lower. 0 if unknown.
func Memory() uint64 { return memoryBytes() }

// writeRules writes the rules of who may connect and returns the file's path:
// those of the cluster, after one that refuses superusers over TCP.
func writeRules(cluster string, acc *account) (string, error) {
	// The directory may belong to a less privileged user: a link is not followed.
	f, err := os.OpenFile(filepath.Join(cluster, "pg_hba.conf"), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	own, err := io.ReadAll(f)
	if err != nil {
		return "", err
	}
	text := "# Written by Bough at each start from pg_hba.conf; changes are lost.\n" +
		"host all " + superuser + " all reject\n" +
		"host replication " + superuser + " all reject\n" + string(own)
	path := filepath.Join(cluster, rulesName)
	return path, writeFile(path, text, 0o600, acc)
}

// sharedBuffers is a quarter of the memory, between 128 MB and 1 GB.
func sharedBuffers(memory uint64) string {
	return strconv.FormatUint(min(max(memory/4>>20, 128), 1024), 10) + "MB"
}

func quoteSetting(value string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`, "\n", `\n`).Replace(value) + "'"
}

// makeDirs makes a directory and those above it that are missing, with the mode
// whatever the umask is: another user is to pass.
func makeDirs(dir string, mode fs.FileMode) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := makeDirs(filepath.Dir(dir), mode); err != nil {
		return err
	}
	if err := os.Mkdir(dir, mode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return os.Chmod(dir, mode)
}

// writeFile replaces a file in one step. It follows no link at the file's
// name: the directory may belong to a less privileged user.
func writeFile(name, text string, mode fs.FileMode, owner *account) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = owner.own(f)
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// namesLike returns the paths in a directory whose names begin and end so.
// filepath.Glob would take brackets in the directory's own name for a pattern.
func namesLike(dir, prefix, suffix string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), suffix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
