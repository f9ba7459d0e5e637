package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/control"
)

var update = flag.Bool("update", false, "write the golden files of this package")

// worker is the caller's answer for an agent that may not spawn.
func worker() *control.CallerResponse {
	return &control.CallerResponse{
		Role: "worker", Agent: "reader", JobID: "j", SessionID: testSession, Profile: "offline-demo",
		Tools: []string{"agent_status", "agents_wait", "agent_result"},
	}
}

// controlling is an agent that may control others, beside its other tools.
func controlling(caller *control.CallerResponse) *control.CallerResponse {
	caller.Tools = append(caller.Tools, "agent_inspect", "agent_steer", "agent_interrupt", "agent_pause", "agent_continue",
		"agent_finalize", "agent_compact", "agent_set_effort", "agent_respond", "agent_detach", "agent_stop")
	return caller
}

// controllingAll is controlling with what few are granted: to read traces and to
// fork.
func controllingAll(caller *control.CallerResponse) *control.CallerResponse {
	caller = controlling(caller)
	caller.Tools = append(caller.Tools, "agent_trace", "agent_trace_record", "agent_fork")
	return caller
}

// listFor returns what tools/list answers a caller.
func listFor(t *testing.T, caller *control.CallerResponse) []json.RawMessage {
	t.Helper()
	h := teamHandler()
	h.OnCaller = func(context.Context, control.Call, control.CallerRequest) (*control.CallerResponse, error) {
		return caller, nil
	}
	c := start(t, h)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":0}}}`)
	var got struct {
		Tools []json.RawMessage `json:"tools"`
	}
	if err := json.Unmarshal(c.next().Result, &got); err != nil {
		t.Fatal(err)
	}
	return got.Tools
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	var indented bytes.Buffer
	if err := json.Indent(&indented, got, "", "  "); err != nil {
		t.Fatal(err)
	}
	indented.WriteByte('\n')
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, indented.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run the test with -update", err)
	}
	if d := cmp.Diff(string(want), indented.String()); d != "" {
		t.Errorf("%s differs (-want +got); if that is meant, run the test with -update:\n%s", path, d)
	}
}

// TestToolsGolden pins what models and clients see: a file per tool with its
// whole definition, and a file per role with the names in order.
func TestToolsGolden(t *testing.T) {
	for role, caller := range map[string]*control.CallerResponse{
		"root": team(), "worker": worker(), "controlling-root": controllingAll(team()), "controlling-worker": controlling(worker()),
	} {
		names := []string{}
		for _, raw := range listFor(t, caller) {
			var tool struct {
				Name string `json:"name"`
			}
			if err := json.Unmarshal(raw, &tool); err != nil {
				t.Fatal(err)
			}
			names = append(names, tool.Name)
			if role == "root" || role == "controlling-root" {
				golden(t, filepath.Join("tools", tool.Name+".json"), raw)
			}
		}
		data, err := json.Marshal(names)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("roles", role+".json"), data)
	}
}

// crowd is a team at its largest: more agents than a profile should have, all
// with too much to say about themselves.
func crowd() *control.CallerResponse {
	caller := team()
	caller.Spawn = nil
	for i := range 16 {
		caller.Spawn = append(caller.Spawn, control.SpawnGrant{
			Agent: fmt.Sprintf("specialist_%d", i), Description: strings.Repeat("does everything ", 40),
			TaskKinds: []string{"implement", "review"}, Modes: []string{"read-only", "workspace-write"},
		})
	}
	return caller
}

// TestToolsFitEveryClient holds the schemas to what all clients take: a flat
// object, no unions, every property described, all four hints written; and the
// list as a whole to what a model can spare.
func TestToolsFitEveryClient(t *testing.T) {
	for name, tc := range map[string]struct {
		caller *control.CallerResponse
		budget int // tokens of what a model is shown: all but the hints
	}{
		"root":               {team(), 3500},
		"root of many":       {crowd(), 3500},
		"worker":             {worker(), 1500},
		"controlling root":   {controllingAll(team()), 3500},
		"controlling worker": {controlling(worker()), 1500},
		"worker that spawns": {&control.CallerResponse{Role: "worker", Agent: "reader", JobID: "j", SessionID: testSession, Tools: team().Tools, Spawn: team().Spawn}, 3500},
	} {
		size := 0
		for _, raw := range listFor(t, tc.caller) {
			size += shown(t, raw)
			checkTool(t, raw)
		}
		if tokens := size / 4; tokens > tc.budget { // about four characters a token
			t.Errorf("the tools of a %s take about %d tokens, at most %d are allowed", name, tokens, tc.budget)
		}
	}
}

// shown is the size of a tool as a model sees it, in bytes: clients keep the
// hints to themselves.
func shown(t *testing.T, raw json.RawMessage) int {
	t.Helper()
	var tool map[string]json.RawMessage
	if err := json.Unmarshal(raw, &tool); err != nil {
		t.Fatal(err)
	}
	delete(tool, "annotations")
	data, err := json.Marshal(tool)
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}

func checkTool(t *testing.T, raw json.RawMessage) {
	t.Helper()
	var tool struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Annotations map[string]any  `json:"annotations"`
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	if err := json.Unmarshal(raw, &tool); err != nil {
		t.Fatal(err)
	}
	if tool.Description == "" {
		t.Errorf("%s has no description", tool.Name)
	}
	for _, hint := range []string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} {
		if _, ok := tool.Annotations[hint].(bool); !ok {
			t.Errorf("%s has no %s", tool.Name, hint)
		}
	}
	for _, word := range []string{"oneOf", "anyOf", "allOf", `"not"`, `"if"`, "$ref"} {
		if strings.Contains(string(tool.InputSchema), word) {
			t.Errorf("the schema of %s has %s, which some clients do not take", tool.Name, word)
		}
	}
	checkObject(t, tool.Name, tool.InputSchema)
}

// checkObject checks the schema of a tool's arguments, or of an object in them.
func checkObject(t *testing.T, place string, raw json.RawMessage) {
	t.Helper()
	var schema struct {
		Type       string `json:"type"`
		Properties map[string]struct {
			Type        string          `json:"type"`
			Description string          `json:"description"`
			Items       json.RawMessage `json:"items"`
		} `json:"properties"`
		Required   []string `json:"required"`
		Additional *bool    `json:"additionalProperties"`
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	if schema.Type != "object" || schema.Additional == nil || *schema.Additional {
		t.Errorf("the schema of %s is not a closed object", place)
	}
	for name, p := range schema.Properties {
		if p.Description == "" || p.Type == "" {
			t.Errorf("%s of %s has no description or no type", name, place)
		}
		if strings.Contains(string(p.Items), `"object"`) {
			checkObject(t, place+"."+name, p.Items)
		}
	}
	for _, name := range schema.Required {
		if _, ok := schema.Properties[name]; !ok {
			t.Errorf("%s requires %s, which it does not have", place, name)
		}
	}
}

// TestAgentEnum pins that a model can name exactly the agents of its grants, in
// their order, and that without a grant there is nothing to spawn with.
//
// Spec: R058
func TestAgentEnum(t *testing.T) {
	var spawn struct {
		InputSchema struct {
			Properties map[string]struct {
				Enum        []string `json:"enum"`
				Description string   `json:"description"`
			} `json:"properties"`
		} `json:"inputSchema"`
	}
	if err := json.Unmarshal(listFor(t, team())[0], &spawn); err != nil {
		t.Fatal(err)
	}
	agent := spawn.InputSchema.Properties["agent"]
	if d := cmp.Diff([]string{"reader", "checker"}, agent.Enum); d != "" {
		t.Errorf("agents differ (-want +got):\n%s", d)
	}
	if !strings.Contains(agent.Description, "reader: Reads files and reports what they say.") {
		t.Errorf("description of agent = %q, want the reader's on one line", agent.Description)
	}

	bare := team()
	bare.Spawn = nil
	for _, name := range []string{`"name":"agent_spawn"`, `"name":"agents_spawn"`} {
		if tools := listFor(t, bare); slices.ContainsFunc(tools, func(raw json.RawMessage) bool { return strings.Contains(string(raw), name) }) {
			t.Errorf("a caller without a grant has a tool with %s", name)
		}
	}

	readers := team()
	readers.Spawn = readers.Spawn[:1]
	if raw := listFor(t, readers)[0]; strings.Contains(string(raw), "write_scope") {
		t.Errorf("a caller whose agents only read is offered write_scope: %s", raw)
	}
}

// TestBatchEntriesAreSpawns pins that an entry of agents_spawn is exactly what
// agent_spawn takes.
//
// Spec: R058
func TestBatchEntriesAreSpawns(t *testing.T) {
	tools := listFor(t, team())
	var single struct {
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	var batch struct {
		Name        string `json:"name"`
		InputSchema struct {
			Properties struct {
				Agents struct {
					Items json.RawMessage `json:"items"`
				} `json:"agents"`
			} `json:"properties"`
		} `json:"inputSchema"`
	}
	if err := json.Unmarshal(tools[0], &single); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(tools[1], &batch); err != nil {
		t.Fatal(err)
	}
	if batch.Name != "agents_spawn" {
		t.Fatalf("the second tool is %s, want agents_spawn", batch.Name)
	}
	if d := cmp.Diff(string(single.InputSchema), string(batch.InputSchema.Properties.Agents.Items)); d != "" {
		t.Errorf("an entry of agents_spawn differs from agent_spawn (-want +got):\n%s", d)
	}
}

// TestHints pins what a client may think of each tool. What marks a result as
// read, or may reconcile a job on the way, is not read-only.
//
// Spec: R058
func TestHints(t *testing.T) {
	type hints struct{ ReadOnlyHint, DestructiveHint, IdempotentHint, OpenWorldHint bool }
	got := map[string]hints{}
	for _, raw := range listFor(t, team()) {
		var tool struct {
			Name        string `json:"name"`
			Annotations hints  `json:"annotations"`
		}
		if err := json.Unmarshal(raw, &tool); err != nil {
			t.Fatal(err)
		}
		got[tool.Name] = tool.Annotations
	}
	want := map[string]hints{
		"agent_spawn":           {OpenWorldHint: true},
		"agents_spawn":          {OpenWorldHint: true},
		"agent_status":          {IdempotentHint: true},
		"agents_wait":           {IdempotentHint: true},
		"agent_result":          {IdempotentHint: true},
		"agent_cancel":          {DestructiveHint: true, IdempotentHint: true},
		"agent_result_accept":   {},
		"agent_result_reject":   {},
		"agent_patch_integrate": {DestructiveHint: true},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("hints differ (-want +got):\n%s", d)
	}
}
