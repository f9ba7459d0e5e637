package access_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// helperEnv makes the test binary wait on its standard input instead of running
// tests, so that a test can look at it from outside.
const helperEnv = "MMO_ACCESS_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestMayNeedsAnIdentity pins that a worker without a ref owns nothing, even
// when a chain has an empty entry.
func TestMayNeedsAnIdentity(t *testing.T) {
	nobody := access.Caller{Role: access.RoleWorker}
	running := access.State{Status: core.SessionRunning}
	if access.May(nobody, "cancel", access.Job{JobID: "x", ParentChain: []string{""}}, running) == nil {
		t.Error("a worker without an agent ref may cancel a job")
	}
}

func TestToken(t *testing.T) {
	token, hash := access.NewToken(rand.Reader)
	other, _ := access.NewToken(rand.Reader)
	if len(token) != 43 || token == other {
		t.Errorf("NewToken = %d characters, same twice %v; want 43, different", len(token), token == other)
	}
	if !access.EqualHash(hash, access.HashToken(token)) || access.EqualHash(hash, access.HashToken(other)) {
		t.Error("EqualHash does not tell two tokens apart")
	}
	if access.EqualHash("", "") || access.EqualHash("", hash) {
		t.Error("EqualHash takes an empty hash")
	}
}

func TestTokenHidesItself(t *testing.T) {
	const secret = "very-secret"
	token := access.Token(secret)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "token", token)
	encoded, err := json.Marshal(map[string]any{"t": token})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprint(token), fmt.Sprintf("%v %+v %#v %s %q", token, token, token, token, token),
		fmt.Sprintf("%+v", struct{ T access.Token }{token}), log.String(), string(encoded),
	} {
		if strings.Contains(text, secret) {
			t.Errorf("the token shows in %q", text)
		}
	}
	if token.Reveal() != secret {
		t.Errorf("Reveal = %q, want the token", token.Reveal())
	}
}

func TestPeerOf(t *testing.T) {
	path := filepath.Join(testkit.PrivateDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	peer, err := access.PeerOf(conn.(*net.UnixConn))
	if err != nil {
		t.Fatal(err)
	}
	self, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	if peer.PID != os.Getpid() || peer.UID != os.Getuid() || peer.Process != self {
		t.Errorf("PeerOf = %+v, want this process %+v", peer, self)
	}
}

// startHelper starts the test binary so that it waits, with extra environment.
func startHelper(t *testing.T, attr *syscall.SysProcAttr, env ...string) int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append([]string{helperEnv + "=1"}, env...)
	cmd.SysProcAttr = attr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting a process with %+v: %v; a process in a namespace of its own needs a machine that lets users make one, as Codex's sandbox does: see `codex-mmo doctor`", attr, err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

func TestMarkedAncestor(t *testing.T) {
	marked := startHelper(t, nil, process.MarkEnv+"=ar_1/3")
	if mark, found, err := access.MarkedAncestor(marked); err != nil || !found || mark != "ar_1/3" {
		t.Errorf("MarkedAncestor = %q, %v, %v, want the mark of the process itself", mark, found, err)
	}
	hosted := startHelper(t, nil, "MMO_PLUGIN_DIR=/r/h1")
	if mark, found, err := access.MarkedAncestor(hosted); err != nil || !found || mark != "/r/h1" {
		t.Errorf("MarkedAncestor of a plugin = %q, %v, %v, want its instance", mark, found, err)
	}
	plain := startHelper(t, nil)
	if mark, found, err := access.MarkedAncestor(plain); err != nil || found {
		t.Errorf("MarkedAncestor of an unmarked process = %q, %v, %v, want none", mark, found, err)
	}
	chain, err := access.Ancestors(plain)
	if err != nil || len(chain) < 2 || chain[0] != plain || chain[1] != os.Getpid() {
		t.Errorf("Ancestors = %v, %v, want the process and then this one", chain, err)
	}
	if _, _, err := access.MarkedAncestor(1 << 30); err == nil {
		t.Error("MarkedAncestor of a process that does not exist gives no error")
	}
}

func TestSameNamespaces(t *testing.T) {
	if same, err := access.SameNamespaces(os.Getpid()); err != nil || !same {
		t.Errorf("SameNamespaces(self) = %v, %v, want true", same, err)
	}
	if _, err := access.SameNamespaces(1 << 30); err == nil {
		t.Error("SameNamespaces of a process that does not exist gives no error")
	}
}
