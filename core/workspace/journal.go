package workspace

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// Files of a journal. Each is published whole, in this order:
//
//	new-000000   what step 0 writes
//	old-000000   what step 0 replaces, on disk before the plan is
//	plan.json    a record; from here on the tree may be touched
//	applied      the tree is new
//	undo         ... but it was decided to go back
//	rolled-back  the tree is old, for good
const (
	planName       = "plan.json"
	appliedName    = "applied"
	undoName       = "undo"
	rolledBackName = "rolled-back"

	recordVersion = 1
	maxRecord     = 64 << 20 // bytes; maxChanges steps have room
)

// record is what a roll back needs to know. Paths are bytes, which JSON holds
// as base64.
type record struct {
	Version  int      `json:"version"`
	Top      string   `json:"top"`
	BaseTree string   `json:"base_tree"`
	Tree     string   `json:"tree"`
	Token    string   `json:"token"` // part of the names of temporary files
	Steps    []step   `json:"steps"`
	Makes    []folder `json:"makes"` // folders to make, parents first
	Drops    []folder `json:"drops"` // folders that go when empty, parents first
}

type step struct {
	Path   []byte  `json:"path"`
	Before content `json:"before"`
	After  content `json:"after"`
}

type folder struct {
	Path []byte `json:"path"`
	Perm uint32 `json:"perm,omitempty"` // permission bits before it went
}

func newName(n int) string { return fmt.Sprintf("new-%06d", n) }
func oldName(n int) string { return fmt.Sprintf("old-%06d", n) }

// temp is the name of step n's temporary file, in the folder of its path.
func (r *record) temp(n int) string { return fmt.Sprintf(".mmo-%s-%06d.tmp", r.Token, n) }

// aside is the name beside step n's path that what was there is moved to, to be
// looked at before it goes.
func (r *record) aside(n int) string { return fmt.Sprintf(".mmo-%s-%06d.aside", r.Token, n) }

func (r *record) paths() []string {
	var paths []string
	for _, s := range r.Steps {
		paths = append(paths, string(s.Path))
	}
	return paths
}

// makeJournal makes the folder of an integration. One that another began in is
// refused, unless that is proven to have left the tree as it was: then it begins
// anew. The caller holds the lock.
func (r *Repo) makeJournal(path string) error {
	if !filepath.IsAbs(path) || Within(path, r.top) {
		return core.Errorf(core.KindValue, "journal %q must be an absolute path outside the working tree", path)
	}
	if err := folders.MakeDir(path); err != nil {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return core.Errorf(core.KindOS, "opening the journal %s: %w", path, err)
	}
	if len(entries) == 0 {
		return nil
	}
	for _, e := range entries {
		if !journalFile.MatchString(e.Name()) {
			return core.Errorf(core.KindValue, "folder %s holds %q and can't be a journal", path, e.Name()).
				WithRemedy("name a folder that is used for nothing else")
		}
	}
	over, err := r.isRolledBack(path)
	if err != nil {
		return err
	}
	if !over {
		return core.Errorf(core.KindValue, "journal %s is in use by another integration", path).
			WithRemedy("wait for its end; one that a crash cut off is ended when its session starts again")
	}
	if err := discard(path); err != nil {
		return err
	}
	return folders.MakeDir(path)
}

// journalFile is the name of a file of a journal, or of one that publish was
// cut off at.
var journalFile = regexp.MustCompile(`^((new|old)-[0-9]{6}|\.?(plan\.json|applied|undo|rolled-back)(\.[A-Z2-7]{8}\.tmp)?)$`)

// isRolledBack tells whether an integration ended with the tree as it was, or
// never got to where it may touch that.
func (r *Repo) isRolledBack(journal string) (bool, error) {
	i, err := r.openIntegration(journal)
	if err != nil {
		return false, err
	}
	defer i.close()
	planned, err := i.readRecord()
	if err != nil || !planned {
		return err == nil, err
	}
	over, err := i.marked(rolledBackName)
	if err != nil {
		err = core.Errorf(core.KindOS, "reading the journal %s: %w", journal, err)
	}
	return over, err
}

func (i *integration) publishRecord() error {
	data, err := json.Marshal(i.rec)
	if err != nil {
		return core.Errorf(core.KindRuntime, "writing the journal %s: %w", i.path, err)
	}
	return i.mark(planName, data)
}

func (i *integration) mark(name string, data []byte) error {
	if err := publish(filepath.Join(i.path, name), data); err != nil {
		return core.Errorf(core.KindOS, "writing the journal %s: %w", i.path, err)
	}
	return nil
}

// marked tells whether a file of the journal is there.
func (i *integration) marked(name string) (bool, error) {
	_, mode, err := i.journal.lstat(name)
	return mode != modeAbsent, err
}

// readRecord reads the plan back; false when there is none yet.
func (i *integration) readRecord() (bool, error) {
	data, err := readSmall(filepath.Join(i.path, planName), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = strictjson.Unmarshal(data, &i.rec, nil)
	}
	if err != nil {
		return false, core.Errorf(core.KindRuntime, "reading the journal %s: %w", i.path, err)
	}
	if i.rec.Version != recordVersion || i.rec.Top != i.repo.top || !isID(i.rec.BaseTree) {
		return false, core.Errorf(core.KindValue, "journal %s is of version %d for %q, not of version %d for %q",
			i.path, i.rec.Version, i.rec.Top, recordVersion, i.repo.top)
	}
	for n, s := range i.rec.Steps {
		if reason := refusedPath(s.Path); reason != "" {
			return false, core.Errorf(core.KindValue, "journal %s: step %d: %s", i.path, n, reason)
		}
		i.index[string(s.Path)] = n
	}
	return true, nil
}

// create makes a file of the journal and fills it.
func (i *integration) create(name string, fill func(io.Writer) error) error {
	fd, err := openat(int(i.journal.dir.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &fs.PathError{Op: "create", Path: filepath.Join(i.path, name), Err: err}
	}
	f := os.NewFile(uintptr(fd), filepath.Join(i.path, name))
	return errors.Join(f.Chmod(0o600), fill(f), f.Sync(), f.Close())
}

// stage takes the new contents out of git before anything is touched, so that
// neither a missing object nor a full disk can stop the work half way.
func (i *integration) stage(ctx context.Context) error {
	var ids []byte
	var order []int
	for n, s := range i.rec.Steps {
		if s.After.isBlob() {
			ids = append(append(ids, s.After.ID...), '\n')
			order = append(order, n)
		}
	}
	if len(order) == 0 {
		return nil
	}
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := i.unpack(bufio.NewReader(read), order)
		_ = read.CloseWithError(err) // a failed reader ends git's writing
		done <- err
	}()
	err := i.repo.git.run(ctx, call{args: []string{"cat-file", "--batch"}, gitDir: i.repo.private, stdin: ids, stdout: write})
	_ = write.CloseWithError(err)
	return errors.Join(<-done, err)
}

// unpack reads the answers of `git cat-file --batch`.
func (i *integration) unpack(in *bufio.Reader, order []int) error {
	for _, n := range order {
		want := i.rec.Steps[n].After
		head, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if head != fmt.Sprintf("%s blob %d\n", want.ID, want.Size) {
			return fmt.Errorf("unexpected answer %q for object %s", head, want.ID)
		}
		err = i.create(newName(n), func(w io.Writer) error {
			return copyHashed(w, io.LimitReader(in, want.Size), want)
		})
		if err != nil {
			return err
		}
		if _, err := in.Discard(1); err != nil { // the newline at its end
			return err
		}
	}
	return nil
}

// copyHashed copies exactly the bytes that a content names.
func copyHashed(w io.Writer, r io.Reader, want content) error {
	id, err := hashReader(len(want.ID), r, want.Size, w)
	if err == nil && id != want.ID {
		err = fmt.Errorf("it has other bytes than object %s", want.ID)
	}
	return err
}

// save copies what step n replaces into the journal.
func (i *integration) save(n int) error {
	s := i.rec.Steps[n]
	if !s.Before.isBlob() {
		return nil
	}
	dir, name, err := i.tree.parent(string(s.Path))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return i.create(oldName(n), func(w io.Writer) error {
		if s.Before.Mode == modeLink {
			target, err := readLink(dir, name)
			if err == nil {
				_, err = w.Write(target)
			}
			return err
		}
		f, _, err := openRegular(dir, name)
		if err != nil {
			return err
		}
		return errors.Join(copyHashed(w, f, s.Before), f.Close())
	})
}

// Discard removes the journal of an integration whose outcome is recorded. One
// that did not end yet stays: it may be needed for a roll back.
func (r *Repo) Discard(ctx context.Context, journal string) error {
	outcome, err := r.Resume(ctx, journal)
	if err != nil {
		return err
	}
	if err := discard(journal); err != nil {
		return core.Errorf(core.KindRuntime, "the integration is %s: %w", outcome.State, err)
	}
	return nil
}

// discard removes a journal, the plan first: without it the marks of how it
// ended are not needed, without them it would be carried out.
func discard(journal string) error {
	err := os.Remove(filepath.Join(journal, planName))
	if err == nil {
		err = syncFolder(journal)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.RemoveAll(journal)
	}
	if err != nil {
		return core.Errorf(core.KindOS, "removing the journal %s: %w", journal, err)
	}
	return nil
}
