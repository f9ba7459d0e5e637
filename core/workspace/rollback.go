package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/codex-mmo/codex-mmo/core"
)

// Resume ends an integration that was cut off, by a crash or a failed roll
// back. If it had been applied whole it stays; otherwise the tree is made as it
// was. A journal that is not there, or has no plan yet, never touched the tree.
// It may be called any number of times, also after another Resume was cut off.
//
// A path that holds neither the old nor the new content was edited by somebody
// since: it is left alone, the others are rolled back, and the error wraps
// ErrTaint and names it.
func (r *Repo) Resume(ctx context.Context, journal string) (Outcome, error) {
	return r.settle(ctx, journal, false)
}

// Undo takes an integration back, also one that was applied whole, for a
// caller that could not record it. It is Resume in all else.
func (r *Repo) Undo(ctx context.Context, journal string) (Outcome, error) {
	return r.settle(ctx, journal, true)
}

func (r *Repo) settle(ctx context.Context, journal string, undo bool) (Outcome, error) {
	unlock, err := r.lock(ctx)
	if err != nil {
		return Outcome{}, err
	}
	defer unlock()
	if _, err := os.Lstat(journal); errors.Is(err, fs.ErrNotExist) {
		return Outcome{State: RolledBack}, nil
	}
	i, err := r.openIntegration(journal)
	if err != nil {
		return Outcome{}, err
	}
	defer i.close()
	state, err := i.settle(undo)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{State: state, Written: i.rec.paths()}, nil
}

func (i *integration) settle(undo bool) (State, error) {
	planned, err := i.readRecord()
	if err != nil {
		return "", err
	}
	is := map[string]bool{} // file of the journal -> it is there
	for _, name := range []string{rolledBackName, appliedName, undoName} {
		if is[name], err = i.marked(name); err != nil {
			return "", core.Errorf(core.KindOS, "reading the journal %s: %w", i.path, err)
		}
	}
	switch {
	case is[rolledBackName]:
		return RolledBack, nil
	case is[appliedName] && !is[undoName] && !undo:
		return Applied, nil
	case !planned:
		return RolledBack, i.mark(rolledBackName, nil)
	}
	if is[appliedName] && !is[undoName] {
		if err := i.mark(undoName, nil); err != nil {
			return "", err
		}
	}
	return RolledBack, i.rollBack()
}

// undo rolls back after a failure and returns what the caller is told.
func (i *integration) undo(cause error) error {
	if err := i.rollBack(); err != nil {
		both := fmt.Errorf("%w; it began with: %w", err, cause)
		return core.Errorf(core.KindRuntime, "%w", both).
			WithRemedy("compare the named paths by hand with the journal %s", i.path)
	}
	return core.Errorf(core.KindRuntime, "the patch was rolled back, nothing is changed: %w", cause)
}

// rollBack makes the tree as it was and verifies that. It goes on past a path
// that can't be restored.
func (i *integration) rollBack() error {
	bad := &PathError{Err: ErrTaint}
	stuck := map[int]bool{} // step -> what lies beside its path could not be brought back
	for n, s := range i.rec.Steps {
		if err := i.reclaim(n); err != nil {
			stuck[n] = true
			bad.add(string(s.Path), err.Error())
		} else if !s.Before.isBlob() {
			i.attempt(bad, n, i.unwrite)
		}
	}
	for n := len(i.rec.Makes) - 1; n >= 0; n-- {
		i.step("undo folder", string(i.rec.Makes[n].Path))
		if err := i.dropFolder(string(i.rec.Makes[n].Path)); err != nil && !gone(err) {
			bad.add(string(i.rec.Makes[n].Path), err.Error())
		}
	}
	for _, f := range i.rec.Drops {
		i.step("restore folder", string(f.Path))
		if err := i.makeFolder(f); err != nil {
			bad.add(string(f.Path), err.Error())
		}
	}
	for n, s := range i.rec.Steps {
		if s.Before.isBlob() && !stuck[n] {
			i.attempt(bad, n, i.restore)
		}
	}
	if len(bad.Paths) == 0 {
		for n := range i.rec.Steps {
			i.attempt(bad, n, i.verify)
		}
	}
	i.step("sync roll back", "")
	if err := i.sync(); err != nil {
		return core.Errorf(core.KindOS, "the roll back could not be brought to disk: %w", fmt.Errorf("%w: %w", ErrTaint, err))
	}
	if len(bad.Paths) > 0 {
		return core.Errorf(core.KindRuntime, "the roll back failed: %w", bad)
	}
	i.step("mark rolled back", "")
	if err := i.mark(rolledBackName, nil); err != nil {
		return core.Errorf(core.KindOS, "the roll back could not be recorded: %w", fmt.Errorf("%w: %w", ErrTaint, err))
	}
	return nil
}

// attempt does one act of a roll back. A path that this process never touched
// needs none, whatever it holds.
func (i *integration) attempt(bad *PathError, n int, act func(n int) error) {
	path := string(i.rec.Steps[n].Path)
	if i.touched != nil && !i.touched[path] {
		return
	}
	if err := act(n); err != nil {
		bad.add(path, err.Error())
	}
}

// errForeign says that a path holds neither what was nor what should be there.
var errForeign = errors.New("it holds neither the old nor the new content")

// now looks at the path of step n. One of our own files in place of a folder
// means that nothing is there.
func (i *integration) now(n int) (content, error) {
	return i.look(string(i.rec.Steps[n].Path), func(at string) bool {
		_, ours := i.index[at]
		return ours
	})
}

// reclaim clears up beside the path of step n, see spot.reclaim.
func (i *integration) reclaim(n int) error {
	s, err := i.spot(n)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer s.close()
	return s.reclaim()
}

// unwrite takes away the file of a step that made a new one.
func (i *integration) unwrite(n int) error {
	s := i.rec.Steps[n]
	now, err := i.now(n)
	switch {
	case err != nil:
		return err
	case now.Mode == modeAbsent || now.same(s.Before):
		return nil
	case !now.same(s.After):
		return errForeign
	}
	i.step("undo", string(s.Path))
	return i.unlink(n, now)
}

// restore brings back the file of a step that changed or deleted one.
func (i *integration) restore(n int) error {
	s := i.rec.Steps[n]
	now, err := i.now(n)
	switch {
	case err != nil:
		return err
	case now.same(s.Before):
		return nil
	case !now.same(s.After):
		return errForeign
	}
	return i.put(n, now, s.Before, oldName(n))
}

// verify proves that the path of step n is as it was.
func (i *integration) verify(n int) error {
	now, err := i.now(n)
	if err == nil && !now.same(i.rec.Steps[n].Before) {
		err = fmt.Errorf("%w after the roll back", errForeign)
	}
	return err
}

// gone tells whether a folder on the way is not there.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errBlocked) }
