package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// queries are the statements of queries/oauth.sql by name.
type queries map[string]string

// readQueries finds the module's sources.
func readQueries(ctx context.Context) (queries, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/boughdb/bough").Output()
	if err != nil {
		return nil, fmt.Errorf("looking for the sources, of which the SQL is a part: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "queries", "oauth.sql"))
	if err != nil {
		return nil, err
	}
	return parseQueries(string(text)), nil
}

// parseQueries splits a file for sqlc. Comments are left out.
func parseQueries(text string) queries {
	all := queries{}
	name := ""
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "-- name: "); ok {
			name, _, _ = strings.Cut(rest, " ")
			continue
		}
		if name != "" && !strings.HasPrefix(line, "--") {
			all[name] += line
		}
	}
	for name, sql := range all {
		all[name] = strings.TrimSpace(sql)
	}
	return all
}

var (
	embedded  = regexp.MustCompile(`sqlc\.embed\((\w+)\)`)
	parameter = regexp.MustCompile(`@(\w+)`)
)

// script returns a statement for pgbench, with expressions in the place of its parameters.
func (q queries) script(name string, values map[string]string) (string, error) {
	sql, ok := q[name]
	if !ok {
		return "", fmt.Errorf("queries/oauth.sql has no %s any more", name)
	}
	var missing []error
	sql = embedded.ReplaceAllString(sql, "$1.*")
	sql = parameter.ReplaceAllStringFunc(sql, func(p string) string {
		value, ok := values[p[1:]]
		if !ok {
			missing = append(missing, fmt.Errorf("%s has a parameter %s that the benchmark does not know", name, p))
		}
		return value
	})
	return sql + "\n", errors.Join(missing...)
}
