package admission_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/admission"
)

// view is a session with room for two agents and one writer, in which one
// reader works.
func view() admission.View {
	return admission.View{
		SessionStatus: core.SessionRunning, CallerAgent: "lead", Ancestors: []string{"lead"},
		Limits: admission.Limits{MaxDepth: 1, MaxActiveAgents: 3, MaxWriters: 1},
		Agents: map[string]admission.Agent{
			"lead":   {CanSpawn: []string{"reader", "writer", "away"}},
			"reader": {TaskKinds: []string{"read"}, Permissions: "read-only", MaxActive: 2},
			"writer": {Permissions: "workspace-write"},
			"away":   {Permissions: "read-only", Unavailable: "missing credential X"},
			"other":  {Permissions: "read-only"},
		},
		Active:     []admission.ActiveJob{{JobID: "j1", Agent: "reader", Mode: "read-only"}},
		RoleActive: map[string]int{"reader": 1},
	}
}

func read() admission.Request {
	return admission.Request{Agent: "reader", TaskKind: "read", Mode: "read-only", HasTask: true}
}

func write() admission.Request {
	return admission.Request{Agent: "writer", Mode: "workspace-write", HasTask: true}
}

// TestDecide: each refusal by its kind, its reason, and words that say what is
// wrong; and what is not refused.
func TestDecide(t *testing.T) {
	t.Parallel()
	change := func(r admission.Request, f func(*admission.Request)) admission.Request { f(&r); return r }
	tests := []struct {
		name     string
		change   func(*admission.View)
		requests []admission.Request
		kind     core.Kind
		reason   string
		text     string
	}{
		{"a reader and a writer", nil, []admission.Request{read(), write()}, "", "", ""},
		{"a detached session", func(v *admission.View) { v.SessionStatus = core.SessionDetached }, []admission.Request{read()}, "", "", ""},
		{"nobody", nil, nil, core.KindValue, "", "no agents"},
		{"an ending session", func(v *admission.View) { v.SessionStatus = core.SessionFinishing }, []admission.Request{read()}, core.KindAdmission, "session_not_admitting", "not admitting"},
		{"a cancelled parent", func(v *admission.View) { v.ParentStatus = core.JobCancelling }, []admission.Request{read()}, core.KindAdmission, "parent_not_admitting", "non-admitting agent job"},
		{"a stranger", nil, []admission.Request{change(read(), func(r *admission.Request) { r.Agent = "nobody" })}, core.KindPermission, "", `may not spawn "nobody"`},
		{"an agent that was not granted", nil, []admission.Request{change(read(), func(r *admission.Request) { r.Agent = "other" })}, core.KindPermission, "", `may not spawn "other"`},
		{"no task", nil, []admission.Request{change(read(), func(r *admission.Request) { r.HasTask = false })}, core.KindValue, "", "no task"},
		{"another kind of task", nil, []admission.Request{change(read(), func(r *admission.Request) { r.TaskKind = "dig" })}, core.KindValue, "", `task kind "dig"`},
		{"too deep", func(v *admission.View) { v.CallerDepth = 1 }, []admission.Request{read()}, core.KindAdmission, "depth", "max_depth 1"},
		{"a role above itself", func(v *admission.View) { v.Ancestors = []string{"reader", "lead"} }, []admission.Request{read()}, core.KindAdmission, "ancestor_role", "ancestor-role repetition"},
		{"writing by a reader", nil, []admission.Request{change(read(), func(r *admission.Request) { r.Mode = "workspace-write" })}, core.KindPermission, "", "permanently read-only"},
		{"an unknown mode", nil, []admission.Request{change(read(), func(r *admission.Request) { r.Mode = "all" })}, core.KindValue, "", `mode "all"`},
		{"a route that is away", nil, []admission.Request{{Agent: "away", Mode: "read-only", HasTask: true}}, core.KindAdmission, "route_unavailable", "missing credential X"},
		{"one agent too many", nil, []admission.Request{read(), write(), change(read(), func(r *admission.Request) { r.Agent, r.TaskKind = "writer", "" })}, core.KindAdmission, "active_agent_limit", "active-agent limit 3"},
		{"one of a role too many", nil, []admission.Request{read(), read()}, core.KindAdmission, "role_limit", "active reader limit 2"},
		{"one writer too many", nil, []admission.Request{write(), write()}, core.KindAdmission, "writer_limit", "active-writer limit 1"},
	}
	for _, tt := range tests {
		v := view()
		if tt.change != nil {
			tt.change(&v)
		}
		err := admission.Decide(v, tt.requests)
		if tt.kind == "" {
			if err != nil {
				t.Errorf("%s: refused: %v", tt.name, err)
			}
			continue
		}
		var e *core.Error
		if !errors.As(err, &e) || e.Kind != tt.kind || e.Reason != tt.reason || !strings.Contains(e.Message, tt.text) || e.Remedy == "" {
			t.Errorf("%s: %#v, want a %s with reason %q, %q in its text and a remedy", tt.name, err, tt.kind, tt.reason, tt.text)
		}
	}
}

// TestDecideKeepsItsLimits: whatever is asked for in whatever order, what is
// admitted never exceeds a limit, and a refused batch leaves all as it was.
func TestDecideKeepsItsLimits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		v := view()
		v.Limits = admission.Limits{
			MaxDepth:        1,
			MaxActiveAgents: rapid.IntRange(0, 6).Draw(rt, "agents"),
			MaxWriters:      rapid.IntRange(0, 3).Draw(rt, "writers"),
		}
		v.Active, v.RoleActive = nil, map[string]int{}
		for range rapid.IntRange(1, 12).Draw(rt, "batches") {
			batch := rapid.SliceOfN(rapid.SampledFrom([]admission.Request{read(), write()}), 1, 4).Draw(rt, "batch")
			if admission.Decide(v, batch) != nil {
				continue
			}
			for _, r := range batch {
				v.Active = append(v.Active, admission.ActiveJob{JobID: "j", Agent: r.Agent, Mode: r.Mode})
				v.RoleActive[r.Agent]++
			}
			writers := 0
			for _, j := range v.Active {
				if j.Mode == "workspace-write" {
					writers++
				}
			}
			if len(v.Active) > v.Limits.MaxActiveAgents || writers > v.Limits.MaxWriters || v.RoleActive["reader"] > 2 {
				rt.Fatalf("%d agents, %d writers, %d readers are admitted under %+v", len(v.Active), writers, v.RoleActive["reader"], v.Limits)
			}
		}
	})
}
