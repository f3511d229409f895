package mcp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/boughdb/bough/server/fault"
)

// How long an answer to a question counts.
const answerLimit = 10 * time.Minute

// answerKey is the name of the one question of a call.
const answerKey = "confirm"

// question is what Confirm returns while the person has not been asked.
type question struct {
	result *sdk.CallToolResult
}

func (*question) Error() string { return "the person is to be asked" }

// confirmer is Confirm of a call. Clients since 2026-07-28 carry the question to the person, call again and bring the
// answer, with the state that proves that it was this caller who was asked this question about this call; nothing is kept
// here. For older clients the SDK does the same within one request.
func (s *Server) confirmer(c *caller, t Tool, given given, req *sdk.CallToolRequest) func(string) (Answer, error) {
	return func(text string) (Answer, error) {
		if !canAsk(req.ClientCapabilities()) {
			return Unable, nil
		}
		state := req.Params.RequestState
		response, answered := req.Params.InputResponses[answerKey]
		if !answered && state == "" {
			return Unable, &question{&sdk.CallToolResult{
				InputRequests: sdk.InputRequestMap{answerKey: &sdk.ElicitParams{
					Mode: "form", Message: text, RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
				}},
				RequestState: s.state(c, t, given, text, time.Now().Add(answerLimit)),
			}}
		}
		if err := s.checkState(state, c, t, given, text, time.Now()); err != nil {
			return Unable, err
		}
		result, ok := response.(*sdk.ElicitResult)
		if !ok {
			return Unable, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("inputResponses has no answer to %q", answerKey)}
		}
		if result.Action == "accept" {
			return Accepted, nil
		}
		return Declined, nil
	}
}

// canAsk reports whether a program can show a question. One that says nothing about how it asks has forms.
func canAsk(has *sdk.ClientCapabilities) bool {
	return has != nil && has.Elicitation != nil && (has.Elicitation.Form != nil || has.Elicitation.URL == nil)
}

// state is what a client carries from a question to its answer: when it ends, and two proofs that it is ours. The first
// binds it to the caller and the call, the second to the question, too, so that a question that has changed meanwhile can
// be told from a forged state.
func (s *Server) state(c *caller, t Tool, given given, question string, until time.Time) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(until.Unix()))
	b = append(b, s.proof(c, t, given, b[:8], "")...)
	b = append(b, s.proof(c, t, given, b[:8], "?"+question)...)
	return base64.RawURLEncoding.EncodeToString(b)
}

func (s *Server) proof(c *caller, t Tool, given given, until []byte, question string) []byte {
	mac := hmac.New(sha256.New, s.cfg.StateKey)
	for _, part := range []string{"bough mcp answer", identity(c.principal), t.Name, c.narrow.branch, string(given.canonical), string(until), question} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // so that parts cannot run into each other
		mac.Write([]byte(part))
	}
	return mac.Sum(nil)
}

func (s *Server) checkState(state string, c *caller, t Tool, given given, question string, now time.Time) error {
	b, err := base64.RawURLEncoding.Strict().DecodeString(strings.TrimSpace(state))
	if err != nil || len(b) != 8+2*sha256.Size || !hmac.Equal(b[8:8+sha256.Size], s.proof(c, t, given, b[:8], "")) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState is not the one of this call; call without it, and without inputResponses"}
	}
	switch {
	case now.Unix() > int64(binary.BigEndian.Uint64(b)):
		return fault.New(fault.Conflict, "confirmation_expired", "the answer came too late; call again to be asked anew")
	case !hmac.Equal(b[8+sha256.Size:], s.proof(c, t, given, b[:8], "?"+question)):
		return fault.New(fault.Conflict, "confirmation_outdated", "what was to be confirmed has changed meanwhile; call again to be asked anew").
			WithHint("the question would now be: " + question)
	}
	return nil
}
