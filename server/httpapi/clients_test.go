package httpapi_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

// The clients that npm has for PostgREST and Supabase work unchanged.
func TestPublishedClients(t *testing.T) {
	t.Parallel()
	npm := findNPM(t)
	s := servertest.Databases(t)
	me := uuid.New()
	schema, err := os.ReadFile("testdata/clients/schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	s.Run(t, func(c *server.Config) { c.API.Schemas = []string{"public", "side"} })
	s.Exec(t, s.Main, strings.ReplaceAll(string(schema), "00000000-0000-0000-0000-0000000000aa", me.String()))

	dir := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", "data.test.mjs"} {
		data, err := os.ReadFile(filepath.Join("testdata", "clients", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "BOUGH_URL="+s.URL, "BOUGH_SERVICE_KEY="+servertest.ServiceKey, "BOUGH_TOKEN="+s.Token(t, me, nil), "BOUGH_USER="+me.String())
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out.String())
		}
	}
	run(npm, "ci", "--no-audit", "--no-fund", "--prefer-offline")
	run("node", "--test", "data.test.mjs")
}
