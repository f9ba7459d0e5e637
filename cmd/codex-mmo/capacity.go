package main

import (
	"fmt"
	"strings"

	"github.com/codex-mmo/codex-mmo/core/control"
)

// capacityRows lists the limits that the session's agents work under, and who
// holds what of them.
func capacityRows(c *control.Capacity) (rows [][]string) {
	if c == nil {
		return nil
	}
	rows = append(rows,
		[]string{"active agents", fmt.Sprintf("%d of %d", c.ActiveAgents, c.MaxActiveAgents), "-"},
		[]string{"writers", fmt.Sprintf("%d of %d", c.ActiveWriters, c.MaxWriters), "-"},
	)
	for _, r := range c.Roles {
		rows = append(rows, []string{"role " + r.Agent, fmt.Sprintf("%d of %d", r.Active, r.MaxActive), heldBy(r.Holders, r.Active)})
	}
	for _, r := range c.Resources {
		name := "resource " + r.Resource
		if r.LockKey != r.Resource {
			name += " (" + r.LockKey + ")"
		}
		rows = append(rows, []string{name, fmt.Sprintf("%d of %d units", r.Used, r.Max), heldBy(r.Holders, len(r.Holders))})
	}
	for _, h := range c.Leases {
		rows = append(rows, []string{"lease", strings.Join(h.WriteScope, ", "), holderName(h)})
	}
	return rows
}

// heldBy names holders; of those that are not listed, that there are more.
func heldBy(list []control.HolderView, all int) string {
	var names []string
	for _, h := range list {
		name := holderName(h)
		if h.Units > 1 {
			name += fmt.Sprintf(" (%d units)", h.Units)
		}
		names = append(names, name)
	}
	if more := all - len(list); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return orDash(strings.Join(names, ", "))
}

func holderName(h control.HolderView) string {
	if h.JobID == "" {
		return "root of " + h.SessionID
	}
	return h.JobID
}

// budgetRows tells how much of a budget is spent, held and free.
func budgetRows(c *control.Capacity) (rows [][]string) {
	if c == nil || c.Budget == nil {
		return nil
	}
	add := func(what string, p *control.BudgetPart, note string) {
		if p == nil {
			return
		}
		rows = append(rows, []string{
			what, p.Limit.String(), p.Spent.String(), p.FreeForJobs.String(), p.LeftForRoot.String(), p.Overrun.String(), orDash(note),
		})
	}
	note := ""
	if n := c.Budget.Unpriced; n > 0 {
		note = fmt.Sprintf("the cost of %s is not known and not counted", plural(n, "request"))
	}
	add("tokens", c.Budget.Tokens, "")
	add("USD", c.Budget.USD, note)
	return rows
}
