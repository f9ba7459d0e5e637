package hostplugin_test

import (
	"context"
	"encoding/json"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/codex-mmo/codex-mmo/hostplugin"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// patience bounds every wait of these tests; nothing takes that long.
const patience = 20 * time.Second

// withTime returns a context that ends with the test or after patience.
func withTime(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// serve makes a host and a client of it over a unix socket. The host is closed
// when the test ends.
func serve(t *testing.T, dir string) (*hostplugin.Host, hostpb.HostClient) {
	t.Helper()
	host := hostplugin.New()
	socket := filepath.Join(dir, "host.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	hostpb.RegisterHostServer(server, host)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
		server.Stop()
		<-served
	})
	return host, dial(t, socket)
}

func dial(t *testing.T, socket string) hostpb.HostClient {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return hostpb.NewHostClient(conn)
}

// frame is a spooled or live JSON-RPC frame.
type frame struct {
	Method string          `json:"method"`
	ID     json.RawMessage `json:"id"`
	Params json.RawMessage `json:"params"`
}

// events follows the event stream from a position.
type events struct {
	t      *testing.T
	stream grpc.ServerStreamingClient[hostpb.Event]
	seen   []*hostpb.Event
}

func follow(t *testing.T, client hostpb.HostClient, epoch uint64, after *hostpb.Position) *events {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	stream, err := client.Events(ctx, &hostpb.EventsRequest{Fence: fenceAt(epoch), After: after})
	if err != nil {
		t.Fatal(err)
	}
	return &events{t: t, stream: stream}
}

// until reads events up to the first that match accepts, and returns it.
func (e *events) until(what string, match func(*hostpb.Event) bool) *hostpb.Event {
	e.t.Helper()
	for {
		event, err := e.stream.Recv()
		if err != nil {
			e.t.Fatalf("waiting for %s: %v", what, err)
		}
		e.seen = append(e.seen, event)
		if match(event) {
			return event
		}
	}
}

// received reads up to the next frame of that method from the engine.
func (e *events) received(method string) *hostpb.Event {
	e.t.Helper()
	return e.until(method, func(event *hostpb.Event) bool { return parse(event.GetReceivedJson()).Method == method })
}

// sent counts the frames of that method that went to the engine.
func (e *events) sent(method string) int {
	n := 0
	for _, event := range e.seen {
		if parse(event.GetSentJson()).Method == method {
			n++
		}
	}
	return n
}

func parse(raw []byte) frame {
	var f frame
	_ = json.Unmarshal(raw, &f)
	return f
}

// must fails the test on a failure inside an answer.
func must(t *testing.T, what string, err error, failure *basepb.Failure) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if failure != nil {
		t.Fatalf("%s: %s: %s", what, failure.GetKind(), failure.GetMessage())
	}
}

// start launches and opens a fresh thread.
func start(t *testing.T, p *place, client hostpb.HostClient) *hostpb.OpenResponse {
	t.Helper()
	launched, err := client.Launch(withTime(t), p.launch(1))
	must(t, "Launch", err, launched.GetFailure())
	t.Cleanup(func() { stop(t, client) })
	opened, err := client.Open(withTime(t), &hostpb.OpenRequest{Fence: fenceAt(1), Thread: p.spec()})
	if err == nil && opened.GetFailure() != nil {
		t.Log(p.stderr())
	}
	must(t, "Open", err, opened.GetFailure())
	return opened
}

// stop ends the engine and fails when anything of it lives.
func stop(t *testing.T, client hostpb.HostClient) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := client.Stop(ctx, &hostpb.StopRequest{Fence: fenceAt(1 << 30), GraceMs: 500})
	if err != nil {
		t.Errorf("Stop: %v", err)
	}
	if len(out.GetSurvivors()) > 0 {
		t.Errorf("Stop left %v", out.GetSurvivors())
	}
}
