package supervisor

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// TestBoundedObjective: a goal's objective is the task itself where it fits,
// else its beginning with the digest of the whole.
//
// Spec: A002
func TestBoundedObjective(t *testing.T) {
	t.Parallel()
	for _, letter := range []string{"x", "é", "😀"} {
		if fits := strings.Repeat(letter, 4000); mustObjective(t, fits) != fits {
			t.Errorf("a task of 4000 %q was changed", letter)
		}
		whole := strings.Repeat(letter, 3) + " " + strings.Repeat(letter, 5000)
		got := mustObjective(t, whole+"\n")
		sum := sha256.Sum256([]byte(whole))
		if n := utf8.RuneCountInString(got); n != 4000 {
			t.Errorf("the objective has %d code points, want 4000", n)
		}
		if begin := whole[:1000*len(letter)]; !strings.HasPrefix(got, begin) || !strings.Contains(got, hex.EncodeToString(sum[:])) {
			t.Errorf("the objective does not begin as the task, or lacks its digest: %q", got)
		}
		if again := mustObjective(t, whole+"\n"); again != got {
			t.Error("the same task has two objectives")
		}
	}
	for _, blank := range []string{"", " \n\t"} {
		if _, err := boundedObjective(blank); core.KindOf(err) != core.KindValue || !strings.Contains(err.Error(), "non-empty") {
			t.Errorf("the objective of %q: %v", blank, err)
		}
	}
}

func mustObjective(t *testing.T, task string) string {
	t.Helper()
	text, err := boundedObjective(task)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func inGoalMode(g store.Goal, turn string) func(*store.AgentRun, *profile.Agent) {
	return func(rec *store.AgentRun, role *profile.Agent) {
		role.ExecutionMode, role.GoalTokenBudget, role.MaxGoalTokenBudget = profile.ModeGoal, 10, 20
		rec.Goal, rec.ActiveTurnID = &g, turn
	}
}

// TestGoalActivatesWithItsFirstTurn: a goal that was seeded paused becomes
// active once, when a turn runs; without one nothing is sent.
func TestGoalActivatesWithItsFirstTurn(t *testing.T) {
	t.Parallel()
	seed := store.Goal{Objective: "x", Status: goalPaused, TokenBudget: 10, BootstrapPending: true}
	for _, tt := range []struct {
		turn string
		sent int
		want store.Goal
	}{
		{"", 0, seed},
		{"turn", 1, store.Goal{Objective: "x", Status: goalActive, TokenBudget: 10}},
	} {
		r := newRig(t, core.SessionRunning, core.JobRunning)
		host := &playedHost{}
		a := r.player(host, inGoalMode(seed, tt.turn))
		for range 2 {
			if err := a.activateGoal(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if len(host.goals) != tt.sent || tt.sent > 0 && (host.goals[0].GetStatus() != "active" || host.goals[0].GetTokenBudget() != 10) {
			t.Errorf("with turn %q the host was sent %v", tt.turn, host.goals)
		}
		if diff := cmp.Diff(&tt.want, r.runNow("ar_0").Goal); diff != "" {
			t.Errorf("with turn %q the goal is (-want +got):\n%s", tt.turn, diff)
		}
	}
}

// TestFinalizeEndsAGoal: an agent that is to give its result begins no turn by
// itself any more; told to continue, it does, with the budget it was given.
func TestFinalizeEndsAGoal(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning, core.JobRunning)
	host := &playedHost{}
	a := r.player(host, inGoalMode(store.Goal{Objective: "x", Status: goalActive, TokenBudget: 10}, "turn"))
	r.play(a)
	if _, err := r.order(0, control.ActionFinalize, ""); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"goal", "steer"}, host.commands); diff != "" {
		t.Errorf("the host was told (-want +got):\n%s", diff)
	}
	want := &store.Goal{Objective: "x", Status: goalPaused, TokenBudget: 10, Finalizing: true}
	if diff := cmp.Diff(want, r.runNow("ar_0").Goal); diff != "" {
		t.Errorf("the goal (-want +got):\n%s", diff)
	}
}

// TestContinuedGoalHasItsNewBudget: a goal that goes on is active again, within
// the budget that it was raised to, and the turn has the whole text.
func TestContinuedGoalHasItsNewBudget(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning, core.JobPaused)
	host := &playedHost{}
	a := r.player(host, inGoalMode(store.Goal{Objective: "x", Status: goalBudgetLimited, TokenBudget: 10, Finalizing: true}, ""))
	before := r.runNow("ar_0").Goal
	text := strings.Repeat("y", 4500)
	if _, err := a.obey(t.Context(), &order{action: control.ActionContinue, input: text, budget: 20, caller: "operator"}); err != nil {
		t.Fatal(err)
	}
	want := &store.Goal{Objective: "x", Status: goalActive, TokenBudget: 20}
	if diff := cmp.Diff(want, r.runNow("ar_0").Goal); diff != "" {
		t.Errorf("the goal (-want +got):\n%s", diff)
	}
	if before.TokenBudget != 10 {
		t.Error("the record that others hold was changed")
	}
	if len(host.texts) != 1 || host.texts[0] != text {
		t.Errorf("%d turns were begun, or not with the whole text", len(host.texts))
	}
	if j, err := r.cachedJob("j0"); err != nil || j.Status != core.JobRunning {
		t.Errorf("the job is %+v, %v", j, err)
	}
}

// TestGoalEnding: what a turn's end means depends on how its goal stands.
func TestGoalEnding(t *testing.T) {
	t.Parallel()
	end := ending{job: core.JobCompleted, session: core.SessionCompleted, kind: core.ResultFinal, text: "words"}
	for _, tt := range []struct {
		status string
		job    core.JobStatus
		kind   core.ResultKind
		fails  string
		goesOn bool
	}{
		{goalActive, core.JobCompleted, core.ResultFinal, "", true},
		{goalComplete, core.JobCompleted, core.ResultFinal, "", false},
		{goalPaused, core.JobCompleted, core.ResultFinal, "", false},
		{goalBudgetLimited, core.JobSuspended, core.ResultPartial, "goal_budget_limited", false},
		{goalBlocked, core.JobSuspended, core.ResultPartial, "goal_blocked", false},
		{goalUsageLimited, core.JobSuspended, core.ResultPartial, "provider_usage_limited", false},
	} {
		a := &agent{rec: store.AgentRun{Goal: &store.Goal{Status: tt.status}}}
		got, goesOn := a.goalEnding(end)
		kind := ""
		if got.failure != nil {
			kind = got.failure.Kind
		}
		if got.job != tt.job || got.kind != tt.kind || got.text != "words" || kind != tt.fails || goesOn != tt.goesOn {
			t.Errorf("%s: %+v, goes on %v", tt.status, got, goesOn)
		}
	}
}

// TestHarnessPrompt: a root that nobody types to is told how its goal ends; in
// mode turn its input is the prompt as it was given. The goal's objective is the
// prompt alone.
//
// Spec: R118
func TestHarnessPrompt(t *testing.T) {
	t.Parallel()
	const prompt = "Find the bug.\n"
	goal := profile.Agent{ExecutionMode: profile.ModeGoal}
	for _, same := range []string{
		harnessPrompt(prompt, kindNoninteractive, profile.Agent{ExecutionMode: profile.ModeTurn}),
		harnessPrompt(prompt, kindInteractive, goal),
	} {
		if same != prompt {
			t.Errorf("the input is %q, want the prompt", same)
		}
	}
	got := harnessPrompt(prompt, kindNoninteractive, goal)
	for _, part := range []string{prompt, "call `update_goal`", "`status=\"complete\"`", "final message alone does not terminate an active goal"} {
		if !strings.Contains(got, part) {
			t.Errorf("the input %q lacks %q", got, part)
		}
	}
}

// TestGoalReachedBeforeItsActivation: a model that reaches the goal before our
// activation comes to the engine has its word: the goal is set complete again,
// once, and in that turn alone.
func TestGoalReachedBeforeItsActivation(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning, core.JobRunning)
	host := &playedHost{}
	a := r.player(host, inGoalMode(store.Goal{Objective: "x", Status: goalPaused, TokenBudget: 10}, "turn"))
	if err := a.activateGoal(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, status := range []string{goalComplete, goalActive, goalComplete} { // the last is the engine's answer to us
		if err := a.goalUpdated(t.Context(), status); err != nil {
			t.Fatal(err)
		}
	}
	var sent []string
	for _, g := range host.goals {
		sent = append(sent, g.GetStatus())
	}
	if diff := cmp.Diff([]string{goalActive, goalComplete}, sent); diff != "" || a.rec.Goal.Status != goalComplete {
		t.Errorf("the goal is %s, the host was sent (-want +got):\n%s", a.rec.Goal.Status, diff)
	}
	a.rec.ActiveTurnID = "another"
	if err := a.goalUpdated(t.Context(), goalActive); err != nil {
		t.Fatal(err)
	}
	if len(host.goals) != 2 || a.rec.Goal.Status != goalActive {
		t.Errorf("in another turn the goal is %s, the host was sent %d orders", a.rec.Goal.Status, len(host.goals))
	}
}

// rootPlayer is the actor of the root in mode goal, on a played host.
func (r *rig) rootPlayer(host *playedHost, g store.Goal, turn string) *agent {
	r.t.Helper()
	rec := r.runNow(r.sess.RootAgentRef)
	rec.Retired, rec.ThreadID = false, "thread"
	role, err := r.snapshotAgent("lead")
	if err != nil {
		r.t.Fatal(err)
	}
	inGoalMode(g, turn)(&rec, &role)
	a := r.newAgent(&rec, role)
	a.host = host
	if err := a.save(r.t.Context(), nil); err != nil {
		r.t.Fatal(err)
	}
	return a
}

// TestGoalOfTheRootActivatesWithItsFirstTurn: the root's seeded goal is set
// active once, when a turn runs; without one nothing is sent.
//
// Spec: A004
func TestGoalOfTheRootActivatesWithItsFirstTurn(t *testing.T) {
	t.Parallel()
	seed := store.Goal{Objective: "x", Status: goalPaused, TokenBudget: 10, BootstrapPending: true}
	for _, tt := range []struct {
		turn string
		sent int
		want store.Goal
	}{
		{"", 0, seed},
		{"turn", 1, store.Goal{Objective: "x", Status: goalActive, TokenBudget: 10}},
	} {
		r := newRig(t, core.SessionRunning)
		host := &playedHost{}
		a := r.rootPlayer(host, seed, tt.turn)
		for range 2 {
			if err := a.activateGoal(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if len(host.goals) != tt.sent || tt.sent > 0 && host.goals[0].GetStatus() != "active" {
			t.Errorf("with turn %q the host was sent %v", tt.turn, host.goals)
		}
		if diff := cmp.Diff(&tt.want, r.runNow(r.sess.RootAgentRef).Goal); diff != "" {
			t.Errorf("with turn %q the goal is (-want +got):\n%s", tt.turn, diff)
		}
		if status, _ := r.statuses(); status != core.SessionRunning {
			t.Errorf("the session is %s", status)
		}
	}
}

// TestLateGoalOfAnEndedSession: what an engine says of its goal after its session
// has ended brings nothing back.
//
// Spec: A033
func TestLateGoalOfAnEndedSession(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning)
	host := &playedHost{}
	a := r.rootPlayer(host, store.Goal{Objective: "x", Status: goalPaused, TokenBudget: 10}, "")
	r.sessionBecomes(core.SessionFinishing)
	r.sessionBecomes(core.SessionCompleted)
	if err := a.goalUpdated(t.Context(), goalActive); err != nil {
		t.Fatal(err)
	}
	if err := a.turnStarted(t.Context(), "late"); err != nil {
		t.Fatal(err)
	}
	if status, _ := r.statuses(); status != core.SessionCompleted || len(host.goals) != 0 {
		t.Errorf("the session is %s, the host was sent %v", status, host.goals)
	}
}
