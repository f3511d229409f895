package compile

import (
	"slices"
	"sort"
	"strings"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
)

// Input is how a function call brings its arguments.
type Input byte

// The inputs. A body that is not JSON or a form is the one unnamed argument of a function of that type.
const (
	QueryInput Input = iota // the query string of a GET
	JSONInput               // a JSON object; also no body at all
	FormInput               // names and values
	TextInput
	XMLInput
	BytesInput
)

// raw reports whether the input can only be one unnamed argument.
func (in Input) raw() bool { return in >= TextInput }

// types names the types that an unnamed argument may have to take the whole body.
func (in Input) types() []string {
	switch in {
	case JSONInput:
		return []string{"json", "jsonb"}
	case TextInput:
		return []string{"text"}
	case XMLInput:
		return []string{"xml"}
	case BytesInput:
		return []string{"bytea"}
	}
	return nil
}

var (
	errNoFunction        = fault.New(fault.NotFound, "PGRST202", "Could not find the function in the schema cache")
	errAmbiguousFunction = fault.New(fault.MultipleChoices, "PGRST203", "Could not choose the best candidate function")
)

// PickOverload returns the function of that name that takes arguments of exactly these names: all that have no default
// must be there. Where none does, a function whose single argument is unnamed and takes the whole body is returned;
// Unnamed tells that from the other case.
func (c Context) PickOverload(name string, argNames []string, in Input) (*introspect.Function, error) {
	overloads := c.Schema.Overloads(c.Namespace, name)
	var named, unnamed []*introspect.Function
	for _, fn := range overloads {
		switch {
		case takes(fn, argNames, in):
			named = append(named, fn)
		case Unnamed(fn, in):
			unnamed = append(unnamed, fn)
		}
	}
	if len(named) == 0 {
		named = unnamed
	}
	switch len(named) {
	case 0:
		return nil, c.noFunction(name, argNames, in, overloads)
	case 1:
		return named[0], nil
	}
	return nil, ambiguousFunction(named)
}

func takes(fn *introspect.Function, argNames []string, in Input) bool {
	if in.raw() {
		return false
	}
	for _, arg := range fn.Args {
		// PostgreSQL takes a variadic argument that is left out for an empty list only in positional calls.
		if !arg.HasDefault && !slices.Contains(argNames, arg.Name) {
			return false
		}
	}
	for _, name := range argNames {
		if name == "" && (len(fn.Args) != 1 || in != JSONInput) || !slices.ContainsFunc(fn.Args, func(a introspect.Argument) bool { return a.Name == name }) {
			return false
		}
	}
	return true
}

// Unnamed reports whether the function's single argument has no name and takes the whole body of that kind.
func Unnamed(fn *introspect.Function, in Input) bool {
	return len(fn.Args) == 1 && fn.Args[0].Name == "" && fn.Args[0].Type.Schema == "pg_catalog" &&
		slices.Contains(in.types(), fn.Args[0].Type.Name)
}

func (c Context) noFunction(name string, argNames []string, in Input, overloads []*introspect.Function) error {
	args := slices.Compact(slices.Sorted(slices.Values(argNames)))
	list := strings.Join(args, ", ")
	qualified := c.Namespace + "." + name
	inMessage, inDetails := "("+list+")", " with parameter "+list
	switch {
	case len(args) == 0:
		inMessage, inDetails = " without parameters", " without parameters"
	case len(args) > 1:
		inDetails = " with parameters " + list
	}
	switch {
	case in.raw():
		inMessage, inDetails = "", " with a single unnamed "+in.types()[0]+" parameter"
	case in == JSONInput:
		inDetails += " or with a single unnamed json/jsonb parameter"
	}
	err := errNoFunction.Msgf("Could not find the function %s%s in the schema cache", qualified, inMessage)
	err.Details = "Searched for the function " + qualified + inDetails + ", but no matches were found in the schema cache."
	if len(overloads) > 0 {
		var lists []string
		for _, fn := range overloads {
			lists = append(lists, argumentList(fn))
		}
		if near := closest("("+list+")", lists); near != "" {
			err.Hint = "Perhaps you meant to call the function " + qualified + near
		}
		return err
	}
	var names []string
	for _, fn := range c.Schema.Functions {
		if fn.Schema == c.Namespace {
			names = append(names, fn.Name)
		}
	}
	if near := closest(name, names); near != "" {
		err.Hint = "Perhaps you meant to call the function " + c.Namespace + "." + near
	}
	return err
}

func argumentList(fn *introspect.Function) string {
	names := make([]string, len(fn.Args))
	for i, arg := range fn.Args {
		names[i] = arg.Name
	}
	sort.Strings(names)
	return "(" + strings.Join(names, ", ") + ")"
}

func ambiguousFunction(fns []*introspect.Function) error {
	signatures := make([]string, len(fns))
	for i, fn := range fns {
		args := make([]string, len(fn.Args))
		for j, arg := range fn.Args {
			args[j] = arg.Name + " => " + arg.Type.SQL
		}
		signatures[i] = fn.Schema + "." + fn.Name + "(" + strings.Join(args, ", ") + ")"
	}
	err := errAmbiguousFunction.Msgf("Could not choose the best candidate function between: %s", strings.Join(signatures, ", "))
	err.Hint = "Try renaming the parameters or the function itself in the database so function overloading can be resolved"
	return err
}
