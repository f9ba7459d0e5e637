package codexhome_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core/codexbin"
	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// patience bounds each wait for Codex, which takes long on a loaded machine.
const patience = 90 * time.Second

// onEachCodex runs a test on every Codex that was reviewed, at the same time as
// its siblings.
func onEachCodex(t *testing.T, test func(t *testing.T, version string)) {
	for _, version := range testkit.CodexVersions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			test(t, version)
		})
	}
}

// server is a real `codex app-server` that speaks on its standard streams.
type server struct {
	t      *testing.T
	ctx    context.Context
	stdin  io.WriteCloser
	stderr *lines
	kill   func() // with -9, and waits for its end

	messages chan message // all that arrives, in order
	id       int
}

type message struct {
	ID     *int            `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// lines keeps what a process wrote to its standard error.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startCodex starts Codex on a home, with a clean HOME, extra variables and no way
// out of this machine, and shakes hands with it.
func startCodex(t *testing.T, version string, place *testkit.Place, home *codexhome.Home, args []string, env ...string) *server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	codex := testkit.CodexOf(t, version)
	cmd := exec.CommandContext(ctx, codex, append([]string{"app-server", "--strict-config"}, args...)...)
	cmd.Dir = place.Workspace
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH") + ":" + codexbin.HelperDir(codex), "LANG=C.UTF-8", "HOME=" + place.Home, "CODEX_HOME=" + home.Dir, "HTTPS_PROXY=http://127.0.0.1:1"}, env...)
	s := &server{t: t, ctx: ctx, stderr: &lines{}, messages: make(chan message, 4096)}
	cmd.Stderr = s.stderr
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what it leaves behind is known by its session
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.stdin = stdin
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting codex: %v", err)
	}
	leader, err := process.Lookup(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(s.messages)
		in := bufio.NewScanner(stdout)
		in.Buffer(nil, 16<<20)
		for in.Scan() {
			var m message
			if json.Unmarshal(in.Bytes(), &m) == nil {
				s.messages <- m
			}
		}
	}()
	s.kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait() // killed on purpose
		if _, err := process.Retire(context.Background(), leader, nil); err != nil {
			t.Errorf("sweeping what Codex left behind: %v", err)
		}
	})
	t.Cleanup(func() {
		s.kill()
		testkit.AssertNoSandbox(t, place.Dir)
		if t.Failed() {
			t.Logf("codex said on stderr:\n%s", s.stderr)
		}
	})
	s.initialize()
	return s
}

// call sends a request and returns its result; what arrives meanwhile is
// given to seen.
func (s *server) call(method string, params any, seen func(message)) json.RawMessage {
	s.t.Helper()
	s.id++
	id := s.id
	s.send(map[string]any{"id": id, "method": method, "params": params})
	var out json.RawMessage
	s.until(func(m message) bool {
		if m.ID == nil || *m.ID != id || m.Method != "" {
			if seen != nil {
				seen(m)
			}
			return false
		}
		if m.Error != nil {
			s.t.Fatalf("%s: %s", method, m.Error)
		}
		out = m.Result
		return true
	})
	return out
}

func (s *server) send(v any) {
	s.t.Helper()
	line, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.stdin.Write(append(line, '\n')); err != nil {
		s.t.Fatalf("writing to codex: %v", err)
	}
}

// until reads messages until one satisfies done.
func (s *server) until(done func(message) bool) {
	s.t.Helper()
	for {
		select {
		case m, ok := <-s.messages:
			if !ok {
				s.t.Fatal("codex ended")
			}
			if done(m) {
				return
			}
		case <-s.ctx.Done():
			s.t.Fatal("codex took too long")
		}
	}
}

// initialize shakes hands and returns the warnings that came with it.
func (s *server) initialize() {
	s.t.Helper()
	s.call("initialize", map[string]any{
		"clientInfo":   map[string]any{"name": "mmo", "title": "test", "version": "1"},
		"capabilities": map[string]any{"experimentalApi": true},
	}, nil)
	s.send(map[string]any{"method": "initialized"})
}

// read returns a file's text.
func read(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
