package gatewayplugin_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/codex-mmo/codex-mmo/core/modeltest"
	"github.com/codex-mmo/codex-mmo/core/testkit"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// asProbe in the environment makes this test binary an MCP server.
const asProbe = "GATEWAY_TEST_MCP_PROBE"

func TestMain(m *testing.M) {
	if os.Getenv(asProbe) != "" {
		serveProbe()
		return
	}
	goleak.VerifyTestMain(m)
}

// serveProbe is the smallest MCP server that Codex takes: one tool, which
// returns its argument in a JSON object.
func serveProbe() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var call struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Arguments struct{ Text string }
			}
		}
		if json.Unmarshal(in.Bytes(), &call) != nil || call.ID == nil {
			continue // a notification
		}
		var result any
		switch call.Method {
		case "initialize":
			result = o{"protocolVersion": "2025-06-18", "capabilities": o{"tools": o{}}, "serverInfo": o{"name": "probe", "version": "1"}}
		case "tools/list":
			result = o{"tools": []any{o{"name": "echo", "description": "Echo.", "inputSchema": o{
				"type": "object", "properties": o{"text": o{"type": "string"}}, "required": []any{"text"},
			}}}}
		case "tools/call":
			echoed, _ := json.Marshal(o{"echoed": call.Params.Arguments.Text})
			result = o{"content": []any{o{"type": "text", "text": string(echoed)}}}
		default:
			result = o{}
		}
		answer, _ := json.Marshal(o{"jsonrpc": "2.0", "id": call.ID, "result": result})
		fmt.Printf("%s\n", answer)
	}
}

type o = map[string]any

// TestRealCodex: Codex itself talks to the gateway, over each wire. The model
// calls a shell command and an MCP tool in one response, sees both outputs,
// and ends. Over Anthropic the model's thinking comes back as it was signed:
// Codex has kept it byte for byte.
func TestRealCodex(t *testing.T) {
	for _, wire := range []string{"openai_responses", "openai_chat", "anthropic_messages"} {
		t.Run(wire, func(t *testing.T) { realCodex(t, wire) })
	}
}

func realCodex(t *testing.T, wire string) {
	dir := testkit.PrivateDir(t)
	script, err := modeltest.Parse(`
model m
  step
    think "Two calls at once."
    say "I call both."
    shell "printf 'round %s' trip"
    call mcp__probe echo {"text": "over MCP"}
  step
    say "The shell said: ${@output 1} The tool said: ${echoed 1}"
`)
	if err != nil {
		t.Fatal(err)
	}
	model, err := modeltest.NewServer(t.Context(), script, secret)
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	r := newRig(t, nil, nil)
	r.apply("s1", []*gatewaypb.Route{{
		Id: "r", Driver: wire, BaseUrl: model.URL, SecretName: "KEY", Models: []*gatewaypb.RouteModel{{Key: "m"}},
	}}, &basepb.Secret{Name: "KEY", Value: []byte(secret)})
	r.issue("s1", "bearer", nil)

	out, err := r.codexExec(dir, 0)
	if err != nil {
		t.Fatalf("codex exec: %v\n%s", err, out)
	}
	for _, want := range []string{"I call both.", "round trip", "The tool said: over MCP"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
	for seq := range uint64(2) {
		row := r.row("s1", seq)
		if row.GetOutcome() != "completed" || row.GetThreadId() == "" || row.GetTurnId() == "" || row.GetModel() != "m" {
			t.Errorf("row %v", row)
		}
	}
	if wire == "anthropic_messages" {
		body := string(model.Engine.Requests()[1].Body)
		if !strings.Contains(body, `{"type":"thinking","thinking":"Two calls at once.","signature":"mts_`) {
			t.Errorf("the second request lacks the thinking: %s", body)
		}
	}
}

// codexExec runs one turn of Codex on the gateway, with a home in dir, and
// returns what it printed. Codex asks again as often as retries says.
func (r *rig) codexExec(dir string, retries int) ([]byte, error) {
	r.t.Helper()
	codex := testkit.Codex(r.t)
	probe, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	home := filepath.Join(dir, "codex-home")
	workspace := filepath.Join(dir, "workspace")
	for _, folder := range []string{home, workspace} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			r.t.Fatal(err)
		}
	}
	config := fmt.Sprintf(`
model = "m"
model_provider = "gw"
approval_policy = "never"
sandbox_mode = "read-only"
web_search = "disabled"
check_for_update_on_startup = false
[model_providers.gw]
name = "gw"
base_url = %q
env_key = "MMO_GATEWAY_TOKEN"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = %d
[features]
plugins = false
apps = false
shell_snapshot = false
[analytics]
enabled = false
[mcp_servers.probe]
command = %q
default_tools_approval_mode = "approve"
[mcp_servers.probe.env]
%s = "1"
`, r.base, retries, probe, asProbe)
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.CommandContext(r.ctx, codex, "exec", "--skip-git-repo-check", "-C", workspace, "go")
	cmd.Env = []string{"HOME=" + dir, "CODEX_HOME=" + home, "PATH=" + os.Getenv("PATH"), "MMO_GATEWAY_TOKEN=bearer", "LANG=C.UTF-8"}
	return cmd.CombinedOutput()
}

// TestRealCodexStopsAtItsBudget: a turn that the gateway refuses for its budget ends at
// once, though Codex may ask again, and Codex says why.
func TestRealCodexStopsAtItsBudget(t *testing.T) {
	dir := testkit.PrivateDir(t)
	r := newRig(t, nil, nil)
	r.apply("s1", []*gatewaypb.Route{offline("r", hello, "m")})
	r.limit("job", ptr(0), "")
	r.spends("bearer", "a", "job")
	out, err := r.codexExec(dir, 3)
	if err == nil || !strings.Contains(string(out), "the shared token budget of 0 (job) is used up") {
		t.Errorf("codex exec: %v\n%s", err, out)
	}
	if rows := r.rows("s1", 0); len(rows) != 1 || rows[0].GetFailureKind() != "budget" {
		t.Errorf("rows %v", rows)
	}
}
