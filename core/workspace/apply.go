package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
)

// apply does the steps of the plan: deletions, folders, then files, each file
// complete and on disk before it gets its name.
func (i *integration) apply(ctx context.Context) error {
	for n := len(i.rec.Steps) - 1; n >= 0; n-- {
		if i.rec.Steps[n].After.Mode == modeAbsent {
			if err := i.do(ctx, n, i.remove); err != nil {
				return err
			}
		}
	}
	for n := len(i.rec.Drops) - 1; n >= 0; n-- {
		i.step("drop folder", string(i.rec.Drops[n].Path))
		if err := i.dropFolder(string(i.rec.Drops[n].Path)); err != nil {
			return err
		}
	}
	for _, f := range i.rec.Makes {
		i.step("make folder", string(f.Path))
		if err := i.makeFolder(f); err != nil {
			return err
		}
	}
	for n := range i.rec.Steps {
		if i.rec.Steps[n].After.Mode != modeAbsent {
			if err := i.do(ctx, n, i.write); err != nil {
				return err
			}
		}
	}
	i.step("sync", "")
	if err := i.sync(); err != nil {
		return err
	}
	i.step("mark applied", "")
	return i.mark(appliedName, nil)
}

// do does one step, unless the caller gave up.
func (i *integration) do(ctx context.Context, n int, act func(n int) error) error {
	path := string(i.rec.Steps[n].Path)
	if err := context.Cause(ctx); err != nil {
		return core.Errorf(core.KindRuntime, "before %s: %w", QuotePath(path), err)
	}
	if err := act(n); err != nil {
		return core.Errorf(core.KindRuntime, "writing %s: %w", QuotePath(path), err)
	}
	return nil
}

// remove deletes the path of step n.
func (i *integration) remove(n int) error {
	s := i.rec.Steps[n]
	i.step("delete", string(s.Path))
	return i.unlink(n, s.Before)
}

// unlink deletes the file or link at the path of step n, which must be as
// expected.
func (i *integration) unlink(n int, now content) error {
	s, err := i.spot(n)
	if err != nil {
		return err
	}
	defer s.close()
	return i.touching(n, func() error { return s.take(now) })
}

// write puts the new content of step n in place.
func (i *integration) write(n int) error {
	s := i.rec.Steps[n]
	now := s.Before
	if now.Mode == modeFolder { // it was dropped
		now = content{}
	}
	return i.put(n, now, s.After, newName(n))
}

// put replaces what is at a path, which must be as expected, by a content that
// lies in the journal.
func (i *integration) put(n int, now, to content, source string) error {
	path := string(i.rec.Steps[n].Path)
	i.step("write", path)
	s, err := i.spot(n)
	if err != nil {
		return err
	}
	defer s.close()
	defer func() { _ = s.drop(s.temp) }() // it has another name when all went well
	if to.Mode == modeLink {
		err = i.makeLink(s.dir, s.temp, to, source)
	} else {
		err = i.makeFile(s.dir, s.temp, to, source)
	}
	if err != nil {
		return err
	}
	i.step("place", path)
	return i.touching(n, func() error { return s.give(now) })
}

// touching notes that this process may have changed the path of step n, unless
// it found it to be somebody else's and left it so.
func (i *integration) touching(n int, act func() error) error {
	path := string(i.rec.Steps[n].Path)
	if i.touched == nil || i.touched[path] {
		return act()
	}
	i.touched[path] = true
	err := act()
	if errors.Is(err, errMeanwhile) {
		delete(i.touched, path)
	}
	return err
}

// makeFile makes a temporary file of a content in the journal.
func (i *integration) makeFile(dir *os.File, temp string, to content, source string) error {
	in, _, err := openRegular(i.journal.dir, source)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	mode := uint32(0o666) // the umask decides, as for any new file of the user
	if to.Mode == modeExec {
		mode = 0o777
	}
	fd, err := openat(int(dir.Fd()), temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), temp)
	if err = copyHashed(out, in, to); err == nil && to.Perm != 0 {
		err = unix.Fchmod(fd, to.Perm)
	}
	return errors.Join(err, out.Sync(), out.Close())
}

// makeLink makes a temporary link whose target lies in the journal.
func (i *integration) makeLink(dir *os.File, temp string, to content, source string) error {
	in, _, err := openRegular(i.journal.dir, source)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	target, err := io.ReadAll(io.LimitReader(in, maxLink+1))
	if err != nil {
		return err
	}
	if hashBytes(len(to.ID), "blob", target) != to.ID {
		return fmt.Errorf("%s of the journal is damaged", source)
	}
	return unix.Symlinkat(string(target), int(dir.Fd()), temp)
}

// dropFolder removes a folder if it is one and empty.
func (i *integration) dropFolder(path string) error {
	dir, name, err := i.tree.parent(path)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	err = unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return nil
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, fs.ErrExist):
		return nil // the user's own files keep it
	}
	return err
}

// makeFolder makes a folder that is not there.
func (i *integration) makeFolder(f folder) error {
	dir, name, err := i.tree.parent(string(f.Path))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	err = unix.Mkdirat(int(dir.Fd()), name, 0o777)
	if errors.Is(err, fs.ErrExist) {
		return nil // if it is no folder, the next step fails
	}
	if err == nil && f.Perm != 0 {
		err = unix.Fchmodat(int(dir.Fd()), name, f.Perm, 0)
	}
	return err
}

// sync brings the names in all folders that were changed to disk.
func (i *integration) sync() error {
	changed := map[string]bool{} // folder -> true
	note := func(path []byte) {
		dir, _ := split(string(path))
		changed[dir] = true
	}
	for _, s := range i.rec.Steps {
		note(s.Path)
	}
	for _, f := range i.rec.Makes {
		note(f.Path)
	}
	for _, f := range i.rec.Drops {
		note(f.Path)
	}
	for _, path := range sorted(changed) {
		dir, err := i.tree.folder(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errBlocked) {
			continue // it was dropped
		}
		if err != nil {
			return err
		}
		if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
			return err
		}
	}
	return nil
}
