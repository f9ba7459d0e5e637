package supervisor

import (
	"context"
	"slices"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/pluginhost"
	"github.com/codex-mmo/codex-mmo/core/store"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

func (g *gatewayLink) tenant() *basepb.Fence {
	return &basepb.Fence{SessionId: g.sup.session, Epoch: g.sup.epoch}
}

// arm tells the gateway our routes, keys and the hashes of the bearers that
// are out. It needs nothing that the store does not have.
func (g *gatewayLink) arm(ctx context.Context) error {
	routes, secrets, err := g.routes()
	if err != nil {
		return err
	}
	c, cancel := short(ctx)
	defer cancel()
	_, client := g.current()
	applied, err := client.ApplyRoutes(c, &gatewaypb.ApplyRoutesRequest{Tenant: g.tenant(), Revision: 1, Routes: routes, Secrets: secrets})
	if err != nil {
		return core.Errorf(core.KindRuntime, "telling the gateway its routes: %w", err)
	}
	if err := g.sup.noteRoutes(ctx, refusedRoutes(applied)); err != nil {
		return err
	}
	if err := g.setBudgets(ctx, client, nil); err != nil {
		return err
	}
	for _, t := range g.sup.bearers() {
		if _, err := client.IssueToken(c, g.tokenRequest(t)); err != nil {
			return core.Errorf(core.KindRuntime, "telling the gateway its bearers: %w", err)
		}
	}
	return nil
}

// refusedRoutes lists the routes that the gateway can't serve: route -> its
// reason.
func refusedRoutes(applied *gatewaypb.ApplyRoutesResponse) map[string]string {
	refused := map[string]string{}
	for _, r := range applied.GetRoutes() {
		if r.GetState() == "unavailable" {
			refused[r.GetRoute()] = oneLine(r.GetMessage())
		}
	}
	return refused
}

// bearer is what the gateway must know of one token.
type bearer struct {
	hash, ref, agent string
	holder           store.Process
}

// bearers lists the gateway tokens that are out.
func (s *Supervisor) bearers() []bearer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []bearer
	for hash, c := range s.caps {
		if c.Kind != capGateway {
			continue
		}
		b := bearer{hash: hash, ref: c.AgentRef}
		if a := s.agents[c.AgentRef]; a != nil {
			rec := a.snapshot()
			b.agent, b.holder = rec.Agent, rec.Host.Process
		} else if rec, ok := s.runs[c.AgentRef]; ok {
			b.agent, b.holder = rec.Agent, rec.Host.Process
		}
		list = append(list, b)
	}
	return list
}

// tokenRequest admits a bearer to the model of its agent, and to those of the
// native agents that live in the same engine.
func (g *gatewayLink) tokenRequest(b bearer) *gatewaypb.IssueTokenRequest {
	r := &gatewaypb.IssueTokenRequest{Tenant: g.tenant(), AgentRef: b.ref, TokenSha256: b.hash, Holder: toProto(b.holder), BudgetIds: g.sup.budgetIDs(b.ref)}
	for _, id := range append([]string{b.agent}, g.sup.snap.NativeAgents(b.agent)...) {
		a := g.sup.snap.Agents[id]
		if !slices.Contains(r.Routes, a.Route) {
			r.Routes = append(r.Routes, a.Route)
		}
		if !slices.Contains(r.Models, a.Model) {
			r.Models = append(r.Models, a.Model)
		}
	}
	return r
}

// rehold makes the present host of an agent the holder of the agent's bearers,
// after a new host adopted the engine that has them: the gateway serves as long
// as a holder lives. It is called by the agent's own goroutine.
func (g *gatewayLink) rehold(ctx context.Context, a *agent) error {
	plugin, client := g.current()
	c, cancel := short(ctx)
	defer cancel()
	for _, b := range g.sup.bearers() {
		if b.ref != a.ref {
			continue
		}
		b.holder = a.rec.Host.Process
		if _, err := client.IssueToken(c, g.tokenRequest(b)); err != nil && !g.superseded(plugin) {
			return core.Errorf(core.KindRuntime, "telling the gateway the new host of agent %s: %w", a.rec.Agent, err)
		}
	}
	return nil
}

// issue mints the bearer of an agent's next engine.
func (g *gatewayLink) issue(ctx context.Context, a *agent, generation uint64) (string, error) {
	token, hash, err := g.sup.mintToken(ctx, a.ref, capGateway, generation)
	if err != nil {
		return "", err
	}
	plugin, client := g.current()
	c, cancel := short(ctx)
	defer cancel()
	if err := g.setBudgets(c, client, nil); err != nil && !g.superseded(plugin) {
		return "", err
	}
	_, err = client.IssueToken(c, g.tokenRequest(bearer{
		hash: hash, ref: a.ref, agent: a.rec.Agent, holder: a.rec.Host.Process,
	}))
	if err != nil && !g.superseded(plugin) {
		return "", core.Errorf(core.KindRuntime, "issuing a bearer at the gateway: %w", err)
	}
	return token, nil // a lost gateway is armed again from the store
}

// endNoticed is how long the end of a gateway may take to be seen after a call to
// it has failed.
const endNoticed = time.Second

// superseded reports whether a gateway has ended or was reached anew. Its
// successor is armed from the store, with every token that was recorded before.
func (g *gatewayLink) superseded(plugin *pluginhost.Plugin) bool {
	timer := time.NewTimer(endNoticed)
	defer timer.Stop()
	select {
	case <-plugin.Done():
		return true
	case <-timer.C:
		now, _ := g.current()
		return now != plugin
	}
}

// revoke takes back an agent's bearers. A gateway that is gone has forgotten
// them already.
func (g *gatewayLink) revoke(ctx context.Context, ref string) {
	plugin, client := g.current()
	c, cancel := short(ctx)
	defer cancel()
	if _, err := client.RevokeToken(c, &gatewaypb.RevokeTokenRequest{Tenant: g.tenant(), AgentRef: ref}); err != nil && !g.superseded(plugin) {
		g.sup.log.Warn("revoking a bearer", "err", err)
	}
}
