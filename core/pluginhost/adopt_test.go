package pluginhost_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/codex-mmo/codex-mmo/core/pluginhost"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
	"github.com/codex-mmo/codex-mmo/plugins"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// A plugin outlives a killed starter, its log goes on, and another process
// takes it over.
func TestAdoptAfterTheStarterWasKilled(t *testing.T) {
	spec := specOf(t, "host")
	starter, ref := startStarter(t, spec)
	if err := starter.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = starter.Wait()

	p, err := pluginhost.Adopt(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if p.Describe().GetName() != "echo-host" || !p.Identity().Same(ref.Process) || p.Ref() != ref {
		t.Errorf("adopted %v as %v", p.Ref(), p.Describe())
	}
	before := logSize(t, spec)
	if _, err := hostpb.NewHostClient(p.Conn()).Read(t.Context(), &hostpb.ReadRequest{}); err != nil {
		t.Fatal(err)
	}
	if after := logSize(t, spec); after <= before {
		t.Errorf("the log has %d bytes after the call, %d before: it does not go on", after, before)
	}
	// Leaving again leaves it as it is.
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p, err = pluginhost.Adopt(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	retire(t, p)
	if _, err := os.Lstat(spec.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the instance folder is left: %v", err)
	}
}

func TestAdoptOfTheDeadIsProven(t *testing.T) {
	p := start(t, specOf(t, "host"))
	ref := p.Ref()
	rebooted, reused := ref, ref
	rebooted.Process.BootID = "00000000-0000-0000-0000-000000000000"
	reused.Process.StartToken += "1"
	h, err := process.Open(ref.Process)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	for name, ref := range map[string]pluginhost.Ref{"another boot": rebooted, "another start": reused, "nobody": {Protocol: 1}} {
		if _, err := pluginhost.Adopt(t.Context(), ref); !errors.Is(err, pluginhost.ErrGone) {
			t.Errorf("%s: Adopt = %v, want an error that wraps ErrGone", name, err)
		}
	}
	if err := h.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, p.Done(), "the plugin's end")
	if _, err := pluginhost.Adopt(t.Context(), ref); !errors.Is(err, pluginhost.ErrGone) {
		t.Errorf("Adopt of a killed plugin = %v, want an error that wraps ErrGone", err)
	}
}

// A plugin that lives and does not answer is not taken for dead.
func TestAdoptOfTheSilentIsUnreachable(t *testing.T) {
	p := start(t, specOf(t, "host"))
	testkit.Stop(t, p.Identity())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := pluginhost.Adopt(ctx, p.Ref()); !errors.Is(err, pluginhost.ErrUnreachable) {
		t.Errorf("Adopt of a stopped plugin = %v, want an error that wraps ErrUnreachable", err)
	}
	if !p.Identity().Alive() {
		t.Error("Adopt ended it")
	}
	testkit.Cont(t, p.Identity())
	again, err := pluginhost.Adopt(t.Context(), p.Ref())
	if err != nil {
		t.Fatalf("Adopt after SIGCONT = %v", err)
	}
	_ = again.Close()
}

func TestAdoptRefuses(t *testing.T) {
	p, other := start(t, specOf(t, "host")), start(t, specOf(t, "host"))
	tests := []struct {
		name string
		edit func(*pluginhost.Ref)
		want error
	}{
		{"another protocol version", func(r *pluginhost.Ref) { r.Protocol = 2 }, pluginhost.ErrRefused},
		{"no protocol version", func(r *pluginhost.Ref) { r.Protocol = 0 }, pluginhost.ErrRefused},
		{"another kind", func(r *pluginhost.Ref) { r.Kind = "gateway" }, pluginhost.ErrRefused},
		{"the socket and folder of another", func(r *pluginhost.Ref) { r.Socket, r.Dir = other.Ref().Socket, other.Ref().Dir }, pluginhost.ErrRefused},
		{"the folder of another", func(r *pluginhost.Ref) { r.Dir = other.Ref().Dir }, pluginhost.ErrUnreachable},
		{"no socket", func(r *pluginhost.Ref) { r.Socket += "x" }, pluginhost.ErrUnreachable},
		{"no TLS files", func(r *pluginhost.Ref) { r.Dir = filepath.Dir(r.Dir) }, pluginhost.ErrUnreachable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ref := p.Ref()
			tt.edit(&ref)
			if _, err := pluginhost.Adopt(t.Context(), ref); !errors.Is(err, tt.want) {
				t.Errorf("Adopt = %v, want an error that wraps %q", err, tt.want)
			}
		})
	}
}

func TestAdoptFindsTheKind(t *testing.T) {
	spec := specOf(t, "gateway")
	spec.Kind = "gateway"
	ref := start(t, spec).Ref()
	ref.Kind = ""
	p, err := pluginhost.Adopt(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	if p.Describe().GetName() != "echo-gateway" {
		t.Errorf("Describe = %v", p.Describe())
	}
}

// Who has no client certificate is served nothing.
func TestSocketNeedsACertificate(t *testing.T) {
	p := start(t, specOf(t, "host"))
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", p.Ref().Socket)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if d, err := hostpb.NewHostClient(conn).Describe(ctx, &basepb.DescribeRequest{}); err == nil {
		t.Errorf("Describe without a certificate = %v", d)
	}
}

// Whoever reads a plugin's output may go: writing to nobody does not end it.
func TestPluginOutlivesItsReaders(t *testing.T) {
	dir := testkit.PrivateDir(t)
	if err := plugins.WriteTLS(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self(t))
	cmd.Env = []string{
		roleEnv + "=host", plugins.EnvDir + "=" + dir, "PLUGIN_UNIX_SOCKET_DIR=" + dir, "PLUGIN_PROTOCOL_VERSIONS=1",
		plugins.Handshake.MagicCookieKey + "=" + plugins.Handshake.MagicCookieValue,
	}
	stdout, errOut := cmd.StdoutPipe()
	stderr, errErr := cmd.StderrPipe()
	if err := errors.Join(errOut, errErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(stdout.Close(), stderr.Close()); err != nil {
		t.Fatal(err)
	}
	id, err := process.Lookup(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	p, err := pluginhost.Adopt(t.Context(), pluginhost.Ref{
		Kind: "host", Process: id, Socket: strings.Split(line, "|")[3], Dir: dir, Protocol: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	for range 3 {
		if _, err := hostpb.NewHostClient(p.Conn()).Read(t.Context(), &hostpb.ReadRequest{}); err != nil {
			t.Fatalf("Read = %v: the plugin has ended", err)
		}
	}
}

// The program says what it is when somebody starts it by hand.
func TestPluginStartedByHand(t *testing.T) {
	log := filepath.Join(testkit.PrivateDir(t), "log")
	child, err := process.Start(process.Spec{Path: self(t), Env: []string{roleEnv + "=host"}, StderrPath: log})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, child.Done(), "its end")
	text, err := os.ReadFile(log)
	if err != nil || child.State().ExitCode() != 1 || !strings.Contains(string(text), "this program is a plugin") {
		t.Errorf("exit %d, %q, %v", child.State().ExitCode(), text, err)
	}
}

func logSize(t *testing.T, spec *pluginhost.Spec) int64 {
	t.Helper()
	info, err := os.Stat(spec.LogPath)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func pidText(id process.Identity) string { return strconv.Itoa(id.PID) }
