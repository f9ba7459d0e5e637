package supervisor

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// aged makes a session with one job beside the rig's own, active last at a
// time.
func (r *rig) aged(id string, status core.SessionStatus, created, last time.Time, result core.ResultState) {
	r.t.Helper()
	in := &CreateInput{Folders: r.cfg.Folders, Prompt: "go", Kind: kindNoninteractive, Now: created, Random: rand.Reader}
	rec := draftSession(in, r.snap, id, r.sess.Workspace)
	if err := record(r.t.Context(), in, r.snap, rec, nil); err != nil {
		r.t.Fatal(err)
	}
	job := "j-" + id
	if err := os.MkdirAll(r.cfg.Folders.JobDir(job), 0o700); err != nil {
		r.t.Fatal(err)
	}
	err := r.store.Update(r.t.Context(), func(tx *store.Tx) error {
		rec.Status, rec.FinishedAt, rec.LastActiveAt = status, &created, last
		jobStatus := core.JobRunning
		if status.Terminal() {
			jobStatus = core.JobCompleted
		}
		return errors.Join(
			tx.PutAgentRun(&store.AgentRun{AgentRef: "ar_" + id, SessionID: id, JobID: job, Agent: "worker", Retired: true}),
			tx.PutJob(&store.Job{
				JobID: job, SessionID: id, RunID: rec.CurrentRunID, ProfileID: "team", AgentRef: "ar_" + id, Agent: "worker", BatchID: "b", Depth: 1,
				Mode: "read-only", Cwd: rec.Workspace, Status: jobStatus, CreatedAt: created, FinishedAt: &created, ResultState: result,
			}),
			tx.PutSession(rec),
		)
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// A clean-up takes what ended and was not active for long, by its last activity,
// with its folders and rows. It never takes what has not ended, or a result that
// nobody read.
//
// Spec: R039
func TestClean(t *testing.T) {
	r := newRig(t, core.SessionRunning)
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	long, recent := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), now.Add(-time.Hour)
	r.aged("s-recent", core.SessionStopped, long, recent, core.ResultRead)
	r.aged("s-old", core.SessionStopped, long, long, core.ResultRead)
	r.aged("s-unread", core.SessionStopped, long, long, core.ResultUnread)
	r.aged("s-work-recent", core.SessionRunning, long, recent, "")
	r.aged("s-work-old", core.SessionSuspended, long, long, "")
	in := &CleanInput{Folders: r.cfg.Folders, SessionDays: 1, JobDays: 36500, Now: now}
	kept := []Kept{{"j-s-unread", "nobody has read its result"}}

	dry := *in
	dry.DryRun = true
	for _, tc := range []struct {
		name string
		in   *CleanInput
		want *Cleaned
		left []string // sessions afterwards
	}{
		{"dry run", &dry, &Cleaned{Jobs: 1, Sessions: 1, Kept: []Kept{}}, []string{"s-old", "s-recent", "s-unread", "s-work-old", "s-work-recent", "s1"}},
		{"first", in, &Cleaned{Jobs: 1, Sessions: 1, Kept: []Kept{}}, []string{"s-recent", "s-unread", "s-work-old", "s-work-recent", "s1"}},
		{"again", in, &Cleaned{Kept: []Kept{}}, []string{"s-recent", "s-unread", "s-work-old", "s-work-recent", "s1"}},
		{"all", &CleanInput{Folders: r.cfg.Folders, Unread: true, Now: now}, &Cleaned{Jobs: 2, Sessions: 2, Kept: []Kept{}}, []string{"s-work-old", "s-work-recent", "s1"}},
	} {
		if !tc.in.Unread {
			tc.want.Kept = kept
		}
		got, err := Clean(t.Context(), r.store, tc.in)
		if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tc.name, err, diff)
		}
		if diff := cmp.Diff(tc.left, r.sessionIDs()); diff != "" {
			t.Errorf("%s: the sessions that are left (-want +got):\n%s", tc.name, diff)
		}
	}
	for _, dir := range []string{r.cfg.Folders.SessionDir("s-old"), r.cfg.Folders.JobDir("j-s-old")} {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(r.cfg.Folders.SessionDir("s-work-old"))); err != nil {
		t.Errorf("a session at rest lost its folder: %v", err)
	}
}

func (r *rig) sessionIDs() []string {
	r.t.Helper()
	var ids []string
	err := r.store.View(r.t.Context(), func(tx *store.Tx) error {
		list, err := tx.Sessions(store.SessionFilter{Strict: true})
		for _, rec := range list {
			ids = append(ids, rec.SessionID)
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(ids)
	return ids
}

// A working tree that was not captured whole keeps its job and its session.
func TestCleanKeepsWork(t *testing.T) {
	in := &CleanInput{}
	whole := &store.Worktree{Dir: "/w", Removed: true}
	for name, tc := range map[string]struct {
		job  store.Job
		want string
	}{
		"at work":      {store.Job{Status: core.JobRunning}, "it has not ended"},
		"tree left":    {store.Job{Status: core.JobStopped, Worktree: &store.Worktree{Dir: "/w"}}, "its working tree /w was not captured whole"},
		"tree removed": {store.Job{Status: core.JobCompleted, Worktree: whole, ResultState: core.ResultIntegrated}, ""},
		"unread":       {store.Job{Status: core.JobCompleted, Worktree: whole, ResultState: core.ResultUnread}, "nobody has read its result"},
		"no result":    {store.Job{Status: core.JobCancelled}, ""},
	} {
		if got := in.keeps(&tc.job); got != tc.want {
			t.Errorf("%s: kept because %q, want %q", name, got, tc.want)
		}
	}
}
