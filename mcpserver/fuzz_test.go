package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/control/controltest"
	"github.com/codex-mmo/codex-mmo/core/strictjson"
	"github.com/codex-mmo/codex-mmo/mcpserver"
)

// serveAll gives a server all of its input and returns all of its output.
func serveAll(t *testing.T, client *control.Client, input []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	err := mcpserver.Serve(context.Background(), mcpserver.Config{
		Client: client, SessionID: testSession,
		In: bytes.NewReader(input), Out: &out, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("Serve = %v, want nil", err)
	}
	return out.Bytes()
}

// FuzzFrames feeds a server with anything: it ends, and all it says is strict
// JSON-RPC, at most one answer a line.
func FuzzFrames(f *testing.F) {
	for _, seed := range []string{
		"", "\n\n", "[]\n", "{}", "nul", `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		initializeLine + "\n" + initializedLine + "\n" + `{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/list"}`,
		initializeLine + "\n" + initializedLine + "\n" + callLine(`"x"`, "agent_status", `{}`) + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`,
		`{"jsonrpc":"2.0","id":7,"method":"\ud800"}`, `{"jsonrpc":"2.0","id":6,"method":"ping","method":"x"}`,
		`{"jsonrpc":"2.0","id":true,"method":"ping"}`, `{"jsonrpc":"2.0","id":{},"result":{}}`,
	} {
		f.Add([]byte(seed))
	}
	client := control.Dial("/nowhere/s", nil)
	f.Fuzz(func(t *testing.T, input []byte) {
		answers := 0
		for line := range bytes.Lines(serveAll(t, client, input)) {
			answers++
			if err := strictjson.Check(line, nil); err != nil {
				t.Errorf("answer %q: %v", line, err)
			}
			parseRow(t, string(line))
		}
		if lines := bytes.Count(input, []byte("\n")) + 1; answers > lines {
			t.Errorf("%d answers to %d lines", answers, lines)
		}
	})
}

// FuzzArguments calls every tool with anything for arguments: there is one
// answer, and what reaches the supervisor fits its own rules.
func FuzzArguments(f *testing.F) {
	for i, seed := range []string{
		`{"agent":"reader","task":"x","mode":"read-only"}`,
		`{"agents":[{"agent":"reader","task":"x"},{"agent":"checker","task":"y","write_scope":["a"]}]}`,
		`{"job_id":"j"}`,
		`{"job_ids":["a"],"timeout_seconds":1e300,"after_revision":{"a":1}}`,
		`{"job_id":"j","cursor":1.0,"max_chars":3}`,
		`{"job_id":"j","reason":"x","cascade":true}`,
		`{"job_id":"j","reason":"x"}`,
		`{"job_id":"j","reason":""}`,
		`{"job_id":"j","reason":"x","allow_flagged":true}`,
		`[]`, `null`, `{"a":{"a":{}}}`,
	} {
		f.Add(uint8(i), seed)
	}
	names := team().Tools
	path := controltest.SocketPath(f)
	controltest.Start(f, path, &argumentChecker{Handler: teamHandler(), t: f})
	client := control.Dial(path, &control.ClientOptions{Token: "tok"})
	f.Fuzz(func(t *testing.T, which uint8, arguments string) {
		name := names[int(which)%len(names)]
		if strings.ContainsAny(arguments, "\n\r") {
			return // another frame
		}
		input := initializeLine + "\n" + initializedLine + "\n" + callLine("1", name, arguments) + "\n"
		rows := bytes.Split(bytes.TrimSpace(serveAll(t, client, []byte(input))), []byte("\n"))
		if len(rows) != 2 {
			t.Fatalf("%d answers to 2 requests", len(rows))
		}
		r := parseRow(t, string(rows[1]))
		if r.Error != nil {
			return
		}
		var result map[string]json.RawMessage
		if err := json.Unmarshal(r.Result, &result); err != nil || result["content"] == nil {
			t.Errorf("result = %s, want one with content", r.Result)
		}
	})
}

// argumentChecker is a supervisor that holds requests to what the tools'
// schemas promise.
type argumentChecker struct {
	*controltest.Handler
	t testing.TB
}

func (a *argumentChecker) Spawn(_ context.Context, _ control.Call, r control.SpawnRequest) (*control.SpawnResponse, error) {
	if n := len(r.Agents); n < 1 || n > 32 {
		a.t.Errorf("spawn of %d jobs reached the supervisor", n)
	}
	for _, spec := range r.Agents {
		if spec.Agent != "reader" && spec.Agent != "checker" || spec.Task == "" {
			a.t.Errorf("spawn of %+v reached the supervisor", spec)
		}
	}
	return nil, core.Errorf(core.KindAdmission, "no")
}

func (a *argumentChecker) Jobs(context.Context, control.Call, control.JobsRequest) (*control.JobsResponse, error) {
	return &control.JobsResponse{}, nil
}

func (a *argumentChecker) Wait(_ context.Context, _ control.Call, r control.WaitRequest) (*control.WaitResponse, error) {
	if limit := (1200 * time.Second).Seconds(); len(r.JobIDs) == 0 || r.TimeoutSeconds < 0 || r.TimeoutSeconds > limit {
		a.t.Errorf("wait of %+v reached the supervisor", r)
	}
	return &control.WaitResponse{}, nil
}

func (a *argumentChecker) Result(_ context.Context, _ control.Call, r control.ResultRequest) (*control.ResultResponse, error) {
	if r.Cursor < 0 || r.MaxChars < 1 || r.MaxChars > 30_000 {
		a.t.Errorf("result of %+v reached the supervisor", r)
	}
	return &control.ResultResponse{JobID: r.JobID, Content: strconv.Itoa(r.Cursor)}, nil
}

func (a *argumentChecker) Cancel(_ context.Context, _ control.Call, r control.CancelRequest) (*control.CancelResponse, error) {
	if len([]rune(r.Reason)) > 500 {
		a.t.Errorf("cancel of %+v reached the supervisor", r)
	}
	return &control.CancelResponse{}, nil
}

func (a *argumentChecker) decision(reason string) {
	if n := len([]rune(reason)); n < 1 || n > 500 {
		a.t.Errorf("a decision for %q reached the supervisor", reason)
	}
}

func (a *argumentChecker) Accept(_ context.Context, _ control.Call, r control.DispositionRequest) (*control.DispositionResponse, error) {
	a.decision(r.Reason)
	return &control.DispositionResponse{}, nil
}

func (a *argumentChecker) Reject(_ context.Context, _ control.Call, r control.DispositionRequest) (*control.DispositionResponse, error) {
	a.decision(r.Reason)
	return &control.DispositionResponse{}, nil
}

func (a *argumentChecker) Integrate(_ context.Context, _ control.Call, r control.IntegrateRequest) (*control.IntegrateResponse, error) {
	a.decision(r.Reason)
	return &control.IntegrateResponse{}, nil
}
