package mcp

import "context"

// Resource is a document with a fixed address that assistants read.
type Resource struct {
	URI                                string
	Name, Title, Description, MIMEType string
	Feature                            Feature
	// Scopes must all be the caller's.
	Scopes []string
	// Read returns the document's text. Branch and Database of the call are those of ?branch=, else main's.
	Read func(ctx context.Context, c *Call) (string, error)
}

// Template is a family of documents whose addresses have variables.
type Template struct {
	// URITemplate is of RFC 6570, such as db://{schema}/{table}.
	URITemplate                        string
	Name, Title, Description, MIMEType string
	Feature                            Feature
	Scopes                             []string
	// Read returns the text of one document; variables are those of its URI, decoded. A *fault.Error of the kind NotFound
	// says that there is no such document.
	Read func(ctx context.Context, c *Call, uri string, variables map[string]string) (string, error)
}

// Prompt is a text that a person picks for the assistant to start from.
type Prompt struct {
	Name, Title, Description string
	Arguments                []PromptArgument
	Feature                  Feature
	Scopes                   []string
	// Render returns the text, which the assistant gets as the person's. The arguments are declared ones, and none is
	// missing that is required.
	Render func(ctx context.Context, c *Call, arguments map[string]string) (string, error)
}

// PromptArgument is what a person fills in.
type PromptArgument struct {
	Name, Title, Description string
	Required                 bool
}

// Completer suggests values for an argument of a prompt or a variable of a template: those that begin with prefix, the
// best ones first, at most a hundred. Known are the other arguments so far. The call's Branch and Database are those of
// ?branch=, else main's; a caller gets no name of a thing that it may not see.
type Completer func(ctx context.Context, c *Call, argument, prefix string, known map[string]string) ([]string, error)

// Completion says where a completer is asked. Who may not use the prompt or the template gets no suggestions for it.
type Completion struct {
	// Ref is a prompt's Name or a template's URITemplate; Argument the name of the argument or variable.
	Ref, Argument string
	Complete      Completer
}
