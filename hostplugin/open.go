package hostplugin

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/codex-mmo/codex-mmo/hostplugin/appserver"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// defaultOpenWait bounds Open: required MCP servers start before the thread.
const defaultOpenWait = 120 * time.Second

var (
	errNotLaunched = failf("not_launched", "no engine was launched or recovered on this host")
	errNoThread    = failf("unknown_thread", "no thread is open on this host")
)

// Open implements hostpb.HostServer. Open of the spec that is open already
// returns the first answer again.
func (h *Host) Open(ctx context.Context, req *hostpb.OpenRequest) (*hostpb.OpenResponse, error) {
	if err := h.fence.check(req.GetFence()); err != nil {
		return nil, err
	}
	h.opening.Lock()
	defer h.opening.Unlock()
	ctx, cancel := context.WithTimeout(ctx, bound(req.GetTimeoutMs(), defaultOpenWait))
	defer cancel()
	out, err := h.open(ctx, req.GetThread())
	if err != nil {
		return &hostpb.OpenResponse{Failure: wireFailure(err)}, nil
	}
	return out, nil
}

func (h *Host) open(ctx context.Context, spec *hostpb.ThreadSpec) (*hostpb.OpenResponse, error) {
	e := h.current()
	if e == nil {
		return nil, errNotLaunched
	}
	if e.opened != nil {
		if proto.Equal(e.opened.spec, spec) {
			return e.opened.response, nil
		}
		return nil, failf("thread_open", "thread %s is open on this host; an engine drives one thread", e.snapshot().GetThreadId())
	}
	method, params, err := openCall(spec)
	if err != nil {
		return nil, err
	}
	conn, err := h.connect(ctx, e)
	if err != nil {
		return nil, err
	}
	ctx, stop := whileAlive(ctx, e)
	defer stop()
	goal := ""
	if id := spec.GetResumeThreadId(); id != "" {
		e.thread.begin(id)
		if goal, err = pauseGoal(ctx, conn, id); err != nil {
			return nil, err
		}
	}
	var answer threadAnswer
	raw, err := e.call(ctx, method, params, &answer)
	if err != nil {
		return nil, err
	}
	if answer.Thread.ID == "" {
		return nil, &appserver.ProtocolError{Rule: "the answer to " + method + " names no thread"}
	}
	e.thread.begin(answer.Thread.ID)
	if err := makeDurable(ctx, e, spec, answer.Thread.ID, answer.Thread.Path); err != nil {
		return nil, err
	}
	e.setThread(answer.Thread.ID)
	state, err := readThread(ctx, e, answer.Thread.ID, false)
	if err != nil {
		return nil, err
	}
	e.thread.attach(state)
	state.Pending, state.GoalStatus = e.thread.state().GetPending(), goal
	out := &hostpb.OpenResponse{Handle: e.snapshot(), Echo: answer.echo(e, raw), State: state}
	e.opened = &openedThread{spec: proto.CloneOf(spec), response: out}
	return out, nil
}

// openCall turns the spec into the engine's call. permissions and sandbox never
// go together: sandbox drops the named profile without a word (0.149.0,
// 0.171.0).
func openCall(spec *hostpb.ThreadSpec) (method string, params map[string]any, err error) {
	if spec.GetPermissions() != "" && spec.GetSandbox() != "" {
		return "", nil, failf("invalid", "open: permissions and sandbox exclude each other")
	}
	params = map[string]any{}
	set := func(name, value string) {
		if value != "" {
			params[name] = value
		}
	}
	set("cwd", spec.GetCwd())
	set("model", spec.GetModel())
	set("modelProvider", spec.GetModelProvider())
	set("permissions", spec.GetPermissions())
	set("sandbox", spec.GetSandbox())
	set("baseInstructions", spec.GetBaseInstructions())
	set("developerInstructions", spec.GetDeveloperInstructions())
	if policy := spec.GetApprovalPolicy(); strings.HasPrefix(policy, "{") {
		params["approvalPolicy"] = json.RawMessage(policy)
	} else {
		set("approvalPolicy", policy)
	}
	config, err := threadConfig(spec)
	if err != nil {
		return "", nil, err
	}
	if len(config) > 0 {
		params["config"] = config
	}
	switch {
	case spec.GetStart():
		if len(spec.GetDynamicToolsJson()) > 0 {
			params["dynamicTools"] = json.RawMessage(spec.GetDynamicToolsJson())
		}
		// The default of 0.149.0 keeps no commands in the history.
		params["historyMode"] = "paginated"
		return "thread/start", params, nil
	case spec.GetResumeThreadId() != "":
		params["threadId"], params["excludeTurns"] = spec.GetResumeThreadId(), true
		return "thread/resume", params, nil
	case spec.GetForkThreadId() != "":
		params["threadId"], params["excludeTurns"] = spec.GetForkThreadId(), true
		return "thread/fork", params, nil
	}
	return "", nil, failf("invalid", "open: one of start, resume and fork must be set")
}

// threadConfig is the spec's configuration and the effort, for which the calls
// have no member of their own.
func threadConfig(spec *hostpb.ThreadSpec) (map[string]any, error) {
	config := map[string]any{}
	if len(spec.GetConfigJson()) > 0 {
		if err := json.Unmarshal(spec.GetConfigJson(), &config); err != nil {
			return nil, failf("invalid", "open: config_json is not a JSON object: %v", err)
		}
	}
	if spec.GetEffort() != "" {
		config["model_reasoning_effort"] = spec.GetEffort()
	}
	return config, nil
}

// pauseGoal keeps a resumed thread from spending by itself: an active goal
// starts a turn at once. It returns how the goal stood. Goals may be switched
// off, which is no error.
func pauseGoal(ctx context.Context, conn *appserver.Client, threadID string) (status string, err error) {
	var got struct {
		Goal *struct {
			Status string `json:"status"`
		} `json:"goal"`
	}
	raw, err := conn.Call(ctx, "thread/goal/get", map[string]any{"threadId": threadID})
	if isRefusal(err) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	if json.Unmarshal(raw, &got) != nil || got.Goal == nil || got.Goal.Status != "active" {
		if got.Goal != nil {
			status = got.Goal.Status
		}
		return status, nil
	}
	_, err = conn.Call(ctx, "thread/goal/set", map[string]any{"threadId": threadID, "status": "paused"})
	return got.Goal.Status, err
}

// makeDurable has the engine write a fresh thread's rollout: a thread that never
// ran and has none can't be resumed and dies with its process. Naming it does
// that for legacy threads only; for paginated ones a paused goal does, which
// starts nothing and is cleared at once, so that the model never sees it
// (0.149.0).
func makeDurable(ctx context.Context, e *engine, spec *hostpb.ThreadSpec, threadID, rollout string) error {
	if spec.GetResumeThreadId() != "" {
		return nil
	}
	name := spec.GetName()
	if name == "" {
		name = e.snapshot().GetAgentRef()
	}
	for _, step := range []struct {
		method string
		params map[string]any
	}{
		{"thread/goal/set", map[string]any{"threadId": threadID, "objective": name, "status": "paused"}},
		{"thread/goal/clear", map[string]any{"threadId": threadID}},
		{"thread/name/set", map[string]any{"threadId": threadID, "name": name}},
	} {
		if _, err := e.call(ctx, step.method, step.params, nil); err != nil {
			return fmt.Errorf("making the thread durable: %w", err)
		}
	}
	if rollout == "" {
		return nil
	}
	if _, err := os.Stat(rollout); err != nil {
		return failf("not_durable", "the engine wrote no history for the fresh thread: %v", err)
	}
	return nil
}

// threadAnswer is what thread/start, resume and fork answer (0.149.0, schema
// v2/ThreadStartResponse).
type threadAnswer struct {
	Thread struct {
		ID   string `json:"id"`
		Path string `json:"path"` // of the rollout; null for ephemeral threads
	} `json:"thread"`
	Model          string          `json:"model"`
	ModelProvider  string          `json:"modelProvider"`
	Cwd            string          `json:"cwd"`
	ApprovalPolicy json.RawMessage `json:"approvalPolicy"` // a word or an object
	Sandbox        json.RawMessage `json:"sandbox"`
	Profile        *struct {
		ID string `json:"id"`
	} `json:"activePermissionProfile"`
}

func (a *threadAnswer) echo(e *engine, raw json.RawMessage) *hostpb.Echo {
	out := &hostpb.Echo{
		SandboxType: typeOf(a.Sandbox), Model: a.Model, ModelProvider: a.ModelProvider,
		Cwd: a.Cwd, RawJson: raw,
	}
	if a.Profile != nil {
		out.PermissionProfile = a.Profile.ID
	}
	if json.Unmarshal(a.ApprovalPolicy, &out.ApprovalPolicy) != nil {
		out.ApprovalPolicy = string(a.ApprovalPolicy)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	out.EngineVersion = e.server.Version()
	return out
}
