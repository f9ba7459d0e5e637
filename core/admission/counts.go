package admission

import (
	"fmt"

	"github.com/codex-mmo/codex-mmo/core/store"
)

// counts is capacity in use, including the members decided before.
type counts struct {
	view    View
	holders []store.Holder
	used    map[string]int // lock key -> units
	purse   *Purse         // nil: no budget
}

func newCounts(v View) *counts {
	c := &counts{view: v, holders: append([]store.Holder(nil), v.Holders...)}
	c.used = Usage(c.holders)
	if v.Purse != nil {
		purse := v.Purse.clone()
		c.purse = &purse
	}
	return c
}

// take finds room for one more job and counts it.
func (c *counts) take(agent Agent, r Request) (store.Allowance, error) {
	for _, check := range []func(Agent, Request) error{c.session, c.role, c.writers} {
		if err := check(agent, r); err != nil {
			return store.Allowance{}, err
		}
	}
	if err := c.resource(agent.Resource); err != nil {
		return store.Allowance{}, err
	}
	if err := c.lease(r); err != nil {
		return store.Allowance{}, err
	}
	ref := fmt.Sprintf("member %d", len(c.holders)) // no agent run has such a ref
	amount, err := c.reserve(agent, r, ref)
	if err != nil {
		return store.Allowance{}, err
	}
	h := store.Holder{
		SessionID: c.view.SessionID, JobID: thisBatch, AgentRef: ref, ProfileID: c.view.ProfileID, Agent: r.Agent, Mode: r.Mode,
		LockKey: agent.Resource.LockKey, Units: agent.Resource.Units, FoldsCase: r.Scope.FoldsCase,
	}
	if r.Mode == ModeWorkspace {
		h.Scopes = r.Scope.Paths
	}
	c.holders = append(c.holders, h)
	if h.LockKey != "" {
		c.used[h.LockKey] += h.Units
	}
	return amount, nil
}

// thisBatch stands for the id of a job that is being admitted.
const thisBatch = "this batch"

func (c *counts) jobs(match func(store.Holder) bool) []store.Holder {
	var list []store.Holder
	for _, h := range c.holders {
		if h.JobID != "" && match(h) {
			list = append(list, h)
		}
	}
	return list
}

func (c *counts) session(Agent, Request) error {
	active := c.jobs(func(h store.Holder) bool { return h.SessionID == c.view.SessionID })
	if len(active) < c.view.Limits.MaxActiveAgents {
		return nil
	}
	return held(active, refusal(ReasonActiveAgents, "active-agent limit %d is reached by %s", c.view.Limits.MaxActiveAgents, names(active)))
}

func (c *counts) role(agent Agent, r Request) error {
	if agent.MaxActive == 0 {
		return nil
	}
	active := c.jobs(func(h store.Holder) bool { return h.ProfileID == c.view.ProfileID && h.Agent == r.Agent })
	if len(active) < agent.MaxActive {
		return nil
	}
	return held(active, refusal(ReasonRole, "active %s limit %d is reached by %s", r.Agent, agent.MaxActive, names(active)))
}

func (c *counts) writers(_ Agent, r Request) error {
	if r.Mode != ModeWorkspace {
		return nil
	}
	writing := c.jobs(func(h store.Holder) bool { return h.SessionID == c.view.SessionID && h.Mode == ModeWorkspace })
	if len(writing) < c.view.Limits.MaxWriters {
		return nil
	}
	return held(writing, refusal(ReasonWriters, "active-writer limit %d is reached by %s", c.view.Limits.MaxWriters, names(writing)))
}

// resource finds room in a resource that roots and jobs of all sessions share.
func (c *counts) resource(r Resource) error {
	if r.LockKey == "" || c.used[r.LockKey]+r.Units <= r.Max {
		return nil
	}
	var users []store.Holder
	for _, h := range c.holders {
		if h.LockKey == r.LockKey {
			users = append(users, h)
		}
	}
	group := fmt.Sprintf("resource group %q", r.ID)
	if r.LockKey != r.ID {
		group += fmt.Sprintf(" (shared as %q)", r.LockKey)
	}
	if r.Units > r.Max {
		return refusal(ReasonResource, "%s has %d units, and this agent alone takes %d", group, r.Max, r.Units).
			WithRemedy("mend max_active of the resource or units of the model in the catalogue")
	}
	err := refusal(ReasonResource, "%s has %d of %d units in use, %d are needed: held by %s", group, c.used[r.LockKey], r.Max, r.Units, names(users))
	return held(users, err)
}

func (c *counts) lease(r Request) error {
	if r.Mode != ModeWorkspace {
		return nil
	}
	for _, h := range c.holders {
		mine, theirs, found := overlap(r.Scope.Paths, h.Scopes, r.Scope.FoldsCase || h.FoldsCase)
		if !found {
			continue
		}
		err := refusal(ReasonWriteScope, "write scope conflicts with %s: %s and its %s hold each other or are the same", nameOf(h), mine, theirs)
		return heldScopes([]store.Holder{h}, err)
	}
	return nil
}
