package hostplugin_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/hostplugin"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// hostSocketEnv makes this test binary a host that serves on that socket.
const hostSocketEnv = "MMO_TEST_HOST_SOCKET"

func TestMain(m *testing.M) {
	if socket := os.Getenv(hostSocketEnv); socket != "" {
		if err := runHost(socket); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(toolServerEnv) != "" {
		runToolServer(os.Stdin, os.Stdout)
		return
	}
	goleak.VerifyTestMain(m)
}

// runHost is the host process of kill tests: everything of Serve but the
// plugin handshake.
func runHost(socket string) error {
	if err := process.BecomeSubreaper(); err != nil {
		return err
	}
	go process.ReapOrphans(context.Background())
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	server := grpc.NewServer()
	hostpb.RegisterHostServer(server, hostplugin.New())
	return server.Serve(listener)
}

// hostProcess starts a host of its own and returns a client and its killer.
func hostProcess(t *testing.T, p *place, name string) (client hostpb.HostClient, kill func()) {
	t.Helper()
	socket := filepath.Join(p.run, name)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), hostSocketEnv+"="+socket)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if !killed {
			killed = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(kill)
	if line := make([]byte, 6); true {
		if _, err := out.Read(line); err != nil || !strings.HasPrefix(string(line), "ready") {
			t.Fatalf("the host process says %q, %v", line, err)
		}
	}
	return dial(t, socket), kill
}

func TestRealKilledHostIsReplacedAndTheTurnUndisturbed(t *testing.T) {
	release := make(chan struct{})
	model := newProvider(t, holds(release, "survived"))
	p := newPlace(t, model.url)
	first, kill := hostProcess(t, p, "h1.sock")
	launched, err := first.Launch(withTime(t), p.launch(1))
	must(t, "Launch", err, launched.GetFailure())
	t.Cleanup(func() { sweep(t) })
	opened, err := first.Open(withTime(t), &hostpb.OpenRequest{Fence: fenceAt(1), Thread: p.spec()})
	must(t, "Open", err, opened.GetFailure())
	before := follow(t, first, 1, nil)
	turn := startTurn(t, first, 1, "in_1", "survive")
	before.received("turn/started")
	last := before.seen[len(before.seen)-1].GetPosition()
	kill()

	killedAt := time.Now()
	second, _ := hostProcess(t, p, "h2.sock")
	recovered, err := second.Recover(withTime(t), &hostpb.RecoverRequest{Fence: fenceAt(2), Handle: opened.GetHandle()})
	must(t, "Recover", err, recovered.GetFailure())
	if took := time.Since(killedAt); took > 2*time.Second {
		t.Errorf("control was back after %v, want 2 s", took)
	}
	if recovered.GetOutcome() != hostpb.RecoverResponse_OUTCOME_ADOPTED || recovered.GetState().GetActiveTurnId() != turn {
		t.Fatalf("Recover() = %v, want adopted with the turn running", recovered)
	}
	if got, want := recovered.GetHandle().GetEngine().GetPid(), opened.GetHandle().GetEngine().GetPid(); got != want {
		t.Errorf("engine pid %d, want the same %d", got, want)
	}
	if got := startTurn(t, second, 2, "in_1", "survive"); got != turn {
		t.Errorf("StartTurn(in_1) of the new host = %s, want %s", got, turn)
	}
	after := follow(t, second, 2, last)
	after.until("the hole", func(e *hostpb.Event) bool { return e.GetHole() != nil })
	attached := after.until("attached", func(e *hostpb.Event) bool { return e.GetAttached() != nil }).GetAttached().GetState()
	if attached.GetActiveTurnId() != turn || attached.GetTurns()[0].GetCommandIds()[0] != "in_1" {
		t.Errorf("attached state = %v, want the running turn of in_1", attached)
	}
	close(release)
	done := after.received("turn/completed")
	if !strings.Contains(string(done.GetReceivedJson()), "survived") {
		t.Errorf("turn/completed = %s, want its text", done.GetReceivedJson())
	}
	all := follow(t, second, 2, nil)
	all.until("the last row", func(e *hostpb.Event) bool { return e.GetPosition().GetSeq() == done.GetPosition().GetSeq() })
	if n := all.sent("turn/start"); n != 1 {
		t.Errorf("%d turn/start went to the engine, want exactly 1", n)
	}
	if n := model.requests(); n != 1 {
		t.Errorf("the model was asked %d times, want once", n)
	}
	out, err := second.Stop(withTime(t), &hostpb.StopRequest{Fence: fenceAt(2), GraceMs: 500})
	if err != nil || len(out.GetSurvivors()) > 0 {
		t.Errorf("Stop() of an adopted engine = %v, %v", out, err)
	}
	if left := marked(t); len(left) > 0 {
		t.Errorf("marked processes %v live on", left)
	}
}

// sweep ends what a failed test left.
func sweep(t *testing.T) {
	t.Helper()
	for _, id := range marked(t) {
		if _, err := process.Retire(context.Background(), id, &process.RetireOptions{Mark: agentRefOf + "/"}); err != nil {
			t.Errorf("Retire(%v) = %v", id, err)
		}
	}
}

func TestRealLaunchIsIdempotentAcrossHosts(t *testing.T) {
	p := newPlace(t, newProvider(t, says("x")).url)
	first, kill := hostProcess(t, p, "h1.sock")
	t.Cleanup(func() { sweep(t) })
	launched, err := first.Launch(withTime(t), p.launch(1))
	must(t, "Launch", err, launched.GetFailure())
	again, err := first.Launch(withTime(t), p.launch(1))
	must(t, "Launch again", err, again.GetFailure())
	kill() // its answer may have been lost: the caller asks the next host
	second, _ := hostProcess(t, p, "h2.sock")
	third, err := second.Launch(withTime(t), p.launch(1))
	must(t, "Launch on the new host", err, third.GetFailure())
	pid := launched.GetHandle().GetEngine().GetPid()
	if again.GetHandle().GetEngine().GetPid() != pid || third.GetHandle().GetEngine().GetPid() != pid {
		t.Errorf("engines %d, %d, %d; want one", pid, again.GetHandle().GetEngine().GetPid(), third.GetHandle().GetEngine().GetPid())
	}
	opened, err := second.Open(withTime(t), &hostpb.OpenRequest{Fence: fenceAt(1), Thread: p.spec()})
	must(t, "Open", err, opened.GetFailure())
	stop(t, second)
}
