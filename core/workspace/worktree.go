package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
)

// Worktree is the record of a working tree that was made for one writer. It is
// plain data for the caller to store.
type Worktree struct {
	Dir        string `json:"dir"`         // the tree, absolute
	Top        string `json:"top"`         // top level of the user's tree that it was made from
	Prefix     string `json:"prefix"`      // the workspace relative to the top level; "" when they are one
	BaseCommit string `json:"base_commit"` // what it was made from
	BaseTree   string `json:"base_tree"`
}

// Cwd returns the folder of the tree that stands for the workspace.
func (w Worktree) Cwd() string { return filepath.Join(w.Dir, w.Prefix) }

// worktreesName is the folder of the state root whose worktrees may be removed
// without a record.
const worktreesName = "worktrees"

// reserve is the free space that a checkout leaves, in bytes.
const reserve = 64 << 20

// AddWorktree checks HEAD's tree out into dir, a new folder of mode 0700, byte
// for byte as it is in the repository. It is detached and registered with the
// private git folder: the user's configuration, index and list of worktrees
// don't change, and git's reading commands work in it. The path must be
// absolute and real, outside the user's tree, and not below a world-writable
// folder. One checkout runs at a time per repository.
func (r *Repo) AddWorktree(ctx context.Context, dir string) (*Worktree, error) {
	unlock, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := r.checkPlace(dir); err != nil {
		return nil, err
	}
	commit, err := r.head()
	if err != nil {
		return nil, err
	}
	tree, err := r.treeOf(ctx, commit)
	if err != nil {
		return nil, err
	}
	base, err := r.list(ctx, tree, true)
	if err != nil {
		return nil, core.Errorf(core.KindRuntime, "making worktree %s: %w", dir, err)
	}
	if err := r.forecast(dir, base); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, core.Errorf(core.KindOS, "making worktree %s: %w", dir, err)
	}
	w := &Worktree{Dir: dir, Top: r.top, Prefix: r.prefix, BaseCommit: commit, BaseTree: tree}
	if err := r.checkOut(ctx, w, base); err != nil {
		return nil, core.Errorf(core.KindRuntime, "making worktree %s: %w", dir, errors.Join(err, r.erase(dir)))
	}
	return w, nil
}

// checkPlace refuses a path for a worktree that others could reach into, or
// that would show up in the user's own tree.
func (r *Repo) checkPlace(dir string) error {
	refuse := func(format string, args ...any) error {
		err := core.Errorf(core.KindValue, format, args...)
		return core.Errorf(core.KindValue, "worktree %q is refused: %w", dir, err)
	}
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || strings.ContainsAny(dir, "\n\x00") {
		return refuse("it is not a clean absolute path")
	}
	parent := filepath.Dir(dir)
	if real, err := filepath.EvalSymlinks(parent); err != nil {
		return refuse("its parent can't be looked at: %w", err)
	} else if real != parent {
		return refuse("its parent is %q behind a link", real)
	}
	if Within(dir, r.top) || Within(dir, r.common) || Within(dir, r.private) || Within(r.top, dir) {
		return refuse("it is not apart from the repository %q", r.top)
	}
	for at := parent; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return refuse("%w", err)
		}
		if info.Mode().Perm()&0o002 != 0 {
			return refuse("it lies below %s, which is world-writable", at)
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return refuse("something is there already")
	}
	return nil
}

// forecast refuses a checkout that would fill the disk.
func (r *Repo) forecast(dir string, base *listing) error {
	free := r.opts.Free
	if free == nil {
		free = freeBytes
	}
	have, err := free(filepath.Dir(dir))
	if err != nil {
		return core.Errorf(core.KindOS, "asking for the free space at %s: %w", filepath.Dir(dir), err)
	}
	const block = 4096 // bytes that a file takes at least
	need := uint64(base.size) + uint64(base.size)/10 + uint64(base.files)*block + reserve
	if have < need {
		return core.Errorf(core.KindOS, "worktree %s is refused: %d files of %d bytes need about %d MiB, %d MiB are free", dir, base.files, base.size, need>>20, have>>20).
			WithRemedy("free some space there or move the state root")
	}
	return nil
}

func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// registration returns the private folder of the worktree at dir.
func (r *Repo) registration(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(r.private, "worktrees", hex.EncodeToString(sum[:8]))
}

// pointer is the content of the file .git of a worktree.
func (r *Repo) pointer(dir string) string { return "gitdir: " + r.registration(dir) + "\n" }

// checkOut registers and fills a worktree. The caller holds the lock, and
// erases what stays when it fails.
func (r *Repo) checkOut(ctx context.Context, w *Worktree, base *listing) error {
	reg := r.registration(w.Dir)
	if err := os.RemoveAll(reg); err != nil { // of a tree that was lost
		return err
	}
	if err := folders.MakeDir(reg); err != nil {
		return err
	}
	if err := os.Chmod(w.Dir, 0o700); err != nil { // at any umask
		return err
	}
	for _, f := range [][2]string{ // layout: gitrepository-layout(5)
		{filepath.Join(reg, "HEAD"), w.BaseCommit + "\n"},
		{filepath.Join(reg, "commondir"), "../..\n"},
		{filepath.Join(reg, "gitdir"), filepath.Join(w.Dir, ".git") + "\n"},
		{filepath.Join(w.Dir, ".git"), r.pointer(w.Dir)},
	} {
		if err := publish(f[0], []byte(f[1])); err != nil {
			return err
		}
	}
	err := r.git.run(ctx, call{args: []string{"read-tree", "--reset", "-u", w.BaseTree}, gitDir: reg, workTree: w.Dir})
	if err != nil {
		return err
	}
	if err := makeFolders(w.Dir, w.Prefix); err != nil {
		return err
	}
	return r.takeSnapshot(ctx, w.Dir, base.root)
}

// makeFolders makes the workspace's folder where the repository has no file in
// it. It does not follow a link.
func makeFolders(dir, prefix string) error {
	t, err := openTree(dir)
	if err != nil {
		return err
	}
	defer t.close()
	done := ""
	for name := range components(prefix) {
		at, err := t.folder(done)
		if err != nil {
			return err
		}
		err = unix.Mkdirat(int(at.Fd()), name, 0o777)
		_ = at.Close()
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		done = join(done, name)
	}
	at, err := t.folder(prefix)
	if err != nil {
		return err
	}
	return at.Close()
}

// Worktree checks that a recorded worktree is there still and is the one that
// was recorded. If not, the error wraps ErrLost: there is nothing to fall back
// to.
func (r *Repo) Worktree(rec Worktree) (*Worktree, error) {
	if err := r.check(rec); err != nil {
		return nil, err
	}
	data, err := readSmall(filepath.Join(rec.Dir, ".git"), maxPointer)
	if err != nil || string(data) != r.pointer(rec.Dir) {
		return nil, core.Errorf(core.KindNotFound, "worktree %s: its .git is not ours: %w", rec.Dir, ErrLost)
	}
	return &rec, nil
}

// check is what every use of a record relies on.
func (r *Repo) check(w Worktree) error {
	if w.Top != r.top || w.Prefix != r.prefix || !isID(w.BaseCommit) || !isID(w.BaseTree) || !filepath.IsAbs(w.Dir) {
		return core.Errorf(core.KindValue, "worktree %q is not one of repository %q", w.Dir, r.top)
	}
	info, err := os.Lstat(w.Dir)
	if err != nil || !info.IsDir() {
		return core.Errorf(core.KindNotFound, "worktree %s is not there: %w", w.Dir, ErrLost)
	}
	if !r.registered(w.Dir) {
		return core.Errorf(core.KindNotFound, "worktree %s is not registered: %w", w.Dir, ErrLost)
	}
	return nil
}

func (r *Repo) registered(dir string) bool {
	data, err := readSmall(filepath.Join(r.registration(dir), "gitdir"), maxPointer)
	return err == nil && string(data) == filepath.Join(dir, ".git")+"\n"
}

// Remove removes a worktree and its registration. The caller has proven that
// its capture is kept. It removes nothing that AddWorktree did not make, and
// goes on where an earlier try was cut off.
func (r *Repo) Remove(ctx context.Context, w Worktree) error {
	unlock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if w.Top != r.top || !r.registered(w.Dir) {
		if _, err := os.Lstat(w.Dir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return core.Errorf(core.KindValue, "%q is not a worktree of repository %q and stays", w.Dir, r.top)
	}
	if err := r.erase(w.Dir); err != nil {
		return core.Errorf(core.KindOS, "removing worktree %s: %w", w.Dir, err)
	}
	return nil
}

// RemoveUnrecorded removes the worktree at dir that AddWorktree made, whole or
// half, for a caller that was cut off before it recorded it: the folder and its
// registration. One that is not there is fine. The path must lie directly in
// the folder worktrees of the state root, and what is there must be registered
// or an empty folder, which is all that AddWorktree leaves; anything else stays.
func (r *Repo) RemoveUnrecorded(ctx context.Context, dir string) error {
	home := filepath.Join(r.opts.StateDir, worktreesName)
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || filepath.Dir(dir) != home {
		return core.Errorf(core.KindValue, "%q does not lie directly in %s and stays", dir, home)
	}
	unlock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	t, err := openTree(home) // not through a link
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return core.Errorf(core.KindOS, "looking at %s: %w", home, err)
	}
	defer t.close()
	_, mode, err := t.lstat(filepath.Base(dir))
	if err == nil && mode == modeFolder && !r.registered(dir) {
		err = unix.Unlinkat(int(t.dir.Fd()), filepath.Base(dir), unix.AT_REMOVEDIR)
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, fs.ErrExist) {
			return core.Errorf(core.KindValue, "%q is not a worktree of repository %q and stays", dir, r.top).
				WithRemedy("look at what is in it, and move it away")
		}
	} else if err == nil && mode != modeFolder && mode != modeAbsent {
		return core.Errorf(core.KindValue, "%q is no folder and stays", dir).WithRemedy("move it away")
	}
	if err == nil {
		err = r.erase(dir)
	}
	if err != nil {
		return core.Errorf(core.KindOS, "removing the unrecorded worktree %s: %w", dir, err)
	}
	return nil
}

// erase removes a worktree's folder, then its registration, so that a folder
// that stays is still known as ours.
func (r *Repo) erase(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		unlock := func(path string, e fs.DirEntry, _ error) error {
			if e != nil && e.IsDir() {
				return os.Chmod(path, 0o700)
			}
			return nil
		}
		if err := errors.Join(filepath.WalkDir(dir, unlock), os.RemoveAll(dir)); err != nil {
			return err
		}
	}
	return os.RemoveAll(r.registration(dir))
}
