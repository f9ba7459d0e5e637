package modeltest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/modeltest"
)

// serve starts a server for a script, and gives the test a limit.
func serve(t *testing.T, script string) (context.Context, *modeltest.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	parsed, err := modeltest.Parse(script)
	if err != nil {
		t.Fatal(err)
	}
	server, err := modeltest.NewServer(ctx, parsed, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return ctx, server
}

// client never keeps a connection, so that no goroutine of it outlives a test.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// ask posts a body and returns the status, and the body as far as it came.
func ask(t *testing.T, ctx context.Context, url string, body any) (status int, text string, err error) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(got), err
}

type m = map[string]any

// said joins the text of a Responses stream and lists its calls.
func said(t *testing.T, stream string) (text string, calls []string) {
	t.Helper()
	for line := range strings.Lines(stream) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type  string
			Delta string
			Item  struct{ Type, Namespace, Name, Arguments string }
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("event %s: %v", data, err)
		}
		switch {
		case e.Type == "response.output_text.delta":
			text += e.Delta
		case e.Type == "response.output_item.done" && e.Item.Type == "function_call":
			calls = append(calls, e.Item.Namespace+"/"+e.Item.Name+e.Item.Arguments)
		}
	}
	return text, calls
}

func user(text string) m { return m{"type": "message", "role": "user", "content": text} }

func call(id string) m {
	return m{"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}
}

func output(id, text string) m {
	return m{"type": "function_call_output", "call_id": id, "output": text}
}

const stepsScript = `
model a
  step
    say "one"
    call ns f {"id": "${job_id 1 else none}"}
  step
    say "two ${job_id 2}"
  step
    say "three"
  when output has again true
    step
      say "again"
    repeat
  when user starts "[recovery]" and not any user contains "stop"
    step
      say "recovered"
    step
      say "recovered twice"
model b
  step
    say "other model"
`

// TestStepsFollowTheHistory: the step is chosen by the request's own history,
// so a client that was killed gets the step that its history calls for.
func TestStepsFollowTheHistory(t *testing.T) {
	ctx, server := serve(t, stepsScript)
	first := []any{user("go"), call("c1"), call("c2"), output("c1", `Output: {"job_id":"j1"}`), output("c2", `{"job_id": "j2"}`)}
	with := func(items ...any) []any { return append(append([]any{}, first...), items...) }
	for _, tt := range []struct {
		name  string
		model string
		input []any
		want  string
	}{
		{"begin", "a", []any{user("go")}, "one"},
		{"begin with context", "a", []any{m{"type": "message", "role": "developer", "content": "x"}, user("env"), user("go")}, "one"},
		{"other model", "b", []any{user("go")}, "other model"},
		{"parallel calls are one response", "a", first, "two j2"},
		{"asked again", "a", first, "two j2"},
		{"after a plain second turn", "a", with(m{"type": "message", "role": "assistant", "content": "two"}, user("more")), "three"},
		{"recovery message", "a", with(user("[recovery] go on")), "recovered"},
		{"second response of the recovery", "a", with(user("[recovery] go on"), call("c3"), output("c3", "")), "recovered twice"},
		{"a rule counts from its message", "a", with(user("[recovery]"), call("c3"), output("c3", ""), user("[recovery]")), "recovered"},
		{"not", "a", with(user("stop"), user("[recovery]")), "two j2"},
		{"a rule does not advance the plain steps", "a", with(user("[recovery]"), call("c3"), output("c3", ""), user("plain")), "two j2"},
		{"repeat", "a", with(call("c3"), output("c3", `{"again": true}`), call("c4"), output("c4", `{"again":true}`)), "again"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, stream, err := ask(t, ctx, server.URL+"/responses", m{"model": tt.model, "stream": true, "input": tt.input})
			if err != nil || status != http.StatusOK {
				t.Fatalf("status %d, %v: %s", status, err, stream)
			}
			if got, _ := said(t, stream); got != tt.want {
				t.Errorf("said %q, want %q", got, tt.want)
			}
		})
	}
}

// TestOverrunIsRefused: past its last step a section without repeat refuses
// the request and says where the script ended.
func TestOverrunIsRefused(t *testing.T) {
	ctx, server := serve(t, "model a\nstep\nsay \"one\"\n")
	status, body, err := ask(t, ctx, server.URL+"/responses", m{"model": "a", "stream": true, "input": []any{user("x"), m{"type": "message", "role": "assistant", "content": "one"}, user("y")}})
	if err != nil || status != http.StatusBadRequest || !strings.Contains(body, "model a: plain steps (line 1) have 1 steps, response 2 asks for step 2") {
		t.Errorf("status %d, %v: %s", status, err, body)
	}
}

// TestCaptures: values of earlier outputs stand in texts and arguments.
func TestCaptures(t *testing.T) {
	ctx, server := serve(t, `
model a
  step
    say "${id 1} ${id last} ${missing 1 else nothing} ${HOME} ${@user 1}"
    call f {"s": "${id 2}", "n": "${n 1 json}", "b": "${ok 1 json}", "text": "a \"quoted\" ${id 1}", "deep": [{"${id 1}": "x"}]}
    call-raw ns g "{\"half\": \"${id 2}\""
    shell "ls"
    goal complete
  repeat
`)
	_, stream, err := ask(t, ctx, server.URL+"/responses", m{"model": "a", "stream": true, "input": "go"})
	if err != nil || !strings.Contains(stream, "${id 1} has no value, there are 0") {
		t.Errorf("without outputs: %v: %s", err, stream)
	}
	input := []any{user("go"), call("c"), output("c", `Wall time: 1 s`+"\n"+`{"id":"x\"1","n":7,"ok":true,"again":{"id":"y"},"more":["id"],"id":"x\"1"}`)}
	_, stream, err = ask(t, ctx, server.URL+"/responses", m{"model": "a", "stream": true, "input": input})
	if err != nil {
		t.Fatal(err)
	}
	text, calls := said(t, stream)
	if want := `x"1 y nothing ${HOME} go`; text != want {
		t.Errorf("text %q, want %q", text, want)
	}
	want := []string{
		`/f{"s":"y","n":7,"b":true,"text":"a \"quoted\" x\"1","deep":[{"x\"1":"x"}]}`,
		`ns/g{"half": "y"`,
		`/exec_command{"cmd":"ls"}`,
		`/update_goal{"status":"complete"}`,
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Error(diff)
	}
}

// TestErrorsAndCuts: refusals have the provider's form, and a cut stream has
// no end.
func TestErrorsAndCuts(t *testing.T) {
	ctx, server := serve(t, `
model limit
  step
    error 429 usage_limit_reached "come back later" code=limit retry-after=3 resets-at=1796070937
model cut
  step
    say "one two three four"
    cut 2 deltas
model bytes
  step
    say "one two three four"
    cut 10 bytes
model now
  step
    say "one"
    cut
model fail
  step
    say "one"
    fail server_error "went wrong"
`)
	status, body, err := ask(t, ctx, server.URL+"/chat/completions", m{"model": "limit", "stream": true, "messages": []any{}})
	want := `{"error":{"code":"limit","message":"come back later","resets_at":"1796070937","type":"usage_limit_reached"}}`
	if err != nil || status != http.StatusTooManyRequests || body != want {
		t.Errorf("limit: %d %v %s, want 429 %s", status, err, body, want)
	}
	for model, sentence := range map[string]string{"cut": "two ", "now": "one", "fail": "went wrong", "bytes": "data: {\"ch"} {
		_, body, err := ask(t, ctx, server.URL+"/chat/completions", m{"model": model, "stream": true, "messages": []any{}})
		if err == nil {
			t.Errorf("%s: the stream ended properly: %s", model, body)
		}
		if !strings.Contains(body, sentence) || strings.Contains(body, "three") || strings.Contains(body, "[DONE]") {
			t.Errorf("%s: got %s", model, body)
		}
	}
}

// TestChatAndResponsesSayTheSame: one script, two wires, one conversation.
func TestChatAndResponsesSayTheSame(t *testing.T) {
	ctx, server := serve(t, stepsScript)
	messages := []any{
		m{"role": "system", "content": "s"},
		m{"role": "user", "content": []any{m{"type": "text", "text": "go"}}},
		m{"role": "assistant", "content": nil, "tool_calls": []any{m{"id": "c", "function": m{"name": "f", "arguments": "{}"}}}},
		m{"role": "tool", "tool_call_id": "c", "content": `{"job_id":"j1"} {"job_id":"j2"}`},
		m{"role": "user", "content": "<developer_message>\nbe brief\n</developer_message>"},
	}
	_, body, err := ask(t, ctx, server.URL+"/chat/completions", m{"model": "a", "stream": true, "messages": messages})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"content":"two "`, `"content":"j2"`, `"finish_reason":"stop"`, `"prompt_tokens":200`, "data: [DONE]"} {
		if !strings.Contains(body, want) {
			t.Errorf("the chat stream lacks %s: %s", want, body)
		}
	}
	got := server.Engine.Requests()[0]
	wantEntries := []modeltest.Entry{
		{Role: modeltest.RoleSystem, Text: "s"},
		{Role: modeltest.RoleUser, Text: "go"},
		{Role: modeltest.RoleAssistant},
		{Role: modeltest.RoleAssistant, Call: "f"},
		{Role: modeltest.RoleTool, Text: `{"job_id":"j1"} {"job_id":"j2"}`},
		{Role: modeltest.RoleSystem, Text: "<developer_message>\nbe brief\n</developer_message>"},
	}
	if diff := cmp.Diff(wantEntries, got.Conversation.Entries); diff != "" {
		t.Error(diff)
	}
	if got.Wire != "chat" || got.Step != 2 || got.Section != "plain steps" || got.State != modeltest.StateDone {
		t.Errorf("record %s step %d of %s, %s", got.Wire, got.Step, got.Section, got.State)
	}
}

// TestHoldAndRelease: a request waits at its gate, and the wait is an event.
func TestHoldAndRelease(t *testing.T) {
	ctx, server := serve(t, "model a\nstep\nsay \"before\"\nhold door\nsay \"after\"\nrepeat\n")
	answered := make(chan string, 1)
	go func() {
		_, body, _ := ask(t, ctx, server.URL+"/responses", m{"model": "a", "stream": true, "input": "x"})
		answered <- body
	}()
	if err := server.Engine.WaitHeld(ctx, "door"); err != nil {
		t.Fatal(err)
	}
	select {
	case body := <-answered:
		t.Fatalf("answered before the release: %s", body)
	default:
	}
	server.Engine.Release("door")
	server.Engine.Release("door") // a gate stays open
	if body := <-answered; !strings.Contains(body, `"text":"beforeafter"`) {
		t.Errorf("got %s", body)
	}
}

// TestClientThatLeaves: a client that leaves a held answer is recorded.
func TestClientThatLeaves(t *testing.T) {
	ctx, server := serve(t, "model a\nstep\nhold door\nsay \"x\"\n")
	leaving, leave := context.WithCancel(ctx)
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _, _ = ask(t, leaving, server.URL+"/responses", m{"model": "a", "stream": true, "input": "x"})
	}()
	if err := server.Engine.WaitHeld(ctx, "door"); err != nil {
		t.Fatal(err)
	}
	leave()
	<-left
	if err := server.Engine.Wait(ctx, func(rs []modeltest.Request) bool { return rs[0].State == modeltest.StateGone }); err != nil {
		t.Error(err)
	}
}

// TestTokenIsDemandedAndNotRecorded: the bearer is checked, and kept out of
// the record.
func TestTokenIsDemandedAndNotRecorded(t *testing.T) {
	script, err := modeltest.Parse("model a\nstep\nsay \"x\"\n")
	if err != nil {
		t.Fatal(err)
	}
	server, err := modeltest.NewServer(t.Context(), script, "planted-token")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for token, want := range map[string]int{"planted-token": http.StatusOK, "other": http.StatusUnauthorized, "": http.StatusUnauthorized} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/responses", strings.NewReader(`{"model":"a","stream":true,"input":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("token %q: status %d, want %d", token, resp.StatusCode, want)
		}
	}
	for _, r := range server.Engine.Requests() {
		if r.Header.Get("Authorization") != "" {
			t.Error("the record holds the bearer")
		}
	}
}
