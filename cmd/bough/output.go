package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

const (
	formatTable = "table"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// maxEnumHelp is how long the words of a flag may be together to stand beside its name in the help.
const maxEnumHelp = 24

// enum is a flag that takes one of a few words.
type enum struct {
	value   string
	allowed []string
}

func (e *enum) String() string { return e.value }

// Type is what the help shows in the place of the value.
func (e *enum) Type() string {
	if all := strings.Join(e.allowed, "|"); len(all) <= maxEnumHelp {
		return all
	}
	return "word"
}

func (e *enum) Set(s string) error {
	if !slices.Contains(e.allowed, s) {
		return fmt.Errorf("must be one of %s", strings.Join(e.allowed, ", "))
	}
	e.value = s
	return nil
}

// enumFlag adds a flag that takes one of the words allowed, and completes them.
func enumFlag[T ~string](cmd *cobra.Command, name, short, value, usage string, allowed ...T) *enum {
	e := &enum{value: value}
	for _, word := range allowed {
		e.allowed = append(e.allowed, string(word))
	}
	if e.Type() == "word" {
		usage += ": " + strings.Join(e.allowed, ", ")
	}
	cmd.Flags().VarP(e, name, short, usage)
	completeWith(cmd, name, cobra.FixedCompletions(e.allowed, cobra.ShellCompDirectiveNoFileComp))
	return e
}

// outputFlag adds -o to cmd.
func outputFlag(cmd *cobra.Command) *enum {
	return enumFlag(cmd, "output", "o", formatTable, "how to print the result", formatTable, formatJSON, formatYAML)
}

// writer is a way to print for people: a table or the details of one thing.
type writer interface {
	write(w io.Writer, width int, s styles) error
}

// print writes the server's answer in the format asked for; human is its form for people.
func (c *cli) print(cmd *cobra.Command, format string, body []byte, human writer) error {
	switch format {
	case formatJSON:
		return writeJSON(cmd.OutOrStdout(), body)
	case formatYAML:
		return writeYAML(cmd.OutOrStdout(), body)
	}
	return human.write(cmd.OutOrStdout(), c.width(), c.styles(c.stdoutIsTerminal))
}

// remark writes a line beside the result.
func remark(cmd *cobra.Command, format string, args ...any) {
	fmt.Fprintln(cmd.ErrOrStderr(), harmlessLines(fmt.Sprintf(format, args...)))
}

// writeJSON writes body as it came, but indented. What a terminal would obey is escaped, which JSON reads as the same.
func writeJSON(w io.Writer, body []byte) error {
	var indented bytes.Buffer
	if err := json.Indent(&indented, bytes.TrimSpace(body), "", "  "); err != nil {
		return err
	}
	_, err := io.WriteString(w, escapeStrings(indented.String())+"\n")
	return err
}

// escapeStrings escapes what a terminal would obey. In JSON, and in YAML of which each such string is in double quotes,
// that means the same; line breaks are the document's own.
func escapeStrings(document string) string {
	var b strings.Builder
	for _, r := range document {
		if isHarmful(r) && r != '\n' {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// writeYAML writes the JSON in body as YAML, with the keys in their order and numbers as they came.
func writeYAML(w io.Writer, body []byte) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	node, err := yamlNode(dec)
	if err != nil {
		return err
	}
	var out strings.Builder
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(node); err != nil {
		return err
	}
	if err := enc.Close(); err != nil {
		return err
	}
	_, err = io.WriteString(w, escapeStrings(out.String()))
	return err
}

// yamlNode returns the next JSON value of dec.
func yamlNode(dec *json.Decoder) (*yaml.Node, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch tok := tok.(type) {
	case json.Delim:
		node := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if tok == '{' {
			node = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		}
		for dec.More() {
			// In an object keys and values come in turn, as YAML has them in a mapping's content.
			child, err := yamlNode(dec)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, child)
		}
		if len(node.Content) == 0 {
			node.Style = yaml.FlowStyle
		}
		_, err := dec.Token()
		return node, err
	case json.Number:
		tag := "!!int"
		if strings.ContainsAny(tok.String(), ".eE") {
			tag = "!!float"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: tok.String()}, nil
	case string:
		node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: tok}
		if strings.ContainsFunc(strings.ReplaceAll(tok, "\n", ""), isHarmful) {
			node.Style = yaml.DoubleQuotedStyle
		}
		return node, nil
	default:
		var node yaml.Node
		err := node.Encode(tok)
		return &node, err
	}
}

// printLine writes a result that is one line and nothing else.
func (c *cli) printLine(cmd *cobra.Command, line string) error {
	_, err := fmt.Fprintln(cmd.OutOrStdout(), harmless(line))
	return err
}
