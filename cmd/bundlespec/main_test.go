package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	rootSpec = "openapi: 3.0.3\ninfo: {title: T, version: '1'}\nx-parts: [a.yaml, b.yaml]\n"
	partA    = `security: [{K: []}]
paths:
  /a:
    get: {responses: {'200': {description: ok, content: {application/json: {schema: {$ref: 'b.yaml#/components/schemas/B'}}}}}}
  /open:
    get: {security: [], responses: {'200': {description: ok}}}
components: {securitySchemes: {K: {type: apiKey, in: header, name: X-K}}}
`
	partB = "components: {schemas: {B: {type: string}}}\n"
)

func TestBundle(t *testing.T) {
	for _, tc := range []struct {
		name    string
		files   map[string]string
		wantErr string
	}{
		{"valid", map[string]string{}, ""},
		{"name twice", map[string]string{"b.yaml": partB + "paths: {/a: {}}\n"}, "b.yaml: path /a is defined twice"},
		{"component twice", map[string]string{"a.yaml": partA[:strings.Index(partA, "\ncomponents")] +
			"\ncomponents: {schemas: {B: {type: integer}}, securitySchemes: {K: {type: apiKey, in: header, name: X-K}}}\n"}, "components/schemas B is defined twice"},
		{"reference to no part", map[string]string{"b.yaml": "components: {schemas: {B: {$ref: 'c.yaml#/x'}}}\n"}, "leads to no part"},
		{"dangling reference", map[string]string{"b.yaml": "components: {schemas: {C: {type: string}}}\n"}, "B"},
		{"unknown key", map[string]string{"b.yaml": partB + "pathes: {}\n"}, `unexpected key "pathes"`},
		{"missing part", map[string]string{"openapi.yaml": strings.Replace(rootSpec, "b.yaml", "z.yaml", 1), "a.yaml": "paths: {}\n"}, "z.yaml"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			files := map[string]string{"openapi.yaml": rootSpec, "a.yaml": partA, "b.yaml": partB}
			for name, text := range tc.files {
				files[name] = text
			}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, err := bundle(dir)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error = %v, want %q in it", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"'#/components/schemas/B'", "security: [{K: []}]"} {
				if !strings.Contains(string(out), want) {
					t.Errorf("bundle lacks %q:\n%s", want, out)
				}
			}
			if strings.Contains(string(out), "x-parts") {
				t.Error("bundle still names the parts")
			}
		})
	}
}

// The committed contract bundles, so that a broken part fails here and not only in the generator.
func TestBundleOfTheContract(t *testing.T) {
	if _, err := bundle("../../spec"); err != nil {
		t.Fatal(err)
	}
}
