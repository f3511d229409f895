package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/boughdb/bough/"

// rule is what a package may import.
type rule struct {
	may     []string // packages of the module
	outside []string // of the guarded packages of others
}

// importRules say which packages of the module a package may import, besides the ones that are given to all. Imports
// point one way: cmd, server, httpapi, the domains, postgres; gin stays in httpapi.
var importRules = map[string]rule{
	"cmd/bough":                         {[]string{"gen/client", "server", "server/postgres", "server/pgserver"}, nil},
	"cmd/benchbranch":                   {[]string{"server/postgres", "server/pgserver", "server/pgcopy"}, nil},
	"cmd/benchtables":                   {[]string{"server/auth", "server/postgres", "server/pgserver"}, []string{"github.com/gin-gonic/gin"}},
	"cmd/benchoauth":                    {[]string{"server/oauth", "server/pgserver", "server/postgres"}, nil},
	"cmd/benchmcp":                      {[]string{"server/auth", "server/pgserver", "server/postgres"}, nil},
	"cmd/bundlespec":                    {nil, nil},
	"cmd/runtests":                      {nil, nil},
	"server":                            {[]string{"gen/db", "server/audit", "server/auth", "server/branching", "server/diskspace", "server/events", "server/httpapi", "server/introspect", "server/limits", "server/mail", "server/mcp", "server/mcp/datatools", "server/mcp/schematools", "server/oauth", "server/oauth/redirect", "server/password", "server/pgcopy", "server/pgserver", "server/postgres", "server/readsql", "server/repohost", "server/safedial", "server/tables", "server/users"}, nil},
	"server/httpapi":                    {[]string{"gen/api", "gen/db", "server/audit", "server/auth", "server/branching", "server/diskspace", "server/events", "server/introspect", "server/limits", "server/oauth", "server/openapi", "server/postgres", "server/repohost", "server/rows", "server/tables", "server/users"}, []string{"github.com/gin-gonic/gin"}},
	"server/tables":                     {[]string{"server/auth", "server/compile", "server/introspect", "server/limits", "server/postgres", "server/query", "server/rows"}, nil},
	"server/compile":                    {[]string{"server/introspect", "server/query"}, nil},
	"server/query":                      {nil, nil},
	"server/rows":                       {[]string{"server/compile", "server/limits", "server/postgres"}, nil},
	"server/introspect":                 {[]string{"server/postgres"}, nil},
	"server/openapi":                    {[]string{"server/introspect"}, nil},
	"server/branching":                  {[]string{"gen/db", "server/auth", "server/diskspace", "server/postgres", "server/pgcopy"}, nil},
	"server/events":                     {[]string{"gen/db", "server/auth", "server/safedial"}, nil},
	"server/repohost":                   {[]string{"gen/db", "server/auth", "server/branching", "server/postgres", "server/ratelimit", "server/safedial"}, nil},
	"server/audit":                      {[]string{"gen/db", "server/auth"}, nil},
	"server/oauth":                      {[]string{"gen/db", "server/auth", "server/oauth/document", "server/oauth/redirect", "server/ratelimit", "server/users"}, nil},
	"server/oauth/redirect":             {nil, nil},
	"server/oauth/document":             {[]string{"server/oauth/redirect", "server/safedial"}, nil},
	"server/safedial":                   {nil, nil},
	"server/mcp":                        {[]string{"server/auth"}, nil},
	"server/mcp/datatools":              {[]string{"server/auth", "server/introspect", "server/mcp", "server/postgres", "server/query", "server/readsql", "server/tables"}, nil},
	"server/mcp/schematools":            {[]string{"gen/db", "server/auth", "server/branching", "server/introspect", "server/mcp", "server/mcp/schematools/schematext", "server/mcp/schematools/script", "server/postgres"}, nil},
	"server/mcp/schematools/script":     {nil, nil},
	"server/mcp/schematools/schematext": {nil, nil},
	"server/readsql":                    {[]string{"server/limits", "server/postgres"}, nil},
	"server/auth":                       {[]string{"gen/db"}, nil},
	"server/users":                      {[]string{"gen/db", "server/auth", "server/mail", "server/password", "server/ratelimit"}, nil},
	"server/ratelimit":                  {[]string{"gen/db"}, nil},
	"server/password":                   {nil, nil},
	"server/mail":                       {nil, nil},
	"server/postgres":                   {[]string{"gen/db", "schema", "server/diskspace", "server/pgcopy"}, nil},
	"server/pgserver":                   {[]string{"server/diskspace"}, nil},
	"server/pgcopy":                     {[]string{"server/pgcopy/inventory"}, nil},
	"server/pgcopy/inventory":           {nil, nil},
	"server/fidelity":                   {nil, nil},
	"server/fault":                      {nil, nil},
	"server/diskspace":                  {nil, nil},
	"server/limits":                     {nil, nil},
	"server/duration":                   {nil, nil},
	"server/pgtest":                     {[]string{"server/pgserver"}, nil},
	"server/servertest":                 {[]string{"gen/api", "gen/client", "server", "server/auth", "server/pgtest", "server/postgres"}, nil},
	"gen/api":                           {nil, []string{"github.com/gin-gonic/gin"}},
	"gen/client":                        {nil, nil},
	"gen/db":                            {nil, nil},
	"schema":                            {nil, nil},
}

var (
	forAll  = []string{"server/fault", "server/duration"}
	guarded = []string{"github.com/gin-gonic/gin"}
)

func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p struct {
			ImportPath    string
			Imports, Deps []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(p.ImportPath, module)
		rule, ok := importRules[name]
		if !ok {
			t.Errorf("%s has no import rule; give it one", name)
			continue
		}
		for _, imported := range p.Imports {
			if inner, ok := strings.CutPrefix(imported, module); ok && !slices.Contains(rule.may, inner) && !slices.Contains(forAll, inner) {
				t.Errorf("%s imports %s, which its rule does not allow", name, inner)
			}
			if slices.Contains(guarded, imported) && !slices.Contains(rule.outside, imported) {
				t.Errorf("%s imports %s, which belongs to httpapi", name, imported)
			}
		}
		// A program that imports the client should not link the server.
		if name == "gen/client" && slices.Contains(p.Deps, "github.com/gin-gonic/gin") {
			t.Error("gen/client depends on gin")
		}
	}
}
