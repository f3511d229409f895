package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// sections are the kinds of components. Security schemes are not referred to like the others, and stay all.
var sections = []string{
	"schemas", "parameters", "headers", "requestBodies", "responses", "examples", "links", "callbacks", "securitySchemes",
}

// document puts the contract and the generated parts together.
func (b *builder) document() ([]byte, error) {
	text, err := json.Marshal(b.contract)
	if err != nil {
		return nil, fmt.Errorf("writing the contract: %w", err)
	}
	var contract struct {
		Info, ExternalDocs, Security, Servers json.RawMessage
		Tags                                  []json.RawMessage
		Paths                                 map[string]json.RawMessage
		Components                            map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &contract); err != nil {
		return nil, fmt.Errorf("reading the contract: %w", err)
	}
	for _, path := range []string{tablePath, recordPath, functionPath} {
		delete(contract.Paths, path)
	}

	doc := object{{"openapi", "3.0.3"}, {"info", raw(contract.Info)}}
	switch {
	case b.opts.BaseURL != "":
		doc.add("servers", array{object{{"url", b.opts.BaseURL}}})
	case contract.Servers != nil:
		doc.add("servers", raw(contract.Servers))
	}
	if contract.ExternalDocs != nil {
		doc.add("externalDocs", raw(contract.ExternalDocs))
	}
	if contract.Security != nil {
		doc.add("security", raw(contract.Security))
	}
	tags := array{}
	for _, tag := range contract.Tags {
		tags = append(tags, raw(tag))
	}
	doc.add("tags", append(tags, b.tags...))

	paths := object{}
	for _, path := range slices.Sorted(maps.Keys(contract.Paths)) {
		paths.add(path, raw(contract.Paths[path]))
	}
	doc.add("paths", append(paths, b.paths...))
	out := appendJSON(nil, doc)

	generated := map[string][]byte{
		"schemas": appendJSON(nil, b.schemas), "parameters": appendJSON(nil, b.parameters), "responses": appendJSON(nil, b.responses),
	}
	used := reachable(contract.Components, out, generated["schemas"], generated["parameters"], generated["responses"])
	components := object{}
	for _, section := range sections {
		var members object
		for _, name := range slices.Sorted(maps.Keys(contract.Components[section])) {
			if section == "securitySchemes" || used[section+"/"+name] {
				members.add(name, raw(contract.Components[section][name]))
			}
		}
		if text := join(appendJSON(nil, members), generated[section]); len(text) > len("{}") {
			components.add(section, raw(text))
		}
	}
	out = append(out[:len(out)-1], `,"components":`...)
	return append(appendJSON(out, components), '}'), nil
}

// join puts the members of two JSON objects into one.
func join(a, b []byte) []byte {
	switch {
	case len(b) <= len("{}"):
		return a
	case len(a) <= len("{}"):
		return b
	}
	return append(append(a[:len(a)-1], ','), b[1:]...)
}

// reachable finds the contract's components ("schemas/Error") that the texts refer to, directly or through others: with
// the templates gone some would be left over.
func reachable(components map[string]map[string]json.RawMessage, texts ...[]byte) map[string]bool {
	prefix := []byte(`"#/components/`)
	used := map[string]bool{}
	for len(texts) > 0 {
		text := texts[len(texts)-1]
		texts = texts[:len(texts)-1]
		for {
			at := bytes.Index(text, prefix)
			if at < 0 {
				break
			}
			text = text[at+len(prefix):]
			end := bytes.IndexByte(text, '"')
			if used[string(text[:end])] {
				continue
			}
			section, name, _ := bytes.Cut(text[:end], []byte("/"))
			if part, ok := components[string(section)][string(name)]; ok {
				used[string(text[:end])] = true
				texts = append(texts, part)
			}
		}
	}
	return used
}
