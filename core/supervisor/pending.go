package supervisor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// What the engine may ask (app-server 0.149.0 and 0.171.0, ServerRequest).
const (
	askCommand     = "item/commandExecution/requestApproval"
	askFileChange  = "item/fileChange/requestApproval"
	askPermissions = "item/permissions/requestApproval"
	askUserInput   = "item/tool/requestUserInput"
	askElicitation = "mcpServer/elicitation/request"
)

// refusals is how each request is refused, by method.
var refusals = map[string]string{
	askCommand:     `{"decision":"decline"}`,
	askFileChange:  `{"decision":"decline"}`,
	askPermissions: `{"permissions":{},"scope":"turn"}`,
	askUserInput:   `{"answers":{}}`,
	askElicitation: `{"action":"decline"}`,
}

// maxParams bounds what is kept of a request's parameters, in bytes.
const maxParams = 64 << 10

// serverRequest takes down what the engine asks, for whoever may answer. What
// nobody may say yes to, or belongs to no thread, is refused at once: the model
// is told, and the turn goes on.
func (a *agent) serverRequest(ctx context.Context, f *frame, params json.RawMessage) error {
	refusal, known := refusals[f.Method]
	if !known {
		refusal = "{}" // Codex takes an answer of the wrong shape for a refusal
	}
	thread := cmp.Or(f.Params.ThreadID, f.Params.ConversationID)
	if !known || thread == "" || !a.mayBeAsked(f.Method) {
		return a.refuse(ctx, string(f.ID), f.Method, refusal)
	}
	p := store.PendingRequest{
		Key: requestKey(f.ID), RequestID: string(f.ID), Method: f.Method, ThreadID: thread,
		TurnID: f.Params.TurnID, Params: boundedJSON(params), AskedAt: a.sup.cfg.now().UTC(),
	}
	a.rec.Pending = append(slices.DeleteFunc(slices.Clone(a.rec.Pending), func(q store.PendingRequest) bool { return q.Key == p.Key }), p)
	a.follow("notice", "waits for an answer: "+f.Method)
	if err := a.save(ctx, waking); err != nil {
		return err
	}
	return a.nowWaiting(ctx)
}

// mayBeAsked reports whether there can be a yes to a request of the agent.
// Under policy never there is none to what needs an approval.
func (a *agent) mayBeAsked(method string) bool {
	if method == askUserInput {
		return a.role.MayAsk
	}
	return a.role.ApprovalPolicy != "never"
}

func (a *agent) refuse(ctx context.Context, id, method, answer string) error {
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

// nowWaiting moves a job that asks to waiting. A root without a screen can be
// answered by nobody who looks on: its session is left by the command that
// waits for it.
func (a *agent) nowWaiting(ctx context.Context) error {
	if a.jobID != "" {
		return a.setStatus(ctx, core.JobWaiting, "")
	}
	rec := a.sup.cachedSession()
	if rec.Kind == kindInteractive || rec.Status != core.SessionRunning {
		return nil
	}
	return a.sup.detach(ctx, "requested operator input", "supervisor")
}

// resolved notes that a request needs no answer any more.
func (a *agent) resolved(ctx context.Context, id json.RawMessage) error {
	key := requestKey(id)
	left := slices.DeleteFunc(slices.Clone(a.rec.Pending), func(p store.PendingRequest) bool { return p.Key == key })
	if len(left) == len(a.rec.Pending) {
		return nil
	}
	a.rec.Pending = left
	if err := a.save(ctx, waking); err != nil || len(left) > 0 || a.jobID == "" {
		return err
	}
	if j, err := a.sup.cachedJob(a.jobID); err != nil || j.Status != core.JobWaiting {
		return err
	}
	return a.setStatus(ctx, core.JobRunning, "")
}

// syncPending drops what the engine does not wait for any more.
func (a *agent) syncPending(state *hostpb.ThreadState, age engineAge) {
	if age == engineNew {
		a.rec.Pending = nil
		return
	}
	a.rec.Pending = slices.DeleteFunc(slices.Clone(a.rec.Pending), func(p store.PendingRequest) bool {
		return !slices.ContainsFunc(state.GetPending(), func(q *hostpb.PendingRequest) bool { return q.GetRequestId() == p.RequestID })
	})
}

// forgetRequests drops what threads asked that have ended their turns. What native
// agents ask beside one of them still waits.
func (a *agent) forgetRequests(threads ...string) {
	a.rec.Pending = slices.DeleteFunc(slices.Clone(a.rec.Pending), func(p store.PendingRequest) bool { return slices.Contains(threads, p.ThreadID) })
}

// respond answers what the agent asks.
func (a *agent) respond(ctx context.Context, o *order) (map[string]any, error) {
	i := slices.IndexFunc(a.rec.Pending, func(p store.PendingRequest) bool { return p.Key == o.request })
	if i < 0 {
		return nil, core.Errorf(core.KindRuntime, "request %s of agent %s is stale: it was answered, or is none", o.request, a.rec.Agent).
			WithRemedy("inspect the agent: pending_requests lists what it asks")
	}
	p := a.rec.Pending[i]
	if err := checkResponse(p.Method, []byte(p.Params), o.response); err != nil {
		return nil, err
	}
	_, err := a.command(ctx, "answering", func(ctx context.Context) (*hostpb.CommandResponse, error) {
		return a.host.Respond(ctx, &hostpb.RespondRequest{Fence: a.fence(), CommandId: a.newCommand(), RequestId: p.RequestID, ResultJson: o.response})
	})
	if err != nil {
		return nil, err
	}
	return map[string]any{"responded": true}, a.resolved(ctx, json.RawMessage(p.RequestID))
}

// requestKey names an engine's request for people: an integer and a string of
// the same digits are two requests.
func requestKey(id json.RawMessage) string {
	var text string
	if json.Unmarshal(id, &text) == nil {
		return "string:" + text
	}
	return "integer:" + strings.TrimSpace(string(id))
}

// boundedJSON keeps a request's parameters, or says that they were too large.
func boundedJSON(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "{}"
	}
	if len(raw) > maxParams {
		return fmt.Sprintf(`{"truncated":true,"bytes":%d}`, len(raw))
	}
	return string(raw)
}

// liveView is what an agent's engine does, as its record has it.
func liveView(rec *store.AgentRun, effort string) *control.LiveView {
	v := &control.LiveView{ThreadID: rec.ThreadID, ActiveTurnID: rec.ActiveTurnID, Effort: effort, PendingRequests: pendingViews(rec)}
	if rec.Goal != nil {
		v.GoalStatus = rec.Goal.Status
	}
	return v
}

func pendingViews(rec *store.AgentRun) []control.PendingView {
	views := []control.PendingView{}
	for _, p := range rec.Pending {
		views = append(views, control.PendingView{
			RequestID: p.Key, Method: p.Method, ThreadID: p.ThreadID, TurnID: p.TurnID, Params: json.RawMessage(p.Params), AskedAt: p.AskedAt,
		})
	}
	return views
}
