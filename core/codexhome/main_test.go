package codexhome_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestMain lets the test binary stand in for the mesh server that the home
// names: `<binary> mcp`.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "mcp" {
		serveMesh()
		return
	}
	os.Exit(m.Run())
}

// serveMesh is a least MCP server: two tools, of which a home may enable one.
// It leaves its environment beside the control socket's path.
func serveMesh() {
	env := []byte(strings.Join(os.Environ(), "\n"))
	if err := os.WriteFile(os.Getenv("MMO_CONTROL_SOCKET")+".env", env, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	tool := map[string]any{"description": "a tool", "inputSchema": map[string]any{"type": "object"}}
	answers := map[string]any{
		"initialize": map[string]any{
			"protocolVersion": "2025-06-18", "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "mesh", "version": "1"},
		},
		"tools/list": map[string]any{"tools": []any{named(tool, "agent_spawn"), named(tool, "agent_other")}},
		"tools/call": map[string]any{"content": []any{map[string]any{"type": "text", "text": "spawned indeed"}}},
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var request struct {
			ID     any    `json:"id"`
			Method string `json:"method"`
		}
		if json.Unmarshal(in.Bytes(), &request) != nil || request.ID == nil {
			continue
		}
		result, ok := answers[request.Method]
		if !ok {
			result = map[string]any{}
		}
		line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": request.ID, "result": result})
		if err != nil {
			os.Exit(1)
		}
		fmt.Println(string(line))
	}
}

func named(tool map[string]any, name string) map[string]any {
	out := map[string]any{"name": name}
	for k, v := range tool {
		out[k] = v
	}
	return out
}
