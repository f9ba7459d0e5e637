package folders

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
)

// Prepare makes the three roots, mode 0700 at any umask, and refuses one that
// others could reach into: a symbolic link, another user's, group- or
// world-writable, below a folder that others may write (such as /tmp), or on a
// network file system. The error names the folder, the reason and the variable
// to set.
func (f Folders) Prepare() error {
	for _, r := range []struct{ path, variable string }{
		{f.Config, ConfigVar},
		{f.State, StateVar},
		{f.Runtime, RuntimeVar},
	} {
		if err := prepare(r.path, r.variable); err != nil {
			return err
		}
	}
	return nil
}

// MakeDir makes a folder below a prepared root, and the folders between,
// private at any umask. A path that is there already must be a folder of this
// user, not a link.
func MakeDir(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := MakeDir(filepath.Dir(path)); err != nil {
			return err
		}
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return core.Errorf(core.KindOS, "making folder %s: %w", path, err)
		}
		info, err = os.Lstat(path)
	}
	if err != nil {
		return core.Errorf(core.KindOS, "making folder %s: %w", path, err)
	}
	if reason := unsafe(info); reason != "" {
		return core.Errorf(core.KindOS, "folder %s is refused: it %s", path, reason)
	}
	if info.Mode().Perm()&0o700 != 0o700 { // a umask that hides it even from us
		if err := os.Chmod(path, 0o700); err != nil {
			return core.Errorf(core.KindOS, "making folder %s usable: %w", path, err)
		}
	}
	return nil
}

func prepare(path, variable string) error {
	remedy := func(err *core.Error) error {
		return err.WithRemedy("set %s to a private folder of yours", variable)
	}
	if err := checkAbove(path, variable); err != nil {
		return err
	}
	if err := CheckFilesystem(existing(path)); err != nil {
		var e *core.Error
		if errors.As(err, &e) {
			return remedy(e)
		}
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return remedy(core.Errorf(core.KindOS, "folder %s can't be made: %w", path, err))
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return remedy(core.Errorf(core.KindOS, "folder %s can't be made: %w", path, err))
	}
	info, err := os.Lstat(path)
	if err != nil {
		return remedy(core.Errorf(core.KindOS, "folder %s can't be used: %w", path, err))
	}
	if reason := unsafe(info); reason != "" {
		return remedy(core.Errorf(core.KindOS, "folder %s is refused: it %s", path, reason))
	}
	if info.Mode().Perm() != 0o700 { // readable by others, or a umask that hides it from us
		if err := os.Chmod(path, 0o700); err != nil {
			return remedy(core.Errorf(core.KindOS, "folder %s can't be made private: %w", path, err))
		}
	}
	if err := unix.Access(path, unix.W_OK); err != nil {
		return remedy(core.Errorf(core.KindOS, "folder %s can't be written: %w", path, err))
	}
	return nil
}

// unsafe says why a folder of ours can't stay private, or nothing.
func unsafe(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return "is a symbolic link"
	case !info.IsDir():
		return "is not a folder"
	case !ok || int(stat.Uid) != os.Geteuid():
		return "belongs to another user"
	case info.Mode().Perm()&0o022 != 0:
		return "is group- or world-writable"
	}
	return ""
}

// checkAbove refuses a place below a folder that others may write: they could
// put another folder in its place, and a sandbox that lets workers write there
// would let them reach ours. Links on the way are followed, as the system does.
func checkAbove(path, variable string) error {
	real, err := filepath.EvalSymlinks(existing(filepath.Dir(path)))
	if err != nil {
		return core.Errorf(core.KindOS, "folder %s can't be looked at: %w", path, err)
	}
	for ; ; real = filepath.Dir(real) {
		info, err := os.Lstat(real)
		if err != nil {
			return core.Errorf(core.KindOS, "folder %s can't be looked at: %w", real, err)
		}
		if info.Mode().Perm()&0o002 != 0 {
			return core.Errorf(core.KindOS, "folder %s is refused: it lies below %s, which is world-writable", path, real).
				WithRemedy("set %s to a private folder of yours", variable)
		}
		if real == filepath.Dir(real) {
			return nil
		}
	}
}

// existing returns the deepest folder of the path that is there.
func existing(path string) string {
	for path != filepath.Dir(path) {
		if _, err := os.Stat(path); err == nil {
			return path
		}
		path = filepath.Dir(path)
	}
	return path
}

func networkRefusal(dir, filesystem string) *core.Error {
	return core.Errorf(core.KindOS, "folder %s is refused: it is on a network file system (%s), where locks don't hold", dir, filesystem)
}
