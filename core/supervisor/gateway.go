package supervisor

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/pluginhost"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// gatewayIdleExit is how long a gateway without any living host waits before
// it ends itself: long enough for a crashed session to be brought back.
const gatewayIdleExit = 2 * time.Minute

// gatewayLink is this session's side of the gateway process that it shares
// with every session of the same routes. The process belongs to nobody: a
// lock and a row per gateway hash say who may start it.
type gatewayLink struct {
	sup  *Supervisor
	hash string

	mu       sync.Mutex
	plugin   *pluginhost.Plugin
	client   gatewaypb.GatewayClient
	base     string
	listener *os.File // our duplicate: the port stays ours while a new gateway starts
	released bool
}

// openGateway starts or adopts the session's gateway and arms it.
func (s *Supervisor) openGateway(ctx context.Context) (*gatewayLink, error) {
	g := &gatewayLink{sup: s, hash: s.snap.GatewayHash}
	if err := g.ensure(ctx); err != nil {
		return nil, err
	}
	return g, nil
}

// adoptGateway connects to the session's gateway if it lives. It returns nil
// when there is none: nothing is started for what is about to end.
func (s *Supervisor) adoptGateway(ctx context.Context) (*gatewayLink, error) {
	g := &gatewayLink{sup: s, hash: s.snap.GatewayHash}
	row, err := g.row(ctx)
	if err != nil || row == nil || row.Status != "running" {
		return nil, err
	}
	plugin, err := pluginhost.Adopt(ctx, pluginhost.Ref{
		Process: identityOf(row.Process), Socket: row.Socket, Protocol: row.Protocol, SHA256: row.SHA256, Dir: g.runtimeDir(row.Instance),
	})
	if errors.Is(err, pluginhost.ErrGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	g.plugin, g.client, g.base = plugin, gatewaypb.NewGatewayClient(plugin.Conn()), row.BaseURL
	return g, nil
}

// baseURL returns where Codex reaches the gateway.
func (g *gatewayLink) baseURL() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.base
}

// ensure makes sure that a gateway serves our routes and knows our tokens.
func (g *gatewayLink) ensure(ctx context.Context) error {
	unlock, err := g.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	row, err := g.row(ctx)
	if err != nil {
		return err
	}
	plugin, err := g.adopt(ctx, row)
	if err != nil {
		return err
	}
	if plugin == nil {
		if plugin, row, err = g.start(ctx, row); err != nil {
			return err
		}
	}
	g.mu.Lock()
	if g.plugin != nil {
		_ = g.plugin.Close() // its process is gone
	}
	g.plugin, g.client, g.base = plugin, gatewaypb.NewGatewayClient(plugin.Conn()), row.BaseURL
	g.mu.Unlock()
	return g.arm(ctx)
}

// lock takes the lock of the gateway hash: one start, adoption or end at a
// time, over all sessions.
func (g *gatewayLink) lock(ctx context.Context) (func(), error) {
	if err := folders.MakeDir(g.dir()); err != nil {
		return nil, core.Errorf(core.KindOS, "making the gateway's folder: %w", err)
	}
	lock := flock.New(filepath.Join(g.dir(), "lock"), flock.SetPermissions(0o600))
	// The kernel queues the waiters; TryLockContext would poll.
	got := make(chan error, 1)
	go func() { got <- lock.Lock() }()
	select {
	case err := <-got:
		if err != nil {
			return nil, core.Errorf(core.KindOS, "locking the gateway: %w", err)
		}
		return func() { _ = lock.Unlock() }, nil
	case <-ctx.Done():
		go func() { // hand the lock back as soon as it comes
			if <-got == nil {
				_ = lock.Unlock()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

func (g *gatewayLink) dir() string {
	return filepath.Join(g.sup.cfg.Folders.State, "gateways", g.hash)
}

func (g *gatewayLink) runtimeDir(instance string) string {
	return folderOf(g.sup.cfg.Folders.Runtime, instance)
}

func (g *gatewayLink) row(ctx context.Context) (*store.Gateway, error) {
	var row *store.Gateway
	err := g.sup.store.View(ctx, func(tx *store.Tx) (err error) {
		row, err = tx.Gateway(g.hash)
		return err
	})
	if core.KindOf(err) == core.KindNotFound {
		return nil, nil
	}
	return row, err
}

// adopt returns the recorded gateway when it lives and answers, nil when it is
// gone. One that lives and does not answer is ended first.
func (g *gatewayLink) adopt(ctx context.Context, row *store.Gateway) (*pluginhost.Plugin, error) {
	if row == nil || row.Status != "running" {
		return nil, g.sweep(ctx, row)
	}
	plugin, err := pluginhost.Adopt(ctx, pluginhost.Ref{
		Process: identityOf(row.Process), Socket: row.Socket, Protocol: row.Protocol, SHA256: row.SHA256, Dir: g.runtimeDir(row.Instance),
	})
	switch {
	case err == nil:
		return plugin, nil
	case errors.Is(err, pluginhost.ErrGone):
		return nil, g.sweep(ctx, row)
	}
	g.sup.log.Warn("the gateway lives and does not answer; it is replaced", "err", err)
	if _, err := process.Retire(ctx, identityOf(row.Process), &process.RetireOptions{}); err != nil {
		return nil, err
	}
	return nil, g.sweep(ctx, row)
}

// sweep ends what a crash between exec and record may have left.
func (g *gatewayLink) sweep(ctx context.Context, row *store.Gateway) error {
	if row == nil {
		return nil
	}
	return g.sup.endUnrecorded(ctx, g.runtimeDir(row.Instance))
}

// start starts the gateway process on a listener that we made, on the old port
// when there was one.
func (g *gatewayLink) start(ctx context.Context, old *store.Gateway) (*pluginhost.Plugin, *store.Gateway, error) {
	s := g.sup
	listener, err := g.listen(old)
	if err != nil {
		return nil, nil, err
	}
	binary := s.cachedSession().Binary
	now := s.cfg.now().UTC()
	row := &store.Gateway{
		SchemaVersion: store.SchemaVersion, PackageVersion: store.StatePackage, GatewayHash: g.hash,
		Instance: "g" + newInstance(s.cfg.random()), SHA256: binary.SHA256, Status: "starting", StartedAt: now, LastUsedAt: now,
	}
	save := func() error {
		return s.commit(ctx, func(tx *store.Tx, _ *change) error { return tx.PutGateway(row) })
	}
	if err := save(); err != nil {
		return nil, nil, err
	}
	plugin, err := pluginhost.Start(ctx, &pluginhost.Spec{
		Kind: "gateway", Path: binary.Path, SHA256: binary.SHA256, Stamp: binary.Stamp, Args: []string{"plugin", "gateway"},
		Env: BaseEnv(s.cfg.Getenv), Dir: g.runtimeDir(row.Instance), LogPath: filepath.Join(g.dir(), "gateway.log"),
		ExtraFiles: []*os.File{listener},
	}, func(id process.Identity) error {
		row.Process = recordOf(id)
		return save()
	})
	if err != nil {
		return nil, nil, core.Errorf(core.KindRuntime, "starting the gateway: %w", err)
	}
	answer, err := gatewaypb.NewGatewayClient(plugin.Conn()).Start(ctx, &gatewaypb.StartRequest{
		GatewayHash: g.hash, StateDir: g.dir(), IdleExitMs: uint64(gatewayIdleExit.Milliseconds()),
	})
	if err == nil {
		ref := plugin.Ref()
		row.Socket, row.Protocol, row.BaseURL, row.Status = ref.Socket, ref.Protocol, answer.GetBaseUrl(), "running"
		err = save()
	}
	if err != nil {
		_, retireErr := plugin.Retire(ctx, 0)
		return nil, nil, core.Errorf(core.KindRuntime, "starting the gateway: %w", errors.Join(err, retireErr))
	}
	return plugin, row, nil
}

// listen returns the listening socket for the next gateway: our duplicate of
// the old one, else a new one on the old port, else on any port.
func (g *gatewayLink) listen(old *store.Gateway) (*os.File, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener != nil {
		return g.listener, nil
	}
	var l net.Listener
	err := errors.New("no gateway before")
	if old != nil && old.BaseURL != "" {
		l, err = net.Listen("tcp4", strings.TrimSuffix(strings.TrimPrefix(old.BaseURL, "http://"), "/v1"))
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
	g.listener = file
	return file, nil
}

func (g *gatewayLink) tenant() *basepb.Fence {
	return &basepb.Fence{SessionId: g.sup.session, Epoch: g.sup.epoch}
}

// arm tells the gateway our routes, keys and the hashes of the bearers that
// are out. It needs nothing that the store does not have.
func (g *gatewayLink) arm(ctx context.Context) error {
	routes, secrets, err := g.routes()
	if err != nil {
		return err
	}
	c, cancel := short(ctx)
	defer cancel()
	_, err = g.client.ApplyRoutes(c, &gatewaypb.ApplyRoutesRequest{Tenant: g.tenant(), Revision: 1, Routes: routes, Secrets: secrets})
	if err != nil {
		return core.Errorf(core.KindRuntime, "telling the gateway its routes: %w", err)
	}
	for _, t := range g.sup.bearers() {
		if _, err := g.client.IssueToken(c, g.tokenRequest(t)); err != nil {
			return core.Errorf(core.KindRuntime, "telling the gateway its bearers: %w", err)
		}
	}
	return nil
}

func (g *gatewayLink) routes() ([]*gatewaypb.Route, []*basepb.Secret, error) {
	snap := g.sup.snap
	var routes []*gatewaypb.Route
	for _, id := range slices.Sorted(maps.Keys(snap.Routes)) {
		r := snap.Routes[id]
		options, err := r.OptionsJSON()
		if err != nil {
			return nil, nil, err
		}
		route := &gatewaypb.Route{Id: r.ID, Driver: r.Driver, OptionsJson: options}
		for _, key := range slices.Sorted(maps.Keys(snap.Models)) {
			if m := snap.Models[key]; m.Route == id {
				route.Models = append(route.Models, &gatewaypb.RouteModel{Key: m.Key, UpstreamId: m.UpstreamID, Modalities: m.Modalities})
			}
		}
		routes = append(routes, route)
	}
	return routes, nil, nil
}

// bearer is what the gateway must know of one token.
type bearer struct {
	hash, ref, route, model string
	holder                  store.Process
}

// bearers lists the gateway tokens that are out.
func (s *Supervisor) bearers() []bearer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []bearer
	for hash, c := range s.caps {
		if c.Kind != capGateway {
			continue
		}
		b := bearer{hash: hash, ref: c.AgentRef}
		if a := s.agents[c.AgentRef]; a != nil {
			rec := a.snapshot()
			b.route, b.model, b.holder = rec.Route, rec.Model, rec.Host.Process
		} else if rec, ok := s.runs[c.AgentRef]; ok {
			b.route, b.model, b.holder = rec.Route, rec.Model, rec.Host.Process
		}
		list = append(list, b)
	}
	return list
}

func (g *gatewayLink) tokenRequest(b bearer) *gatewaypb.IssueTokenRequest {
	return &gatewaypb.IssueTokenRequest{
		Tenant: g.tenant(), AgentRef: b.ref, TokenSha256: b.hash, Routes: []string{b.route}, Models: []string{b.model},
		Holder: toProto(b.holder),
	}
}

// issue mints the bearer of an agent's next engine.
func (g *gatewayLink) issue(ctx context.Context, a *agent, generation uint64) (string, error) {
	token, hash, err := g.sup.mintToken(ctx, a.ref, capGateway, generation)
	if err != nil {
		return "", err
	}
	g.mu.Lock()
	client := g.client
	g.mu.Unlock()
	c, cancel := short(ctx)
	defer cancel()
	_, err = client.IssueToken(c, g.tokenRequest(bearer{
		hash: hash, ref: a.ref, route: a.rec.Route, model: a.rec.Model, holder: a.rec.Host.Process,
	}))
	if err != nil && !g.lost() {
		return "", core.Errorf(core.KindRuntime, "issuing a bearer at the gateway: %w", err)
	}
	return token, nil // a lost gateway is armed again from the store
}

func (g *gatewayLink) lost() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return chanClosed(g.plugin.Done())
}

// revoke takes back an agent's bearers. A gateway that is gone has forgotten
// them already.
func (g *gatewayLink) revoke(ctx context.Context, ref string) {
	g.mu.Lock()
	client := g.client
	g.mu.Unlock()
	c, cancel := short(ctx)
	defer cancel()
	if _, err := client.RevokeToken(c, &gatewaypb.RevokeTokenRequest{Tenant: g.tenant(), AgentRef: ref}); err != nil && !g.lost() {
		g.sup.log.Warn("revoking a bearer", "err", err)
	}
}

// close drops the connection; the process lives on.
func (g *gatewayLink) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.plugin != nil {
		_ = g.plugin.Close()
	}
	if g.listener != nil {
		_ = g.listener.Close()
		g.listener = nil
	}
}
