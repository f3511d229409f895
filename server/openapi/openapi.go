// Package openapi makes the live OpenAPI document: the contract of the fixed endpoints, and in place of its templates
// for tables and functions a path with typed schemas for each relation and function of a database. It also has the page
// that shows the document. It reads no database and keeps nothing: whoever serves the document caches it.
package openapi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/boughdb/bough/server/introspect"
)

// Options say for whom the document is.
type Options struct {
	// Role is the index of a role in Schema.Roles: the document has what this role may do. introspect.Owner stands for
	// everything that is exposed.
	Role int
	// BaseURL is where the API is; with "" the document keeps the servers of the contract.
	BaseURL string
	// Namespace limits the document to one exposed schema. With "" it has them all; then a relation or function of a
	// schema after the first one is left out where its path belongs to an earlier schema.
	Namespace string
	// Anonymous is true where tables and functions need no credentials.
	Anonymous bool
}

// The templates in the contract.
const (
	tablePath    = "/api/v1/tables/{table}"
	recordPath   = "/api/v1/tables/{table}/{id}"
	functionPath = "/api/v1/rpc/{function}"
)

// Extend returns the document for a database as compact JSON. The same arguments give the same bytes, in every process.
// The contract must be resolved (its references loaded) and is only read.
func Extend(contract *openapi3.T, schema *introspect.Schema, opts Options) ([]byte, error) {
	for _, path := range []string{tablePath, recordPath, functionPath} {
		if contract.Paths.Value(path) == nil {
			return nil, fmt.Errorf("the contract has no path %s", path)
		}
	}
	b := &builder{
		contract: contract, schema: schema, opts: opts,
		components: names{}, operations: names{}, tagNames: names{},
		usedPaths: map[string]bool{}, enums: map[uint32]string{}, shared: map[string]string{}, templates: map[any]raw{},
		relations: map[*introspect.Relation]*relation{},
	}
	b.reserve()
	b.addRelations()
	b.addFunctions()
	if b.err != nil {
		return nil, b.err
	}
	return b.document()
}

// ETag is a strong entity tag of a document.
func ETag(doc []byte) string {
	sum := sha256.Sum256(doc)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:18]) + `"`
}

// builder collects the parts of a document.
type builder struct {
	contract *openapi3.T
	schema   *introspect.Schema
	opts     Options

	// Names that are taken, those of the contract among them.
	components, operations, tagNames names
	usedPaths                        map[string]bool
	// enums are the components of enum types, shared those of other things that many operations have, by key.
	enums  map[uint32]string
	shared map[string]string
	// relations are those of the document.
	relations map[*introspect.Relation]*relation
	// templates are parts of the contract as JSON, by their address.
	templates map[any]raw
	err       error

	paths, schemas, parameters, responses object
	tags                                  array
}

// reserve takes the names that the contract uses.
func (b *builder) reserve() {
	c := b.contract.Components
	for name := range c.Schemas {
		b.components.add(name)
	}
	for name := range c.Parameters {
		b.components.add(name)
	}
	for name := range c.Responses {
		b.components.add(name)
	}
	for name := range c.RequestBodies {
		b.components.add(name)
	}
	for name := range c.Headers {
		b.components.add(name)
	}
	for path, item := range b.contract.Paths.Map() {
		if path != tablePath && path != recordPath && path != functionPath {
			for _, op := range item.Operations() {
				b.operations.add(op.OperationID)
			}
		}
	}
	for _, tag := range b.contract.Tags {
		b.tagNames.add(tag.Name)
	}
}

// json is a part of the contract as JSON, made once.
func (b *builder) json(part any) raw {
	if text, ok := b.templates[part]; ok {
		return text
	}
	text, err := json.Marshal(part)
	if err != nil && b.err == nil {
		b.err = fmt.Errorf("writing a part of the contract: %w", err)
	}
	b.templates[part] = text
	return text
}

// namespaces are the schemas that the document is about, the default one first.
func (b *builder) namespaces() []string {
	if b.opts.Namespace != "" {
		return []string{b.opts.Namespace}
	}
	return b.schema.Schemas
}

// profile is the schema as a request must name it in a header: "" for the default one.
func (b *builder) profile(namespace string) string {
	if len(b.schema.Schemas) > 0 && namespace == b.schema.Schemas[0] {
		return ""
	}
	return namespace
}

// security is who may use tables and functions: whoever the template says, and anybody where that is allowed.
func (b *builder) security(op *openapi3.Operation) raw {
	if text, ok := b.templates[op]; ok {
		return text
	}
	requirements := op.Security
	if requirements == nil {
		requirements = &b.contract.Security
	}
	if b.opts.Anonymous {
		open := slices.DeleteFunc(slices.Clone(*requirements), func(r openapi3.SecurityRequirement) bool { return len(r) == 0 })
		open = append(open, openapi3.SecurityRequirement{})
		requirements = &open
	}
	b.templates[op] = b.json(requirements)
	return b.templates[op]
}

// takeBase finds a name from which all the names that derive makes are free, and takes them.
func (b *builder) takeBase(candidates []string, components, operations func(base string) []string) string {
	for i := 0; ; i++ {
		base := candidates[min(i, len(candidates)-1)]
		if i >= len(candidates) {
			base = fmt.Sprintf("%s_%d", base, i-len(candidates)+2)
		}
		if !b.components.has(components(base)...) && !b.operations.has(operations(base)...) {
			b.components.add(components(base)...)
			b.operations.add(operations(base)...)
			return base
		}
	}
}
