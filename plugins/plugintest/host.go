// Package plugintest stands in for plugins in the tests of their callers.
//
// A [Host] is a host plugin without an engine: it keeps a thread in memory,
// applies commands once per id, streams numbered events, and can be told to
// hold an answer, to die with or without the effect, or to let a turn end
// before its start is answered. A call that is held or killed is the point of
// the package: the real host can't be stopped there.
package plugintest

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

var _ hostpb.HostServer = (*Host)(nil)

// Options are what a Host is made with; nil and zero fields are usable.
type Options struct {
	// Engine is what its handles name as the engine's process; nil: a process
	// that does not exist.
	Engine *basepb.Process
	// Describe is its answer to Describe; nil: a host of protocol 1 that proves
	// isolation by permission profile.
	Describe *basepb.DescribeResponse
}

// Host is the double. Its state survives Kill and Restart, as an engine and a
// spool survive their host.
type Host struct {
	hostpb.UnimplementedHostServer

	t    testing.TB
	path string
	opts Options

	mu       sync.Mutex
	server   *grpc.Server
	served   chan struct{} // closed when server has ended
	steps    map[string][]step
	calls    map[string][]proto.Message // RPC name -> requests, oldest first
	session  string
	epoch    uint64
	handle   *hostpb.Handle
	opened   *hostpb.OpenResponse
	state    *hostpb.ThreadState
	commands map[string]*hostpb.CommandResponse // command id -> first answer
	rows     []*hostpb.Event
	live     map[chan *hostpb.Event]struct{}
	changed  chan struct{} // closed and replaced by every row
	turns    int           // counts turns for their ids
}

// NewHost serves a double on the unix socket at path until the test ends.
func NewHost(t testing.TB, path string, opts *Options) *Host {
	t.Helper()
	h := &Host{
		t: t, path: path,
		steps: map[string][]step{}, calls: map[string][]proto.Message{},
		state: &hostpb.ThreadState{}, commands: map[string]*hostpb.CommandResponse{},
		live: map[chan *hostpb.Event]struct{}{}, changed: make(chan struct{}),
	}
	if opts != nil {
		h.opts = *opts
	}
	if h.opts.Describe == nil {
		h.opts.Describe = &basepb.DescribeResponse{
			Name: "double", Version: "1.0.0", Kinds: []string{"host"}, ProtocolVersions: []uint32{1},
			InstanceId: "double", Isolation: "permission_profile",
		}
	}
	h.Restart()
	t.Cleanup(h.Kill)
	return h
}

// Restart serves again after Kill, or after a step that made the host die.
func (h *Host) Restart() {
	h.t.Helper()
	h.Kill()
	if err := os.Remove(h.path); err != nil && !os.IsNotExist(err) {
		h.t.Fatalf("plugintest: %v", err)
	}
	listener, err := net.Listen("unix", h.path)
	if err != nil {
		h.t.Fatalf("plugintest: %v", err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(h.intercept))
	hostpb.RegisterHostServer(server, h)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	h.mu.Lock()
	h.server, h.served = server, served
	h.mu.Unlock()
}

// Kill drops every connection at once and waits for the server's end. It is
// idempotent.
func (h *Host) Kill() {
	h.mu.Lock()
	server, served := h.server, h.served
	h.server = nil
	h.mu.Unlock()
	if server != nil {
		server.Stop()
		<-served
	}
}

// Dial returns a connection to the double, closed when the test ends.
func (h *Host) Dial() *grpc.ClientConn {
	h.t.Helper()
	conn, err := grpc.NewClient("unix:"+h.path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		h.t.Fatalf("plugintest: %v", err)
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Calls returns the requests of that RPC, e.g. "StartTurn", oldest first. A
// request counts when it arrives, whatever becomes of it.
func (h *Host) Calls(rpc string) []proto.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]proto.Message(nil), h.calls[rpc]...)
}

// Handle returns the handle that Launch or Recover set; nil before.
func (h *Host) Handle() *hostpb.Handle {
	h.mu.Lock()
	defer h.mu.Unlock()
	return proto.CloneOf(h.handle)
}

// Describe implements hostpb.HostServer.
func (h *Host) Describe(context.Context, *basepb.DescribeRequest) (*basepb.DescribeResponse, error) {
	return h.opts.Describe, nil
}

// Launch implements hostpb.HostServer.
func (h *Host) Launch(_ context.Context, req *hostpb.LaunchRequest) (*hostpb.LaunchResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.handle.GetGeneration() != req.GetGeneration() {
		engine := h.opts.Engine
		if engine == nil {
			engine = &basepb.Process{Pid: 1 << 30, StartToken: "1", BootId: "none", Command: "double"}
		}
		h.handle = &hostpb.Handle{
			Version: 1, AgentRef: req.GetAgentRef(), Generation: req.GetGeneration(), Engine: engine,
			SocketPath: req.GetSocketPath(), SpoolDir: req.GetSpoolDir(), Cwd: req.GetCwd(),
		}
		h.opened = nil
	}
	return &hostpb.LaunchResponse{Handle: proto.CloneOf(h.handle)}, nil
}

// Open implements hostpb.HostServer. The echo repeats what was asked for.
func (h *Host) Open(_ context.Context, req *hostpb.OpenRequest) (*hostpb.OpenResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.handle == nil {
		return &hostpb.OpenResponse{Failure: failure("not_launched", "no engine was launched")}, nil
	}
	if h.opened == nil {
		spec := req.GetThread()
		id := spec.GetResumeThreadId()
		if id == "" {
			id = fmt.Sprintf("thread_%d", h.handle.GetGeneration())
			h.state = &hostpb.ThreadState{}
		}
		h.handle.ThreadId, h.state.ThreadId, h.state.Status = id, id, "idle"
		h.opened = &hostpb.OpenResponse{
			Handle: proto.CloneOf(h.handle), State: proto.CloneOf(h.state),
			Echo: &hostpb.Echo{
				PermissionProfile: spec.GetPermissions(), SandboxType: "readOnly", ApprovalPolicy: spec.GetApprovalPolicy(),
				Model: spec.GetModel(), ModelProvider: spec.GetModelProvider(), Cwd: spec.GetCwd(), EngineVersion: "0.149.0",
				RawJson: []byte("{}"),
			},
		}
	}
	return proto.CloneOf(h.opened), nil
}

// Recover implements hostpb.HostServer: the engine in memory is adopted.
func (h *Host) Recover(_ context.Context, req *hostpb.RecoverRequest) (*hostpb.RecoverResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.handle == nil {
		h.handle = proto.CloneOf(req.GetHandle())
		h.state.ThreadId, h.state.Status = h.handle.GetThreadId(), "idle"
	}
	h.addLocked(&hostpb.Event{Body: &hostpb.Event_Attached{Attached: &hostpb.Attached{State: proto.CloneOf(h.state)}}})
	return &hostpb.RecoverResponse{
		Outcome: hostpb.RecoverResponse_OUTCOME_ADOPTED,
		Handle:  proto.CloneOf(h.handle), State: proto.CloneOf(h.state),
	}, nil
}

// Read implements hostpb.HostServer.
func (h *Host) Read(context.Context, *hostpb.ReadRequest) (*hostpb.ReadResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &hostpb.ReadResponse{State: proto.CloneOf(h.state)}, nil
}

// Inspect implements hostpb.HostServer.
func (h *Host) Inspect(context.Context, *hostpb.InspectRequest) (*hostpb.InspectResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := &hostpb.InspectResponse{Handle: proto.CloneOf(h.handle), State: proto.CloneOf(h.state), Connected: h.handle != nil}
	out.Last = &hostpb.Position{Generation: h.handle.GetGeneration()}
	if n := len(h.rows); n > 0 {
		out.Last = proto.CloneOf(h.rows[n-1].GetPosition())
	}
	return out, nil
}

// Stop implements hostpb.HostServer: nothing survives.
func (h *Host) Stop(context.Context, *hostpb.StopRequest) (*hostpb.StopResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	running := h.handle != nil && h.state.GetStatus() != "notLoaded"
	h.state.Status, h.state.ActiveTurnId = "notLoaded", ""
	return &hostpb.StopResponse{EngineWasRunning: running}, nil
}

// fenced admits a call of this epoch as a real host does.
func (h *Host) fenced(call *basepb.Fence) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case call.GetSessionId() == "":
		return status.Error(codes.InvalidArgument, "fence: session id is missing")
	case h.session != "" && h.session != call.GetSessionId(), call.GetEpoch() < h.epoch:
		return status.Error(codes.FailedPrecondition, "fence: another supervisor has the session")
	}
	h.session, h.epoch = call.GetSessionId(), call.GetEpoch()
	return nil
}

func failure(kind, message string) *basepb.Failure {
	return &basepb.Failure{Kind: kind, Message: message}
}
