package supervisor

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/plugins"
)

// heldPort is a duplicate of a gateway's listening socket. As long as one is
// held anywhere nobody else can bind the port, and requests wait in its queue
// while there is no gateway. The zero value holds nothing.
type heldPort struct {
	file    *os.File
	address string // host:port
}

func (p *heldPort) drop() {
	if p.file != nil {
		_ = p.file.Close() // it is only a duplicate
	}
	*p = heldPort{}
}

// addressOf returns the host:port of a gateway's base URL, http://HOST:PORT/v1.
func addressOf(base string) string {
	return strings.TrimSuffix(strings.TrimPrefix(base, "http://"), "/v1")
}

// listen returns the listening socket for the next gateway: our duplicate of
// the old one, else a new one on the old port, else on any port.
func (g *gatewayLink) listen(old *store.Gateway) (*os.File, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.port.file != nil {
		return g.port.file, nil
	}
	var l net.Listener
	err := errors.New("no gateway before")
	if old != nil && old.BaseURL != "" {
		l, err = net.Listen("tcp4", addressOf(old.BaseURL))
	}
	if err != nil {
		if l, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
			return nil, core.Errorf(core.KindOS, "listening on 127.0.0.1 for the gateway: %w", err)
		}
	}
	defer l.Close() // the duplicate keeps the socket open
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		return nil, core.Errorf(core.KindOS, "passing the gateway's socket: %w", err)
	}
	g.port = heldPort{file: file, address: l.Addr().String()}
	return file, nil
}

// holdPort takes a duplicate of the socket that the gateway listens on, unless
// we have one, and drops one of another port. Without a duplicate the session
// works too, and may have to replace its engines when the gateway is lost.
func (g *gatewayLink) holdPort(ctx context.Context, row *store.Gateway) {
	address := addressOf(row.BaseURL)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.port.address == address {
		return
	}
	g.port.drop()
	file, err := fetchListener(ctx, filepath.Join(g.runtimeDir(row.Instance), plugins.ListenerSocket), address)
	if err != nil {
		if ctx.Err() == nil {
			g.sup.log.Warn("the gateway's port is not kept, should the gateway be lost", "err", err)
		}
		return
	}
	g.port = heldPort{file: file, address: address}
}

// fetchWait bounds fetchListener; the gateway answers at once.
const fetchWait = 2 * time.Second

// fetchListener asks a gateway for a duplicate of its listener, which must
// listen on address.
func fetchListener(ctx context.Context, socket, address string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	fd, err := receiveDescriptor(ctx, socket)
	if err != nil {
		return nil, core.Errorf(core.KindOS, "taking a duplicate of the gateway's listener from %s: %w", socket, err)
	}
	if !boundTo(fd, address) {
		_ = syscall.Close(fd)
		return nil, core.Errorf(core.KindRuntime, "the gateway handed out a descriptor that is not its listener on %s", address)
	}
	return os.NewFile(uintptr(fd), "gateway listener"), nil
}

// receiveDescriptor returns the one descriptor that the server of a unix socket
// sends to whoever connects.
func receiveDescriptor(ctx context.Context, socket string) (int, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return -1, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	control := make([]byte, syscall.CmsgSpace(4)) // one descriptor is an int32
	_, n, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(make([]byte, 1), control)
	if err != nil {
		return -1, errors.Join(err, ctx.Err())
	}
	messages, err := syscall.ParseSocketControlMessage(control[:n])
	if err != nil {
		return -1, err
	}
	var fds []int
	for _, m := range messages {
		got, err := syscall.ParseUnixRights(&m)
		if err != nil {
			return -1, err
		}
		fds = append(fds, got...)
	}
	if len(fds) != 1 {
		for _, fd := range fds {
			_ = syscall.Close(fd)
		}
		return -1, core.Errorf(core.KindRuntime, "it sent %d descriptors, want one", len(fds))
	}
	return fds[0], nil
}

// boundTo reports whether a descriptor is a socket with this local address.
func boundTo(fd int, address string) bool {
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return false
	}
	in4, ok := name.(*syscall.SockaddrInet4)
	return ok && netip.AddrPortFrom(netip.AddrFrom4(in4.Addr), uint16(in4.Port)).String() == address
}
