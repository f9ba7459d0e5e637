package supervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/pluginhost"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
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
	homes    string   // the base URL that the homes tell the engines
	port     heldPort // our duplicate of the listener
	released bool
}

// openGateway starts or adopts the session's gateway and arms it. It returns
// nil when Codex reaches all routes by itself.
func (s *Supervisor) openGateway(ctx context.Context) (*gatewayLink, error) {
	if s.snap.GatewayHash == "" {
		return nil, nil
	}
	g := &gatewayLink{sup: s, hash: s.snap.GatewayHash}
	if err := g.ensure(ctx); err != nil {
		g.close()
		return nil, err
	}
	g.homes = g.base // the caller writes the homes before it launches anything
	return g, nil
}

// adoptGateway connects to the session's gateway so that it can be released. It
// returns nil when none lives.
func (s *Supervisor) adoptGateway(ctx context.Context) (*gatewayLink, error) {
	g := &gatewayLink{sup: s, hash: s.snap.GatewayHash}
	unlock, err := g.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	row, err := g.row(ctx)
	if err != nil {
		return nil, err
	}
	plugin, err := g.adopt(ctx, row)
	if plugin == nil || err != nil {
		return nil, err
	}
	g.use(plugin, row)
	return g, nil
}

// baseURL returns where Codex reaches the gateway; nothing without one.
func (g *gatewayLink) baseURL() string {
	if g == nil {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.base
}

// homesURL returns the base URL that stands in the homes, which is what an
// engine that is launched now is told; nothing without a gateway.
func (g *gatewayLink) homesURL() string {
	if g == nil {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.homes
}

// current returns the gateway that is used now.
func (g *gatewayLink) current() (*pluginhost.Plugin, gatewaypb.GatewayClient) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.plugin, g.client
}

// ensure makes sure that a gateway serves our routes and knows our tokens. After
// an error it is to be called again: a gateway may live and not be armed.
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
	g.use(plugin, row)
	g.holdPort(ctx, row)
	return g.arm(ctx)
}

// use makes plugin the session's gateway, in place of one that is lost or could
// not be armed.
func (g *gatewayLink) use(plugin *pluginhost.Plugin, row *store.Gateway) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.plugin != nil {
		_ = g.plugin.Close() // the process, if it lives, is reached anew
	}
	g.plugin, g.client, g.base = plugin, gatewaypb.NewGatewayClient(plugin.Conn()), row.BaseURL
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
	return g.sup.cfg.Folders.GatewayDir(g.hash)
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
	if err == nil {
		return plugin, nil
	}
	if ctx.Err() == nil && !errors.Is(err, pluginhost.ErrGone) {
		g.sup.log.Warn("the gateway lives and does not answer; it is replaced", "err", err)
	}
	return nil, g.sweep(ctx, row)
}

// sweep ends what is left of a recorded gateway: the process itself, and one
// that a crash between exec and record may have left. A supervisor that leaves
// ends nothing: the gateway may serve others.
func (g *gatewayLink) sweep(ctx context.Context, row *store.Gateway) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if row == nil {
		return nil
	}
	if id := identityOf(row.Process); id.Alive() {
		if _, err := process.Retire(ctx, id, nil); err != nil {
			return err
		}
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
	if err != nil { // nobody else can have adopted it yet: we hold the lock
		_, retireErr := plugin.Retire(ctx, 0)
		return nil, nil, core.Errorf(core.KindRuntime, "starting the gateway: %w", errors.Join(err, retireErr))
	}
	return plugin, row, nil
}

// close drops the connection; the process lives on.
func (g *gatewayLink) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.plugin != nil {
		_ = g.plugin.Close()
	}
	g.port.drop()
}
