package supervisor

import (
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/admission"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/workspace"
)

// capacity tells who holds what the session's agents may want, and what is free.
// What can't be read is left out: a look must not fail by it.
func (s *Supervisor) capacity(ctx context.Context) *control.Capacity {
	limits := s.snap.Coordination
	c := &control.Capacity{MaxActiveAgents: limits.MaxActiveAgents, MaxWriters: limits.MaxActiveWriters}
	var holders []store.Holder
	var unpriced int
	var purse *admission.Purse
	rec := s.cachedSession()
	err := s.view(ctx, func(tx *store.Tx) (err error) {
		if holders, err = tx.Accounting(); err != nil {
			return err
		}
		if purse, err = s.purse(tx, rec); err != nil || purse == nil {
			return err
		}
		_, unpriced, err = tx.Spent(s.session, "")
		return err
	})
	if err != nil {
		s.log.Warn("the capacity in use can't be read", "err", err)
		return c
	}
	counting := admission.Counting(holders, alive)
	for _, h := range counting {
		if h.SessionID != s.session || h.JobID == "" {
			continue
		}
		c.ActiveAgents++
		if h.Mode == admission.ModeWorkspace {
			c.ActiveWriters++
		}
	}
	c.Roles, c.Resources, c.Leases = s.roleCapacity(counting, rec), s.resourceCapacity(counting), leasesNear(counting, rec.Workspace)
	c.Budget = viewBudget(purse, unpriced)
	return c
}

func (s *Supervisor) roleCapacity(counting []store.Holder, rec *store.Session) (list []control.RoleCapacity) {
	for _, id := range s.snap.Order {
		limit := s.snap.Agents[id].MaxActive
		if limit == 0 || id == s.snap.RootAgent {
			continue
		}
		active := holdersWhere(counting, func(h store.Holder) bool { return h.JobID != "" && h.ProfileID == rec.ProfileID && h.Agent == id })
		if len(active) > 0 {
			list = append(list, control.RoleCapacity{Agent: id, Active: len(active), MaxActive: limit, Holders: viewHolders(active, false)})
		}
	}
	return list
}

func (s *Supervisor) resourceCapacity(counting []store.Holder) (list []control.ResourceCapacity) {
	used := admission.Usage(counting)
	for _, id := range slices.Sorted(maps.Keys(s.snap.Resources)) {
		r := s.snap.Resources[id]
		users := holdersWhere(counting, func(h store.Holder) bool { return h.LockKey == r.LockKey })
		list = append(list, control.ResourceCapacity{
			Resource: id, LockKey: r.LockKey, Used: used[r.LockKey], Max: r.MaxActive, Holders: viewHolders(users, false),
		})
	}
	return list
}

// leasesNear lists the write scopes that a writer of the workspace dir may meet.
func leasesNear(counting []store.Holder, dir string) []control.HolderView {
	return viewHolders(holdersWhere(counting, func(h store.Holder) bool {
		return slices.ContainsFunc(h.Scopes, func(p string) bool { return workspace.Within(p, dir) || workspace.Within(dir, p) })
	}), true)
}

func holdersWhere(list []store.Holder, match func(store.Holder) bool) []store.Holder {
	return slices.DeleteFunc(slices.Clone(list), func(h store.Holder) bool { return !match(h) })
}

// viewHolders shows holders: the units that they have, or their leases.
func viewHolders(list []store.Holder, leases bool) (views []control.HolderView) {
	for _, h := range list[:min(len(list), core.MaxHolders)] {
		v := control.HolderView{SessionID: h.SessionID, JobID: h.JobID, Agent: h.Agent, Status: h.Status, Frees: admission.Frees(h)}
		if leases {
			for _, p := range h.Scopes {
				v.WriteScope = append(v.WriteScope, filepath.Clean(p))
			}
		} else {
			v.Units = h.Units
		}
		views = append(views, v)
	}
	return views
}

// viewBudget shows a purse; nil for none.
func viewBudget(p *admission.Purse, unpriced int) *control.BudgetView {
	if p == nil {
		return nil
	}
	v := &control.BudgetView{Unpriced: unpriced}
	limit, reserve, spent, free, root, over := p.Budget.Limit, p.Budget.Reserve, p.Spent(), p.Free(), p.RootLeft(), p.Overrun()
	if limit.Tokens > 0 {
		v.Tokens = budgetPart(tokenNumber, limit.Tokens, reserve.Tokens, spent.Tokens, free.Tokens, root.Tokens, over.Tokens)
	}
	if limit.NanoUSD > 0 {
		v.USD = budgetPart(usdNumber, limit.NanoUSD, reserve.NanoUSD, spent.NanoUSD, free.NanoUSD, root.NanoUSD, over.NanoUSD)
	}
	return v
}

func budgetPart(write func(int64) json.Number, limit, reserve, spent, free, root, over int64) *control.BudgetPart {
	return &control.BudgetPart{
		Limit: write(limit), Reserve: write(reserve), Spent: write(spent),
		FreeForJobs: write(max(0, free)), LeftForRoot: write(max(0, root)), Overrun: write(over),
	}
}

func tokenNumber(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }
func usdNumber(n int64) json.Number   { return json.Number(admission.DecimalUSD(n)) }
