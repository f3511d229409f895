package mcp

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/yosida95/uritemplate/v3"
)

// fixture is a server with what the conformance suite wants to find, behind the real guard. Its tools do what those of a
// product have no use for, such as images and sampling, so they are made of the SDK's own types.
type fixture struct {
	*Server
}

func newFixture(tb testing.TB, cfg Config) *fixture {
	tb.Helper()
	if err := cfg.check(); err != nil {
		tb.Fatal(err)
	}
	f := &fixture{newServer(cfg)}
	o := f.options()
	o.Capabilities = &sdk.ServerCapabilities{Logging: &sdk.LoggingCapabilities{}} //nolint:staticcheck // older revisions have it
	o.CompletionHandler = f.complete
	o.SubscribeHandler = func(context.Context, *sdk.SubscribeRequest) error { return nil }
	o.UnsubscribeHandler = func(context.Context, *sdk.UnsubscribeRequest) error { return nil }
	f.serve(o)
	f.addTools()
	f.addAsking()
	f.addDocuments()
	f.addPrompts()
	return f
}

type toolFunc = func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error)

func (f *fixture) add(name string, schema any, run toolFunc) {
	if schema == nil {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	f.tools[name] = &operation{kind: "tool", name: name, feature: Schema, scopes: []string{"read:schema"}}
	t := &sdk.Tool{Name: name, Description: "For the conformance suite.", InputSchema: schema}
	f.sdk.AddTool(t, run)
	f.fast.list(t)
}

// addPlain adds a tool that makes no use of its session.
func (f *fixture) addPlain(name string, run toolFunc) {
	f.add(name, nil, run)
	f.fast.tools[name] = run
}

func says(format string, args ...any) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// content returns a tool that always says the same.
func content(parts ...sdk.Content) toolFunc {
	return func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: parts}, nil
	}
}

func pixel() []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// silence is a WAV file of one sample.
func silence() []byte {
	b := []byte("RIFF\x26\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00")
	b = binary.LittleEndian.AppendUint32(b, 8000)
	b = binary.LittleEndian.AppendUint32(b, 16000)
	return append(b, "\x02\x00\x10\x00data\x02\x00\x00\x00\x00\x00"...)
}

func embedded(uri string) sdk.Content {
	return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: uri, MIMEType: "text/plain", Text: "an embedded resource"}}
}

func (f *fixture) addTools() {
	picture := &sdk.ImageContent{Data: pixel(), MIMEType: "image/png"}
	f.addPlain("test_simple_text", content(&sdk.TextContent{Text: "This is a simple text response for testing."}))
	f.addPlain("test_image_content", content(picture))
	f.addPlain("test_audio_content", content(&sdk.AudioContent{Data: silence(), MIMEType: "audio/wav"}))
	f.addPlain("test_embedded_resource", content(embedded("test://embedded-resource")))
	f.addPlain("test_multiple_content_types", content(&sdk.TextContent{Text: "several"}, picture, embedded("test://embedded-in-multiple")))
	f.add("test_streaming_elicitation", nil, content(&sdk.TextContent{Text: "no requests on the stream"}))
	f.addPlain("test_error_handling", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		r := says("this tool fails, as it should")
		r.IsError = true
		return r, nil
	})
	log := func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for range 3 {
			//nolint:staticcheck // older revisions have it
			if err := req.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: "working"}); err != nil {
				return nil, err
			}
		}
		return says("logged"), nil
	}
	f.add("test_tool_with_logging", nil, log)
	f.add("test_logging_tool", nil, log)
	f.add("test_tool_with_progress", nil, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for done := range 3 {
			err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Progress: float64(done * 50), Total: 100,
			})
			if err != nil {
				return nil, err
			}
		}
		return says("%v", req.Params.GetProgressToken()), nil
	})
	f.add("test_missing_capability", nil, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if has := req.ClientCapabilities(); has != nil && has.Sampling != nil { //nolint:staticcheck // as above
			return says("the client can"), nil
		}
		return nil, &jsonrpc.Error{
			Code: sdk.CodeMissingRequiredClientCapabilities, Message: "this needs sampling", Data: json.RawMessage(`{"requiredCapabilities":{"sampling":{}}}`),
		}
	})
	f.add("json_schema_2020_12_tool", json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
		"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
		"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},
			"phone":{"type":"string"},"email":{"type":"string"}},
		"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
		"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},
		"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`), content(&sdk.TextContent{Text: "ok"}))
	f.add("test_x_mcp_header", json.RawMessage(`{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer"}}}`), content(&sdk.TextContent{Text: "ok"}))
	f.add("test_trigger_tool_change", nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		f.sdk.AddTool(&sdk.Tool{Name: "test_changing", InputSchema: json.RawMessage(`{"type":"object"}`)}, content())
		return says("changed"), nil
	})
	f.add("test_trigger_prompt_change", nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		f.sdk.AddPrompt(&sdk.Prompt{Name: "test_changing"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return nil, errors.New("of no use")
		})
		return says("changed"), nil
	})
}

// form asks for a text, or for what the properties say.
func form(message, properties string, required ...string) *sdk.ElicitParams {
	names, _ := json.Marshal(append([]string{}, required...))
	return &sdk.ElicitParams{
		Mode: "form", Message: message,
		RequestedSchema: json.RawMessage(`{"type":"object","properties":` + properties + `,"required":` + string(names) + `}`),
	}
}

func sampling(text string) *sdk.CreateMessageParams { //nolint:staticcheck // older revisions have it
	return &sdk.CreateMessageParams{ //nolint:staticcheck // as above
		Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: text}}}, MaxTokens: 50, //nolint:staticcheck // as above
	}
}

// filled is a field of an accepted form.
func filled(answers sdk.InputResponseMap, key, field string) string {
	if r, ok := answers[key].(*sdk.ElicitResult); ok && r.Action == "accept" {
		return fmt.Sprint(r.Content[field])
	}
	return ""
}

func sampled(answers sdk.InputResponseMap, key string) string {
	if r, ok := answers[key].(*sdk.CreateMessageWithToolsResult); ok && len(r.Content) > 0 { //nolint:staticcheck // as above
		if text, ok := r.Content[0].(*sdk.TextContent); ok {
			return text.Text
		}
	}
	return ""
}

func asks(state string, requests sdk.InputRequestMap) (*sdk.CallToolResult, error) {
	return &sdk.CallToolResult{InputRequests: requests, RequestState: state}, nil
}

// seal makes a state that opened takes back.
func (f *fixture) seal(state string) string {
	mac := hmac.New(sha256.New, f.cfg.StateKey)
	mac.Write([]byte(state))
	return state + "." + hex.EncodeToString(mac.Sum(nil))
}

func (f *fixture) opened(sealed string) (string, error) {
	state, _, _ := strings.Cut(sealed, ".")
	if !hmac.Equal([]byte(f.seal(state)), []byte(sealed)) {
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState is not ours"}
	}
	return state, nil
}

const nameField, okField = `{"name":{"type":"string"}}`, `{"ok":{"type":"boolean"}}`

// addAsking adds the tools that ask something, by requests to older clients and by results to newer ones.
func (f *fixture) addAsking() {
	ask := func(name string, params func(message string) *sdk.ElicitParams) {
		f.add(name, nil, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var in struct{ Message string }
			_ = json.Unmarshal(req.Params.Arguments, &in)
			r, err := req.Session.Elicit(ctx, params(in.Message))
			if err != nil {
				return nil, err
			}
			return says("action=%s, content=%v", r.Action, r.Content), nil
		})
	}
	ask("test_elicitation", func(message string) *sdk.ElicitParams {
		return form(message, `{"username":{"type":"string"}}`, "username")
	})
	ask("test_elicitation_sep1034_defaults", func(string) *sdk.ElicitParams {
		return form("defaults", `{"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},
			"score":{"type":"number","default":95.5},"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},
			"verified":{"type":"boolean","default":true}}`)
	})
	ask("test_elicitation_sep1330_enums", func(string) *sdk.ElicitParams {
		const titled = `[{"const":"value1","title":"One"},{"const":"value2","title":"Two"},{"const":"value3","title":"Three"}]`
		return form("enums", `{"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
			"titledSingle":{"type":"string","oneOf":`+titled+`},
			"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["One","Two","Three"]},
			"untitledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"type":"string","enum":["option1","option2","option3"]}},
			"titledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"anyOf":`+titled+`}}}`)
	})
	f.add("test_sampling", nil, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var in struct{ Prompt string }
		_ = json.Unmarshal(req.Params.Arguments, &in)
		r, err := req.Session.CreateMessage(ctx, sampling(in.Prompt)) //nolint:staticcheck // as above
		if err != nil {
			return nil, err
		}
		answer, _ := json.Marshal(r.Content)
		return says("LLM response: %s", answer), nil
	})

	f.add("test_input_required_result_elicitation", nil, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if name := filled(req.Params.InputResponses, "user_name", "name"); name != "" && name != "<nil>" {
			return says("Hello, %s!", name), nil
		}
		return asks("", sdk.InputRequestMap{"user_name": form("Who are you?", nameField, "name")})
	})
	f.add("test_input_required_result_sampling", nil, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if answer := sampled(req.Params.InputResponses, "capital_question"); answer != "" {
			return says("%s", answer), nil
		}
		return asks("", sdk.InputRequestMap{"capital_question": sampling("What is the capital of France?")})
	})
	f.add("test_input_required_result_list_roots", nil, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if roots, ok := req.Params.InputResponses["client_roots"].(*sdk.ListRootsResult); ok { //nolint:staticcheck // as above
			return says("%d roots", len(roots.Roots)), nil
		}
		return asks("", sdk.InputRequestMap{"client_roots": &sdk.ListRootsParams{}}) //nolint:staticcheck // as above
	})
	f.add("test_input_required_result_multiple_inputs", nil, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		answers := req.Params.InputResponses
		roots, _ := answers["client_roots"].(*sdk.ListRootsResult) //nolint:staticcheck // as above
		if name, greeting := filled(answers, "user_name", "name"), sampled(answers, "greeting"); name != "" && greeting != "" && roots != nil {
			return says("%s %s, %d roots", greeting, name, len(roots.Roots)), nil
		}
		return asks(f.seal("several"), sdk.InputRequestMap{
			"user_name": form("Who are you?", nameField, "name"), "greeting": sampling("Greet."), "client_roots": &sdk.ListRootsParams{}, //nolint:staticcheck // as above
		})
	})
	confirmed := func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if state := req.Params.RequestState; state != "" {
			if _, err := f.opened(state); err != nil {
				return nil, err
			}
			if filled(req.Params.InputResponses, "confirm", "ok") != "" {
				return says("state-ok"), nil
			}
		}
		return asks(f.seal("confirm"), sdk.InputRequestMap{"confirm": form("Sure?", okField, "ok")})
	}
	f.add("test_input_required_result_request_state", nil, confirmed)
	f.add("test_input_required_result_tampered_state", nil, confirmed)
	f.add("test_input_required_result_multi_round", nil, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if req.Params.RequestState == "" {
			return asks(f.seal("1"), sdk.InputRequestMap{"step1": form("Who are you?", nameField, "name")})
		}
		state, err := f.opened(req.Params.RequestState)
		switch {
		case err != nil:
			return nil, err
		case state == "1":
			name := filled(req.Params.InputResponses, "step1", "name")
			return asks(f.seal("2 "+name), sdk.InputRequestMap{"step2": form("Which color?", `{"color":{"type":"string"}}`, "color")})
		}
		return says("%s likes %s", strings.TrimPrefix(state, "2 "), filled(req.Params.InputResponses, "step2", "color")), nil
	})
	f.add("test_input_required_result_capabilities", nil, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if len(req.Params.InputResponses) > 0 {
			return says("answered"), nil
		}
		has := req.ClientCapabilities()
		requests := sdk.InputRequestMap{}
		if has != nil && has.Elicitation != nil {
			requests["user_name"] = form("Who are you?", nameField, "name")
		}
		if has != nil && has.Sampling != nil { //nolint:staticcheck // as above
			requests["greeting"] = sampling("Greet.")
		}
		if len(requests) == 0 {
			return says("there is nothing to ask with"), nil
		}
		return asks("", requests)
	})
}

func (f *fixture) addDocuments() {
	document := func(uri, mimeType string, contents sdk.ResourceContents) {
		f.resources[uri] = &operation{kind: "resource", name: uri, feature: Schema, scopes: []string{"read:schema"}, readOnly: true}
		f.sdk.AddResource(&sdk.Resource{URI: uri, Name: uri, MIMEType: mimeType}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			one := contents
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{&one}}, nil
		})
	}
	document("test://static-text", "text/plain", sdk.ResourceContents{Text: "static"})
	document("test://static-binary", "image/png", sdk.ResourceContents{Blob: pixel()})
	document("test://watched-resource", "text/plain", sdk.ResourceContents{Text: "watched"})
	const address = "test://template/{id}/data"
	pattern := uritemplate.MustNew(address)
	f.templates = append(f.templates, &operation{
		kind: "resource", name: address, feature: Schema, scopes: []string{"read:schema"}, readOnly: true, template: pattern,
	})
	f.sdk.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: address, Name: "data", MIMEType: "application/json"},
		f.template(Template{URITemplate: address, MIMEType: "application/json", Read: func(_ context.Context, _ *Call, _ string, variables map[string]string) (string, error) {
			return `{"id":"` + variables["id"] + `","templateTest":true,"data":"Data for ID: ` + variables["id"] + `"}`, nil
		}}, pattern))
}

func (f *fixture) addPrompts() {
	prompt := func(name string, arguments []string, run func(req *sdk.GetPromptRequest) *sdk.GetPromptResult) {
		p := &sdk.Prompt{Name: name, Description: "For the conformance suite."}
		for _, a := range arguments {
			p.Arguments = append(p.Arguments, &sdk.PromptArgument{Name: a, Description: a, Required: true})
		}
		f.prompts[name] = &operation{kind: "prompt", name: name, feature: Schema, scopes: []string{"read:schema"}, readOnly: true}
		f.sdk.AddPrompt(p, func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) { return run(req), nil })
	}
	messages := func(parts ...sdk.Content) *sdk.GetPromptResult {
		r := &sdk.GetPromptResult{}
		for _, part := range parts {
			r.Messages = append(r.Messages, &sdk.PromptMessage{Role: "user", Content: part})
		}
		return r
	}
	prompt("test_simple_prompt", nil, func(*sdk.GetPromptRequest) *sdk.GetPromptResult {
		return messages(&sdk.TextContent{Text: "This is a simple prompt for testing."})
	})
	prompt("test_prompt_with_arguments", []string{"arg1", "arg2"}, func(req *sdk.GetPromptRequest) *sdk.GetPromptResult {
		a := req.Params.Arguments
		return messages(&sdk.TextContent{Text: fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", a["arg1"], a["arg2"])})
	})
	prompt("test_prompt_with_embedded_resource", []string{"resourceUri"}, func(req *sdk.GetPromptRequest) *sdk.GetPromptResult {
		return messages(embedded(req.Params.Arguments["resourceUri"]), &sdk.TextContent{Text: "Look at it."})
	})
	prompt("test_prompt_with_image", nil, func(*sdk.GetPromptRequest) *sdk.GetPromptResult {
		return messages(&sdk.ImageContent{Data: pixel(), MIMEType: "image/png"}, &sdk.TextContent{Text: "Look at it."})
	})
	prompt("test_input_required_result_prompt", nil, func(req *sdk.GetPromptRequest) *sdk.GetPromptResult {
		if answer := filled(req.Params.InputResponses, "user_context", "context"); answer != "" {
			return messages(&sdk.TextContent{Text: answer})
		}
		return &sdk.GetPromptResult{InputRequests: sdk.InputRequestMap{
			"user_context": form("What about?", `{"context":{"type":"string"}}`, "context"),
		}}
	})
}
