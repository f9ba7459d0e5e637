package supervisor

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// frame is what we read of an app-server message. Unknown members and variants
// are ignored: the protocol grows.
type frame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		ThreadID string `json:"threadId"`
		TurnID   string `json:"turnId"`
		Turn     struct {
			ID     string          `json:"id"`
			Status string          `json:"status"`
			Error  json.RawMessage `json:"error"`
		} `json:"turn"`
		Item       item `json:"item"`
		TokenUsage struct {
			Total struct {
				InputTokens       uint64 `json:"inputTokens"`
				CachedInputTokens uint64 `json:"cachedInputTokens"`
				OutputTokens      uint64 `json:"outputTokens"`
			} `json:"total"`
		} `json:"tokenUsage"`
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
		WillRetry bool `json:"willRetry"`
	} `json:"params"`
}

type item struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Text    string `json:"text"`
	Command string `json:"command"`
	Server  string `json:"server"`
	Tool    string `json:"tool"`
	Status  string `json:"status"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// received applies a frame of the engine.
func (a *agent) received(ctx context.Context, at position, raw []byte) (boundary bool, err error) {
	if at.generation < a.rec.Generation {
		return false, nil // of an engine that was replaced: its thread's history has settled it
	}
	var f frame
	if err := json.Unmarshal(raw, &f); err != nil || f.Method == "" {
		return false, nil // an answer to the host, or a shape we do not read
	}
	if f.Params.ThreadID != "" && f.Params.ThreadID != a.rec.ThreadID {
		return false, nil // of another thread, e.g. a native child
	}
	if len(f.ID) > 0 && string(f.ID) != "null" {
		return true, a.serverRequest(ctx, string(f.ID), f.Method)
	}
	switch f.Method {
	case "turn/started":
		return true, a.turnStarted(ctx, f.Params.Turn.ID)
	case "item/started":
		a.follow("item", describeItem(f.Params.Item))
	case "item/completed":
		return true, a.itemCompleted(ctx, f.Params.TurnID, f.Params.Item)
	case "thread/tokenUsage/updated":
		t := f.Params.TokenUsage.Total
		return false, a.usage(ctx, store.TokenUsage{
			InputTokens: t.InputTokens, CachedInputTokens: t.CachedInputTokens, OutputTokens: t.OutputTokens,
		})
	case "error":
		if f.Params.WillRetry {
			a.follow("notice", "Codex retries: "+f.Params.Error.Message)
		}
	case "turn/completed":
		turn := f.Params.Turn
		return true, a.turnEnded(ctx, endedTurn{id: turn.ID, status: turn.Status, text: a.lastText[turn.ID], errorJSON: turn.Error})
	}
	return false, nil
}

func (a *agent) itemCompleted(ctx context.Context, turn string, it item) error {
	switch it.Type {
	case "agentMessage", "plan":
		a.lastText[turn] = it.Text
		a.follow("message", it.Text)
	case "mcpToolCall":
		if it.Status == "failed" || it.Error != nil {
			a.sup.undone.failed(a.ref, it.ID)
			a.follow("notice", fmt.Sprintf("%s.%s failed", it.Server, it.Tool))
		}
	}
	return a.progress(ctx)
}

// progress notes that the agent works, for whoever waits for a change.
func (a *agent) progress(ctx context.Context) error {
	if a.jobID == "" {
		return nil
	}
	now := a.sup.cfg.now().UTC()
	return a.sup.updateJob(ctx, a.jobID, func(_ *store.Tx, j *store.Job) error {
		if j.Status.Terminal() {
			return errUnchanged
		}
		j.LastProgressAt = &now
		return nil
	})
}

// usage keeps the thread's token counts, which the engine sums over its turns.
func (a *agent) usage(ctx context.Context, total store.TokenUsage) error {
	if a.jobID == "" {
		return nil
	}
	return a.sup.updateJob(ctx, a.jobID, func(_ *store.Tx, j *store.Job) error {
		if j.Status.Terminal() {
			return errUnchanged
		}
		if j.Usage != nil {
			total.EventCount = j.Usage.EventCount
		}
		total.EventCount++
		j.Usage = &total
		return nil
	})
}

// serverRequest answers what the engine asks. Nobody is there yet who may
// approve, so approvals are declined, which the model is told, and the turn
// goes on.
func (a *agent) serverRequest(ctx context.Context, id, method string) error {
	answer, known := declined[method]
	if !known {
		answer = "{}" // Codex takes an answer of the wrong shape for a refusal
	}
	c, cancel := short(ctx)
	defer cancel()
	_, err := a.host.Respond(c, &hostpb.RespondRequest{
		Fence: a.fence(), CommandId: fmt.Sprintf("answer-%d-%s", a.rec.Generation, id), RequestId: id, ResultJson: []byte(answer),
	})
	if err != nil {
		return hostError("declining "+method, err)
	}
	a.follow("notice", "declined: "+method)
	return nil
}

// declined is the refusal of each request of the engine, by method
// (app-server 0.149.0, ServerRequest).
var declined = map[string]string{
	"item/commandExecution/requestApproval": `{"decision":"decline"}`,
	"item/fileChange/requestApproval":       `{"decision":"decline"}`,
	"item/permissions/requestApproval":      `{"permissions":{},"scope":"turn"}`,
	"item/tool/requestUserInput":            `{"answers":{}}`,
	"mcpServer/elicitation/request":         `{"action":"decline"}`,
}

func describeItem(it item) string {
	switch it.Type {
	case "commandExecution":
		return "runs " + it.Command
	case "mcpToolCall":
		return "calls " + it.Tool
	case "reasoning":
		return "thinks"
	}
	return ""
}

func followEvent(kind, agent, job, text string) control.FollowEvent {
	return control.FollowEvent{Type: kind, Agent: agent, JobID: job, Text: text}
}
