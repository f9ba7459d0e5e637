package mcpserver_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/mcpserver"
)

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
