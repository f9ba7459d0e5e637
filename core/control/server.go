package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
)

// How long a peer may take to send its request. Peers are local processes.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	idleTimeout   = 60 * time.Second
)

// maxHeader is the largest request header in bytes.
const maxHeader = 64 << 10

// ServerOptions changes how a Server works. A nil *ServerOptions means the
// defaults.
type ServerOptions struct {
	Build string       // named in refusals of another API version; default "unknown"
	Log   *slog.Logger // default slog.Default()
}

// Server answers the control API with a Handler.
type Server struct {
	listener net.Listener
	handler  Handler
	build    string
	log      *slog.Logger
	http     *http.Server
	drain    context.Context // ends with ErrDraining when Shutdown begins
	draining context.CancelCauseFunc
	force    context.Context // ends when Shutdown gives up waiting
	forcing  context.CancelFunc
}

// NewServer makes a server for l, which should come from Listen. Serve starts
// it.
func NewServer(l net.Listener, h Handler, opts *ServerOptions) *Server {
	if opts == nil {
		opts = &ServerOptions{}
	}
	s := &Server{listener: l, handler: h, build: opts.Build, log: opts.Log}
	if s.build == "" {
		s.build = "unknown"
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.drain, s.draining = context.WithCancelCause(context.Background())
	s.force, s.forcing = context.WithCancel(context.Background())
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       withPeer,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	return s
}

// Serve answers until Shutdown or until the listener fails. It returns nil
// after a Shutdown. The listener is closed, and so its socket removed, when it
// returns.
func (s *Server) Serve() error {
	err := s.http.Serve(s.listener)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return core.Errorf(core.KindOS, "serve the control socket: %w", err)
}

// Shutdown removes the socket, ends parked waits and follows with ErrDraining,
// and returns when every request has its answer. When ctx ends first, it cuts
// the remaining connections and returns an error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.draining(ErrDraining)
	defer s.forcing()
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(core.Errorf(core.KindRuntime, "shut the control API down: %w", err), s.http.Close())
	}
	return nil
}

// peerKey is the context key of what was learnt about a connection's peer.
type peerKey struct{}

// peerOf is the answer of the kernel about a connection, asked once.
type peerOf struct {
	peer access.Peer
	err  error
}

func withPeer(ctx context.Context, conn net.Conn) context.Context {
	var p peerOf
	if unixConn, ok := conn.(*net.UnixConn); ok {
		p.peer, p.err = access.PeerOf(unixConn)
	} else {
		p.err = errors.New("not a unix socket")
	}
	return context.WithValue(ctx, peerKey{}, p)
}

// ServeHTTP admits a request and routes it to its verb.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	serve, call, err := s.admit(r)
	if err != nil {
		// The body stays unread, so the connection can't carry another request.
		w.Header().Set("Connection", "close")
		s.fail(r.Context(), w, err)
		return
	}
	serve(s, w, r, call)
}

// contained keeps one request's panic from taking the session down.
func (s *Server) contained(verb string, serve func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("control request panicked", "verb", verb, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = core.Errorf(core.KindRuntime, "internal error in %s", verb)
		}
	}()
	return serve()
}

func (s *Server) fail(ctx context.Context, w http.ResponseWriter, err error) {
	view := viewOf(ctx, err)
	s.write(w, statusOf(core.Kind(view.Kind)), ErrorBody{Error: view})
}
