package supervisor

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

func (r *rig) sql(statements ...string) {
	r.t.Helper()
	testkit.ExecSQL(r.t, r.cfg.Folders.Database(), statements...)
}

// thread gives the root a thread.
func (r *rig) thread(id string) {
	r.t.Helper()
	err := r.commit(r.t.Context(), func(tx *store.Tx, c *change) error {
		root, err := tx.AgentRun(r.sess.RootAgentRef)
		if err != nil {
			return err
		}
		rec, err := tx.Session(r.session)
		if err != nil {
			return err
		}
		root.ThreadID = id
		r.bindRoot(rec, id)
		if err := c.putSession(tx, rec); err != nil {
			return err
		}
		return r.putRun(tx, c, root)
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// edit changes the session's record.
func (r *rig) edit(change func(rec *store.Session)) {
	r.t.Helper()
	err := r.updateSession(r.t.Context(), func(_ *store.Tx, rec *store.Session) error { change(rec); return nil })
	if err != nil {
		r.t.Fatal(err)
	}
}

// fresh reads the session's record and run as another process finds them.
func (r *rig) fresh() (rec *store.Session, run *store.Run) {
	r.t.Helper()
	err := r.store.View(r.t.Context(), func(tx *store.Tx) (err error) {
		if rec, err = tx.Session(r.session); err == nil {
			run, err = tx.RunOf(r.session)
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return rec, run
}

// events lists the names of the session's audit rows.
func (r *rig) events() (names []string) {
	r.t.Helper()
	err := r.store.View(r.t.Context(), func(tx *store.Tx) error {
		rows, err := tx.AuditRows(r.session, 0, 1000)
		for _, row := range rows {
			names = append(names, row.Event)
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return names
}

func wantKind(t *testing.T, what string, err error, kind core.Kind, text string) {
	t.Helper()
	if core.KindOf(err) != kind || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v (kind %s), want kind %s with %q", what, err, core.KindOf(err), kind, text)
	}
}

// TestPauseNeedsAThread: a session that is still starting can't be paused.
//
// Spec: R001
func TestPauseNeedsAThread(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionStarting)
	_, err := r.PauseSession(t.Context(), operator(), control.PauseRequest{})
	wantKind(t, "pause", err, core.KindRuntime, "cannot pause session from status starting")
	if rec, _ := r.fresh(); rec.Status != core.SessionStarting || rec.ColdPausePending {
		t.Errorf("the session is %s, cold_pause_pending %v; want starting, false", rec.Status, rec.ColdPausePending)
	}
}

// TestEndsWinOverAPause: a root or a worker that ends while the session is being
// paused has ended.
//
// Spec: R009, R010
func TestEndsWinOverAPause(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning)
	r.thread("t1")
	if err := r.beginPause(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.rootEnds(core.SessionCompleted)
	if err := r.finishPause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rec, _ := r.fresh(); rec.Status != core.SessionCompleted || rec.ColdPausePending {
		t.Errorf("the session is %s, cold_pause_pending %v; want completed, false", rec.Status, rec.ColdPausePending)
	}

	r = newRig(t, core.SessionRunning, core.JobRunning, core.JobRunning, core.JobSuspended)
	r.thread("t1")
	if err := r.beginPause(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := r.updateJob(t.Context(), "j0", func(_ *store.Tx, j *store.Job) error {
		finalise(j, ending{job: core.JobCompleted}, store.FileRef{}, time.Now())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.finishPause(t.Context()); err != nil {
		t.Fatal(err)
	}
	session, jobs := r.statuses()
	want := []core.JobStatus{core.JobCompleted, core.JobPaused, core.JobSuspended}
	if session != core.SessionPaused || !cmp.Equal(jobs, want) {
		t.Errorf("the session is %s, its jobs %v; want paused and %v", session, jobs, want)
	}
	rec, _ := r.fresh()
	if !cmp.Equal(rec.PausedJobIDs, []string{"j1"}) {
		t.Errorf("paused_job_ids are %v, want j1 alone", rec.PausedJobIDs)
	}
	for _, j := range r.allJobs() {
		if j.ColdPausePending {
			t.Errorf("job %s still is to be paused", j.JobID)
		}
	}
	again, err := r.PauseSession(t.Context(), operator(), control.PauseRequest{})
	if err != nil || !cmp.Equal(again.AffectedJobs, []string{"j1"}) {
		t.Errorf("a second pause answers %+v, %v; want the same", again, err)
	}
}

// TestCompactionThatCannotStart: the session stays paused, and says why.
//
// Spec: R008
func TestCompactionThatCannotStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning)
	r.thread("t1")
	r.edit(func(rec *store.Session) { rec.Status = core.SessionPaused })
	_, err := r.CompactSession(t.Context(), operator(), control.CompactRequest{}) // there is no build to start from
	wantKind(t, "compact", err, core.KindRuntime, "safely cold-paused")
	rec, _ := r.fresh()
	if rec.Status != core.SessionPaused || rec.ColdPausePending || rec.CompactedAt != nil {
		t.Errorf("the session is %s, cold_pause_pending %v, compacted at %v; want paused, false, never", rec.Status, rec.ColdPausePending, rec.CompactedAt)
	}
	if rec.CompactionError == "" || !strings.Contains(err.Error(), rec.CompactionError) {
		t.Errorf("root_compaction_error is %q, want the cause of %v", rec.CompactionError, err)
	}
}

// TestCancelWaitsForItsTurn: a cancel is published at once, and carried out when
// the verb before it is done; then nothing takes the session up.
//
// Spec: R026
func TestCancelWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning)
	unlock, err := r.lifecycle.lock(t.Context(), lifecycleKey)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	var view *control.SessionView
	go func() {
		v, err := r.CancelSession(t.Context(), operator(), control.CancelSessionRequest{})
		view = v
		answered <- err
	}()
	for changed := r.changes(); r.cachedSession().Status != core.SessionCancelling; changed = r.changes() {
		if r.cachedSession().Status != core.SessionCancelling {
			testkit.Await(t, changed, "the published cancel")
		}
	}
	select {
	case err := <-answered:
		t.Fatalf("the cancel did not wait: %v", err)
	default:
	}
	unlock()
	if err := <-answered; err != nil || view.Status != "cancelled" {
		t.Fatalf("cancel answers %+v, %v; want cancelled", view, err)
	}
	_, err = r.ResumeSession(t.Context(), operator(), control.ResumeRequest{})
	wantKind(t, "resume", err, core.KindRuntime, "terminal immutable session")
	if rec, run := r.fresh(); rec.CurrentRunID != "" || rec.LastRunID != run.RunID || run.Status != core.SessionCancelled {
		t.Errorf("current run %q, last run %q; the run is %s %s", rec.CurrentRunID, rec.LastRunID, run.RunID, run.Status)
	}
}

// TestLockThatIsALink: a lock that leads elsewhere is refused before anything
// happens.
//
// Spec: R028
func TestLockThatIsALink(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionStarting)
	target := filepath.Join(t.TempDir(), "target")
	if err := os.Symlink(target, filepath.Join(r.cfg.Folders.SessionDir(r.session), "supervisor.lock")); err != nil {
		t.Fatal(err)
	}
	_, err := Run(t.Context(), r.cfg)
	wantKind(t, "a supervisor", err, core.KindOS, "lifecycle lock cannot traverse")
	if _, err := os.Lstat(target); err == nil {
		t.Error("the lock's target was made")
	}
	if rec, _ := r.fresh(); rec.Status != core.SessionStarting {
		t.Errorf("the session is %s, want starting", rec.Status)
	}
}

// TestResumeNeedsItsOneRun: a session whose run is missing, or that has a second
// one, is not resumed; mended, it is the same again.
//
// Spec: R031
func TestResumeNeedsItsOneRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionDetached)
	const name = "exactly its one active run"
	run := r.runID
	r.sql("DROP INDEX runs_one_a_session",
		"INSERT INTO runs SELECT 'run-000001-second', session_id, schema_version, package_version, sequence, kind, status, replace(payload, '"+run+"', 'run-000001-second') FROM runs")
	err := r.mayResume(t.Context(), false)
	wantKind(t, "with two runs", err, core.KindRuntime, name)
	r.sql("DELETE FROM runs WHERE run_id = 'run-000001-second'")
	if err := r.noteResumed(t.Context()); err != nil {
		t.Errorf("once it was mended: %v", err)
	}
	if rec, run := r.fresh(); rec.RunSequence != 1 || rec.CurrentRunID != run.RunID || rec.Status != core.SessionRunning {
		t.Errorf("the session is %s with run %s, sequence %d; want running, %s, 1", rec.Status, rec.CurrentRunID, rec.RunSequence, run.RunID)
	}
	r.sql("DELETE FROM runs")
	err = r.mayResume(t.Context(), false)
	wantKind(t, "without a run", err, core.KindRuntime, name)
}

// TestResumeThatCannotBeAudited: nothing happens that is not on the trail; the
// session is as it was and can be left and stopped.
//
// Spec: R032
func TestResumeThatCannotBeAudited(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionDetached)
	r.thread("t1")
	fault := testkit.Fault{Name: "no_audit", Table: "audit", On: "INSERT", When: "NEW.event = 'run_resumed'"}
	r.sql(fault.SQL())
	run := r.runID
	if err := r.noteResumed(t.Context()); err == nil || !strings.Contains(err.Error(), "injected fault") {
		t.Errorf("a resume without its audit row: %v, want the fault", err)
	}
	rec, _ := r.fresh()
	if rec.Status != core.SessionDetached || rec.CurrentRunID != run || rec.LastRunID != "" || rec.Client != nil {
		t.Errorf("the session is %s, run %q, last run %q, client %v; want detached with run %s", rec.Status, rec.CurrentRunID, rec.LastRunID, rec.Client, run)
	}
	if r.cachedSession().Status != core.SessionDetached {
		t.Errorf("the supervisor takes it for %s", r.cachedSession().Status)
	}
	if view, err := r.DetachSession(t.Context(), operator(), control.DetachRequest{}); err != nil || view.Status != "detached" {
		t.Errorf("detach: %+v, %v", view, err)
	}
	r.sql(fault.Disarm())
	if err := r.noteResumed(t.Context()); err != nil {
		t.Errorf("a resume afterwards: %v", err)
	}
	if answer, err := r.Stop(t.Context(), operator(), control.StopRequest{}); err != nil || answer.Session.Status != "stopped" {
		t.Errorf("stop: %+v, %v", answer, err)
	}
}

// TestStartThatCannotBeAudited: nothing is started, and the session is on record
// as failed; where nothing can be written, nothing is left.
//
// Spec: R033
func TestStartThatCannotBeAudited(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionStarting)
	in := &CreateInput{Folders: r.cfg.Folders, Prompt: "go", Kind: kindNoninteractive, Now: time.Now(), Random: rand.Reader}
	first := testkit.Fault{Name: "no_start", Table: "audit", On: "INSERT", When: "NEW.event = 'run_started'"}
	r.sql(first.SQL())
	err := record(t.Context(), in, r.snap, draftSession(in, r.snap, "s2", r.sess.Workspace), nil)
	if err == nil || !strings.Contains(err.Error(), "injected fault") {
		t.Fatalf("a start without its audit row: %v, want the fault", err)
	}
	viewErr := r.store.View(t.Context(), func(tx *store.Tx) error {
		rec, err := tx.Session("s2")
		if err != nil {
			return err
		}
		run, err := tx.RunOf("s2")
		if err != nil {
			return err
		}
		if rec.Status != core.SessionFailed || rec.CurrentRunID != "" || run.Status != core.SessionFailed || rec.LastRunID != run.RunID {
			t.Errorf("the session is %s, current run %q; its run %s", rec.Status, rec.CurrentRunID, run.Status)
		}
		return nil
	})
	if viewErr != nil {
		t.Error(viewErr)
	}
	r.sql(first.Disarm(), testkit.Fault{Name: "no_rows", Table: "sessions", On: "INSERT"}.SQL())
	if err := record(t.Context(), in, r.snap, draftSession(in, r.snap, "s3", r.sess.Workspace), nil); err == nil {
		t.Error("a start that can't be recorded succeeds")
	}
	viewErr = r.store.View(t.Context(), func(tx *store.Tx) error { _, err := tx.Session("s3"); return err })
	if core.KindOf(viewErr) != core.KindNotFound {
		t.Errorf("a session that could not be recorded: %v, want none", viewErr)
	}
}

// TestSelect: a session is found by its id or by a thread that is or was its
// root; the newest one only among what can be resumed, and never while a record
// can't be read.
//
// Spec: R012, R036
func TestSelect(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionDetached)
	r.thread("t1")
	find := func(in SelectInput) (string, error) {
		rec, err := Select(t.Context(), r.store, in)
		if err != nil {
			return "", err
		}
		return rec.SessionID, nil
	}
	here := r.sess.Workspace
	for name, in := range map[string]SelectInput{
		"its id": {Ref: "s1"}, "its thread": {Ref: "t1"}, "the newest here": {Last: true, Cwd: here},
		"the newest anywhere": {Last: true, Cwd: t.TempDir(), AllCwds: true},
	} {
		if got, err := find(in); err != nil || got != "s1" {
			t.Errorf("%s: %q, %v; want s1", name, got, err)
		}
	}
	_, err := find(SelectInput{Last: true, Cwd: t.TempDir()})
	wantKind(t, "the newest elsewhere", err, core.KindNotFound, "no resumable")
	_, err = find(SelectInput{Ref: "t2"})
	wantKind(t, "an unknown thread", err, core.KindNotFound, `"t2"`)

	// A second session, newer, that was never bound to a thread, then on the same.
	in := &CreateInput{Folders: r.cfg.Folders, Prompt: "go", Kind: kindNoninteractive, Now: time.Now(), Random: rand.Reader}
	second := draftSession(in, r.snap, "s2", here)
	if err := record(t.Context(), in, r.snap, second, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := find(SelectInput{Last: true, Cwd: here}); err != nil || got != "s1" {
		t.Errorf("beside one without a thread: %q, %v; want s1", got, err)
	}
	r.bindRoot(second, "t1")
	if err := r.store.Update(t.Context(), func(tx *store.Tx) error { return tx.PutSession(second) }); err != nil {
		t.Fatal(err)
	}
	_, err = find(SelectInput{Ref: "t1"})
	wantKind(t, "a thread of two sessions", err, core.KindValue, "identifies multiple MMO sessions")
	if got, err := find(SelectInput{Last: true, Cwd: here}); err != nil || got != "s2" {
		t.Errorf("the newest of two: %q, %v; want s2", got, err)
	}

	r.sql("UPDATE sessions SET package_version = '7.0.0' WHERE session_id = 's2'")
	_, err = find(SelectInput{Last: true, Cwd: here})
	wantKind(t, "the newest beside a stale record", err, core.KindRuntime, "invalid session state")
	_, err = find(SelectInput{Ref: "s2"})
	wantKind(t, "a stale record", err, core.KindValue, "persistent session package must be")
	r.sql("UPDATE sessions SET payload = replace(payload, '\"schema_version\":2', '\"schema_version\":null') WHERE session_id = 's1'")
	_, err = find(SelectInput{Ref: "s1"})
	wantKind(t, "a record without a schema", err, core.KindValue, "unsupported session state schema")
}

// TestTaint: a tainted session is resumed on demand only, and neither delegates
// nor integrates.
func TestTaint(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionDetached)
	if _, err := r.TaintSession(t.Context(), operator(), control.TaintRequest{Reason: "somebody wrote there"}); err != nil {
		t.Fatal(err)
	}
	err := r.store.View(t.Context(), func(tx *store.Tx) error {
		rows, err := tx.AuditRows(r.session, 0, 100)
		i := slices.IndexFunc(rows, func(row *store.Audit) bool { return row.Event == "session_tainted" })
		if i < 0 || rows[i].RunID != r.runID {
			t.Errorf("no audit row session_tainted of run %s among %v", r.runID, r.events())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.ResumeSession(t.Context(), operator(), control.ResumeRequest{})
	wantKind(t, "resume", err, core.KindRuntime, "--allow-tainted")
	offered := r.toolsOf(access.Caller{Role: access.RoleRoot, Agent: "lead"})
	for _, name := range []string{"agent_spawn", "agents_spawn", "agent_patch_integrate"} {
		if slices.Contains(offered, name) {
			t.Errorf("a tainted root is offered %s", name)
		}
	}
}

// TestDetachAfterAFailure: while somebody looks on, a failure that may pass
// leaves the session as it is; when he leaves, it is suspended and says why.
//
// Spec: R005
func TestDetachAfterAFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning)
	r.thread("t1")
	self, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	client := recordOf(self)
	r.edit(func(rec *store.Session) { rec.Client = &client })
	root := r.newAgent(r.runs[r.sess.RootAgentRef], r.snap.Agents["lead"])
	failure := &store.Failure{Kind: "provider_usage_limited", Message: "try later", Retryable: true}
	e := ending{session: core.SessionSuspended, kind: core.ResultPartial, text: "so far", failure: failure}
	in, err := root.lastInput(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := root.end(t.Context(), in, e); err != nil {
		t.Fatal(err)
	}
	if moved, err := r.nextForRoot(t.Context()); moved || err != nil || r.life.Err() != nil {
		t.Errorf("with somebody there the session moves: %v, %v", moved, err)
	}
	rec, _ := r.fresh()
	if rec.Status != core.SessionRunning || !cmp.Equal(rec.Failure, failure) || rec.RootResult.Name != "root-partial-result.md" {
		t.Errorf("the session is %s, failure %+v, result %+v; want running with both", rec.Status, rec.Failure, rec.RootResult)
	}
	if _, err := r.DetachSession(t.Context(), operator(), control.DetachRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.nextForRoot(t.Context()); err != nil {
		t.Fatal(err)
	}
	rec, _ = r.fresh()
	if rec.Status != core.SessionSuspended || rec.Failure == nil || rec.Failure.Kind != failure.Kind {
		t.Errorf("after the detach the session is %s, failure %+v; want suspended with it", rec.Status, rec.Failure)
	}
	if r.life.Err() == nil {
		t.Error("the supervisor stays")
	}
}

// TestStaleStart: a session that was left in its start long ago has failed.
//
// Spec: R055
func TestStaleStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionStarting)
	s := r.again(func(cfg *Config) {
		cfg.Now = func() time.Time { return r.sess.CreatedAt.Add(startTimeout + time.Second) }
	})
	_ = s.recover(t.Context())
	rec, run := r.fresh()
	if rec.Status != core.SessionFailed || run.Status != core.SessionFailed || rec.CurrentRunID != "" || !strings.Contains(rec.Error, "did not start within") {
		t.Errorf("the session is %s (%s), its run %s; want failed", rec.Status, rec.Error, run.Status)
	}
}

// again is the next supervisor of the rig's session, not running yet.
func (r *rig) again(set func(*Config)) *Supervisor {
	r.t.Helper()
	cfg := *r.cfg
	cfg.Log = slog.New(slog.DiscardHandler)
	if set != nil {
		set(&cfg)
	}
	s, err := open(r.t.Context(), &cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = s.store.Close() })
	s.life, s.end = context.WithCancelCause(r.t.Context())
	return s
}

// TestDetachNeedsAThread: a session can be left once its root has a thread to
// come back to.
//
// Spec: R098
func TestDetachNeedsAThread(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning)
	_, err := r.DetachSession(t.Context(), operator(), control.DetachRequest{})
	if core.KindOf(err) != core.KindRuntime || !strings.Contains(err.Error(), "before the persistent root thread") {
		t.Errorf("a detach without a thread: %v", err)
	}
	if status, _ := r.statuses(); status != core.SessionRunning {
		t.Errorf("the session is %s", status)
	}
}

// TestLateDetach: a session that ended while its detach was on the way has
// ended; a detach of a detached one changes nothing.
//
// Spec: A029, R025
func TestLateDetach(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning)
	r.thread("t1")
	r.rootEnds(core.SessionCompleted)
	if _, err := r.nextForRoot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.detach(t.Context(), "the time ran out", "operator"); err != nil {
		t.Fatal(err)
	}
	view, err := r.DetachSession(t.Context(), operator(), control.DetachRequest{})
	if rec, _ := r.fresh(); err != nil || view.Status != "completed" || rec.Status != core.SessionCompleted {
		t.Errorf("a late detach answers %+v, %v; the session is %s", view, err, rec.Status)
	}

	r = newRig(t, core.SessionDetached)
	r.thread("t1")
	before, _ := r.fresh()
	if err := r.detach(t.Context(), "", "operator"); err != nil {
		t.Fatal(err)
	}
	after, _ := r.fresh()
	if after.Status != core.SessionDetached || after.CurrentRunID != before.CurrentRunID || after.ThreadID != "t1" {
		t.Errorf("a detach of a detached session leaves %s, run %s, thread %s", after.Status, after.CurrentRunID, after.ThreadID)
	}
}

// TestCapabilityHasOnePlace: the root's token is read from capabilities.json and
// from nowhere else.
//
// Spec: R024
func TestCapabilityHasOnePlace(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionDetached)
	ref := r.sess.RootAgentRef
	token, err := r.rootToken(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.rootToken(t.Context(), ref); err != nil || again != token {
		t.Errorf("the root's token changed, %v", err)
	}
	if err := r.revokeTokens(t.Context(), ref, capGateway); err != nil { // what a pause does
		t.Fatal(err)
	}
	hash := []string{access.HashToken(token)}
	if err := r.checkCapability(hash); err != nil {
		t.Errorf("the token that was given out: %v", err)
	}
	if err := os.Remove(r.capabilitiesPath()); err != nil {
		t.Fatal(err)
	}
	err = r.checkCapability(hash)
	wantKind(t, "without its file", err, core.KindPermission, "capability is unavailable")
	err = r.mayResume(t.Context(), false)
	wantKind(t, "a resume without the file", err, core.KindPermission, "capability is unavailable")
}
