package mcp

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/boughdb/bough/server/fault"
)

// given are the arguments of a call after they were held against the schema.
type given struct {
	own    json.RawMessage // the tool's own, with defaults
	branch string          // the argument branch, whose ever it is; "" where there is none
	// canonical is the same for the same arguments, however they were written.
	canonical []byte
}

// read holds arguments against the tool's schema. What is wrong with them is a fault that says how to do better: the model
// reads it and tries again.
func (t Tool) read(arguments json.RawMessage) (given, error) {
	object := map[string]any{}
	if len(arguments) > 0 {
		d := json.NewDecoder(bytes.NewReader(arguments))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			return given{}, fault.Validation("the arguments are no JSON: %s", err)
		}
		switch v := v.(type) {
		case nil:
		case map[string]any:
			object = v
		default:
			return given{}, fault.Validation("the arguments must be an object, not %s", kindOf(v))
		}
	}
	var c checker
	c.object(t.input, object, "")
	if len(c.problems) > 0 {
		return given{}, fault.Validation("%s", strings.Join(c.problems, "; "))
	}
	var out given
	out.branch, _ = object["branch"].(string)
	var err error
	if out.canonical, err = json.Marshal(object); err != nil { // keys in order
		return given{}, err
	}
	out.own = out.canonical
	if t.Branched {
		delete(object, "branch")
		if out.own, err = json.Marshal(object); err != nil {
			return given{}, err
		}
	}
	return out, nil
}

// decode reads arguments that fit their schema.
func decode(arguments json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.UseNumber()
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		// The schema lets pass what a Go type does not, such as a time that is none.
		return fault.Validation("the arguments cannot be read: %s", err)
	}
	return nil
}
