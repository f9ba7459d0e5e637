package gatewayplugin

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/codex-mmo/codex-mmo/core"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
)

// tenant is what the gateway holds for one session.
type tenant struct {
	session  string
	log      *telemetryLog
	ledger   *ledger
	life     context.Context // ends when the tenant is released, or with the gateway
	end      context.CancelCauseFunc
	requests sync.WaitGroup // under way; their rows are written before log is closed

	mu       sync.Mutex
	closed   bool
	epoch    uint64 // that the routes were applied in
	revision uint64 // of the routes, within the epoch
	routes   []*route
}

// token is what a bearer allows.
type token struct {
	tenant   *tenant
	hash     [32]byte
	agentRef string
	routes   map[string]bool
	models   map[string]bool // empty: all models of the routes
	expires  time.Time       // zero: never
	budgets  []string        // ids of the budgets that it shares
}

// fenceLocked checks a caller's fence and remembers its epoch.
func (g *Gateway) fenceLocked(f *basepb.Fence) error {
	if g.draining {
		return status.Error(codes.Unavailable, errStopping.Error())
	}
	if g.started == nil {
		return status.Error(codes.FailedPrecondition, "the gateway has not been started")
	}
	if !core.ValidID(f.GetSessionId()) {
		return status.Errorf(codes.InvalidArgument, "tenant %q is no session id", f.GetSessionId())
	}
	if seen := g.fences[f.GetSessionId()]; f.GetEpoch() < seen {
		return status.Errorf(codes.FailedPrecondition, "session %s was taken over: epoch %d is older than %d", f.GetSessionId(), f.GetEpoch(), seen)
	}
	g.fences[f.GetSessionId()] = f.GetEpoch()
	return nil
}

// enter returns the caller's tenant, and makes it known when it is new.
func (g *Gateway) enter(f *basepb.Fence) (*tenant, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.fenceLocked(f); err != nil {
		return nil, err
	}
	if t := g.tenants[f.GetSessionId()]; t != nil {
		return t, nil
	}
	ledger := newLedger()
	log, err := openTelemetry(g.started.stateDir, f.GetSessionId(), ledger.charge)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	t := &tenant{session: f.GetSessionId(), log: log, ledger: ledger}
	t.life, t.end = context.WithCancelCause(g.life)
	g.tenants[t.session] = t
	return t, nil
}

// find returns the tenant's route for a model that the token allows.
func (t *tenant) find(tok *token, model string) *route {
	if len(tok.models) > 0 && !tok.models[model] {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.routes {
		if tok.routes[r.id] && r.model(model) != nil {
			return r
		}
	}
	return nil
}

// snapshot returns the tenant's routes.
func (t *tenant) snapshot() []*route {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]*route(nil), t.routes...)
}

// begin counts a request in, unless the tenant was released.
func (t *tenant) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.requests.Add(1)
	return true
}

// errReleased is the cause with which a released tenant's requests end.
var errReleased = errors.New("the session was released")

// close ends what the tenant runs, its requests included, and waits for them.
func (t *tenant) close() {
	t.mu.Lock()
	t.closed = true
	routes := t.routes
	t.routes = nil
	t.mu.Unlock()
	t.end(errReleased)
	t.requests.Wait()
	for _, r := range routes {
		r.close()
	}
	t.log.close()
}
