package schematools_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/branching"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/mcp"
	"github.com/boughdb/bough/server/mcp/schematools"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bundle is an installation with the tools on it.
type bundle struct {
	main    string // URL
	control string // name of the control database
	cluster *postgres.Cluster
	deps    schematools.Deps
	tools   map[string]mcp.Tool
	// Who may what: a service key, an administrator and two users, one of whom may read main.
	service, admin, user, reader *auth.Principal
}

// setup opens an installation whose main has the statements in it. Its branches are made by a working queue.
func setup(t *testing.T, statements ...string) *bundle {
	t.Helper()
	return setupOn(t, pgtest.Database(t), pgtest.Template(t, "control", migrate), statements...)
}

func setupOn(t *testing.T, main, control string, statements ...string) *bundle {
	t.Helper()
	ctx := t.Context()
	quiet := slog.New(slog.DiscardHandler)
	pool, err := pgxpool.New(ctx, control)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(ctx, "update installation set id = gen_random_uuid()"); err != nil {
		t.Fatal(err)
	}
	installation, err := db.New(pool).GetInstallationID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	vault, err := auth.NewVault("test", "", filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := postgres.OpenCluster(ctx, postgres.ClusterConfig{
		Logins: &postgres.Logins{Pool: pool, Vault: vault}, Control: pool.Config().ConnConfig.Database,
		URL: main, Installation: installation, Log: quiet, Limits: postgres.PoolLimits{Main: 5, Branch: 4, Total: 12, Idle: time.Minute},
		Sessions: postgres.CopyAround, MaxPause: time.Second, Drain: time.Second, Jobs: 1,
		DataPlane: &postgres.DataPlane{
			Roles: postgres.RoleNames{Anon: "anon", Authenticated: "authenticated", Service: "service_role"}, Schemas: []string{"public", "extra"}, ManageGrants: true,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	b := &bundle{main: main, control: pool.Config().ConnConfig.Database, cluster: cluster, tools: map[string]mcp.Tool{}}
	b.exec(t, main, "create schema extra")
	if err := cluster.SetUp(ctx); err != nil {
		t.Fatal(err)
	}
	b.exec(t, main, statements...)
	branches, err := branching.New(ctx, pool, cluster, branching.Config{
		Enabled: true, MaxBranches: 20, MaxPerUser: 5, MaxExpiry: 30 * 24 * time.Hour, Workers: 2,
	}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	work(t, pool, branches, quiet)
	t.Cleanup(func() { dropAll(t, main, installation) })
	schemas := introspect.NewCache(introspect.CacheConfig{
		Options: introspect.Options{Schemas: []string{"public", "extra"}, Roles: cluster.DataRoles().All()},
		Acquire: func(ctx context.Context, database string) (*pgx.Conn, func(), error) {
			c, err := cluster.Pools.Acquire(ctx, database)
			if err != nil {
				return nil, nil, err
			}
			return c.Conn.Conn(), c.Release, nil
		},
	})
	t.Cleanup(schemas.Close)
	b.deps = schematools.Deps{
		Branches: branches, Schemas: schemas, Acquire: cluster.Pools.Acquire, Session: cluster.Session, EngineSession: cluster.EngineSession, Roles: cluster.DataRoles(),
		ExposedSchemas: []string{"public", "extra"},
		Document:       func(context.Context, *mcp.Call) ([]byte, error) { return []byte(`{"openapi":"3.0.3"}`), nil },
	}
	b.use(b.deps)
	b.service = &auth.Principal{Service: true, Admin: true, ID: uuid.New()}
	b.admin = &auth.Principal{Admin: true, ID: uuid.New(), Role: auth.RoleAuthenticated}
	b.user = &auth.Principal{ID: uuid.New(), Role: auth.RoleAuthenticated}
	b.reader = &auth.Principal{ID: uuid.New(), Role: auth.RoleAuthenticated}
	if _, err := branches.Grant(ctx, b.admin, "main", b.reader.ID, db.AccessLevelRead); err != nil {
		t.Fatal(err)
	}
	return b
}

// use takes the tools of other dependencies.
func (b *bundle) use(d schematools.Deps) {
	for _, tool := range schematools.Tools(d) {
		b.tools[tool.Name] = tool
	}
}

// work makes what is to be done with branches be done, as the server does.
func work(t *testing.T, pool *pgxpool.Pool, branches *branching.Service, log *slog.Logger) {
	t.Helper()
	workers := river.NewWorkers()
	branches.AddWorker(workers)
	jobs, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Queues: branches.Queues(), Workers: workers, ErrorHandler: branches.ErrorHandler(), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	branches.SetJobs(jobs)
	if err := jobs.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := jobs.StopAndCancel(ctx); err != nil {
			t.Errorf("stopping the queue: %v", err)
		}
	})
}

func migrate(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	return postgres.Migrate(ctx, pool)
}

// dropAll drops the databases of the installation's branches.
func dropAll(t *testing.T, main string, installation uuid.UUID) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, main)
	if err != nil {
		t.Errorf("cleaning up: %v", err)
		return
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, "select datname from pg_database where shobj_description(oid, 'pg_database') like '%' || $1 || '%'", installation.String())
	if err != nil {
		t.Errorf("cleaning up: %v", err)
		return
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Errorf("cleaning up: %v", err)
	}
	for _, name := range names {
		if _, err := conn.Exec(ctx, "drop database if exists "+pgx.Identifier{name}.Sanitize()+" with (force)"); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
	}
}

func (b *bundle) exec(t *testing.T, url string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// value is the one value of a query.
func value[T any](t *testing.T, url, sql string) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var v T
	if err := conn.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// answer is a tool's structured result, with the line that sums it up.
type answer struct {
	Summary   string
	Untrusted bool
	JSON      string
	values    map[string]any
}

func (a answer) get(path string) any {
	var v any = a.values
	for _, key := range strings.Split(path, ".") {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

// try calls a tool as somebody, on a branch where the tool is Branched.
func (b *bundle) try(t *testing.T, p *auth.Principal, tool, branch, arguments string) (answer, error) {
	t.Helper()
	return b.tryIn(t.Context(), t, p, tool, branch, arguments)
}

func (b *bundle) tryIn(ctx context.Context, t *testing.T, p *auth.Principal, tool, branch, arguments string) (answer, error) {
	t.Helper()
	found, ok := b.tools[tool]
	if !ok {
		t.Fatalf("there is no tool %s", tool)
	}
	c := &mcp.Call{Principal: p, Tool: tool}
	if found.Branched {
		route, err := b.deps.Branches.Route(ctx, p, branch, !found.ReadOnly)
		if err != nil {
			t.Fatal(err)
		}
		c.Branch, c.Database = route.Slug, route.Database
	}
	result, err := found.Do(ctx, c, json.RawMessage(arguments))
	if err != nil {
		return answer{}, err
	}
	data, err := json.Marshal(result.Structured)
	if err != nil {
		t.Fatal(err)
	}
	fits(t, found, data)
	a := answer{Summary: result.Summary, Untrusted: result.Untrusted, JSON: string(data)}
	if err := json.Unmarshal(data, &a.values); err != nil {
		t.Fatal(err)
	}
	return a, nil
}

// fits holds a structured result against the schema that the tool is listed with.
func fits(t *testing.T, tool mcp.Tool, data []byte) {
	t.Helper()
	definition, err := tool.Definition()
	if err != nil {
		t.Fatal(err)
	}
	var listed struct {
		OutputSchema *jsonschema.Schema `json:"outputSchema"`
	}
	if err := json.Unmarshal(definition, &listed); err != nil {
		t.Fatal(err)
	}
	schema, err := listed.OutputSchema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(v); err != nil {
		t.Errorf("the result of %s does not fit its schema: %v\n%s", tool.Name, err, data)
	}
}

// call calls a tool that must work.
func (b *bundle) call(t *testing.T, p *auth.Principal, tool, branch, arguments string) answer {
	t.Helper()
	a, err := b.try(t, p, tool, branch, arguments)
	if err != nil {
		t.Fatalf("%s %s: %v", tool, arguments, explained(err))
	}
	return a
}

// refused calls a tool that must be refused with a message for the caller that has the given text in it.
func (b *bundle) refused(t *testing.T, p *auth.Principal, tool, branch, arguments, code, want string) {
	t.Helper()
	_, err := b.try(t, p, tool, branch, arguments)
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Errorf("%s %s: %v, want a refusal", tool, arguments, err)
		return
	}
	if f.Code != code || !strings.Contains(explained(err), want) {
		t.Errorf("%s %s: %s: %s; want %s: %s", tool, arguments, f.Code, explained(err), code, want)
	}
}

// explained is an error with all that it tells.
func explained(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		return strings.Join([]string{f.Message, f.Details, f.Hint}, " | ")
	}
	return err.Error()
}

// ensure makes the database of a URL.
func ensure(t *testing.T, url string) error {
	t.Helper()
	return postgres.EnsureDatabase(t.Context(), url)
}

// execFails runs a statement that must fail.
func (b *bundle) execFails(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err == nil {
		t.Fatalf("%s did not fail", sql)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come about that %s", what)
		}
	}
}
