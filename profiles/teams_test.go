package profiles_test

import (
	"io/fs"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/profiles"
)

func compile(t *testing.T, id string) *profile.Snapshot {
	t.Helper()
	s, err := profile.Compile(t.Context(), &profile.CompileInput{Name: id, Bundled: profiles.FS})
	if err != nil {
		t.Fatalf("compiling %s: %v", id, err)
	}
	return s
}

// ids lists the bundled profiles.
func ids(t *testing.T) (list []string) {
	t.Helper()
	entries, err := fs.ReadDir(profiles.FS, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			list = append(list, entry.Name())
		}
	}
	return list
}

// Routes and how an agent is run, as the tables below name them.
const (
	login      = "codex_chatgpt_builtin"
	openai     = "openai_responses"
	anthropic  = "anthropic_messages"
	zen        = "opencode_zen_anthropic_messages"
	goPlan     = "opencode_go_openai_chat"
	zai        = "zai_coding_openai_chat"
	openrouter = "openrouter_openai_chat"
)

var (
	asJob    = []string{profile.BackendMCP}
	asNative = []string{profile.BackendNative}
	levels   = []string{"low", "medium", "high", "xhigh", "max"}
	controls = []string{
		"inspect", "trace", "steer", "interrupt", "pause", "continue", "finalize",
		"compact", "set_effort", "respond", "detach", "stop", "fork",
	}
)

// role is what the rest of the product relies on of an agent.
type role struct {
	Route, Mode, Permissions, Contract string
	Kinds, CanSpawn, Backends          []string
	MaxActive                          int
	ScopeRequired                      bool
	Trust, Visibility                  string
}

func roleOf(a profile.Agent) role {
	return role{
		a.Route, a.ExecutionMode, a.Permissions, a.OutputContract,
		a.TaskKinds, a.CanSpawn, a.Backends, a.MaxActive, a.WriteScopeRequired, a.Trust, a.Visibility,
	}
}

// TestTeams holds each team to what the rest of the product, its tests and the
// documents rely on.
func TestTeams(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]struct {
		root                   string
		depth, active, writers int
		gateway                bool
		agents                 map[string]role
	}{
		"access-efficient-escalation-lab": {
			root: "access_lead", depth: 1, active: 4, writers: 1, gateway: true,
			agents: map[string]role{
				"access_lead": {
					Route: login, Mode: profile.ModeTurn, Permissions: profile.WorkspaceWrite,
					CanSpawn: []string{"literal_scout", "routine_engineer", "flagship_escalation"}, Trust: profile.TrustStandard, Visibility: profile.VisibilitySession,
				},
				"literal_scout": {
					Route: openrouter, Mode: profile.ModeTurn, Permissions: profile.ReadOnly,
					Contract: "contracts/literal.json", Backends: asJob, MaxActive: 4, Trust: profile.TrustLow, Visibility: profile.VisibilityDescendants,
				},
				"routine_engineer": {
					Route: goPlan, Mode: profile.ModeTurn, Permissions: profile.WorkspaceWrite,
					Contract: "contracts/engineering.json", Kinds: []string{"implement", "test"}, Backends: asJob, MaxActive: 1, ScopeRequired: true, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
				"flagship_escalation": {
					Route: login, Mode: profile.ModeTurn, Permissions: profile.ReadOnly,
					Contract: "contracts/review.json", Kinds: []string{"analysis", "review"}, Backends: asJob, MaxActive: 2, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
			},
		},
		"adaptive-engineering": {
			root: "orchestrator", depth: 1, active: 4, writers: 2, gateway: true,
			agents: map[string]role{
				"orchestrator": {
					Route: login, Mode: profile.ModeGoal, Permissions: profile.WorkspaceWrite,
					CanSpawn: []string{"implementation_specialist", "adversarial_reviewer", "repo_scout"}, Trust: profile.TrustStandard, Visibility: profile.VisibilitySession,
				},
				"implementation_specialist": {
					Route: goPlan, Mode: profile.ModeGoal, Permissions: profile.WorkspaceWrite,
					Contract: "contracts/engineering.json", Kinds: []string{"analysis", "implement"}, Backends: asJob, MaxActive: 3, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
				"adversarial_reviewer": {
					Route: zen, Mode: profile.ModeTurn, Permissions: profile.ReadOnly,
					Contract: "contracts/review.json", Kinds: []string{"review"}, Backends: asJob, MaxActive: 2, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
				"repo_scout": {
					Route: login, Mode: profile.ModeTurn, Permissions: profile.ReadOnly,
					Kinds: []string{"lookup"}, Backends: asNative, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
			},
		},
		"bounded-research-organization-lab": {
			root: "research_director", depth: 2, active: 5, writers: 0, gateway: true,
			agents: map[string]role{
				"research_director": {
					Route: login, Mode: profile.ModeGoal, Permissions: profile.ReadOnly,
					CanSpawn: []string{"research_lead", "source_scout"}, Trust: profile.TrustStandard, Visibility: profile.VisibilitySession,
				},
				"research_lead": {
					Route: zen, Mode: profile.ModeGoal, Permissions: profile.ReadOnly,
					Contract: "contracts/research.json", Kinds: []string{"research_organization", "research_synthesis"}, CanSpawn: []string{"source_scout"}, Backends: asJob, MaxActive: 2, Trust: profile.TrustStandard, Visibility: profile.VisibilitySession,
				},
				"source_scout": {
					Route: goPlan, Mode: profile.ModeTurn, Permissions: profile.ReadOnly,
					Contract: "contracts/research.json", Kinds: []string{"research", "source_verification"}, Backends: asJob, MaxActive: 3, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
			},
		},
		"codex-harness-team": {
			root: "integrator", depth: 1, active: 3, writers: 1, gateway: false,
			agents: map[string]role{
				"integrator": {
					Route: login, Mode: profile.ModeGoal, Permissions: profile.WorkspaceWrite,
					CanSpawn: []string{"fresh_critic", "repo_scout"}, Trust: profile.TrustStandard, Visibility: profile.VisibilitySession,
				},
				"fresh_critic": {
					Route: login, Mode: profile.ModeTurn, Permissions: profile.ReadOnly,
					Contract: "contracts/review.json", Kinds: []string{"review"}, Backends: asJob, MaxActive: 2, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
				"repo_scout": {
					Route: login, Mode: profile.ModeTurn, Permissions: profile.ReadOnly,
					Kinds: []string{"lookup"}, Backends: asNative, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
			},
		},
		"competing-implementations-lab": {
			root: "selector", depth: 1, active: 4, writers: 3, gateway: true,
			agents: map[string]role{
				"selector": {
					Route: login, Mode: profile.ModeTurn, Permissions: profile.ReadOnly,
					CanSpawn: []string{"deepseek_candidate", "glm_candidate", "claude_candidate", "impartial_judge"}, Trust: profile.TrustStandard, Visibility: profile.VisibilitySession,
				},
				"deepseek_candidate": {
					Route: openrouter, Mode: profile.ModeTurn, Permissions: profile.WorkspaceWrite,
					Contract: "contracts/engineering.json", Kinds: []string{"implement"}, Backends: asJob, MaxActive: 1, ScopeRequired: true, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
				"glm_candidate": {
					Route: zai, Mode: profile.ModeTurn, Permissions: profile.WorkspaceWrite,
					Contract: "contracts/engineering.json", Kinds: []string{"implement"}, Backends: asJob, MaxActive: 1, ScopeRequired: true, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
				"claude_candidate": {
					Route: anthropic, Mode: profile.ModeTurn, Permissions: profile.WorkspaceWrite,
					Contract: "contracts/engineering.json", Kinds: []string{"implement"}, Backends: asJob, MaxActive: 1, ScopeRequired: true, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
				"impartial_judge": {
					Route: login, Mode: profile.ModeTurn, Permissions: profile.ReadOnly,
					Contract: "contracts/comparison.json", Kinds: []string{"comparison"}, Backends: asJob, MaxActive: 1, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
			},
		},
		"high-confidence-debugging": {
			root: "debug_lead", depth: 1, active: 3, writers: 1, gateway: true,
			agents: map[string]role{
				"debug_lead": {
					Route: openai, Mode: profile.ModeGoal, Permissions: profile.WorkspaceWrite,
					CanSpawn: []string{"reproducer", "root_cause_analyst", "fix_engineer", "regression_verifier"}, Trust: profile.TrustStandard, Visibility: profile.VisibilitySession,
				},
				"reproducer": {
					Route: goPlan, Mode: profile.ModeTurn, Permissions: profile.WorkspaceWrite,
					Contract: "contracts/engineering.json", Kinds: []string{"reproduce"}, Backends: asJob, MaxActive: 1, ScopeRequired: true, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
				"root_cause_analyst": {
					Route: anthropic, Mode: profile.ModeTurn, Permissions: profile.ReadOnly,
					Contract: "contracts/evidence.json", Kinds: []string{"causal_analysis"}, Backends: asJob, MaxActive: 1, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
				"fix_engineer": {
					Route: anthropic, Mode: profile.ModeTurn, Permissions: profile.WorkspaceWrite,
					Contract: "contracts/engineering.json", Kinds: []string{"implement"}, Backends: asJob, MaxActive: 1, ScopeRequired: true, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
				"regression_verifier": {
					Route: goPlan, Mode: profile.ModeTurn, Permissions: profile.WorkspaceWrite,
					Contract: "contracts/review.json", Kinds: []string{"verification"}, Backends: asJob, MaxActive: 1, ScopeRequired: true, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
			},
		},
		"incident-hypothesis-triage": {
			root: "incident_lead", depth: 1, active: 2, writers: 1, gateway: true,
			agents: map[string]role{
				"incident_lead": {
					Route: login, Mode: profile.ModeGoal, Permissions: profile.WorkspaceWrite,
					CanSpawn: []string{"evidence_runner", "causal_challenger"}, Trust: profile.TrustStandard, Visibility: profile.VisibilitySession,
				},
				"evidence_runner": {
					Route: login, Mode: profile.ModeTurn, Permissions: profile.ReadOnly,
					Contract: "contracts/evidence.json", Kinds: []string{"evidence_collection"}, Backends: asJob, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
				"causal_challenger": {
					Route: zen, Mode: profile.ModeGoal, Permissions: profile.ReadOnly,
					Contract: "contracts/evidence.json", Kinds: []string{"causal_analysis"}, Backends: asJob, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
			},
		},
		"route-resilience-lab": {
			root: "resilience_lead", depth: 1, active: 4, writers: 0, gateway: true,
			agents: map[string]role{
				"resilience_lead": {
					Route: login, Mode: profile.ModeTurn, Permissions: profile.ReadOnly,
					CanSpawn: []string{"go_route", "openrouter_route"}, Trust: profile.TrustStandard, Visibility: profile.VisibilitySession,
				},
				"go_route": {
					Route: goPlan, Mode: profile.ModeTurn, Permissions: profile.ReadOnly,
					Contract: "contracts/evidence.json", Kinds: []string{"route_probe"}, Backends: asJob, MaxActive: 2, Trust: profile.TrustStandard, Visibility: profile.VisibilitySession,
				},
				"openrouter_route": {
					Route: openrouter, Mode: profile.ModeTurn, Permissions: profile.ReadOnly,
					Contract: "contracts/evidence.json", Kinds: []string{"route_probe"}, Backends: asJob, MaxActive: 2, Trust: profile.TrustStandard, Visibility: profile.VisibilitySession,
				},
			},
		},
		"visual-engineering": {
			root: "visual_lead", depth: 1, active: 3, writers: 1, gateway: true,
			agents: map[string]role{
				"visual_lead": {
					Route: login, Mode: profile.ModeTurn, Permissions: profile.WorkspaceWrite,
					CanSpawn: []string{"ui_engineer", "visual_verifier"}, Trust: profile.TrustStandard, Visibility: profile.VisibilitySession,
				},
				"ui_engineer": {
					Route: zen, Mode: profile.ModeTurn, Permissions: profile.WorkspaceWrite,
					Contract: "contracts/engineering.json", Kinds: []string{"implement"}, Backends: asJob, MaxActive: 1, ScopeRequired: true, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
				"visual_verifier": {
					Route: login, Mode: profile.ModeTurn, Permissions: profile.ReadOnly,
					Contract: "contracts/visual.json", Kinds: []string{"visual_verification"}, Backends: asJob, MaxActive: 2, Trust: profile.TrustStandard, Visibility: profile.VisibilityDescendants,
				},
			},
		},
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			s := compile(t, id)
			c := s.Coordination
			if s.ProfileID != id || s.RootAgent != want.root || c.NativeNestedDelegation || (s.GatewayHash != "") != want.gateway {
				t.Errorf("id %q, root %q, nested native delegation %v, gateway %q", s.ProfileID, s.RootAgent, c.NativeNestedDelegation, s.GatewayHash)
			}
			if diff := cmp.Diff([3]int{want.depth, want.active, want.writers}, [3]int{c.MaxDepth, c.MaxActiveAgents, c.MaxActiveWriters}); diff != "" {
				t.Errorf("depth, agents, writers (-want +got):\n%s", diff)
			}
			got := map[string]role{}
			for name, agent := range s.Agents {
				got[name] = roleOf(agent)
			}
			if diff := cmp.Diff(want.agents, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the team (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGoalsAreBoundedByTokensAlone: an agent with a goal has a budget below its
// maximum and a stall limit that is a warning; one without has neither budget.
//
// Spec: A007
func TestGoalsAreBoundedByTokensAlone(t *testing.T) {
	t.Parallel()
	if a := compile(t, "adaptive-engineering").Agents["implementation_specialist"]; a.ExecutionMode != profile.ModeGoal {
		t.Errorf("implementation_specialist runs in mode %q", a.ExecutionMode)
	}
	for _, id := range ids(t) {
		for name, a := range compile(t, id).Agents {
			switch a.ExecutionMode {
			case profile.ModeGoal:
				if a.GoalTokenBudget <= 0 || a.GoalTokenBudget > a.MaxGoalTokenBudget {
					t.Errorf("%s/%s has a goal budget of %d, at most %d", id, name, a.GoalTokenBudget, a.MaxGoalTokenBudget)
				}
			case profile.ModeTurn:
				if a.GoalTokenBudget != 0 || a.MaxGoalTokenBudget != 0 {
					t.Errorf("%s/%s has a goal budget without a goal", id, name)
				}
			default:
				t.Errorf("%s/%s runs in mode %q", id, name, a.ExecutionMode)
			}
			if a.StallWarningSeconds < 60 {
				t.Errorf("%s/%s warns of a stall after %d s", id, name, a.StallWarningSeconds)
			}
		}
	}
}

// TestControls: the leads have every control over their jobs, and the specialist
// may look at the reviewer.
func TestControls(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		id, caller, target string
		actions            []string
	}{
		{"incident-hypothesis-triage", "incident_lead", "evidence_runner", controls},
		{"incident-hypothesis-triage", "incident_lead", "causal_challenger", controls},
		{"codex-harness-team", "integrator", "fresh_critic", controls},
		{"adaptive-engineering", "orchestrator", "adversarial_reviewer", controls},
		{"adaptive-engineering", "orchestrator", "implementation_specialist", controls},
		{"adaptive-engineering", "implementation_specialist", "adversarial_reviewer", []string{"inspect", "trace", "steer"}},
		{"bounded-research-organization-lab", "research_lead", "source_scout", controls},
	} {
		got := compile(t, test.id).Agents[test.caller].Controls[test.target]
		if diff := cmp.Diff(test.actions, got); diff != "" {
			t.Errorf("%s: %s over %s (-want +got):\n%s", test.id, test.caller, test.target, diff)
		}
	}
}

// TestAnswersAndEfforts: what single roles must allow.
func TestAnswersAndEfforts(t *testing.T) {
	t.Parallel()
	runner := compile(t, "incident-hypothesis-triage").Agents["evidence_runner"]
	if !slices.Equal(runner.Efforts, levels) || runner.ApprovalPolicy != "never" || !runner.MayAsk {
		t.Errorf("evidence_runner may use %q, approval %q, asks: %v", runner.Efforts, runner.ApprovalPolicy, runner.MayAsk)
	}
	lab := compile(t, "access-efficient-escalation-lab")
	scout := lab.Agents["literal_scout"]
	if scout.Effort != "none" || !slices.Equal(lab.Models[scout.Model].ReasoningLevels, []string{"none"}) {
		t.Errorf("literal_scout reasons: %q of %q", scout.Effort, lab.Models[scout.Model].ReasoningLevels)
	}
	plan := lab.Resources[lab.Routes[goPlan].Resource]
	if plan.ID != "opencode_go" || plan.LockKey != "provider:opencode-go" || lab.Models[lab.Agents["routine_engineer"].Model].Units != 1 {
		t.Errorf("routine_engineer holds %d of %+v", lab.Models[lab.Agents["routine_engineer"].Model].Units, plan)
	}
	visual := compile(t, "visual-engineering")
	for name, a := range visual.Agents {
		if !slices.Contains(visual.Models[a.Model].Modalities, "image") || !slices.Contains(visual.Routes[a.Route].TransportModalities, "image") {
			t.Errorf("%s of visual-engineering sees no images", name)
		}
	}
}
