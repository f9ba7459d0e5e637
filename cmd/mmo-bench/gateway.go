package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/codex-mmo/codex-mmo/core/pluginhost"
	"github.com/codex-mmo/codex-mmo/core/process"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

const (
	benchSession = "gatewaybench"
	benchBearer  = "bench-bearer"
)

// measureGateway compares the bundled gateway with the direct way to a
// provider, and with the least that a gateway can do. All ways are taken in
// turns, with one request of Codex's size.
func measureGateway(ctx context.Context, env bench, n int) (figures []figure, err error) {
	provider, err := startServer(ctx, env, modeProvider, env.provider)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, provider.stop()) }()
	floor, err := startServer(ctx, env, modeFloorGateway, provider.url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, floor.stop()) }()
	ours, err := startGateway(ctx, env, provider.url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ours.stop()) }()
	ways := []*way{{name: "direct", url: provider.url}, {name: "stdlib floor", url: floor.url}, {name: "gateway", url: ours.url}}
	for _, peer := range strings.FieldsFunc(env.peers, func(r rune) bool { return r == ',' }) {
		name, url, ok := strings.Cut(peer, "=")
		if !ok {
			return nil, fmt.Errorf("peer %q is no NAME=URL", peer)
		}
		ways = append(ways, &way{name: name, url: url})
	}
	if err := travel(ctx, ways, n); err != nil {
		return nil, err
	}
	cost, err := ours.cost(ctx, floor, 20*n)
	if err != nil {
		return nil, err
	}
	return append(wayFigures(ways), cost...), nil
}

// travel takes all ways in turns.
func travel(ctx context.Context, ways []*way, n int) error {
	for _, w := range ways { // what starts with the first request is not counted
		if err := w.request(ctx, modelShort); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		w.first, w.total = nil, nil
	}
	for range 20 * n {
		for _, w := range ways {
			if err := w.request(ctx, modelShort); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	for range n {
		for _, w := range ways {
			if err := w.paced(ctx); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	return nil
}

// wayFigures compares each way with the direct one and with the floor.
func wayFigures(ways []*way) []figure {
	direct, floor := ways[0], ways[1]
	var all []figure
	for _, w := range ways[1:] {
		added := func(values, floors []float64, at float64) float64 { return quantile(values, at) - quantile(floors, at) }
		first := figure{
			what: w.name + ", first byte", floor: "direct", unit: "ms", at: 0.5, values: w.first, floors: direct.first,
			comment: fmt.Sprintf("adds %.3f ms at p50 (goal of the gateway: 3); its p99 is %.2f times its p50 (goal 3)",
				added(w.first, direct.first, 0.5), quantile(w.first, 0.99)/quantile(w.first, 0.5)),
		}
		events := figure{
			what: w.name + ", each event", floor: "direct", unit: "ms", at: 0.95, values: w.events, floors: direct.events,
			comment: fmt.Sprintf("adds %.3f ms at p95 (goal of the gateway: 0.5)", added(w.events, direct.events, 0.95)),
		}
		whole := figure{what: w.name + ", whole answer", floor: "direct", unit: "ms", at: 0.5, values: w.total, floors: direct.total}
		all = append(all, first, events, whole)
	}
	ours := ways[2]
	return append(all, figure{what: "gateway, first byte", floor: "stdlib floor", unit: "ms", at: 0.5, values: ours.first, floors: floor.first, atMost: 1.2})
}

// gatewayProcess is the bundled gateway, started as a supervisor does.
type gatewayProcess struct {
	plugin *pluginhost.Plugin
	url    string
}

// startGateway starts the gateway of the binary under measure with a route to
// the provider.
func startGateway(ctx context.Context, env bench, provider string) (g *gatewayProcess, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	file, err := listener.(*net.TCPListener).File()
	if err = errors.Join(err, listener.Close()); err != nil {
		return nil, err
	}
	defer file.Close()
	plugin, err := pluginhost.Start(ctx, &pluginhost.Spec{
		Kind: "gateway", Path: env.binary, Args: []string{"plugin", "gateway"}, Env: env.environ(),
		Dir: filepath.Join(env.dir, "r", "gateway"), LogPath: filepath.Join(env.dir, "gateway.log"), ExtraFiles: []*os.File{file},
	}, func(process.Identity) error { return nil })
	if err != nil {
		return nil, err
	}
	g = &gatewayProcess{plugin: plugin}
	client := gatewaypb.NewGatewayClient(plugin.Conn())
	started, err := client.Start(ctx, &gatewaypb.StartRequest{GatewayHash: "bench", StateDir: filepath.Join(env.dir, "state", "gateway")})
	if err == nil {
		g.url = started.GetBaseUrl()
		err = arm(ctx, client, provider)
	}
	if err != nil {
		return nil, errors.Join(err, g.stop())
	}
	return g, nil
}

// arm gives the gateway its route and the bench's bearer.
func arm(ctx context.Context, client gatewaypb.GatewayClient, provider string) error {
	tenant := &basepb.Fence{SessionId: benchSession, Epoch: 1}
	route := &gatewaypb.Route{Id: "bench", Driver: "openai_chat", BaseUrl: provider}
	for _, model := range []string{modelShort, modelPaced, modelBulk} {
		route.Models = append(route.Models, &gatewaypb.RouteModel{Key: model})
	}
	applied, err := client.ApplyRoutes(ctx, &gatewaypb.ApplyRoutesRequest{Tenant: tenant, Revision: 1, Routes: []*gatewaypb.Route{route}})
	if err != nil {
		return err
	}
	if s := applied.GetRoutes()[0]; s.GetState() != "ready" {
		return fmt.Errorf("the route is %s: %s", s.GetState(), s.GetMessage())
	}
	hash := sha256.Sum256([]byte(benchBearer))
	_, err = client.IssueToken(ctx, &gatewaypb.IssueTokenRequest{Tenant: tenant, AgentRef: "bench", TokenSha256: hex.EncodeToString(hash[:]), Routes: []string{"bench"}})
	return err
}

func (g *gatewayProcess) stop() error {
	_, err := g.plugin.Retire(context.Background(), time.Second)
	return err
}

// cpuPerRequest is the CPU time that a process takes for each of n requests on
// a way, in ms.
func cpuPerRequest(ctx context.Context, pid int, w *way, n int) (float64, error) {
	before, err := statOf(pid)
	if err != nil {
		return 0, err
	}
	for range n {
		if err := w.request(ctx, modelShort); err != nil {
			return 0, err
		}
	}
	after, err := statOf(pid)
	return milliseconds(after.cpu-before.cpu) / float64(n), err
}

// cost measures what requests cost the gateway's process: CPU time for each,
// beside the floor's, and memory when idle and when much goes through.
func (g *gatewayProcess) cost(ctx context.Context, floor *serverProcess, n int) ([]figure, error) {
	pid := g.plugin.Identity().PID
	w := &way{name: "gateway", url: g.url}
	idle, err := residentOf(pid)
	if err != nil {
		return nil, err
	}
	private, err := privateOf(pid)
	if err != nil {
		return nil, err
	}
	least, err := cpuPerRequest(ctx, floor.pid, &way{name: "floor", url: floor.url}, n)
	if err != nil {
		return nil, err
	}
	perRequest, err := cpuPerRequest(ctx, pid, w, n)
	if err != nil {
		return nil, err
	}
	for range bulkTimes {
		if err := w.request(ctx, modelBulk); err != nil {
			return nil, err
		}
	}
	peak, err := peakOf(pid)
	if err != nil {
		return nil, err
	}
	return []figure{
		{what: "gateway, CPU for a request", floor: "4 ms", unit: "ms", at: 0.5, values: []float64{perRequest}, floors: []float64{4}, atMost: 1, comment: fmt.Sprintf("the stdlib floor takes %.3f ms", least)},
		{what: "gateway, RSS", floor: "25 MB", unit: "MB", at: 0.5, values: []float64{idle}, floors: []float64{25}, atMost: 1, comment: fmt.Sprintf("%.1f MB of it are its own; the rest are pages of the binary, which all processes of codex-mmo share", private)},
		{what: "gateway, most RSS over that in 100 MiB", floor: "16 MB", unit: "MB", at: 0.5, values: []float64{max(0, peak-idle)}, floors: []float64{16}, atMost: 1},
	}, nil
}
