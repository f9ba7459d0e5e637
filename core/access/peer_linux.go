package access

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/process"
)

// PeerOf asks the kernel who connected to c. The identity is read while a
// descriptor of the process is held, so that its number can't pass to another
// process in between; kernels before 6.5 have no such descriptor, and there the
// number is taken as it is. The error wraps process.ErrGone when the peer has
// already ended.
func PeerOf(c *net.UnixConn) (Peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Peer{}, core.Errorf(core.KindOS, "read the peer of a socket: %w", err)
	}
	var cred *unix.Ucred
	pidfd := -1
	var sockErr error
	err = raw.Control(func(fd uintptr) {
		cred, sockErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if n, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == nil {
			pidfd = n
		}
	})
	if err = errors.Join(err, sockErr); err != nil {
		return Peer{}, core.Errorf(core.KindOS, "read the peer of a socket: %w", err)
	}
	if pidfd >= 0 {
		defer unix.Close(pidfd)
	}
	pid := int(cred.Pid)
	id, err := process.Lookup(pid)
	if err != nil {
		return Peer{}, err
	}
	if pidfd >= 0 && unix.PidfdSendSignal(pidfd, 0, nil, 0) == unix.ESRCH {
		return Peer{}, core.Errorf(core.KindRuntime, "peer %d of a socket: %w", pid, process.ErrGone)
	}
	return Peer{PID: pid, UID: int(cred.Uid), Process: id}, nil
}

// SameNamespaces reports whether pid lives in our user, process and mount
// namespaces. A sandboxed command does not, whatever it has learnt. The error
// means that this could not be read; the caller must refuse then.
func SameNamespaces(pid int) (bool, error) {
	for _, name := range []string{"user", "pid", "mnt"} {
		ours, err := os.Stat("/proc/self/ns/" + name)
		if err != nil {
			return false, core.Errorf(core.KindOS, "read our own %s namespace: %w", name, err)
		}
		theirs, err := os.Stat(fmt.Sprintf("/proc/%d/ns/%s", pid, name))
		if err != nil {
			return false, core.Errorf(core.KindOS, "read the %s namespace of process %d: %w", name, pid, err)
		}
		if !os.SameFile(ours, theirs) {
			return false, nil
		}
	}
	return true, nil
}
