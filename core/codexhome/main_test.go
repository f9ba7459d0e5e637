package codexhome_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets the test binary stand in for the MCP servers that a home names:
// `<binary> mcp` is the mesh, `<binary> tools` a tool server.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case "mcp":
			serveStdio(os.Getenv("MMO_CONTROL_SOCKET")+".env", "agent_spawn", "agent_other")
			return
		case "tools":
			serveStdio(os.Getenv("TOOLS_SEEN"), "list", "decompile", "other")
			return
		}
	}
	goleak.VerifyTestMain(m)
}

// serveStdio is a least MCP server on its standard streams. It leaves its
// environment in a file.
func serveStdio(seen string, tools ...string) {
	if err := os.WriteFile(seen, []byte(strings.Join(os.Environ(), "\n")), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		if line := answer(in.Bytes(), tools); line != nil {
			fmt.Println(string(line))
		}
	}
}

// serveHTTP is the same over streamable HTTP. It tells what authorised each
// request.
func serveHTTP(authorised chan<- string, tools ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case authorised <- r.Header.Get("Authorization"):
		default:
		}
		var body json.RawMessage
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&body) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		line := answer(body, tools)
		if line == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(line) // a client that left sees nothing
	}
}

// answer answers a request of MCP, and says nothing to a notification.
func answer(line []byte, tools []string) []byte {
	var request struct {
		ID     any    `json:"id"`
		Method string `json:"method"`
	}
	if json.Unmarshal(line, &request) != nil || request.ID == nil {
		return nil
	}
	var list []any
	for _, name := range tools {
		list = append(list, map[string]any{"name": name, "description": "a tool", "inputSchema": map[string]any{"type": "object"}})
	}
	result := map[string]any{}
	switch request.Method {
	case "initialize":
		result = map[string]any{
			"protocolVersion": "2025-06-18", "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "test", "version": "1"},
		}
	case "tools/list":
		result = map[string]any{"tools": list}
	case "tools/call":
		result = map[string]any{"content": []any{map[string]any{"type": "text", "text": "spawned indeed"}}}
	}
	out, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": request.ID, "result": result})
	if err != nil {
		panic(err) // nothing in it that can't be written
	}
	return out
}
