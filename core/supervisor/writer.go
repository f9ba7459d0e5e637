package supervisor

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/admission"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/workspace"
)

// maxNamedPaths bounds each list of paths in a job's record.
const maxNamedPaths = 200

// repoOnce opens the session's repository when the first writer needs it.
type repoOnce struct {
	mu   sync.Mutex
	repo *workspace.Repo
}

// repository returns the session's repository, seen from our private git
// folder.
func (s *Supervisor) repository(ctx context.Context) (*workspace.Repo, error) {
	s.repo.mu.Lock()
	defer s.repo.mu.Unlock()
	if s.repo.repo != nil {
		return s.repo.repo, nil
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, core.Errorf(core.KindOS, "git is not on PATH").WithRemedy("install git")
	}
	if git, err = filepath.Abs(git); err != nil {
		return nil, core.Errorf(core.KindOS, "finding git: %w", err)
	}
	s.repo.repo, err = workspace.Open(ctx, s.cachedSession().Workspace, &workspace.Options{
		Git: git, StateDir: s.cfg.Folders.State, FoldCase: workspace.FoldsCase(s.cachedSession().Workspace),
	})
	return s.repo.repo, err
}

// writes reports whether the agent's job changes files.
func (a *agent) writes() bool {
	if a.jobID == "" {
		return false
	}
	j, err := a.sup.cachedJob(a.jobID)
	return err == nil && j.Mode == admission.ModeWorkspace
}

// prepareWorktree gives a writing job its working tree. The record names it
// before the first process works there.
func (a *agent) prepareWorktree(ctx context.Context) error {
	if !a.writes() {
		return nil
	}
	repo, err := a.sup.repository(ctx)
	if err != nil {
		return err
	}
	dir := filepath.Join(a.sup.cfg.Folders.State, "worktrees", a.jobID)
	if err := folders.MakeDir(filepath.Dir(dir)); err != nil {
		return err
	}
	j, err := a.sup.cachedJob(a.jobID)
	if err != nil {
		return err
	}
	if j.Worktree != nil { // made before a crash; nothing has worked there yet
		_, err := repo.Worktree(worktreeOf(j.Worktree))
		return err
	}
	if err := repo.RemoveUnrecorded(ctx, dir); err != nil {
		return err
	}
	w, err := repo.AddWorktree(ctx, dir)
	if err != nil {
		return err
	}
	return a.sup.updateJob(ctx, a.jobID, func(_ *store.Tx, j *store.Job) error {
		j.Cwd = w.Cwd()
		j.Worktree = &store.Worktree{Dir: w.Dir, Top: w.Top, Prefix: w.Prefix, BaseCommit: w.BaseCommit, BaseTree: w.BaseTree}
		return nil
	})
}

func worktreeOf(w *store.Worktree) workspace.Worktree {
	return workspace.Worktree{Dir: w.Dir, Top: w.Top, Prefix: w.Prefix, BaseCommit: w.BaseCommit, BaseTree: w.BaseTree}
}

// capture takes down what a writing job made, once its engine is gone: before
// that a command in the background could still write. The job's ending turns
// into a failure when it left its scope.
func (a *agent) capture(ctx context.Context, e *ending) (*store.Patch, error) {
	j, err := a.sup.cachedJob(a.jobID)
	if err != nil || j.Worktree == nil || j.Worktree.Removed || j.Patch != nil {
		return nil, err
	}
	if err := a.stopEngine(ctx, false); err != nil {
		return nil, err
	}
	repo, err := a.sup.repository(ctx)
	if err != nil {
		return nil, err
	}
	captured, err := repo.Capture(ctx, worktreeOf(j.Worktree), j.WriteScope)
	if err != nil {
		return nil, err
	}
	if err := repo.Keep(ctx, a.jobID, captured.Tree); err != nil {
		return nil, err
	}
	ref, err := store.Publish(a.evidenceDir(), "patch.diff", captured.Patch)
	if err != nil {
		return nil, err
	}
	if len(captured.OutOfScope) > 0 {
		e.job = core.JobFailed
		e.err = "out-of-scope mutation: " + strings.Join(plainPaths(captured.OutOfScope), ", ")
		e.tainted = e.err
		return nil, nil
	}
	return patchRecord(captured, ref), nil
}

func patchRecord(c *workspace.Capture, ref store.FileRef) *store.Patch {
	p := &store.Patch{Whole: c.Whole(), File: ref, BaseTree: c.BaseTree, Tree: c.Tree, Total: len(c.Changes)}
	for _, change := range c.Changes {
		path := workspace.QuotePath(change.Path)
		p.Changed = append(p.Changed, path)
		switch change.Class {
		case workspace.Flagged:
			p.Flagged = append(p.Flagged, path+": "+change.Reason)
		case workspace.Refused:
			p.Refused = append(p.Refused, path+": "+change.Reason)
		}
	}
	for _, problem := range c.Problems {
		p.Problems = append(p.Problems, string(problem.Kind)+": "+workspace.QuotePath(problem.Path))
	}
	slices.Sort(p.Changed)
	for _, list := range []*[]string{&p.Changed, &p.Flagged, &p.Refused, &p.Problems} {
		if len(*list) > maxNamedPaths {
			*list = (*list)[:maxNamedPaths]
		}
	}
	return p
}

func plainPaths(paths []string) []string {
	var list []string
	for _, path := range paths[:min(len(paths), maxNamedPaths)] {
		list = append(list, workspace.QuotePath(path))
	}
	return list
}

// dropWorktree removes a job's working tree, once its capture is proven to hold
// all of it (the tree is kept in the private git folder and the record names
// it), or when nothing ever worked there.
func (a *agent) dropWorktree(ctx context.Context) error {
	j, err := a.sup.cachedJob(a.jobID)
	if err != nil || j.Worktree == nil || j.Worktree.Removed || !(j.Patch != nil && j.Patch.Whole || j.RolledBack) {
		return err
	}
	repo, err := a.sup.repository(ctx)
	if err != nil {
		return err
	}
	if err := repo.Remove(ctx, worktreeOf(j.Worktree)); err != nil && !errors.Is(err, workspace.ErrLost) {
		return err
	}
	return a.sup.noteJob(ctx, a.jobID, func(j *store.Job) { j.Worktree.Removed = true })
}
