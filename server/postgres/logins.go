package postgres

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/fault"
)

// Vault encrypts passwords. *auth.Vault is one.
type Vault interface {
	Seal(secret, name string) ([]byte, error)
	Open(sealed []byte, name string) (string, error)
}

// Logins keeps the passwords of the roles that Bough creates for logging in. They are in the control database, so that
// all processes of an installation know them.
type Logins struct {
	Pool  *pgxpool.Pool
	Vault Vault
}

// loginNames are the roles of one installation. Roles belong to the whole server, which several installations may share.
type loginNames struct {
	prefix        string // of all of them
	owner         string // owns schemas and objects of main and the branches; nobody logs in as it
	authenticator string // logs in for data requests
	main          string // logs in to main
}

func namesOf(installation uuid.UUID) loginNames {
	prefix := "bough_" + installation.String()[:8] + "_"
	return loginNames{prefix: prefix, owner: prefix + "owner", authenticator: prefix + "authenticator", main: prefix + "main"}
}

// namePrefix is what the names of an installation's roles begin with.
func namePrefix(role string) string { return role[:len("bough_00000000_")] }

// branch is the login of a branch. The last digits of an id are random, the first ones are the time.
func (n loginNames) branch(id uuid.UUID) string {
	digits := hex.EncodeToString(id[:])
	return n.prefix + digits[len(digits)-12:]
}

// ErrNoLogins is the error of what needs a login that reaches one database only, on a server where Bough cannot have it.
var ErrNoLogins = fault.New(fault.Unavailable, "unavailable", "the server has no login that reaches this database only").
	WithHint("`bough doctor` tells the operator what to do")

// LoginURL returns a libpq URL of a database, with the password of the login of its branch. Where the server cannot have
// such logins it is the URL of Bough's own role; Isolated tells.
func (c *Cluster) LoginURL(ctx context.Context, branch uuid.UUID, database string) (string, error) {
	if !c.Isolated() {
		return c.URL(database)
	}
	role := c.loginOf(branch, database)
	password, err := c.ensureLogin(ctx, role, branchLogin)
	if err != nil {
		return "", fmt.Errorf("reading the password of role %q: %w", role, err)
	}
	plain, err := c.URL(database)
	if err != nil {
		return "", err
	}
	return withLogin(plain, role, password)
}

// RotateLogin gives the login of a branch a new password, ends the sessions that used the old one, and returns what
// LoginURL does from now on. The error is ErrNoLogins where there is no such login.
func (c *Cluster) RotateLogin(ctx context.Context, branch uuid.UUID, database string) (string, error) {
	if !c.Isolated() {
		return "", ErrNoLogins
	}
	role := c.loginOf(branch, database)
	if _, err := c.ensureLogin(ctx, role, branchLogin); err != nil {
		return "", err
	}
	sealed, err := c.cfg.Logins.Vault.Seal(newPassword(), role)
	if err != nil {
		return "", err
	}
	// First in the control database: who dies here leaves a password that the next one sets.
	if err := db.New(c.cfg.Logins.Pool).SetLoginPassword(ctx, db.SetLoginPasswordParams{Role: role, Password: sealed}); err != nil {
		return "", err
	}
	fresh, err := c.LoginURL(ctx, branch, database)
	if err != nil {
		return "", err
	}
	conn, err := c.admin(ctx, "")
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, "select pg_terminate_backend(pid) from pg_stat_activity where usename = $1", role)
	return fresh, err
}

// DropLogin drops the login of a branch whose databases are gone.
func (c *Cluster) DropLogin(ctx context.Context, branch uuid.UUID) error {
	if c.cfg.Logins == nil || branch == uuid.Nil {
		return nil
	}
	role := c.names.branch(branch)
	conn, err := c.admin(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	exists, err := roleExists(ctx, conn, role)
	if err != nil {
		return err
	}
	if exists {
		for _, statement := range []string{"drop owned by " + ident(role), "drop role if exists " + ident(role)} {
			if err := raced(ctx, func() error { _, err := conn.Exec(ctx, statement); return err }); err != nil && !hasCode(err, "42704") { // undefined_object
				return fmt.Errorf("dropping role %q: %w", role, err)
			}
		}
	}
	return db.New(c.cfg.Logins.Pool).DeleteLogin(ctx, role)
}

// Session opens a session as the login of a database's branch, outside of the pools but within their limits. Its caller
// closes it. The error is ErrNoLogins where there is no such login.
func (c *Cluster) Session(ctx context.Context, database string) (*Session, error) {
	if !c.Isolated() {
		return nil, ErrNoLogins
	}
	var branch uuid.UUID
	if database != c.Main() {
		found, err := c.Lookup(ctx, database)
		if err != nil {
			return nil, err
		}
		if found == nil || !found.Marked {
			return nil, fmt.Errorf("database %q belongs to no branch", database)
		}
		branch = found.Marker.Branch
	}
	role := c.loginOf(branch, database)
	password, err := c.ensureLogin(ctx, role, branchLogin)
	if err != nil {
		return nil, err
	}
	return c.Pools.session(ctx, database, role, password)
}

// loginOf is the role that logs in to a branch's database.
func (c *Cluster) loginOf(branch uuid.UUID, database string) string {
	if database == c.Main() {
		return c.names.main
	}
	return c.names.branch(branch)
}

// The attributes of the roles that log in.
const (
	requestLogin = "login noinherit nosuperuser nocreatedb nocreaterole noreplication"
	branchLogin  = "login inherit nosuperuser nocreatedb nocreaterole noreplication"
)

// ensureLogin returns the password of a role. It creates the role and sets its password where that was not done, or not
// to the end.
func (c *Cluster) ensureLogin(ctx context.Context, role, attributes string) (password string, err error) {
	store, q := c.cfg.Logins, db.New(c.cfg.Logins.Pool)
	row, err := q.GetLogin(ctx, role)
	if errors.Is(err, pgx.ErrNoRows) {
		sealed, sealErr := store.Vault.Seal(newPassword(), role)
		if sealErr != nil {
			return "", sealErr
		}
		if err := q.InsertLogin(ctx, db.InsertLoginParams{Role: role, Password: sealed}); err != nil {
			return "", err
		}
		row, err = q.GetLogin(ctx, role)
	}
	if err != nil {
		return "", err
	}
	if row.Applied {
		if password, err = store.Vault.Open(row.Password, role); err == nil {
			return password, nil
		}
	}
	conn, err := c.admin(ctx, "")
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := c.ensureRole(ctx, conn, role, attributes); err != nil {
		return "", err
	}
	if attributes == branchLogin {
		if err := c.actsAsOwner(ctx, conn, role); err != nil {
			return "", err
		}
	}
	err = pgx.BeginFunc(ctx, store.Pool, func(tx pgx.Tx) error {
		q := q.WithTx(tx)
		row, err := q.LockLogin(ctx, role)
		if err != nil {
			return err
		}
		password, err = store.Vault.Open(row.Password, role)
		switch {
		case err != nil:
			// It was encrypted with a key that is gone. Nothing is lost with the password but what was given away of it.
			c.cfg.Log.Warn("the password of a database role cannot be decrypted; setting a new one", "role", role, "error", err)
			password = newPassword()
			sealed, err := store.Vault.Seal(password, role)
			if err != nil {
				return err
			}
			if err := q.SetLoginPassword(ctx, db.SetLoginPasswordParams{Role: role, Password: sealed}); err != nil {
				return err
			}
		case row.Applied: // by another process
			return nil
		}
		if err := raced(ctx, func() error { return setPassword(ctx, conn, role, password) }); err != nil {
			return err
		}
		return q.SetLoginApplied(ctx, db.SetLoginAppliedParams{Role: role, Applied: true})
	})
	return password, err
}

// actsAsOwner makes the sessions of a role run as the owner of objects.
func (c *Cluster) actsAsOwner(ctx context.Context, conn *pgx.Conn, role string) error {
	if err := c.ensureMember(ctx, conn, c.names.owner, role, true); err != nil {
		return err
	}
	return raced(ctx, func() error {
		_, err := conn.Exec(ctx, "alter role "+ident(role)+" set role = "+literal(c.names.owner))
		return err
	})
}

// ensureRole creates a role unless it exists. The role of this connection becomes a member, so that it can do what the
// role may and end its sessions.
func (c *Cluster) ensureRole(ctx context.Context, conn *pgx.Conn, role, attributes string) error {
	exists, err := roleExists(ctx, conn, role)
	if err != nil {
		return err
	}
	if !exists {
		_, err := conn.Exec(ctx, "create role "+ident(role)+" "+attributes)
		if err != nil && !hasCode(err, errRaced...) {
			return fmt.Errorf("creating role %q: %w", role, err)
		}
		if c.cfg.Logins != nil {
			// It is another role than the one whose password was set, if there was one.
			if err := db.New(c.cfg.Logins.Pool).SetLoginApplied(ctx, db.SetLoginAppliedParams{Role: role}); err != nil {
				return err
			}
		}
	}
	if c.caps.Superuser {
		return nil
	}
	return c.ensureMember(ctx, conn, role, c.caps.Role, true)
}

// ensureMember makes member a member of role that may act as it, with its rights at once or only after SET ROLE.
func (c *Cluster) ensureMember(ctx context.Context, conn *pgx.Conn, role, member string, inherit bool) error {
	check := "pg_has_role($1::name, $2::name, 'member')"
	grant := "grant " + ident(role) + " to " + ident(member)
	if c.caps.ServerVersion >= 160000 {
		check = "pg_has_role($1::name, $2::name, 'set') and (not $3::bool or pg_has_role($1::name, $2::name, 'usage'))"
		grant += fmt.Sprintf(" with inherit %t, set true", inherit)
	} else {
		check += " and $3::bool is not null"
	}
	var is bool
	if err := conn.QueryRow(ctx, "select "+check, member, role, inherit).Scan(&is); err != nil || is {
		return err
	}
	if err := raced(ctx, func() error { _, err := conn.Exec(ctx, grant); return err }); err != nil {
		return fmt.Errorf("making %q a member of role %q: %w", member, role, err)
	}
	return nil
}

func roleExists(ctx context.Context, q querier, role string) (exists bool, err error) {
	err = q.QueryRow(ctx, "select exists (select from pg_roles where rolname = $1)", role).Scan(&exists)
	return exists, err
}

// raced tries again what met the same statement of another process.
func raced(ctx context.Context, f func() error) error {
	for try := 0; ; try++ {
		err := f()
		if !hasCode(err, errRaced...) || try == 10 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// setPassword sets the password of a role. The server gets the verifier only, so that the password is in no log of it.
func setPassword(ctx context.Context, conn *pgx.Conn, role, password string) error {
	verifier, err := scramVerifier(password, nil)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "alter role "+ident(role)+" password "+literal(verifier)); err != nil {
		return fmt.Errorf("setting the password of role %q: %w", role, err)
	}
	return nil
}

// newPassword returns a password of 192 random bits. Its characters need no escaping in a URL.
func newPassword() string {
	random := make([]byte, 24)
	_, _ = rand.Read(random) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(random)
}

const scramIterations = 4096 // PostgreSQL's default

// scramVerifier returns what PostgreSQL stores of a password of ASCII characters (RFC 5803; PostgreSQL manual, pg_authid).
// A nil salt is a new one.
func scramVerifier(password string, salt []byte) (string, error) {
	if salt == nil {
		salt = make([]byte, 16)
		_, _ = rand.Read(salt)
	}
	salted, err := pbkdf2.Key(sha256.New, password, salt, scramIterations, sha256.Size)
	if err != nil {
		return "", err
	}
	mac := func(text string) []byte {
		h := hmac.New(sha256.New, salted)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	stored := sha256.Sum256(mac("Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", scramIterations, encode(salt), encode(stored[:]), encode(mac("Server Key"))), nil
}

// verifies reports whether a stored verifier is of the password.
func verifies(verifier, password string) bool {
	rest, ok := strings.CutPrefix(verifier, fmt.Sprintf("SCRAM-SHA-256$%d:", scramIterations))
	encoded, _, ok2 := strings.Cut(rest, "$")
	if !ok || !ok2 {
		return false
	}
	salt, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return false
	}
	same, err := scramVerifier(password, salt)
	return err == nil && hmac.Equal([]byte(same), []byte(verifier))
}

// withLogin returns the connection URL (or keyword/value string) with another role and password.
func withLogin(connString, role, password string) (string, error) {
	if !strings.HasPrefix(connString, "postgres://") && !strings.HasPrefix(connString, "postgresql://") {
		return connString + " user='" + role + "' password='" + password + "'", nil
	}
	u, err := url.Parse(connString)
	if err != nil {
		return "", errors.New("the database URL cannot be read") // err would repeat the password
	}
	u.User = url.UserPassword(role, password)
	query := u.Query()
	for _, key := range []string{"user", "password", "passfile"} {
		query.Del(key)
	}
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // libpq and pgx do not read a plus as a space
	return u.String(), nil
}
