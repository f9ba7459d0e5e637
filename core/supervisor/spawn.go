package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/admission"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/workspace"
)

// Bounds of a spawn.
const (
	maxBatch     = 32      // jobs in one call
	maxTaskRunes = 200_000 // of one task's text
)

// Spawn admits jobs together or not at all, launches them, and answers once
// every engine exists. A repeat of the same request gets the same jobs.
func (s *Supervisor) Spawn(ctx context.Context, call control.Call, r control.SpawnRequest) (*control.SpawnResponse, error) {
	caller, err := s.admit(ctx, call, control.VerbSpawn, nil)
	if err != nil {
		return nil, err
	}
	if err := checkSpecs(r.Agents); err != nil {
		return nil, err
	}
	key := s.undone.begin(caller.AgentRef, call, r)
	batch, repeated, err := s.admitBatch(ctx, caller, key, r.Agents)
	if err != nil {
		s.undone.forget(caller.AgentRef, call)
		return nil, err
	}
	if repeated {
		return s.spawnResponse(batch, true)
	}
	if err := s.launchBatch(ctx, batch); err != nil {
		s.undone.forget(caller.AgentRef, call)
		return nil, s.forgetBatch(ctx, key, err)
	}
	return s.spawnResponse(batch, false)
}

func checkSpecs(specs []control.SpawnSpec) error {
	if len(specs) == 0 || len(specs) > maxBatch {
		return core.Errorf(core.KindValue, "a spawn takes 1 to %d agents, not %d", maxBatch, len(specs))
	}
	for _, spec := range specs {
		switch {
		case spec.LiteralTask != nil:
			return core.Errorf(core.KindValue, "agent %q takes no literal_task", spec.Agent).WithRemedy("say in `task` what it is to do")
		case utf8.RuneCountInString(spec.Task) > maxTaskRunes:
			return core.Errorf(core.KindValue, "the task of agent %q is longer than %d characters", spec.Agent, maxTaskRunes)
		case workspace.CheckScope(spec.WriteScope) != nil:
			return workspace.CheckScope(spec.WriteScope)
		case len(spec.Attachments) > 0:
			return core.Errorf(core.KindValue, "agent %q takes no attachments", spec.Agent)
		}
	}
	return nil
}

// admitBatch decides and records a batch in one transaction. Prompts are on
// disk before it: a file without a row is garbage, a row without its file
// would be a lie.
func (s *Supervisor) admitBatch(ctx context.Context, caller access.Caller, key string, specs []control.SpawnSpec) (batch spawnAnswer, repeated bool, err error) {
	jobs, err := s.draftJobs(caller, specs)
	defer func() {
		if err != nil || repeated {
			for _, j := range jobs {
				_ = os.RemoveAll(s.cfg.Folders.JobDir(j.JobID)) // garbage: no row names it
			}
		}
	}()
	if err != nil {
		return batch, false, err
	}
	batch.BatchID = jobs[0].BatchID
	for _, j := range jobs {
		batch.JobIDs = append(batch.JobIDs, j.JobID)
	}
	raw, err := batch.encode()
	if err != nil {
		return batch, false, err
	}
	err = s.commit(ctx, func(tx *store.Tx, c *change) error {
		earlier, found, err := s.repeatOf(tx, key)
		if err != nil || found {
			batch, repeated = earlier, found
			return err
		}
		view, err := s.admissionView(tx, caller)
		if err != nil {
			return err
		}
		if err := admission.Decide(view, requests(specs)); err != nil {
			return err
		}
		for i, j := range jobs {
			if err := s.recordJob(tx, c, caller, j, specs[i].Task); err != nil {
				return err
			}
		}
		if key == "" {
			return nil
		}
		return tx.PutSpawnKey(s.session, key, raw)
	})
	return batch, repeated, err
}

// repeatOf returns the batch that the same request started before. A batch that
// was rolled back started nothing.
func (s *Supervisor) repeatOf(tx *store.Tx, key string) (batch spawnAnswer, found bool, err error) {
	if key == "" {
		return batch, false, nil
	}
	raw, found, err := tx.SpawnKey(s.session, key)
	if err == nil && found {
		err = json.Unmarshal(raw, &batch)
	}
	return batch, found && len(batch.JobIDs) > 0, err
}

// forgetBatch makes a request whose batch was rolled back new again.
func (s *Supervisor) forgetBatch(ctx context.Context, key string, cause error) error {
	if key == "" || s.life.Err() != nil {
		return cause
	}
	raw, err := spawnAnswer{}.encode()
	if err == nil {
		err = s.commit(context.WithoutCancel(ctx), func(tx *store.Tx, _ *change) error { return tx.PutSpawnKey(s.session, key, raw) })
	}
	return errors.Join(cause, err)
}

func requests(specs []control.SpawnSpec) []admission.Request {
	list := make([]admission.Request, len(specs))
	for i, spec := range specs {
		list[i] = admission.Request{
			Agent: spec.Agent, TaskKind: spec.TaskKind, Mode: modeOf(spec), HasTask: strings.TrimSpace(spec.Task) != "",
		}
	}
	return list
}

// scopeOf is what a job may change, relative to the workspace: all of it when
// nothing is said, nothing when it only reads.
func scopeOf(spec control.SpawnSpec) []string {
	if modeOf(spec) == admission.ModeWorkspace && len(spec.WriteScope) == 0 {
		return []string{"."}
	}
	return spec.WriteScope
}

func modeOf(spec control.SpawnSpec) string {
	if spec.Mode == "" {
		return admission.ModeReadOnly
	}
	return spec.Mode
}

// draftJobs makes the records of a batch and publishes its prompts.
func (s *Supervisor) draftJobs(caller access.Caller, specs []control.SpawnSpec) ([]*store.Job, error) {
	now, random := s.cfg.now().UTC(), s.cfg.random()
	batch := core.NewBatchID(random)
	rec := s.cachedSession()
	var jobs []*store.Job
	for _, spec := range specs {
		id := core.NewJobID(now, spec.Agent, random)
		if err := folders.MakeDir(s.cfg.Folders.JobDir(id)); err != nil {
			return jobs, err
		}
		ref, err := store.Publish(s.cfg.Folders.JobDir(id), "prompt.txt", []byte(spec.Task))
		if err != nil {
			return jobs, err
		}
		jobs = append(jobs, &store.Job{
			SchemaVersion: store.SchemaVersion, PackageVersion: store.StatePackage,
			JobID: id, SessionID: s.session, RunID: s.runID, ProfileID: rec.ProfileID, AgentRef: core.NewAgentRef(random),
			Agent: spec.Agent, BatchID: batch, ParentJobID: caller.JobID, Depth: s.depth(caller.JobID) + 1,
			TaskKind: spec.TaskKind, Task: ref, Mode: modeOf(spec), WriteScope: scopeOf(spec), Cwd: rec.Workspace,
			Status: core.JobQueued, CreatedAt: now,
		})
	}
	return jobs, nil
}

// depth is how deep a caller is: 0 for the root.
func (s *Supervisor) depth(jobID string) int {
	if j, err := s.cachedJob(jobID); err == nil {
		return j.Depth
	}
	return 0
}

// admissionView gathers what the decision depends on, within its transaction.
func (s *Supervisor) admissionView(tx *store.Tx, caller access.Caller) (admission.View, error) {
	rec, err := tx.Session(s.session)
	if err != nil {
		return admission.View{}, err
	}
	c := s.snap.Coordination
	v := admission.View{
		SessionStatus: rec.Status, CallerAgent: caller.Agent, CallerDepth: s.depth(caller.JobID),
		Limits: admission.Limits{MaxDepth: c.MaxDepth, MaxActiveAgents: c.MaxActiveAgents, MaxWriters: c.MaxActiveWriters},
		Agents: map[string]admission.Agent{}, RoleActive: map[string]int{}, Ancestors: []string{rec.RootAgent},
	}
	for _, a := range s.snap.Agents {
		v.Agents[a.ID] = admission.Agent{CanSpawn: a.CanSpawn, TaskKinds: a.TaskKinds, Permissions: a.Permissions, MaxActive: a.MaxActive, Unavailable: unavailable(rec, a.Route)}
	}
	for id := caller.JobID; id != ""; {
		j, err := tx.Job(id)
		if err != nil {
			return v, err
		}
		if id == caller.JobID {
			v.ParentStatus = j.Status
		}
		v.Ancestors = append(v.Ancestors, j.Agent)
		id = j.ParentJobID
	}
	jobs, err := tx.Jobs(store.JobFilter{Statuses: holding, Strict: true})
	if err != nil {
		return v, err
	}
	for _, j := range jobs {
		if j.ProfileID == rec.ProfileID {
			v.RoleActive[j.Agent]++
		}
		if j.SessionID == s.session {
			v.Active = append(v.Active, admission.ActiveJob{JobID: j.JobID, Agent: j.Agent, Mode: j.Mode})
		}
	}
	return v, nil
}

// unavailable says why a route can't be used; nothing when it can.
func unavailable(rec *store.Session, route string) string {
	if r, ok := rec.RouteAvailability[route]; ok && !r.Available {
		return "route " + route + ": " + r.Reason
	}
	return ""
}

// holding lists the statuses of jobs that hold capacity.
var holding = []core.JobStatus{
	core.JobQueued, core.JobRunning, core.JobWaiting, core.JobCancelling, core.JobDetached, core.JobRecovering,
}

func holdsCapacity(status core.JobStatus) bool { return slices.Contains(holding, status) }

// recordJob writes a job, its agent run, its first input and its audit row.
func (s *Supervisor) recordJob(tx *store.Tx, c *change, caller access.Caller, j *store.Job, task string) error {
	role, err := s.snapshotAgent(j.Agent)
	if err != nil {
		return err
	}
	err = s.audit(tx, "agent_started", j.JobID, caller.Agent, map[string]any{
		"agent": j.Agent, "batch_id": j.BatchID, "task_kind": j.TaskKind, "mode": j.Mode, "task_sha256": j.Task.SHA256,
	})
	if err != nil {
		return err
	}
	if err := c.putJob(tx, j); err != nil {
		return err
	}
	return putAgentRun(tx, &agentDraft{
		session: s.session, ref: j.AgentRef, jobID: j.JobID, role: role, home: s.homeDir(j.Agent),
		input: core.NewInputID(s.cfg.random()), text: task, now: s.cfg.now().UTC(),
	})
}

// launchBatch launches the members side by side. If one can't be launched, all
// are retired.
func (s *Supervisor) launchBatch(ctx context.Context, batch spawnAnswer) error {
	var members []*agent
	for _, id := range batch.JobIDs {
		j, err := s.cachedJob(id)
		if err != nil {
			return err
		}
		role, err := s.snapshotAgent(j.Agent)
		if err != nil {
			return err
		}
		var rec *store.AgentRun
		err = s.view(ctx, func(tx *store.Tx) (err error) {
			rec, err = tx.AgentRun(j.AgentRef)
			return err
		})
		if err != nil {
			return err
		}
		a := s.newAgent(rec, role)
		a.start((*agent).launch)
		members = append(members, a)
	}
	var failed error
	for _, a := range members {
		select {
		case <-a.launched:
			if err := a.launchError(); err != nil && failed == nil {
				failed = fmt.Errorf("agent %s: %w", a.role.ID, err)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if failed == nil {
		return nil
	}
	return s.rollBack(members, failed)
}

// rollBack retires all members of a batch after one could not be launched.
func (s *Supervisor) rollBack(members []*agent, cause error) error {
	if s.life.Err() != nil {
		return context.Cause(s.life) // the next supervisor goes on with them
	}
	for _, a := range members {
		a.kill(&killReason{status: core.JobFailed, text: "atomic batch launch rolled back: " + cause.Error(), rolled: true})
	}
	for _, a := range members {
		<-a.ended
	}
	return core.Errorf(core.KindRuntime, "atomic batch launch rolled back: %w", cause).
		WithRemedy("nothing was started; mend the cause and spawn again")
}

func (s *Supervisor) spawnResponse(batch spawnAnswer, repeated bool) (*control.SpawnResponse, error) {
	answer := &control.SpawnResponse{Atomic: true, BatchID: batch.BatchID, Rejected: []control.RejectedJob{}, Repeated: repeated}
	for _, id := range batch.JobIDs {
		j, err := s.cachedJob(id)
		if err != nil {
			return nil, err
		}
		answer.Accepted = append(answer.Accepted, control.AcceptedJob{
			JobID: j.JobID, AgentRunRef: j.AgentRef, Agent: j.Agent, Status: string(j.Status),
		})
	}
	return answer, nil
}
