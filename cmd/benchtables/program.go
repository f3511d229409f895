package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/lestrrat-go/jwx/v2/jwa"
	"github.com/lestrrat-go/jwx/v2/jwk"
	"github.com/lestrrat-go/jwx/v2/jws"
	"github.com/lestrrat-go/jwx/v2/jwt"

	"github.com/boughdb/bough/server/auth"
)

// serviceKey is the key that the servers accept.
var serviceKey = auth.ServiceKeyPrefix + base64.RawURLEncoding.EncodeToString(make([]byte, 32))

// programPath returns the program to measure, built from the sources unless one was named.
func (b *bench) programPath(ctx context.Context, dir string) (string, error) {
	if b.program != "" {
		return filepath.Abs(b.program)
	}
	path := filepath.Join(dir, "bough")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/boughdb/bough/cmd/bough")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the program: %w: %s", err, bytes.TrimSpace(out))
	}
	return path, nil
}

// program is a server that runs as a process of its own.
type program struct {
	cmd     *exec.Cmd
	addr    string
	control string        // URL of its control database
	log     string        // name of the file with what it wrote
	ended   chan struct{} // closed when it has ended, with err
	err     error
	started time.Time
	ready   time.Duration // until it said where it serves
}

// startTime is how long a server may take until it serves.
const startTime = time.Minute

var servingURL = regexp.MustCompile(`msg=serving url=http://(\S+)`)

// startProgram starts the program as an operator would who has a PostgreSQL. All its settings are the defaults.
func startProgram(ctx context.Context, path, dir, name, mainURL, controlURL string) (_ *program, err error) {
	p := &program{control: controlURL, log: filepath.Join(dir, name+".log"), ended: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	// Not of ctx: it is to end in good order.
	p.cmd = exec.Command(path, "serve", "--listen", "127.0.0.1:0", "--metrics-listen", "", "--data-dir", filepath.Join(dir, name)) //nolint:noctx // see above
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = append(withoutBough(os.Environ()),
		"BOUGH_DATABASE_URL="+mainURL, "BOUGH_CONTROL_DATABASE_URL="+controlURL, "BOUGH_SERVICE_KEY="+serviceKey)
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	for time.Since(p.started) < startTime && ctx.Err() == nil && !p.hasEnded() {
		text, err := os.ReadFile(p.log)
		if err != nil {
			return nil, errors.Join(err, p.stop())
		}
		if match := servingURL.FindSubmatch(text); match != nil {
			p.ready = time.Since(p.started)
			p.addr = string(match[1])
			return p, nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil, errors.Join(fmt.Errorf("the server does not start: %s", p.lastLine()), p.stop(), ctx.Err())
}

// withoutBough takes the settings of another server out of the environment.
func withoutBough(environment []string) (out []string) {
	for _, entry := range environment {
		if !strings.HasPrefix(entry, "BOUGH_") {
			out = append(out, entry)
		}
	}
	return out
}

func (p *program) pid() int { return p.cmd.Process.Pid }

func (p *program) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// stop stops the server as its service manager would. It may be called again.
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

// token makes a key, publishes it, and signs with it an access token of a user. The identity provider would.
func (p *program) token(ctx context.Context, b *bench) (token, claims string, err error) {
	raw, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	key, err := jwk.FromRaw(raw)
	if err != nil {
		return "", "", err
	}
	if err := jwk.AssignKeyID(key); err != nil {
		return "", "", err
	}
	public, err := key.PublicKey()
	if err != nil {
		return "", "", err
	}
	data, err := json.Marshal(public)
	if err != nil {
		return "", "", err
	}
	kid := key.KeyID()
	err = b.onDatabase(ctx, p.control, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "insert into signing_keys (kid, public_jwk) values ($1, $2)", kid, data)
		return err
	})
	if err != nil {
		return "", "", err
	}
	now := time.Now()
	t, err := jwt.NewBuilder().Issuer("http://"+p.addr).Audience([]string{auth.Audience}).Subject(uuid.NewString()).
		IssuedAt(now).Expiration(now.Add(time.Hour)).Claim("role", auth.RoleAuthenticated).Claim("email", "user@example.com").Build()
	if err != nil {
		return "", "", err
	}
	content, err := json.Marshal(t)
	if err != nil {
		return "", "", err
	}
	headers := jws.NewHeaders()
	if err := headers.Set(jws.TypeKey, auth.TokenType); err != nil {
		return "", "", err
	}
	signed, err := jwt.Sign(t, jwt.WithKey(jwa.ES256, key, jws.WithProtectedHeaders(headers)))
	return string(signed), string(content), err
}

// constant is the server with the constant answer.
type constant struct {
	cmd  *exec.Cmd
	addr string
}

func startConstant() (*constant, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &constant{cmd: exec.Command(self, "-serve-constant")} //nolint:noctx // it ends when its input does
	c.cmd.Stderr = os.Stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	c.addr, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the constant server: %w", err), in.Close(), c.cmd.Wait())
	}
	c.addr = strings.TrimSpace(c.addr)
	return c, nil
}

func (c *constant) stop() error {
	err := c.cmd.Process.Kill()
	_ = c.cmd.Wait() // says that it was killed
	return err
}
