// Command bundlespec joins the parts of the hand-written contract into one OpenAPI document.
//
//	bundlespec spec gen/openapi.yaml gen/client/credentials.gen.go
//
// The last file gets the client's options for credentials, made from the security schemes.
//
// spec/openapi.yaml names the parts in x-parts. Paths and components of the parts are put together in that order; a
// reference into another file becomes a reference into the bundle; a part's top-level security becomes the security
// of each of its operations that has none of its own. A name defined twice, a reference into a file that is no part
// and a document that is not valid OpenAPI are errors.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"go.yaml.in/yaml/v3"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: bundlespec <spec directory> <bundle> <credentials.go>")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "bundlespec:", err)
		os.Exit(1)
	}
}

func run(dir, bundleFile, credentialsFile string) error {
	bundled, err := bundle(dir)
	if err != nil {
		return err
	}
	src, err := credentials(bundled)
	if err != nil {
		return err
	}
	if err := os.WriteFile(bundleFile, bundled, 0o644); err != nil {
		return err
	}
	return os.WriteFile(credentialsFile, src, 0o644)
}

var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// bundle returns the joined document of the spec directory dir.
func bundle(dir string) ([]byte, error) {
	root, err := load(filepath.Join(dir, "openapi.yaml"))
	if err != nil {
		return nil, err
	}
	partsNode := take(root, "x-parts")
	if partsNode == nil {
		return nil, errors.New("openapi.yaml has no x-parts")
	}
	var parts []string
	if err := partsNode.Decode(&parts); err != nil {
		return nil, fmt.Errorf("x-parts: %w", err)
	}
	paths, components := mapping(), mapping()
	for _, name := range parts {
		part, err := load(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if err := localRefs(part, parts); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if security := take(part, "security"); security != nil {
			secure(get(part, "paths"), security)
		}
		if err := merge(paths, take(part, "paths")); err != nil {
			return nil, fmt.Errorf("%s: path %w", name, err)
		}
		for _, kind := range pairs(take(part, "components")) {
			section := get(components, kind.key.Value)
			if section == nil {
				section = mapping()
				components.Content = append(components.Content, kind.key, section)
			}
			if err := merge(section, kind.value); err != nil {
				return nil, fmt.Errorf("%s: components/%s %w", name, kind.key.Value, err)
			}
		}
		if len(part.Content) > 0 {
			return nil, fmt.Errorf("%s: unexpected key %q", name, part.Content[0].Value)
		}
	}
	root.Content = append(root.Content, text("paths"), paths, text("components"), components)

	var out bytes.Buffer
	out.WriteString("# Made by `make generate` from spec/. Do not edit.\n")
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return nil, err
	}
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(out.Bytes())
	if err != nil {
		return nil, err
	}
	return out.Bytes(), doc.Validate(context.Background())
}

// load returns the mapping at the top of a YAML file.
func load(path string) (*yaml.Node, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s: not a mapping", path)
	}
	return doc.Content[0], nil
}

// localRefs turns references into other parts into references into the bundle.
func localRefs(n *yaml.Node, parts []string) error {
	for _, p := range pairs(n) {
		if p.key.Value == "$ref" && p.value.Kind == yaml.ScalarNode {
			file, pointer, ok := strings.Cut(p.value.Value, "#")
			if !ok || file != "" && !slices.Contains(parts, file) {
				return fmt.Errorf("line %d: reference %q leads to no part", p.value.Line, p.value.Value)
			}
			p.value.Value = "#" + pointer
		}
	}
	for _, child := range n.Content {
		if err := localRefs(child, parts); err != nil {
			return err
		}
	}
	return nil
}

// secure gives each operation that has no security of its own a part's security.
func secure(paths, security *yaml.Node) {
	for _, path := range pairs(paths) {
		for _, op := range pairs(path.value) {
			if slices.Contains(methods, op.key.Value) && get(op.value, "security") == nil {
				op.value.Content = append(op.value.Content, text("security"), security)
			}
		}
	}
}

// merge adds the entries of from to into.
func merge(into, from *yaml.Node) error {
	for _, p := range pairs(from) {
		if get(into, p.key.Value) != nil {
			return fmt.Errorf("%s is defined twice", p.key.Value)
		}
		into.Content = append(into.Content, p.key, p.value)
	}
	return nil
}

type pair struct{ key, value *yaml.Node }

// pairs lists the entries of a mapping; nothing for any other node and for nil.
func pairs(n *yaml.Node) []pair {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var out []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		out = append(out, pair{n.Content[i], n.Content[i+1]})
	}
	return out
}

func get(n *yaml.Node, key string) *yaml.Node {
	for _, p := range pairs(n) {
		if p.key.Value == key {
			return p.value
		}
	}
	return nil
}

// take removes an entry from a mapping and returns its value, nil where there is none.
func take(n *yaml.Node, key string) *yaml.Node {
	for i, p := range pairs(n) {
		if p.key.Value == key {
			n.Content = slices.Delete(n.Content, 2*i, 2*i+2)
			return p.value
		}
	}
	return nil
}

func mapping() *yaml.Node      { return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"} }
func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }
