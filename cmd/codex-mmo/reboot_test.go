package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// rebooted rewrites the records as a machine finds them after a reboot: every
// process on record is of another boot, and its number and start belong to
// stranger now. The runtime folder, which lies in memory, is gone.
func (tm *team) rebooted(stranger process.Identity) {
	tm.t.Helper()
	const lastBoot = "00000000-0000-4000-8000-000000000001"
	identity := func(at string) string {
		return fmt.Sprintf("'%[1]s.pid', %[2]d, '%[1]s.start_token', '%[3]s', '%[1]s.boot_id', '%[4]s'", at, stranger.PID, stranger.StartToken, lastBoot)
	}
	columns := func(pid, start, boot string) string {
		return fmt.Sprintf("%s = %d, %s = '%s', %s = '%s'", pid, stranger.PID, start, stranger.StartToken, boot, lastBoot)
	}
	testkit.ExecSQL(tm.t, tm.folders.Database(),
		"UPDATE agent_runs SET "+columns("host_pid", "host_start", "host_boot")+", "+columns("engine_pid", "engine_start", "engine_boot")+
			", payload = json_set(payload, "+identity("$.host.process")+", "+identity("$.engine")+")",
		"UPDATE gateways SET "+columns("pid", "start_token", "boot_id")+", payload = json_set(payload, "+identity("$.process")+")",
	)
	if err := os.RemoveAll(tm.place.Runtime); err != nil {
		tm.t.Fatal(err)
	}
}

// TestReboot: after a reboot the records name processes of another boot, whose
// numbers strangers have now. The next command takes no stranger for ours, resume
// goes on on the same threads, and no stranger is touched.
func TestReboot(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, pauseScript, 3)
	job, root, worker := tm.atWork()
	tm.leaveExec()
	tm.die()
	tm.assertNoProcess()
	other := exec.Command("sleep", "3600")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	stranger, err := process.Lookup(other.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	tm.rebooted(stranger)

	shown := tm.stored()
	if shown.RootThreadID != root || len(shown.Jobs) != 1 || shown.Jobs[0].ThreadID != worker {
		t.Errorf("status shows threads %s and %+v, want %s and %s", shown.RootThreadID, shown.Jobs, root, worker)
	}
	for _, p := range shown.Processes {
		if p.PID == stranger.PID && p.Alive {
			t.Errorf("status shows a stranger as the session's %s", p.Role)
		}
	}
	screen := tm.open("resume", tm.session)
	screen.await("The worker says: DONE")
	tm.assertResumed(screen, job, root, worker)
	if !stranger.Alive() {
		t.Error("the stranger that has the number of a process on record was killed")
	}
	tm.assertClean()
}

// TestTwoVerbsAtOnce: commands that are given together come one after the
// other. Each is done whole or says why it was not, whoever was first, and the
// session ends in a state that one of them asked for, its jobs with it.
func TestTwoVerbsAtOnce(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, pauseScript, 3)
	tm.atWork()
	tm.leaveExec()
	tm.look()

	var wg sync.WaitGroup
	verbs := []string{"pause", "stop", "pause", "stop"}
	said, codes := make([]string, len(verbs)), make([]int, len(verbs))
	for i, verb := range verbs {
		wg.Go(func() {
			_, said[i], codes[i] = tm.run(verb, tm.session)
		})
	}
	wg.Wait()
	for i, verb := range verbs {
		t.Logf("%s: exit code %d: %s", verb, codes[i], said[i])
		if verb == "stop" && codes[i] != 0 {
			t.Errorf("a stop failed: %s", said[i])
		}
		if codes[i] != 0 && !strings.Contains(said[i], "stopped") {
			t.Errorf("a refused pause does not say that the session is stopped: %s", said[i])
		}
	}
	end := tm.stored()
	if end.Status != "stopped" || !core.JobStatus(end.Jobs[0].Status).Terminal() {
		t.Errorf("the session ended %s, its job %s; want stopped, and the job over", end.Status, end.Jobs[0].Status)
	}
	tm.assertClean()
}
