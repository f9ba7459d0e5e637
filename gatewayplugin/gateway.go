package gatewayplugin

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/spans"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// Options replaces what a test wants to control. The zero value, and nil, are
// what production uses.
type Options struct {
	// Listen returns the listener to serve on. nil: file descriptor 3.
	Listen func() (net.Listener, error)
	// Watch returns a channel that closes when the process has ended, and a
	// function that ends the watch. nil: a process.Handle.
	Watch func(process.Identity) (ended <-chan struct{}, stop func(), err error)
	// Log takes what an operator may want to know. nil: nothing.
	Log *slog.Logger
	// Now is the clock for records. nil: time.Now.
	Now func() time.Time
	// Spans exports a span for each attempt; Drain closes it. nil: nothing is
	// exported.
	Spans *spans.Recorder
	// Random is the source of ids and of the offline model's bearer. nil: the
	// system's.
	Random io.Reader
	// ArmWindow is how long after its start the gateway lets a request with an
	// unknown bearer wait for the bearer to be issued, since a gateway that
	// replaces a lost one is asked by Codex before its supervisors have armed
	// it. 0: 10 s; negative: not at all.
	ArmWindow time.Duration
	// RetryPause is the time before the first repetition of a failed attempt,
	// when the provider does not say; it doubles with each. 0: 500 ms.
	RetryPause time.Duration
	// BodyWithin is how long a request's body may take. 0: a minute.
	BodyWithin time.Duration
	// KeepAlive is the time without an event after which Codex gets one.
	// 0: 15 s.
	KeepAlive time.Duration
	// StartWithin is how long the gateway waits for its Start before it ends
	// itself: its starter may have died. 0: 30 s.
	StartWithin time.Duration
	// ListenerSocket is the path of the unix socket that hands out duplicates
	// of the listener; see plugins.ListenerSocket. Empty: none.
	ListenerSocket string
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Listen == nil {
		out.Listen = inheritedListener
	}
	if out.Watch == nil {
		out.Watch = watchProcess
	}
	if out.Log == nil {
		out.Log = slog.New(slog.DiscardHandler)
	}
	if out.Now == nil {
		out.Now = time.Now
	}
	if out.Random == nil {
		out.Random = rand.Reader
	}
	if out.ArmWindow == 0 {
		out.ArmWindow = 10 * time.Second
	}
	if out.RetryPause == 0 {
		out.RetryPause = 500 * time.Millisecond
	}
	if out.BodyWithin == 0 {
		out.BodyWithin = time.Minute
	}
	if out.KeepAlive == 0 {
		out.KeepAlive = 15 * time.Second
	}
	if out.StartWithin == 0 {
		out.StartWithin = 30 * time.Second
	}
	return out
}

// Gateway is the gateway's service, for gRPC and, once started, for HTTP. It
// is safe for concurrent use.
type Gateway struct {
	gatewaypb.UnimplementedGatewayServer

	opts    Options
	life    context.Context // ends with the gateway; requests and watches hang on it
	kill    context.CancelCauseFunc
	client  *http.Client
	metrics *metrics
	holders *holders
	unasked *time.Timer // ends a gateway that nobody starts; stopped by Start
	endOnce sync.Once
	ended   chan struct{}
	tasks   sync.WaitGroup // requests and goroutines of the gateway; Drain waits for them

	mu       sync.Mutex
	draining bool
	started  *started
	fences   map[string]uint64  // session -> highest epoch seen
	tenants  map[string]*tenant // session -> its state
	tokens   map[string]*token  // hex sha256 of a bearer -> what it allows
	armed    chan struct{}      // closed and replaced when a token is issued
	inFlight int
}

// started is what Start has set up.
type started struct {
	hash     string
	stateDir string
	server   *http.Server
	port     string
	armUntil time.Time
	answer   *gatewaypb.StartResponse
}

// New returns a gateway that serves nothing before Start, and ends itself when
// that does not come in time. opts may be nil.
func New(opts *Options) *Gateway {
	life, kill := context.WithCancelCause(context.Background())
	g := &Gateway{
		opts: opts.withDefaults(), life: life, kill: kill,
		client:  newUpstreamClient(),
		metrics: newMetrics(),
		fences:  map[string]uint64{}, tenants: map[string]*tenant{}, tokens: map[string]*token{},
		armed: make(chan struct{}), ended: make(chan struct{}),
	}
	g.holders = newHolders(g.opts.Watch, g.end, &g.tasks)
	g.unasked = time.AfterFunc(g.opts.StartWithin, g.end)
	return g
}

// Ended is closed when the gateway shall end: it was stopped, or nobody that
// could ask it lives. Its owner then calls Drain.
func (g *Gateway) Ended() <-chan struct{} { return g.ended }

func (g *Gateway) end() { g.endOnce.Do(func() { close(g.ended) }) }

// beginLocked opens the HTTP side, once.
func (g *Gateway) beginLocked(req *gatewaypb.StartRequest) error {
	// Keys come after this. Not before: until its identity is on record, and it
	// is started only then, the gateway must be found by its environment.
	if err := process.HideMemory(); err != nil {
		return err
	}
	self, err := process.Self()
	if err != nil {
		return core.Errorf(core.KindOS, "find out this process's identity: %w", err)
	}
	if err := privateFolder(req.GetStateDir()); err != nil {
		return err
	}
	listener, err := g.listen()
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String()) // a TCPAddr has a port
	s := &started{
		hash: req.GetGatewayHash(), stateDir: req.GetStateDir(), port: port,
		armUntil: time.Now().Add(g.opts.ArmWindow),
		answer: &gatewaypb.StartResponse{
			BaseUrl: "http://127.0.0.1:" + port + "/v1",
			Process: processMessage(self),
		},
	}
	s.server = &http.Server{
		Handler:           g.handler(port),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    256 << 10,
		BaseContext:       func(net.Listener) context.Context { return g.life },
		ErrorLog:          slog.NewLogLogger(g.opts.Log.Handler(), slog.LevelDebug),
	}
	g.started = s
	g.tasks.Go(func() {
		if err := s.server.Serve(listener); err != nil && g.life.Err() == nil && err != http.ErrServerClosed {
			g.opts.Log.Error("the gateway's listener failed", "err", err) // without it there is nothing to do
			g.end()
		}
	})
	g.unasked.Stop()
	g.holders.setIdle(time.Duration(req.GetIdleExitMs()) * time.Millisecond)
	return nil
}

// listen takes the listener, which must be TCP on loopback, and offers
// duplicates of it.
func (g *Gateway) listen() (*net.TCPListener, error) {
	listener, err := g.opts.Listen()
	if err != nil {
		return nil, err
	}
	tcp, ok := listener.(*net.TCPListener)
	if !ok || !tcp.Addr().(*net.TCPAddr).IP.IsLoopback() {
		_ = listener.Close() // it is refused
		return nil, core.Errorf(core.KindValue, "the gateway's listener is %s, it must be TCP on loopback", listener.Addr())
	}
	if g.opts.ListenerSocket == "" {
		return tcp, nil
	}
	if err := g.handOut(g.opts.ListenerSocket, tcp); err != nil {
		_ = listener.Close() // the gateway does not begin
		return nil, err
	}
	return tcp, nil
}

// errStopping is the cause with which the gateway's life ends.
var errStopping = errors.New("the gateway is stopping")

// lastSpans is how long the export of the last spans may take.
const lastSpans = 2 * time.Second

// Drain stops to take requests, lets those under way end until ctx does, then
// ends them and everything else the gateway runs. The process may exit when it
// returns.
func (g *Gateway) Drain(ctx context.Context) error {
	g.unasked.Stop()
	g.stopServing(ctx)
	g.kill(errStopping)
	g.holders.close()
	g.mu.Lock()
	g.draining = true
	tenants := g.tenants
	g.tenants, g.tokens = map[string]*tenant{}, map[string]*token{}
	g.mu.Unlock()
	for _, t := range tenants {
		t.close()
	}
	g.tasks.Wait()
	g.client.CloseIdleConnections()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
	defer cancel()
	if err := g.opts.Spans.Close(last); err != nil {
		g.opts.Log.Warn("the last spans were not exported", "err", err)
	}
	return nil
}

// stopServing ends the HTTP side and returns how many requests it cut.
func (g *Gateway) stopServing(ctx context.Context) int {
	g.mu.Lock()
	s := g.started
	g.mu.Unlock()
	if s == nil {
		return 0
	}
	if s.server.Shutdown(ctx) == nil {
		return 0
	}
	g.mu.Lock()
	cut := g.inFlight
	g.mu.Unlock()
	g.kill(errStopping) // each request tells Codex that it may ask again
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if s.server.Shutdown(last) != nil {
		_ = s.server.Close() // what does not even take that
	}
	return cut
}

// enterRequest counts a request in, unless the gateway ends.
func (g *Gateway) enterRequest() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.draining {
		return false
	}
	g.tasks.Add(1)
	g.inFlight++
	return true
}

func (g *Gateway) leaveRequest() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight--
	g.tasks.Done()
}
