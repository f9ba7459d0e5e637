package main_test

import (
	"testing"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// crashScript lets the lead wait for a worker whose command takes a while. The
// rules say what the models do after a loss, so that every run that loses
// nothing ends with the same words.
const crashScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "work for a while"}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 60}
  step
    call mcp__mmo_mesh agent_result {"job_id": "${job_id 1}"}
  step
    say "The worker says: ${content 1 else nothing}"

  when output contains "Transport closed"
    step
      delay 300ms
      call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 60}
    repeat

  when output has timed_out_waiting true
    step
      call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 60}
    repeat

  when user starts "[recovery]"
    step
      call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 60}
    step
      call mcp__mmo_mesh agent_result {"job_id": "${job_id 1}"}
    step
      say "The worker says: ${content 1 else nothing}"

model m-worker
  step
    shell "sleep 3; echo worked"
  step
    say "DONE"

  when user starts "[recovery]"
    step
      say "DONE"
`

const crashResult = "The worker says: DONE"

// crashed is the part of a crash test that all share: kill, then everything
// ends as if nothing had happened.
func crashed(t *testing.T, kill func(tm *team)) *team {
	t.Helper()
	tm := newTeam(t, crashScript, 3)
	tm.start("go")
	tm.awaitWorkerShell()
	tm.look()
	kill(tm)
	out := tm.finish()
	if out.Status != "completed" || out.ExitCode != 0 || out.Result != crashResult {
		t.Errorf("exec ended %s (exit %d) with %q, want completed (0) with %q", out.Status, out.ExitCode, out.Result, crashResult)
	}
	tm.assertSentOnce()
	tm.assertClean()
	for _, e := range tm.stored().Evidence {
		if e.State != "present" || e.SHA256 == "" {
			t.Errorf("evidence %s of %s is %q, sha256 %q", e.Name, e.Owner, e.State, e.SHA256)
		}
	}
	return tm
}

// job returns the session's one job as it ended.
func (tm *team) job() control.JobView {
	tm.t.Helper()
	view := tm.stored()
	if len(view.Jobs) != 1 {
		tm.t.Fatalf("the session has %d jobs, want 1: %+v", len(view.Jobs), view.Jobs)
	}
	return view.Jobs[0]
}

// TestNothingIsLostWithoutACrash is the run that the others are compared with.
func TestNothingIsLostWithoutACrash(t *testing.T) {
	t.Parallel()
	tm := crashed(t, func(*team) {})
	if j := tm.job(); j.Status != "completed" || j.RecoveryAttempts != 0 || j.ResultState != "read" || !j.EvidenceComplete {
		t.Errorf("the job ended %+v", j)
	}
}

// TestMCPProcessOfRootKilled: Codex does not restart a dead MCP server; we make
// it, in the same turn of the same thread.
func TestMCPProcessOfRootKilled(t *testing.T) {
	t.Parallel()
	crashed(t, func(tm *team) { testkit.Kill9(t, tm.mcpOfRoot()) })
}

// TestKeeperKilled: the supervisor starts another keeper, which is then killed
// for nothing: the supervisor goes on.
func TestKeeperKilled(t *testing.T) {
	t.Parallel()
	crashed(t, func(tm *team) {
		old := tm.process("keeper", false)
		supervisor := tm.process("supervisor", false)
		testkit.Kill9(t, old)
		if !supervisor.Alive() {
			t.Error("the supervisor died with its keeper")
		}
	})
}

// TestSupervisorKilled: the keeper starts another one, which adopts hosts,
// engines and the gateway; the waiting exec command reconnects.
func TestSupervisorKilled(t *testing.T) {
	t.Parallel()
	var engine, host, gateway process.Identity
	tm := crashed(t, func(tm *team) {
		engine, host, gateway = tm.process("app-server", true), tm.process("host", true), tm.process("gateway", false)
		testkit.Kill9(t, tm.process("supervisor", false))
		if now := tm.process("app-server", true); now != engine {
			t.Errorf("the worker's engine is %+v after the crash, want %+v", now, engine)
		}
		if now := tm.process("host", true); now != host {
			t.Errorf("the worker's host is %+v after the crash, want %+v", now, host)
		}
		if now := tm.process("gateway", false); now != gateway {
			t.Errorf("the gateway is %+v after the crash, want %+v", now, gateway)
		}
	})
	if j := tm.job(); j.RecoveryAttempts != 0 {
		t.Errorf("a supervisor's death counted as %d recoveries of the worker", j.RecoveryAttempts)
	}
}

// TestHostOfWorkerKilled: a new host adopts the engine; the turn goes on.
func TestHostOfWorkerKilled(t *testing.T) {
	t.Parallel()
	var engine process.Identity
	tm := crashed(t, func(tm *team) {
		engine = tm.process("app-server", true)
		testkit.Kill9(t, tm.process("host", true))
		tm.await("the adoption", func(e control.FollowEvent) bool { return e.Text == "engine adopted; the turn was not disturbed" })
		if now := tm.process("app-server", true); now != engine {
			t.Errorf("the worker's engine is %+v after the loss of its host, want %+v", now, engine)
		}
	})
	if j := tm.job(); j.RecoveryAttempts != 1 {
		t.Errorf("recovery_attempts = %d, want 1", j.RecoveryAttempts)
	}
}

// TestHostOfRootKilled: the same for the root.
func TestHostOfRootKilled(t *testing.T) {
	t.Parallel()
	tm := crashed(t, func(tm *team) { testkit.Kill9(t, tm.process("host", false)) })
	if got := tm.stored().Recoveries; got != 1 {
		t.Errorf("root_recovery_attempts = %d, want 1", got)
	}
}

// TestGatewayKilled: the next gateway takes over port and bearers.
func TestGatewayKilled(t *testing.T) {
	t.Parallel()
	tm := crashed(t, func(tm *team) { testkit.Kill9(t, tm.process("gateway", false)) })
	if j := tm.job(); j.RecoveryAttempts != 0 {
		t.Errorf("the gateway's death counted as %d recoveries of the worker", j.RecoveryAttempts)
	}
}

// TestEngineOfWorkerKilled: the turn is lost with its engine; the thread is
// taken up by a new one, with one new input.
func TestEngineOfWorkerKilled(t *testing.T) {
	t.Parallel()
	tm := crashed(t, func(tm *team) { testkit.Kill9(t, tm.process("app-server", true)) })
	if j := tm.job(); j.RecoveryAttempts != 1 || j.Status != "completed" {
		t.Errorf("the job ended %s after %d recoveries, want completed after 1", j.Status, j.RecoveryAttempts)
	}
	tm.assertInputs("worker", "task turn_lost", "recovery turn_done")
}

// TestKeeperAndSupervisorKilled: nobody is left to bring the session back until
// somebody looks at it.
func TestKeeperAndSupervisorKilled(t *testing.T) {
	t.Parallel()
	crashed(t, func(tm *team) {
		keeper, supervisor := tm.process("keeper", false), tm.process("supervisor", false)
		testkit.Stop(t, keeper) // so that it can't restart what dies next
		testkit.Kill9(t, supervisor)
		testkit.Kill9(t, keeper)
		out, errs, code := tm.run("status", tm.session, "--json")
		if code != 0 {
			t.Errorf("status exited %d: %s%s", code, out, errs)
		}
		tm.look()
	})
}
