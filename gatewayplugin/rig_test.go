package gatewayplugin_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/gatewayplugin"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
	"google.golang.org/grpc"
)

// hosts stands for the processes of the hosts: a test ends them.
type hosts struct {
	mu     sync.Mutex
	living map[int]chan struct{} // pid -> closed once ended
}

func (h *hosts) watch(id process.Identity) (<-chan struct{}, func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ended := h.living[id.PID]
	if ended == nil {
		ended = make(chan struct{})
		h.living[id.PID] = ended
	}
	return ended, func() {}, nil
}

func (h *hosts) kill(pid int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.living[pid])
}

// rig is a started gateway and what a test needs to talk to it.
type rig struct {
	t        *testing.T
	ctx      context.Context
	gateway  *gatewayplugin.Gateway
	stateDir string
	base     string
	hosts    *hosts
	client   *http.Client
}

// quick are options with short pauses.
func quick() *gatewayplugin.Options {
	return &gatewayplugin.Options{ArmWindow: -1, RetryPause: time.Millisecond}
}

// newRig starts a gateway. opts may be nil.
func newRig(t *testing.T, opts *gatewayplugin.Options, start *gatewaypb.StartRequest) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	if opts == nil {
		opts = quick()
	}
	if start == nil {
		start = &gatewaypb.StartRequest{}
	}
	if start.StateDir == "" {
		start.StateDir = filepath.Join(t.TempDir(), "gateway")
	}
	r := &rig{t: t, ctx: ctx, stateDir: start.StateDir, hosts: &hosts{living: map[int]chan struct{}{}}}
	opts.Listen = func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
	opts.Watch = r.hosts.watch
	r.gateway = gatewayplugin.New(opts)
	answer, err := r.gateway.Start(ctx, start)
	if err != nil {
		t.Fatal(err)
	}
	r.base = answer.GetBaseUrl()
	transport := &http.Transport{DisableKeepAlives: true}
	r.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		r.drain()
		transport.CloseIdleConnections()
	})
	return r
}

// drain ends the gateway at once.
func (r *rig) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := r.gateway.Drain(ctx); err != nil {
		r.t.Error(err)
	}
}

func fence(session string, epoch uint64) *basepb.Fence {
	return &basepb.Fence{SessionId: session, Epoch: epoch}
}

// offline is a route to a script, for all its models.
func offline(id, script string, models ...string) *gatewaypb.Route {
	options, _ := json.Marshal(map[string]string{"script": script})
	r := &gatewaypb.Route{Id: id, Driver: "offline", OptionsJson: options}
	for _, key := range models {
		r.Models = append(r.Models, &gatewaypb.RouteModel{Key: key})
	}
	return r
}

// apply sets the routes of a session and fails the test when one is not ready.
func (r *rig) apply(session string, routes []*gatewaypb.Route, secrets ...*basepb.Secret) {
	r.t.Helper()
	answer, err := r.gateway.ApplyRoutes(r.ctx, &gatewaypb.ApplyRoutesRequest{Tenant: fence(session, 1), Revision: 1, Routes: routes, Secrets: secrets})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range answer.GetRoutes() {
		if s.GetState() != "ready" {
			r.t.Fatalf("route %s is %s: %s", s.GetRoute(), s.GetState(), s.GetMessage())
		}
	}
}

// issue admits a bearer of a session.
func (r *rig) issue(session, bearer string, change func(*gatewaypb.IssueTokenRequest)) {
	r.t.Helper()
	req := &gatewaypb.IssueTokenRequest{Tenant: fence(session, 1), AgentRef: "ar_" + session, TokenSha256: sha(bearer), Routes: []string{"r"}}
	if change != nil {
		change(req)
	}
	if _, err := r.gateway.IssueToken(r.ctx, req); err != nil {
		r.t.Fatal(err)
	}
}

func sha(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// request makes a request as Codex does.
func (r *rig) request(ctx context.Context, bearer, model, body string) *http.Request {
	r.t.Helper()
	if body == "" {
		body = fmt.Sprintf(`{"model":%q,"stream":true,"input":[{"type":"message","role":"user","content":"go"}]}`, model)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base+"/responses", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("Content-Type", "application/json")
	return req
}

// event is what tests look at in an event.
type event struct {
	Type     string
	Delta    string
	Item     struct{ Type, Namespace, Name, Arguments string }
	Response struct {
		Error *struct{ Code, Message string }
		Usage json.RawMessage
	}
}

// ask sends a request and reads all events until the connection ends.
func (r *rig) ask(bearer, model string) (int, []event) {
	r.t.Helper()
	return r.do(r.request(r.ctx, bearer, model, ""))
}

func (r *rig) do(req *http.Request) (int, []event) {
	r.t.Helper()
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Error(err) // may run outside the test's goroutine
		return 0, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK && !resp.Close {
		r.t.Error("the connection is kept, Codex waits for its end")
	}
	return resp.StatusCode, readEvents(r.t, resp.Body)
}

func readEvents(t *testing.T, body io.Reader) []event {
	t.Helper()
	var events []event
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadString('\n')
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var e event
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Errorf("event %q: %v", data, err)
				return events
			}
			events = append(events, e)
		}
		if err != nil {
			return events
		}
	}
}

// text joins the deltas of events.
func text(events []event) string {
	var b strings.Builder
	for _, e := range events {
		if e.Type == "response.output_text.delta" {
			b.WriteString(e.Delta)
		}
	}
	return b.String()
}

// kinds lists the types of events, one after the other, without repeats.
func kinds(events []event) string {
	var out []string
	for _, e := range events {
		kind := strings.TrimPrefix(e.Type, "response.")
		if len(out) == 0 || out[len(out)-1] != kind {
			out = append(out, kind)
		}
	}
	return strings.Join(out, " ")
}

// failed returns the code and the message of the last event.
func failed(events []event) (code, message string) {
	if len(events) == 0 || events[len(events)-1].Type != "response.failed" {
		return "", ""
	}
	e := events[len(events)-1].Response.Error
	return e.Code, e.Message
}

// rows reads a session's telemetry after a cursor.
func (r *rig) rows(session string, after uint64) []*gatewaypb.TelemetryEvent {
	r.t.Helper()
	s := &sink{ctx: r.ctx}
	if err := r.gateway.Telemetry(&gatewaypb.TelemetryRequest{Tenant: fence(session, 1), AfterSeq: after}, s); err != nil {
		r.t.Fatal(err)
	}
	return s.rows
}

// row waits for the row after a cursor.
func (r *rig) row(session string, after uint64) *gatewaypb.TelemetryEvent {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	s := &sink{ctx: ctx, enough: cancel}
	if err := r.gateway.Telemetry(&gatewaypb.TelemetryRequest{Tenant: fence(session, 1), AfterSeq: after, Follow: true}, s); err != nil {
		r.t.Fatal(err)
	}
	if len(s.rows) == 0 {
		r.t.Fatalf("session %s has no row after %d", session, after)
	}
	return s.rows[0]
}

// sink is the client's side of a telemetry stream.
type sink struct {
	grpc.ServerStream
	ctx    context.Context
	enough context.CancelFunc // called at the first row; nil: never
	rows   []*gatewaypb.TelemetryEvent
}

func (s *sink) Context() context.Context { return s.ctx }

func (s *sink) Send(e *gatewaypb.TelemetryEvent) error {
	s.rows = append(s.rows, e)
	if s.enough != nil {
		s.enough()
	}
	return nil
}

// encoded is a value as JSON.
func encoded(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // the test's own value
	}
	return string(raw)
}

// lockedBuffer takes a log.
type lockedBuffer struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *lockedBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
