package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
)

// Plan says what to put into the user's working tree.
type Plan struct {
	// Journal is the folder of this integration alone, an absolute path below
	// the state root. Integrate makes it. It holds what a roll back needs until
	// the caller, having recorded the outcome, drops it with Discard. One whose
	// integration was rolled back may be used again.
	Journal string

	BaseTree string // what the writer began with
	Tree     string // what it made of it; see Capture

	AllowFlagged bool // also write paths of class Flagged

	// Scope lists what may be written: files or folders relative to the
	// workspace, "." for all of it. Empty: nothing.
	Scope []string

	// Trace is called before each durable step, for progress and crash tests.
	// Nil means nobody listens.
	Trace func(step string)
}

// State says where an integration ended.
type State string

// The states.
const (
	Applied    State = "applied"     // the tree is new
	RolledBack State = "rolled_back" // the tree is as it was
)

// Outcome is the end of an integration.
type Outcome struct {
	State   State    `json:"state"`
	Changes []Change `json:"changes"` // all of the patch; empty after Resume
	Written []string `json:"written"` // paths that were not as the patch wants them already
}

// Integrate puts the difference of two trees into the user's working tree, all
// of it or nothing. It never touches the user's index or refs.
//
// What is to be done is derived from the trees. It refuses, with nothing
// written, paths that are never written (ErrRefused) or need permission
// (ErrFlagged), or lie out of scope (ErrScope), and files on disk that are
// neither as in the base nor as in the new tree (ErrDirty names all of them).
// A file that is as in the new tree already is left alone.
//
// On any later failure it rolls back and verifies that; when the roll back
// fails, too, the error wraps ErrTaint and holds both causes. After a crash
// Resume does the same.
func (r *Repo) Integrate(ctx context.Context, p *Plan) (*Outcome, error) {
	s, err := r.newScope(p.Scope)
	if err != nil {
		return nil, err
	}
	changes, err := r.changes(ctx, p.BaseTree, p.Tree)
	if err != nil {
		return nil, err
	}
	if err := permit(changes, s, p.AllowFlagged); err != nil {
		return nil, err
	}
	unlock, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	i, err := r.newIntegration(p)
	if err != nil {
		return nil, err
	}
	defer i.close()
	if err := i.prepare(ctx, changes); err != nil {
		return nil, err
	}
	if err := i.apply(ctx); err != nil {
		return nil, i.undo(err)
	}
	return &Outcome{State: Applied, Changes: changes, Written: i.rec.paths()}, nil
}

// permit refuses a patch by what its paths are.
func permit(changes []Change, s *scope, allowFlagged bool) error {
	refused, flagged := &PathError{Err: ErrRefused}, &PathError{Err: ErrFlagged}
	for _, c := range changes {
		switch {
		case c.Class == Refused:
			refused.add(c.Path, c.Reason)
		case c.Class == Flagged && !allowFlagged:
			flagged.add(c.Path, c.Reason)
		}
	}
	outside := &PathError{Err: ErrScope, Paths: s.outside(changes)}
	switch {
	case len(refused.Paths) > 0:
		return core.Errorf(core.KindPermission, "%w", refused)
	case len(outside.Paths) > 0:
		return core.Errorf(core.KindPermission, "%w", outside)
	case len(flagged.Paths) > 0:
		return core.Errorf(core.KindPermission, "%w", flagged).WithRemedy("look at them, then integrate with the explicit permission for flagged paths")
	}
	return nil
}

// integration is one integration at work. The caller holds the lock.
type integration struct {
	repo    *Repo
	path    string // of the journal
	tree    *tree  // the user's working tree
	journal *tree
	rec     record
	index   map[string]int  // path -> place in rec.Steps
	touched map[string]bool // paths that this process may have changed; nil: any may be
	trace   func(step string)
	renames renames
}

func (r *Repo) newIntegration(p *Plan) (*integration, error) {
	if err := r.makeJournal(p.Journal); err != nil {
		return nil, err
	}
	i, err := r.openIntegration(p.Journal)
	if err != nil {
		return nil, err
	}
	i.rec = record{Version: recordVersion, Top: r.top, BaseTree: p.BaseTree, Tree: p.Tree, Token: strings.ToLower(rand.Text()[:16])}
	i.touched = map[string]bool{}
	if p.Trace != nil {
		i.trace = p.Trace
	}
	return i, nil
}

func (r *Repo) openIntegration(journal string) (*integration, error) {
	t, err := openTree(r.top)
	if err != nil {
		return nil, core.Errorf(core.KindOS, "opening the working tree %q: %w", r.top, err)
	}
	j, err := openTree(journal)
	if err != nil {
		t.close()
		return nil, core.Errorf(core.KindOS, "opening the journal %s: %w", journal, err)
	}
	return &integration{repo: r, path: journal, tree: t, journal: j, index: map[string]int{}, trace: func(string) {}, renames: r.renames}, nil
}

func (i *integration) close() {
	i.tree.close()
	i.journal.close()
}

// step tells the trace what comes next.
func (i *integration) step(what, path string) {
	if path != "" {
		what += " " + QuotePath(path)
	}
	i.trace(what)
}

// prepare finds out what is to be done, and writes the journal: first the new
// and the old contents, then the plan. Nothing in the tree is touched.
func (i *integration) prepare(ctx context.Context, changes []Change) error {
	if err := i.plan(changes); err != nil {
		return err
	}
	i.step("stage", "")
	if err := i.stage(ctx); err != nil {
		return core.Errorf(core.KindRuntime, "staging the patch: %w", err)
	}
	for n := range i.rec.Steps {
		i.step("save", string(i.rec.Steps[n].Path))
		if err := i.save(n); err != nil {
			return core.Errorf(core.KindRuntime, "saving what the patch replaces: %w", err)
		}
	}
	if err := i.journal.dir.Sync(); err != nil {
		return core.Errorf(core.KindOS, "writing the journal %s: %w", i.path, err)
	}
	i.step("plan", "")
	return i.publishRecord()
}

// plan compares the disk with the two trees.
func (i *integration) plan(changes []Change) error {
	deletes := map[string]bool{} // path -> the patch deletes it
	for _, c := range changes {
		deletes[c.Path] = c.NewMode == modeAbsent
	}
	dirty := &PathError{Err: ErrDirty}
	for _, c := range changes {
		if err := i.planPath(c, deletes, dirty); err != nil {
			return core.Errorf(core.KindOS, "looking at %s: %w", QuotePath(c.Path), err)
		}
	}
	if len(dirty.Paths) > 0 {
		return core.Errorf(core.KindRuntime, "nothing was written: %w", dirty).
			WithRemedy("commit, move or undo these changes in the working tree, then integrate again")
	}
	return i.planFolders(deletes)
}

// planPath adds a step for a path, or names what is in its way.
func (i *integration) planPath(c Change, deletes map[string]bool, dirty *PathError) error {
	if at, err := i.tree.nested(c.Path); err != nil {
		return err
	} else if at != "" {
		dirty.add(c.Path, QuotePath(at)+" is a git repository of its own")
		return nil
	}
	now, err := i.look(c.Path, func(at string) bool { return deletes[at] })
	var blocked *blockedError
	if errors.As(err, &blocked) {
		dirty.add(c.Path, QuotePath(blocked.at)+" is a link or a file")
		return nil
	}
	if err != nil {
		return err
	}
	before, after := content{Mode: c.OldMode, ID: c.OldID, Size: c.OldSize}, content{Mode: c.NewMode, ID: c.NewID, Size: c.Size}
	switch {
	case now.same(after):
		return nil
	case now.same(before):
	case now.Mode == modeFolder && c.OldMode == modeAbsent:
		if clear, err := i.clearable(c.Path, deletes, dirty); err != nil || !clear {
			return err
		}
	default:
		dirty.add(c.Path, now.describe())
		return nil
	}
	after.Perm = now.permFor(after.Mode)
	i.index[c.Path] = len(i.rec.Steps)
	i.rec.Steps = append(i.rec.Steps, step{Path: []byte(c.Path), Before: now, After: after})
	return nil
}

// clearable tells whether the patch deletes all that is in a folder; it names
// what it does not.
func (i *integration) clearable(path string, deletes map[string]bool, dirty *PathError) (clear bool, err error) {
	dir, err := i.tree.folder(path)
	if err != nil {
		return false, err
	}
	names, err := readNames(dir)
	if err = errors.Join(err, dir.Close()); err != nil {
		return false, err
	}
	if clear = len(names) > 0; !clear {
		dirty.add(path, "an empty folder is in the way")
	}
	for _, name := range names {
		full := join(path, name)
		_, mode, err := i.tree.lstat(full)
		if err != nil {
			return false, err
		}
		if mode == modeFolder {
			below, err := i.clearable(full, deletes, dirty)
			if err != nil {
				return false, err
			}
			clear = clear && below
		} else if !deletes[full] {
			dirty.add(full, "is in the way")
			clear = false
		}
	}
	return clear, nil
}

// planFolders lists the folders that must be made, and those that may be empty
// after the deletions and then go, as in git.
func (i *integration) planFolders(deletes map[string]bool) error {
	above, emptied := map[string]bool{}, map[string]bool{} // folders above what is written and deleted
	for _, s := range i.rec.Steps {
		to := above
		if s.After.Mode == modeAbsent {
			to = emptied
		}
		for dir, _ := split(string(s.Path)); dir != ""; dir, _ = split(dir) {
			to[dir] = true
		}
	}
	for _, dir := range sorted(above) {
		now, err := i.look(dir, func(at string) bool { return deletes[at] })
		if err != nil {
			return core.Errorf(core.KindOS, "looking at %s: %w", QuotePath(dir), err)
		}
		if now.Mode != modeFolder {
			i.rec.Makes = append(i.rec.Makes, folder{Path: []byte(dir)})
		}
	}
	for _, dir := range sorted(emptied) {
		if above[dir] {
			continue
		}
		st, mode, err := i.tree.lstat(dir)
		if err != nil {
			return core.Errorf(core.KindOS, "looking at %s: %w", QuotePath(dir), err)
		}
		if mode == modeFolder {
			i.rec.Drops = append(i.rec.Drops, folder{Path: []byte(dir), Perm: uint32(st.Mode) & 0o7777})
		}
	}
	return nil
}

// look returns what is at a path. A file or link where a folder should be
// means that nothing is there, if it gives way.
func (i *integration) look(path string, givesWay func(at string) bool) (content, error) {
	dir, name, err := i.tree.parent(path)
	var blocked *blockedError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return content{}, nil
	case errors.As(err, &blocked) && givesWay(blocked.at):
		return content{}, nil
	case err != nil:
		return content{}, err
	}
	defer func() { _ = dir.Close() }()
	return contentAt(dir, name, len(i.rec.BaseTree))
}
