package gatewayplugin

import (
	"context"
	"encoding/hex"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/codex-mmo/codex-mmo/core"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// Start begins to serve. A second call returns the first answer when it names
// the same gateway.
func (g *Gateway) Start(_ context.Context, req *gatewaypb.StartRequest) (*gatewaypb.StartResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.started == nil {
		if err := g.beginLocked(req); err != nil {
			return nil, statusOf(err)
		}
	}
	if g.started.hash != req.GetGatewayHash() {
		return nil, status.Errorf(codes.FailedPrecondition, "this gateway serves %s, not %s", g.started.hash, req.GetGatewayHash())
	}
	return g.started.answer, nil
}

// statusOf turns an error of ours into one of gRPC.
func statusOf(err error) error {
	switch core.KindOf(err) {
	case core.KindValue:
		return status.Error(codes.InvalidArgument, err.Error())
	case core.KindOS:
		return status.Error(codes.Unavailable, err.Error())
	}
	return status.Error(codes.Internal, err.Error())
}

// ApplyRoutes replaces a tenant's routes. Requests under way go on with the
// route they began on, and a route that did not change stays as it is.
func (g *Gateway) ApplyRoutes(_ context.Context, req *gatewaypb.ApplyRoutesRequest) (*gatewaypb.ApplyRoutesResponse, error) {
	t, err := g.enter(req.GetTenant())
	if err != nil {
		return nil, err
	}
	secrets := make(map[string]string, len(req.GetSecrets()))
	for _, s := range req.GetSecrets() {
		secrets[s.GetName()] = string(s.GetValue())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	epoch := req.GetTenant().GetEpoch()
	if epoch < t.epoch || epoch == t.epoch && req.GetRevision() < t.revision {
		return nil, status.Errorf(codes.FailedPrecondition, "session %s: routes of revision %d are applied, %d is older", t.session, t.revision, req.GetRevision())
	}
	kept := map[*route]bool{}
	next := make([]*route, 0, len(req.GetRoutes()))
	for _, src := range req.GetRoutes() {
		r := t.reuseLocked(src, secrets)
		if r == nil {
			r = newRoute(g.life, src, secrets, g.opts.Random)
		}
		kept[r] = true
		next = append(next, r)
	}
	for _, old := range t.routes {
		if !kept[old] {
			g.tasks.Go(func() { old.retire(g.life) })
		}
	}
	t.routes, t.epoch, t.revision = next, epoch, req.GetRevision()
	answer := &gatewaypb.ApplyRoutesResponse{Revision: t.revision}
	for _, r := range next {
		answer.Routes = append(answer.Routes, r.status())
	}
	return answer, nil
}

func (t *tenant) reuseLocked(src *gatewaypb.Route, secrets map[string]string) *route {
	for _, r := range t.routes {
		if r.id == src.GetId() && r.same(src, secrets) {
			return r
		}
	}
	return nil
}

// IssueToken admits a bearer by its hash. Issuing it again for the same
// tenant changes what it allows; what its agent has spent stays spent.
func (g *Gateway) IssueToken(_ context.Context, req *gatewaypb.IssueTokenRequest) (*gatewaypb.IssueTokenResponse, error) {
	hash, err := hex.DecodeString(req.GetTokenSha256())
	if err != nil || len(hash) != 32 {
		return nil, status.Error(codes.InvalidArgument, "token_sha256 is not the hex sha256 of a token")
	}
	if req.GetAgentRef() == "" || len(req.GetRoutes()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "a token needs an agent_ref and at least one route")
	}
	if len(req.GetBudgetIds()) > maxBudgetIDs || slices.ContainsFunc(req.GetBudgetIds(), func(id string) bool { return !validBudgetID(id) }) {
		return nil, status.Errorf(codes.InvalidArgument, "budget_ids must be at most %d, each 1 to 128 characters without blanks", maxBudgetIDs)
	}
	t, err := g.enter(req.GetTenant())
	if err != nil {
		return nil, err
	}
	tok := &token{
		tenant: t, hash: [32]byte(hash), agentRef: req.GetAgentRef(), budgets: req.GetBudgetIds(),
		routes: set(req.GetRoutes()), models: set(req.GetModels()),
	}
	if req.GetExpiresAt() != 0 {
		tok.expires = time.Unix(req.GetExpiresAt(), 0)
	}
	key := hex.EncodeToString(hash)
	g.mu.Lock()
	defer g.mu.Unlock()
	if old := g.tokens[key]; old != nil && old.tenant != t {
		return nil, status.Error(codes.AlreadyExists, "the token belongs to another session")
	}
	g.tokens[key] = tok
	if req.GetHolder() != nil {
		g.holders.add(t.session, identity(req.GetHolder()))
	}
	close(g.armed)
	g.armed = make(chan struct{})
	return &gatewaypb.IssueTokenResponse{}, nil
}

func set(values []string) map[string]bool {
	out := make(map[string]bool, len(values))
	for _, v := range values {
		out[v] = true
	}
	return out
}

// RevokeToken takes back one bearer, or all of an agent. Requests under way
// go on.
func (g *Gateway) RevokeToken(_ context.Context, req *gatewaypb.RevokeTokenRequest) (*gatewaypb.RevokeTokenResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.fenceLocked(req.GetTenant()); err != nil {
		return nil, err
	}
	answer := &gatewaypb.RevokeTokenResponse{}
	for key, tok := range g.tokens {
		if tok.tenant.session != req.GetTenant().GetSessionId() {
			continue
		}
		if key == req.GetTokenSha256() || req.GetTokenSha256() == "" && tok.agentRef == req.GetAgentRef() {
			delete(g.tokens, key)
			answer.Revoked++
		}
	}
	return answer, nil
}

// Release forgets a tenant. Its telemetry stays on disk.
func (g *Gateway) Release(_ context.Context, req *gatewaypb.ReleaseRequest) (*gatewaypb.ReleaseResponse, error) {
	session := req.GetTenant().GetSessionId()
	g.mu.Lock()
	if err := g.fenceLocked(req.GetTenant()); err != nil {
		g.mu.Unlock()
		return nil, err
	}
	t := g.tenants[session]
	delete(g.tenants, session)
	for key, tok := range g.tokens {
		if tok.tenant == t {
			delete(g.tokens, key)
		}
	}
	remaining := len(g.tenants)
	g.mu.Unlock()
	if t != nil {
		t.close()
	}
	g.holders.release(session)
	return &gatewaypb.ReleaseResponse{Remaining: uint32(remaining)}, nil
}

// Health reports the tenants, the requests under way and the routes, whose
// ids are written "session/route".
func (g *Gateway) Health(context.Context, *gatewaypb.HealthRequest) (*gatewaypb.HealthResponse, error) {
	g.mu.Lock()
	answer := &gatewaypb.HealthResponse{InFlight: uint32(g.inFlight)}
	tenants := make([]*tenant, 0, len(g.tenants))
	for _, t := range g.tenants {
		tenants = append(tenants, t)
	}
	g.mu.Unlock()
	for _, t := range tenants {
		answer.Tenants = append(answer.Tenants, t.session)
		for _, r := range t.snapshot() {
			s := r.status()
			s.Route = t.session + "/" + s.Route
			answer.Routes = append(answer.Routes, s)
		}
	}
	return answer, nil
}

// Models lists the models of a tenant's routes.
func (g *Gateway) Models(_ context.Context, req *gatewaypb.ModelsRequest) (*gatewaypb.ModelsResponse, error) {
	t, err := g.enter(req.GetTenant())
	if err != nil {
		return nil, err
	}
	answer := &gatewaypb.ModelsResponse{}
	for _, r := range t.snapshot() {
		answer.Models = append(answer.Models, r.models...)
	}
	return answer, nil
}

// Telemetry sends a tenant's rows after a cursor, and with follow those to
// come, until the caller leaves or the tenant is released.
func (g *Gateway) Telemetry(req *gatewaypb.TelemetryRequest, stream grpc.ServerStreamingServer[gatewaypb.TelemetryEvent]) error {
	t, err := g.enter(req.GetTenant())
	if err != nil {
		return err
	}
	return t.log.read(stream.Context(), req.GetAfterSeq(), req.GetFollow(), stream.Send)
}

// Stop ends the gateway.
func (g *Gateway) Stop(ctx context.Context, req *gatewaypb.StopRequest) (*gatewaypb.StopResponse, error) {
	g.mu.Lock()
	left := len(g.tenants)
	g.mu.Unlock()
	if left > 0 && !req.GetForce() {
		return nil, status.Errorf(codes.FailedPrecondition, "the gateway still serves %d sessions", left)
	}
	drain, cancel := context.WithTimeout(ctx, time.Duration(req.GetDrainMs())*time.Millisecond)
	defer cancel()
	cut := g.stopServing(drain)
	g.end()
	return &gatewaypb.StopResponse{Stopping: true, AbortedRequests: uint32(cut)}, nil
}
