package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/control/controltest"
	"github.com/codex-mmo/codex-mmo/mcpserver"
)

func noJobs(context.Context, control.Call, control.JobsRequest) (*control.JobsResponse, error) {
	return &control.JobsResponse{}, nil
}

func TestVersions(t *testing.T) {
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2026-07-28": "2025-06-18", "2099-01-01": "2025-06-18", "": "2025-06-18", "1": "2025-06-18",
	} {
		c := connect(t, mcpserver.Config{Socket: "/nowhere/s"})
		c.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + asked + `"}}`)
		var got struct {
			ProtocolVersion string         `json:"protocolVersion"`
			Instructions    string         `json:"instructions"`
			Capabilities    map[string]any `json:"capabilities"`
			ServerInfo      struct {
				Name string `json:"name"`
			} `json:"serverInfo"`
		}
		if err := json.Unmarshal(c.next().Result, &got); err != nil {
			t.Fatal(err)
		}
		if got.ProtocolVersion != want {
			t.Errorf("version for %q = %q, want %q", asked, got.ProtocolVersion, want)
		}
		if got.ServerInfo.Name != "mmo_mesh" || !strings.Contains(got.Instructions, "agents_wait") {
			t.Errorf("initialize = %+v, want our name and instructions", got)
		}
		if d := cmp.Diff(map[string]any{"tools": map[string]any{}}, got.Capabilities); d != "" {
			t.Errorf("capabilities differ (-want +got):\n%s", d)
		}
	}
}

func TestHandshakeOrder(t *testing.T) {
	c := connect(t, mcpserver.Config{Socket: "/nowhere/s"})
	for _, tc := range []struct {
		send string
		code int
		text string
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, 0, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"agent_status"}}`, -32600, "server not initialized"},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize"}`, -32602, "invalid params"},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`, -32602, "invalid params"},
		{initializeLine, 0, ""},
		{initializeLine, -32600, "already initialized"},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, -32600, "server not initialized"},
		{initializedLine + "\n" + `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`, -32601, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, -32601, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`, -32602, "invalid params"},
		{`{"jsonrpc":"2.0","id":1,"Method":"ping"}`, -32600, "invalid request"},
	} {
		c.send(tc.send)
		r := c.next()
		switch {
		case tc.code == 0 && r.Error != nil:
			t.Errorf("%s = %+v, want a result", tc.send, *r.Error)
		case tc.code != 0 && (r.Error == nil || r.Error.Code != tc.code || tc.text != "" && r.Error.Message != tc.text):
			t.Errorf("%s = %s %+v, want error %d %q", tc.send, r.Result, r.Error, tc.code, tc.text)
		}
	}
}

// TestIDsAreEchoed pins that an id comes back as its own bytes, beyond what a
// float64 holds and with the escapes its sender chose.
func TestIDsAreEchoed(t *testing.T) {
	h := teamHandler()
	h.OnJobs = noJobs
	c := start(t, h)
	for _, id := range []string{"9007199254740993", "-1", "9223372036854775807", `"a\u0062\/"`, `""`, "0"} {
		for _, line := range []string{
			`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`,
			callLine(id, "agent_status", "{}"),
			callLine(id, "no_such_tool", "{}"),
		} {
			c.send(line)
			if got := string(c.next().ID); got != id {
				t.Errorf("id of the answer to %s = %s, want %s", line, got, id)
			}
		}
	}
	for _, id := range []string{"9223372036854775808", "1e3", "1.0", "{}", "[1]", "false", `"` + strings.Repeat("x", 2000) + `"`} {
		c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
		if r := c.next(); string(r.ID) != "null" || r.Error == nil || r.Error.Code != -32600 {
			t.Errorf("answer for id %.20s = %s %+v, want -32600 with id null", id, r.ID, r.Error)
		}
	}
}

func TestFramesThatAreTooMuch(t *testing.T) {
	c := connect(t, mcpserver.Config{Socket: "/nowhere/s"})
	c.send(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", 5<<20) + `"}}`)
	if r := c.next(); r.Error == nil || r.Error.Code != -32600 || string(r.ID) != "null" {
		t.Errorf("answer to a line of 5 MiB = %+v, want -32600", r)
	}
	c.send(strings.Repeat("[", 100_000))
	if r := c.next(); r.Error == nil || r.Error.Code != -32700 {
		t.Errorf("answer to deep nesting = %+v, want -32700", r)
	}
	c.send("", "  \r", `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if r := c.next(); string(r.ID) != "2" || r.Error != nil {
		t.Errorf("answer after them = %+v, want a pong", r)
	}
}

// TestBadCallsAndCancelReason is the server's part of the row: what a call may
// not look like, and what reaches the supervisor.
//
// Spec: R116
func TestBadCallsAndCancelReason(t *testing.T) {
	var cancelled []control.CancelRequest
	h := teamHandler()
	h.OnResult = func(_ context.Context, _ control.Call, r control.ResultRequest) (*control.ResultResponse, error) {
		return nil, core.Errorf(core.KindNotFound, "there is no job %q", r.JobID).WithRemedy("list the jobs with agent_status")
	}
	h.OnCancel = func(_ context.Context, _ control.Call, r control.CancelRequest) (*control.CancelResponse, error) {
		cancelled = append(cancelled, r)
		return &control.CancelResponse{Jobs: []control.JobView{{JobID: r.JobID, Status: "cancelled", CancelReason: r.Reason}}}, nil
	}
	c := start(t, h)
	for _, tc := range []struct{ tool, arguments, data string }{
		{"agent_status", `{"unexpected":true}`, "invalid tool arguments: additional properties 'unexpected' not allowed"},
		{"agent_status", `[]`, "invalid tool arguments: got array, want object"},
		{"agent_status", `{"job_id":1}`, "invalid tool arguments: job_id: got number, want string"},
		{"agent_result", `{}`, "invalid tool arguments: missing property 'job_id'"},
		{"agent_spawn", `{"agent":"nobody","task":"x"}`, "invalid tool arguments: agent: value must be one of 'reader', 'checker'"},
		{"agent_result", `{"job_id":"j","cursor":-1}`, "invalid tool arguments: cursor: minimum: got -1, want 0"},
		{"agents_wait", `{"job_ids":[]}`, "invalid tool arguments: job_ids: minItems: got 0, want 1"},
		{"agents_wait", `{"job_ids":["a"],"after_revision":{"a":-1}}`, "invalid tool arguments: after_revision/a: minimum: got -1, want 0"},
		{"not_an_advertised_tool", `{}`, `unknown tool "not_an_advertised_tool"`},
		{"agents_spawn", `{}`, `unknown tool "agents_spawn"`},
	} {
		r := c.call(tc.tool, tc.arguments)
		if r.Error == nil || r.Error.Code != -32602 || r.Error.Message != "invalid params" || r.Error.Data != tc.data {
			t.Errorf("%s %s = %s %+v, want -32602 invalid params with %q", tc.tool, tc.arguments, r.Result, r.Error, tc.data)
		}
	}

	failed := c.call("agent_result", `{"job_id":"20000101-000000-missing-result-0000000000"}`).tool(t)
	want := `FileNotFoundError: there is no job "20000101-000000-missing-result-0000000000"; list the jobs with agent_status`
	if !failed.IsError || failed.Content[0].Text != want || failed.Structured != nil {
		t.Errorf("failing call = %+v, want isError with the text %q alone", failed, want)
	}

	long := c.call("agent_cancel", `{"job_id":"j","reason":"`+strings.Repeat("é", 501)+`"}`).tool(t)
	if !long.IsError || !strings.HasPrefix(long.Content[0].Text, "ValueError: ") || !strings.Contains(long.Content[0].Text, "at most 500") {
		t.Errorf("long reason = %+v, want a ValueError with `at most 500`", long)
	}
	ok := c.call("agent_cancel", `{"job_id":"j","reason":"`+strings.Repeat("é", 500)+`","cascade":true}`)
	if got := ok.tool(t); got.IsError || strings.Contains(string(ok.Result), `"error"`) {
		t.Errorf("cancel = %s, want success", ok.Result)
	}
	if d := cmp.Diff([]control.CancelRequest{{JobID: "j", Reason: strings.Repeat("é", 500), Cascade: true}}, cancelled); d != "" {
		t.Errorf("cancels that reached the supervisor differ (-want +got):\n%s", d)
	}
}

// TestCallCarriesWhereItCameFrom follows the ids of a call as Codex sends them.
func TestCallCarriesWhereItCameFrom(t *testing.T) {
	var seen []control.Call
	var specs []control.SpawnSpec
	h := teamHandler()
	h.OnSpawn = func(_ context.Context, call control.Call, r control.SpawnRequest) (*control.SpawnResponse, error) {
		seen = append(seen, call)
		specs = append(specs, r.Agents...)
		return &control.SpawnResponse{
			Atomic: true, BatchID: "batch-1",
			Accepted: []control.AcceptedJob{{JobID: "j1", AgentRunRef: "ar_1", Agent: "reader", Status: "running"}},
		}, nil
	}
	c := start(t, h)
	spawn := func(meta string) row {
		c.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"_meta":` + meta + `,"name":"agent_spawn","arguments":{"agent":"checker","task":"look","task_kind":"check","mode":"workspace-write","write_scope":["a"]}}}`)
		return c.next()
	}
	got := spawn(`{"callId":"call_1","threadId":"th","progressToken":3,"x-codex-turn-metadata":{"session_id":"s","thread_id":"th","turn_id":"tu","sandbox":"none"}}`).tool(t)
	wantText := `{"job_id":"j1","agent_run_ref":"ar_1","agent":"reader","status":"running","batch_id":"batch-1"}`
	if got.Content[0].Text != wantText || string(got.Structured) != wantText {
		t.Errorf("spawn = %q and %s, want %s in both", got.Content[0].Text, got.Structured, wantText)
	}
	spawn(`{"callId":"call_1","threadId":"th","request_key":"mine","x-codex-turn-metadata":{"turn_id":"tu"}}`)
	spawn(`{"callId":7,"threadId":{},"x-codex-turn-metadata":"text"}`)
	keys := []string{}
	for _, call := range seen {
		if call.Token.Reveal() != "tok" || call.Operator {
			t.Errorf("call = %+v, want the caller's token", call)
		}
		keys = append(keys, call.Key())
	}
	if d := cmp.Diff([]string{"call/th/tu/call_1", "key/mine", ""}, keys); d != "" {
		t.Errorf("keys differ (-want +got):\n%s", d)
	}
	want := control.SpawnSpec{Agent: "checker", Task: "look", TaskKind: "check", Mode: "workspace-write", WriteScope: []string{"a"}}
	if d := cmp.Diff(want, specs[0]); d != "" {
		t.Errorf("spec differs (-want +got):\n%s", d)
	}
	if r := spawn(`{"callId":"a\nb"}`); r.Error == nil || r.Error.Code != -32602 || !strings.Contains(r.Error.Data, "callId") {
		t.Errorf("spawn with a line feed in its call id = %+v, want -32602 naming callId", r)
	}
}

func TestWaitTimeouts(t *testing.T) {
	var asked []float64
	h := teamHandler()
	h.OnWait = func(_ context.Context, _ control.Call, r control.WaitRequest) (*control.WaitResponse, error) {
		asked = append(asked, r.TimeoutSeconds)
		return &control.WaitResponse{TimedOutWaiting: true}, nil
	}
	path := controltest.SocketPath(t)
	controltest.Start(t, path, h)
	for _, tc := range []struct {
		client, arguments string
		want              float64
	}{
		{"codex-mcp-client", `{"job_ids":["j"]}`, 240},
		{"codex-mcp-client", `{"job_ids":["j"],"timeout_seconds":1200}`, 1200},
		{"codex-mcp-client", `{"job_ids":["j"],"timeout_seconds":0.5}`, 0.5},
		{"codex-mcp-client", `{"job_ids":["j"],"timeout_seconds":0}`, 0},
		{"other", `{"job_ids":["j"]}`, 50},
		{"other", `{"job_ids":["j"],"timeout_seconds":240}`, 50},
		{"other", `{"job_ids":["j"],"timeout_seconds":10}`, 10},
	} {
		asked = nil
		c := connect(t, mcpserver.Config{Socket: path, Token: "tok"})
		c.handshake(tc.client)
		if got := c.call("agents_wait", tc.arguments).tool(t); got.IsError {
			t.Fatalf("agents_wait = %+v", got)
		}
		// The client of the control API takes off what has passed already.
		if len(asked) != 1 || asked[0] > tc.want || asked[0] < tc.want-1 && asked[0] != 0 {
			t.Errorf("%s %s asked for %v s, want %v", tc.client, tc.arguments, asked, tc.want)
		}
	}
	c := connect(t, mcpserver.Config{Socket: path, Token: "tok"})
	c.handshake("codex-mcp-client")
	if r := c.call("agents_wait", `{"job_ids":["j"],"timeout_seconds":1201}`); r.Error == nil || r.Error.Code != -32602 {
		t.Errorf("a timeout of 1201 s = %+v, want -32602", r)
	}
}

func TestPreviewsShareAPage(t *testing.T) {
	h := teamHandler()
	h.OnWait = func(_ context.Context, _ control.Call, r control.WaitRequest) (*control.WaitResponse, error) {
		out := &control.WaitResponse{Results: map[string]control.ResultPreview{}}
		for _, id := range r.JobIDs {
			out.Results[id] = control.ResultPreview{Preview: strings.Repeat("é", 4000)}
		}
		return out, nil
	}
	c := start(t, h)
	for n, want := range map[int]int{1: 4000, 2: 4000, 4: 2000, 32: 500} {
		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprintf("%q", fmt.Sprint("j", i))
		}
		var got control.WaitResponse
		r := c.call("agents_wait", `{"job_ids":[`+strings.Join(ids, ",")+`],"include_results":true}`).tool(t)
		if err := json.Unmarshal(r.Structured, &got); err != nil {
			t.Fatal(err)
		}
		p := got.Results["j0"]
		if len([]rune(p.Preview)) != want || p.Truncated != (want < 4000) {
			t.Errorf("preview of %d jobs has %d characters (truncated %v), want %d", n, len([]rune(p.Preview)), p.Truncated, want)
		}
	}
}

// TestStatusStaysSmall asks about a session with thousands of finished jobs.
func TestStatusStaysSmall(t *testing.T) {
	h := teamHandler()
	h.OnJobs = func(_ context.Context, _ control.Call, r control.JobsRequest) (*control.JobsResponse, error) {
		var jobs []control.JobView
		for i := range 5000 {
			j := control.JobView{JobID: fmt.Sprint("j", i), Status: "completed"}
			if i == 3 {
				j.Status = "running"
			}
			jobs = append(jobs, j)
		}
		return &control.JobsResponse{Jobs: jobs}, nil
	}
	r := start(t, h).call("agent_status", `{}`).tool(t)
	var got struct {
		Jobs    []control.JobView `json:"jobs"`
		Omitted int               `json:"omitted_finished_jobs"`
	}
	if err := json.Unmarshal(r.Structured, &got); err != nil {
		t.Fatal(err)
	}
	if len(r.Structured) > 8300 || len(got.Jobs) < 5 || len(got.Jobs)+got.Omitted != 5000 {
		t.Errorf("status has %d bytes with %d jobs and %d omitted, want a page that accounts for 5000", len(r.Structured), len(got.Jobs), got.Omitted)
	}
	if got.Jobs[0].JobID != "j3" || got.Jobs[len(got.Jobs)-1].JobID != "j4999" {
		t.Errorf("status has jobs from %s to %s, want the running one first and the latest last", got.Jobs[0].JobID, got.Jobs[len(got.Jobs)-1].JobID)
	}
}

func TestResultPage(t *testing.T) {
	var asked []control.ResultRequest
	h := teamHandler()
	h.OnResult = func(_ context.Context, _ control.Call, r control.ResultRequest) (*control.ResultResponse, error) {
		asked = append(asked, r)
		return &control.ResultResponse{JobID: r.JobID, Content: "<b>&", ContentFormat: "text", Untrusted: true}, nil
	}
	c := start(t, h)
	got := c.call("agent_result", `{"job_id":"j"}`).tool(t)
	c.call("agent_result", `{"job_id":"j","cursor":9,"max_chars":700}`)
	if d := cmp.Diff([]control.ResultRequest{{JobID: "j", MaxChars: 8000}, {JobID: "j", Cursor: 9, MaxChars: 700}}, asked); d != "" {
		t.Errorf("requests differ (-want +got):\n%s", d)
	}
	var text, structured any
	if json.Unmarshal([]byte(got.Content[0].Text), &text) != nil || json.Unmarshal(got.Structured, &structured) != nil || !cmp.Equal(text, structured) {
		t.Errorf("text %s and structured %s are not the same JSON", got.Content[0].Text, got.Structured)
	}
	if !strings.Contains(got.Content[0].Text, `"next_cursor":null`) || !strings.Contains(got.Content[0].Text, `"content":"<b>&"`) {
		t.Errorf("result = %s, want next_cursor null and the content as it is", got.Content[0].Text)
	}
}

// parkedHandler parks waits until their context ends.
func parkedHandler(n int) (*controltest.Handler, chan struct{}, chan error) {
	entered, ended := make(chan struct{}, n), make(chan error, n)
	h := teamHandler()
	h.OnWait = func(ctx context.Context, _ control.Call, _ control.WaitRequest) (*control.WaitResponse, error) {
		entered <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, ctx.Err()
	}
	h.OnCancel = func(_ context.Context, _ control.Call, r control.CancelRequest) (*control.CancelResponse, error) {
		return &control.CancelResponse{Jobs: []control.JobView{{JobID: r.JobID}}}, nil
	}
	h.OnJobs = noJobs
	return h, entered, ended
}

// TestParkedWaitsDelayNobody parks twenty waits and then cancels a job, looks,
// and takes one wait back.
func TestParkedWaitsDelayNobody(t *testing.T) {
	h, entered, ended := parkedHandler(64)
	c := start(t, h)
	for i := range 20 {
		c.send(callLine(fmt.Sprint(i), "agents_wait", `{"job_ids":["j"]}`))
	}
	for range 20 {
		<-entered
	}
	began := time.Now()
	c.send(callLine("100", "agent_cancel", `{"job_id":"j"}`))
	if r := c.next(); string(r.ID) != "100" || r.tool(t).IsError {
		t.Errorf("answer = %+v, want that of the cancel", r)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the cancel took %v behind parked waits", took)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7"}}`) // a string: another request
	c.send(callLine("7", "agent_status", `{}`))
	if r := c.next(); r.Error == nil || r.Error.Code != -32600 {
		t.Errorf("answer = %+v, want that id 7 is in use still", r)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"x"}}`)
	select {
	case err := <-ended:
		if errors.Is(err, control.ErrDraining) {
			t.Errorf("the wait ended with %v", err)
		}
	case <-time.After(limit):
		t.Fatal("the cancelled wait goes on")
	}
	c.send(callLine("101", "agent_status", `{}`))
	if r := c.next(); string(r.ID) != "101" {
		t.Errorf("answer = %+v, want no answer to the cancelled wait", r)
	}
}

func TestTooManyWaits(t *testing.T) {
	h, entered, _ := parkedHandler(64)
	c := start(t, h)
	for i := range 64 {
		c.send(callLine(fmt.Sprint(i), "agents_wait", `{"job_ids":["j"]}`))
	}
	for range 64 {
		<-entered
	}
	if r := c.call("agents_wait", `{"job_ids":["j"]}`).tool(t); !r.IsError || !strings.HasPrefix(r.Content[0].Text, "RuntimeError: 64 calls") {
		t.Errorf("wait number 65 = %+v, want a refusal", r)
	}
}

// TestEndAnswersParkedWaits ends the session in each way there is, under parked
// waits.
func TestEndAnswersParkedWaits(t *testing.T) {
	for _, how := range []string{"end of input", "context", "parent"} {
		t.Run(how, func(t *testing.T) {
			h, entered, _ := parkedHandler(4)
			path := controltest.SocketPath(t)
			controltest.Start(t, path, h)
			gone := make(chan struct{})
			c := connect(t, mcpserver.Config{Socket: path, Token: "tok", ParentGone: gone})
			c.handshake("codex-mcp-client")
			c.send(callLine("1", "agents_wait", `{"job_ids":["j"]}`), callLine("2", "agents_wait", `{"job_ids":["j"]}`))
			<-entered
			<-entered
			switch how {
			case "end of input":
				_ = c.in.Close()
			case "context":
				c.stop()
			case "parent":
				close(gone)
			}
			var ids []string
			for range 2 {
				r := c.next()
				ids = append(ids, string(r.ID))
				got := r.tool(t)
				if want := "UnavailableError: this MCP process is ending; nothing is lost; call again"; !got.IsError || got.Content[0].Text != want {
					t.Errorf("answer = %+v, want %q", got, want)
				}
			}
			slices.Sort(ids)
			if d := cmp.Diff([]string{"1", "2"}, ids); d != "" {
				t.Errorf("answered ids differ (-want +got):\n%s", d)
			}
			if err := <-c.ended; err != nil {
				t.Errorf("Serve = %v, want nil", err)
			}
			c.ended <- nil // for the clean-up
		})
	}
}

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

// TestManyClientsAtOnce runs several servers in one process, as mcp-go's own
// stdio loop can't, with calls from all of them mixed.
func TestManyClientsAtOnce(t *testing.T) {
	h := teamHandler()
	h.OnResult = func(_ context.Context, _ control.Call, r control.ResultRequest) (*control.ResultResponse, error) {
		return &control.ResultResponse{JobID: r.JobID}, nil
	}
	path := controltest.SocketPath(t)
	controltest.Start(t, path, h)
	var wg sync.WaitGroup
	for n := range 4 {
		c := connect(t, mcpserver.Config{Socket: path, Token: "tok"})
		c.handshake("codex-mcp-client")
		wg.Go(func() {
			want := map[string]string{}
			for i := range 25 {
				id, job := fmt.Sprint(i), fmt.Sprintf("j-%d-%d", n, i)
				want[id] = job
				c.send(callLine(id, "agent_result", `{"job_id":"`+job+`"}`))
				r := c.next()
				if !strings.Contains(string(r.Result), want[string(r.ID)]) {
					t.Errorf("answer %s = %s, want job %s", r.ID, r.Result, want[string(r.ID)])
				}
			}
		})
	}
	wg.Wait()
}

// TestClientThatDoesNotRead ends a session whose answers nobody takes.
func TestClientThatDoesNotRead(t *testing.T) {
	in, send := io.Pipe()
	unread, out := io.Pipe()
	defer unread.Close()
	defer send.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- mcpserver.Serve(ctx, mcpserver.Config{Socket: "/nowhere/s", In: in, Out: out})
	}()
	if _, err := io.WriteString(send, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	stop()
	select {
	case <-ended:
	case <-time.After(limit):
		t.Error("the server waits for a client that does not read")
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
