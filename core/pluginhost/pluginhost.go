package pluginhost

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/plugins"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
)

// Causes that callers tell apart with errors.Is.
var (
	// ErrGone: the plugin's process is proven dead.
	ErrGone = process.ErrGone
	// ErrUnreachable: the plugin's process lives but does not answer.
	ErrUnreachable = errors.New("plugin does not answer")
	// ErrRefused: the process is no plugin that this build can use: it broke
	// the handshake, speaks another protocol version or is of another kind.
	ErrRefused = errors.New("plugin refused")
)

// Spec says what Start runs.
type Spec struct {
	Kind   string // "host" or "gateway"
	Path   string // absolute path of the executable
	SHA256 string // its pinned digest in hex; empty: unchecked
	Stamp  string // process.Stamp of the file when it was last found to have it; may be empty
	Args   []string
	// Env is the plugin's whole environment as NAME=value, but for the
	// variables of the handshake.
	Env []string
	// Dir is the instance folder, absolute; it must not exist or be empty. It
	// is made with mode 0700 and takes the TLS files and the socket.
	Dir string
	// LogPath takes the plugin's stderr, and its stdout after the handshake;
	// empty: plugin.log in Dir.
	LogPath    string
	ExtraFiles []*os.File // descriptors 3 and up
	// Timeout bounds the whole start; 0: 10 s.
	Timeout time.Duration
}

// Ref is what is stored to find a running plugin again. It holds no secret.
type Ref struct {
	Kind     string // "host" or "gateway"; empty: whichever it says it is
	Process  process.Identity
	Socket   string // absolute path
	Dir      string // instance folder
	Protocol int    // version negotiated at the start
	SHA256   string // of the executable; empty when it was not pinned
}

// Plugin is a connection to a running plugin.
type Plugin struct {
	ref      Ref
	conn     *grpc.ClientConn
	describe *basepb.DescribeResponse
	done     <-chan struct{}
	release  func() error // ends what this side holds besides conn
	closing  sync.Once
	closed   chan struct{}
	closeErr error // set before closed is closed
}

// Ref returns what is to be stored.
func (p *Plugin) Ref() Ref { return p.ref }

// Identity returns the identity of the plugin's process.
func (p *Plugin) Identity() process.Identity { return p.ref.Process }

// Conn returns the connection, for hostpb.NewHostClient or
// gatewaypb.NewGatewayClient.
func (p *Plugin) Conn() grpc.ClientConnInterface { return p.conn }

// Describe returns what the plugin said of itself when it was reached. It must
// not be changed.
func (p *Plugin) Describe() *basepb.DescribeResponse { return p.describe }

// Done is closed when the plugin's process has ended. It stays open when the
// plugin was adopted and Close comes before the end.
func (p *Plugin) Done() <-chan struct{} { return p.done }

// Close drops the connection. The process lives on.
func (p *Plugin) Close() error {
	p.closing.Do(func() {
		p.closeErr = errors.Join(p.conn.Close(), p.release())
		close(p.closed)
	})
	return p.closeErr
}

// Retire ends the plugin's process and everything below it, drops the
// connection and removes the instance folder. grace is how long the process
// may take after each of two SIGTERMs. Survivors are returned with an error
// that names them; the folder stays then.
func (p *Plugin) Retire(ctx context.Context, grace time.Duration) ([]process.Identity, error) {
	survivors, err := process.Retire(ctx, p.ref.Process, &process.RetireOptions{Grace: grace})
	if err == nil {
		select {
		case <-p.done: // it is dead, so this comes; before Close it is seen
		case <-p.closed:
		}
	}
	closeErr := p.Close()
	if err != nil {
		return survivors, err
	}
	if closeErr != nil {
		return nil, core.Errorf(core.KindOS, "close plugin %v: %w", p.ref.Process, closeErr)
	}
	if err := os.RemoveAll(p.ref.Dir); err != nil {
		return nil, core.Errorf(core.KindOS, "remove plugin folder: %w", err)
	}
	return nil, nil
}

// validKind reports whether a plugin of that kind can be driven.
func validKind(kind string) bool {
	return kind == string(plugins.KindHost) || kind == string(plugins.KindGateway)
}
