package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/codex-mmo/codex-mmo/core/testkit"
	"github.com/codex-mmo/codex-mmo/plugins"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
	"github.com/codex-mmo/codex-mmo/plugins/sdk"
)

// Files in a gateway's folder that a played gateway looks for.
const (
	refuseFile      = "refuse"      // it refuses to take routes
	unavailableFile = "unavailable" // it takes them and can't use them, for the reason in the file
)

// playedGateway is a gateway plugin without models. It counts what it is asked,
// and over HTTP lets a test wait for a count:
//
//	GET /v1/armed?n=2     answers once routes were applied twice
//	GET /v1/refused?n=1   once they were refused
//	GET /v1/streams?n=2   once telemetry was asked for twice; the first stream ends at once
//	GET /v1/issued?n=1    once a bearer was issued; the body lists "<hash> <holder's pid>" of all
type playedGateway struct {
	gatewaypb.UnimplementedGatewayServer

	mu      sync.Mutex
	dir     string
	counts  map[string]int
	issued  []string
	tenants map[string]bool
	changed chan struct{} // closed and replaced when a count grows
}

// playGateway is `codex-mmo plugin gateway`.
func playGateway() error {
	g := &playedGateway{counts: map[string]int{}, tenants: map[string]bool{}, changed: make(chan struct{})}
	return sdk.ServeGateway(sdk.Info{Name: "played", Version: "0.0.0"}, g)
}

func (g *playedGateway) count(what string) int {
	g.counts[what]++
	close(g.changed)
	g.changed = make(chan struct{})
	return g.counts[what]
}

func (g *playedGateway) Start(_ context.Context, req *gatewaypb.StartRequest) (*gatewaypb.StartResponse, error) {
	g.dir = req.GetStateDir()
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return nil, err
	}
	go func() { _ = http.Serve(listener, http.HandlerFunc(g.serve)) }() // ends with the process
	if _, err := handOut(filepath.Join(os.Getenv(plugins.EnvDir), plugins.ListenerSocket), listener.(*net.TCPListener)); err != nil {
		return nil, err
	}
	return &gatewaypb.StartResponse{BaseUrl: "http://" + listener.Addr().String() + "/v1"}, nil
}

func (g *playedGateway) serve(w http.ResponseWriter, req *http.Request) {
	what := filepath.Base(req.URL.Path)
	n, err := strconv.Atoi(req.URL.Query().Get("n"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for {
		g.mu.Lock()
		reached, issued, changed := g.counts[what] >= n, strings.Join(g.issued, "\n"), g.changed
		g.mu.Unlock()
		if reached {
			_, _ = io.WriteString(w, issued)
			return
		}
		select {
		case <-changed:
		case <-req.Context().Done():
			return
		}
	}
}

func (g *playedGateway) ApplyRoutes(_ context.Context, req *gatewaypb.ApplyRoutesRequest) (*gatewaypb.ApplyRoutesResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, err := os.Stat(filepath.Join(g.dir, refuseFile)); err == nil {
		g.count("refused")
		return nil, status.Error(codes.Unavailable, "not now")
	}
	g.tenants[req.GetTenant().GetSessionId()] = true
	g.count("armed")
	answer := &gatewaypb.ApplyRoutesResponse{}
	if why, err := os.ReadFile(filepath.Join(g.dir, unavailableFile)); err == nil {
		for _, r := range req.GetRoutes() {
			answer.Routes = append(answer.Routes, &gatewaypb.RouteStatus{Route: r.GetId(), State: "unavailable", Message: string(why)})
		}
	}
	return answer, nil
}

func (g *playedGateway) IssueToken(_ context.Context, req *gatewaypb.IssueTokenRequest) (*gatewaypb.IssueTokenResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.issued = append(g.issued, fmt.Sprintf("%s %d", req.GetTokenSha256(), req.GetHolder().GetPid()))
	g.count("issued")
	return &gatewaypb.IssueTokenResponse{}, nil
}

func (g *playedGateway) Telemetry(req *gatewaypb.TelemetryRequest, stream grpc.ServerStreamingServer[gatewaypb.TelemetryEvent]) error {
	if !req.GetFollow() {
		return nil
	}
	g.mu.Lock()
	n := g.count("streams")
	g.mu.Unlock()
	if n > 1 {
		<-stream.Context().Done()
	}
	return nil
}

func (g *playedGateway) Release(_ context.Context, req *gatewaypb.ReleaseRequest) (*gatewaypb.ReleaseResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.tenants, req.GetTenant().GetSessionId())
	return &gatewaypb.ReleaseResponse{Remaining: uint32(len(g.tenants))}, nil
}

// handOut sends whoever connects to path the descriptors of sockets, until the
// listener that it returns is closed.
func handOut(path string, sockets ...*net.TCPListener) (io.Closer, error) {
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	var fds []int
	for _, s := range sockets {
		raw, err := s.SyscallConn()
		if err != nil {
			return nil, err
		}
		if err := raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) }); err != nil {
			return nil, err
		}
	}
	go func() {
		for {
			conn, err := socket.AcceptUnix()
			if err != nil {
				return // closed, or the process ends
			}
			if len(fds) > 0 {
				_, _, _ = conn.WriteMsgUnix([]byte{0}, syscall.UnixRights(fds...), nil)
			}
			_ = conn.Close()
		}
	}()
	return socket, nil
}

// get asks a played gateway and waits for its answer.
func get(t *testing.T, base, query string) string {
	t.Helper()
	client := &http.Client{Timeout: testkit.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(base + query)
	if err != nil {
		t.Fatalf("asking the gateway for %s: %v", query, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("asking the gateway for %s: %s %v", query, resp.Status, err)
	}
	return string(body)
}
