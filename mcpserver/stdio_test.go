package mcpserver_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core/control/controltest"
)

// server is a server process on the test binary.
func serverProcess(t *testing.T, path string, missing ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0])
	for _, kv := range []string{
		"MMO_ROOT_SESSION_ID=" + testSession, "MMO_RUN_ID=run-000001-00000000",
		"MMO_CALLER_AGENT=lead", "MMO_CALLER_TOKEN=tok", "MMO_CONTROL_SOCKET=" + path,
	} {
		name, _, _ := strings.Cut(kv, "=")
		if len(missing) == 0 || missing[0] != name {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, stdioEnv+"=1", "HOME="+os.Getenv("HOME"))
	return cmd
}

// exchange runs a server with all of its input at once, as a careless client
// does, and returns its answers.
func exchange(t *testing.T, cmd *exec.Cmd, lines ...string) []row {
	t.Helper()
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("server: %v\n%s", err, &stderr)
	}
	var rows []row
	for line := range strings.Lines(stdout.String()) {
		rows = append(rows, parseRow(t, line))
	}
	return rows
}

const initializeLine = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"codex-mcp-client","version":"1"}}}`

const initializedLine = `{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}`

// TestNegotiationLifecycleAndValidation feeds a server process every kind of
// bad frame at once and expects the answers in the order of the frames.
//
// Spec: R060
func TestNegotiationLifecycleAndValidation(t *testing.T) {
	path := controltest.SocketPath(t)
	controltest.Start(t, path, teamHandler())
	rows := exchange(t, serverProcess(t, path),
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`,
		`{"jsonrpc":"2.0","id":"initialize-request","method":"initialize","params":{"protocolVersion":"2099-01-01","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`,
		initializedLine,
		`{"jsonrpc":"2.0","id":true,"method":"tools/list","params":{}}`,
		`{"jsonrpc":"2.0","id":null,"method":"tools/list","params":{}}`,
		`{"jsonrpc":"2.0","id":1.5,"method":"tools/list","params":{}}`,
		`{"jsonrpc":"1.0","id":3,"method":"tools/list","params":{}}`,
		`{"jsonrpc":"2.0","id":8,"method":"tools/list","params":[]}`,
		`{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{}}`,
		`[]`,
		`{"jsonrpc":"2.0","id":5,"method":"ping","params":{"n":NaN}}`,
		`{"jsonrpc":"2.0","id":6,"method":"ping","method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":7,"method":"\ud800"}`,
	)
	want := []struct {
		id   string
		code int // 0 for a result
		text string
	}{
		{"1", -32600, "server not initialized"},
		{`"initialize-request"`, 0, `"protocolVersion":"2025-06-18"`},
		{"null", -32600, "invalid request"},
		{"null", -32600, "invalid request"},
		{"null", -32600, "invalid request"},
		{"3", -32600, "invalid request"},
		{"8", -32600, "invalid request"},
		{"4", 0, `"tools":[`},
		{"null", -32600, "invalid request"},
		{"null", -32700, "parse error"},
		{"null", -32700, "parse error"},
		{"null", -32700, "parse error"},
	}
	if len(rows) != len(want) {
		t.Fatalf("got %d answers, want %d: %+v", len(rows), len(want), rows)
	}
	for i, w := range want {
		r := rows[i]
		if string(r.ID) != w.id {
			t.Errorf("answer %d has id %s, want %s", i, r.ID, w.id)
		}
		switch {
		case w.code == 0 && (r.Error != nil || !strings.Contains(string(r.Result), w.text)):
			t.Errorf("answer %d = %s %+v, want a result with %s", i, r.Result, r.Error, w.text)
		case w.code != 0 && (r.Error == nil || r.Error.Code != w.code || r.Error.Message != w.text):
			t.Errorf("answer %d = %s %+v, want error %d %q", i, r.Result, r.Error, w.code, w.text)
		}
	}
}

// TestAllInputAtOnce pins that calls in flight at the end of input are
// answered, and a last line without a line feed too.
func TestAllInputAtOnce(t *testing.T) {
	path := controltest.SocketPath(t)
	h := teamHandler()
	h.OnJobs = noJobs
	controltest.Start(t, path, h)
	cmd := serverProcess(t, path)
	cmd.Stdin = strings.NewReader(strings.Join([]string{
		initializeLine, initializedLine, callLine("1", "agent_status", "{}"), callLine("2", "agent_status", "{}"),
	}, "\n"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(out), "\n"); got != 3 {
		t.Errorf("%d answers, want 3:\n%s", got, out)
	}
}

func TestMissingEnvironment(t *testing.T) {
	for _, name := range []string{"MMO_ROOT_SESSION_ID", "MMO_RUN_ID", "MMO_CALLER_AGENT", "MMO_CALLER_TOKEN", "MMO_CONTROL_SOCKET"} {
		rows := exchange(t, serverProcess(t, "/nowhere", name), initializeLine, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		if len(rows) != 2 || rows[0].Error == nil || !strings.Contains(rows[0].Error.Message, name) || rows[1].Error != nil {
			t.Errorf("without %s: answers %+v, want an error that names it and a pong", name, rows)
		}
	}
}

// TestParentGone kills the parent of a server whose input stays open
// elsewhere.
func TestParentGone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	out, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	// The shell is the parent; its own death leaves us holding the server's input.
	cmd := serverProcess(t, "/nowhere")
	shell := exec.CommandContext(t.Context(), "/bin/sh", "-c", `"$0" <&3 & wait`, os.Args[0])
	shell.Env, shell.Stdout, shell.ExtraFiles = cmd.Env, outW, []*os.File{r}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	_ = outW.Close()
	// A pong shows that the server runs and watches its parent.
	if _, err := w.WriteString(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"); err != nil {
		t.Fatal(err)
	}
	pong := make([]byte, 64)
	if _, err := out.Read(pong); err != nil {
		t.Fatal(err)
	}
	if err := shell.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = shell.Wait()
	// The server held the last other end of out.
	ended := make(chan error, 1)
	go func() {
		_, err := out.Read(pong)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the server wrote something instead of ending")
		}
	case <-time.After(limit):
		t.Error("the server outlives its parent")
	}
}
