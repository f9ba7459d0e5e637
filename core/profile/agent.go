package profile

import (
	"fmt"
	"maps"
	"slices"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/contract"
)

// codexAgentKeys are the keys of Codex's [agents] that stand beside the roles
// there, in 0.149.0 and 0.171.0.
var codexAgentKeys = []string{"enabled", "max_threads", "max_depth", "interrupt_message", "default_subagent_model"}

// agent takes one role over.
func (c *compiler) agent(id string, a agentFile) {
	at := func(keys ...string) []string { return append([]string{"agents", id}, keys...) }
	if !core.ValidID(id) {
		c.bad("can't be the id of an agent", "must be of a-z, 0-9, - and _", at()...)
	}
	if slices.Contains(codexAgentKeys, id) && slices.Contains(a.Backends, BackendNative) {
		c.bad("can't be the id of a native agent: Codex has a setting of that name", "rename it, or run it as backend mcp", at()...)
	}
	model := c.model(id, a.Model)
	out := Agent{
		ID: id, Description: a.Description, Model: a.Model, Route: model.Route, Unsafe: a.Unsafe, Network: a.Network, MayAsk: a.MayAsk,
		Permissions: or(a.Permissions, ReadOnly), ApprovalPolicy: or(a.ApprovalPolicy, "never"), ExecutionMode: or(a.ExecutionMode, ModeTurn),
		StallWarningSeconds: or(a.StallWarningSeconds, 600), FinalizationGraceSeconds: or(a.FinalizationGraceSeconds, 120),
		TaskKinds: list(a.TaskKinds), Trust: or(a.Trust, TrustStandard), Visibility: or(a.Visibility, VisibilityDescendants),
		WriteScopeRequired: a.WriteScopeRequired, CanSpawn: list(a.CanSpawn), Backends: list(a.Backends), Controls: map[string][]string{},
		ToolServers: map[string]ToolUse{}, MaxActive: or(a.MaxActive, 0), MaxRecoveryAttempts: or(a.MaxRecoveryAttempts, 3),
	}
	if a.Guidance != "" {
		out.Guidance = c.file("guidance/"+id+".md", a.Guidance, at("guidance")...)
	}
	for _, kind := range a.TaskKinds {
		if !core.ValidID(kind) {
			c.bad("names "+quote(kind), "a kind is of a-z, 0-9, - and _", at("task_kinds")...)
		}
	}
	out.Effort, out.Efforts = c.efforts(id, a, model)
	c.goal(&out, a, at)
	c.contract(&out, a, at)
	c.grants(&out, a, at)
	c.safety(&out, at)
	c.out.Agents[id] = out
}

// list makes an absent list an empty one, so that snapshots say the same of
// both.
func list(words []string) []string {
	if words == nil {
		return []string{}
	}
	return words
}

func (c *compiler) efforts(id string, a agentFile, m Model) (effort string, allowed []string) {
	effort = a.ReasoningEffort
	if effort == "" {
		effort = m.DefaultReasoning
	}
	allowed = a.AllowedReasoningEfforts
	if len(allowed) == 0 {
		allowed = []string{effort}
	}
	if m.Key == "" {
		return effort, allowed // the model is a problem of its own
	}
	if !slices.Contains(m.ReasoningLevels, effort) {
		c.bad("is "+quote(effort), fmt.Sprintf("model %s has %q", m.Key, m.ReasoningLevels), "agents", id, "reasoning_effort")
	}
	for _, e := range allowed {
		if !slices.Contains(m.ReasoningLevels, e) {
			c.bad("names "+quote(e), fmt.Sprintf("model %s has %q", m.Key, m.ReasoningLevels), "agents", id, "allowed_reasoning_efforts")
		}
	}
	if !slices.Contains(allowed, effort) {
		c.bad("does not name "+quote(effort), "must name the agent's own effort", "agents", id, "allowed_reasoning_efforts")
	}
	return effort, allowed
}

func (c *compiler) goal(out *Agent, a agentFile, at func(...string) []string) {
	if out.ExecutionMode != ModeGoal {
		for key, said := range map[string]*int64{"goal_token_budget": a.GoalTokenBudget, "max_goal_token_budget": a.MaxGoalTokenBudget} {
			if said != nil {
				c.bad("goes with execution_mode = \"goal\"", "leave it out", at(key)...)
			}
		}
		return
	}
	if a.GoalTokenBudget == nil || a.MaxGoalTokenBudget == nil {
		c.bad("is \"goal\" without goal_token_budget and max_goal_token_budget", "a goal needs both, in tokens", at("execution_mode")...)
		return
	}
	out.GoalTokenBudget, out.MaxGoalTokenBudget = *a.GoalTokenBudget, *a.MaxGoalTokenBudget
	if out.GoalTokenBudget > out.MaxGoalTokenBudget {
		c.bad(fmt.Sprintf("is %d, above max_goal_token_budget %d", out.GoalTokenBudget, out.MaxGoalTokenBudget), "must be at most the maximum", at("goal_token_budget")...)
	}
}

func (c *compiler) contract(out *Agent, a agentFile, at func(...string) []string) {
	if a.OutputContract == "" {
		if a.ContractEnforcement != nil {
			c.bad("goes with output_contract", "leave it out", at("contract_enforcement")...)
		}
		return
	}
	out.ContractEnforcement = or(a.ContractEnforcement, ContractStrict)
	out.OutputContract = c.file("contracts/"+baseName(a.OutputContract), a.OutputContract, at("output_contract")...)
	if out.OutputContract == "" {
		return
	}
	if _, err := contract.Compile(c.out.texts[out.OutputContract]); err != nil {
		c.bad(err.Error(), "must be a JSON Schema (2020-12) that stands by itself", at("output_contract")...)
	}
}

// grants checks what the agent may do with others and with tools.
func (c *compiler) grants(out *Agent, a agentFile, at func(...string) []string) {
	for _, target := range a.CanSpawn {
		t, ok := c.profile.Agents[target]
		switch {
		case !ok:
			c.bad("names "+quote(target), c.agentHint(target), at("can_spawn")...)
		case target == c.profile.RootAgent:
			c.bad("names the root agent "+quote(target), "the root is spawned by nobody", at("can_spawn")...)
		case len(t.Backends) == 0:
			c.bad("names "+quote(target)+", which has no backends", "give it backends = [\"mcp\"]", at("can_spawn")...)
		}
	}
	for _, target := range slices.Sorted(maps.Keys(a.Controls)) {
		if _, ok := c.profile.Agents[target]; !ok {
			c.bad("there is no agent "+quote(target), c.agentHint(target), at("controls", target)...)
		}
		out.Controls[target] = list(a.Controls[target].Actions)
	}
	for _, server := range slices.Sorted(maps.Keys(a.ToolServers)) {
		if s, ok := c.toolServer(server, at("tool_mcp_servers", server)); ok {
			use := a.ToolServers[server]
			for _, tool := range use.EnabledTools {
				if len(s.EnabledTools) > 0 && !slices.Contains(s.EnabledTools, tool) {
					c.bad("names "+quote(tool), fmt.Sprintf("server %s enables %q", server, s.EnabledTools), at("tool_mcp_servers", server, "enabled_tools")...)
				}
			}
			out.ToolServers[server] = ToolUse{EnabledTools: list(use.EnabledTools), Required: use.Required}
		}
	}
}

// safety checks what must not come together.
func (c *compiler) safety(out *Agent, at func(...string) []string) {
	if (out.Permissions == DangerFullAccess) != out.Unsafe {
		if out.Unsafe {
			c.bad("goes with permissions = \"danger-full-access\"", "leave it out", at("unsafe")...)
		} else {
			c.bad("is danger-full-access: no sandbox at all", "say unsafe = true if you mean it", at("permissions")...)
		}
	}
	if out.Trust != TrustLow {
		return
	}
	for _, wrong := range []struct {
		is  bool
		key string
	}{
		{out.Permissions != ReadOnly, "permissions"},
		{out.Network, "network"},
		{len(out.ToolServers) > 0, "tool_mcp_servers"},
		{len(out.CanSpawn) > 0, "can_spawn"},
		{len(out.Controls) > 0, "controls"},
		{out.ApprovalPolicy != "never", "approval_policy"},
		{out.MayAsk, "may_ask"},
		{out.ExecutionMode != ModeTurn, "execution_mode"},
		{slices.Contains(out.Backends, BackendNative), "backends"},
	} {
		if wrong.is {
			c.bad("is more than an agent of trust low may have", "leave it out, or trust the agent", at(wrong.key)...)
		}
	}
	if out.ID == c.profile.RootAgent {
		c.bad("is low", "the root needs trust", at("trust")...)
	}
}
