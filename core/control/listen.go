package control

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/codex-mmo/codex-mmo/core"
)

// maxSocketPath is one more than the longest path we bind, in bytes. The kernel
// takes 107 on Linux and 103 on macOS; the rest is for the temporary name, which
// may be longer than a very short final one.
const maxSocketPath = 100

// Listen binds the control socket at path: mode 0600, in a folder that must
// exist, belong to us and be closed to others (0700).
//
// The socket appears at its path only once it takes connections, in one step
// that also replaces the socket of a supervisor that died; a socket that
// somebody still answers is refused. Closing the listener removes the path
// only while it still is this listener's own socket, so a supervisor that
// retires late never takes away the socket of its replacement.
func Listen(path string) (net.Listener, error) {
	if len(path) >= maxSocketPath {
		return nil, core.Errorf(core.KindValue, "control socket path has %d bytes, at most %d work: %s", len(path), maxSocketPath-1, path).
			WithRemedy("set MMO_RUNTIME_DIR to a shorter folder")
	}
	folder, err := openFolder(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	l, err := bindAside(path)
	if err != nil {
		return nil, err
	}
	if err := l.moveInto(folder, path); err != nil {
		_ = l.UnixListener.Close()
		_ = os.Remove(l.path)
		return nil, err
	}
	return l, nil
}

// listener is a bound control socket that knows its own inode.
type listener struct {
	*net.UnixListener
	path string
	own  fs.FileInfo
	once sync.Once
	err  error
}

// bindAside binds a socket beside path under a name of its own.
func bindAside(path string) (*listener, error) {
	var salt [4]byte
	_, _ = rand.Read(salt[:]) // never fails; documented by crypto/rand
	aside := filepath.Join(filepath.Dir(path), "."+hex.EncodeToString(salt[:]))
	bound, err := net.ListenUnix("unix", &net.UnixAddr{Name: aside, Net: "unix"})
	if err != nil {
		return nil, core.Errorf(core.KindOS, "bind the control socket %s: %w", path, err)
	}
	bound.SetUnlinkOnClose(false)
	l := &listener{UnixListener: bound, path: aside}
	err = os.Chmod(aside, 0o600) // whatever the umask is
	if err == nil {
		l.own, err = os.Lstat(aside)
	}
	if err != nil {
		_ = bound.Close()
		_ = os.Remove(aside)
		return nil, core.Errorf(core.KindOS, "close the control socket %s to others: %w", path, err)
	}
	return l, nil
}

// moveInto gives the socket its final name unless a live one has it. The lock
// on the folder keeps two supervisors from replacing each other's socket.
func (l *listener) moveInto(folder *os.File, path string) error {
	unlock, err := lock(folder)
	if err != nil {
		return err
	}
	defer unlock()
	if err := replaceable(path); err != nil {
		return err
	}
	if err := os.Rename(l.path, path); err != nil {
		return core.Errorf(core.KindOS, "put the control socket at %s: %w", path, err)
	}
	l.path = path
	return nil
}

// replaceable returns nil when nothing is at path, or a socket nobody listens
// at.
func replaceable(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return core.Errorf(core.KindOS, "look at the control socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return core.Errorf(core.KindOS, "%s is not a socket and will not be replaced", path).
			WithRemedy("remove it")
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		_ = conn.Close()
	}
	if err == nil || !errors.Is(err, syscall.ECONNREFUSED) {
		return core.Errorf(core.KindRuntime, "another supervisor answers at %s", path)
	}
	return nil
}

// Close stops listening and removes the socket if the path is still ours.
func (l *listener) Close() error {
	l.once.Do(func() { l.err = l.close() })
	return l.err
}

func (l *listener) close() error {
	folder, err := openFolder(filepath.Dir(l.path))
	if err != nil {
		return l.UnixListener.Close() // the folder is gone, and the path with it
	}
	defer folder.Close()
	unlock, err := lock(folder)
	if err != nil {
		return errors.Join(err, l.UnixListener.Close())
	}
	defer unlock()
	// The listener goes first and the path second, both under the lock: whoever
	// comes next finds either our live socket or none.
	err = l.UnixListener.Close()
	if now, statErr := os.Lstat(l.path); statErr == nil && os.SameFile(now, l.own) {
		err = errors.Join(err, os.Remove(l.path))
	}
	return err
}

// openFolder opens the socket's folder and checks that it is ours alone.
func openFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, core.Errorf(core.KindOS, "open the folder of the control socket: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, core.Errorf(core.KindOS, "read the folder of the control socket: %w", err)
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(sys.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		_ = f.Close()
		return nil, core.Errorf(core.KindOS, "folder %s of the control socket is open to others (mode %04o)", dir, info.Mode().Perm()).
			WithRemedy("make it yours with mode 0700, or set MMO_RUNTIME_DIR")
	}
	return f, nil
}

// lock takes the folder's flock and returns what gives it back.
func lock(folder *os.File) (unlock func(), err error) {
	for {
		err = syscall.Flock(int(folder.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, core.Errorf(core.KindOS, "lock %s: %w", folder.Name(), err)
	}
	return func() { _ = syscall.Flock(int(folder.Fd()), syscall.LOCK_UN) }, nil
}
