package admission_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/admission"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// purse is 1,000 tokens and 10 dollars, of which 100 and 1 are kept for the
// report, in a session with room for three jobs.
func purse() *admission.Purse {
	return &admission.Purse{
		Budget: store.Budget{
			Limit:   store.Allowance{Tokens: 1000, NanoUSD: 10_000_000_000},
			Reserve: store.Allowance{Tokens: 100, NanoUSD: 1_000_000_000},
		},
		Slots:    3,
		Accounts: []admission.Account{{AgentRef: "root", Root: true, Open: true}},
	}
}

// TestShares: a job is given an equal share of what is free, what its goal may
// take, or nothing.
func TestShares(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*admission.View)
		batch  []admission.Request
		want   []store.Allowance
		text   string // of the refusal
	}{
		{"one", nil, []admission.Request{read()}, []store.Allowance{{Tokens: 300, NanoUSD: 3_000_000_000}}, ""},
		{"three", func(v *admission.View) { v.Holders = nil }, []admission.Request{read(), read(), read()}, []store.Allowance{
			{Tokens: 300, NanoUSD: 3_000_000_000}, {Tokens: 300, NanoUSD: 3_000_000_000}, {Tokens: 300, NanoUSD: 3_000_000_000},
		}, ""},
		{"what the root spent is gone", func(v *admission.View) { v.Purse.Accounts[0].Spent.Tokens = 300 }, []admission.Request{read()}, []store.Allowance{{Tokens: 200, NanoUSD: 3_000_000_000}}, ""},
		{"what an ended job left comes back", func(v *admission.View) {
			v.Purse.Accounts = append(v.Purse.Accounts, admission.Account{AgentRef: "j", Part: store.Allowance{Tokens: 900}, Spent: store.Allowance{Tokens: 30}})
		}, []admission.Request{read()}, []store.Allowance{{Tokens: 290, NanoUSD: 3_000_000_000}}, ""},
		{"a goal", func(v *admission.View) { setGoal(v, 500) }, []admission.Request{read()}, []store.Allowance{{Tokens: 500, NanoUSD: 3_000_000_000}}, ""},
		{"a goal that is too large", func(v *admission.View) { setGoal(v, 901) }, []admission.Request{read()}, nil, "has 900 tokens free for jobs, and agent reader needs 901 tokens"},
		{"nothing is left", func(v *admission.View) { v.Purse.Accounts[0].Spent.Tokens = 900 }, []admission.Request{read()}, nil, "has 0 tokens free for jobs: 900 tokens are spent by the root, 0 tokens are spent by jobs or held for them, 100 tokens are kept"},
		{"no money is left", func(v *admission.View) { v.Purse.Accounts[0].Spent.NanoUSD = 9_500_000_000 }, []admission.Request{read()}, nil, "budget of 10 USD has 0 USD free for jobs: 9.5 USD are spent by the root"},
		{"an unknown price", func(v *admission.View) { setUnpriced(v) }, []admission.Request{read()}, nil, "nobody knows the price"},
		{"an unknown price that is allowed", func(v *admission.View) { setUnpriced(v); v.Purse.Budget.AllowUnknownPrice = true }, []admission.Request{read()}, []store.Allowance{{Tokens: 300}}, ""},
		{"no limit", func(v *admission.View) { v.Purse = nil }, []admission.Request{read()}, []store.Allowance{{}}, ""},
	} {
		v := view()
		v.Purse = purse()
		if tt.change != nil {
			tt.change(&v)
		}
		got, err := admission.Decide(v, tt.batch)
		if tt.text != "" {
			checkRefusal(t, tt.name, err, core.KindAdmission, "budget", tt.text, "")
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func setGoal(v *admission.View, tokens int64) {
	a := v.Agents["reader"]
	a.GoalTokens = tokens
	v.Agents["reader"] = a
}

func setUnpriced(v *admission.View) {
	a := v.Agents["reader"]
	a.Unpriced = true
	v.Agents["reader"] = a
}

// TestLimits: what is free, what the root may spend, and who has spent all.
func TestLimits(t *testing.T) {
	t.Parallel()
	p := purse()
	p.Accounts[0].Spent = store.Allowance{Tokens: 150, NanoUSD: 1}
	p.Accounts = append(p.Accounts,
		admission.Account{AgentRef: "open", Open: true, Part: store.Allowance{Tokens: 300, NanoUSD: 5}, Spent: store.Allowance{Tokens: 10, NanoUSD: 5}},
		admission.Account{AgentRef: "over", Open: true, Part: store.Allowance{Tokens: 50, NanoUSD: 9}, Spent: store.Allowance{Tokens: 60}},
		admission.Account{AgentRef: "ended", Part: store.Allowance{Tokens: 400}, Spent: store.Allowance{Tokens: 40}},
	)
	if diff := cmp.Diff(store.Allowance{Tokens: 1000 - 100 - 150 - 300 - 60 - 40, NanoUSD: 9_000_000_000 - 1 - 5 - 9}, p.Free()); diff != "" {
		t.Errorf("free (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(store.Allowance{Tokens: 1000 - 300 - 60 - 40, NanoUSD: 10_000_000_000 - 5 - 9}, p.RootCap()); diff != "" {
		t.Errorf("the root's cap (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(store.Allowance{Tokens: 260, NanoUSD: 6}, p.Spent()); diff != "" {
		t.Errorf("spent (-want +got):\n%s", diff)
	}
	for ref, want := range map[string]bool{"root": false, "open": true, "over": true, "nobody": false} {
		if got := p.Exhausted(ref); got != want {
			t.Errorf("Exhausted(%s) = %v, want %v", ref, got, want)
		}
	}
	p.Accounts[0].Spent.Tokens = 600
	if !p.Exhausted("root") {
		t.Error("a root that has spent its cap is not exhausted")
	}
}

// TestLedger: in any sequence of spawns, spending, ends, suspensions and
// returns, in which nobody exceeds his cap, no part is given twice, the sums are
// exact, and the root can always spend its reserve.
func TestLedger(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		v := view()
		v.Limits = admission.Limits{MaxDepth: 1, MaxActiveAgents: 50}
		v.Agents["reader"] = admission.Agent{Permissions: "read-only"}
		p := purse()
		p.Budget.Limit.Tokens = rapid.Int64Range(101, 5000).Draw(rt, "limit")
		p.Slots = rapid.IntRange(1, 5).Draw(rt, "slots")
		v.Purse, v.Holders = p, nil
		jobs := func(open bool) (list []*admission.Account) {
			for i := range p.Accounts {
				if a := &p.Accounts[i]; !a.Root && a.Open == open {
					list = append(list, a)
				}
			}
			return list
		}
		request := admission.Request{Agent: "reader", Mode: "read-only", HasTask: true}
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				var claimed, spent int64
				for _, a := range p.Accounts {
					spent += a.Spent.Tokens
					if a.Open && !a.Root {
						claimed += a.Part.Tokens - a.Spent.Tokens
					}
				}
				free := p.Budget.Limit.Tokens - p.Budget.Reserve.Tokens - spent - claimed
				if got := p.Free().Tokens; got != free {
					rt.Fatalf("free = %d, want %d", got, free)
				}
				root := p.Accounts[0]
				if left := p.RootCap().Tokens - root.Spent.Tokens; left != free+p.Budget.Reserve.Tokens || spent+claimed > p.Budget.Limit.Tokens {
					rt.Fatalf("the root has %d left with %d free; %d spent and %d claimed of %d", left, free, spent, claimed, p.Budget.Limit.Tokens)
				}
			},
			"spawn": func(rt *rapid.T) {
				before := p.Free().Tokens
				parts, err := admission.Decide(v, []admission.Request{request})
				if err != nil {
					if slots := int64(max(1, p.Slots-len(jobs(true)))); before >= slots {
						rt.Fatalf("refused with %d tokens free: %v", before, err)
					}
					return
				}
				p.Accounts = append(p.Accounts, admission.Account{AgentRef: fmt.Sprintf("j%d", len(p.Accounts)), Open: true, Part: parts[0]})
				if p.Free().Tokens < 0 {
					rt.Fatalf("%d of %d free tokens were given", parts[0].Tokens, before)
				}
			},
			"spend": func(rt *rapid.T) {
				for _, a := range jobs(true) {
					a.Spent.Tokens += rapid.Int64Range(0, a.Part.Tokens-a.Spent.Tokens).Draw(rt, "tokens")
				}
			},
			"root spends": func(rt *rapid.T) {
				root := &p.Accounts[0]
				root.Spent.Tokens += rapid.Int64Range(0, p.RootCap().Tokens-root.Spent.Tokens).Draw(rt, "tokens")
			},
			"end": func(rt *rapid.T) {
				if open := jobs(true); len(open) > 0 {
					open[0].Open = false
				}
			},
			"return": func(rt *rapid.T) {
				ended := jobs(false)
				if len(ended) == 0 {
					return
				}
				part, err := admission.DecideContinue(v, ended[0].AgentRef, request)
				if err == nil {
					ended[0].Open, ended[0].Part = true, part
				}
			},
		})
	})
}

// TestAmounts: money is written exactly and read to the nearest billionth.
func TestAmounts(t *testing.T) {
	t.Parallel()
	for nano, want := range map[int64]string{0: "0", 1: "0.000000001", 1_500_000_000: "1.5", 10_000_000_000: "10", 1_000_000_001: "1.000000001"} {
		if got := admission.DecimalUSD(nano); got != want {
			t.Errorf("DecimalUSD(%d) = %s, want %s", nano, got, want)
		}
	}
	if n, err := admission.NanoUSD(0.1); err != nil || n != 100_000_000 {
		t.Errorf("NanoUSD(0.1) = %d, %v", n, err)
	}
	for _, bad := range []float64{-1, 1e7} {
		if _, err := admission.NanoUSD(bad); core.KindOf(err) != core.KindValue {
			t.Errorf("NanoUSD(%v) = %v, want a ValueError", bad, err)
		}
	}
}
