package supervisor

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/workspace"
)

// CleanInput says what has been kept for long enough.
type CleanInput struct {
	Folders     folders.Folders
	JobDays     int  // age of jobs, by their last activity
	SessionDays int  // likewise of sessions
	Unread      bool // also what has results that nobody read
	DryRun      bool // only tell
	Now         time.Time
}

// Cleaned is what a clean-up removed and what it kept although it is old.
type Cleaned struct {
	Jobs     int    `json:"jobs"`
	Sessions int    `json:"sessions"`
	Kept     []Kept `json:"kept"`
}

// Kept is one thing that a clean-up left, and why.
type Kept struct {
	ID  string `json:"id"`
	Why string `json:"why"`
}

// Clean removes sessions and jobs that ended long ago: files first, rows after
// them, so that a clean-up that is cut short is finished by the next. It never
// takes what has not ended, what was active lately, a result that nobody read,
// or a working tree that was not captured whole.
func Clean(ctx context.Context, st *store.Store, in *CleanInput) (*Cleaned, error) {
	out := &Cleaned{Kept: []Kept{}}
	var sessions []*store.Session
	err := st.View(ctx, func(tx *store.Tx) (err error) {
		sessions, err = tx.Sessions(store.SessionFilter{})
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, rec := range sessions {
		if !rec.Status.Terminal() {
			continue
		}
		if err := cleanSession(ctx, st, in, rec, out); err != nil {
			return out, err
		}
	}
	return out, nil
}

func cleanSession(ctx context.Context, st *store.Store, in *CleanInput, rec *store.Session, out *Cleaned) error {
	lock, err := takeLock(filepath.Join(in.Folders.SessionDir(rec.SessionID), "supervisor.lock"))
	gone := errors.Is(err, os.ErrNotExist)
	if gone {
		err = nil // its folder is gone already
	}
	if err != nil {
		return err
	}
	if lock == nil && err == nil && !gone {
		out.Kept = append(out.Kept, Kept{rec.SessionID, "its supervisor has not left yet"})
		return nil
	}
	if lock != nil {
		defer lock.Unlock()
	}
	var jobs []*store.Job
	err = st.View(ctx, func(tx *store.Tx) (err error) {
		jobs, err = tx.Jobs(store.JobFilter{SessionID: rec.SessionID, Strict: true})
		return err
	})
	if err != nil {
		return err
	}
	whole := old(in.Now, in.SessionDays, &rec.CreatedAt, rec.FinishedAt, &rec.LastActiveAt)
	for _, j := range jobs {
		if why := in.keeps(j); why != "" {
			if whole || old(in.Now, in.JobDays, &j.CreatedAt, j.FinishedAt, j.LastProgressAt) {
				out.Kept = append(out.Kept, Kept{j.JobID, why})
			}
			whole = false
		}
	}
	for _, j := range jobs {
		if in.keeps(j) == "" && (whole || old(in.Now, in.JobDays, &j.CreatedAt, j.FinishedAt, j.LastProgressAt)) {
			if err := in.removeJob(ctx, st, rec, j); err != nil {
				return err
			}
			out.Jobs++
		}
	}
	if !whole {
		return nil
	}
	out.Sessions++
	if in.DryRun {
		return nil
	}
	if err := os.RemoveAll(in.Folders.SessionDir(rec.SessionID)); err != nil {
		return core.Errorf(core.KindOS, "removing session %s: %w", rec.SessionID, err)
	}
	return st.Update(ctx, func(tx *store.Tx) error { return tx.DeleteSession(rec.SessionID) })
}

// old reports whether the latest of some times lies days back.
func old(now time.Time, days int, times ...*time.Time) bool {
	var last time.Time
	for _, t := range times {
		if t != nil && t.After(last) {
			last = *t
		}
	}
	return now.Sub(last) > time.Duration(days)*24*time.Hour
}

// keeps says why a job of an ended session must stay; nothing when it may go.
func (in *CleanInput) keeps(j *store.Job) string {
	switch {
	case !j.Status.Terminal():
		return "it has not ended"
	case j.Worktree != nil && !j.Worktree.Removed:
		return "its working tree " + j.Worktree.Dir + " was not captured whole"
	case j.ResultState == core.ResultUnread && !in.Unread:
		return "nobody has read its result"
	}
	return ""
}

// removeJob removes a job's folder, the tree that was kept of its work, and its
// rows.
func (in *CleanInput) removeJob(ctx context.Context, st *store.Store, rec *store.Session, j *store.Job) error {
	if in.DryRun {
		return nil
	}
	if err := os.RemoveAll(in.Folders.JobDir(j.JobID)); err != nil {
		return core.Errorf(core.KindOS, "removing job %s: %w", j.JobID, err)
	}
	if j.Patch != nil {
		if err := in.forget(ctx, rec, j); err != nil {
			return err
		}
	}
	return st.Update(ctx, func(tx *store.Tx) error { return tx.DeleteJob(j.JobID) })
}

// forget lets git drop what a job made. A workspace that is gone has nothing to
// drop it from.
func (in *CleanInput) forget(ctx context.Context, rec *store.Session, j *store.Job) error {
	if _, err := os.Stat(rec.Workspace); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	git, err := exec.LookPath("git")
	if err == nil {
		git, err = filepath.Abs(git)
	}
	if err != nil {
		return core.Errorf(core.KindOS, "git is not on PATH").WithRemedy("install git")
	}
	repo, err := workspace.Open(ctx, rec.Workspace, &workspace.Options{Git: git, StateDir: in.Folders.State})
	if err != nil {
		return err
	}
	return repo.Forget(ctx, j.JobID)
}
