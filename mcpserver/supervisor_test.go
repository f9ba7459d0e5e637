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
		for _, want := range []string{"UnavailableError: ", "supervisor", "nothing is lost", "`codex-mmo status " + testSession + "`", "`codex-mmo resume " + testSession + "`"} {
			if !strings.Contains(text, want) {
				t.Errorf("text = %q, want %q in it", text, want)
			}
		}
		if strings.Contains(text, path) {
			t.Errorf("text = %q shows the socket", text)
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

// TestLostSpawn breaks the connection under a spawn that has no key: the model
// must look before it repeats it.
func TestLostSpawn(t *testing.T) {
	path := controltest.SocketPath(t)
	serving := make(chan *control.Server, 1)
	h := teamHandler()
	h.OnSpawn = func(ctx context.Context, _ control.Call, _ control.SpawnRequest) (*control.SpawnResponse, error) {
		stopped, cancel := context.WithCancel(ctx)
		cancel()
		go func() { _ = (<-serving).Shutdown(stopped) }() // by force: the connection is cut
		<-ctx.Done()
		return nil, ctx.Err()
	}
	serving <- controltest.Start(t, path, h)
	c := connect(t, mcpserver.Config{Socket: path, Token: "tok"})
	c.handshake("codex-mcp-client")
	got := c.call("agent_spawn", `{"agent":"reader","task":"x"}`).tool(t)
	if text := got.Content[0].Text; !got.IsError || !strings.HasPrefix(text, "ControlDeliveryUnknown: ") || !strings.Contains(text, "call agent_status before you repeat it") {
		t.Errorf("spawn = %+v, want ControlDeliveryUnknown and the advice to look", got)
	}
}
