package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

const requestLong = `Send a request to the server with the credentials of the profile, and print the
answer. The path is the server's, "/api/v1/tables/posts?limit=5", or only what
follows /api/v1/, "tables/posts?limit=5". JSON is indented on a terminal.`

const requestExample = `  bough api get 'tables/posts?author_id.eq=7&order=id.desc'
  bough api post tables/posts -d '{"title": "Hello"}'
  bough api patch tables/posts/42 --branch demo -d @post.json -H 'If-Match: "771"'
  bough api post rpc/add -d '{"a": 1, "b": 2}'`

var methods = []string{"get", "post", "put", "patch", "delete", "head"}

func newAPICommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "api <method> <path>", Short: "Send a request to the API", Long: requestLong, Example: requestExample,
		Args: cobra.ExactArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return methods, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	branch := cmd.Flags().StringP("branch", "b", mainBranch, "the branch: its slug or id")
	completeWith(cmd, "branch", c.completeBranches)
	data := cmd.Flags().StringP("data", "d", "", `the body; "@name" is a file, "@-" standard input`)
	headers := cmd.Flags().StringArrayP("header", "H", nil, `a header of the request, "Name: value"`)
	include := cmd.Flags().BoolP("include", "i", false, "print the answer's status and headers as well")
	for _, flag := range []string{"data", "header"} {
		completeWith(cmd, flag, cobra.NoFileCompletions)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, err := c.connect()
		if err != nil {
			return err
		}
		req, err := a.request(cmd, args[0], args[1], *headers)
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("data") {
			body, err := bodyOf(cmd, *data)
			if err != nil {
				return err
			}
			req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			if req.Header.Get("Content-Type") == "" {
				req.Header.Set("Content-Type", "application/json")
			}
		}
		if *branch != mainBranch {
			req.Header.Set("X-Branch", *branch)
		}
		return c.send(cmd, a, req, *include)
	}
	return cmd
}

// request makes a request with the profile's credentials.
func (a *api) request(cmd *cobra.Command, method, path string, headers []string) (*http.Request, error) {
	if !slices.Contains(methods, strings.ToLower(method)) {
		return nil, usagef("%q is no method; it is one of %s", harmless(method), strings.Join(methods, ", "))
	}
	if !strings.HasPrefix(path, "/") {
		path = "/api/v1/" + path
	}
	if _, err := url.ParseRequestURI(path); err != nil {
		return nil, usagef("%q is no path: %v", harmless(path), errors.Unwrap(err))
	}
	req, err := http.NewRequestWithContext(cmd.Context(), strings.ToUpper(method), strings.TrimSuffix(a.Server, "/")+path, nil)
	if err != nil {
		return nil, err
	}
	for _, edit := range a.RequestEditors {
		if err := edit(cmd.Context(), req); err != nil {
			return nil, err
		}
	}
	for _, header := range headers {
		name, value, ok := strings.Cut(header, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, usagef(`the header %q does not have the form "Name: value"`, harmless(header))
		}
		req.Header.Set(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return req, nil
}

// bodyOf is the body that --data names.
func bodyOf(cmd *cobra.Command, data string) ([]byte, error) {
	name, isFile := strings.CutPrefix(data, "@")
	switch {
	case !isFile:
		return []byte(data), nil
	case name == "-":
		return io.ReadAll(cmd.InOrStdin())
	}
	return os.ReadFile(name)
}

// send sends the request and prints what comes back. A refusal is an error, as for every command.
func (c *cli) send(cmd *cobra.Command, a *api, req *http.Request, include bool) error {
	resp, err := a.Client.Client.Do(req)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if include {
		fmt.Fprintln(out, resp.Proto, resp.Status)
		if err := resp.Header.Write(out); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	if resp.StatusCode/100 == 2 && !c.stdoutIsTerminal {
		defer func() { _ = resp.Body.Close() }()
		if _, err := io.Copy(out, resp.Body); err != nil {
			return fmt.Errorf("the answer was broken off: %w", err)
		}
		return nil
	}
	got, err := read(resp, nil)
	if err != nil {
		return err
	}
	if len(got.body) == 0 {
		return nil
	}
	if strings.Contains(resp.Header.Get("Content-Type"), "json") && writeJSON(out, got.body) == nil {
		return nil
	}
	_, err = io.WriteString(out, harmlessLines(string(got.body)))
	return err
}
