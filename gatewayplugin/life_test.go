package gatewayplugin_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/codex-mmo/codex-mmo/gatewayplugin"
	"github.com/codex-mmo/codex-mmo/plugins"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// TestIdleExit: the gateway ends itself once no host of any tenant has lived
// for the idle time, and not before.
func TestIdleExit(t *testing.T) {
	r := newRig(t, nil, &gatewaypb.StartRequest{IdleExitMs: 60_000})
	holder := func(pid int32) func(*gatewaypb.IssueTokenRequest) {
		return func(req *gatewaypb.IssueTokenRequest) {
			req.Holder = &basepb.Process{Pid: pid, StartToken: "1", BootId: "b"}
		}
	}
	r.issue("s1", "bearer-1", holder(101))
	select {
	case <-r.gateway.Ended():
		t.Fatal("ended with a living host")
	default:
	}

	idle := newRig(t, nil, &gatewaypb.StartRequest{IdleExitMs: 1})
	<-idle.gateway.Ended() // nobody ever held it

	held := newRig(t, nil, nil)
	held.issue("s1", "bearer-1", holder(101))
	held.issue("s2", "bearer-2", holder(102))
	held.issue("s2", "bearer-3", holder(102))
	held.gateway.SetIdle(time.Millisecond)
	held.hosts.kill(101)
	select {
	case <-held.gateway.Ended():
		t.Fatal("ended while a host lives")
	case <-time.After(20 * time.Millisecond): // many idle times
	}
	held.hosts.kill(102)
	<-held.gateway.Ended()
}

// TestHolderIsReplaced: a bearer that is issued again for another host keeps the
// gateway as long as that host lives.
func TestHolderIsReplaced(t *testing.T) {
	r := newRig(t, nil, nil)
	for _, pid := range []int32{101, 102} {
		r.issue("s1", "bearer", func(req *gatewaypb.IssueTokenRequest) {
			req.Holder = &basepb.Process{Pid: pid, StartToken: "1", BootId: "b"}
		})
	}
	r.gateway.SetIdle(time.Millisecond)
	r.hosts.kill(101)
	select {
	case <-r.gateway.Ended():
		t.Fatal("ended with the first host")
	case <-time.After(20 * time.Millisecond): // many idle times
	}
	r.hosts.kill(102)
	<-r.gateway.Ended()
}

// TestUnstartedGatewayEnds: a gateway whose starter died before it called Start
// ends itself; one that was started does not.
func TestUnstartedGatewayEnds(t *testing.T) {
	lost := gatewayplugin.New(&gatewayplugin.Options{StartWithin: time.Millisecond})
	<-lost.Ended()
	if err := lost.Drain(t.Context()); err != nil {
		t.Error(err)
	}

	started := newRig(t, &gatewayplugin.Options{StartWithin: 100 * time.Millisecond}, nil)
	select {
	case <-started.gateway.Ended():
		t.Error("ended although it was started")
	case <-time.After(150 * time.Millisecond):
	}
}

// TestListenerIsHandedOut: whoever of this user asks gets a duplicate of the
// listener, by which the port outlives the gateway.
func TestListenerIsHandedOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), plugins.ListenerSocket)
	r := newRig(t, &gatewayplugin.Options{ArmWindow: -1, ListenerSocket: path}, nil)
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Fatalf("the socket: %v, %v, want mode 0600", info, err)
	}
	first, second := takeListener(t, path), takeListener(t, path)
	defer second.Close()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	r.drain()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket outlives the gateway: %v", err)
	}

	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(r.base, "http://"), "/v1"))
	if err != nil {
		t.Fatalf("the port was lost with the gateway: %v", err)
	}
	defer conn.Close()
	accepted, err := second.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	if accepted.RemoteAddr().String() != conn.LocalAddr().String() {
		t.Errorf("accepted %v, want %v", accepted.RemoteAddr(), conn.LocalAddr())
	}
}

// takeListener asks a gateway for a duplicate of its listener.
func takeListener(t *testing.T, path string) net.Listener {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	control := make([]byte, syscall.CmsgSpace(4))
	_, n, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(make([]byte, 1), control)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := syscall.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		t.Fatalf("got %d messages, %v", len(messages), err)
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		t.Fatalf("got descriptors %v, %v", fds, err)
	}
	file := os.NewFile(uintptr(fds[0]), "listener")
	defer file.Close()
	listener, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// TestStop: refused while a session is served, unless forced; a forced one
// ends what is under way and says how much.
func TestStop(t *testing.T) {
	r := newRig(t, nil, nil)
	r.apply("s1", []*gatewaypb.Route{offline("r", "model m\nstep\nsay \"a\"\nhold never\n", "m")})
	r.issue("s1", "bearer", nil)
	if _, err := r.gateway.Stop(r.ctx, &gatewaypb.StopRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("Stop with a session: %v", err)
	}
	resp, err := r.client.Do(r.request(r.ctx, "bearer", "m", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := r.gateway.Stop(r.ctx, &gatewaypb.StopRequest{Force: true, DrainMs: 1})
	if err != nil || !answer.GetStopping() || answer.GetAbortedRequests() != 1 {
		t.Errorf("Stop: %v, %v", answer, err)
	}
	events := readEvents(t, resp.Body)
	if code, message := failed(events); code != "server_error" || message != "the gateway is stopping" {
		t.Errorf("the cut request: %s: %s %s", kinds(events), code, message)
	}
	<-r.gateway.Ended()
}

// TestReleaseEndsRequests: a released session's requests end, and their rows
// are written.
func TestReleaseEndsRequests(t *testing.T) {
	r := newRig(t, nil, nil)
	r.apply("s1", []*gatewaypb.Route{offline("r", "model m\nstep\nsay \"a\"\nhold never\n", "m")})
	r.issue("s1", "bearer", nil)
	resp, err := r.client.Do(r.request(r.ctx, "bearer", "m", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := r.gateway.Release(r.ctx, &gatewaypb.ReleaseRequest{Tenant: fence("s1", 1)}); err != nil {
		t.Fatal(err)
	}
	events := readEvents(t, resp.Body)
	if code, message := failed(events); code != "invalid_prompt" || message != "the session was released" {
		t.Errorf("the request: %s: %s %s", kinds(events), code, message)
	}
	if rows := r.rows("s1", 0); len(rows) != 1 || rows[0].GetOutcome() != "cancelled" {
		t.Errorf("rows %v", rows)
	}
}
