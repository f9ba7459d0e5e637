package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/control/controltest"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/mcpserver"
)

// stdioEnv makes the test binary be a server on its standard streams.
const stdioEnv = "MMO_MCPSERVER_TEST_STDIO"

func TestMain(m *testing.M) {
	if os.Getenv(stdioEnv) != "" {
		os.Exit(serveStdio())
	}
	goleak.VerifyTestMain(m)
}

// serveStdio is what the command does.
func serveStdio() int {
	cfg, _ := mcpserver.FromEnv(os.Getenv) // its error is the answer to initialize
	cfg.Version = "test"
	cfg.In, cfg.Out = os.Stdin, os.Stdout
	cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	if id, err := process.Lookup(os.Getppid()); err == nil {
		if parent, err := process.Open(id); err == nil {
			cfg.ParentGone = parent.Done()
		}
	}
	if err := mcpserver.Serve(context.Background(), cfg); err != nil {
		return 1
	}
	return 0
}

const (
	testSession = "20260101-000000-demo-00000001"
	limit       = 20 * time.Second // for anything a test waits for
)

// team is a caller's answer with two agents, as the offline demo has them. Its
// last tool is one that this build does not know.
func team() *control.CallerResponse {
	return &control.CallerResponse{
		Role: "root", Agent: "lead", SessionID: testSession, Profile: "offline-demo",
		Tools: []string{
			"agent_spawn", "agents_spawn", "agent_status", "agents_wait", "agent_result", "agent_cancel",
			"agent_result_accept", "agent_result_reject", "agent_patch_integrate", "agent_unknown",
		},
		Spawn: []control.SpawnGrant{
			{Agent: "reader", Description: "Reads files and reports\nwhat they say.", TaskKinds: []string{"read"}, Modes: []string{"read-only"}},
			{Agent: "checker", Description: "Checks claims against the workspace.", TaskKinds: []string{"check", "read"}, Modes: []string{"read-only", "workspace-write"}},
		},
	}
}

func teamHandler() *controltest.Handler {
	return &controltest.Handler{
		OnCaller: func(context.Context, control.Call, control.CallerRequest) (*control.CallerResponse, error) {
			return team(), nil
		},
	}
}

// client is the other end of a server that runs in this process.
type client struct {
	t     *testing.T
	in    *io.PipeWriter
	rows  *bufio.Reader
	ended chan error
	stop  context.CancelFunc
}

// connect serves a configuration in this process until the test ends.
func connect(t *testing.T, cfg mcpserver.Config) *client {
	t.Helper()
	serverIn, in := io.Pipe()
	out, serverOut := io.Pipe()
	cfg.In, cfg.Out = serverIn, serverOut
	cfg.Log = slog.New(slog.DiscardHandler)
	if cfg.SessionID == "" {
		cfg.SessionID = testSession
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &client{t: t, in: in, rows: bufio.NewReader(out), ended: make(chan error, 1), stop: stop}
	go func() {
		err := mcpserver.Serve(ctx, cfg)
		_ = serverOut.Close()
		c.ended <- err
	}()
	t.Cleanup(func() {
		stop()
		_ = in.Close()
		_ = out.Close()
		select {
		case <-c.ended:
		case <-time.After(limit):
			t.Error("the server did not end")
		}
	})
	return c
}

// start serves h on a real socket, and a server in front of it, and shakes
// hands as Codex does.
func start(t *testing.T, h control.Handler) *client {
	t.Helper()
	path := controltest.SocketPath(t)
	controltest.Start(t, path, h)
	c := connect(t, mcpserver.Config{Socket: path, Token: "tok"})
	c.handshake("codex-mcp-client")
	return c
}

func (c *client) handshake(name string) {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"` + name + `","version":"1"}}}`)
	if row := c.next(); row.Error != nil {
		c.t.Fatalf("initialize = %+v", row.Error)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (c *client) send(lines ...string) {
	c.t.Helper()
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(c.in, strings.Join(lines, "\n")+"\n")
		sent <- err
	}()
	select {
	case err := <-sent:
		if err != nil {
			c.t.Fatalf("send: %v", err)
		}
	case <-time.After(limit):
		c.t.Fatal("the server does not read")
	}
}

// row is one answer.
type row struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    string `json:"data"`
	} `json:"error"`
}

func parseRow(t *testing.T, line string) row {
	t.Helper()
	var r row
	if err := json.Unmarshal([]byte(line), &r); err != nil || r.JSONRPC != "2.0" || (r.Result == nil) == (r.Error == nil) {
		t.Fatalf("answer %q is not JSON-RPC 2.0 (%v)", line, err)
	}
	return r
}

func (c *client) next() row {
	c.t.Helper()
	got := make(chan string, 1)
	go func() {
		line, _ := c.rows.ReadString('\n')
		got <- line
	}()
	select {
	case line := <-got:
		return parseRow(c.t, line)
	case <-time.After(limit):
		c.t.Fatal("no answer")
		return row{}
	}
}

// toolResult is the result of tools/call.
type toolResult struct {
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
}

func (r row) tool(t *testing.T) toolResult {
	t.Helper()
	if r.Error != nil {
		t.Fatalf("answer is the error %+v, want a tool result", *r.Error)
	}
	var out toolResult
	if err := json.Unmarshal(r.Result, &out); err != nil || len(out.Content) != 1 || out.Content[0].Type != "text" {
		t.Fatalf("tool result %s has no single text (%v)", r.Result, err)
	}
	return out
}

func callLine(id, tool, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
}

// call sends one tools/call and waits for its answer.
func (c *client) call(tool, arguments string) row {
	c.t.Helper()
	c.send(callLine("99", tool, arguments))
	return c.next()
}
