package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
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
	for role, caller := range map[string]*control.CallerResponse{"root": team(), "worker": worker()} {
		names := []string{}
		for _, raw := range listFor(t, caller) {
			var tool struct {
				Name string `json:"name"`
			}
			if err := json.Unmarshal(raw, &tool); err != nil {
				t.Fatal(err)
			}
			names = append(names, tool.Name)
			if role == "root" {
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

// TestToolsFitEveryClient holds the schemas to what all clients take: a flat
// object, no unions, every property described, all four hints written.
func TestToolsFitEveryClient(t *testing.T) {
	for role, budget := range map[string]int{"root": 3500, "worker": 1500} {
		caller := team()
		if role == "worker" {
			caller = worker()
		}
		size := 0
		for _, raw := range listFor(t, caller) {
			size += len(raw)
			checkTool(t, raw)
		}
		if tokens := size / 4; tokens > budget { // about four characters a token
			t.Errorf("the tools of a %s take about %d tokens, at most %d are allowed", role, tokens, budget)
		}
	}
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
	var schema struct {
		Type       string                    `json:"type"`
		Properties map[string]map[string]any `json:"properties"`
		Required   []string                  `json:"required"`
		Additional *bool                     `json:"additionalProperties"`
	}
	if err := json.Unmarshal(tool.InputSchema, &schema); err != nil {
		t.Fatal(err)
	}
	if schema.Type != "object" || schema.Additional == nil || *schema.Additional {
		t.Errorf("the schema of %s is not a closed object", tool.Name)
	}
	for name, p := range schema.Properties {
		if p["description"] == nil || p["type"] == nil {
			t.Errorf("%s of %s has no description or no type", name, tool.Name)
		}
	}
	for _, name := range schema.Required {
		if schema.Properties[name] == nil {
			t.Errorf("%s requires %s, which it does not have", tool.Name, name)
		}
	}
}

// TestAgentEnum pins that a model can name exactly the agents of its grants, in
// their order, and that without a grant there is nothing to spawn with.
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
	if tools := listFor(t, bare); slices.ContainsFunc(tools, func(raw json.RawMessage) bool { return strings.Contains(string(raw), `"agent_spawn"`) }) {
		t.Error("a caller without a grant has agent_spawn")
	}

	readers := team()
	readers.Spawn = readers.Spawn[:1]
	if raw := listFor(t, readers)[0]; strings.Contains(string(raw), "write_scope") {
		t.Errorf("a caller whose agents only read is offered write_scope: %s", raw)
	}
}
