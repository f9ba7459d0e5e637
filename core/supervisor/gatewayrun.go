package supervisor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/codex-mmo/codex-mmo/core/store"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// run keeps the gateway alive and takes over its telemetry until ctx ends or the
// session is released.
func (g *gatewayLink) run(ctx context.Context) {
	g.moveEngines(ctx, g.sup.enginesOfOldURL())
	var pause time.Duration
	for {
		since := time.Now()
		g.watch(ctx)
		if ctx.Err() != nil || g.isReleased() {
			return
		}
		if time.Since(since) > gatewayPauseMax {
			pause = 0 // this one lasted: its successor is due at once
		}
		if !wait(ctx, pause) {
			return
		}
		pause = longer(pause)
		g.replace(ctx)
	}
}

// Bounds of the pause between attempts to bring a gateway back.
const (
	gatewayPauseMin = 50 * time.Millisecond
	gatewayPauseMax = 5 * time.Second
)

// longer returns the pause after one that did not help; the first may be none.
func longer(pause time.Duration) time.Duration {
	return min(max(2*pause, gatewayPauseMin), gatewayPauseMax)
}

// wait reports whether ctx is still alive after a pause.
func wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// watch takes over the gateway's telemetry until the gateway or ctx ends.
func (g *gatewayLink) watch(ctx context.Context) {
	plugin, client := g.current()
	stream, cancel := context.WithCancel(ctx)
	var reader sync.WaitGroup
	reader.Go(func() { g.telemetry(stream, client) })
	select {
	case <-plugin.Done():
	case <-ctx.Done():
	}
	cancel()
	reader.Wait()
}

// replace brings up and arms the next gateway, however often that must be tried.
func (g *gatewayLink) replace(ctx context.Context) {
	g.sup.hub.emit(followEvent("notice", "", "", "gateway lost; a new one takes over its port and bearers"))
	pause := gatewayPauseMin
	for {
		err := g.ensure(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil || g.isReleased() {
			return
		}
		g.sup.log.Error("the gateway can't be brought back yet", "err", err, "pause", pause)
		if !wait(ctx, pause) {
			return
		}
		pause = longer(pause)
	}
	if g.baseURL() == g.homesURL() {
		return
	}
	if err := g.sup.prepareHomes(ctx); err != nil {
		g.sup.fatal(err)
		return
	}
	g.mu.Lock()
	g.homes = g.base
	g.mu.Unlock()
	g.moveEngines(ctx, g.sup.living())
}

// enginesOfOldURL lists the agents whose engines were told another address of
// the gateway: whoever replaced it did not come to move them.
func (s *Supervisor) enginesOfOldURL() []*agent {
	url := s.gw.Load().homesURL()
	return slices.DeleteFunc(s.living(), func(a *agent) bool {
		rec := a.snapshot()
		return rec.GatewayURL == "" || rec.GatewayURL == url // empty: no engine was launched yet
	})
}

// living lists the agents that have an actor.
func (s *Supervisor) living() []*agent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.agents))
}

// moveEngines replaces the engines of agents that were told another address of
// the gateway: they read it from their home when they start. It does not wait
// for them.
func (g *gatewayLink) moveEngines(ctx context.Context, list []*agent) {
	for _, a := range list {
		g.sup.wg.Go(func() {
			err := a.do(ctx, func(context.Context) {
				if a.host != nil && a.rec.Engine.PID != 0 && !a.rec.Retired && a.rec.GatewayURL != g.homesURL() {
					a.step(a.relaunch)
				}
			})
			if err != nil {
				g.sup.log.Debug("agent needs no new engine", "agent", a.ref, "err", err)
			}
		})
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
	g.port.drop() // whoever goes on with the gateway holds a duplicate of its own
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
	if ctx.Err() != nil {
		return // we leave; without tenants it ends itself
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

// telemetryPause is the time before a telemetry stream is opened again that ended
// under a living gateway.
const telemetryPause = time.Second

// telemetry takes over finished requests as they come, until ctx ends or the
// session is released.
func (g *gatewayLink) telemetry(ctx context.Context, client gatewaypb.GatewayClient) {
	for {
		err := g.readTelemetry(ctx, client, true)
		if errors.Is(err, store.ErrTakenOver) {
			g.sup.fatal(err)
			return
		}
		if ctx.Err() != nil || g.isReleased() {
			return
		}
		g.sup.log.Warn("the telemetry stream ended and is opened again", "err", err)
		// A released session must not open it: that would make it known again.
		if !wait(ctx, telemetryPause) || g.isReleased() {
			return
		}
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
	g.sup.charge(&u, e)
	return g.sup.commit(ctx, func(tx *store.Tx, c *change) error {
		c.wake = g.sup.budgeted() // the budgets that are left have changed
		return tx.AddUsage(&u, e.GetSeq())
	})
}
