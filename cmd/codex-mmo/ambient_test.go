package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/modeltest"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// ambientScript is a worker that takes a moment; the lead is not ours.
const ambientScript = `
model m-worker
  step
    shell "sleep 1"
  step
    say "DONE"
`

// mcpClient is an MCP client that leads a team over `codex-mmo mcp`.
type mcpClient struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	rows *bufio.Scanner
	id   int
}

// lead starts `codex-mmo mcp --profile` and shakes hands.
func (tm *team) lead(more ...string) *mcpClient {
	tm.t.Helper()
	c := &mcpClient{t: tm.t, cmd: tm.place.Command(tm.t, append([]string{"mcp"}, more...)...)}
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		tm.t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		tm.t.Fatal(err)
	}
	c.rows = bufio.NewScanner(out)
	c.rows.Buffer(nil, 1<<20)
	if err := c.cmd.Start(); err != nil {
		tm.t.Fatal(err)
	}
	c.request("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"some-client","version":"1"}}`)
	c.line(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *mcpClient) line(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, text+"\n"); err != nil {
		c.t.Fatalf("writing to the MCP server: %v", err)
	}
}

func (c *mcpClient) request(method, params string) json.RawMessage {
	c.t.Helper()
	c.id++
	c.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.id, method, params))
	if !c.rows.Scan() {
		c.t.Fatalf("no answer to %s: %v", method, c.rows.Err())
	}
	var answer struct {
		ID     int             `json:"id"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(c.rows.Bytes(), &answer); err != nil || answer.ID != c.id || answer.Error != nil {
		c.t.Fatalf("the answer to %s is %s (%v)", method, c.rows.Bytes(), err)
	}
	return answer.Result
}

// toolAnswer is what a model sees of a tool's answer that these tests look at.
type toolAnswer struct {
	Notice  string            `json:"notice"`
	JobID   string            `json:"job_id"`
	Content string            `json:"content"`
	Jobs    []control.JobView `json:"jobs"`
	text    string            // of an error
}

// call calls a tool, on a thread of the client where one is named.
func (c *mcpClient) call(tool, arguments, thread string) toolAnswer {
	c.t.Helper()
	meta := "{}"
	if thread != "" {
		meta = fmt.Sprintf(`{"threadId":%q}`, thread)
	}
	raw := c.request("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":%s}`, tool, arguments, meta))
	var result struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError"`
	}
	if err := json.Unmarshal(raw, &result); err != nil || len(result.Content) != 1 {
		c.t.Fatalf("%s answered %s (%v)", tool, raw, err)
	}
	if result.IsError {
		return toolAnswer{text: result.Content[0].Text}
	}
	if string(result.Structured) != result.Content[0].Text {
		c.t.Errorf("%s answered %s as text and %s as data", tool, result.Content[0].Text, result.Structured)
	}
	var answer toolAnswer
	if err := json.Unmarshal(result.Structured, &answer); err != nil {
		c.t.Fatal(err)
	}
	return answer
}

// end closes the client's side and waits for the server.
func (c *mcpClient) end() {
	c.t.Helper()
	if err := c.in.Close(); err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("the MCP server ended with %v", err)
	}
}

const spawnWorker = `{"agent":"worker","task":"one"}`

// sessionOf reads the id of the session that a notice names.
func sessionOf(t *testing.T, notice string) string {
	t.Helper()
	_, rest, found := strings.Cut(notice, "session ")
	id, _, _ := strings.Cut(rest, " ")
	if id = strings.TrimSuffix(id, ","); !found || id == "" {
		t.Fatalf("the notice names no session: %q", notice)
	}
	return id
}

// TestClientLeads: an MCP client that is not ours leads a team. Its session
// begins with the first job, the jobs go on without it, and the next client in
// the folder goes on with them; while one lives, another begins its own.
func TestClientLeads(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, ambientScript, 3)
	first := tm.lead("--profile", tm.profileDir())
	if list := string(first.request("tools/list", "{}")); !strings.Contains(list, `"agent_spawn"`) || !strings.Contains(list, `"enum":["worker","writer"]`) {
		t.Errorf("the tools of the root are %s", list)
	}
	if none := first.call("agent_status", "{}", ""); !strings.Contains(none.text, "no session yet") || !strings.Contains(none.text, "agent_spawn starts one") {
		t.Errorf("agent_status before any job answered %+v", none)
	}
	if sessions, _ := filepath.Glob(filepath.Join(tm.place.State, "sessions", "*")); len(sessions) > 0 {
		t.Errorf("looking made the sessions %v", sessions)
	}
	spawned := first.call("agent_spawn", spawnWorker, "thread-1")
	if spawned.JobID == "" || !strings.HasPrefix(spawned.Notice, "[session] You lead the new session ") {
		t.Fatalf("agent_spawn answered %+v", spawned)
	}
	tm.dial(sessionOf(t, spawned.Notice))
	view := tm.look()
	if view.Kind != "ambient" || view.Status != "running" || view.RootThreadID != "" || view.Client == nil || *view.Client != (control.ClientView{Name: "some-client", PID: first.cmd.Process.Pid, ThreadID: "thread-1"}) {
		t.Errorf("the session is %s, %s, root thread %q, client %+v", view.Kind, view.Status, view.RootThreadID, view.Client)
	}
	for _, p := range view.Processes {
		if p.Owner == "root" {
			t.Errorf("a process of the root was started: %+v", p)
		}
	}

	// Another thread of the same client looks on.
	if spied := first.call("agent_spawn", spawnWorker, "thread-2"); !strings.Contains(spied.text, "PermissionError") {
		t.Errorf("a second thread of the client spawned: %+v", spied)
	}
	if seen := first.call("agent_status", "{}", "thread-2"); len(seen.Jobs) != 1 {
		t.Errorf("a second thread of the client sees %+v", seen)
	}
	// A second window has no part in the session that has its client.
	second := tm.lead("--profile", tm.profileDir())
	if none := second.call("agent_status", "{}", ""); !strings.Contains(none.text, "no session yet") {
		t.Errorf("a second client was given %+v", none)
	}
	second.end()
	taken := tm.lead("--session", tm.session)
	if refused := taken.call("agent_status", "{}", ""); !strings.Contains(refused.text, "already has a live client") {
		t.Errorf("a client took a session that has one: %+v", refused)
	}
	taken.end()

	// The client dies without a word: the job goes on.
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.cmd.Wait()
	tm.await("the end of the job", func(e control.FollowEvent) bool { return e.JobID == spawned.JobID && e.Status == "completed" })
	tm.awaitStatus("detached") // the job may have ended before its client did
	if view := tm.look(); view.Status != "detached" || view.Client != nil {
		t.Errorf("without its client the session is %s with %+v", view.Status, view.Client)
	}
	// Not all of the root's verbs have a meaning here.
	for _, verb := range [][]string{{"pause"}, {"compact"}, {"detach"}, {"root", "inspect"}} {
		if _, errs, code := tm.run(append(verb, tm.session)...); code != 1 || !strings.Contains(errs, "is the MCP client that leads it") {
			t.Errorf("%v exited %d and said %q", verb, code, errs)
		}
	}

	again := tm.lead("--profile", tm.profileDir())
	told := again.call("agent_status", "{}", "thread-9")
	if sessionOf(t, told.Notice) != tm.session || !strings.Contains(told.Notice, "[inbox]") || !strings.Contains(told.Notice, spawned.JobID+" (worker) is completed") {
		t.Errorf("the next client was told %q", told.Notice)
	}
	if result := again.call("agent_result", fmt.Sprintf(`{"job_id":%q}`, spawned.JobID), "thread-9"); result.Content != "DONE" || result.Notice != "" {
		t.Errorf("the result is %+v", result)
	}
	// What is told to go on goes on in one of its own when it is asked to.
	fresh := tm.lead("--profile", tm.profileDir(), "--new")
	other := fresh.call("agent_spawn", spawnWorker, "")
	if sessionOf(t, other.Notice) == tm.session {
		t.Errorf("--new went on with %q", other.Notice)
	}
	fresh.end()
	if _, errs, code := tm.run("stop", sessionOf(t, other.Notice)); code != 0 {
		t.Errorf("stop exited %d: %s", code, errs)
	}

	// A session that is ended under its client is followed by a new one.
	if _, errs, code := tm.run("stop", tm.session); code != 0 {
		t.Errorf("stop exited %d: %s", code, errs)
	}
	if gone := again.call("agent_status", "{}", "thread-9"); !strings.Contains(gone.text, "no session yet") {
		t.Errorf("agent_status after the end answered %+v", gone)
	}
	again.end()
	tm.assertGone()
	testkit.AssertLogsClean(t, tm.place.State)
}

// TestClientLeadsThroughCrashes: neither the death of the supervisor nor that of
// both it and its keeper takes the session from its client.
func TestClientLeadsThroughCrashes(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, ambientScript, 3)
	c := tm.lead("--profile", tm.profileDir())
	spawned := c.call("agent_spawn", spawnWorker, "")
	tm.dial(sessionOf(t, spawned.Notice))
	tm.look()
	testkit.Kill9(t, tm.process("supervisor", false))
	if seen := c.call("agent_status", "{}", ""); len(seen.Jobs) != 1 {
		t.Errorf("after the supervisor's death agent_status answered %+v", seen)
	}
	tm.look()
	keeper, supervisor := tm.process("keeper", false), tm.process("supervisor", false)
	for _, id := range []process.Identity{keeper, supervisor} {
		testkit.Kill9(t, id)
	}
	waited := c.call("agents_wait", fmt.Sprintf(`{"job_ids":[%q],"timeout_seconds":40}`, spawned.JobID), "")
	if len(waited.Jobs) != 1 || waited.Jobs[0].Status != "completed" {
		t.Errorf("after the death of both agents_wait answered %+v", waited)
	}
	tm.look()
	c.end()
	if _, errs, code := tm.run("stop", tm.session); code != 0 {
		t.Errorf("stop exited %d: %s", code, errs)
	}
	tm.assertGone()
}

// TestCodexLeads: real Codex, set up by one table of its configuration, leads a
// team on its own model.
func TestCodexLeads(t *testing.T) {
	t.Parallel()
	script, err := modeltest.Parse(`
model m-own
  step
    call mcp__mmo agent_spawn {"agent": "worker", "task": "one"}
  step
    call mcp__mmo agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 60}
  step
    call mcp__mmo agent_result {"job_id": "${job_id 1}"}
  step
    say "The worker said: ${content 1}"
`)
	if err != nil {
		t.Fatal(err)
	}
	const key = "key-of-the-operators-own-provider"
	model, err := modeltest.NewServer(t.Context(), script, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	tm := newTeam(t, ambientScript, 3)
	home := filepath.Join(tm.place.Home, ".codex")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`model = "m-own"
model_provider = "own"
approval_policy = "never"
sandbox_mode = "read-only"
web_search = "disabled"
check_for_update_on_startup = false
[model_providers.own]
name = "own"
base_url = %q
env_key = "OWN_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[features]
plugins = false
apps = false
shell_snapshot = false
[analytics]
enabled = false
[mcp_servers.mmo]
command = %q
args = ["mcp", "--profile", %q]
default_tools_approval_mode = "approve"
[mcp_servers.mmo.env]
MMO_CONFIG_HOME = %q
MMO_STATE_HOME = %q
MMO_RUNTIME_DIR = %q
MMO_CODEX_BIN = %q
`, model.URL, testkit.Binary(t), tm.profileDir(), tm.place.Config, tm.place.State, tm.place.Runtime, testkit.Codex(t))
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), testkit.Codex(t), "exec", "--json", "go")
	cmd.Dir = tm.place.Workspace
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + tm.place.Home, "LANG=C.UTF-8", "OWN_KEY=" + key}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "The worker said: DONE") {
		t.Fatalf("codex exec: %v\n%s", err, out)
	}
	sessions, err := filepath.Glob(filepath.Join(tm.place.State, "sessions", "*"))
	if err != nil || len(sessions) != 1 {
		t.Fatalf("there are the sessions %v (%v)", sessions, err)
	}
	tm.dial(filepath.Base(sessions[0]))
	view := tm.look()
	if view.Kind != "ambient" || len(view.Jobs) != 1 || view.Jobs[0].ResultState != "read" {
		t.Errorf("the session is %s with %+v", view.Kind, view.Jobs)
	}
	if _, errs, code := tm.run("stop", tm.session); code != 0 {
		t.Errorf("stop exited %d: %s", code, errs)
	}
	tm.assertGone()
	testkit.AssertNoSandbox(t, tm.place.Dir)
}
