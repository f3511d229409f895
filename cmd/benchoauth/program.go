package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// program is the server, a process of its own.
type program struct {
	cmd   *exec.Cmd
	url   string
	log   string
	ended chan struct{} // closed when it has ended, with err
	err   error
}

// startTime is how long the server may take until it serves.
const startTime = time.Minute

var servingURL = regexp.MustCompile(`msg=serving url=(http://\S+)`)

// programPath returns the program to measure, built from the sources unless one was named.
func (b *bench) programPath(ctx context.Context, dir string) (string, error) {
	if b.path != "" {
		return filepath.Abs(b.path)
	}
	path := filepath.Join(dir, "bough")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/boughdb/bough/cmd/bough").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the program: %w: %s", err, bytes.TrimSpace(out))
	}
	return path, nil
}

// startProgram starts the server with its default settings, but for the limits: all requests come from one address.
func startProgram(ctx context.Context, path, dir, mainURL, controlURL string) (_ *program, err error) {
	p := &program{log: filepath.Join(dir, "bough.log"), ended: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	// Not of ctx: it is to end in good order.
	p.cmd = exec.Command(path, "serve", "--listen", "127.0.0.1:0", "--metrics-listen", "", "--data-dir", filepath.Join(dir, "server"), //nolint:noctx // see above
		"--auth.rate-limit=false", "--mcp.rate-limit", "0")
	p.cmd.Stdout, p.cmd.Stderr = out, out
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "BOUGH_") { // the settings of another server
			p.cmd.Env = append(p.cmd.Env, entry)
		}
	}
	p.cmd.Env = append(p.cmd.Env, "BOUGH_DATABASE_URL="+mainURL, "BOUGH_CONTROL_DATABASE_URL="+controlURL)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	for began := time.Now(); time.Since(began) < startTime && ctx.Err() == nil && !p.hasEnded(); time.Sleep(2 * time.Millisecond) {
		text, err := os.ReadFile(p.log)
		if err != nil {
			return nil, errors.Join(err, p.stop())
		}
		if match := servingURL.FindSubmatch(text); match != nil {
			p.url = string(match[1])
			return p, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("the server does not start: %s", p.lastLine()), p.stop(), ctx.Err())
}

func (p *program) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// stop stops the server as its service manager would.
func (p *program) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(15 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	if p.err != nil {
		return fmt.Errorf("the server ended with %w: %s", p.err, p.lastLine())
	}
	return nil
}

// lastLine is the end of what the program wrote.
func (p *program) lastLine() string {
	text, _ := os.ReadFile(p.log)
	text = bytes.TrimSpace(text)
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}
