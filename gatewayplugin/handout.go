package gatewayplugin

import (
	"net"
	"os"
	"syscall"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
)

// handOutWait bounds one answer of the listener's socket. The answer fits into
// the socket's buffer, so only a stopped machine needs any of it.
const handOutWait = time.Second

// handOut opens the private socket at path and sends whoever of this user
// connects a duplicate of the listener; see plugins.ListenerSocket. It ends with
// the gateway.
func (g *Gateway) handOut(path string, listener *net.TCPListener) error {
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return core.Errorf(core.KindOS, "offer the listener's descriptor: %w", err)
	}
	// Until here the folder, which is 0700, kept others out.
	if err := os.Chmod(path, 0o600); err != nil {
		_ = socket.Close() // it is refused
		return core.Errorf(core.KindOS, "offer the listener's descriptor: %w", err)
	}
	g.tasks.Go(func() {
		<-g.life.Done()
		_ = socket.Close() // ends the loop below
	})
	g.tasks.Go(func() {
		for {
			conn, err := socket.AcceptUnix()
			switch {
			case err == nil:
				g.answerHandOut(conn, listener)
			case g.life.Err() != nil:
				return
			default:
				g.opts.Log.Warn("a session could not take a duplicate of the listener", "err", err)
				select { // the process is out of descriptors, most likely
				case <-time.After(handOutWait):
				case <-g.life.Done():
				}
			}
		}
	})
	return nil
}

func (g *Gateway) answerHandOut(conn *net.UnixConn, listener *net.TCPListener) {
	defer conn.Close()
	if err := sendListener(conn, listener); err != nil {
		g.opts.Log.Warn("a session could not take a duplicate of the listener", "err", err)
	}
}

func sendListener(conn *net.UnixConn, listener *net.TCPListener) error {
	uid, err := peerUID(conn)
	if err != nil {
		return core.Errorf(core.KindOS, "read the peer of the listener's socket: %w", err)
	}
	if uid != os.Geteuid() {
		return core.Errorf(core.KindPermission, "user %d asked for the listener", uid)
	}
	if err := conn.SetWriteDeadline(time.Now().Add(handOutWait)); err != nil {
		return err
	}
	// Not listener.File: that would make the shared descriptor a blocking one.
	raw, err := listener.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = raw.Control(func(fd uintptr) {
		_, _, sendErr = conn.WriteMsgUnix([]byte{0}, syscall.UnixRights(int(fd)), nil)
	})
	if err != nil {
		return err
	}
	return sendErr
}
