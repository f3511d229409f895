package openapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/boughdb/bough/server/introspect"
)

// relation is a relation with the names it has in the document.
type relation struct {
	*introspect.Relation
	// path is the name in paths, base what the names of its components and operations are made of.
	path, base, tag string
	profile         string
	// columns are those that the role may read.
	columns []*introspect.Column
	key     bool // the role may address a record by its primary key
	// responses are the components made of the templates' responses, by the template's name.
	responses map[string]string
	filters   []filter
}

// addRelations adds what the role may do with each relation.
func (b *builder) addRelations() {
	var relations []*relation
	for _, namespace := range b.namespaces() {
		for _, r := range b.schema.Relations {
			if r.Schema == namespace && !r.Partition {
				if rel := b.relation(r); rel != nil {
					relations = append(relations, rel)
				}
			}
		}
	}
	// Every relation has its name before the first column needs one, so that a type never takes the name of a table.
	for _, r := range relations {
		b.nameRelation(r)
		b.relations[r.Relation] = r
	}
	for _, r := range relations {
		b.addRelation(r)
	}
}

// relation returns what the document says of a relation; nil where that is nothing.
func (b *builder) relation(r *introspect.Relation) *relation {
	if !slices.ContainsFunc([]introspect.Privilege{introspect.Select, introspect.Insert, introspect.Update, introspect.Delete},
		func(p introspect.Privilege) bool { return b.may(r, p) }) {
		return nil
	}
	// The plural names the relation unless another one has that name.
	name := r.Plural
	if b.schema.Resolve(r.Schema, name) != r {
		name = r.Name
	}
	out := &relation{Relation: r, path: name, profile: b.profile(r.Schema), responses: map[string]string{}}
	if b.usedPaths[tablePath+name] {
		return nil
	}
	b.usedPaths[tablePath+name] = true
	for _, c := range r.Columns {
		if c.Grants.Can(b.opts.Role, introspect.Select) {
			out.columns = append(out.columns, c)
		}
	}
	out.key = len(r.PrimaryKey) > 0
	for _, c := range r.PrimaryKey {
		out.key = out.key && slices.Contains(out.columns, c)
	}
	return out
}

// may tells whether the relation allows something and the role may do it, with some columns at least.
func (b *builder) may(r *introspect.Relation, p introspect.Privilege) bool {
	if p == introspect.Insert && !r.Insertable || p == introspect.Update && !r.Updatable || p == introspect.Delete && !r.Deletable {
		return false
	}
	return r.Grants.Can(b.opts.Role, p) ||
		p != introspect.Delete && slices.ContainsFunc(r.Columns, func(c *introspect.Column) bool { return c.Grants.Can(b.opts.Role, p) })
}

func (b *builder) nameRelation(r *relation) {
	name, tag := title(r.path), r.path
	candidates := []string{name, name + "Table"}
	if r.profile != "" {
		tag = r.profile + "." + r.path
		candidates = []string{title(r.profile) + name, title(r.profile) + name + "Table"}
	}
	r.base = b.takeBase(candidates, func(base string) []string {
		names := []string{base, base + "Insert", base + "Update", base + "Replace"}
		for _, item := range []*openapi3.PathItem{b.contract.Paths.Value(tablePath), b.contract.Paths.Value(recordPath)} {
			for _, op := range item.Operations() {
				for _, response := range op.Responses.Map() {
					if component := strings.TrimPrefix(response.Ref, "#/components/responses/"); b.generic(component) {
						names = append(names, base+component)
					}
				}
			}
		}
		return names
	}, func(base string) []string {
		ids := []string{"list" + base}
		for _, method := range methods {
			ids = append(ids, verbs[method]+base, verbs[method]+base+"ById")
		}
		return ids
	})
	if b.tagNames.has(tag) {
		tag = b.tagNames.take(tag + " (table)")
	}
	b.tagNames.add(tag)
	r.tag = tag
}

// verbs begin the operations' ids; that of a list differs from that of one record.
var verbs = map[string]string{
	http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "replace", http.MethodPatch: "update", http.MethodDelete: "delete",
}

// addRelation adds a relation's schemas, parameters and paths.
func (b *builder) addRelation(r *relation) {
	description := r.Comment
	if description == "" {
		description = kinds[r.Kind] + " " + r.Schema + "." + r.Name + "."
	}
	b.tags = append(b.tags, object{{"name", r.tag}, {"description", description}})
	insert, update := b.addSchemas(r)
	r.filters = b.filters(r)
	filters := refs(r.filters)

	collection, record := b.contract.Paths.Value(tablePath), b.contract.Paths.Value(recordPath)
	path := "/api/v1/tables/" + segment(r.path)
	item := object{{"parameters", b.pathParameters(collection, nil)}}
	add := func(template *openapi3.PathItem, method, summary string, p introspect.Privilege, body concrete) {
		t := template.GetOperation(method)
		if t == nil || !b.may(r.Relation, p) {
			return
		}
		id := verbs[method] + r.base
		if template == record {
			id += "ById"
		} else if method == http.MethodGet {
			id = "list" + r.base
		}
		op := operation{
			template: t, id: id, tag: r.tag, summary: summary, profile: r.profile, filters: filters,
			response: func(_, component string) any { return b.relationResponse(r, component) },
		}
		if t.RequestBody != nil && body != nil {
			op.body = fill(b.json(t.RequestBody.Value), body)
		}
		if id == "list"+r.base {
			op.description = op.template.Description + b.embeds(r)
		}
		item.add(strings.ToLower(method), b.operation(op))
	}
	add(collection, http.MethodGet, "List "+r.path, introspect.Select, nil)
	add(collection, http.MethodPost, "Create one or many "+r.path, introspect.Insert, insertBody(insert))
	add(collection, http.MethodPatch, "Update the "+r.path+" that match", introspect.Update, updateBody(update, r.key))
	add(collection, http.MethodDelete, "Delete the "+r.path+" that match", introspect.Delete, nil)
	if len(item) > 1 {
		b.paths.add(path, item)
	}
	if !r.key {
		return
	}
	item = object{{"parameters", b.pathParameters(record, b.idParameter(r))}}
	add(record, http.MethodGet, "Get one of "+r.path, introspect.Select, nil)
	if b.may(r.Relation, introspect.Insert) && b.may(r.Relation, introspect.Update) {
		add(record, http.MethodPut, "Replace one of "+r.path, introspect.Insert, concrete{anyRecord: b.replaceSchema(r, insert)})
	}
	add(record, http.MethodPatch, "Update one of "+r.path, introspect.Update, concrete{anyRecord: update})
	add(record, http.MethodDelete, "Delete one of "+r.path, introspect.Delete, nil)
	if len(item) > 1 {
		b.paths.add(path+"/{id}", item)
	}
}

var kinds = map[introspect.RelationKind]string{
	introspect.Table: "The table", introspect.PartitionedTable: "The partitioned table", introspect.View: "The view",
	introspect.MaterializedView: "The materialised view", introspect.ForeignTable: "The foreign table",
}

func insertBody(insert object) concrete {
	return concrete{anyRecord: insert, anyRecords: oneOrMany(insert)}
}

// updateBody allows an array only where its records can be told apart.
func updateBody(update object, key bool) concrete {
	if !key {
		return concrete{anyRecord: update, anyRecords: update}
	}
	return concrete{anyRecord: update, anyRecords: oneOrMany(update)}
}

func oneOrMany(schema object) object {
	return object{{"oneOf", array{schema, object{{"type", "array"}, {"items", schema}}}}}
}

// relationResponse is the component that a template's response becomes for a relation; nil where it stays as it is.
func (b *builder) relationResponse(r *relation, component string) any {
	if component == "" || !b.generic(component) {
		return nil
	}
	name, ok := r.responses[component]
	if !ok {
		name = r.base + component
		r.responses[component] = name
		row := ref("schemas", r.base)
		b.responses.add(name, fill(b.json(b.contract.Components.Responses[component].Value), concrete{anyRecord: row, anyRecords: oneOrMany(row)}))
	}
	return ref("responses", name)
}

// idParameter is the parameter in the path of a record.
func (b *builder) idParameter(r *relation) object {
	names := make([]string, len(r.PrimaryKey))
	texts := make([]string, len(r.PrimaryKey))
	for i, c := range r.PrimaryKey {
		names[i] = c.Name
		value, ok := example(c.Type, c.MaxLength).(string)
		if !ok {
			value = "1"
		}
		texts[i] = strings.ReplaceAll(value, ",", "%2C")
	}
	out := object{{"name", "id"}, {"in", "path"}, {"required", true}}
	if len(names) == 1 {
		c := r.PrimaryKey[0]
		out.add("description", "The primary key, "+names[0]+".")
		schema := b.typeSchema(c.Type, false)
		if kind := schema.get("type"); kind == "array" || kind == "object" || kind == nil && schema.get("$ref") == nil {
			schema = object{{"type", "string"}}
		}
		out.add("schema", schema)
		if value := example(c.Type, c.MaxLength); value != nil && schema.get("type") != "string" {
			out.add("example", value)
		}
		return out
	}
	out.add("description", "The primary key: the values of "+strings.Join(names, ", ")+
		", separated by commas. A comma within a value is percent-encoded twice over: %252C.")
	out.add("schema", object{{"type", "string"}, {"pattern", "^[^,]*" + strings.Repeat(",[^,]*", len(names)-1) + "$"}})
	out.add("example", strings.Join(texts, ","))
	return out
}

// embeds says which related relations select can name.
func (b *builder) embeds(r *relation) string {
	count := map[*introspect.Relation]int{}
	for _, s := range r.Relationships {
		count[s.To]++
	}
	var list []string
	for _, s := range r.Relationships {
		if s.To == nil || s.To.Partition || !b.may(s.To, introspect.Select) || strings.ContainsAny(s.To.Name+s.Name, "`\n") {
			continue
		}
		name := s.To.Name
		switch {
		case s.Function != nil:
			name = s.Name
		case count[s.To] > 1 && s.Junction != nil:
			name += "!" + s.Junction.Name
		case count[s.To] > 1:
			name += "!" + s.Name
		}
		if item := "`" + name + "(*)`"; !slices.Contains(list, item) {
			list = append(list, item)
		}
	}
	if len(list) == 0 {
		return ""
	}
	return "\n\nRelated tables for `select`: " + strings.Join(list, ", ") + "."
}
