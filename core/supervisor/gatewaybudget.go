package supervisor

import (
	"context"
	"maps"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/admission"
	"github.com/codex-mmo/codex-mmo/core/store"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// Each agent has a budget of its own at the gateway, named after its run: that
// of a job is its part of the session's budget, that of the root what no job has
// a claim on.

func (s *Supervisor) budgetIDs(ref string) []string {
	if !s.budgeted() {
		return nil
	}
	return []string{ref}
}

// caps are the limits of all who may spend: agent run ref -> limits in all.
func caps(p *admission.Purse) map[string]store.Allowance {
	list := map[string]store.Allowance{}
	for _, a := range p.Accounts {
		switch {
		case a.Root:
			list[a.AgentRef] = p.RootCap()
		case a.Open:
			list[a.AgentRef] = a.Part
		}
	}
	return list
}

// setBudgets tells the gateway the caps that differ from those in known, which
// it brings up to date; nil: all of them.
func (g *gatewayLink) setBudgets(ctx context.Context, client gatewaypb.GatewayClient, known map[string]store.Allowance) error {
	purse, err := g.sup.purseNow(ctx)
	if err != nil || purse == nil {
		return err
	}
	root := g.sup.cachedSession().RootAgentRef
	now := caps(purse)
	for ref, limit := range now {
		if old, told := known[ref]; told && old == limit {
			continue
		}
		c, cancel := short(ctx)
		_, err := client.UpdateBudget(c, budgetRequest(g, purse, ref, limit, ref == root))
		cancel()
		if err != nil {
			return core.Errorf(core.KindRuntime, "telling the gateway the budget of agent %s: %w", ref, err)
		}
	}
	if known != nil {
		clear(known)
		maps.Copy(known, now)
	}
	return nil
}

func budgetRequest(g *gatewayLink, p *admission.Purse, ref string, limit store.Allowance, root bool) *gatewaypb.UpdateBudgetRequest {
	r := &gatewaypb.UpdateBudgetRequest{Tenant: g.tenant(), BudgetId: ref}
	if p.Budget.Limit.Tokens > 0 && (root || limit.Tokens > 0) {
		tokens := uint64(max(0, limit.Tokens))
		r.Tokens = &tokens
	}
	if p.Budget.Limit.NanoUSD > 0 && (root && !g.sup.rootUnpriced() || limit.NanoUSD > 0) {
		r.Usd = admission.DecimalUSD(max(0, limit.NanoUSD))
	}
	return r
}

// rootUnpriced reports whether nobody knows what the root costs: its budget of
// money would close with its first answer.
func (s *Supervisor) rootUnpriced() bool {
	return s.snap.Unpriced(s.snap.Agents[s.snap.RootAgent].Model)
}

// watchBudgets keeps the gateway's limits in step with what is spent and held,
// until ctx ends.
func (g *gatewayLink) watchBudgets(ctx context.Context) {
	var of gatewaypb.GatewayClient
	known := map[string]store.Allowance{}
	for ctx.Err() == nil && !g.isReleased() {
		changed := g.sup.changes()
		_, client := g.current()
		if client != of {
			of, known = client, map[string]store.Allowance{}
		}
		if err := g.setBudgets(ctx, client, known); err != nil && ctx.Err() == nil {
			g.sup.log.Warn("the gateway's budgets are not up to date", "err", err) // a new one is armed with them
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}
