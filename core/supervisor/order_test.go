package supervisor

import (
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// TestNormaliseOrder: orders to the root and to workers are held to the same
// rules; what the caller leaves out is filled in for its kind.
//
// Spec: A005
func TestNormaliseOrder(t *testing.T) {
	t.Parallel()
	goal := profile.Agent{ID: "worker", ExecutionMode: profile.ModeGoal, GoalTokenBudget: 10, MaxGoalTokenBudget: 20, Efforts: []string{"low", "high"}}
	turn := profile.Agent{ID: "worker", ExecutionMode: profile.ModeTurn, Efforts: []string{"low"}}
	raised := store.AgentRun{Goal: &store.Goal{TokenBudget: 15}}
	revision := uint64(7)
	request := func(r control.ControlRequest) control.ControlRequest {
		r.ExpectedRevision = &revision
		return r
	}
	tests := []struct {
		name    string
		role    profile.Agent
		run     store.AgentRun
		request control.ControlRequest
		root    string // the input for the root; its error when fails is set
		job     string
		fails   bool
	}{
		{"continue", turn, store.AgentRun{}, request(control.ControlRequest{Action: "continue"}), continueRoot, continueJob, false},
		{"continue with an input", turn, store.AgentRun{}, request(control.ControlRequest{Action: "continue", Input: " on "}), "on", "on", false},
		{"finalize", turn, store.AgentRun{}, request(control.ControlRequest{Action: "finalize"}), finalizeRoot, finalizeJob, false},
		{"a budget up to the maximum", goal, store.AgentRun{}, request(control.ControlRequest{Action: "continue", GoalTokenBudget: 20}), continueRoot, continueJob, false},
		{"a budget above it", goal, store.AgentRun{}, request(control.ControlRequest{Action: "continue", GoalTokenBudget: 21}), "must be from 10 to 20", "must be from 10 to 20", true},
		{"a budget below the present one", goal, raised, request(control.ControlRequest{Action: "continue", GoalTokenBudget: 14}), "must be from 15 to 20", "must be from 15 to 20", true},
		{"a budget below zero", goal, store.AgentRun{}, request(control.ControlRequest{Action: "continue", GoalTokenBudget: -1}), "must be from 10", "must be from 10", true},
		{"a budget in mode turn", turn, store.AgentRun{}, request(control.ControlRequest{Action: "continue", GoalTokenBudget: 20}), "goal-mode run", "goal-mode job", true},
		{"a budget for a steer", goal, store.AgentRun{}, request(control.ControlRequest{Action: "steer", Input: "x", GoalTokenBudget: 20}), "goes with continue", "goes with continue", true},
		{"steer without an input", turn, store.AgentRun{}, request(control.ControlRequest{Action: "steer", Input: "\n "}), "needs an input", "needs an input", true},
		{"bytes that are no text", turn, store.AgentRun{}, request(control.ControlRequest{Action: "steer", Input: "\xff"}), "valid UTF-8", "valid UTF-8", true},
		{"an effort of the role", goal, store.AgentRun{}, request(control.ControlRequest{Action: "set_effort", Effort: "high"}), "", "", false},
		{"another effort", turn, store.AgentRun{}, request(control.ControlRequest{Action: "set_effort", Effort: "high"}), `may not think with effort "high"`, `may not think with effort "high"`, true},
		{"an answer to nothing", turn, store.AgentRun{}, request(control.ControlRequest{Action: "respond", Response: []byte(`{}`)}), "needs request_id", "needs request_id", true},
		{"no revision", turn, store.AgentRun{}, control.ControlRequest{Action: "stop"}, "needs expected_revision", "needs expected_revision", true},
		{"no such action", turn, store.AgentRun{}, request(control.ControlRequest{Action: "dance"}), `no action "dance"`, `no action "dance"`, true},
	}
	for _, tt := range tests {
		for _, root := range []bool{true, false} {
			want := tt.job
			if root {
				want = tt.root
			}
			o, err := normaliseOrder(tt.role, root, tt.run, tt.request)
			switch {
			case tt.fails:
				if core.KindOf(err) != core.KindValue || !strings.Contains(err.Error(), want) {
					t.Errorf("%s (root %v): error %v, want %q", tt.name, root, err, want)
				}
			case err != nil:
				t.Errorf("%s (root %v): %v", tt.name, root, err)
			case o.input != want || o.expected != 7 || o.budget != tt.request.GoalTokenBudget:
				t.Errorf("%s (root %v): input %q at %d with budget %d, want %q", tt.name, root, o.input, o.expected, o.budget, want)
			}
		}
	}
}
