package workspace

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Modes as git writes them into trees.
const (
	modeAbsent  uint32 = 0
	modeFolder  uint32 = 0o40000
	modeFile    uint32 = 0o100644
	modeExec    uint32 = 0o100755
	modeLink    uint32 = 0o120000
	modeGitlink uint32 = 0o160000
	modeSpecial uint32 = 0o170000 // ours: a device, pipe or socket on disk
)

// errBlocked is in the chain of every blockedError.
var errBlocked = errors.New("a folder on the way is a link or a file")

// blockedError says which folder on the way is none.
type blockedError struct{ at string } // relative to the root

func (e *blockedError) Error() string { return fmt.Sprintf("%q is not a folder", e.at) }
func (e *blockedError) Unwrap() error { return errBlocked }

// tree is a folder whose paths are looked up one component at a time, without
// following a symbolic link and without leaving it. (os.Root follows links that
// stay inside: a patch could then change a file under another name.)
type tree struct{ dir *os.File }

const openFolder = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

func openTree(path string) (*tree, error) {
	fd, err := openat(unix.AT_FDCWD, path, openFolder, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &tree{os.NewFile(uintptr(fd), path)}, nil
}

func (t *tree) close() { _ = t.dir.Close() }

// openat is openat(2) that goes on after a signal.
func openat(fd int, name string, flags int, mode uint32) (int, error) {
	for {
		got, err := unix.Openat(fd, name, flags, mode)
		if !errors.Is(err, unix.EINTR) {
			return got, err
		}
	}
}

// folder opens a folder of the tree; "" is the root. The caller closes it.
func (t *tree) folder(path string) (*os.File, error) {
	at, err := subfolder(t.dir, ".", "")
	if err != nil {
		return nil, err
	}
	done := ""
	for name := range components(path) {
		done = join(done, name)
		next, err := subfolder(at, name, done)
		_ = at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// subfolder opens a folder in a folder; path is its name in errors.
func subfolder(dir *os.File, name, path string) (*os.File, error) {
	fd, err := openat(int(dir.Fd()), name, openFolder, 0)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EMLINK):
		return nil, &blockedError{path}
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// parent opens the folder that a path lies in, and returns the path's last
// component. The caller closes the folder.
func (t *tree) parent(path string) (*os.File, string, error) {
	dir, name := split(path)
	f, err := t.folder(dir)
	return f, name, err
}

// nested tells whether a folder on the way to path is a repository of its own.
func (t *tree) nested(path string) (at string, err error) {
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		dir, err := t.folder(path[:i])
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errBlocked) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		var st unix.Stat_t
		err = unix.Fstatat(int(dir.Fd()), ".git", &st, unix.AT_SYMLINK_NOFOLLOW)
		_ = dir.Close()
		if err == nil {
			return path[:i], nil
		}
	}
	return "", nil
}

// lstat returns what is at a path, without following a link. A path that is
// not there has the mode modeAbsent.
func (t *tree) lstat(path string) (st unix.Stat_t, mode uint32, err error) {
	dir, name, err := t.parent(path)
	if errors.Is(err, fs.ErrNotExist) {
		return st, modeAbsent, nil
	}
	if err != nil {
		return st, 0, err
	}
	defer func() { _ = dir.Close() }()
	return lstatAt(dir, name)
}

func lstatAt(dir *os.File, name string) (st unix.Stat_t, mode uint32, err error) {
	err = unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, fs.ErrNotExist) {
		return st, modeAbsent, nil
	}
	if err != nil {
		return st, 0, &fs.PathError{Op: "stat", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	return st, gitMode(uint32(st.Mode)), nil
}

// gitMode returns the mode that git gives to what stat(2) saw.
func gitMode(mode uint32) uint32 {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return modeFolder
	case unix.S_IFLNK:
		return modeLink
	case unix.S_IFREG:
		if mode&0o100 != 0 {
			return modeExec
		}
		return modeFile
	}
	return modeSpecial
}

// openRegular opens a file for reading if it is a regular one. It never blocks.
func openRegular(dir *os.File, name string) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, st, &fs.PathError{Op: "open", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	f := os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name))
	if err := unix.Fstat(fd, &st); err != nil {
		_ = f.Close()
		return nil, st, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		_ = f.Close()
		return nil, st, errNotRegular
	}
	return f, st, nil
}

// readLink returns the target of a symbolic link.
func readLink(dir *os.File, name string) ([]byte, error) {
	buf := make([]byte, maxLink+1)
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
	if err != nil {
		return nil, &fs.PathError{Op: "readlink", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	if n > maxLink {
		return nil, fmt.Errorf("link %q has a target of more than %d bytes", name, maxLink)
	}
	return buf[:n], nil
}

// publish writes a file whole or not at all, mode 0600 at any umask.
func publish(path string, data []byte) (err error) {
	dir, name := filepath.Split(path)
	t, err := openTree(filepath.Clean(dir))
	if err != nil {
		return err
	}
	defer t.close()
	temp := "." + name + "." + rand.Text()[:8] + ".tmp"
	fd, err := openat(int(t.dir.Fd()), temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &fs.PathError{Op: "create", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close()); err == nil {
		err = unix.Renameat(int(t.dir.Fd()), temp, int(t.dir.Fd()), name)
	}
	if err != nil {
		_ = unix.Unlinkat(int(t.dir.Fd()), temp, 0)
		return &fs.PathError{Op: "publish", Path: path, Err: err}
	}
	return t.dir.Sync()
}

// components yields the parts of a slash-separated path; none for "".
func components(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if path == "" {
			return
		}
		for name := range strings.SplitSeq(path, "/") {
			if !yield(name) {
				return
			}
		}
	}
}

func split(path string) (dir, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
