package supervisor

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
)

var _ control.Handler = (*Supervisor)(nil)

// identify proves who calls. The kernel's word (peer and parent process) and
// the token's hash must agree; ids in the call are checked against records.
func (s *Supervisor) identify(ctx context.Context, call control.Call, verb string) (access.Caller, error) {
	s.noteCall()
	if err := s.awaitReady(ctx); err != nil {
		return access.Caller{}, err
	}
	if call.Operator {
		return access.Caller{Role: access.RoleOperator}, s.outsideAgents(call.Peer.PID)
	}
	if call.Token == "" {
		return access.Caller{}, core.Errorf(core.KindPermission, "process %d was started by an agent and shows no capability", call.Peer.PID)
	}
	hash := access.HashToken(call.Token.Reveal())
	client := s.cachedSession()
	s.mu.Lock()
	var found *store.Capability
	for h, c := range s.caps {
		if c.Kind == capCaller && access.EqualHash(h, hash) {
			found = &c
		}
	}
	var a *agent
	if found != nil {
		a = s.agents[found.AgentRef]
	}
	s.mu.Unlock()
	if found != nil && client.Kind == KindAmbient && found.AgentRef == client.RootAgentRef {
		return s.clientCaller(ctx, call)
	}
	if a == nil {
		return access.Caller{}, errCapability
	}
	rec := a.snapshot()
	if rec.JobID != "" && found.Generation != rec.Generation {
		return access.Caller{}, errCapability
	}
	if !s.isChildOf(call.Peer, rec.Engine) {
		return access.Caller{}, core.Errorf(core.KindPermission, "invalid MCP caller capability: process %d is not a child of the engine it was given to", call.Peer.PID)
	}
	caller := s.agentCaller(&rec)
	if rec.ThreadID != "" && call.ThreadID != rec.ThreadID && (verb != control.VerbCaller || call.ThreadID != "") {
		var err error
		if caller, err = s.nativeCaller(ctx, a, call.ThreadID); err != nil {
			return access.Caller{}, err
		}
	}
	s.mesh.seen(s, a, call.Peer)
	return caller, nil
}

// outsideAgents refuses to take a process below one of our hosts or engines for
// the operator, whatever it has made of its environment.
func (s *Supervisor) outsideAgents(pid int) error {
	chain, err := access.Ancestors(pid)
	if err != nil {
		return core.Errorf(core.KindPermission, "process %d can't be told from an agent's: %w", pid, err)
	}
	for _, rec := range s.runsNow() {
		if slices.Contains(chain, rec.Host.Process.PID) && identityOf(rec.Host.Process).Alive() ||
			slices.Contains(chain, rec.Engine.PID) && identityOf(rec.Engine).Alive() {
			return core.Errorf(core.KindPermission, "process %d was started by agent %s and shows no capability", pid, rec.Agent)
		}
	}
	return nil
}

var errCapability = core.Errorf(core.KindPermission, "invalid MCP caller capability").
	WithRemedy("the capability belongs to a run that has ended; nothing can be done with it")

// awaitReady parks a call until the recovery after a start has an actor for
// every agent run: before that nobody's capability can be judged. A supervisor
// that goes down takes no calls, except about a session that has ended: no
// other one will.
func (s *Supervisor) awaitReady(ctx context.Context) error {
	if chanClosed(s.ready) && s.cachedSession().Status.Terminal() {
		return nil
	}
	if s.life.Err() != nil {
		return errGoingDown()
	}
	select {
	case <-s.ready:
		return nil
	case <-s.life.Done():
		return errGoingDown()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errGoingDown turns a call away that has had no effect: the next supervisor
// takes it.
func errGoingDown() error {
	e := core.Errorf(core.KindUnavailable, "the supervisor is going down").WithRemedy("nothing is lost, call again")
	e.Reason = control.ReasonDraining
	return e
}

// admit identifies the caller and asks whether it may use the verb.
func (s *Supervisor) admit(ctx context.Context, call control.Call, verb string, job *store.Job) (access.Caller, error) {
	caller, err := s.identify(ctx, call, verb)
	if err != nil {
		return caller, err
	}
	return caller, access.May(caller, verb, s.target(job), s.state())
}

// admitJob identifies the caller before it says whether there is such a job: a
// stranger learns nothing.
func (s *Supervisor) admitJob(ctx context.Context, call control.Call, verb, id string) (access.Caller, *store.Job, error) {
	caller, err := s.identify(ctx, call, verb)
	if err != nil {
		return caller, nil, err
	}
	j, err := s.cachedJob(id)
	if err != nil {
		return caller, nil, err
	}
	return caller, j, access.May(caller, verb, s.target(j), s.state())
}

// Hello names the supervisor. One that leaves is none to talk to.
func (s *Supervisor) Hello(context.Context, control.Call, control.HelloRequest) (*control.HelloResponse, error) {
	if s.life.Err() != nil {
		return nil, errGoingDown()
	}
	return &control.HelloResponse{
		API: control.APIVersion, Build: s.cfg.Build, SessionID: s.session, Epoch: s.epoch, PID: s.self.PID, Ready: chanClosed(s.ready),
	}, nil
}

// Caller tells an agent's MCP process what it may offer.
func (s *Supervisor) Caller(ctx context.Context, call control.Call, _ control.CallerRequest) (*control.CallerResponse, error) {
	caller, err := s.admit(ctx, call, control.VerbCaller, nil)
	if err != nil {
		return nil, err
	}
	answer := callerAnswer(s.snap, caller, s.toolsOf(caller))
	answer.SessionID = s.session
	return answer, nil
}

// callerAnswer tells what a caller is, whom it may spawn and what it is offered.
func callerAnswer(snap *profile.Snapshot, caller access.Caller, tools []string) *control.CallerResponse {
	answer := &control.CallerResponse{
		Role: string(caller.Role), Agent: caller.Agent, JobID: caller.JobID, Profile: snap.ProfileID,
		Spawn: []control.SpawnGrant{}, Tools: tools,
	}
	targets := snap.MeshTargets(caller.Agent)
	if caller.Role == access.RoleNative && !caller.Grants.Spawns {
		targets = nil
	}
	for _, id := range targets {
		target := snap.Agents[id]
		modes := []string{"read-only"}
		if target.Permissions == "workspace-write" && target.Trust != profile.TrustLow {
			modes = append(modes, "workspace-write")
		}
		answer.Spawn = append(answer.Spawn, control.SpawnGrant{
			Agent: id, Description: target.Description, TaskKinds: target.TaskKinds, Modes: modes,
			LiteralOnly: target.Trust == profile.TrustLow, WriteScopeRequired: target.WriteScopeRequired,
		})
	}
	return answer
}

// toolsOf lists what a caller is offered.
func (s *Supervisor) toolsOf(caller access.Caller) []string {
	list := toolsFor(s.snap, caller)
	if !s.cachedSession().Tainted {
		return list
	}
	return slices.DeleteFunc(list, func(name string) bool {
		return name == "agent_spawn" || name == "agents_spawn" || name == "agent_patch_integrate"
	})
}

// toolsFor is toolsOf where nothing is tainted.
func toolsFor(snap *profile.Snapshot, caller access.Caller) []string {
	spawns, controls := snap.CanDelegate(caller.Agent), snap.Agents[caller.Agent].Controls
	if caller.Role == access.RoleNative {
		spawns, controls = caller.Grants.Spawns, caller.Grants.Controls
	}
	return append(tools(caller, spawns), controlsOf(controls)...)
}

// controlsOf lists the control tools of a role: those of the actions that it was
// granted on any other. Who controls in any way can look.
func controlsOf(grants map[string][]string) (list []string) {
	for _, name := range controlTools {
		action := strings.TrimSuffix(strings.TrimPrefix(name, "agent_"), "_record")
		for _, granted := range grants {
			if action == control.ActionInspect || slices.Contains(granted, action) {
				list = append(list, name)
				break
			}
		}
	}
	return list
}

// controlTools are the tools of all control actions, in the order they are
// offered in.
var controlTools = []string{
	"agent_inspect", "agent_trace", "agent_trace_record", "agent_steer", "agent_interrupt", "agent_pause", "agent_continue", "agent_finalize",
	"agent_compact", "agent_set_effort", "agent_respond", "agent_fork", "agent_detach", "agent_stop",
}

// tools lists what a caller is offered, in the order it is offered in.
func tools(caller access.Caller, spawns bool) []string {
	if caller.Role == access.RoleRoot || spawns {
		return []string{
			"agent_spawn", "agents_spawn", "agent_status", "agents_wait", "agent_result", "agent_cancel",
			"agent_result_accept", "agent_result_reject", "agent_patch_integrate",
		}
	}
	return []string{"agent_status", "agents_wait", "agent_result"}
}

// Session returns the public record.
func (s *Supervisor) Session(ctx context.Context, call control.Call, _ control.SessionRequest) (*control.SessionView, error) {
	caller, err := s.admit(ctx, call, control.VerbSession, nil)
	if err != nil {
		return nil, err
	}
	view := s.SessionView()
	if caller.Role == access.RoleOperator {
		view.Capacity = s.capacity(ctx)
		view.Processes = s.processes()
		view.Evidence = s.evidence()
		view.Homes = ViewHomes(s.cachedSession())
	}
	return view, nil
}

// Jobs lists the jobs that the caller may see.
func (s *Supervisor) Jobs(ctx context.Context, call control.Call, r control.JobsRequest) (*control.JobsResponse, error) {
	caller, err := s.admit(ctx, call, control.VerbJobs, nil)
	if err != nil {
		return nil, err
	}
	answer := &control.JobsResponse{Jobs: []control.JobView{}, Capacity: *s.capacity(ctx)}
	for _, id := range r.JobIDs {
		_, j, err := s.admitJob(ctx, call, control.VerbJobs, id)
		if err != nil {
			return nil, err
		}
		answer.Jobs = append(answer.Jobs, s.jobView(j))
	}
	if len(r.JobIDs) == 0 {
		for _, j := range s.allJobs() {
			if access.May(caller, control.VerbJobs, s.target(j), s.state()) == nil {
				answer.Jobs = append(answer.Jobs, s.jobView(j))
			}
		}
	}
	s.tellCaller(call, caller, answer.Jobs)
	return answer, nil
}

// Follow streams what happens to a person at a terminal.
func (s *Supervisor) Follow(ctx context.Context, call control.Call, r control.FollowRequest, emit func(control.FollowEvent) error) error {
	if _, err := s.admit(ctx, call, control.VerbFollow, nil); err != nil {
		return err
	}
	if r.AfterSeq == 0 {
		view := s.SessionView()
		if err := emit(control.FollowEvent{At: s.cfg.now().UTC(), Type: "session", Status: view.Status, Session: view}); err != nil {
			return err
		}
	}
	return s.hub.follow(ctx, r.AfterSeq, s.told, emit)
}

// auditPage is the default length of an audit page.
const auditPage = 1000

// Audit reads the trail.
func (s *Supervisor) Audit(ctx context.Context, call control.Call, r control.AuditRequest) (*control.AuditResponse, error) {
	if _, err := s.admit(ctx, call, control.VerbAudit, nil); err != nil {
		return nil, err
	}
	return ReadAudit(ctx, s.store, s.session, r)
}

// ReadAudit reads a page of a session's audit trail.
func ReadAudit(ctx context.Context, st *store.Store, session string, r control.AuditRequest) (*control.AuditResponse, error) {
	limit := r.Limit
	if limit <= 0 || limit > auditPage {
		limit = auditPage
	}
	answer := &control.AuditResponse{Rows: []control.AuditView{}}
	err := st.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.AuditRows(session, r.AfterSeq, limit+1)
		for i, row := range rows {
			if i == limit {
				answer.More = true
				break
			}
			answer.Rows = append(answer.Rows, control.AuditView{
				Seq: row.Seq, At: row.At, Event: row.Event, SessionID: row.SessionID, RunID: row.RunID,
				JobID: row.JobID, Caller: row.Caller, Details: row.Details,
			})
		}
		return err
	})
	return answer, err
}

// Stop ends the session: who is at work may give his result within the grace,
// then everything is retired.
func (s *Supervisor) Stop(ctx context.Context, call control.Call, r control.StopRequest) (answer *control.StopResponse, err error) {
	if _, err := s.admit(ctx, call, control.VerbStop, nil); err != nil {
		return nil, err
	}
	if r.GraceSeconds < 0 || r.GraceSeconds > 3600 {
		return nil, core.Errorf(core.KindValue, "grace_seconds %v is out of range", r.GraceSeconds).WithRemedy("use 0 to 3600")
	}
	unlock, err := s.lockSession(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s.stopping.Store(true)
	defer func() {
		if err != nil { // nobody stops it now: what was due goes on
			s.stopping.Store(false)
			_ = s.commit(s.life, waking)
		}
	}()
	asked, err := s.windDown(ctx, r.GraceSeconds)
	if err != nil {
		return nil, err
	}
	if err := s.stopNow(context.WithoutCancel(ctx), asked); err != nil {
		return nil, err
	}
	answer = &control.StopResponse{Session: *s.SessionView(), Survivors: []control.ProcessView{}}
	for _, rec := range s.runsNow() {
		for _, p := range rec.Survivors {
			if identityOf(p).Alive() {
				answer.Survivors = append(answer.Survivors, control.ProcessView{Role: p.Command, Owner: rec.AgentRef, PID: p.PID, Alive: true})
			}
		}
	}
	return answer, nil
}

// spawnAnswer is what a request key remembers: the jobs it started.
type spawnAnswer struct {
	BatchID string   `json:"batch_id"`
	JobIDs  []string `json:"job_ids"`
}

func (a spawnAnswer) encode() ([]byte, error) { return json.Marshal(a) }
