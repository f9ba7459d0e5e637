package supervisor

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

func price(input, cached, output float64) *profile.Price {
	return &profile.Price{Input: &input, CachedInput: &cached, Output: &output}
}

// priced makes the rig's model one of a paid route.
func (r *rig) pay(p *profile.Price) {
	m, route := r.snap.Models["m"], r.snap.Routes["offline"]
	m.Price, route.BillingMode = p, profile.BillingAPI
	r.snap.Models["m"], r.snap.Routes["offline"] = m, route
}

// TestBudgetOf: the command line goes before the profile; what can't be held is
// refused by name.
func TestBudgetOf(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, roomy, "")
	for _, tt := range []struct {
		name string
		in   CreateInput
		b    profile.Budget
		p    *profile.Price
		want store.Budget
		text string
	}{
		{"none", CreateInput{}, profile.Budget{}, nil, store.Budget{}, ""},
		{
			"the profile's",
			CreateInput{},
			profile.Budget{Tokens: 9, ReserveTokens: 2, USD: 1.5, ReserveUSD: 0.5},
			price(1, 1, 1),
			store.Budget{Limit: store.Allowance{Tokens: 9, NanoUSD: 1_500_000_000}, Reserve: store.Allowance{Tokens: 2, NanoUSD: 500_000_000}},
			"",
		},
		{"the command's", CreateInput{BudgetTokens: 5}, profile.Budget{Tokens: 9}, nil, store.Budget{Limit: store.Allowance{Tokens: 5}}, ""},
		{"all of it in reserve", CreateInput{BudgetTokens: 2}, profile.Budget{ReserveTokens: 2}, nil, store.Budget{}, "nothing beside its reserve"},
		{"less than nothing", CreateInput{BudgetTokens: -2}, profile.Budget{}, nil, store.Budget{}, "out of range"},
		{"an unknown price", CreateInput{BudgetUSD: 1}, profile.Budget{}, nil, store.Budget{}, "nobody knows the price of model m"},
		{
			"an unknown price that is allowed",
			CreateInput{BudgetUSD: 1},
			profile.Budget{AllowUnknownPrice: true},
			nil,
			store.Budget{Limit: store.Allowance{NanoUSD: 1_000_000_000}, AllowUnknownPrice: true},
			"",
		},
	} {
		r.snap.Budget = tt.b
		r.pay(tt.p)
		got, err := budgetOf(&tt.in, r.snap)
		if tt.text != "" {
			wantRefusal(t, tt.name, err, core.KindValue, tt.text)
			continue
		}
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
	route := r.snap.Routes["offline"]
	r.pay(nil)
	route.BillingMode = profile.BillingLocal
	r.snap.Routes["offline"], r.snap.Budget = route, profile.Budget{USD: 1}
	if b, err := budgetOf(&CreateInput{}, r.snap); err != nil || b.Limit.NanoUSD != 1_000_000_000 {
		t.Errorf("a budget of money of a model on one's own machine: %+v, %v", b, err)
	}
}

// TestCharge: what a provider says of the cost goes first, then the price list
// with cached input apart; what nobody knows is told and not guessed; what is
// scripted costs nothing.
func TestCharge(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, roomy, "")
	n := func(v uint64) *uint64 { return &v }
	counted := func(cost string) *gatewaypb.TelemetryEvent {
		return &gatewaypb.TelemetryEvent{InputTokens: n(1000), CachedInputTokens: n(400), OutputTokens: n(10), ChargedTokens: 1010, CostUsd: cost}
	}
	for _, tt := range []struct {
		name  string
		p     *profile.Price
		e     *gatewaypb.TelemetryEvent
		want  int64
		blind int
	}{
		{"the provider's word", price(1, 1, 1), counted("0.0000000015"), 2, 0},
		{"the price list", price(1.25, 0.13, 10), counted(""), 600*1250 + 400*130 + 10*10_000, 0},
		{"no price of cached input", &profile.Price{Input: price(2, 0, 0).Input, Output: price(0, 0, 5).Output}, counted(""), 1000*2000 + 10*5000, 0},
		{"no price", nil, counted(""), 0, 1},
		{"no price and nothing used", nil, &gatewaypb.TelemetryEvent{}, 0, 0},
	} {
		r.pay(tt.p)
		u := &store.Usage{Route: "offline", Model: "m"}
		r.charge(u, tt.e)
		if u.NanoUSD != tt.want || u.Unpriced != tt.blind {
			t.Errorf("%s: %d billionths, %d unpriced; want %d, %d", tt.name, u.NanoUSD, u.Unpriced, tt.want, tt.blind)
		}
	}
	u := &store.Usage{Route: "offline", Model: "m", Scripted: true}
	if r.charge(u, counted("")); u.NanoUSD != 0 || u.Unpriced != 0 || u.ChargedTokens != 1010 {
		t.Errorf("a scripted answer was charged %+v", u)
	}
}

// TestPurseFromRecords: the purse is what usage and jobs on record say; who has
// ended gives back what he left, and caps follow.
func TestPurseFromRecords(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, "max_depth = 3\nmax_active_agents = 3\nmax_active_writers = 2", "")
	err := r.updateSession(t.Context(), func(_ *store.Tx, rec *store.Session) error {
		rec.Budget = store.Budget{Limit: store.Allowance{Tokens: 1000}, Reserve: store.Allowance{Tokens: 100}}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	jobs := r.mustSpawn(r.lead(), read("reader"), read("reader"))
	spend := func(ref string, tokens, cursor uint64) {
		t.Helper()
		err := r.commit(t.Context(), func(tx *store.Tx, _ *change) error {
			return tx.AddUsage(&store.Usage{SessionID: "s1", AgentRef: ref, Route: "offline", Model: "m", Requests: 1, ChargedTokens: tokens}, cursor)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	ref := func(id string) string {
		j, err := r.cachedJob(id)
		if err != nil {
			t.Fatal(err)
		}
		return j.AgentRef
	}
	root := r.cachedSession().RootAgentRef
	spend(root, 50, 1)
	spend(ref(jobs[0]), 20, 2)
	purse, err := r.purseNow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]store.Allowance{root: {Tokens: 400}, ref(jobs[0]): {Tokens: 300}, ref(jobs[1]): {Tokens: 300}}, caps(purse)); diff != "" {
		t.Errorf("caps (-want +got):\n%s", diff)
	}
	if free := purse.Free().Tokens; free != 1000-100-50-600 {
		t.Errorf("%d tokens are free, want 250", free)
	}
	r.become(jobs[0], core.JobCompleted)
	if purse, err = r.purseNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]store.Allowance{root: {Tokens: 680}, ref(jobs[1]): {Tokens: 300}}, caps(purse)); diff != "" {
		t.Errorf("after an end the caps are (-want +got):\n%s", diff)
	}
	view := r.capacity(t.Context())
	if b := view.Budget; b == nil || b.USD != nil || b.Tokens.Limit != "1000" || b.Tokens.Spent != "70" || b.Tokens.FreeForJobs != "530" || b.Tokens.LeftForRoot != "630" || b.Tokens.Overrun != "0" {
		t.Errorf("status shows %+v", b)
	}
}

// hostOfTurn is a host that can interrupt a turn and nothing else.
type hostOfTurn struct {
	hostpb.HostClient
	interrupted []string
}

func (h *hostOfTurn) Interrupt(_ context.Context, r *hostpb.InterruptRequest, _ ...grpc.CallOption) (*hostpb.CommandResponse, error) {
	h.interrupted = append(h.interrupted, r.GetTurnId())
	return &hostpb.CommandResponse{Delivery: basepb.Delivery_DELIVERY_APPLIED}, nil
}

// TestDirectRouteIsInterrupted: an agent whose engine reaches its model by
// itself is charged at each count, for its thread's whole life, and its turn is
// interrupted at the first count that reaches its part; what failed by that says
// limit_reached.
func TestDirectRouteIsInterrupted(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, "max_depth = 1\nmax_active_agents = 1\nmax_active_writers = 0", "")
	err := r.updateSession(t.Context(), func(_ *store.Tx, rec *store.Session) error {
		rec.Budget = store.Budget{Limit: store.Allowance{Tokens: 1000}, Reserve: store.Allowance{Tokens: 100}}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	route := r.snap.Routes["offline"]
	route.Driver, route.BillingMode = profile.DriverCodexLogin, profile.BillingSubscription
	r.snap.Routes["offline"] = route
	j, err := r.cachedJob(r.mustSpawn(r.lead(), read("reader"))[0])
	if err != nil {
		t.Fatal(err)
	}
	run, err := r.loadRun(t.Context(), j.AgentRef)
	if err != nil {
		t.Fatal(err)
	}
	role, err := r.snapshotAgent("reader")
	if err != nil {
		t.Fatal(err)
	}
	host := &hostOfTurn{}
	a := r.newAgent(run, role)
	a.host, a.rec.ActiveTurnID = host, "t1"
	failed := &store.Failure{Kind: "turn_failed", Message: "the turn interrupted"}
	for _, tt := range []struct {
		input, output uint64
		interrupts    int
		kind          string
	}{{400, 10, 0, "turn_failed"}, {800, 50, 0, "turn_failed"}, {880, 20, 1, "limit_reached"}, {1300, 30, 2, "limit_reached"}} {
		if err := a.chargeDirect(t.Context(), store.TokenUsage{InputTokens: tt.input, OutputTokens: tt.output}); err != nil {
			t.Fatal(err)
		}
		if got := len(host.interrupted); got != tt.interrupts {
			t.Errorf("at %d tokens the turn was interrupted %d times, want %d", tt.input+tt.output, got, tt.interrupts)
		}
		if f := a.limitFailure(t.Context(), failed); f.Kind != tt.kind || f.Retryable {
			t.Errorf("at %d tokens a failed turn is %+v, want %s", tt.input+tt.output, f, tt.kind)
		}
	}
	purse, err := r.purseNow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if spent, over := purse.Spent().Tokens, purse.Overrun().Tokens; spent != 1330 || over != 430 {
		t.Errorf("%d tokens are spent, %d too much; want 1330, 430", spent, over)
	}
}
