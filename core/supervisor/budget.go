package supervisor

import (
	"cmp"
	"context"
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/admission"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// budgetOf is what a new session may spend: what the command line says, else
// the profile. A limit of money needs prices.
func budgetOf(in *CreateInput, snap *profile.Snapshot) (b store.Budget, err error) {
	p := snap.Budget
	if in.BudgetTokens != 0 {
		p.Tokens = in.BudgetTokens
	}
	if in.BudgetUSD != 0 {
		p.USD = in.BudgetUSD
	}
	b.Limit.Tokens, b.Reserve.Tokens, b.AllowUnknownPrice = p.Tokens, p.ReserveTokens, p.AllowUnknownPrice
	if b.Limit.NanoUSD, err = admission.NanoUSD(p.USD); err != nil {
		return b, err
	}
	if b.Reserve.NanoUSD, err = admission.NanoUSD(p.ReserveUSD); err != nil {
		return b, err
	}
	switch {
	case b.Limit.Tokens < 0:
		return b, core.Errorf(core.KindValue, "a budget of %d tokens is out of range", b.Limit.Tokens)
	case b.Limit.Tokens > 0 && b.Reserve.Tokens >= b.Limit.Tokens, b.Limit.NanoUSD > 0 && b.Reserve.NanoUSD >= b.Limit.NanoUSD:
		return b, core.Errorf(core.KindValue, "the budget holds nothing beside its reserve for the final report (%s, %s)",
			admission.FormatTokens(b.Reserve.Tokens), admission.FormatUSD(b.Reserve.NanoUSD)).WithRemedy("give it more, or lower the reserve in the profile")
	}
	if b.Limit.NanoUSD == 0 || b.AllowUnknownPrice {
		return b, nil
	}
	for _, id := range snap.Order {
		if a := snap.Agents[id]; snap.Unpriced(a.Model) {
			return b, core.Errorf(core.KindValue, "a budget of money can't be held: nobody knows the price of model %s of agent %s", a.Model, id).
				WithRemedy("give the model a price in the catalogue, bind the agent to another model, or set allow_unknown_price = true in the profile's [budget]")
		}
	}
	return b, nil
}

// budgeted reports whether the session's spending is limited. That never
// changes.
func (s *Supervisor) budgeted() bool { return s.cachedSession().Budget.Limit != store.Allowance{} }

// mayReturn lists the statuses of jobs that may be given capacity again, beside
// those that have it.
var mayReturn = []core.JobStatus{core.JobPaused, core.JobSuspended}

// purse gathers who has spent what, within tx: the root, each job that is not
// over, and all that are in one. It is nil without a budget.
func (s *Supervisor) purse(tx *store.Tx, rec *store.Session) (*admission.Purse, error) {
	if rec.Budget.Limit == (store.Allowance{}) {
		return nil, nil
	}
	total, _, err := tx.Spent(s.session, "")
	if err != nil {
		return nil, err
	}
	jobs, err := tx.Jobs(store.JobFilter{SessionID: s.session, Statuses: slices.Concat(holding, mayReturn), Strict: true})
	if err != nil {
		return nil, err
	}
	p := &admission.Purse{Budget: rec.Budget, Slots: s.snap.Coordination.MaxActiveAgents}
	add := func(a admission.Account) error {
		if a.AgentRef != "" {
			if a.Spent, _, err = tx.Spent(s.session, a.AgentRef); err != nil {
				return err
			}
			total.Tokens -= a.Spent.Tokens
			total.NanoUSD -= a.Spent.NanoUSD
		}
		p.Accounts = append(p.Accounts, a)
		return nil
	}
	if err := add(admission.Account{AgentRef: rec.RootAgentRef, Root: true, Open: true}); err != nil {
		return nil, err
	}
	for _, j := range jobs {
		run, err := tx.AgentRun(j.AgentRef)
		if err != nil {
			return nil, err
		}
		open := holdsCapacity(j.Status) || lives(run)
		if err := add(admission.Account{AgentRef: j.AgentRef, Open: open, Part: j.Reserved}); err != nil {
			return nil, err
		}
	}
	return p, add(admission.Account{Spent: total}) // of those that have ended
}

// purseNow is the purse as it was last committed; nil without a budget.
func (s *Supervisor) purseNow(ctx context.Context) (p *admission.Purse, err error) {
	err = s.view(ctx, func(tx *store.Tx) (err error) {
		p, err = s.purse(tx, s.cachedSession())
		return err
	})
	return p, err
}

// charge fills in what an attempt at the gateway costs.
func (s *Supervisor) charge(u *store.Usage, e *gatewaypb.TelemetryEvent) {
	u.ChargedTokens = e.GetChargedTokens()
	if usd, ok := new(big.Rat).SetString(e.GetCostUsd()); ok {
		u.NanoUSD = nanoOf(usd)
		return
	}
	s.priced(u, e.GetInputTokens(), e.GetCachedInputTokens(), e.GetOutputTokens())
}

// priced adds the cost of tokens by the model's price. cached is part of input.
func (s *Supervisor) priced(u *store.Usage, input, cached, output uint64) {
	switch p := s.snap.Price(u.Model); {
	case u.Scripted || u.ChargedTokens == 0:
	case s.snap.Unpriced(u.Model):
		u.Unpriced = 1
	default:
		cachedPrice := p.CachedInput
		if cachedPrice == nil {
			cachedPrice = p.Input
		}
		cost := new(big.Rat)
		for _, part := range []struct {
			tokens uint64
			price  *float64 // USD per million
		}{{input - min(cached, input), p.Input}, {min(cached, input), cachedPrice}, {output, p.Output}} {
			rate, ok := new(big.Rat).SetString(priceText(*part.price))
			if !ok {
				u.Unpriced = 1
				return
			}
			cost.Add(cost, rate.Mul(rate, new(big.Rat).SetFrac64(int64(part.tokens), 1_000_000)))
		}
		u.NanoUSD = nanoOf(cost)
	}
}

// priceText writes a price as it stands in the catalogue.
func priceText(usd float64) string { return strconv.FormatFloat(usd, 'f', -1, 64) }

// nanoOf turns dollars into billionths, rounded up: a budget is never charged
// too little.
func nanoOf(usd *big.Rat) int64 {
	scaled := new(big.Rat).Mul(usd, big.NewRat(1_000_000_000, 1))
	n, rest := new(big.Int).QuoRem(scaled.Num(), scaled.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	switch {
	case n.Sign() < 0:
		return 0
	case !n.IsInt64():
		return math.MaxInt64
	}
	return n.Int64()
}

// chargeDirect counts what an engine reports of the agent's thread when it reaches
// its model without the gateway, and interrupts a turn that is beyond its budget.
func (a *agent) chargeDirect(ctx context.Context, total store.TokenUsage) error {
	if !a.direct() {
		return nil
	}
	a.rec.DirectUsage = total
	return a.charge(ctx, a.rec.Model)
}

// chargeNative is chargeDirect for the thread of a native agent, which spends what
// its engine's agent may spend.
func (a *agent) chargeNative(ctx context.Context, thread string, total store.TokenUsage) error {
	if !a.direct() {
		return nil
	}
	a.changeNative(thread, func(n *store.NativeRun) { n.DirectUsage = total })
	return a.charge(ctx, a.modelOf(nativeOf(&a.rec, thread)))
}

// direct reports whether the engine reaches its models without the gateway.
func (a *agent) direct() bool {
	route, err := a.sup.routeOf(&a.rec)
	return err == nil && route.Direct() // an agent without a route sends nothing
}

// modelOf is the catalogue key of a native agent's model.
func (a *agent) modelOf(n *store.NativeRun) string {
	return cmp.Or(a.sup.snap.Agents[n.Agent].Model, a.rec.Model)
}

// charge counts what all threads of the engine have used of a model.
func (a *agent) charge(ctx context.Context, model string) error {
	var total store.TokenUsage
	add := func(u store.TokenUsage) {
		total.InputTokens += u.InputTokens
		total.CachedInputTokens += u.CachedInputTokens
		total.OutputTokens += u.OutputTokens
	}
	if model == a.rec.Model {
		add(a.rec.DirectUsage)
	}
	for i := range a.rec.Natives {
		if n := &a.rec.Natives[i]; a.modelOf(n) == model {
			add(n.DirectUsage)
		}
	}
	u := &store.Usage{
		SessionID: a.sup.session, AgentRef: a.ref, Route: a.rec.Route, Model: model, Requests: 1,
		InputTokens: &total.InputTokens, CachedTokens: &total.CachedInputTokens, OutputTokens: &total.OutputTokens,
		ChargedTokens: total.InputTokens + total.OutputTokens,
	}
	a.sup.priced(u, total.InputTokens, total.CachedInputTokens, total.OutputTokens)
	if err := a.save(ctx, func(tx *store.Tx, _ *change) error { return tx.PutUsage(u) }); err != nil {
		return err
	}
	purse, err := a.sup.purseNow(ctx)
	if err != nil || purse == nil || !purse.Exhausted(a.ref) {
		return err
	}
	a.endSpending(ctx)
	if a.rec.ActiveTurnID == "" {
		return nil
	}
	a.follow("notice", "its budget is used up; the turn is interrupted")
	if err := a.interrupt(ctx, a.rec.ActiveTurnID); err != nil {
		a.log.Warn("a turn beyond its budget could not be interrupted", "err", err)
	}
	return nil
}

// endSpending stops the native agents at work: an interrupt of the turn that
// started them leaves them running.
func (a *agent) endSpending(ctx context.Context) {
	stopped := false
	for _, n := range a.rec.Natives {
		if now := nativeOf(&a.rec, n.ThreadID); now.Status == store.NativeStopped || now.Status == store.NativeNotLoaded {
			continue
		}
		if err := a.deliverNative(ctx, n.ThreadID, control.ActionStop); err != nil {
			a.log.Warn("a native agent beyond its budget could not be stopped", "thread", n.ThreadID, "err", err)
			continue
		}
		stopped = true
	}
	if !stopped {
		return
	}
	a.follow("notice", "its budget is used up; its native agents are stopped")
	if err := a.save(ctx, nil); err != nil {
		a.log.Warn("recording that native agents were stopped", "err", err)
	}
}

// failureLimit is the kind of a failure by a budget that is used up.
const failureLimit = "limit_reached"

// limitFailure tells a turn that a budget ended from one that failed by itself.
func (a *agent) limitFailure(ctx context.Context, f *store.Failure) *store.Failure {
	if !a.sup.budgeted() {
		return f
	}
	if g := a.sup.gw.Load(); g != nil {
		_, client := g.current()
		g.drainTelemetry(ctx, client) // what was counted last may not be here yet
	}
	purse, err := a.sup.purseNow(ctx)
	if err != nil || purse == nil || !purse.Exhausted(a.ref) {
		return f
	}
	return &store.Failure{Kind: failureLimit, Message: "the agent's part of the session's budget is used up: " + f.Message}
}
