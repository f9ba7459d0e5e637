package hostplugin_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/testkit"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// agentRefOf is the agent of these tests.
const agentRefOf = "ar_hosttest"

// provider is a scripted model that speaks Responses. Each request takes the
// next step; a step that blocks is a turn that runs.
type provider struct {
	url   string
	mu    sync.Mutex
	steps []func(w *sse, body []byte)
	seen  int
}

// newProvider serves the steps in order; requests beyond the last one get it
// again.
func newProvider(t *testing.T, steps ...func(w *sse, body []byte)) *provider {
	t.Helper()
	p := &provider{steps: steps}
	server := httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	p.mu.Lock()
	step := p.steps[min(p.seen, len(p.steps)-1)]
	p.seen++
	p.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	out := &sse{w: w, ctx: r.Context()}
	out.event("response.created", map[string]any{"response": map[string]any{"id": "resp_1"}})
	step(out, body)
	out.event("response.completed", map[string]any{"response": map[string]any{
		"id": "resp_1", "status": "completed", "output": []any{},
		"usage": map[string]any{
			"input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
			"input_tokens_details": map[string]any{"cached_tokens": 0}, "output_tokens_details": map[string]any{"reasoning_tokens": 0},
		},
	}})
}

func (p *provider) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// sse writes one answer.
type sse struct {
	w   http.ResponseWriter
	ctx context.Context
}

func (s *sse) event(kind string, members map[string]any) {
	members["type"] = kind
	data, _ := json.Marshal(members)
	_, _ = fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", kind, data)
	s.w.(http.Flusher).Flush()
}

func (s *sse) item(item map[string]any) {
	s.event("response.output_item.done", map[string]any{"output_index": 0, "item": item})
}

// says ends the turn with a message.
func says(text string) func(*sse, []byte) {
	return func(s *sse, _ []byte) {
		s.event("response.output_text.delta", map[string]any{"item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": text})
		s.item(map[string]any{
			"type": "message", "id": "msg_1", "role": "assistant",
			"content": []any{map[string]any{"type": "output_text", "text": text}},
		})
	}
}

// runs has the model call its shell.
func runs(command string) func(*sse, []byte) {
	return func(s *sse, _ []byte) {
		args, _ := json.Marshal(map[string]any{"cmd": command, "yield_time_ms": 1000})
		s.item(map[string]any{
			"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "exec_command", "arguments": string(args),
		})
	}
}

// holds blocks until release is closed, then says text.
func holds(release <-chan struct{}, text string) func(*sse, []byte) {
	return func(s *sse, body []byte) {
		select {
		case <-release:
			says(text)(s, body)
		case <-s.ctx.Done():
		}
	}
}

// place is the folders of one agent.
type place struct {
	t                             *testing.T
	home, work, run, spool, clean string
	binary, digest                string
}

// newPlace writes a home that points at the provider.
func newPlace(t *testing.T, providerURL string) *place {
	t.Helper()
	base := testkit.PrivateDir(t)
	p := &place{
		t: t, home: filepath.Join(base, "home"), work: filepath.Join(base, "work"),
		run: filepath.Join(base, "r"), spool: filepath.Join(base, "spool"), clean: filepath.Join(base, "clean"),
	}
	for _, dir := range []string{p.home, p.work, p.run, p.clean} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(p.home, "config.toml"), []byte(homeConfig(providerURL, p.work)), 0o600); err != nil {
		t.Fatal(err)
	}
	p.binary, p.digest = codex(t)
	return p
}

func homeConfig(providerURL, work string) string {
	return fmt.Sprintf(`
model = "scripted"
model_provider = "gw"
approval_policy = "never"
default_permissions = "mmo"
check_for_update_on_startup = false
web_search = "disabled"
allow_login_shell = false

[model_providers.gw]
name = "gw"
base_url = %q
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[features]
plugins = false
apps = false
remote_plugin = false
shell_snapshot = false
unbounded_connection_retries = false
multi_agent = false

[analytics]
enabled = false

[permissions.mmo.filesystem]
":root" = "read"

[permissions.mmo.filesystem.":workspace_roots"]
"." = "write"

[permissions.mmo.network]
enabled = false

[shell_environment_policy]
inherit = "core"
set = { MMO_AGENT = %q }

[projects.%q]
trust_level = "trusted"
`, providerURL+"/v1", agentRefOf+"/1", work)
}

var codexDigest struct {
	once sync.Once
	hex  string
}

// codex returns the pinned binary and its digest.
func codex(t *testing.T) (path, digest string) {
	t.Helper()
	path = os.Getenv("MMO_CODEX_BIN")
	if path == "" {
		path = testkit.Codex(t)
	}
	codexDigest.once.Do(func() {
		file, err := os.Open(path)
		if err != nil {
			return
		}
		defer file.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, file); err == nil {
			codexDigest.hex = hex.EncodeToString(sum.Sum(nil))
		}
	})
	if codexDigest.hex == "" {
		t.Fatalf("the pinned Codex %s can't be read; run `make codex`", path)
	}
	return path, codexDigest.hex
}

func (p *place) launch(generation uint64) *hostpb.LaunchRequest {
	return &hostpb.LaunchRequest{
		Fence: fenceAt(1), AgentRef: agentRefOf, Generation: generation,
		EnginePath: p.binary, EngineSha256: p.digest, EngineHome: p.home, Cwd: p.work,
		Env: map[string]string{
			"HOME": p.clean, "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8",
			"MMO_AGENT": fmt.Sprintf("%s/%d", agentRefOf, generation),
		},
		SocketPath: filepath.Join(p.run, "app.sock"), SpoolDir: p.spool,
		StderrPath: filepath.Join(p.run, "stderr.log"),
	}
}

func (p *place) spec() *hostpb.ThreadSpec {
	return &hostpb.ThreadSpec{
		Open: &hostpb.ThreadSpec_Start{Start: true}, Name: "host test", Cwd: p.work,
		Model: "scripted", ModelProvider: "gw", ApprovalPolicy: "never", Permissions: "mmo",
	}
}

func fenceAt(epoch uint64) *basepb.Fence {
	return &basepb.Fence{SessionId: "s_hosttest", Epoch: epoch}
}

// stderr returns the engine's stderr, for failure texts.
func (p *place) stderr() string {
	data, _ := os.ReadFile(filepath.Join(p.run, "stderr.log"))
	return strings.TrimSpace(string(data))
}
