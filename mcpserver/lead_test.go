package mcpserver_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/control/controltest"
	"github.com/codex-mmo/codex-mmo/mcpserver"
)

// leads is a client's session for tests: none until it is to be started.
type leads struct {
	path   string // of the control socket that is joined
	failed error
	joins  []string // what was asked for: "client start" or "client look"
	exists bool
}

func (l *leads) Caller(context.Context) (*control.CallerResponse, error) {
	answer := team()
	answer.SessionID = "" // there is none yet
	return answer, nil
}

func (l *leads) Join(_ context.Context, client string, start bool) (*control.Client, string, error) {
	asked := client + " look"
	if start {
		asked = client + " start"
	}
	l.joins = append(l.joins, asked)
	if l.failed != nil || !start && !l.exists {
		return nil, "", l.failed
	}
	l.exists = true
	return control.Dial(l.path, &control.ClientOptions{Token: "tok"}), "you lead now", nil
}

// TestLead: listing and looking start nothing, a spawn does; what waits for the
// client comes at the head of the next answer, in both forms; a session that has
// gone is looked for again.
func TestLead(t *testing.T) {
	h := teamHandler()
	h.OnJobs = noJobs
	h.OnSpawn = func(_ context.Context, call control.Call, r control.SpawnRequest) (*control.SpawnResponse, error) {
		return &control.SpawnResponse{Accepted: []control.AcceptedJob{{JobID: "j1", Agent: r.Agents[0].Agent}}}, nil
	}
	news := make(chan string, 1)
	h.OnNews = func(context.Context, control.Call, control.NewsRequest) (*control.NewsResponse, error) {
		select {
		case text := <-news:
			return &control.NewsResponse{Text: text}, nil
		default:
			return &control.NewsResponse{}, nil
		}
	}
	l := &leads{path: controltest.SocketPath(t)}
	server := controltest.Start(t, l.path, h)
	c := connect(t, mcpserver.Config{Lead: l})
	c.handshake("some-client")
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if row := c.next(); row.Error != nil || !strings.Contains(string(row.Result), "agent_spawn") {
		t.Fatalf("tools/list = %+v", row)
	}
	if none := c.call("agent_status", `{}`).tool(t); !none.IsError || !strings.HasPrefix(none.Content[0].Text, "FileNotFoundError: your team has no session yet") {
		t.Errorf("agent_status without a session = %+v", none)
	}
	first := c.call("agent_spawn", `{"agent":"reader","task":"x","task_kind":"read"}`).tool(t)
	if first.IsError || !strings.HasPrefix(first.Content[0].Text, `{"notice":"you lead now",`) || string(first.Structured) != first.Content[0].Text {
		t.Errorf("the first spawn = %+v", first)
	}
	news <- "[inbox] news"
	told := c.call("agent_status", `{}`).tool(t)
	if !strings.HasPrefix(told.Content[0].Text, `{"notice":"[inbox] news","jobs":`) || string(told.Structured) != told.Content[0].Text {
		t.Errorf("the answer after news = %+v", told)
	}
	news <- "[inbox] news"
	if failed := c.call("agent_result", `{"job_id":"j1"}`).tool(t); !failed.IsError || !strings.HasPrefix(failed.Content[0].Text, "[inbox] news\nRuntimeError: ") {
		t.Errorf("the error after news = %+v", failed)
	}
	if again := c.call("agent_status", `{}`).tool(t); strings.Contains(again.Content[0].Text, "notice") {
		t.Errorf("news came twice: %+v", again)
	}
	if want := []string{"some-client look", "some-client start"}; !cmp.Equal(l.joins, want) {
		t.Errorf("joins = %q, want %q", l.joins, want)
	}

	if err := server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.failed = core.Errorf(core.KindRuntime, "the session is away").WithRemedy("wait")
	if away := c.call("agent_status", `{}`).tool(t); !away.IsError || away.Content[0].Text != "RuntimeError: the session is away; wait" {
		t.Errorf("agent_status of a session that has gone = %+v", away)
	}
}
