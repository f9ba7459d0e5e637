package main_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	_ "modernc.org/sqlite" // to write what another boot would have left

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/process"
)

// rebooted rewrites the records as a machine finds them after a reboot: every
// process on record is of another boot, and its number and start belong to
// stranger now. The runtime folder, which lies in memory, is gone.
func (tm *team) rebooted(stranger process.Identity) {
	tm.t.Helper()
	const lastBoot = "00000000-0000-4000-8000-000000000001"
	db, err := sql.Open("sqlite", "file:"+tm.folders.Database()+"?_pragma=busy_timeout(10000)")
	if err != nil {
		tm.t.Fatal(err)
	}
	defer db.Close()
	recorded := regexp.MustCompile(`"pid":[1-9][0-9]*,"start_token":"[^"]+","boot_id":"[^"]+"`)
	other := fmt.Sprintf(`"pid":%d,"start_token":"%s","boot_id":"%s"`, stranger.PID, stranger.StartToken, lastBoot)
	changed := 0
	for table, columns := range map[string][]string{
		"agent_runs": {"host_", "engine_"}, "gateways": {""}, "launches": nil, "sessions": nil, "jobs": nil,
	} {
		payloads := map[int64]string{}
		list, err := db.Query("SELECT rowid, payload FROM " + table)
		if err != nil {
			tm.t.Fatal(err)
		}
		for list.Next() {
			var row int64
			var payload string
			if err := list.Scan(&row, &payload); err != nil {
				tm.t.Fatal(err)
			}
			payloads[row] = payload
		}
		if err := errors.Join(list.Err(), list.Close()); err != nil {
			tm.t.Fatal(err)
		}
		for row, payload := range payloads {
			changed += len(recorded.FindAllString(payload, -1))
			if _, err := db.Exec("UPDATE "+table+" SET payload = ? WHERE rowid = ?", recorded.ReplaceAllString(payload, other), row); err != nil {
				tm.t.Fatal(err)
			}
		}
		for _, prefix := range columns {
			names := []string{prefix + "pid", prefix + "start", prefix + "boot"}
			if prefix == "" {
				names = []string{"pid", "start_token", "boot_id"}
			}
			set := fmt.Sprintf("UPDATE %s SET %s = ?, %s = ?, %s = ? WHERE %[2]s IS NOT NULL", table, names[0], names[1], names[2])
			if _, err := db.Exec(set, stranger.PID, stranger.StartToken, lastBoot); err != nil {
				tm.t.Fatal(err)
			}
		}
	}
	if changed < 4 { // host and engine of the root and of the worker
		tm.t.Fatalf("only %d processes were on record", changed)
	}
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
	if got := tm.audited("session_jobs_reconciled"); got == nil || fmt.Sprint(got["jobs"]) != fmt.Sprint([]string{job}) {
		t.Errorf("the audit of session_jobs_reconciled is %v, want job %s", got, job)
	}
	view := tm.look()
	if view.RootThreadID != root || view.Jobs[0].ThreadID != worker {
		t.Errorf("the threads are %s and %s, want %s and %s", view.RootThreadID, view.Jobs[0].ThreadID, root, worker)
	}
	tm.assertSentOnce()
	screen.enter("/quit", "EXIT=0")
	tm.awaitStatus("completed") // nobody looks on any more
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
