package access

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/process"
)

// PeerOf asks the kernel who connected to c. The error wraps process.ErrGone
// when the peer has already ended.
func PeerOf(c *net.UnixConn) (Peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Peer{}, core.Errorf(core.KindOS, "read the peer of a socket: %w", err)
	}
	var cred *unix.Xucred
	var pid int
	var credErr, pidErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		pid, pidErr = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	})
	if err = errors.Join(err, credErr, pidErr); err != nil {
		return Peer{}, core.Errorf(core.KindOS, "read the peer of a socket: %w", err)
	}
	id, err := process.Lookup(pid)
	if err != nil {
		return Peer{}, err
	}
	return Peer{PID: pid, UID: int(cred.Uid), Process: id}, nil
}

// SameNamespaces always reports true: macOS has no namespaces, so there a
// sandboxed command is told only by its token and its ancestors.
func SameNamespaces(int) (bool, error) { return true, nil }
