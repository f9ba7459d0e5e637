package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"
	"time"

	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// Codex never restarts an MCP server that died, so we tell it to: at most
// meshReloads times within meshWindow for one agent.
const (
	meshReloads = 3
	meshWindow  = 10 * time.Minute
	meshServer  = "mmo_mesh"
)

// meshWatch knows the MCP processes of the agents and notices their death.
type meshWatch struct {
	mu      sync.Mutex
	watched map[process.Identity]bool
	reloads map[string][]time.Time // agent run ref -> times of the last reloads
}

// seen notes the MCP process that an agent's call came from.
func (m *meshWatch) seen(s *Supervisor, a *agent, peer access.Peer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watched == nil {
		m.watched, m.reloads = map[process.Identity]bool{}, map[string][]time.Time{}
	}
	if m.watched[peer.Process] {
		return
	}
	handle, err := process.Open(peer.Process)
	if err != nil {
		return // gone already; its successor will call
	}
	m.watched[peer.Process] = true
	engine := a.snapshot().Engine
	s.wg.Go(func() {
		defer handle.Close()
		select {
		case <-handle.Done():
		case <-a.ended:
			return
		}
		m.mu.Lock()
		delete(m.watched, peer.Process)
		m.mu.Unlock()
		if a.snapshot().Engine == engine && identityOf(engine).Alive() {
			s.reloadMesh(a)
		}
	})
}

// allowed takes one reload from the agent's share.
func (m *meshWatch) allowed(ref string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	var recent []time.Time
	for _, t := range m.reloads[ref] {
		if now.Sub(t) < meshWindow {
			recent = append(recent, t)
		}
	}
	ok := len(recent) < meshReloads
	if ok {
		recent = append(recent, now)
	}
	m.reloads[ref] = recent
	return ok
}

// reloadMesh makes an agent's engine start its MCP servers again.
func (s *Supervisor) reloadMesh(a *agent) {
	event, now := "mesh_reloaded", s.cfg.now()
	if !s.mesh.allowed(a.ref, now) {
		event = "mesh_unavailable"
	}
	_ = a.do(s.life, func(ctx context.Context) {
		if a.host == nil || ctx.Err() != nil {
			return
		}
		err := s.commit(ctx, func(tx *store.Tx, _ *change) error {
			return s.audit(tx, event, a.jobID, "supervisor", map[string]any{"agent": a.rec.Agent})
		})
		if err != nil {
			a.broken(err)
			return
		}
		if event == "mesh_unavailable" {
			a.follow("notice", "its MCP process died too often; its tools stay unavailable")
			return
		}
		a.follow("notice", "MCP process lost; Codex starts it again")
		c, cancel := context.WithTimeout(ctx, controlTimeout(rpcTimeout))
		defer cancel()
		answer, err := a.host.ReloadTools(c, &hostpb.ReloadToolsRequest{
			Fence: a.fence(), CommandId: "reload-" + newInstance(s.cfg.random()), Server: meshServer, TimeoutMs: uint32(rpcTimeout.Milliseconds()),
		})
		if err != nil || answer.GetFailure() != nil {
			a.log.Warn("reloading the MCP servers", "err", err, "failure", answer.GetFailure())
		}
	})
}

// undelivered remembers spawns whose answer the model may never have seen: the
// MCP process died after the jobs were started. When the model asks for the
// very same in the same turn again, it gets the same jobs.
type undelivered struct {
	mu    sync.Mutex
	calls map[string]*spawnCall // agent run ref + call id -> spawn
}

type spawnCall struct {
	ref, turn, digest, key string
	failed                 bool
}

// begin notes a spawn and returns its idempotency key: that of an equal spawn of
// the same turn whose delivery failed, else the call's own. Spawns of earlier
// turns are forgotten: their time is over.
func (u *undelivered) begin(ref string, call control.Call, r control.SpawnRequest) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	digest, key := spawnDigest(r), call.Key()
	if key != "" {
		key = ref + "/" + key // a key is its caller's own
	}
	for id, c := range u.calls {
		switch {
		case c.ref != ref:
		case c.turn != call.TurnID:
			delete(u.calls, id)
		case c.failed && c.digest == digest:
			delete(u.calls, id)
			key = c.key
		}
	}
	if key != "" && call.CallID != "" {
		if u.calls == nil {
			u.calls = map[string]*spawnCall{}
		}
		u.calls[ref+"/"+call.CallID] = &spawnCall{ref: ref, turn: call.TurnID, digest: digest, key: key}
	}
	return key
}

// forget drops a spawn that started nothing.
func (u *undelivered) forget(ref string, call control.Call) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.calls, ref+"/"+call.CallID)
}

// failed notes that Codex saw a tool call fail.
func (u *undelivered) failed(ref, callID string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c := u.calls[ref+"/"+callID]; c != nil {
		c.failed = true
	}
}

func spawnDigest(r control.SpawnRequest) string {
	raw, err := json.Marshal(r)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
