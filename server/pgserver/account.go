package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// account is the operating system user PostgreSQL runs as, because it refuses
// to run as root. nil stands for the user Bough itself runs as.
type account struct {
	name     string
	uid, gid int
}

// chooseAccount returns whom to run PostgreSQL as. The owner of an existing
// cluster stays its owner: data begun by an ordinary user is still that user's
// after Bough was once started by root.
func chooseAccount(cluster string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	if info, err := os.Stat(cluster); err == nil {
		if st := info.Sys().(*syscall.Stat_t); st.Uid != 0 {
			a := &account{name: strconv.Itoa(int(st.Uid)), uid: int(st.Uid), gid: int(st.Gid)}
			if u, err := user.LookupId(a.name); err == nil {
				a.name = u.Username
			}
			return a, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil || uid <= 0 {
			continue
		}
		gid, err := strconv.Atoi(u.Gid)
		if err != nil {
			continue
		}
		return &account{name: name, uid: uid, gid: gid}, nil
	}
	return nil, errors.New("PostgreSQL does not run as root, and this system has neither a user postgres nor nobody: " +
		"add one (useradd --system postgres) or start Bough as an ordinary user")
}

// command returns a command that runs as the account, with an environment free
// of PostgreSQL's own variables and of the host's language settings.
func (a *account) command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"}
	for _, key := range []string{"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if v, ok := os.LookupEnv(key); ok {
			cmd.Env = append(cmd.Env, key+"="+v)
		}
	}
	// A group of its own, so that Ctrl-C in Bough's terminal reaches Bough only,
	// which then stops the server in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	setDeathSignal(cmd.SysProcAttr)
	if a != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return cmd
}

// run runs a short command as the account and returns its output.
func (a *account) run(ctx context.Context, dir, stdin, name string, args ...string) (string, error) {
	// The death signal is bound to the thread that forks.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := a.command(ctx, dir, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		if text := strings.TrimSpace(string(out)); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return string(out), err
	}
	return string(out), nil
}

// reaches reports whether the account can enter dir, by having it run a
// program there: modes alone do not know of access lists and mounts.
func (a *account) reaches(ctx context.Context, dir, program string) bool {
	if a == nil {
		return true
	}
	_, err := a.run(ctx, dir, "", program, "--version")
	return err == nil
}

// own gives an open file to the account.
func (a *account) own(f *os.File) error {
	if a == nil {
		return nil
	}
	return f.Chown(a.uid, a.gid)
}

func (a *account) String() string {
	if a == nil {
		return "the current user"
	}
	return "user " + a.name
}
