package supervisor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// Native agents are threads that an agent's engine starts by itself. They share
// the engine's MCP process with the agent and have no capability of their own:
// the thread that a call names tells them apart. Such a thread is taken for one
// once the engine has said below which thread it is and as what role it was
// started, and that is on record.

// nativeCaller is the native agent of a thread in the engine of a.
func (s *Supervisor) nativeCaller(ctx context.Context, a *agent, thread string) (access.Caller, error) {
	rec := a.snapshot()
	if nativeOf(&rec, thread) == nil && thread != "" && a.hasNatives() {
		var failed error
		if err := a.do(ctx, func(ctx context.Context) { failed = a.refreshNatives(ctx, thread) }); err != nil {
			return access.Caller{}, err
		}
		if failed != nil {
			return access.Caller{}, core.Errorf(core.KindPermission, "invalid native-agent: thread %s can't be told: %w", thread, failed).
				WithRemedy("call again")
		}
		rec = a.snapshot()
	}
	between, err := s.nativeLine(&rec, thread)
	if err != nil {
		return access.Caller{}, err
	}
	caller := s.agentCaller(&rec)
	id := nativeOf(&rec, thread).Agent
	role := s.snap.Agents[id]
	caller.Role, caller.Agent, caller.ThreadID, caller.Between = access.RoleNative, id, thread, between
	caller.Grants = access.Grants{
		Spawns:       s.snap.Coordination.NativeNestedDelegation && s.snap.CanDelegate(id),
		WholeSession: role.Visibility == profile.VisibilitySession, Controls: role.Controls,
	}
	return caller, nil
}

// nativeLine checks that a thread is a native agent that the session's profile
// and homes know, started by one that may start it, and so on up to the agent run
// itself. It returns the roles of the native agents between the two.
func (s *Supervisor) nativeLine(rec *store.AgentRun, thread string) (between []string, err error) {
	n := nativeOf(rec, thread)
	if n == nil {
		return nil, core.Errorf(core.KindPermission, "invalid native-agent: thread %s is neither the thread of agent %s nor that of a native agent in its engine", thread, rec.Agent)
	}
	files := s.cachedSession().Homes[rec.Agent].NativeAgentFiles
	for {
		parent, above := rec.Agent, (*store.NativeRun)(nil)
		if n.ParentThreadID != rec.ThreadID {
			if above = nativeOf(rec, n.ParentThreadID); above == nil || !s.snap.Coordination.NativeNestedDelegation {
				return nil, core.Errorf(core.KindPermission, "invalid native-agent: thread %s was not started by agent %s", n.ThreadID, rec.Agent)
			}
			parent = above.Agent
		}
		switch {
		case n.Status == store.NativeStopped:
			return nil, core.Errorf(core.KindPermission, "invalid native-agent: thread %s was stopped", n.ThreadID)
		case !slices.Contains(s.snap.Agents[parent].CanSpawn, n.Agent) || files[n.Agent] == "":
			return nil, core.Errorf(core.KindPermission, "invalid native-agent: thread %s runs as %q, which is no native agent of %s", n.ThreadID, n.Agent, parent)
		case above == nil:
			return between, nil
		case len(between) == len(rec.Natives):
			return nil, core.Errorf(core.KindPermission, "invalid native-agent: thread %s leads to no agent", thread)
		}
		n, between = above, append(between, above.Agent)
	}
}

// nativeOf finds the native agent of a thread, or of an agent run ref; nil when
// it is not on record.
func nativeOf(rec *store.AgentRun, id string) *store.NativeRun {
	for i := range rec.Natives {
		if n := &rec.Natives[i]; n.ThreadID == id || n.AgentRef == id {
			return n
		}
	}
	return nil
}

// hasNatives reports whether the agent's home lets it have native agents.
func (a *agent) hasNatives() bool {
	return len(a.sup.cachedSession().Homes[a.role.ID].NativeAgentFiles) > 0
}

// refreshNatives asks the engine for its native agents, and for those that are
// named, and records what it says.
func (a *agent) refreshNatives(ctx context.Context, named ...string) error {
	if a.host == nil || a.rec.ThreadID == "" {
		return core.Errorf(core.KindRuntime, "agent %s has no open thread", a.rec.Agent)
	}
	for _, n := range a.rec.Natives {
		if n.Status != store.NativeStopped {
			named = append(named, n.ThreadID)
		}
	}
	c, cancel := short(ctx)
	defer cancel()
	answer, err := a.host.Natives(c, &hostpb.NativesRequest{ThreadIds: named})
	if err != nil {
		return hostError("listing native agents", err)
	}
	if f := answer.GetFailure(); f != nil {
		return failureError("listing native agents", f)
	}
	home := a.sup.cachedSession().Homes[a.role.ID]
	list, fresh := mergeNatives(a.rec.Natives, answer.GetNatives(), a.sup.cfg.random(), a.sup.cfg.now().UTC())
	for _, n := range fresh {
		if file, ok := home.NativeAgentFiles[n.Agent]; ok {
			err := codexhome.VerifyNatives(map[string]string{n.Agent: file}, map[string]string{n.Agent: home.NativeAgentSHA[n.Agent]})
			if err != nil {
				return err
			}
		}
	}
	return a.putNatives(ctx, list, fresh)
}

// putNatives records the native agents, with an audit row for each that is new.
func (a *agent) putNatives(ctx context.Context, list, fresh []store.NativeRun) error {
	if slices.Equal(list, a.rec.Natives) {
		return nil
	}
	before := a.rec.Natives
	a.rec.Natives = list
	err := a.save(ctx, func(tx *store.Tx, c *change) error {
		c.wake = true
		for _, n := range fresh {
			err := a.sup.audit(tx, "native_agent_seen", a.jobID, a.rec.Agent, map[string]any{
				"agent_run_ref": n.AgentRef, "agent": n.Agent, "thread_id": n.ThreadID, "parent_thread_id": n.ParentThreadID,
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		a.rec.Natives = before
	}
	return err
}

// mergeNatives brings a record of native agents up to what the engine tells. What
// one is, and that it was stopped, never changes; one that was detached has its
// live status again; one that the engine does not tell of has nothing that runs.
func mergeNatives(list []store.NativeRun, seen []*hostpb.Native, random io.Reader, now time.Time) (merged, fresh []store.NativeRun) {
	merged = slices.Clone(list)
	for i := range merged {
		n := &merged[i]
		if n.Status == store.NativeStopped {
			continue
		}
		n.Status = store.NativeNotLoaded
		at := slices.IndexFunc(seen, func(s *hostpb.Native) bool { return s.GetThreadId() == n.ThreadID })
		if at >= 0 {
			n.Status = cmp.Or(seen[at].GetStatus(), store.NativeNotLoaded)
		}
	}
	for _, s := range seen {
		if slices.ContainsFunc(merged, func(n store.NativeRun) bool { return n.ThreadID == s.GetThreadId() }) {
			continue
		}
		n := store.NativeRun{
			AgentRef: core.NewAgentRef(random), ThreadID: s.GetThreadId(), ParentThreadID: s.GetParentThreadId(), Agent: s.GetRole(),
			Nickname: s.GetNickname(), Status: cmp.Or(s.GetStatus(), store.NativeNotLoaded), SeenAt: now,
		}
		merged, fresh = append(merged, n), append(fresh, n)
	}
	return merged, fresh
}

// ofNative reports whether a thread is a native agent's: what one asks is asked of
// whoever answers for the agent in whose engine it runs.
func (a *agent) ofNative(ctx context.Context, thread string) bool {
	if nativeOf(&a.rec, thread) == nil && a.hasNatives() {
		if err := a.refreshNatives(ctx, thread); err != nil {
			a.log.Warn("a native agent can't be told", "thread", thread, "err", err)
		}
	}
	return nativeOf(&a.rec, thread) != nil
}

// nativeFrame takes what the engine tells of a thread that is not the agent's.
// What can't be learnt now is asked for again when somebody looks.
func (a *agent) nativeFrame(ctx context.Context, thread string, f *frame) error {
	var now struct {
		Type string `json:"type"`
	}
	switch f.Method {
	case "thread/tokenUsage/updated":
		if !a.ofNative(ctx, thread) {
			return nil
		}
		return a.chargeNative(ctx, thread, f.tokens())
	case "thread/status/changed":
		_ = json.Unmarshal(f.Params.Status, &now) // a shape that we do not read says nothing
	case "thread/closed":
		now.Type = store.NativeNotLoaded
	}
	if now.Type == "" || !a.hasNatives() {
		return nil
	}
	if nativeOf(&a.rec, thread) == nil {
		err := a.refreshNatives(ctx, thread)
		if err == nil || errors.As(err, new(recordError)) {
			return err
		}
		a.log.Warn("a native agent can't be told", "thread", thread, "err", err)
		return nil
	}
	list := slices.Clone(a.rec.Natives)
	for i := range list {
		if list[i].ThreadID == thread && list[i].Status != store.NativeStopped {
			list[i].Status = now.Type
		}
	}
	return a.putNatives(ctx, list, nil)
}
