package supervisor

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// rig is a supervisor over a store whose agent runs have no processes.
type rig struct {
	*Supervisor
	t      *testing.T
	unlock func() error // lets go of the session's lock; nil: it has none
}

// newRig makes a session in the given status with a retired root and jobs in
// the given statuses, j0, j1, ...
func newRig(t *testing.T, status core.SessionStatus, jobs ...core.JobStatus) *rig {
	t.Helper()
	place := testkit.NewPlace(t)
	r := &rig{Supervisor: openSession(t, place, testSnapshot(t, place.Dir), "s1", place.Workspace), t: t}
	r.seed(status, jobs)
	return r
}

// openSession records a session of a team and takes it over.
func openSession(t *testing.T, place *testkit.Place, snap *profile.Snapshot, id, workspace string) *Supervisor {
	t.Helper()
	f := folders.Folders{Config: place.Config, State: place.State, Runtime: place.Runtime}
	if err := snap.Save(f.State); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	in := &CreateInput{Folders: f, Prompt: "go", Kind: kindNoninteractive, Now: now, Random: rand.Reader, Getenv: os.Getenv}
	rec := draftSession(in, snap, id, workspace)
	if err := record(t.Context(), in, snap, rec, nil); err != nil {
		t.Fatal(err)
	}
	cfg := &Config{Folders: f, SessionID: id, Getenv: os.Getenv, Log: slog.New(slog.DiscardHandler)}
	s, err := open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.store.Close() })
	s.life, s.end = context.WithCancelCause(t.Context())
	close(s.ready)
	return s
}

func (r *rig) seed(status core.SessionStatus, jobs []core.JobStatus) {
	r.t.Helper()
	err := r.commit(r.t.Context(), func(tx *store.Tx, c *change) error {
		root, err := tx.AgentRun(r.sess.RootAgentRef)
		if err != nil {
			return err
		}
		root.Retired = true
		if err := tx.PutAgentRun(root); err != nil {
			return err
		}
		r.runs[root.AgentRef] = root
		for i, status := range jobs {
			id, ref := "j"+string(rune('0'+i)), "ar_"+string(rune('0'+i))
			j := &store.Job{
				JobID: id, SessionID: r.session, RunID: r.runID, ProfileID: "team", AgentRef: ref, Agent: "worker",
				BatchID: "batch-1", Depth: 1, Mode: "read-only", Cwd: r.sess.Workspace, Status: status, CreatedAt: r.sess.CreatedAt,
			}
			run := &store.AgentRun{AgentRef: ref, SessionID: r.session, JobID: id, Agent: "worker", Retired: true}
			if err := tx.PutAgentRun(run); err != nil {
				return err
			}
			if err := folders.MakeDir(r.cfg.Folders.JobDir(id)); err != nil {
				return err
			}
			r.runs[ref] = run
			if err := c.putJob(tx, j); err != nil {
				return err
			}
		}
		if status == core.SessionStarting {
			return nil
		}
		rec, err := tx.Session(r.session)
		if err != nil {
			return err
		}
		rec.Status = status
		return c.putSession(tx, rec)
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// rootEnds records how the root ended.
func (r *rig) rootEnds(outcome core.SessionStatus) {
	r.t.Helper()
	err := r.updateSession(r.t.Context(), func(_ *store.Tx, rec *store.Session) error {
		rec.RootDone, rec.RootOutcome = true, string(outcome)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// statuses returns what a fresh reader finds: the session's and the jobs'.
func (r *rig) statuses() (session core.SessionStatus, jobs []core.JobStatus) {
	r.t.Helper()
	err := r.store.View(r.t.Context(), func(tx *store.Tx) error {
		rec, err := tx.Session(r.session)
		if err != nil {
			return err
		}
		session = rec.Status
		list, err := tx.Jobs(store.JobFilter{SessionID: r.session, Strict: true})
		for _, j := range list {
			jobs = append(jobs, j.Status)
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return session, jobs
}

func testSnapshot(t *testing.T, dir string) *profile.Snapshot {
	t.Helper()
	return compileTeam(t, filepath.Join(dir, "team"), nil)
}

// compileTeam compiles a team of a lead and a worker in a new folder. edit may
// change its files first; nil: as they are.
func compileTeam(t *testing.T, team string, edit func(files map[string]string)) *profile.Snapshot {
	t.Helper()
	files := map[string]string{
		"profile.toml": `schema_version = 2
id = "team"
version = "1.0.0"
description = "x"
root_agent = "lead"
[coordination]
max_depth = 1
max_active_agents = 4
max_active_writers = 0
[agents.lead]
model = "m"
description = "x"
permissions = "read-only"
approval_policy = "never"
execution_mode = "turn"
task_kinds = []
can_spawn = ["worker"]
backends = []
guidance = "g.md"
[agents.worker]
model = "m"
description = "x"
permissions = "read-only"
approval_policy = "never"
execution_mode = "turn"
task_kinds = []
can_spawn = []
backends = ["mcp"]
guidance = "g.md"
`,
		"catalog.toml": `schema_version = 2
[routes.offline]
name = "x"
driver = "offline"
wire_protocol = "openai_chat"
billing_mode = "scripted"
script = "s.script"
[models.m]
route = "offline"
upstream_id = "m"
maker = "x"
modalities = ["text"]
reasoning_levels = ["none"]
default_reasoning = "none"
context_window = 2000
base_instructions = "x"
`,
		"g.md": "x\n", "s.script": "model m\n  step\n    say \"x\"\n",
	}
	if edit != nil {
		edit(files)
	}
	if err := os.Mkdir(team, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(team, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	snap, err := profile.Compile(t.Context(), &profile.CompileInput{Name: team})
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// TestEndings: whatever ends a session, no job of it is left between two
// statuses, and a session that never ran ends as well.
func TestEndings(t *testing.T) {
	t.Parallel()
	completed, failed, suspended := core.SessionCompleted, core.SessionFailed, core.SessionSuspended
	type jobs = []core.JobStatus
	tests := []struct {
		name        string
		status      core.SessionStatus
		before      jobs
		root        core.SessionStatus // how it ended; empty: an operator stops the session
		want        core.SessionStatus
		after       jobs
		stillServed bool
	}{
		{"a root that is done", core.SessionRunning, jobs{core.JobCompleted}, completed, completed, jobs{core.JobCompleted}, false},
		{"a root that is done while a worker works", core.SessionRunning, jobs{core.JobRunning}, completed, core.SessionRunning, jobs{core.JobRunning}, true},
		{"a root that is done while a worker can't go on", core.SessionRunning, jobs{core.JobSuspended}, completed, completed, jobs{core.JobCancelled}, false},
		{"a root that failed while workers work", core.SessionRunning, jobs{core.JobRunning, core.JobQueued, core.JobWaiting}, failed, failed, jobs{core.JobCancelled, core.JobCancelled, core.JobCancelled}, false},
		{"a root that broke before its thread was open", core.SessionStarting, nil, failed, failed, nil, false},
		{"a root that can't go on", core.SessionRunning, jobs{core.JobCompleted}, suspended, suspended, jobs{core.JobCompleted}, false},
		{"stopped at work", core.SessionDetached, jobs{core.JobRunning, core.JobSuspended, core.JobCompleted}, "", core.SessionStopped, jobs{core.JobStopped, core.JobStopped, core.JobCompleted}, false},
		{"stopped in the middle of a cancel", core.SessionRunning, jobs{core.JobCancelling}, "", core.SessionStopped, jobs{core.JobCancelled}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tt.status, tt.before...)
			var err error
			if tt.root == "" {
				err = r.stopNow(t.Context(), false)
			} else {
				r.rootEnds(tt.root)
				for moved := true; moved && err == nil; {
					moved, err = r.nextForRoot(t.Context())
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			session, after := r.statuses()
			if session != tt.want {
				t.Errorf("the session is %s, want %s", session, tt.want)
			}
			if diff := cmp.Diff(tt.after, after); diff != "" {
				t.Errorf("the jobs (-want +got):\n%s", diff)
			}
			if served := r.life.Err() == nil; served != tt.stillServed {
				t.Errorf("the supervisor stays: %v, want %v", served, tt.stillServed)
			}
			if err := r.stopNow(t.Context(), false); err != nil {
				t.Errorf("a stop after the end: %v", err)
			}
		})
	}
}

// TestAbandonKeepsAnEnd: a supervisor that can't be kept up suspends a session at
// work, and leaves one that is ending to be ended.
func TestAbandonKeepsAnEnd(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ status, want core.SessionStatus }{
		{core.SessionRunning, core.SessionSuspended},
		{core.SessionDetached, core.SessionSuspended},
		{core.SessionFinishing, core.SessionFinishing},
	} {
		r := newRig(t, core.SessionRunning)
		if tt.status != core.SessionRunning {
			err := r.updateSession(t.Context(), func(_ *store.Tx, rec *store.Session) error {
				rec.Status = tt.status
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := r.abandon(t.Context(), errors.New("it crashed too often")); err != nil {
			t.Fatal(err)
		}
		if got, _ := r.statuses(); got != tt.want || r.cachedSession().Error != "it crashed too often" {
			t.Errorf("from %s the session becomes %s (%q), want %s", tt.status, got, r.cachedSession().Error, tt.want)
		}
	}
}

// TestInboxOfAJob: an end is news for whoever spawned it, once, unless he asked
// for it or saw it; being told changes no revision.
func TestInboxOfAJob(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name string
		job  store.Job
		end  ending
		want store.InboxState
	}{
		{"an end", store.Job{Status: core.JobRunning}, ending{job: core.JobCompleted}, store.InboxNew},
		{"the end of what was told before", store.Job{Status: core.JobSuspended, Inbox: store.InboxRead}, ending{job: core.JobStopped}, store.InboxNew},
		{"a cancel by the spawner", store.Job{Status: core.JobCancelling, Inbox: store.InboxRead}, ending{job: core.JobCancelled}, store.InboxRead},
		{"a cancel by somebody else", store.Job{Status: core.JobCancelling}, ending{job: core.JobCancelled}, store.InboxNew},
		{"a roll back", store.Job{Status: core.JobQueued}, ending{job: core.JobFailed, rolled: true}, ""},
	} {
		j := tt.job
		if finalise(&j, tt.end, store.FileRef{}, now); j.Inbox != tt.want {
			t.Errorf("%s: inbox %q, want %q", tt.name, j.Inbox, tt.want)
		}
	}

	r := newRig(t, core.SessionRunning, core.JobRunning)
	err := r.updateJob(t.Context(), "j0", func(_ *store.Tx, j *store.Job) error {
		finalise(j, ending{job: core.JobCompleted}, store.FileRef{}, now)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ended, err := r.cachedJob("j0")
	if err != nil {
		t.Fatal(err)
	}
	root := access.Caller{Role: access.RoleRoot}
	r.tellCaller(control.Call{}, root, []control.JobView{{JobID: "j0", Status: "running"}}) // what was answered just before
	r.wg.Wait()
	if j, _ := r.cachedJob("j0"); j.Inbox != store.InboxNew {
		t.Errorf("an answer that showed the job at work told its end: %q", j.Inbox)
	}
	r.tellCaller(control.Call{}, root, []control.JobView{{JobID: "j0", Status: "completed"}})
	r.wg.Wait()
	if j, _ := r.cachedJob("j0"); j.Inbox != store.InboxRead || j.Revision != ended.Revision {
		t.Errorf("after it was told the inbox is %q at revision %d, want read at %d", j.Inbox, j.Revision, ended.Revision)
	}
}

// TestCancelSuspended: a job that nobody drives is cancelled all the same.
func TestCancelSuspended(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning, core.JobSuspended)
	call := control.Call{Operator: true, Peer: access.Peer{PID: os.Getpid()}}
	answer, err := r.Cancel(t.Context(), call, control.CancelRequest{JobID: "j0", Reason: "enough"})
	if err != nil {
		t.Fatal(err)
	}
	if j := answer.Jobs[0]; j.Status != "cancelled" || j.CancelReason != "enough" || j.FinishedAt == nil {
		t.Errorf("cancel answered %+v", j)
	}
}

// TestRolledBackBatchIsForgotten: a request whose batch was rolled back is a new
// request when it comes again.
func TestRolledBackBatchIsForgotten(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning)
	caller := access.Caller{Role: access.RoleRoot, Agent: "lead"}
	specs := []control.SpawnSpec{{Agent: "worker", Task: "x"}}
	first, repeated, err := r.admitBatch(t.Context(), caller, "k", specs)
	if err != nil || repeated {
		t.Fatalf("the first request: repeated %v, %v", repeated, err)
	}
	again, repeated, err := r.admitBatch(t.Context(), caller, "k", specs)
	if err != nil || !repeated || again.JobIDs[0] != first.JobIDs[0] {
		t.Errorf("its repeat: %+v, repeated %v, %v; want the same job", again, repeated, err)
	}
	if left, _ := filepath.Glob(r.cfg.Folders.JobDir("*")); len(left) != 1 {
		t.Errorf("the repeat left folders behind: %v", left)
	}
	if err := r.forgetBatch(t.Context(), "k", nil); err != nil {
		t.Fatal(err)
	}
	if _, repeated, err := r.admitBatch(t.Context(), caller, "k", specs); err != nil || repeated {
		t.Errorf("after the roll back: repeated %v, %v", repeated, err)
	}
}
