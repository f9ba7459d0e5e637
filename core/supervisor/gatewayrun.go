package supervisor

import (
	"context"
	"time"

	"github.com/codex-mmo/codex-mmo/core/store"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// run keeps the gateway alive and takes over its telemetry until ctx ends.
func (g *gatewayLink) run(ctx context.Context) {
	backoff := gatewayBackoffMin
	for ctx.Err() == nil {
		g.mu.Lock()
		plugin, client := g.plugin, g.client
		g.mu.Unlock()
		stream, cancel := context.WithCancel(ctx)
		g.sup.wg.Go(func() { g.telemetry(stream, client) })
		select {
		case <-plugin.Done():
		case <-ctx.Done():
		}
		cancel()
		if ctx.Err() != nil || g.isReleased() {
			return
		}
		backoff = g.replace(ctx, backoff)
	}
}

// Bounds of the pause between attempts to bring a gateway back.
const (
	gatewayBackoffMin = 50 * time.Millisecond
	gatewayBackoffMax = 5 * time.Second
)

// replace starts the next gateway and returns the pause before a further
// attempt, should this one not last.
func (g *gatewayLink) replace(ctx context.Context, backoff time.Duration) time.Duration {
	g.sup.hub.emit(followEvent("notice", "", "", "gateway lost; a new one takes over its port and bearers"))
	before := g.baseURL()
	if err := g.ensure(ctx); err != nil {
		if ctx.Err() != nil {
			return backoff
		}
		g.sup.log.Error("the gateway can't be brought back yet", "err", err, "pause", backoff)
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
		}
		return min(2*backoff, gatewayBackoffMax)
	}
	if g.baseURL() != before {
		g.sup.moveEngines(ctx)
	}
	return gatewayBackoffMin
}

// moveEngines replaces the engines of all agents after the gateway's address
// changed: they read it from their home when they start.
func (s *Supervisor) moveEngines(ctx context.Context) {
	if err := s.prepareHomes(ctx); err != nil {
		s.fatal(err)
		return
	}
	s.mu.Lock()
	list := make([]*agent, 0, len(s.agents))
	for _, a := range s.agents {
		list = append(list, a)
	}
	s.mu.Unlock()
	for _, a := range list {
		err := a.do(ctx, func(c context.Context) { a.step(a.relaunch) })
		if err != nil {
			s.log.Debug("agent needs no new engine", "agent", a.ref, "err", err)
		}
	}
}

func (g *gatewayLink) isReleased() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.released
}

// release drops this session at the gateway and ends the process when no other
// session uses it.
func (g *gatewayLink) release(ctx context.Context) {
	g.mu.Lock()
	client, plugin := g.client, g.plugin
	g.released = true
	g.mu.Unlock()
	g.drainTelemetry(ctx, client)
	unlock, err := g.lock(ctx)
	if err != nil {
		return
	}
	defer unlock()
	c, cancel := short(ctx)
	defer cancel()
	answer, err := client.Release(c, &gatewaypb.ReleaseRequest{Tenant: g.tenant()})
	if err != nil || answer.GetRemaining() > 0 {
		return // gone already, or in use
	}
	if _, err := plugin.Retire(ctx, stopGrace); err != nil {
		g.sup.log.Warn("ending the gateway", "err", err)
		return
	}
	row, err := g.row(ctx)
	if err != nil || row == nil {
		return
	}
	row.Status, row.Process = "stopped", store.Process{}
	err = g.sup.commit(ctx, func(tx *store.Tx, _ *change) error { return tx.PutGateway(row) })
	if err != nil {
		g.sup.log.Warn("recording the end of the gateway", "err", err)
	}
}

// telemetry takes over finished requests as they come.
func (g *gatewayLink) telemetry(ctx context.Context, client gatewaypb.GatewayClient) {
	if err := g.readTelemetry(ctx, client, true); err != nil && ctx.Err() == nil {
		g.sup.log.Info("the telemetry stream ended", "err", err)
	}
}

// drainTelemetry takes over what is left before the tenant is dropped.
func (g *gatewayLink) drainTelemetry(ctx context.Context, client gatewaypb.GatewayClient) {
	c, cancel := short(ctx)
	defer cancel()
	if err := g.readTelemetry(c, client, false); err != nil {
		g.sup.log.Info("the last telemetry could not be read", "err", err)
	}
}

func (g *gatewayLink) readTelemetry(ctx context.Context, client gatewaypb.GatewayClient, follow bool) error {
	var after uint64
	err := g.sup.store.View(ctx, func(tx *store.Tx) (err error) {
		after, err = tx.TelemetryCursor(g.sup.session)
		return err
	})
	if err != nil {
		return err
	}
	stream, err := client.Telemetry(ctx, &gatewaypb.TelemetryRequest{Tenant: g.tenant(), AfterSeq: after, Follow: follow})
	if err != nil {
		return err
	}
	for {
		e, err := stream.Recv()
		if err != nil {
			return ignoreEnd(err)
		}
		if err := g.addUsage(ctx, e); err != nil {
			return err
		}
	}
}

// addUsage adds one attempt to the sums and moves the cursor, in one
// transaction; an attempt at or below the cursor was counted before.
func (g *gatewayLink) addUsage(ctx context.Context, e *gatewaypb.TelemetryEvent) error {
	u := store.Usage{
		SessionID: g.sup.session, AgentRef: e.GetAgentRef(), Route: e.GetRoute(), Model: e.GetModel(), Requests: 1,
		InputTokens: e.InputTokens, CachedTokens: e.CachedInputTokens, OutputTokens: e.OutputTokens, Scripted: e.GetScripted(),
	}
	return g.sup.commit(ctx, func(tx *store.Tx, _ *change) error { return tx.AddUsage(&u, e.GetSeq()) })
}
