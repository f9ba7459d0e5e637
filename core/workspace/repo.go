package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
)

// Options says how a repository is worked on.
type Options struct {
	Git      string // the git program, an absolute path that the caller resolved once
	StateDir string // state root, real path, prepared (see core/folders)

	// FoldCase compares a write scope without regard to case, for working
	// trees on a file system that does so.
	FoldCase bool

	// Free tells how many bytes can still be written below a folder. Nil means
	// what the file system reports.
	Free func(dir string) (uint64, error)
}

// Repo is a user's repository, seen from a private git folder of ours. Its
// methods may be called from many goroutines and processes at once.
type Repo struct {
	place
	git     git
	private string // the private git folder
	prefix  string // the workspace relative to the top level; "" when they are one
	opts    Options
	renames renames
}

// Open finds the repository of a workspace, an absolute real path, and prepares
// its private git folder. Nothing in the repository is changed or run, and its
// configuration is not read. It refuses a folder outside any repository, a
// bare repository and one that has no commit yet; each error tells the remedy.
func Open(ctx context.Context, workspace string, opts *Options) (*Repo, error) {
	if opts == nil || !filepath.IsAbs(opts.Git) || !filepath.IsAbs(opts.StateDir) {
		return nil, core.Errorf(core.KindValue, "opening workspace %q: git %q and state root %q must be absolute paths", workspace, optGit(opts), optState(opts))
	}
	if !filepath.IsAbs(workspace) {
		return nil, core.Errorf(core.KindValue, "workspace %q is not an absolute path", workspace)
	}
	p, err := find(workspace)
	if err != nil {
		return nil, err
	}
	commit, err := p.head()
	if err != nil {
		return nil, err
	}
	base := filepath.Join(opts.StateDir, "git")
	sum := sha256.Sum256([]byte(p.common))
	r := &Repo{
		place:   p,
		git:     git{path: opts.Git, home: filepath.Join(base, "home")},
		private: filepath.Join(base, hex.EncodeToString(sum[:12])),
		opts:    *opts,
		renames: renames{free: renameFree, swap: renameSwap},
	}
	if r.prefix, err = filepath.Rel(p.top, workspace); err != nil || r.prefix == "." {
		r.prefix = ""
	}
	if err := folders.MakeDir(r.git.home); err != nil {
		return nil, err
	}
	unlock, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := os.Lstat(filepath.Join(r.private, "HEAD")); err != nil { // the first time
		if err := r.git.checkVersion(ctx); err != nil {
			return nil, err
		}
	}
	if err := r.prepare(len(commit)); err != nil {
		return nil, core.Errorf(core.KindOS, "preparing the private git folder %s: %w", r.private, err)
	}
	return r, nil
}

func optGit(o *Options) string {
	if o == nil {
		return ""
	}
	return o.Git
}

func optState(o *Options) string {
	if o == nil {
		return ""
	}
	return o.StateDir
}

// Top returns the top level of the user's working tree, a real absolute path.
func (r *Repo) Top() string { return r.top }

// Prefix returns the workspace relative to the top level; "" when they are one.
func (r *Repo) Prefix() string { return r.prefix }

// GitDir returns the private git folder. A worker's sandbox must let it read
// that folder and the user's objects (ObjectsDir), and write neither.
func (r *Repo) GitDir() string { return r.private }

// ObjectsDir returns the folder of the user's git objects.
func (r *Repo) ObjectsDir() string { return filepath.Join(r.common, "objects") }

// treeOf returns the id of a commit's tree, and proves by that that the commit
// is there.
func (r *Repo) treeOf(ctx context.Context, id string) (string, error) {
	if !isID(id) {
		return "", core.Errorf(core.KindValue, "%q is not an object id", id)
	}
	out, err := r.git.output(ctx, 1<<10, call{args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", id + "^{tree}"}, gitDir: r.private})
	tree := strings.TrimSpace(string(out))
	if err != nil || !isID(tree) {
		return "", core.Errorf(core.KindNotFound, "object %s is not in the repository %q: %w", id, r.top, err).
			WithRemedy("check the repository with `git fsck`; a partial clone must be completed first")
	}
	return tree, nil
}

// refName is what Keep takes: parts of lower case letters, digits and dashes.
var refName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*(/[a-z0-9][a-z0-9-]*)*$`)

// Keep makes a private ref refs/mmo/<name> to a captured tree: the name under
// which git finds it. Nothing prunes the private git folder, and Capture put
// there all that an integration reads, so a captured tree can be integrated even
// when the user's own objects of its base are pruned. The rest of the tree, which
// the worker did not change, is the user's alone. The user's refs are not
// touched.
func (r *Repo) Keep(ctx context.Context, name, tree string) error {
	if !refName.MatchString(name) || len(name) > 200 {
		return core.Errorf(core.KindValue, "%q is no name for a kept tree", name)
	}
	if err := r.checkTrees(ctx, tree, tree); err != nil {
		return err
	}
	err := r.git.run(ctx, call{args: []string{"update-ref", "refs/mmo/" + name, tree}, gitDir: r.private})
	if err != nil {
		return core.Errorf(core.KindOS, "keeping tree %s as %s: %w", tree, name, err)
	}
	return nil
}

// Forget drops what Keep kept under a name, so that git may remove it. What was
// never kept is no error.
func (r *Repo) Forget(ctx context.Context, name string) error {
	if !refName.MatchString(name) || len(name) > 200 {
		return core.Errorf(core.KindValue, "%q is no name for a kept tree", name)
	}
	if err := r.git.run(ctx, call{args: []string{"update-ref", "-d", "refs/mmo/" + name}, gitDir: r.private}); err != nil {
		return core.Errorf(core.KindOS, "dropping the kept tree of %s: %w", name, err)
	}
	return nil
}

// attributes switch off whatever a .gitattributes file of the repository may
// switch on: this file beats those. `!diff` leaves it to git to tell text from
// binary files.
const attributes = "* -text !eol -filter -ident !working-tree-encoding -merge !diff !whitespace !export-subst\n"

// configuration of the private git folder: for the worker's own git commands,
// which don't have our environment. A SHA-256 repository needs format 1.
func configuration(idLength int) string {
	format, extension := 0, ""
	if idLength == 64 {
		format, extension = 1, "[extensions]\n\tobjectFormat = sha256\n"
	}
	return "[core]\n\trepositoryformatversion = " + strconv.Itoa(format) +
		"\n\tbare = true\n\tfilemode = true\n\thooksPath = /dev/null\n\tfsmonitor = false\n\tlogAllRefUpdates = false\n" +
		"[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n" + extension
}

// prepare makes or completes the private git folder. The caller holds the lock.
func (r *Repo) prepare(idLength int) error {
	for _, dir := range []string{"objects/info", "objects/pack", "refs/heads", "info", "worktrees"} {
		if err := folders.MakeDir(filepath.Join(r.private, dir)); err != nil {
			return err
		}
	}
	alternates, err := alternatesOf(r.ObjectsDir())
	if err != nil {
		return err
	}
	files := map[string]string{ // name -> content
		"HEAD":                    "ref: refs/heads/none\n",
		"config":                  configuration(idLength),
		"info/attributes":         attributes,
		"objects/info/alternates": alternates,
	}
	if data, err := readSmall(filepath.Join(r.common, "shallow"), maxRefs); err == nil {
		files["shallow"] = string(data) // history ends there; git must know
	}
	for name, content := range files {
		path := filepath.Join(r.private, name)
		if old, err := os.ReadFile(path); err == nil && string(old) == content {
			continue
		}
		if err := publish(path, []byte(content)); err != nil {
			return err
		}
	}
	return nil
}

// maxAlternates is how deep git follows alternates of alternates.
const maxAlternates = 5

// alternatesOf writes the alternates file for the user's objects and all that
// they borrow from in turn, each as a quoted absolute path: git reads quoted
// lines as C strings, so any name fits.
func alternatesOf(objects string) (string, error) {
	var b strings.Builder
	seen := map[string]bool{} // folder of objects -> written
	level := []string{objects}
	for depth := 0; len(level) > 0 && depth < maxAlternates; depth++ {
		var next []string
		for _, dir := range level {
			if seen[dir] {
				continue
			}
			seen[dir] = true
			fmt.Fprintf(&b, "%s\n", quoteC(dir))
			data, err := readSmall(filepath.Join(dir, "info", "alternates"), maxPointer)
			if err != nil {
				continue // it borrows nothing
			}
			for line := range strings.Lines(string(data)) {
				line = strings.TrimRight(line, "\n")
				if strings.HasPrefix(line, `"`) {
					return "", fmt.Errorf("%s has a quoted line, which is not read", filepath.Join(dir, "info", "alternates"))
				}
				if line != "" && !strings.HasPrefix(line, "#") {
					next = append(next, filepath.Clean(absolute(line, dir)))
				}
			}
		}
		level = next
	}
	return b.String(), nil
}

// quoteC quotes bytes as git's unquote_c_style reads them.
func quoteC(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// lock waits until this caller alone may change the private git folder or the
// user's tree, over all processes. A caller that gives up leaves the waiter
// behind, which lets go as soon as it has the lock.
func (r *Repo) lock(ctx context.Context) (unlock func(), err error) {
	name := r.private + ".lock"
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, core.Errorf(core.KindOS, "opening the lock of repository %q: %w", r.top, err)
	}
	granted := make(chan error, 1)
	go func() {
		err := unix.EINTR
		for err == unix.EINTR {
			err, _ = unix.Flock(int(f.Fd()), unix.LOCK_EX).(unix.Errno)
		}
		if err != 0 {
			granted <- err
			return
		}
		granted <- nil
	}()
	select {
	case err := <-granted:
		if err != nil {
			_ = f.Close()
			return nil, core.Errorf(core.KindOS, "locking %s: %w", name, err)
		}
		return func() { _ = f.Close() }, nil // which unlocks it
	case <-ctx.Done():
		go func() {
			<-granted
			_ = f.Close()
		}()
		return nil, core.Errorf(core.KindUnavailable, "waiting for the change of repository %q that holds %s: %w", r.top, name, context.Cause(ctx))
	}
}
