package hostplugin_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core/process"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// toolServerEnv makes this test binary an MCP server without tools.
const toolServerEnv = "MMO_TEST_TOOL_SERVER"

// runToolServer answers what an MCP client asks at its start.
func runToolServer(in io.Reader, out io.Writer) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		result := `{}`
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"stub","version":"1"}}`
		case "tools/list":
			result = `{"tools":[]}`
		}
		if _, err := fmt.Fprintf(out, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", m.ID, result); err != nil {
			return
		}
	}
}

func TestRealKilledToolServerIsReadyAgainAfterReload(t *testing.T) {
	p := newPlace(t, newProvider(t, says("x")).url)
	config := filepath.Join(p.home, "config.toml")
	before, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	stub := fmt.Sprintf("\n[mcp_servers.stub]\ncommand = %q\nrequired = true\nenv = { %s = \"1\", MMO_AGENT = %q }\n",
		os.Args[0], toolServerEnv, agentRefOf+"/1")
	if err := os.WriteFile(config, append(before, stub...), 0o600); err != nil {
		t.Fatal(err)
	}
	_, client := serve(t, p.run)
	start(t, p, client)
	first := toolServer(t)
	h, err := process.Open(first)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	select {
	case <-h.Done():
	case <-time.After(patience):
		t.Fatal("the tool server survived SIGKILL")
	}
	got, err := client.ReloadTools(withTime(t), &hostpb.ReloadToolsRequest{Fence: fenceAt(1), CommandId: "c1", Server: "stub", TimeoutMs: 15_000})
	must(t, "ReloadTools", err, got.GetFailure())
	if got.GetDelivery() != basepb.Delivery_DELIVERY_APPLIED {
		t.Errorf("ReloadTools() = %v, want applied", got)
	}
	if second := toolServer(t); second.Same(first) {
		t.Error("the tool server was not started again")
	}
}

// toolServer returns the one tool server that runs.
func toolServer(t *testing.T) process.Identity {
	t.Helper()
	var found []process.Identity
	for _, id := range marked(t) {
		env, err := process.Environ(id.PID)
		if err == nil && env[toolServerEnv] != "" && strings.HasPrefix(env["MMO_AGENT"], agentRefOf) {
			found = append(found, id)
		}
	}
	if len(found) != 1 {
		t.Fatalf("tool servers = %v, want one", found)
	}
	return found[0]
}
