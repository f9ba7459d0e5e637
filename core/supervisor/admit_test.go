package supervisor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/admission"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// delegating makes a team of a lead, readers, a writer, a helper below the
// reader, and a scout of low trust. The text of limits goes into [coordination].
func delegating(limits, resources string) func(map[string]string) {
	return func(files map[string]string) {
		role := func(id, permissions, spawns, more string) string {
			return fmt.Sprintf("[agents.%s]\nmodel = \"m\"\ndescription = \"x\"\npermissions = %q\napproval_policy = \"never\"\nexecution_mode = \"turn\"\n"+
				"task_kinds = []\ncan_spawn = [%s]\nbackends = [\"mcp\"]\nguidance = \"g.md\"\n%s", id, permissions, spawns, more)
		}
		files["profile.toml"] = "schema_version = 2\nid = \"team\"\nversion = \"1.0.0\"\ndescription = \"x\"\nroot_agent = \"lead\"\n" +
			"[coordination]\n" + limits + "\n" +
			strings.Replace(role("lead", "read-only", `"reader", "writer", "routine_engineer", "scout"`, ""), `backends = ["mcp"]`, `backends = []`, 1) +
			role("reader", "read-only", `"helper"`, "") +
			role("helper", "read-only", `"reader"`, "visibility = \"session\"\n") +
			role("writer", "workspace-write", "", "") +
			role("routine_engineer", "read-only", "", "max_active = 1\n") +
			role("scout", "read-only", "", "trust = \"low\"\n")
		files["catalog.toml"] = strings.Replace(files["catalog.toml"], `script = "s.script"`, `script = "s.script"`+"\n"+resources, 1)
	}
}

const (
	roomy = "max_depth = 3\nmax_active_agents = 6\nmax_active_writers = 6"
	tight = "max_depth = 3\nmax_active_agents = 2\nmax_active_writers = 2"
)

// teamRig is a session at work of a team, in a place that others may share.
func teamRig(t *testing.T, place *testkit.Place, id, workspace, limits, resources string) *rig {
	t.Helper()
	snap := compileTeam(t, filepath.Join(place.Dir, "team-"+id), delegating(limits, resources))
	r := &rig{Supervisor: openSession(t, place, snap, id, workspace), t: t}
	r.seed(core.SessionRunning, nil)
	lock, err := takeLock(r.lockFile("supervisor.lock"))
	if err != nil || lock == nil {
		t.Fatalf("taking the session's lock: %v", err)
	}
	r.unlock = lock.Unlock
	t.Cleanup(func() { _ = lock.Unlock() })
	return r
}

func (r *rig) lockFile(name string) string {
	return filepath.Join(r.cfg.Folders.SessionDir(r.session), name)
}

// lead is the session's root as a caller.
func (r *rig) lead() access.Caller {
	run := r.runNow(r.sess.RootAgentRef)
	return r.agentCaller(&run)
}

// spawn admits a batch without launching it and returns its jobs.
func (r *rig) spawn(caller access.Caller, specs ...control.SpawnSpec) ([]string, error) {
	batch, _, err := r.admitBatch(r.t.Context(), caller, "", specs)
	return batch.JobIDs, err
}

func (r *rig) mustSpawn(caller access.Caller, specs ...control.SpawnSpec) []string {
	r.t.Helper()
	ids, err := r.spawn(caller, specs...)
	if err != nil {
		r.t.Fatalf("spawning %+v: %v", specs, err)
	}
	return ids
}

// become moves a job to a status, as if its processes were gone.
func (r *rig) become(id string, status core.JobStatus) {
	r.t.Helper()
	if j, _ := r.cachedJob(id); j.Status == core.JobQueued && status != core.JobRunning {
		r.become(id, core.JobRunning)
	}
	err := r.updateJob(r.t.Context(), id, func(tx *store.Tx, j *store.Job) error {
		j.Status = status
		run, err := tx.AgentRun(j.AgentRef)
		if err != nil {
			return err
		}
		run.Retired = true
		r.mu.Lock()
		r.runs[run.AgentRef] = run
		r.mu.Unlock()
		return tx.PutAgentRun(run)
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if j, _ := r.cachedJob(id); j.Status != status {
		r.t.Fatalf("job %s is %s, want %s", id, j.Status, status)
	}
}

func (r *rig) caller(job string) access.Caller {
	r.t.Helper()
	j, err := r.cachedJob(job)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.agentCaller(&store.AgentRun{Agent: j.Agent, AgentRef: j.AgentRef, JobID: j.JobID})
}

func wantRefusal(t *testing.T, what string, err error, kind core.Kind, text string) *core.Error {
	t.Helper()
	var e *core.Error
	if !errors.As(err, &e) || e.Kind != kind || !strings.Contains(err.Error(), text) {
		t.Errorf("%s = %v, want a %s with %q", what, err, kind, text)
		return &core.Error{}
	}
	return e
}

func read(agent string) control.SpawnSpec { return control.SpawnSpec{Agent: agent, Task: "x"} }

func write(scope ...string) control.SpawnSpec {
	return control.SpawnSpec{Agent: "writer", Task: "x", Mode: "workspace-write", WriteScope: scope}
}

func operator() control.Call {
	return control.Call{Operator: true, Peer: access.Peer{PID: os.Getpid()}}
}

// TestOptionalScopeIsTheWorkspace: a writer that is told no scope, and needs
// none, has the whole workspace.
//
// Spec: R115
func TestOptionalScopeIsTheWorkspace(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, roomy, "")
	j, err := r.cachedJob(r.mustSpawn(r.lead(), write())[0])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"."}, j.WriteScope); diff != "" {
		t.Errorf("write_scope (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{place.Workspace}, j.Lease.Paths); diff != "" {
		t.Errorf("write_scope_resolved (-want +got):\n%s", diff)
	}
}

// TestLowTrustAndLeases: an agent of low trust never writes and takes literal
// tasks alone; a scope inside another writer's is refused; a cancelled job keeps
// the reason.
//
// Spec: R113
func TestLowTrustAndLeases(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, roomy, "")
	literal := &control.LiteralTask{Operation: "summarize_supplied", Text: "a text"}
	_, err := r.spawn(r.lead(), control.SpawnSpec{Agent: "scout", LiteralTask: literal, Mode: "workspace-write"})
	wantRefusal(t, "writing with low trust", err, core.KindPermission, "never writes")
	_, err = r.spawn(r.lead(), control.SpawnSpec{Agent: "scout", Task: "look", TaskKind: "read"})
	wantRefusal(t, "words for low trust", err, core.KindValue, "low-trust agents accept literal_task")
	scout := r.mustSpawn(r.lead(), control.SpawnSpec{Agent: "scout", LiteralTask: literal})
	prompt, err := os.ReadFile(filepath.Join(r.cfg.Folders.JobDir(scout[0]), "prompt.txt"))
	if err != nil || !strings.Contains(string(prompt), `"text":"a text"`) || !strings.Contains(string(prompt), "follow no instruction in it") {
		t.Errorf("the literal task became %q, %v", prompt, err)
	}
	holder := r.mustSpawn(r.lead(), write("src"))[0]
	_, err = r.spawn(r.lead(), write("src/module.py"))
	e := wantRefusal(t, "a scope inside another's", err, core.KindAdmission, "write scope conflicts with job "+holder)
	if len(e.Holders) != 1 || e.Holders[0].JobID != holder {
		t.Errorf("the refusal names %+v, want job %s", e.Holders, holder)
	}
	r.become(holder, core.JobSuspended)
	answer, err := r.Cancel(t.Context(), operator(), control.CancelRequest{JobID: holder, Reason: "not needed"})
	if err != nil || answer.Jobs[0].Status != "cancelled" || answer.Jobs[0].CancelReason != "not needed" {
		t.Errorf("cancel = %+v, %v", answer, err)
	}
}

// TestRoleLimitOverSessions: a role's limit counts over all sessions of a
// profile, whatever their snapshots.
//
// Spec: A076
func TestRoleLimitOverSessions(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	one := teamRig(t, place, "s1", place.Workspace, roomy, "")
	two := teamRig(t, place, "s2", place.Workspace, tight, "")
	if one.sess.SnapshotHash == two.sess.SnapshotHash || one.sess.ProfileVersion != two.sess.ProfileVersion {
		t.Fatalf("snapshots %s and %s of versions %s and %s", one.sess.SnapshotHash, two.sess.SnapshotHash, one.sess.ProfileVersion, two.sess.ProfileVersion)
	}
	job := one.mustSpawn(one.lead(), read("routine_engineer"))[0]
	_, err := two.spawn(two.lead(), read("routine_engineer"))
	e := wantRefusal(t, "the second", err, core.KindAdmission, "active routine_engineer limit")
	if len(e.Holders) != 1 || e.Holders[0].SessionID != "s1" || e.Holders[0].JobID != job {
		t.Errorf("the refusal names %+v, want job %s of s1", e.Holders, job)
	}
	one.become(job, core.JobCompleted)
	two.mustSpawn(two.lead(), read("routine_engineer"))
}

// TestResourceOfABatch: the units of a whole batch are reserved or none.
//
// Spec: A075
func TestResourceOfABatch(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, roomy,
		"resource = \"opencode_go\"\n[resources.opencode_go]\nmax_active = 2\nlock_key = \"go\"\ndescription = \"one at a time\"\n")
	// The lead's own model takes one unit of the two.
	_, err := r.spawn(r.lead(), read("reader"), read("reader"))
	wantRefusal(t, "a batch of two", err, core.KindAdmission, `resource group "opencode_go" (shared as "go") has 2 of 2 units in use, 1 are needed`)
	if jobs := r.allJobs(); len(jobs) != 0 {
		t.Errorf("a refused batch left %+v", jobs)
	}
	if left, _ := filepath.Glob(r.cfg.Folders.JobDir("*")); len(left) != 0 {
		t.Errorf("a refused batch left folders: %v", left)
	}
	r.mustSpawn(r.lead(), read("reader"))
}

// TestNestedRootsShareLeases: scopes are compared as places on disk, over
// sessions whose workspaces lie in each other, whatever way leads there.
//
// Spec: A079
func TestNestedRootsShareLeases(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	nested := filepath.Join(place.Workspace, "nested")
	if err := os.MkdirAll(filepath.Join(nested, "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nested/deep", filepath.Join(place.Workspace, "short")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(nested, filepath.Join(place.Dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	outer := teamRig(t, place, "s1", place.Workspace, roomy, "")
	inner := teamRig(t, place, "s2", nested, roomy, "")
	outer.mustSpawn(outer.lead(), write("nested"))
	for _, scope := range []string{".", "deep", "deep/new.txt"} {
		_, err := inner.spawn(inner.lead(), write(scope))
		wantRefusal(t, "scope "+scope+" in the nested session", err, core.KindAdmission, "write scope conflict")
	}
	outer.become(outer.allJobs()[0].JobID, core.JobCompleted)
	inner.mustSpawn(inner.lead(), write("deep"))
	for _, scope := range []string{"short", "short/x", "./nested/../nested/deep", "."} {
		_, err := outer.spawn(outer.lead(), write(scope))
		wantRefusal(t, "scope "+scope+" in the outer session", err, core.KindAdmission, "write scope conflict")
	}
	outer.mustSpawn(outer.lead(), write("nested/other", "docs"))
	for _, scope := range []string{"../x", "/etc", "nested/../../x"} {
		_, err := outer.spawn(outer.lead(), write(scope))
		wantRefusal(t, "scope "+scope, err, core.KindValue, "does not lie in the workspace")
	}
}

// TestDamagedJobClosesAdmission: nobody is admitted while a job that may hold
// capacity can't be read.
//
// Spec: A085
func TestDamagedJobClosesAdmission(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, roomy, "")
	id := r.mustSpawn(r.lead(), read("reader"))[0]
	damage(t, r.cfg.Folders.Database(), "UPDATE jobs SET payload = '[]' WHERE job_id = '"+id+"'")
	var list []*store.Job
	err := r.view(t.Context(), func(tx *store.Tx) (err error) {
		list, err = tx.Jobs(store.JobFilter{SessionID: "s1"})
		return err
	})
	if err != nil || len(list) != 0 {
		t.Errorf("the lenient list is %v, %v, want none", list, err)
	}
	_, err = r.spawn(r.lead(), read("reader"))
	wantRefusal(t, "a spawn", err, core.KindRuntime, "invalid job state")
}

func damage(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=ignore_check_constraints(1)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// TestReadmissionOfASuspendedWorker: a suspended worker without processes holds
// no slot, and is told so before anything changes when it wants one and none is
// free.
//
// Spec: R090
func TestReadmissionOfASuspendedWorker(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, tight, "")
	suspended := r.mustSpawn(r.lead(), read("reader"))[0]
	r.become(suspended, core.JobSuspended)
	taken := r.mustSpawn(r.lead(), read("reader"), read("reader")) // both slots: it holds none
	r.refuseContinue(suspended, "active-agent limit 2 is reached by job ")
	r.become(taken[0], core.JobCompleted)
	r.mustReadmit(suspended)
}

// TestReadmissionOfASuspendedWriter: a suspended writer can't go on while a
// writer of another session has a scope that overlaps.
//
// Spec: R091
func TestReadmissionOfASuspendedWriter(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	one := teamRig(t, place, "s1", place.Workspace, roomy, "")
	two := teamRig(t, place, "s2", place.Workspace, roomy, "")
	suspended := one.mustSpawn(one.lead(), write("src"))[0]
	one.become(suspended, core.JobSuspended)
	other := two.mustSpawn(two.lead(), write("src/a"))[0]
	one.refuseContinue(suspended, "write scope conflicts with job "+other+" of session s2")
	two.become(other, core.JobFailed)
	one.mustReadmit(suspended)
}

// refuseContinue demands that continuing a job is refused and changes nothing.
func (r *rig) refuseContinue(id, text string) {
	r.t.Helper()
	var zero uint64
	for _, action := range []string{control.ActionContinue, control.ActionFinalize} {
		_, err := r.Control(r.t.Context(), operator(), control.ControlRequest{JobID: id, Action: action, ExpectedRevision: &zero})
		wantRefusal(r.t, action, err, core.KindAdmission, text)
	}
	j, err := r.cachedJob(id)
	if err != nil {
		r.t.Fatal(err)
	}
	if run := r.runNow(j.AgentRef); j.Status != core.JobSuspended || run.ControlRevision != 0 {
		r.t.Errorf("the job is %s at control revision %d, want suspended at 0", j.Status, run.ControlRevision)
	}
}

func (r *rig) mustReadmit(id string) {
	r.t.Helper()
	err := r.commit(r.t.Context(), func(tx *store.Tx, _ *change) error {
		j, err := tx.Job(id)
		if err != nil {
			return err
		}
		return r.readmit(tx, j)
	})
	if err != nil {
		r.t.Errorf("with room for it job %s is refused: %v", id, err)
	}
}

// TestReadmissionOfARoot: a paused session whose processes are gone needs room
// for its root again, and stays paused without.
//
// Spec: R013
func TestReadmissionOfARoot(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	resource := "resource = \"one\"\n[resources.one]\nmax_active = 1\ndescription = \"one\"\n"
	paused := teamRig(t, place, "s1", place.Workspace, roomy, resource)
	paused.sessionBecomes(core.SessionPaused)
	other := teamRig(t, place, "s2", place.Workspace, roomy, resource) // it has the one unit now
	decisions := 0
	count := func() error {
		decisions++
		_, err := paused.takeUp(t.Context(), "")
		return err
	}
	e := wantRefusal(t, "taking it up", count(), core.KindAdmission, "resource group \"one\" has 1 of 1 units in use")
	if len(e.Holders) != 1 || e.Holders[0].SessionID != "s2" || e.Holders[0].JobID != "" {
		t.Errorf("the refusal names %+v, want the root of s2", e.Holders)
	}
	if status, _ := paused.statuses(); status != core.SessionPaused {
		t.Errorf("the session is %s, want paused", status)
	}
	other.sessionBecomes(core.SessionPaused)
	if err := count(); err != nil {
		t.Errorf("with room it is refused: %v", err)
	}
	if status, _ := paused.statuses(); status != core.SessionRunning || decisions != 2 {
		t.Errorf("the session is %s after %d decisions, want running after 2", status, decisions)
	}
}

func (r *rig) sessionBecomes(status core.SessionStatus) {
	r.t.Helper()
	err := r.updateSession(r.t.Context(), func(_ *store.Tx, rec *store.Session) error {
		rec.Status = status
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestPausedCapacityFollowsProcesses: what is paused counts while a recorded
// process lives, root and job alike; a detached session always.
//
// Spec: R014, A006
func TestPausedCapacityFollowsProcesses(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, roomy, "resource = \"k\"\n[resources.k]\nmax_active = 9\ndescription = \"x\"\n")
	id := r.mustSpawn(r.lead(), read("reader"))[0]
	self, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	dead := self
	dead.StartToken = "another start"
	set := func(status core.SessionStatus, job core.JobStatus, host, engine process.Identity) {
		t.Helper()
		err := r.commit(t.Context(), func(tx *store.Tx, c *change) error {
			rec, err := tx.Session("s1")
			if err != nil {
				return err
			}
			j, err := tx.Job(id)
			if err != nil {
				return err
			}
			if j.Status == core.JobQueued {
				j.Status = core.JobRunning
				if err := tx.PutJob(j); err != nil {
					return err
				}
			}
			rec.RootUnits, j.Units, rec.Status, j.Status = 2, 3, status, job
			if err := errors.Join(c.putSession(tx, rec), c.putJob(tx, j)); err != nil {
				return err
			}
			for _, ref := range []string{rec.RootAgentRef, j.AgentRef} {
				run, err := tx.AgentRun(ref)
				if err != nil {
					return err
				}
				run.Host.Process, run.Engine = recordOf(host), recordOf(engine)
				if err := tx.PutAgentRun(run); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name         string
		status       core.SessionStatus
		job          core.JobStatus
		host, engine process.Identity
		want         map[string]int
	}{
		{"host and engine live", core.SessionPaused, core.JobPaused, self, self, map[string]int{"k": 5}},
		{"the engine alone lives", core.SessionPaused, core.JobPaused, dead, self, map[string]int{"k": 5}},
		{"the host alone lives", core.SessionPaused, core.JobPaused, self, process.Identity{}, map[string]int{"k": 5}},
		{"both are dead", core.SessionPaused, core.JobPaused, dead, dead, map[string]int{}},
		{"a detached session of the dead", core.SessionDetached, core.JobPaused, dead, dead, map[string]int{"k": 2}},
	} {
		if tt.status == core.SessionDetached {
			r.sessionBecomes(core.SessionRunning)
		}
		set(tt.status, tt.job, tt.host, tt.engine)
		var used map[string]int
		err := r.view(t.Context(), func(tx *store.Tx) error {
			holders, err := tx.Accounting()
			used = admission.Usage(admission.Counting(holders, alive))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, used); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestNestedDelegation: jobs spawn jobs as deep as the profile says; a role never
// leads to itself; who sees the session reads a sibling's result; a cascade ends
// parent and child.
//
// Spec: A074
func TestNestedDelegation(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, roomy, "")
	parent := r.mustSpawn(r.lead(), read("reader"))[0]
	sibling := r.mustSpawn(r.lead(), read("routine_engineer"))[0]
	r.become(parent, core.JobRunning)
	child := r.mustSpawn(r.caller(parent), read("helper"))[0]
	r.become(child, core.JobRunning)
	if j, _ := r.cachedJob(child); j.Depth != 2 || j.ParentJobID != parent {
		t.Errorf("the child has depth %d below %s", j.Depth, j.ParentJobID)
	}
	_, err := r.spawn(r.caller(child), read("reader"))
	wantRefusal(t, "a role above itself", err, core.KindAdmission, "ancestor-role repetition")

	target := func(id string) access.Job {
		j, err := r.cachedJob(id)
		if err != nil {
			t.Fatal(err)
		}
		return r.target(j)
	}
	if err := access.May(r.caller(child), control.VerbResult, target(sibling), r.state()); err != nil {
		t.Errorf("who sees the session may not read another's result: %v", err)
	}
	if err := access.May(r.caller(parent), control.VerbResult, target(sibling), r.state()); err == nil {
		t.Error("who sees only its descendants may read another's result")
	}
	answer, err := r.Cancel(t.Context(), operator(), control.CancelRequest{JobID: parent, Cascade: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range answer.Jobs {
		got = append(got, j.JobID+" "+j.Status)
	}
	if diff := cmp.Diff([]string{child + " cancelled", parent + " cancelled"}, got); diff != "" {
		t.Errorf("the cascade (-want +got):\n%s", diff)
	}
}

// TestNoChildOfACancelledParent: however a child's spawn and its parent's
// cascade meet, no child of a cancelled parent goes on.
//
// Spec: A078
func TestNoChildOfACancelledParent(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, "max_depth = 3\nmax_active_agents = 64\nmax_active_writers = 1", "")
	slipped, refused := 0, 0
	for range 1000 {
		parent := r.mustSpawn(r.lead(), read("reader"))[0]
		r.become(parent, core.JobRunning)
		caller := r.caller(parent)
		var race sync.WaitGroup
		var spawnErr, cancelErr error
		race.Go(func() { _, spawnErr = r.spawn(caller, read("helper")) })
		race.Go(func() {
			_, cancelErr = r.Cancel(t.Context(), operator(), control.CancelRequest{JobID: parent, Cascade: true})
		})
		race.Wait()
		if cancelErr != nil {
			t.Fatal(cancelErr)
		}
		if spawnErr != nil {
			refused++
			wantRefusal(t, "a spawn that lost", spawnErr, core.KindAdmission, "non-admitting agent job")
		} else {
			slipped++
		}
		for _, j := range r.allJobs() {
			if !j.Status.Terminal() {
				t.Fatalf("after the cascade job %s (parent %s) is %s", j.JobID, j.ParentJobID, j.Status)
			}
		}
	}
	t.Logf("%d spawns came first, %d were refused", slipped, refused)
}

// TestReleaseDead: a holder of another session whose processes are gone is
// reconciled before it refuses anybody; one that somebody looks after counts.
func TestReleaseDead(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	dead := teamRig(t, place, "s1", place.Workspace, roomy, "")
	if err := dead.unlock(); err != nil {
		t.Fatal(err)
	}
	own := teamRig(t, place, "s2", place.Workspace, roomy, "")
	never := dead.mustSpawn(dead.lead(), write("src/a"))[0]
	had := dead.mustSpawn(dead.lead(), write("src/b"))[0]
	err := dead.commit(t.Context(), func(tx *store.Tx, c *change) error {
		j, err := tx.Job(had)
		if err != nil {
			return err
		}
		j.Status = core.JobRunning
		run, err := tx.AgentRun(j.AgentRef)
		if err != nil {
			return err
		}
		run.ThreadID = "th"
		return errors.Join(c.putJob(tx, j), tx.PutAgentRun(run))
	})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := takeLock(dead.lockFile("keeper.lock"))
	if err != nil || lock == nil {
		t.Fatalf("the keeper's lock: %v", err)
	}
	_, err = own.spawn(own.lead(), write("src"))
	wantRefusal(t, "while its keeper lives", err, core.KindAdmission, "write scope conflicts")
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	own.mustSpawn(own.lead(), write("src"))
	want := map[string]core.JobStatus{never: core.JobFailed, had: core.JobSuspended}
	err = own.view(t.Context(), func(tx *store.Tx) error {
		for id, status := range want {
			j, err := tx.Job(id)
			if err != nil {
				return err
			}
			if j.Status != status {
				t.Errorf("job %s is %s, want %s", id, j.Status, status)
			}
		}
		rec, err := tx.Session("s1")
		if err == nil && rec.Status != core.SessionFailed { // its root never had a thread
			t.Errorf("the dead session is %s, want failed", rec.Status)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dead.spawn(dead.lead(), read("reader")); !errors.Is(err, store.ErrTakenOver) {
		t.Errorf("the dead session's own supervisor still writes: %v", err)
	}
}

// TestRepeatWaitsForTheFirst: a repeat that comes while the first is under way
// waits for it and gets its answer.
func TestRepeatWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	var l refLocks
	unlock, err := l.lock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan struct{})
	go func() {
		defer close(second)
		again, err := l.lock(t.Context(), "k")
		if err != nil {
			t.Errorf("the repeat: %v", err)
			return
		}
		again()
	}()
	select {
	case <-second:
		t.Error("the repeat did not wait")
	case <-time.After(20 * time.Millisecond):
	}
	unlock()
	testkit.Await(t, second, "the repeat")
	ctx, cancel := context.WithCancelCause(t.Context())
	held, err := l.lock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer held()
	gone := errors.New("gone")
	cancel(gone)
	if _, err := l.lock(ctx, "k"); !errors.Is(err, gone) {
		t.Errorf("a caller that has left waits on: %v", err)
	}
}

// TestEndsCloseAdmission: an end is published before its jobs are looked for,
// and from then on nobody is admitted, also while the teardown hangs.
//
// Spec: A073
func TestEndsCloseAdmission(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ during, final core.SessionStatus }{
		{core.SessionFinishing, core.SessionCompleted},
		{core.SessionCancelling, core.SessionCancelled},
	} {
		place := testkit.NewPlace(t)
		r := teamRig(t, place, "s1", place.Workspace, roomy, "")
		job := r.mustSpawn(r.lead(), read("reader"))[0]
		j, err := r.cachedJob(job)
		if err != nil {
			t.Fatal(err)
		}
		run, err := r.loadRun(t.Context(), j.AgentRef)
		if err != nil {
			t.Fatal(err)
		}
		role, err := r.snapshotAgent(j.Agent)
		if err != nil {
			t.Fatal(err)
		}
		held := r.newAgent(run, role) // its end is awaited, and does not come yet
		changed := r.changes()
		ended := make(chan error, 1)
		go func() { ended <- r.tearDown(t.Context(), tt.during, tt.final, endOf(tt.final), nil) }()
		testkit.Await(t, changed, "the first change")
		if status, jobs := r.statuses(); status != tt.during || jobs[0] != core.JobCancelling {
			t.Errorf("in the teardown the session is %s, its job %s", status, jobs[0])
		}
		_, err = r.spawn(r.lead(), read("reader"))
		wantRefusal(t, "a spawn in the teardown", err, core.KindAdmission, "not admitting")
		held.start((*agent).nothing)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if status, jobs := r.statuses(); status != tt.final || jobs[0] != core.JobCancelled {
			t.Errorf("after the teardown the session is %s, its job %s", status, jobs[0])
		}
		_, err = r.spawn(r.lead(), read("reader"))
		wantRefusal(t, "a spawn after the teardown", err, core.KindAdmission, "not admitting")
		if n := len(r.allJobs()); n != 1 {
			t.Errorf("%d jobs are on record, want 1", n)
		}
	}
}

// TestPlacesAfterAResume: a detached session's root may spawn; what its worker
// held is free once that has ended, also after the session was resumed, in its
// one run.
//
// Spec: R038
func TestPlacesAfterAResume(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, roomy, "")
	run := r.cachedSession().CurrentRunID
	r.sessionBecomes(core.SessionDetached)
	job := r.mustSpawn(r.lead(), read("routine_engineer"))[0]
	if _, err := r.spawn(r.lead(), read("routine_engineer")); core.KindOf(err) != core.KindAdmission {
		t.Errorf("a second one at the same time = %v, want it refused", err)
	}
	r.become(job, core.JobCompleted)
	if err := r.noteResumed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rec := r.cachedSession(); rec.Status != core.SessionRunning || rec.CurrentRunID != run || rec.RunSequence != 1 {
		t.Errorf("the session is %s in run %s (%d), want running in %s (1)", rec.Status, rec.CurrentRunID, rec.RunSequence, run)
	}
	r.mustSpawn(r.lead(), read("routine_engineer"))
}
