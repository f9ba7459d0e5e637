package mcpserver_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
)

// Each control tool sends its action with exactly the arguments that it was
// given, and refuses those of others.
func TestControls(t *testing.T) {
	revision := uint64(3)
	for call, want := range map[string]control.ControlRequest{
		`agent_inspect {"job_id":"j"}`:                                               {Action: "inspect", JobID: "j"},
		`agent_steer {"job_id":"j","expected_revision":3,"input":"look left"}`:       {Action: "steer", JobID: "j", ExpectedRevision: &revision, Input: "look left"},
		`agent_interrupt {"job_id":"j","expected_revision":3}`:                       {Action: "interrupt", JobID: "j", ExpectedRevision: &revision},
		`agent_pause {"job_id":"j","expected_revision":3}`:                           {Action: "pause", JobID: "j", ExpectedRevision: &revision},
		`agent_continue {"job_id":"j","expected_revision":3,"goal_token_budget":20}`: {Action: "continue", JobID: "j", ExpectedRevision: &revision, GoalTokenBudget: 20},
		`agent_finalize {"job_id":"j","expected_revision":3}`:                        {Action: "finalize", JobID: "j", ExpectedRevision: &revision},
		`agent_compact {"job_id":"j","expected_revision":3}`:                         {Action: "compact", JobID: "j", ExpectedRevision: &revision},
		`agent_set_effort {"job_id":"j","expected_revision":3,"effort":"max"}`:       {Action: "set_effort", JobID: "j", ExpectedRevision: &revision, Effort: "max"},
		`agent_respond {"job_id":"j","expected_revision":3,"request_id":"integer:1","response":{"decision":"decline"}}`: {
			Action: "respond", JobID: "j", ExpectedRevision: &revision, RequestID: "integer:1", Response: json.RawMessage(`{"decision":"decline"}`),
		},
		`agent_fork {"job_id":"j","expected_revision":3,"input":"and then"}`: {Action: "fork", JobID: "j", ExpectedRevision: &revision, Input: "and then"},
		`agent_detach {"job_id":"j","expected_revision":3}`:                  {Action: "detach", JobID: "j", ExpectedRevision: &revision},
		`agent_stop {"job_id":"j","expected_revision":3}`:                    {Action: "stop", JobID: "j", ExpectedRevision: &revision},
	} {
		name, arguments, _ := strings.Cut(call, " ")
		t.Run(name, func(t *testing.T) {
			var got control.ControlRequest
			h := teamHandler()
			h.OnCaller = func(context.Context, control.Call, control.CallerRequest) (*control.CallerResponse, error) {
				return controllingAll(worker()), nil
			}
			h.OnControl = func(_ context.Context, _ control.Call, r control.ControlRequest) (*control.ControlResponse, error) {
				got = r
				return &control.ControlResponse{ControlRevision: 4, Result: map[string]any{}}, nil
			}
			c := start(t, h)
			c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":` + arguments + `}}`)
			answer := string(c.next().Result)
			if diff := cmp.Diff(want, got); diff != "" || !strings.Contains(answer, `"control_revision":4`) {
				t.Errorf("answer %s; the request differs (-want +got):\n%s", answer, diff)
			}
			c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` + name + `","arguments":{"job_id":"j","expected_revision":3,"root":true}}}`)
			if m := c.next(); m.Error == nil || m.Error.Code != -32602 {
				t.Errorf("an unknown argument: %+v, want -32602", m)
			}
		})
	}
}

// What an agent asks is marked as untrusted and bounded, and a refusal names its
// kind.
func TestControlAnswers(t *testing.T) {
	h := teamHandler()
	h.OnCaller = func(context.Context, control.Call, control.CallerRequest) (*control.CallerResponse, error) {
		return controlling(worker()), nil
	}
	h.OnControl = func(_ context.Context, _ control.Call, r control.ControlRequest) (*control.ControlResponse, error) {
		if r.Action != "inspect" {
			return nil, core.Errorf(core.KindRuntime, "stale control revision 0: agent reader is at 1")
		}
		big := json.RawMessage(`{"question":"` + strings.Repeat("x", 5000) + `"}`)
		return &control.ControlResponse{ControlRevision: 1, Live: &control.LiveView{
			ThreadID: "t", PendingRequests: []control.PendingView{{RequestID: "integer:1", Method: "item/tool/requestUserInput", Params: big}},
		}}, nil
	}
	c := start(t, h)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"agent_inspect","arguments":{"job_id":"j"}}}`)
	answer := string(c.next().Result)
	for _, want := range []string{`"untrusted":true`, `"params":{"truncated":true,"bytes":5015}`, `"request_id":"integer:1"`} {
		if !strings.Contains(answer, want) {
			t.Errorf("inspect answers %s, want %s in it", answer, want)
		}
	}
	c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"agent_stop","arguments":{"job_id":"j","expected_revision":0}}}`)
	if answer := string(c.next().Result); !strings.Contains(answer, "RuntimeError") || !strings.Contains(answer, "stale control revision 0") || !strings.Contains(answer, `"isError":true`) {
		t.Errorf("a refusal reads %s", answer)
	}
}
