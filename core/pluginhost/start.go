package pluginhost

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/plugins"
)

// Start runs a plugin and connects to it. record is called with the identity
// of the process as soon as it runs and before anything that it says is relied
// on; an error of it ends the start.
//
// When anything fails after the process was made, the process and its
// descendants are ended and reaped, the instance folder is removed, and the
// error holds the beginning of the plugin's stdout and the end of its log. A
// process that is no usable plugin is an error that wraps ErrRefused.
func Start(ctx context.Context, spec *Spec, record func(process.Identity) error) (*Plugin, error) {
	s, err := prepare(spec)
	if err != nil {
		return nil, err
	}
	logged := fileSize(s.LogPath)
	bounded, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	l, err := newLaunch(s, record)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.Dir))
	}
	p, err := l.run(bounded, s)
	if err == nil {
		return p, nil
	}
	switch {
	case ctx.Err() != nil: // the caller's own end says more than what it broke
		err = fmt.Errorf("given up: %w", context.Cause(ctx))
	// The plugin's side of a call may notice the deadline first.
	case bounded.Err() != nil, status.Code(err) == codes.DeadlineExceeded:
		err = refused("not ready within %v: %w", s.Timeout, err)
	case errors.Is(err, ErrRefused):
		l.lastWords(bounded)
	}
	leftover := l.abandon(ctx)
	output := said("stdout", l.stdout.printed()) + said("log", logTail(s.LogPath, logged))
	failure := core.Errorf(startKind(err), "start %s plugin %s: %w%s", s.Kind, s.Path, err, output)
	return nil, errors.Join(failure, leftover, os.RemoveAll(s.Dir))
}

// startKind is the kind of a failed start: that of the cause, and for a
// process that is no usable plugin KindUnavailable.
func startKind(err error) core.Kind {
	if errors.Is(err, ErrRefused) {
		return core.KindUnavailable
	}
	return core.KindOf(err)
}

// run starts the process, reads the handshake and makes the first call.
func (l *launch) run(ctx context.Context, s *Spec) (*Plugin, error) {
	socket, protocol, err := l.handshake(ctx, s)
	if err != nil {
		return nil, err
	}
	conn, err := dial(socket, s.Dir)
	if err != nil {
		return nil, err
	}
	id := l.child.Identity()
	answer, err := describe(ctx, conn, s.Kind)
	if err != nil {
		err = refused("its first call failed: %w", err)
	} else {
		err = checkDescription(answer, s.Kind, id, protocol)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	drain, err := l.stdout.drainTo(s.LogPath)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &Plugin{
		ref: Ref{
			Kind: s.Kind, Process: id, Socket: socket, Dir: s.Dir,
			Protocol: protocol, SHA256: s.SHA256,
		},
		conn: conn, describe: answer, done: l.child.Done(), release: drain,
		closed: make(chan struct{}),
	}, nil
}

// handshake lets go-plugin start the process and read its handshake, and
// returns the path of the plugin's socket and the negotiated version.
func (l *launch) handshake(ctx context.Context, s *Spec) (string, int, error) {
	client := plugin.NewClient(l.clientConfig(s))
	stop := context.AfterFunc(ctx, l.stdout.cut)
	defer stop()
	address, err := client.Start()
	if l.failed != nil {
		return "", 0, l.failed
	}
	if err != nil {
		return "", 0, refused("no handshake: %w", err)
	}
	if !stop() { // the loan may be cut at any time from now on
		return "", 0, ctx.Err()
	}
	if err := l.stdout.takeBack(); err != nil {
		return "", 0, core.Errorf(core.KindOS, "read its stdout: %w", err)
	}
	l.release()
	if err := checkSocket(address, s.Dir); err != nil {
		return "", 0, err
	}
	return address.String(), client.NegotiatedVersion(), nil
}

func (l *launch) clientConfig(s *Spec) *plugin.ClientConfig {
	return &plugin.ClientConfig{
		HandshakeConfig:  plugins.Handshake,
		VersionedPlugins: plugins.Sets(plugins.Kind(s.Kind)),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		SkipHostEnv:      true,
		StartTimeout:     s.Timeout + time.Minute, // the context is what bounds a start
		Logger:           hclog.NewNullLogger(),
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: s.Dir},
		// Not what we connect with: go-plugin writes into it what a plugin says
		// of itself, and would fall over without one.
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, tmpDir string) (runner.Runner, error) {
			// The socket lies in the instance folder itself: its path is short
			// then, and nothing is left when the folder goes.
			l.spec.Env = environment(s, cmd.Env)
			return l, os.Remove(tmpDir)
		},
	}
}

// environment joins the caller's variables with those of the handshake.
func environment(s *Spec, handshake []string) []string {
	env := append([]string{}, s.Env...)
	for _, assignment := range handshake {
		if name, _, _ := strings.Cut(assignment, "="); name != plugin.EnvUnixSocketDir {
			env = append(env, assignment)
		}
	}
	return append(env, plugin.EnvUnixSocketDir+"="+s.Dir, plugins.EnvDir+"="+s.Dir)
}

// checkSocket makes sure that a plugin names a socket of its own.
func checkSocket(address net.Addr, dir string) error {
	path := address.String()
	if address.Network() != "unix" || filepath.Dir(path) != dir {
		return refused("its handshake names %s %q, not a socket in %s", address.Network(), path, dir)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return refused("its handshake names no socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return refused("its handshake names %s, which is no socket", path)
	}
	return nil
}

// abandon ends what a failed start has made. It does not hear the caller's
// cancellation: a process that nobody waits for must not be left.
func (l *launch) abandon(ctx context.Context) error {
	defer l.stdout.close()
	defer l.release()
	if l.child == nil {
		return nil
	}
	if _, err := process.Retire(context.WithoutCancel(ctx), l.child.Identity(), nil); err != nil {
		l.stdout.cut()
		return err
	}
	<-l.child.Done() // reaped
	return nil
}

// lastWords gives a process that broke the handshake a moment to end by itself:
// what it says of its failure often comes after the line that gave it away.
func (l *launch) lastWords(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastWords)
	defer cancel()
	select {
	case <-l.child.Done():
	case <-ctx.Done():
	}
}

// refused is an error that wraps ErrRefused.
func refused(format string, args ...any) error {
	return causeError{ErrRefused, fmt.Errorf(format, args...)}
}

// limits of Start.
const (
	startTimeout = 10 * time.Second
	// maxSocketPath is the length that a socket's path must stay under, in
	// bytes; the kernel takes 107 (sockaddr_un), macOS 103.
	maxSocketPath = 100
	// socketName is the longest name that go-plugin gives a socket: "plugin"
	// and the digits of a 32-bit number.
	socketName = "plugin4294967295"
)
