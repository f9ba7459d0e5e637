package profile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// delegation checks the agents against each other, once all are known.
func (c *compiler) delegation() {
	c.cycles()
	for _, id := range c.out.Order {
		parent := c.out.Agents[id]
		for _, target := range parent.CanSpawn {
			child, ok := c.out.Agents[target]
			if ok && target != c.out.RootAgent {
				c.compare(parent, child)
			}
		}
	}
	c.budgets()
}

// cycles tells of teams in which an agent could come to spawn itself: an agent
// never leads to a job of its own role, so such a grant can't be used to its end.
func (c *compiler) cycles() {
	state := map[string]int{} // 1: on the way, 2: done
	var way []string
	var visit func(id string)
	visit = func(id string) {
		state[id] = 1
		way = append(way, id)
		for _, next := range c.out.Agents[id].CanSpawn {
			switch state[next] {
			case 0:
				if _, ok := c.out.Agents[next]; ok {
					visit(next)
				}
			case 1:
				from := slices.Index(way, next)
				c.warn("leads in a circle: "+strings.Join(append(slices.Clone(way[from:]), next), " -> "),
					"the last spawn will be refused: an agent may not lead to its own role", "agents", id, "can_spawn")
			}
		}
		way = way[:len(way)-1]
		state[id] = 2
	}
	for _, id := range c.out.Order {
		if state[id] == 0 {
			visit(id)
		}
	}
}

// compare checks what a child has against what the agent that may spawn it has.
// A grant must not be a way to more than one has oneself.
func (c *compiler) compare(parent, child Agent) {
	path := []string{"agents", parent.ID, "can_spawn"}
	more := func(what string) {
		c.bad(fmt.Sprintf("names %q, which has %s that %s itself has not", child.ID, what, parent.ID),
			fmt.Sprintf("give it to %s too, or take it from %s", parent.ID, child.ID), path...)
	}
	if parent.Trust == TrustLow {
		return // it may spawn nobody, which is told already
	}
	if child.Permissions == DangerFullAccess && parent.Permissions != DangerFullAccess {
		more("no sandbox")
	}
	if child.Native() {
		c.compareNative(parent, child)
	}
}

// compareNative checks a subagent that shares its parent's engine: Codex gives
// it the parent's tool servers, whatever its role file says.
func (c *compiler) compareNative(parent, child Agent) {
	path := []string{"agents", child.ID, "tool_mcp_servers"}
	for _, server := range slices.Sorted(maps.Keys(child.ToolServers)) {
		if _, ok := parent.ToolServers[server]; !ok && !slices.Contains(child.Backends, BackendMCP) {
			c.bad(fmt.Sprintf("%s has no server %q, and a native agent has the servers of its parent", parent.ID, server),
				"grant it to "+parent.ID+" too, or run "+child.ID+" as backend mcp", append(path, server)...)
		}
	}
	for _, server := range slices.Sorted(maps.Keys(parent.ToolServers)) {
		if _, ok := child.ToolServers[server]; !ok {
			c.warn(fmt.Sprintf("%s is not granted server %q, and can use it all the same: Codex gives a native agent the servers of its parent", child.ID, server),
				"run it as backend mcp if that matters", "agents", child.ID)
		}
	}
	p, q := c.out.Routes[parent.Route], c.out.Routes[child.Route]
	if child.Route != parent.Route && (p.Direct() || q.Direct()) {
		c.warn("is on route "+child.Route+", and a native agent has the provider of "+parent.ID+": route "+parent.Route,
			"choose a model of that route, or run it as backend mcp", "agents", child.ID, "model")
	}
	if child.Network && !parent.Network {
		c.bad("a native agent has its parent's sandbox, and "+parent.ID+" has no network", "give it to "+parent.ID+" too", "agents", child.ID, "network")
	}
}

// budgets checks the money against the prices.
func (c *compiler) budgets() {
	b := c.out.Budget
	if b.USD == 0 || b.AllowUnknownPrice {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(c.out.Models)) {
		if c.out.Unpriced(key) {
			c.bad(fmt.Sprintf("is %g, and the price of model %s is not known", b.USD, key),
				"give the model a price, or say allow_unknown_price = true", "budget", "usd")
		}
	}
}

// advise tells what is right and should be known all the same.
func (c *compiler) advise() {
	for _, id := range c.out.Order {
		a := c.out.Agents[id]
		if a.Unsafe {
			c.warn("has no sandbox: it is the operator, with all of the operator's files", "use workspace-write where that will do", "agents", id, "unsafe")
		}
		if len(a.Backends) == 0 && id != c.out.RootAgent {
			c.warn("nobody can spawn it: it has no backends", "give it backends = [\"mcp\"], or remove it", "agents", id)
		}
	}
	c.adviseSecrets()
	c.adviseLayers()
}

// note is a warning that is also kept in the snapshot: every session of the team
// tells it.
func (c *compiler) note(wrong, right string, path ...string) {
	c.warn(wrong, right, path...)
	c.out.Warnings = append(c.out.Warnings, wrong)
}

// adviseSecrets names the agents whose engines are given secrets, the exception
// to "keys stay in the gateway".
func (c *compiler) adviseSecrets() {
	login := false
	for _, id := range c.out.Order {
		a := c.out.Agents[id]
		r := c.out.Routes[a.Route]
		if names := c.out.directSecrets(a); len(names) > 0 {
			c.note(fmt.Sprintf("the engine of agent %s is given %s, because Codex reaches route %s by itself", id, strings.Join(names, ", "), r.ID),
				"a route through the gateway keeps its keys there", "agents", id, "model")
		}
		if names := c.out.toolSecrets(id); len(names) > 0 {
			c.note(fmt.Sprintf("tool MCP credentials %s enter the Codex process of agent %s, which its native agents share", strings.Join(names, ", "), id),
				"grant a server only to those who need it", "agents", id, "tool_mcp_servers")
		}
		login = login || r.Driver == DriverCodexLogin
	}
	if login {
		c.warn("uses the operator's ChatGPT login", "auth_link_mode in settings.toml says how homes get it")
	}
}

// adviseLayers tells where a layer over the bundled catalogue sends keys to
// another host.
func (c *compiler) adviseLayers() {
	for _, id := range slices.Sorted(maps.Keys(c.out.Routes)) {
		r := c.out.Routes[id]
		before := c.bundledURL(id)
		if before == "" || before == r.BaseURL {
			continue
		}
		secrets := c.out.RouteSecrets(id)
		if len(secrets) == 0 {
			continue
		}
		c.report(&c.warnings, c.catalog, fmt.Sprintf("sends %s to %s instead of %s", strings.Join(secrets, ", "), r.BaseURL, before),
			"make sure that you meant it", []string{"routes", id, "base_url"})
	}
}

// bundledURL is where the bundled catalogue has a route lead to.
func (c *compiler) bundledURL(route string) string {
	if t := c.bundled.at("routes", route, "base_url"); t != nil {
		url, _ := t.value.(string)
		return url
	}
	return ""
}
