package admission

import (
	"cmp"
	"slices"

	"github.com/codex-mmo/codex-mmo/core/store"
)

// Purse is what a session may spend and who has a claim on it. Tokens and money
// are counted apart, in the same way; a part without a limit is not counted.
//
// Each job is given a part of the purse when it is spawned and can spend no more
// than that. What it has left when it ends goes back. The root spends what no
// job has a claim on; the reserve for its final report is given to no job.
//
//	limit >= reserve + root's spending + sum over jobs of
//	         (open: the larger of its part and its spending; ended: its spending)
//
// holds after every admission, and is broken only by what a provider charges
// beyond a cap: at most one answer of each agent, as told by its overrun.
type Purse struct {
	Budget   store.Budget
	Slots    int // jobs that may be open at once
	Accounts []Account
}

// Account is what one agent run has spent and may spend.
type Account struct {
	AgentRef string
	Root     bool
	Open     bool            // it may still spend
	Part     store.Allowance // that a job was given, in all; of the root: none
	Spent    store.Allowance
}

// part is tokens or money.
type part func(*store.Allowance) *int64

func tokens(a *store.Allowance) *int64 { return &a.Tokens }
func money(a *store.Allowance) *int64  { return &a.NanoUSD }

// claim is what an account takes of the purse.
func (a *Account) claim(of part) int64 {
	spent := *of(&a.Spent)
	if a.Root || !a.Open {
		return spent
	}
	return max(spent, *of(&a.Part))
}

// claims sums what those whom match selects take of the purse.
func (p *Purse) claims(of part, match func(*Account) bool) (sum int64) {
	for i := range p.Accounts {
		if a := &p.Accounts[i]; match(a) {
			sum += a.claim(of)
		}
	}
	return sum
}

func anybody(*Account) bool  { return true }
func isJob(a *Account) bool  { return !a.Root }
func isRoot(a *Account) bool { return a.Root }

// Free is what can be given to jobs still. A part may be negative: the root has
// begun to spend the reserve. A part without a limit is 0 and means nothing.
func (p *Purse) Free() store.Allowance { return p.each(p.free) }

// RootCap is what the root may spend in all.
func (p *Purse) RootCap() store.Allowance { return p.each(p.rootCap) }

// RootLeft is what the root may spend still; negative when it has spent too
// much.
func (p *Purse) RootLeft() store.Allowance {
	return p.each(func(of part) int64 { return p.rootCap(of) - p.claims(of, isRoot) })
}

// Overrun is what was spent beyond what was given: providers tell what an answer
// cost when it is there. Of the root it is what the limit does not hold and no
// job's overrun explains.
func (p *Purse) Overrun() store.Allowance {
	return p.each(func(of part) (jobs int64) {
		for i := range p.Accounts {
			a := &p.Accounts[i]
			if given := *of(&a.Part); !a.Root && given > 0 {
				jobs += max(0, *of(&a.Spent)-given)
			}
		}
		return max(jobs, p.claims(of, anybody)-*of(&p.Budget.Limit))
	})
}

// Spent is what all have spent.
func (p *Purse) Spent() store.Allowance {
	var sum store.Allowance
	for _, of := range []part{tokens, money} {
		for i := range p.Accounts {
			*of(&sum) += *of(&p.Accounts[i].Spent)
		}
	}
	return sum
}

// Exhausted reports whether an agent run has spent what it may.
func (p *Purse) Exhausted(ref string) bool {
	i := slices.IndexFunc(p.Accounts, func(a Account) bool { return a.AgentRef == ref })
	if i < 0 {
		return false
	}
	a := &p.Accounts[i]
	limit := a.Part
	if a.Root {
		limit = p.RootCap()
	}
	for _, of := range []part{tokens, money} {
		if *of(&p.Budget.Limit) > 0 && (a.Root || *of(&limit) > 0) && *of(&a.Spent) >= *of(&limit) {
			return true
		}
	}
	return false
}

func (p *Purse) each(f func(part) int64) (sum store.Allowance) {
	for _, of := range []part{tokens, money} {
		if *of(&p.Budget.Limit) > 0 {
			*of(&sum) = f(of)
		}
	}
	return sum
}

func (p *Purse) free(of part) int64 {
	return *of(&p.Budget.Limit) - *of(&p.Budget.Reserve) - p.claims(of, anybody)
}

func (p *Purse) rootCap(of part) int64 { return *of(&p.Budget.Limit) - p.claims(of, isJob) }

// open counts the jobs that may still spend.
func (p *Purse) open() (n int) {
	for _, a := range p.Accounts {
		if a.Open && !a.Root {
			n++
		}
	}
	return n
}

func (p *Purse) clone() Purse {
	c := *p
	c.Accounts = slices.Clone(p.Accounts)
	return c
}

// without returns the purse as if the job of an agent run had ended.
func (p *Purse) without(ref string) Purse {
	c := p.clone()
	for i := range c.Accounts {
		if c.Accounts[i].AgentRef == ref {
			c.Accounts[i].Open = false
		}
	}
	return c
}

// share is what the next job is given: what its goal may take, else an equal
// share of what is free among the jobs that may yet be opened beside those that
// are. It may be 0 or less: there is nothing to give.
func (p *Purse) share(of part, want int64) int64 {
	if want > 0 {
		return want
	}
	return p.free(of) / int64(max(1, p.Slots-p.open()))
}

// spentBy is what an agent run has spent before.
func (p *Purse) spentBy(ref string) store.Allowance {
	for _, a := range p.Accounts {
		if a.AgentRef == ref {
			return a.Spent
		}
	}
	return store.Allowance{}
}

// withSpent is a part for one who has spent before: parts are counted from the
// beginning.
func withSpent(given, spent store.Allowance) store.Allowance {
	for _, of := range []part{tokens, money} {
		if *of(&given) > 0 {
			*of(&given) += *of(&spent)
		}
	}
	return given
}

// reserve gives a job its part of the purse.
func (c *counts) reserve(agent Agent, r Request, ref string) (given store.Allowance, err error) {
	p := c.purse
	if p == nil {
		return given, nil
	}
	for _, of := range []part{tokens, money} {
		if *of(&p.Budget.Limit) <= 0 {
			continue
		}
		want := int64(0)
		if of(&given) == &given.Tokens {
			want = cmp.Or(r.GoalTokens, agent.GoalTokens)
		} else if agent.Unpriced {
			if !p.Budget.AllowUnknownPrice {
				return given, refusal(ReasonBudget, "agent %q can't start under a budget of money: nobody knows the price of its model", r.Agent).
					WithRemedy("give the model a price in the catalogue, or set allow_unknown_price in the profile's budget")
			}
			continue
		}
		free := p.free(of)
		if *of(&given) = p.share(of, want); *of(&given) <= 0 || *of(&given) > free {
			return given, c.spent(of, r, *of(&given))
		}
	}
	p.Accounts = append(p.Accounts, Account{AgentRef: ref, Open: true, Part: given})
	return given, nil
}

// spent refuses a job for which the purse holds too little.
func (c *counts) spent(of part, r Request, want int64) error {
	p := c.purse
	say := FormatTokens
	if limit := p.Budget.Limit; of(&limit) == &limit.NanoUSD {
		say = FormatUSD
	}
	needs := ""
	if want > 0 {
		needs = ", and agent " + r.Agent + " needs " + say(want)
	}
	err := refusal(ReasonBudget, "the session's budget of %s has %s free for jobs%s: %s are spent by the root, %s are spent by jobs or held for them, %s are kept for the final report",
		say(*of(&p.Budget.Limit)), say(max(0, p.free(of))), needs, say(p.claims(of, isRoot)), say(p.claims(of, isJob)), say(*of(&p.Budget.Reserve)))
	if p.open() > 0 {
		return err.WithRemedy("wait for a job to end: what it has left comes back")
	}
	return err.WithRemedy("finish with what there is; a person can start a session with a larger budget")
}
