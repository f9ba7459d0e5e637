package mcpserver_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/control/controltest"
	"github.com/codex-mmo/codex-mmo/mcpserver"
)

// TestSupervisorDown calls tools while no supervisor is there, and again when
// one has come.
func TestSupervisorDown(t *testing.T) {
	path := controltest.SocketPath(t)
	c := connect(t, mcpserver.Config{Client: control.Dial(path, &control.ClientOptions{Token: "tok", Retry: 20 * time.Millisecond})})
	c.handshake("codex-mcp-client")
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	listed := c.next()
	if listed.Error == nil || listed.Error.Code != -32000 {
		t.Fatalf("tools/list = %+v, want an error", listed)
	}
	called := c.call("agent_status", `{}`).tool(t)
	for _, text := range []string{listed.Error.Message, called.Content[0].Text} {
		for _, want := range []string{"UnavailableError: ", "supervisor", "nothing is lost", "`codex-mmo status " + testSession + "`"} {
			if !strings.Contains(text, want) {
				t.Errorf("text = %q, want %q in it", text, want)
			}
		}
		for _, unwanted := range []string{path, "resume"} { // a path of ours, and a verb that does not exist
			if strings.Contains(text, unwanted) {
				t.Errorf("text = %q, want no %q in it", text, unwanted)
			}
		}
	}
	h := teamHandler()
	h.OnJobs = noJobs
	controltest.Start(t, path, h)
	if r := c.call("agent_status", `{}`).tool(t); r.IsError {
		t.Errorf("call after the supervisor has come = %+v, want success", r)
	}
}

// TestSupervisorComesBack calls a tool while the supervisor is away for less
// than the retry time.
func TestSupervisorComesBack(t *testing.T) {
	path := controltest.SocketPath(t)
	h := teamHandler()
	h.OnJobs = noJobs
	first := controltest.Start(t, path, h)
	c := connect(t, mcpserver.Config{Socket: path, Token: "tok"})
	c.handshake("codex-mcp-client")
	c.call("agent_status", `{}`)
	if err := first.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.send(callLine("1", "agent_status", `{}`))
	controltest.Start(t, path, h)
	if r := c.next().tool(t); r.IsError {
		t.Errorf("call = %+v, want the new supervisor's answer", r)
	}
}

// TestCallerMustBeWhoItClaims: what the environment says of the caller must be
// what its capability proves.
//
// Spec: R058
func TestCallerMustBeWhoItClaims(t *testing.T) {
	for _, tc := range []struct {
		name, agent, job, session string
		answer                    *control.CallerResponse
		want                      string
	}{
		{"another agent with the root's token", "reader", "j", testSession, team(), "PermissionError: only the root role"},
		{"another worker", "reader", "j", testSession, &control.CallerResponse{Role: "worker", Agent: "checker", JobID: "k", SessionID: testSession}, "PermissionError: invalid MCP caller capability"},
		{"another job of the same agent", "checker", "j", testSession, &control.CallerResponse{Role: "worker", Agent: "checker", JobID: "k", SessionID: testSession}, "PermissionError: invalid MCP caller capability"},
		{"another session", "lead", "", "other", team(), "PermissionError: invalid MCP caller capability"},
		{"refused by the supervisor", "lead", "", testSession, nil, "PermissionError: invalid MCP caller capability"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := controltest.SocketPath(t)
			controltest.Start(t, path, &controltest.Handler{
				OnCaller: func(context.Context, control.Call, control.CallerRequest) (*control.CallerResponse, error) {
					if tc.answer == nil {
						return nil, core.Errorf(core.KindPermission, "invalid MCP caller capability")
					}
					return tc.answer, nil
				},
			})
			c := connect(t, mcpserver.Config{Socket: path, Token: "tok", SessionID: tc.session, Agent: tc.agent, JobID: tc.job})
			c.handshake("codex-mcp-client")
			c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			if r := c.next(); r.Error == nil || !strings.HasPrefix(r.Error.Message, tc.want) {
				t.Errorf("tools/list = %+v, want an error %q", r, tc.want)
			}
		})
	}
}

// TestLostChanges breaks the connection under calls that have no key: the model
// must look before it repeats them.
func TestLostChanges(t *testing.T) {
	for tool, arguments := range map[string]string{
		"agent_spawn":           `{"agent":"reader","task":"x"}`,
		"agents_spawn":          `{"agents":[{"agent":"reader","task":"x"}]}`,
		"agent_cancel":          `{"job_id":"j"}`,
		"agent_result_accept":   `{"job_id":"j","reason":"good"}`,
		"agent_result_reject":   `{"job_id":"j","reason":"bad"}`,
		"agent_patch_integrate": `{"job_id":"j","reason":"good"}`,
	} {
		t.Run(tool, func(t *testing.T) {
			path := controltest.SocketPath(t)
			serving := make(chan *control.Server, 1)
			cut := func(ctx context.Context) error {
				stopped, cancel := context.WithCancel(ctx)
				cancel()
				go func() { _ = (<-serving).Shutdown(stopped) }() // by force: the connection is cut
				<-ctx.Done()
				return ctx.Err()
			}
			h := teamHandler()
			h.OnSpawn = lost[control.SpawnRequest, control.SpawnResponse](cut)
			h.OnCancel = lost[control.CancelRequest, control.CancelResponse](cut)
			h.OnAccept = lost[control.DispositionRequest, control.DispositionResponse](cut)
			h.OnReject = lost[control.DispositionRequest, control.DispositionResponse](cut)
			h.OnIntegrate = lost[control.IntegrateRequest, control.IntegrateResponse](cut)
			serving <- controltest.Start(t, path, h)
			c := connect(t, mcpserver.Config{Socket: path, Token: "tok"})
			c.handshake("codex-mcp-client")
			got := c.call(tool, arguments).tool(t)
			if text := got.Content[0].Text; !got.IsError || !strings.HasPrefix(text, "ControlDeliveryUnknown: ") || !strings.Contains(text, "call agent_status before you repeat it") {
				t.Errorf("%s = %+v, want ControlDeliveryUnknown and the advice to look", tool, got)
			}
		})
	}
}

// lost is a handler method whose answer never arrives.
func lost[Req, Resp any](cut func(context.Context) error) func(context.Context, control.Call, Req) (*Resp, error) {
	return func(ctx context.Context, _ control.Call, _ Req) (*Resp, error) { return nil, cut(ctx) }
}
