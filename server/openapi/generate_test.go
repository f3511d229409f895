package openapi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/openapi"
)

// TestClientCanBeGenerated makes a Go client of a document and has the compiler check its types.
func TestClientCanBeGenerated(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some ten seconds")
	}
	t.Parallel()
	text, _ := extend(t, nasty(t), openapi.Options{Role: introspect.Owner})
	dir := t.TempDir()
	doc, code := filepath.Join(dir, "openapi.json"), filepath.Join(dir, "client.go")
	if err := os.WriteFile(doc, text, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "tool", "oapi-codegen", "-config", "../../oapi-codegen.yaml", "-package", "generated", "-generate", "client,models", "-o", code, doc)
	// The analysers that are left out object to names with percent signs and commas, which the generator does not escape.
	run(t, "vet", "-printf=false", "-structtag=false", code)
}

func run(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %v: %v\n%.3000s", args, err, out)
	}
}
