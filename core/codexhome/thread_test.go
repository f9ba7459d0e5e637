package codexhome_test

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/modeltest"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// What the tests put into the environment of an app-server, for whom it is not.
const (
	bearer = "bearer-canary-1f7a"
	caller = "caller-canary-9c2e"
)

// thread is a thread of a real Codex on a generated home.
type thread struct {
	*server
	model  *modeltest.Server // nil: nobody answers
	home   *codexhome.Home
	place  *testkit.Place
	id     string
	echo   echo
	notice []string // warnings that came with it
}

// echo is what Codex says the thread has.
type echo struct {
	Thread struct {
		ID string `json:"id"`
	} `json:"thread"`
	Model          string   `json:"model"`
	ModelProvider  string   `json:"modelProvider"`
	Effort         string   `json:"reasoningEffort"`
	Instructions   []string `json:"instructionSources"`
	ApprovalPolicy string   `json:"approvalPolicy"`
	Sandbox        struct {
		Type          string   `json:"type"`
		WritableRoots []string `json:"writableRoots"`
		NetworkAccess bool     `json:"networkAccess"`
	} `json:"sandbox"`
	Profile struct {
		ID string `json:"id"`
	} `json:"activePermissionProfile"`
}

// serve starts a model with a script that answers the spec's agent.
func serve(t *testing.T, spec *codexhome.Spec, script string) *modeltest.Server {
	t.Helper()
	parsed, err := modeltest.Parse(script)
	if err != nil {
		t.Fatalf("the script: %v", err)
	}
	model, err := modeltest.NewServer(t.Context(), parsed, bearer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	spec.GatewayURL, spec.Binary = model.URL, self(t)
	return model
}

// commands is a script whose model, with every turn, runs the commands one
// after the other, calls a tool of the mesh and ends.
func commands(list ...string) string {
	script := "model scripted\nwhen user contains \"go\"\n"
	for _, command := range list {
		script += "step\nshell " + strconv.Quote(command) + "\n"
	}
	return script + "step\ncall mcp__mmo_mesh agent_spawn {}\nstep\nsay \"done\"\n"
}

// open starts Codex on the home of the spec, which it writes, and a thread.
func open(t *testing.T, place *testkit.Place, spec *codexhome.Spec, model *modeltest.Server, env ...string) *thread {
	t.Helper()
	th := &thread{model: model, home: write(t, spec), place: place}
	th.server = startCodex(t, spec.CodexVersion, place, th.home, nil, append(env, engineVars...)...)
	th.begin("thread/start", map[string]any{"historyMode": "paginated"})
	return th
}

// engineVars are what each engine has.
var engineVars = []string{
	codexhome.BearerVar + "=" + bearer, codexhome.CallerTokenVar + "=" + caller, codexhome.RunVar + "=run-1", codexhome.JobVar + "=job-1",
}

// begin starts, resumes or forks a thread with what we send each time.
func (th *thread) begin(method string, params map[string]any) {
	th.t.Helper()
	params["cwd"], params["permissions"] = th.place.Workspace, th.home.PermissionProfile
	params["model"], params["modelProvider"] = th.home.Model, th.home.ModelProvider
	answer := th.call(method, params, th.listen)
	th.echo = echo{}
	if err := json.Unmarshal(answer, &th.echo); err != nil {
		th.t.Fatalf("%s answered %s: %v", method, answer, err)
	}
	th.id = th.echo.Thread.ID
}

func (th *thread) listen(m message) {
	switch m.Method {
	case "configWarning", "warning", "deprecationNotice", "error":
		th.notice = append(th.notice, m.Method+" "+string(m.Params))
	}
}

// run lets the model work and returns what it was told of each tool call of
// this turn.
func (th *thread) run() (outputs []string) {
	th.t.Helper()
	input := []any{map[string]any{"type": "text", "text": "go"}}
	th.call("turn/start", map[string]any{"threadId": th.id, "input": input}, th.listen)
	var ended struct {
		ThreadID string `json:"threadId"`
		Turn     struct {
			Status string `json:"status"`
		} `json:"turn"`
	}
	th.until(func(m message) bool {
		th.listen(m)
		return m.Method == "turn/completed" && json.Unmarshal(m.Params, &ended) == nil && ended.ThreadID == th.id
	})
	if ended.Turn.Status != "completed" {
		th.t.Fatalf("the turn ended %q: %v", ended.Turn.Status, th.notice)
	}
	requests := th.model.Engine.Requests()
	for _, entry := range requests[len(requests)-1].Conversation.Entries {
		switch entry.Role {
		case modeltest.RoleUser:
			outputs = nil
		case modeltest.RoleTool:
			outputs = append(outputs, entry.Text)
		}
	}
	return outputs
}

// assertQuiet fails when Codex warned of anything.
func (th *thread) assertQuiet() {
	th.t.Helper()
	if len(th.notice) > 0 {
		th.t.Errorf("codex warned: %q", th.notice)
	}
	if text := th.stderr.String(); text != "" {
		th.t.Errorf("codex wrote on stderr: %s", text)
	}
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A turn of a worker: the mesh's tools are there and are called without a
// question, nothing else of Codex's that delegates or searches is offered, the
// mesh server knows who calls, and Codex leaves the trust entry alone.
func TestTurnOnCodex(t *testing.T) {
	onEachCodex(t, func(t *testing.T, version string) {
		place := testkit.NewPlace(t)
		spec := specOf(place, team(profile.ReadOnly), "reader")
		spec.CodexVersion, spec.Tools = version, []string{"agent_spawn"}
		model := serve(t, spec, commands())
		th := open(t, place, spec, model)
		if got := th.run(); len(got) != 1 || !strings.Contains(got[0], "spawned indeed") {
			t.Errorf("the mesh tool returned %q, want it called without a question", got)
		}
		th.assertQuiet()
		offered := strings.Join(model.Engine.Requests()[0].Conversation.Tools, " ")
		for _, never := range []string{"agent_other", "multi_agent", "collaboration", "spawn_agent", "web_search"} {
			if strings.Contains(offered, never) {
				t.Errorf("the model is offered %q, want no %s", offered, never)
			}
		}
		if got := read(t, th.home.Dir, "config.toml"); !strings.Contains(got, "trust_level = 'untrusted'") || strings.Contains(got, "\"trusted\"") {
			t.Errorf("codex changed the trust entry: %s", got)
		}
		env := strings.Split(read(t, place.Runtime, "c.sock.env"), "\n")
		for _, want := range []string{"MMO_CALLER_TOKEN=" + caller, "MMO_RUN_ID=run-1", "MMO_CALLER_JOB_ID=job-1", "MMO_ROOT_SESSION_ID=s1", "MMO_CALLER_AGENT=reader"} {
			if !slices.Contains(env, want) {
				t.Errorf("the mesh server lacks %s in %q", want, env)
			}
		}
		if strings.Contains(strings.Join(env, "\n"), bearer) {
			t.Error("the mesh server has the gateway's bearer")
		}
	})
}
