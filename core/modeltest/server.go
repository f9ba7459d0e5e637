package modeltest

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
)

// Server serves an engine on a loopback port of its own.
type Server struct {
	// URL is the base URL of the API: "http://127.0.0.1:PORT/v1".
	URL string
	// Engine has the record of what was asked.
	Engine *Engine

	http   *http.Server
	cancel context.CancelCauseFunc
	done   sync.WaitGroup
	once   sync.Once
}

// NewServer begins to serve a script on 127.0.0.1. With a token it answers
// only requests that bear it. The server ends with Close or with ctx.
func NewServer(ctx context.Context, script *Script, token string) (*Server, error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, core.Errorf(core.KindOS, "listen on loopback for the scripted model: %w", err)
	}
	base, cancel := context.WithCancelCause(ctx)
	s := &Server{
		URL:    "http://" + listener.Addr().String() + "/v1",
		Engine: NewEngine(script),
		cancel: cancel,
	}
	s.http = &http.Server{
		Handler:           authorized(s.Engine, token),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	s.done.Go(func() { _ = s.http.Serve(listener) }) // ends with Close; there is no other cause to report
	context.AfterFunc(base, func() { _ = s.http.Close() })
	return s, nil
}

// Close ends the server and the answers under way, and waits for its
// listener's goroutine.
func (s *Server) Close() {
	s.once.Do(func() {
		s.cancel(context.Canceled)
		_ = s.http.Close() // a listener that is closed already is what we want
	})
	s.done.Wait()
}

// Shutdown waits until the answers under way have ended, at most until ctx
// ends, and then closes the server.
func (s *Server) Shutdown(ctx context.Context) {
	_ = s.http.Shutdown(ctx) // what is left then, Close ends
	s.Close()
}

// authorized lets pass what bears the token, as a bearer or, as Anthropic's
// clients do, in x-api-key.
func authorized(next http.Handler, token string) http.Handler {
	if token == "" {
		return next
	}
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !isBearer {
			given = r.Header.Get("X-Api-Key")
		}
		got := sha256.Sum256([]byte(given))
		if spoken := wireAt(r.URL.Path); spoken != nil && subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			writeError(w, spoken, &ProviderError{Status: http.StatusUnauthorized, Type: "authentication_error", Message: "the bearer is not the scripted model's"})
			return
		}
		next.ServeHTTP(w, r) // a path without a wire is not found
	})
}
