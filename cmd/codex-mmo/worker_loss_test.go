package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// history is the thread of a job as it was kept at the job's end.
type history struct {
	ThreadID string `json:"thread_id"`
	Turns    []struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	} `json:"turns"`
}

func (tm *team) history(job string) (h history) {
	tm.t.Helper()
	if err := json.Unmarshal([]byte(tm.result(job, "terminal-history.json")), &h); err != nil {
		tm.t.Fatal(err)
	}
	return h
}

// statuses lists how the turns of a history ended.
func (h history) statuses() (list []string) {
	for _, turn := range h.Turns {
		list = append(list, turn.Status)
	}
	return list
}

// run reads the record of a job's agent run.
func (tm *team) runOf(ref string) *store.AgentRun {
	tm.t.Helper()
	var run *store.AgentRun
	tm.view(func(tx *store.Tx) (err error) {
		run, err = tx.AgentRun(ref)
		return err
	})
	return run
}

// TestWorkerRecoversOnItsThread: a worker whose app-server dies under its turn
// goes on, on the thread that it had, in one more turn.
//
// Spec: R076
func TestWorkerRecoversOnItsThread(t *testing.T) {
	t.Parallel()
	tm := newRuledTeam(t, 3)
	j := tm.working()
	testkit.Kill9(t, tm.process("app-server", true))
	end := tm.awaitJob(j.JobID, "completed")
	if end.ThreadID != j.ThreadID || end.RecoveryAttempts != 1 || end.RecoveryError != "" || tm.result(j.JobID, "result.md") != "RECOVERED" {
		t.Errorf("it ended %+v", end)
	}
	h := tm.history(j.JobID)
	if diff := cmp.Diff([]string{"interrupted", "completed"}, h.statuses()); diff != "" || h.ThreadID != j.ThreadID || h.Turns[1].ID != end.LastTurnID {
		t.Errorf("the history is %+v, the last turn %s", h, end.LastTurnID)
	}
	tm.assertInputs("worker", "task turn_lost", "recovery turn_done")
	tm.over()
}

// TestDetachedWorkerRecovers: nobody's interest is needed for that.
//
// Spec: R077
func TestDetachedWorkerRecovers(t *testing.T) {
	t.Parallel()
	tm := newRuledTeam(t, 3)
	j := tm.working()
	if got := tm.mustOrder(control.ControlRequest{JobID: j.JobID, Action: control.ActionDetach}, 0); got.Job.Status != "detached" {
		t.Errorf("after the detach the job is %s", got.Job.Status)
	}
	testkit.Kill9(t, tm.process("app-server", true))
	if end := tm.awaitJob(j.JobID, "completed"); end.ThreadID != j.ThreadID || end.RecoveryAttempts != 1 || tm.result(j.JobID, "result.md") != "RECOVERED" {
		t.Errorf("it ended %+v", end)
	}
	tm.over()
}

// rolloutHas reports whether what Codex wrote of a role's threads has the text.
func (tm *team) rolloutHas(agent, text string) (found bool) {
	tm.t.Helper()
	dir := filepath.Join(tm.folders.SessionDir(tm.session), "homes", agent, "sessions")
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		found = found || strings.Contains(string(raw), text)
		return err
	})
	if err != nil {
		tm.t.Fatal(err)
	}
	return found
}

// TestEndThatNobodyHeardOf: a turn that ended on disk before the app-server went
// is found there, and is not begun again.
//
// Spec: R078
func TestEndThatNobodyHeardOf(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, strings.Replace(ruledScript, `shell "sleep 600 & sleep 600"`, `shell "while [ ! -e go ]; do sleep 0.1; done"`, 1), 3)
	j := tm.working()
	engine, host := tm.process("app-server", true), tm.process("host", true)
	testkit.Stop(t, host) // whatever the app-server tells from now on, nobody hears it
	if err := os.WriteFile(filepath.Join(tm.place.Workspace, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tm.until("the end of the turn on disk", func() bool { return tm.rolloutHas("worker", `"task_complete"`) })
	testkit.Kill9(t, engine)
	testkit.Kill9(t, host)
	end := tm.awaitJob(j.JobID, "completed")
	if end.ThreadID != j.ThreadID || end.RecoveryAttempts != 1 || end.LastTurnID != j.ActiveTurnID || tm.result(j.JobID, "result.md") != "STEERED" {
		t.Errorf("it ended %+v with %q", end, tm.result(j.JobID, "result.md"))
	}
	if h := tm.history(j.JobID); len(h.Turns) != 1 || h.Turns[0].ID != end.LastTurnID {
		t.Errorf("the history is %+v, want the turn %s alone", h, end.LastTurnID)
	}
	path := filepath.Join(tm.folders.JobDir(j.JobID), "events.jsonl")
	if sent := sentInputs(t, path); len(sent) != 1 {
		t.Errorf("turns were begun for %v, want one", sent)
	}
	if raw := tm.result(j.JobID, "events.jsonl"); strings.Contains(raw, `"method":"turn/completed"`) {
		t.Error("the end of the turn was told: the test proves nothing")
	}
	tm.assertInputs("worker", "task turn_done")
	tm.over()
}

// suspended brings a worker that may not be recovered to rest by the loss of its
// host, and returns its job.
func (tm *team) suspended() control.JobView {
	tm.t.Helper()
	j := tm.working()
	engine, sleepers := tm.process("app-server", true), tm.sleepers(j.AgentRunRef)
	testkit.Kill9(tm.t, tm.process("host", true))
	tm.await("the suspension", func(e control.FollowEvent) bool {
		if e.JobID != j.JobID || e.Status != "suspended" {
			return false
		}
		for _, id := range append(slices.Clone(sleepers), engine) {
			if id.Alive() {
				tm.t.Errorf("process %d lives while its job is shown as suspended", id.PID)
			}
		}
		return true
	})
	return tm.jobNow()
}

// TestSuspendedWorkerGoesOn: a worker whose recoveries are used up rests with
// what it had on record and no process; told to go on it does, on its thread,
// as another caller.
//
// Spec: R081
func TestSuspendedWorkerGoesOn(t *testing.T) {
	t.Parallel()
	tm := newRuledTeam(t, 0)
	j := tm.suspended()
	before := tm.runOf(j.AgentRunRef)
	partial := tm.result(j.JobID, "partial-result.md")
	if j.Status != "suspended" || j.ResultKind != "partial" || !strings.Contains(partial, "persisted app-server thread "+j.ThreadID) {
		t.Errorf("the job rests %+v with %q", j, partial)
	}
	got := tm.mustOrder(control.ControlRequest{JobID: j.JobID, Action: control.ActionContinue, Input: "And then what?"}, 0)
	if got.Result["recovery_requested"] != true {
		t.Errorf("continue answers %v", got.Result)
	}
	end := tm.awaitJob(j.JobID, "completed")
	if end.ThreadID != j.ThreadID || end.StartedAt == nil || !end.StartedAt.Equal(*j.StartedAt) || end.ControlStatus != "applied" || end.ControlRevision != 1 ||
		tm.result(j.JobID, "result.md") != "FORKED" {
		t.Errorf("it ended %+v", end)
	}
	if got := tm.result(j.JobID, "partial-result.md"); got != partial {
		t.Errorf("the partial result became %q", got)
	}
	tm.view(func(tx *store.Tx) error {
		list, err := tx.Inputs(j.AgentRunRef)
		if last := list[len(list)-1]; last.Text != "And then what?" || last.State != store.InputTurnDone || last.ControlRevision != 1 {
			t.Errorf("its last input is %+v", last)
		}
		caps, capErr := tx.Capabilities(j.AgentRunRef)
		hashes := map[string]uint64{}
		for _, c := range caps {
			if c.Kind == "caller" {
				hashes[c.TokenSHA256] = c.Generation
			}
		}
		if len(hashes) != 2 {
			t.Errorf("the worker was given the caller tokens %v, want one for each engine", hashes)
		}
		if capErr != nil {
			return capErr
		}
		return err
	})
	after := tm.runOf(j.AgentRunRef)
	socket := regexp.MustCompile(`e[0-9a-f]{8}\.sock`)
	if a, b := string(socket.Find(before.Handle)), string(socket.Find(after.Handle)); a != b || a == "" || after.Generation != before.Generation+1 {
		t.Errorf("its engines %d and %d listened on %q and %q", before.Generation, after.Generation, a, b)
	}
	var events []string
	for _, event := range tm.auditEvents() {
		if strings.HasPrefix(event, "agent_") && event != "agent_control" && event != "agent_ended" {
			events = append(events, event)
		}
	}
	if diff := cmp.Diff([]string{"agent_started", "agent_resumed"}, events); diff != "" {
		t.Errorf("the audit says of it (-want +got):\n%s", diff)
	}
	err := filepath.WalkDir(tm.place.State, func(path string, _ os.DirEntry, err error) error {
		if filepath.Base(path) == "caller-token" {
			t.Errorf("a token lies in %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	tm.over()
}

// TestSuspendedWorkerStops: a worker at rest can be ended for good; what it had
// stays.
//
// Spec: R087
func TestSuspendedWorkerStops(t *testing.T) {
	t.Parallel()
	tm := newRuledTeam(t, 0)
	j := tm.suspended()
	partial := tm.result(j.JobID, "partial-result.md")
	if got := tm.mustOrder(control.ControlRequest{JobID: j.JobID, Action: control.ActionStop}, 0); got.Job.Status != "stopped" || got.Job.FinishedAt == nil {
		t.Errorf("the stopped job is %+v", got.Job)
	}
	if end := tm.stored().Jobs[0]; end.Status != "stopped" || end.ResultKind != "partial" || tm.result(j.JobID, "partial-result.md") != partial || partial == "" {
		t.Errorf("it ended %+v", end)
	}
	tm.over()
}
