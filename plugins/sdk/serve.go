package sdk

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/codex-mmo/codex-mmo/plugins"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// Info is what a plugin says of itself.
type Info struct {
	Name    string // [a-z][a-z0-9-]{1,38}
	Version string // semantic version of the plugin
	// Drivers that a gateway serves, or engines that a host drives.
	Drivers []string
	// Capabilities by name; see base.proto.
	Capabilities []string
	// Isolation that a host can prove: "permission_profile" or "none".
	Isolation string
	// SecretNames are the secrets it asks for, never values.
	SecretNames []string
	// Stop ends the plugin as SIGTERM does when it is closed; nil: never.
	Stop <-chan struct{}
}

// Drainer is what a server implements when it has something to do before the
// process ends. ctx is done when the caller insists (a second SIGTERM) or when
// time is up.
type Drainer interface {
	Drain(ctx context.Context) error
}

// How long a plugin may take to end after SIGTERM: first its own Drain, then
// the answers of the calls under way.
const (
	drainLimit  = 10 * time.Second
	answerLimit = 250 * time.Millisecond
)

// ServeHost serves a host plugin until it is told to end. It returns an error
// when this process was not started as a plugin or could not begin to serve.
func ServeHost(info Info, server hostpb.HostServer) error {
	d := newDescriber(info, plugins.KindHost)
	set := plugin.PluginSet{string(plugins.KindHost): &plugins.HostPlugin{Impl: &describedHost{server, d}}}
	return serve(info, set, server)
}

// ServeGateway serves a gateway plugin until it is told to end. It returns an
// error when this process was not started as a plugin or could not begin to
// serve.
func ServeGateway(info Info, server gatewaypb.GatewayServer) error {
	d := newDescriber(info, plugins.KindGateway)
	set := plugin.PluginSet{string(plugins.KindGateway): &plugins.GatewayPlugin{Impl: &describedGateway{server, d}}}
	return serve(info, set, server)
}

func serve(info Info, set plugin.PluginSet, server any) error {
	if os.Getenv(plugins.Handshake.MagicCookieKey) != plugins.Handshake.MagicCookieValue {
		return errors.New("this program is a plugin: codex-mmo starts it, see `codex-mmo plugin --help`")
	}
	dir := os.Getenv(plugins.EnvDir)
	if dir == "" {
		return fmt.Errorf("start the plugin: %s is not set: it must name the instance folder with the TLS files", plugins.EnvDir)
	}
	// Whoever read our output may be gone. Asking for the signal, rather than
	// ignoring it, turns it into EPIPE here and leaves children the default.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	s := &service{server: server, stop: info.Stop, log: os.Stderr}
	s.run(dir, set)
	if s.grpc == nil {
		return errors.New("the plugin could not begin to serve; its log says why")
	}
	return nil
}

// service is the one server of this process.
type service struct {
	server any
	stop   <-chan struct{} // nil: never
	log    *os.File        // the process's own descriptor 2
	grpc   *grpc.Server    // nil until go-plugin asked for it
	once   sync.Once       // guards the redirection of the standard files
}

func (s *service) run(dir string, set plugin.PluginSet) {
	served := make(chan struct{})
	var ending sync.WaitGroup
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  plugins.Handshake,
		VersionedPlugins: map[int]plugin.PluginSet{plugins.ProtocolVersion: set},
		TLSProvider:      func() (*tls.Config, error) { return plugins.ServerTLS(dir) },
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			s.closeSockets(dir)
			s.grpc = grpc.NewServer(append(opts,
				grpc.MaxRecvMsgSize(plugins.MaxMessageSize),
				grpc.ChainUnaryInterceptor(s.unary),
				grpc.ChainStreamInterceptor(s.stream))...)
			ending.Go(func() { s.awaitEnd(served) })
			return s.grpc
		},
		Logger: hclog.New(&hclog.LoggerOptions{
			JSONFormat: true, Level: hclog.Info, Output: tolerant{s.log},
		}),
	})
	close(served)
	ending.Wait()
}

// closeSockets takes the rights of others off the socket that go-plugin has
// just bound; until then its folder, which is 0700, kept them out.
func (s *service) closeSockets(dir string) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.Type() == os.ModeSocket {
			err = errors.Join(err, os.Chmod(filepath.Join(dir, entry.Name()), 0o600))
		}
	}
	if err != nil {
		fmt.Fprintf(s.log, "the plugin's socket keeps the mode of the umask: %v\n", err)
	}
}

// awaitEnd stops the server on SIGTERM or when the plugin asks for it. A
// second SIGTERM cuts the draining short.
func (s *service) awaitEnd(served <-chan struct{}) {
	terms := make(chan os.Signal, 2)
	signal.Notify(terms, syscall.SIGTERM)
	defer signal.Stop(terms)
	select {
	case <-terms:
	case <-s.stop:
	case <-served:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		if d, ok := s.server.(Drainer); ok {
			if err := d.Drain(ctx); err != nil {
				_, _ = fmt.Fprintf(tolerant{s.log}, "drain: %v\n", err)
			}
		}
	}()
	select {
	case <-drained:
	case <-terms:
	case <-ctx.Done():
	}
	cancel()
	s.shutdown()
}

// shutdown lets calls under way answer, then cuts what is left: streams of
// events never end by themselves.
func (s *service) shutdown() {
	cut := time.AfterFunc(answerLimit, s.grpc.Stop)
	defer cut.Stop()
	s.grpc.GracefulStop()
}

func (s *service) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	s.once.Do(s.redirect)
	return next(ctx, req)
}

func (s *service) stream(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	s.once.Do(s.redirect)
	return next(server, stream)
}

// redirect sends the standard files to the log. It runs at the first call,
// because go-plugin puts pipes in their place once it has printed the
// handshake; nobody reads those, and a plugin that prints would stand still
// once they are full.
func (s *service) redirect() {
	os.Stdout, os.Stderr = s.log, s.log
	_ = duplicate(int(s.log.Fd()), 1) // also for what writes to the descriptor
}

// tolerant drops log output that nobody reads any more.
type tolerant struct{ file *os.File }

func (t tolerant) Write(b []byte) (int, error) {
	if _, err := t.file.Write(b); err != nil && !errors.Is(err, syscall.EPIPE) {
		return 0, err
	}
	return len(b), nil
}

// newInstanceID returns 32 random hex digits.
func newInstanceID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails since Go 1.24
	return hex.EncodeToString(id[:])
}
