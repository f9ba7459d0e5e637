package mcpserver

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// result puts the same JSON into both places of a tool result: Codex gives the
// model structured content alone, other clients the text alone.
func (inv invocation) result(value any) (*mcp.CallToolResult, error) {
	data, err := strictjson.Marshal(value)
	if err != nil {
		return errorResult(core.Errorf(core.KindRuntime, "the result could not be written as JSON: %w", err)), nil
	}
	data = inv.told(data)
	return &mcp.CallToolResult{
		Content:              []mcp.Content{mcp.NewTextContent(string(data))},
		RawStructuredContent: data,
	}, nil
}

// errorResult is the one place where errors become text for a model: the kind,
// what failed, what to do. There is no structured form, because clients that
// know one drop the text.
func errorResult(err error) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.NewTextContent(errorText(err))}, IsError: true}
}

// failed is errorResult under what the model is to be told.
func (inv invocation) failed(err error) *mcp.CallToolResult {
	answer := errorResult(err)
	if inv.notice != "" {
		answer.Content = []mcp.Content{mcp.NewTextContent(inv.notice + "\n" + errorText(err))}
	}
	return answer
}

func errorText(err error) string {
	text := string(core.KindOf(err)) + ": " + err.Error()
	var e *core.Error
	if errors.As(err, &e) && e.Reason != "" {
		text += " (reason: " + e.Reason + ")"
	}
	if e != nil && len(e.Holders) > 0 {
		text += "\nHeld by:"
		for _, h := range e.Holders {
			text += "\n- " + holderText(h)
		}
	}
	return text
}

// holderText names who has what was refused, and what would set it free.
func holderText(h core.Holder) string {
	text := "the root of session " + h.SessionID
	if h.JobID != "" {
		text = fmt.Sprintf("job %s (%s) of session %s", h.JobID, h.Agent, h.SessionID)
	}
	text += ", " + h.Status
	if h.Units > 0 {
		text += fmt.Sprintf(", %d units", h.Units)
	}
	if len(h.WriteScope) > 0 {
		text += fmt.Sprintf(", writes %q", h.WriteScope)
	}
	return text + "; free " + h.Frees
}

// toolError is errorResult as it goes into an answer.
func (s *session) toolError(err error) json.RawMessage {
	data, _ := json.Marshal(errorResult(err)) // strings and a boolean
	return data
}

// refused is an error as the answer to a request that is not a tool call.
func refused(err error) *rpcError {
	return &rpcError{codeNotAllowed, errorText(err), ""}
}

// explain tells a model about a supervisor that is away: what is down, that
// nothing is lost, and who can find out why. A model has no use for the path of
// the socket, so that stays out.
func (s *session) explain(err error) error {
	if !errors.Is(err, control.ErrUnreachable) {
		return err
	}
	session, status := "your session", "codex-mmo status"
	if id := s.cfg.SessionID; id != "" { // a client that leads learns it from a notice
		session, status = "session "+id, status+" "+id
	}
	person := fmt.Sprintf("if it stays down, ask a person to run `%s`, which says why", status)
	down := core.Errorf(core.KindOf(err), "the supervisor of %s does not answer; nothing is lost: "+
		"finished results are kept and running jobs go on", session)
	if down.Kind == core.KindDeliveryUnknown {
		down.Message += ", but this call may or may not have been carried out"
		return down.WithRemedy("call agent_status before you repeat it; %s", person)
	}
	return down.WithRemedy("call again in a moment; %s", person)
}
