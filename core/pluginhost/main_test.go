package pluginhost_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/codex-mmo/codex-mmo/core/pluginhost"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
	"github.com/codex-mmo/codex-mmo/plugins"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
	"github.com/codex-mmo/codex-mmo/plugins/sdk"
)

// roleEnv makes the test binary play a plugin, good or bad, or a starter.
const roleEnv = "MMO_PLUGINHOST_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

// play runs a role.
func play(role string) int {
	switch role {
	case "host":
		return exitCode(sdk.ServeHost(hostInfo, &echoHost{}))
	case "gateway":
		return exitCode(sdk.ServeGateway(sdk.Info{Name: "echo-gateway", Version: "0.1.0", Drivers: []string{"echo"}}, gatewaypb.UnimplementedGatewayServer{}))
	case "printing host": // prints before each answer, also to the descriptor
		stdout, err := syscall.Dup(1) // as a child of the plugin would hold it
		if err != nil {
			return exitCode(err)
		}
		return exitCode(sdk.ServeHost(hostInfo, &printingHost{stdout: stdout}))
	case "panicking host":
		return exitCode(sdk.ServeHost(hostInfo, &panickingHost{}))
	case "silent host":
		return exitCode(sdk.ServeHost(hostInfo, &silentHost{}))
	case "parent host":
		return exitCode(sdk.ServeHost(hostInfo, &parentHost{}))
	case "draining host": // would drain for ever
		return exitCode(sdk.ServeHost(hostInfo, &drainingHost{}))
	case "stopping host": // ends itself when it is asked to stop
		stop := make(chan struct{})
		info := hostInfo
		info.Stop = stop
		return exitCode(sdk.ServeHost(info, &stoppingHost{stop: stop}))
	case "exit 23":
		fmt.Println("deterministic-startup-failure")
		fmt.Fprintln(os.Stderr, "because of the weather")
		return 23
	case "hang":
		fmt.Fprintln(os.Stderr, "I think")
		block()
	case "next version":
		fmt.Printf("1|2|unix|%s|grpc\n", filepath.Join(os.Getenv(plugins.EnvDir), "plugin1"))
		block()
	case "net/rpc":
		fmt.Printf("1|1|unix|%s|netrpc\n", filepath.Join(os.Getenv(plugins.EnvDir), "plugin1"))
		block()
	case "foreign socket":
		fmt.Println("1|1|unix|/run/foreign.sock|grpc")
		block()
	case "no socket":
		fmt.Printf("1|1|unix|%s|grpc\n", filepath.Join(os.Getenv(plugins.EnvDir), "plugin1"))
		block()
	case "bad certificate":
		fmt.Printf("1|1|unix|%s|grpc|%s\n", filepath.Join(os.Getenv(plugins.EnvDir), "plugin1"), strings.Repeat("A", 64))
		block()
	case "certificate": // as a plugin with automatic TLS says its own
		raw, err := os.ReadFile(filepath.Join(os.Getenv(plugins.EnvDir), plugins.ServerCertFile))
		if err != nil {
			return exitCode(err)
		}
		certificate, _ := pem.Decode(raw)
		fmt.Printf("1|1|unix|%s|grpc|%s\n", filepath.Join(os.Getenv(plugins.EnvDir), "plugin1"), base64.RawStdEncoding.EncodeToString(certificate.Bytes))
		block()
	case "long line":
		_, _ = os.Stdout.Write(bytes.Repeat([]byte("x"), 1<<20))
		block()
	case "flood":
		for line := bytes.Repeat([]byte("flood "), 1000); ; {
			if _, err := os.Stderr.Write(append(line, '\n')); err != nil || fileSize(os.Stderr) > 8<<20 {
				return 1
			}
		}
	case "orphan keeps stdout": // exits, but the other end of the pipe lives on
		spawn("hang")
		fmt.Println("one line and away")
		return 1
	case "starter":
		return starter()
	case "sleep":
		block()
	}
	return 64
}

var hostInfo = sdk.Info{
	Name: "echo-host", Version: "0.1.0", Drivers: []string{"echo"},
	Capabilities: []string{"resume", "survives_controller"}, Isolation: "none", SecretNames: []string{"ECHO_KEY"},
}

func exitCode(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// echoHost answers Describe through the SDK and Read with what is asked.
type echoHost struct{ hostpb.UnimplementedHostServer }

func (*echoHost) Read(context.Context, *hostpb.ReadRequest) (*hostpb.ReadResponse, error) {
	fmt.Fprintln(os.Stderr, "read was called")
	return &hostpb.ReadResponse{State: &hostpb.ThreadState{ThreadId: "thread-1"}}, nil
}

// Events stays open until the caller leaves or the plugin ends.
func (*echoHost) Events(_ *hostpb.EventsRequest, stream hostpb.Host_EventsServer) error {
	if err := stream.Send(&hostpb.Event{Transient: true}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return status.FromContextError(stream.Context().Err()).Err()
}

func (*echoHost) Drain(context.Context) error {
	fmt.Fprintln(os.Stderr, "drained")
	return nil
}

// printingHost prints more than a pipe holds.
type printingHost struct {
	hostpb.UnimplementedHostServer
	stdout int // descriptor of the pipe that the starter reads
}

func (h *printingHost) Read(context.Context, *hostpb.ReadRequest) (*hostpb.ReadResponse, error) {
	for range 4 {
		text := bytes.Repeat([]byte("p"), 64<<10)
		fmt.Println(string(text))
		fmt.Fprintln(os.Stderr, string(text))
		for _, fd := range []int{1, h.stdout} {
			if _, err := syscall.Write(fd, text); err != nil {
				return nil, err
			}
		}
	}
	return &hostpb.ReadResponse{}, nil
}

type panickingHost struct{ hostpb.UnimplementedHostServer }

func (*panickingHost) Describe(context.Context, *basepb.DescribeRequest) (*basepb.DescribeResponse, error) {
	panic("no words for it")
}

type silentHost struct{ hostpb.UnimplementedHostServer }

func (*silentHost) Describe(ctx context.Context, _ *basepb.DescribeRequest) (*basepb.DescribeResponse, error) {
	<-ctx.Done()
	return nil, status.Error(codes.Canceled, "asked in vain")
}

type drainingHost struct{ hostpb.UnimplementedHostServer }

func (*drainingHost) Drain(ctx context.Context) error {
	_ = syscall.Close(3) // tells that it has begun
	<-ctx.Done()
	return ctx.Err()
}

type stoppingHost struct {
	hostpb.UnimplementedHostServer
	stop chan struct{}
}

func (h *stoppingHost) Stop(context.Context, *hostpb.StopRequest) (*hostpb.StopResponse, error) {
	close(h.stop)
	return &hostpb.StopResponse{EngineWasRunning: true}, nil
}

// parentHost has a child in its session and one that left it.
type parentHost struct{ hostpb.UnimplementedHostServer }

func (*parentHost) Inspect(context.Context, *hostpb.InspectRequest) (*hostpb.InspectResponse, error) {
	return &hostpb.InspectResponse{Handle: &hostpb.Handle{
		Engine: &basepb.Process{Pid: int32(spawn("sleep")), Pgid: int32(spawnSession("sleep"))},
	}}, nil
}

func spawn(role string) int        { return run(role, &syscall.SysProcAttr{}) }
func spawnSession(role string) int { return run(role, &syscall.SysProcAttr{Setsid: true}) }

func run(role string, attr *syscall.SysProcAttr) int {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{roleEnv + "=" + role}
	cmd.Stdout = os.NewFile(1, "stdout")
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return cmd.Process.Pid
}

// starter starts the host that the environment describes, prints its Ref, and
// waits to be killed.
func starter() int {
	p, err := pluginhost.Start(context.Background(), &pluginhost.Spec{
		Kind: "host", Path: os.Args[0], Env: []string{roleEnv + "=host"},
		Dir: os.Getenv("TEST_DIR"), LogPath: os.Getenv("TEST_LOG"),
	}, func(process.Identity) error { return nil })
	if err != nil {
		fmt.Println(err)
		return 1
	}
	text, err := json.Marshal(p.Ref())
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
	block()
	return 0
}

// block waits for ever. (An empty select would be a deadlock.)
func block() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR1)
	<-never
}

func fileSize(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// self is the test binary.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// specOf is the spec of a role with an instance folder and a log of its own.
func specOf(t *testing.T, role string) *pluginhost.Spec {
	t.Helper()
	dir := testkit.PrivateDir(t)
	return &pluginhost.Spec{
		Kind: "host", Path: self(t), Env: []string{roleEnv + "=" + role},
		Dir: filepath.Join(dir, "i"), LogPath: filepath.Join(dir, "log"),
	}
}

// recorder keeps what was recorded.
type recorder struct{ ids []process.Identity }

func (r *recorder) record(id process.Identity) error {
	r.ids = append(r.ids, id)
	return nil
}

// start starts a plugin that is retired with the test.
func start(t *testing.T, spec *pluginhost.Spec) *pluginhost.Plugin {
	t.Helper()
	r := &recorder{}
	p, err := pluginhost.Start(t.Context(), spec, r.record)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.ids) != 1 || !r.ids[0].Same(p.Identity()) {
		t.Errorf("recorded %v, want %v once", r.ids, p.Identity())
	}
	t.Cleanup(func() { retire(t, p) })
	return p
}

func retire(t *testing.T, p *pluginhost.Plugin) {
	t.Helper()
	survivors, err := p.Retire(context.Background(), 0)
	if err != nil || len(survivors) > 0 {
		t.Errorf("Retire = %v, %v", survivors, err)
	}
	testkit.Await(t, p.Done(), "the plugin's end")
}

// startStarter runs the role starter for a spec and returns its process and
// what it started.
func startStarter(t *testing.T, spec *pluginhost.Spec) (*exec.Cmd, pluginhost.Ref) {
	t.Helper()
	cmd := exec.Command(self(t))
	cmd.Env = []string{roleEnv + "=starter", "TEST_DIR=" + spec.Dir, "TEST_LOG=" + spec.LogPath}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ref pluginhost.Ref
	if err := json.Unmarshal([]byte(line), &ref); err != nil {
		t.Fatalf("starter printed %q: %v", line, err)
	}
	t.Cleanup(func() {
		_, err := process.Retire(context.Background(), ref.Process, nil)
		if err != nil {
			t.Error(err)
		}
	})
	return cmd, ref
}
