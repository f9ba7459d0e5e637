package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// holdersOf reads the accounting.
func holdersOf(t *testing.T, s *store.Store) (list []store.Holder, err error) {
	t.Helper()
	err = s.View(t.Context(), func(tx *store.Tx) (err error) {
		list, err = tx.Accounting()
		return err
	})
	return list, err
}

// TestAccounting: the accounting says of each root and job that is not over what
// its record says, with the processes of its agent run, and drops it in the
// transaction that ends it.
func TestAccounting(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	host, engine := store.Process{PID: 7, StartToken: "h", BootID: "b"}, store.Process{PID: 8, StartToken: "e", BootID: "b"}
	rec, j, worker1, rootRun := session("s1"), job("j1", "s1"), agentRun("ar_j1", "s1", "j1"), agentRun("ar_root", "s1", "")
	rec.RootLockKey, rec.RootUnits = "cards", 2
	j.Mode, j.LockKey, j.Units, j.Lease = "workspace-write", "cards", 3, store.Lease{Paths: []string{"/work/s1/a", "/work/s1/b"}, FoldsCase: true}
	worker1.Host.Process, worker1.Engine, rootRun.Engine = host, engine, engine
	update(t, s, func(tx *store.Tx) error {
		return all(tx.PutJob(j), tx.PutAgentRun(worker1), tx.PutSession(rec), tx.InsertRun(run("s1")), tx.PutAgentRun(rootRun))
	})
	root := store.Holder{
		SessionID: "s1", AgentRef: "ar_root", ProfileID: "demo", Status: "starting", Class: store.ClassHeld,
		LockKey: "cards", Units: 2, Engine: engine,
	}
	worker := store.Holder{
		SessionID: "s1", JobID: "j1", AgentRef: "ar_j1", ProfileID: "demo", Agent: "reader", Mode: "workspace-write",
		Status: "queued", Class: store.ClassHeld, LockKey: "cards", Units: 3, Scopes: []string{"/work/s1/a", "/work/s1/b"},
		FoldsCase: true, Host: host, Engine: engine,
	}
	check := func(what string, want ...store.Holder) {
		t.Helper()
		got, err := holdersOf(t, s)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	check("at first", root, worker)
	for _, step := range []struct {
		status  core.JobStatus
		session core.SessionStatus
		class   store.Class // of both
	}{
		{core.JobRunning, core.SessionRunning, store.ClassHeld},
		{core.JobPaused, core.SessionPaused, store.ClassLive},
		{core.JobRecovering, core.SessionRunning, store.ClassHeld},
		{core.JobDetached, core.SessionDetached, store.ClassHeld},
		{core.JobSuspended, core.SessionSuspended, store.ClassLive},
		{core.JobCancelling, core.SessionCancelling, store.ClassHeld},
	} {
		if j.Status == core.JobRecovering {
			j.Status = core.JobRunning
			update(t, s, func(tx *store.Tx) error { return tx.PutJob(j) })
		}
		j.Status, rec.Status = step.status, step.session
		update(t, s, func(tx *store.Tx) error { return all(tx.PutJob(j), tx.PutSession(rec)) })
		root.Status, root.Class, worker.Status, worker.Class = string(step.session), step.class, string(step.status), step.class
		check(string(step.status), root, worker)
	}
	j.Status = core.JobCancelled
	update(t, s, func(tx *store.Tx) error { return tx.PutJob(j) })
	check("after the job's end", root)
	rec.Status = core.SessionCancelled
	update(t, s, func(tx *store.Tx) error { return tx.PutSession(rec) })
	check("after the session's end")
}

// TestAccountingOfAnotherPackage: records of another state package count by
// their columns, whatever their payload holds.
func TestAccountingOfAnotherPackage(t *testing.T) {
	t.Parallel()
	s, path := open(t)
	seed(t, s, "other")
	damage(t, path,
		`UPDATE sessions SET package_version = '7.0.0', lock_key = 'k', units = 2, payload = '{"shape": "of the future"}'`,
		`UPDATE jobs SET package_version = '7.0.0', mode = 'workspace-write', scopes = '["/x"]', payload = '{}'`,
		`UPDATE agent_runs SET package_version = '7.0.0', payload = '{}'`)
	got, err := holdersOf(t, s)
	if err != nil {
		t.Fatal(err)
	}
	want := []store.Holder{
		{SessionID: "other", AgentRef: "ar_root-other", ProfileID: "demo", Status: "starting", Class: store.ClassHeld, LockKey: "k", Units: 2},
		{
			SessionID: "other", JobID: "j-other", AgentRef: "ar_j-other", ProfileID: "demo", Agent: "reader", Mode: "workspace-write",
			Status: "queued", Class: store.ClassHeld, Scopes: []string{"/x"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
}

// TestAccountingFailsClosed: what can't be read, or says two things, refuses the
// whole; what is over may be damaged.
func TestAccountingFailsClosed(t *testing.T) {
	t.Parallel()
	const job, sess = "invalid job state", "invalid session state"
	for name, tt := range map[string]struct{ table, sql, want string }{
		"a job that is a list":          {"jobs", "UPDATE jobs SET payload = '[]'", job},
		"a job of another schema":       {"jobs", "UPDATE jobs SET schema_version = 1", job},
		"units apart":                   {"jobs", "UPDATE jobs SET lock_key = 'k', units = 5", job},
		"a scope apart":                 {"jobs", `UPDATE jobs SET scopes = '["/"]'`, job},
		"folding apart":                 {"jobs", "UPDATE jobs SET folds_case = 1", job},
		"a status apart":                {"jobs", "UPDATE jobs SET status = 'paused'", job},
		"a job without its agent run":   {"agent_runs", "DELETE FROM agent_runs WHERE job_id = 'j-s1'", job},
		"an agent run that is a list":   {"agent_runs", "UPDATE agent_runs SET payload = '[]'", job},
		"processes apart":               {"agent_runs", "UPDATE agent_runs SET host_pid = 1", job},
		"a session that is a list":      {"sessions", "UPDATE sessions SET payload = '[]'", sess},
		"a root's units apart":          {"sessions", "UPDATE sessions SET lock_key = 'k', units = 5", sess},
		"a job that has ended":          {"jobs", "UPDATE jobs SET payload = '[]', status = 'completed'", ""},
		"a session that has ended":      {"sessions", "UPDATE sessions SET payload = '[]', status = 'completed'", ""},
		"a job without package":         {"jobs", "UPDATE jobs SET package_version = NULL", job},
		"scopes of another that are no": {"jobs", "UPDATE jobs SET package_version = '7.0.0', mode = 'workspace-write', scopes = '{}'", job},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, path := open(t)
			seed(t, s, "s1")
			weaken(t, path, tt.table)
			damage(t, path, tt.sql)
			_, err := holdersOf(t, s)
			if tt.want == "" {
				if err != nil {
					t.Errorf("Accounting = %v, want it to pass over what is over", err)
				}
				return
			}
			wantError(t, "Accounting", err, core.KindRuntime, tt.want)
		})
	}
}

// TestAccountingReadsNoFinishedJob: the plan of the accounting, and of the check
// before it, looks for open records by index and never reads a whole table.
func TestAccountingReadsNoFinishedJob(t *testing.T) {
	t.Parallel()
	_, path := open(t)
	for _, text := range []string{
		"SELECT * FROM accounting",
		"SELECT * FROM jobs WHERE status IN ('queued', 'running') ORDER BY rowid",
		"SELECT * FROM sessions WHERE status IN ('starting', 'running') ORDER BY rowid",
	} {
		plan := explain(t, path, text)
		if plan = strings.ReplaceAll(plan, "SCAN accounting", ""); strings.Contains(plan, "SCAN jobs") || strings.Contains(plan, "SCAN sessions") || strings.Contains(plan, "SCAN agent_runs") ||
			strings.Contains(plan, "SCAN j") || strings.Contains(plan, "SCAN s") || strings.Contains(plan, "SCAN r") {
			t.Errorf("%s reads a whole table:\n%s", text, plan)
		}
	}
}

// explain returns the plan of a query.
func explain(t *testing.T, path, text string) string {
	t.Helper()
	var lines strings.Builder
	for line := range strings.Lines(query(t, path, "EXPLAIN QUERY PLAN "+text)) {
		if detail, ok := strings.CutPrefix(line, "detail="); ok {
			lines.WriteString(detail)
		}
	}
	if lines.Len() == 0 {
		t.Fatalf("no plan for %s", text)
	}
	return lines.String()
}

// TestManyHolders: the order is by session and job, and nothing is left out.
func TestManyHolders(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	var want []string
	for i := range 5 {
		id := fmt.Sprintf("s%d", i)
		seed(t, s, id)
		want = append(want, id+"/", id+"/j-"+id)
	}
	got, err := holdersOf(t, s)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, h := range got {
		names = append(names, h.SessionID+"/"+h.JobID)
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
}
