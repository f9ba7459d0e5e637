package supervisor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// frame is what we read of an app-server message. Unknown members and variants
// are ignored: the protocol grows.
type frame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		ThreadID       string          `json:"threadId"`
		ConversationID string          `json:"conversationId"` // older requests name the thread so
		TurnID         string          `json:"turnId"`
		RequestID      json.RawMessage `json:"requestId"`
		Thread         freshThread     `json:"thread"`
		Goal           struct {
			Status string `json:"status"`
		} `json:"goal"`
		Turn struct {
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
		WillRetry bool            `json:"willRetry"`
		Status    json.RawMessage `json:"status"`
	} `json:"params"`
}

// tokens is what a thread has used over its life.
func (f *frame) tokens() store.TokenUsage {
	t := f.Params.TokenUsage.Total
	return store.TokenUsage{InputTokens: t.InputTokens, CachedInputTokens: t.CachedInputTokens, OutputTokens: t.OutputTokens}
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
	if f.Method == "thread/started" {
		a.noteFresh(&f.Params.Thread)
		return false, nil
	}
	asks := len(f.ID) > 0 && string(f.ID) != "null"
	if thread := cmp.Or(f.Params.ThreadID, f.Params.ConversationID); thread != "" && thread != a.rec.ThreadID {
		if !asks && f.Method != "serverRequest/resolved" || !a.ofNative(ctx, thread) {
			return false, a.nativeFrame(ctx, thread, &f)
		}
	}
	if asks {
		var whole struct {
			Params json.RawMessage `json:"params"`
		}
		_ = json.Unmarshal(raw, &whole) // it was read before
		return true, a.serverRequest(ctx, &f, whole.Params)
	}
	switch f.Method {
	case "serverRequest/resolved":
		return true, a.resolved(ctx, f.Params.RequestID)
	case "thread/goal/updated":
		return true, a.goalUpdated(ctx, f.Params.Goal.Status)
	case "turn/started":
		return true, a.turnStarted(ctx, f.Params.Turn.ID)
	case "item/started":
		a.follow("item", describeItem(f.Params.Item))
	case "item/completed":
		return true, a.itemCompleted(ctx, f.Params.TurnID, f.Params.Item)
	case "thread/tokenUsage/updated":
		return false, a.usage(ctx, f.tokens())
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
	case "contextCompaction":
		a.compactionEnded(nil)
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
	if err := a.chargeDirect(ctx, total); err != nil {
		return err
	}
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
